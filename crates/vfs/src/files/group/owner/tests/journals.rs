//! A journal that was left by a process that is gone: SQLite rolls it back, unless somebody has the lock of a writer.

use super::*;
use crate::files::group::protocol::Seen;
use litefoot_storage::file::{FileKind, Medium, OpenMode};
use std::path::Path;
use std::time::Duration;

/// Whoever waits for its turn is refused: another connection has it.
#[test]
fn beside_a_journal_a_statement_that_writes_gets_the_lock_of_a_reader_and_waits_for_no_turn() {
    for is_there in [false, true] {
        let medium = SimMedium::new();
        // Before the database has an owner.
        if is_there {
            let journal = Path::new("/app.db-journal");
            let journal = medium.open(journal, FileKind::Journal, OpenMode::Create).unwrap();
            journal.write_at(&[1; 512], 0).unwrap();
        }
        let (vfs, database, _member) = held_group_on(&medium);
        let queue = database.writer_queue();
        queue.enter(u64::MAX, Duration::ZERO);
        queue.writes(u64::MAX);
        let mut other = member(&vfs, &database);
        let data =
            [statement::encode(false, MembersStatement { is_autocommit: true, shows: Shows::Outcome }), 0];
        let begun = other.ask(Operation::Begin, FileOf::Main, (0, 0), &data);
        let level = other.0.main().unwrap().connection_state().unwrap().reader_slot.level();
        if is_there {
            let seen = Seen::decode(&other.0.buffer[..begun.unwrap().bytes]);
            assert_eq!((level, seen.journal), (Level::Shared, Some(true)));
        } else {
            assert!(begun.is_err() && level == Level::None);
        }
    }
}
