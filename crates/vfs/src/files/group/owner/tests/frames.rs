//! Frames of the log that members read in memory of all, and snapshots whose owner has died.

use super::*;
use crate::open::group::Group;
use crate::sync::shared_frames::FrameMemory;
use crate::sync::wal_index::salts_of;
use litefoot_storage::os::LocalListener;

#[test]
fn frames_are_shared_while_the_group_and_its_log_are_there() {
    for ends in [OpenDatabase::reset_wal as fn(&OpenDatabase), |database| {
        database
            .begin_group(Group::new(LocalListener::bind("litefoot-frames-end").unwrap().unwrap()))
            .unwrap();
        database.end_group();
    }] {
        let (vfs, database) = group();
        let mut member = member_in_wal_mode(&vfs, &database);
        assert_eq!(member.0.buffer.first(), Some(&1), "the member hears of it");
        write_transaction(&mut member);
        let frames = FrameMemory::of(member.0.memory.as_ref().unwrap().memory.clone()).unwrap();
        member.ask(Operation::Read, FileOf::Wal, (0, 32), &[]).unwrap();
        let salts = salts_of(member.0.buffer.first_chunk().unwrap());
        let mut page = [0; PAGE];
        assert!(frames.read(salts, 1, &mut page) && page == [7; PAGE]);
        ends(&database);
        assert!(!frames.read(salts, 1, &mut page), "the next log may have the same salts, and other frames");
    }
}

/// Others count on its length.
#[test]
fn the_file_of_strangers_has_no_frames() {
    let (vfs, database) = group();
    let mut member = member_in_wal_mode(&vfs, &database);
    assert!(member.0.shares_frames());
    member.0.memory.as_mut().unwrap().is_file = true;
    assert!(!member.0.shares_frames());
}

#[test]
fn no_file_is_kept_for_the_snapshot_of_an_owner_whose_file_was_not_taken_over() {
    let (vfs, database) = group();
    let _other = member_in_wal_mode(&vfs, &database);
    let mut orphan = member(&vfs, &database);
    let flags = (SQLITE_OPEN_WAL | SQLITE_OPEN_CREATE | SQLITE_OPEN_READWRITE) as u64;
    assert!(orphan.ask(Operation::KeepFile, FileOf::Main, (7, flags), &[]).is_err());
    // In a transaction of this owner's it has a snapshot of this owner's.
    assert!(orphan.ask(Operation::KeepFile, FileOf::Main, (7, flags), &[]).is_err());
    orphan.0.end();
    assert!(database.wal_index().while_idle(|| ()).is_some(), "nothing is left behind");
}
