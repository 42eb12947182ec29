//! Members whose connections come through another VFS, as with stock SQLite below it.

use crate::kit::{MODES, Process, await_owned, count, create, with_options};
use crate::shim::Kind;
use std::process::Command;

const INSERTS: i64 = 5;

/// A command that runs this test once more, by a VFS above litefoot.
fn through(kind: Kind) -> Command {
    let mut command = with_options("sharing=group");
    command.env("GROUP_SHIM", format!("{kind:?}"));
    command
}

#[test]
fn members_may_come_through_another_vfs() {
    for mode in MODES {
        for kind in [Kind::Through, Kind::OwnNames, Kind::OwnMain, Kind::OwnBeside, Kind::Deaf] {
            let directory = tempfile::tempdir().unwrap();
            let (path, _vfs, db) = create(&directory, mode);
            let mut member = Process::start_by(through(kind), "obey", &path, 1);
            let is_stranger = member.has_open(&path);
            for n in 0..INSERTS {
                member.run(&format!("INSERT INTO t VALUES(1, {n}, randomblob(9000))"));
                member.run(&format!("BEGIN; INSERT INTO t VALUES(2, {n}, 'a'); ROLLBACK"));
            }
            assert_eq!(count(&db), INSERTS, "{mode}, {kind:?}");
            // One that tells of no commits is none.
            assert_eq!(is_stranger, kind == Kind::Deaf, "{mode}, {kind:?}");
            member.end();
            await_owned(&db);
            db.execute("INSERT INTO t VALUES(3, 1, 'a')", []).unwrap();
        }
    }
}

#[test]
fn threads_of_one_member_may_come_through_a_vfs_with_names_of_its_own() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        let threads = Process::start_by(through(Kind::OwnNames), "write in threads", &path, 1);
        threads.end();
        assert_eq!(count(&db), crate::THREADS * crate::OPENINGS, "{mode}");
    }
}
