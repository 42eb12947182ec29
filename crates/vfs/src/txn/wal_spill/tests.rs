//! Spilling in WAL mode, without a database: SQLite's log, and batches written to a simulated medium.

use super::*;
use crate::memory::sqlite_cache::SqliteCacheReservation;
use crate::options::PageCleaner;
use crate::txn::SpillTarget;
use crate::txn::of_test::{PlainTarget, test_slots};
use crate::txn::spill_policy::SpillPolicy;
use crate::txn::spiller::RunningSpill;
use crate::txn::wal_bytes::tests::store;
use crate::txn::wal_frames::WalWritten;
use crate::txn::wal_frames::tests::{header, offset, write_frame};
use litefoot_storage::wal_file::format::FRAME_HEADER_BYTES;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const PAGE: usize = 512;
/// Pages of the database before the transaction.
const BASE_PAGES: usize = 4;

fn target() -> Arc<PlainTarget> {
    Arc::new(PlainTarget::new(&[0; BASE_PAGES * PAGE]))
}

/// A log with a transaction under way that has written these pages, and the pages that are new to it.
fn frames_with(target: &PlainTarget, memory: usize, pages: &[u32]) -> WalFrames {
    let data = &**target.db().data();
    let policy = SpillPolicy::new(PageCleaner::Foreground, 800);
    let mut frames =
        WalFrames::load(store(memory), SqliteCacheReservation::uncounted(), policy, &[], data).unwrap();
    frames.write(&header(), 0, data).unwrap();
    for (number, page) in pages.iter().enumerate() {
        write_frame(&mut frames, number, *page, 0);
    }
    frames.find_new((BASE_PAGES * PAGE) as u64);
    frames
}

/// Begins to spill pages, behind the last write.
fn begin(frames: &mut WalFrames, target: &Arc<PlainTarget>, pages: Vec<FramePage>) {
    let (unplaced, first) = frames.spill.unplaced(&pages);
    if !unplaced.is_empty() {
        frames.give_slots(&unplaced, test_slots(PAGE, 1000 + first as u64 * 4096));
    }
    let job = frames.job(&pages, false);
    frames.spill.begin(RunningSpill::begin(job, target, false), pages, frames.writes);
}

fn end(frames: &mut WalFrames, target: &PlainTarget) -> Result<()> {
    let batch = frames.spill.take().unwrap();
    let result = batch.wait(target.db());
    frames.end_spill(batch, result)
}

fn pages_of(pages: &[FramePage]) -> Vec<(u32, usize)> {
    pages.iter().map(|page| (page.page_number, page.frame)).collect()
}

fn byte_of(frames: &WalFrames, target: &PlainTarget, number: usize) -> u8 {
    let mut page = [0; PAGE];
    frames.copy_page(number, &mut page, &**target.db().data()).unwrap();
    assert_eq!(page, [page[0]; PAGE], "frame {number}");
    page[0]
}

#[test]
fn the_colder_half_has_no_page_1_and_nothing_that_was_rolled_back() {
    let target = target();
    for (pages, rolled_back_to, colder) in [
        (&[3, 1, 6, 2, 5][..], None, Some(&[(3, 0), (6, 2)][..])),
        // The frames from 2 on were rolled back; one of them has begun anew.
        (&[3, 2, 6, 5, 7], Some(2), Some(&[(3, 0)])),
        (&[3], None, None),
        (&[1, 1, 1, 1], None, None),
    ] {
        let mut frames = frames_with(&target, 1 << 20, pages);
        if let Some(number) = rolled_back_to {
            let mut head = [0; FRAME_HEADER_BYTES];
            head[..4].copy_from_slice(&9_u32.to_be_bytes());
            frames.write(&head, offset(number), &**target.db().data()).unwrap();
        }
        let found = frames.colder_half().map(|pages| pages_of(&pages));
        assert_eq!(found, colder.map(<[_]>::to_vec), "{pages:?}");
        assert_eq!(frames.spill.not_before > 0, found.is_none(), "looks again later");
    }
}

#[test]
fn the_transaction_spills_where_there_is_no_room_and_waits_for_its_batch() {
    let target = target();
    let numbers: Vec<u32> = (2..40).collect();
    let steps = |memory: usize| frames_with(&target, memory, &numbers).next_step();
    let here = SpillStep::Spill { in_background: false, for_good: true };
    let full = SpillStep::Spill { in_background: false, for_good: false };
    assert_eq!([1 << 20, 44 * PAGE, 4 * PAGE].map(steps), [SpillStep::GoOn, here, full]);
    let mut frames = frames_with(&target, 4 * PAGE, &numbers);
    let pages = frames.colder_half().unwrap();
    begin(&mut frames, &target, pages);
    assert!(frames.spill.is_under_way() && frames.next_step() == SpillStep::Wait);
    end(&mut frames, &target).unwrap();
    assert!(!frames.spill.is_under_way());
}

#[test]
fn a_frame_is_read_where_it_was_spilled_unless_it_was_changed_since() {
    let target = target();
    let mut frames = frames_with(&target, 1 << 20, &[3, 6, 2, 5]);
    let pages: Vec<FramePage> = frames.colder_half().unwrap();
    assert_eq!(pages_of(&pages), [(3, 0), (6, 1)]);
    assert_eq!(frames.spill.unplaced(&pages), (vec![3], 0), "page 6 is new");
    begin(&mut frames, &target, pages);
    // SQLite overwrites the page of frame 1, while the batch has the one before.
    frames.write(&[77; PAGE], offset(1) + FRAME_HEADER_BYTES, &**target.db().data()).unwrap();
    end(&mut frames, &target).unwrap();
    let places = [0, 1, 2].map(|frame| frames.spill_place(frame));
    assert_eq!(places, [Some(SpillPlace::Slot(1000)), None, None]);
    assert_eq!([0, 1, 2, 3].map(|number| byte_of(&frames, &target, number)), [3, 77, 2, 5]);
    // The page goes to the place that it has.
    begin(&mut frames, &target, vec![FramePage { page_number: 6, frame: 1 }]);
    end(&mut frames, &target).unwrap();
    assert_eq!(frames.spill_place(1), Some(SpillPlace::Database(6)));
    assert_eq!(byte_of(&frames, &target, 1), 77);
}

#[test]
fn a_transaction_with_early_writes_writes_its_last_new_pages_early_too() {
    let target = target();
    // (frame that was written early, pages of the database, new pages that are left)
    for (early, database_pages, left) in
        [(None, 9, &[][..]), (Some(1), 9, &[(7, 3), (9, 0)]), (Some(1), 8, &[(7, 3)])]
    {
        let mut frames = frames_with(&target, 1 << 20, &[9, 6, 2, 7]);
        if let Some(frame) = early {
            begin(&mut frames, &target, vec![FramePage { page_number: 6, frame }]);
            end(&mut frames, &target).unwrap();
        }
        let mut head = [0; FRAME_HEADER_BYTES];
        head[..4].copy_from_slice(&8_u32.to_be_bytes());
        head[4..8].copy_from_slice(&(database_pages as u32).to_be_bytes());
        frames.write(&head, offset(4), &**target.db().data()).unwrap();
        assert_eq!(pages_of(&frames.last_new_pages()), left, "{early:?} of {database_pages}");
    }
}

#[test]
fn a_transaction_of_which_a_batch_has_failed_cannot_commit() {
    let target = target();
    target.is_full.store(true, Ordering::Relaxed);
    let mut frames = frames_with(&target, 1 << 20, &[6, 7, 8, 9]);
    let pages = frames.colder_half().unwrap();
    begin(&mut frames, &target, pages);
    assert!(end(&mut frames, &target).is_err() && frames.spill.check_complete().is_err());
    assert!((0..4).all(|number| frames.is_in_memory(number)), "nothing has left");
    frames.end_large();
    assert!(frames.spill.check_complete().is_ok(), "the next transaction can");
}

#[test]
fn slots_belong_to_a_complete_transaction_until_it_is_logged() {
    let target = target();
    let mut frames = frames_with(&target, 1 << 20, &[3, 2, 4]);
    begin(&mut frames, &target, vec![FramePage { page_number: 3, frame: 0 }]);
    end(&mut frames, &target).unwrap();
    assert!(frames.spill.has_idle_slots() && frames.spill.slots().is_empty());
    let WalWritten::Commit(transaction) = write_frame(&mut frames, 3, 1, 4) else { panic!("no commit") };
    assert!(!frames.spill.has_idle_slots() && frames.has_spilled_pages(transaction));
    assert_eq!(frames.spill.slots().iter().map(|(number, _)| *number).collect::<Vec<_>>(), [3]);
    assert_eq!(frames.frames_needed(transaction), 4, "the page in a slot, and three behind it");
    frames.revoke(transaction);
    assert!(frames.spill.has_idle_slots() && frames.spill.slots().is_empty());
}
