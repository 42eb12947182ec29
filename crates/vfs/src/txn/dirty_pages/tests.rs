//! Dirty pages against a plain model: the bytes of the database, and which of them are known.

use super::*;
use crate::txn::SpillTarget;
use crate::txn::of_test::PlainTarget;
use proptest::prelude::*;
use std::sync::atomic::Ordering;

const PAGE: usize = 512;
/// Pages of the database before the transaction.
const BASE_PAGES: usize = 6;

#[derive(Clone, Debug)]
enum TxnChange {
    Write(usize, usize, u8),
    WritePage(usize, u8),
    SetLen(usize),
    Settle,
    LeaveSlots,
    WriteNew,
}

fn changes() -> impl Strategy<Value = Vec<TxnChange>> {
    let change = prop_oneof![
        8 => (0..30_usize, any::<u8>()).prop_map(|(page, byte)| TxnChange::WritePage(page, byte)),
        3 => (0..30 * PAGE, 1..3 * PAGE, any::<u8>())
            .prop_map(|(offset, len, byte)| TxnChange::Write(offset, len, byte)),
        1 => (PAGE..30 * PAGE).prop_map(TxnChange::SetLen),
        1 => (1..30_usize).prop_map(|pages| TxnChange::SetLen(pages * PAGE)),
        1 => Just(TxnChange::Settle),
        1 => Just(TxnChange::LeaveSlots),
        1 => Just(TxnChange::WriteNew),
    ];
    prop::collection::vec(change, 1..80)
}

/// The database as the transaction must see it; `None` for bytes that were cut off and not written since.
struct PlainModel(Vec<Option<u8>>);

impl PlainModel {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.0.resize(self.0.len().max(offset + bytes.len()), None);
        for (known, byte) in self.0[offset..].iter_mut().zip(bytes) {
            *known = Some(*byte);
        }
    }

    fn differs_at(&self, bytes: &[u8]) -> Option<usize> {
        self.0.iter().zip(bytes).position(|(known, byte)| known.is_some_and(|known| known != *byte))
    }
}

fn dirty_pages(target: &PlainTarget, page_bytes: usize, pages: usize, most_bytes: usize) -> DirtyPages {
    let mut dirty = DirtyPages::new(target.db(), page_bytes, (pages * page_bytes) as u64);
    dirty.memory = PageMemory::new(MemoryReservation::fixed(most_bytes), page_bytes);
    dirty
}

fn read_all(dirty: &DirtyPages, target: &PlainTarget) -> Vec<u8> {
    let mut bytes = vec![1; dirty.len() as usize];
    dirty.read(&mut bytes, 0, &|buf, offset| before(target, buf, offset)).unwrap();
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn what_was_written_is_read_and_committed_wherever_it_lies(
        changes in changes(),
        most_bytes in 0..12 * PAGE,
        logged in prop::collection::vec(7..30_u32, 0..8),
    ) {
        let base: Vec<u8> = (0..BASE_PAGES * PAGE).map(|at| (at / PAGE + 1) as u8).collect();
        let target = Arc::new(PlainTarget::new(&base));
        *target.logged.lock().unwrap() = logged;
        let mut dirty = dirty_pages(&target, PAGE, BASE_PAGES, most_bytes);
        let mut model = PlainModel(base.into_iter().map(Some).collect());
        let mut has_left_slots = false;
        for change in changes {
            match change {
                TxnChange::Write(offset, len, byte) => {
                    dirty.write(&target, &vec![byte; len], offset as u64).unwrap();
                    model.write(offset, &vec![byte; len]);
                }
                TxnChange::WritePage(page, byte) => {
                    dirty.write(&target, &[byte; PAGE], (page * PAGE) as u64).unwrap();
                    model.write(page * PAGE, &[byte; PAGE]);
                }
                TxnChange::SetLen(len) => {
                    dirty.set_len(&target, len as u64).unwrap();
                    model.0.resize(len, None);
                }
                TxnChange::Settle => dirty.settle(target.db()).unwrap(),
                TxnChange::LeaveSlots => {
                    dirty.settle(target.db()).unwrap();
                    dirty.leave_slots(target.db()).unwrap();
                    prop_assert!(!dirty.has_slots() && dirty.in_slots().is_empty());
                    has_left_slots = true;
                }
                TxnChange::WriteNew => dirty.write_new(&target).unwrap(),
            }
            prop_assert_eq!(dirty.len(), model.0.len() as u64);
            prop_assert_eq!(model.differs_at(&read_all(&dirty, &target)), None);
            let most = most_bytes.max(FEWEST_PAGES * PAGE) + PAGE;
            prop_assert!(has_left_slots || dirty.memory.pages() * PAGE <= most, "of {most}");
            let early = dirty.spill.map.numbers().filter(|number| {
                matches!(dirty.spill.map.get(*number), Some(SpillPlace::Database(_)))
            });
            for number in early.collect::<Vec<_>>() {
                prop_assert!(number > BASE_PAGES as u32 && !target.log_contains(number), "{number} is early");
            }
        }
        dirty.write_new(&target).unwrap();
        prop_assert!(dirty.spill.is_complete());
        write_in_place(&*target, &dirty).unwrap();
        // Pages that the transaction has written early and cut off go with its end.
        target.db().file_end().cut_behind(0);
        let mut file = vec![1; model.0.len() + PAGE];
        prop_assert_eq!(target.db().data().read_at(&mut file, 0).unwrap(), model.0.len());
        prop_assert_eq!(model.differs_at(&file), None);
        dirty.end(target.db());
        prop_assert_eq!(target.db().counters().txn_dirty_bytes.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_bulk_load_is_written_early_and_random_changes_go_to_slots() {
    let target = Arc::new(PlainTarget::new(&[0; 40 * PAGE]));
    let mut dirty = dirty_pages(&target, PAGE, 40, 8 * PAGE);
    for page in (10..40).chain(40..70) {
        dirty.write(&target, &[page as u8; PAGE], (page * PAGE) as u64).unwrap();
    }
    dirty.settle(target.db()).unwrap();
    let slots: Vec<u32> = dirty.in_slots().into_iter().map(|(number, _)| number).collect();
    assert!(slots.len() > 20 && slots.iter().all(|number| (11..=40).contains(number)), "{slots:?}");
    let early = target.early.lock().unwrap().iter().map(|(_, bytes)| bytes / PAGE).sum::<usize>();
    assert!((20..=30).contains(&early) && dirty.has_pages_in_file(), "{early} pages early");
    assert_eq!(dirty.changed_numbers().collect::<Vec<_>>(), (11..=40).collect::<Vec<_>>());
    assert_eq!(dirty.page_numbers().len(), 60);
}

#[test]
fn page_1_is_never_spilled() {
    let target = Arc::new(PlainTarget::new(&[0; 40 * PAGE]));
    let mut dirty = dirty_pages(&target, PAGE, 40, 0);
    for page in 0..40 {
        dirty.write(&target, &[7; PAGE], (page * PAGE) as u64).unwrap();
    }
    dirty.settle(target.db()).unwrap();
    assert!(dirty.in_memory().any(|number| number == 1) && !dirty.spill.map.contains(1));
}

#[test]
fn a_batch_that_fails_fails_the_transaction() {
    let target = Arc::new(PlainTarget::new(&[0; 4 * PAGE]));
    target.is_full.store(true, Ordering::Relaxed);
    let mut dirty = dirty_pages(&target, PAGE, 4, 0);
    let write = |dirty: &mut DirtyPages, page: usize| dirty.write(&target, &[7; PAGE], (page * PAGE) as u64);
    let failed = (4..20).any(|page| write(&mut dirty, page).is_err());
    assert!(failed && !dirty.spill.is_complete());
}

#[test]
fn a_page_size_that_cannot_be_is_committed_as_it_is() {
    let mut before = vec![0; 1536];
    before[..16].copy_from_slice(b"SQLite format 3\0");
    before[16..18].copy_from_slice(&512u16.to_be_bytes());
    let database = Arc::new(PlainTarget::new(&before));
    // (bytes of a page as page 1 says, length of the database, bytes of a page in the commit)
    for (says, len, bytes) in [
        (0u16, 1536, 512),
        (7, 1536, 512),
        (511, 1536, 512),
        (1024, 1536, 512),
        (32_768, 1536, 512),
        (512, 1536, 512),
        // A VACUUM to another size.
        (1024, 1024, 1024),
    ] {
        let mut dirty = DirtyPages::new(database.db(), 512, 1536);
        let mut page = before[..512].to_vec();
        page[16..18].copy_from_slice(&says.to_be_bytes());
        dirty.write(&database, &page, 0).unwrap();
        dirty.set_len(&database, len).unwrap();
        assert_eq!(dirty.new_page_bytes().unwrap(), bytes, "{says} of {len}");
    }
}
