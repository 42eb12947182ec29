//! A member's wal-index: its recovery, and the locks of a transaction.

use super::*;
use crate::sync::wal_index::{CHECKPOINT_SLOT, READ_SLOTS};
use litefoot_storage::os::NamelessMemory;

#[test]
fn a_recovery_of_the_index_whose_owner_ends_changes_nothing_that_others_have() {
    let memory = Arc::new(NamelessMemory::new().unwrap());
    for (recovers, expected) in [(true, 0), (false, 9)] {
        memory.grow(REGION as u64).unwrap();
        let mut seen = None;
        with_owners(&[Operation::Read], |link, member| {
            let index = member.index.begin_of_test(&memory);
            link.recovery.note_regions(member.index.regions());
            let (log, _) = MemberCompanion::open(link.clone(), FileOf::Wal, OPEN_LOG).unwrap();
            let slots = (CHECKPOINT_SLOT, READ_SLOTS - CHECKPOINT_SLOT);
            member.shm_lock(slots.0, slots.1, true).unwrap();
            if !recovers {
                member.shm_unlock(slots.0, slots.1).unwrap();
            }
            let read = link.read_log(&mut [0; 536], 32);
            // SQLite copies what it has made until then.
            // SAFETY: a region is longer.
            unsafe { index.as_ptr().add(200).write(9) };
            let mut found = [7];
            memory.read_at(&mut found, 200).unwrap();
            if recovers {
                member.shm_unlock(slots.0, slots.1).unwrap();
            }
            let mapped = member.shm_map(0, REGION, true).unwrap();
            seen = Some((read.is_err(), found[0], mapped == Some(index)));
            member.shm_unmap(false).unwrap();
            Box::new(log).close().unwrap();
        });
        assert_eq!(seen, Some((true, expected, true)));
    }
}

#[test]
fn what_a_transaction_has_written_is_kept_until_it_has_no_lock() {
    const READ_SLOT: usize = READ_SLOTS + 1;
    let mut kept = Vec::new();
    with_owners(&[], |link, member| {
        let (log, _) = MemberCompanion::open(link.clone(), FileOf::Wal, OPEN_LOG).unwrap();
        member.shm_map(0, REGION, true).unwrap();
        for order in [[WRITE_SLOT, READ_SLOT], [READ_SLOT, WRITE_SLOT]] {
            let is_kept = || link.wal_reads.lock().own.are_whole();
            member.shm_lock(READ_SLOT, 1, false).unwrap();
            let mut seen = vec![is_kept()];
            member.shm_lock(WRITE_SLOT, 1, true).unwrap();
            for slot in order {
                seen.push(is_kept());
                member.shm_unlock(slot, 1).unwrap();
            }
            seen.push(is_kept());
            kept.push(seen);
        }
        member.shm_unmap(false).unwrap();
        Box::new(log).close().unwrap();
    });
    assert_eq!(kept, [[false, true, true, false]; 2]);
}
