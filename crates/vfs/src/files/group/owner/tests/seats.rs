//! Members that have the lock of a reader by their seats, without a log.

use super::*;
use crate::files::group::protocol::STRANGERS;
use crate::sync::file_seats::SeatLock;
use crate::sync::group_board::Board;
use crate::sync::owner_lock::{LOCK_BYTES, LOCK_OFFSET};
use litefoot_storage::file::{Medium, OpenMode, RangeLock};

/// A member that has been told the present, and has ended its transaction.
fn told(member: &mut Member) -> Moment {
    let (_, news) = begin(member, Moment::default(), Shows::Always);
    member.main(Operation::Unlock, Level::None as u64, 0);
    news.unwrap().0
}

fn read(database: &OpenDatabase, member: &Member, told: Moment) -> SeatLock {
    board(database).read(member.0.seat.unwrap(), told)
}

fn board(database: &OpenDatabase) -> &Board {
    database.board().unwrap()
}

/// A transaction of a member's that commits; `false` where somebody is in the way of its commit.
fn write(member: &mut Member, filler: u8) -> bool {
    begin(member, Moment::default(), Shows::Outcome);
    if member.ask(Operation::Lock, FileOf::Main, (Level::Exclusive as u64, 0), &[]).is_err() {
        member.main(Operation::Unlock, Level::None as u64, 0);
        return false;
    }
    commit(member, 2 * PAGE as u64, &[(2, filler)], SYNC_WANTED | HAS_JOURNAL | RELEASES).unwrap();
    true
}

#[test]
fn a_seat_is_a_lock_of_a_reader_until_it_is_given_back_or_its_member_dies() {
    for dies in [false, true] {
        let (vfs, database, mut reader) = held_group();
        let mut writer = member(&vfs, &database);
        let now = told(&mut reader);
        assert_eq!(read(&database, &reader, now), SeatLock::Shared);
        let inside = database.locks().inside();
        assert_eq!((inside.level, inside.are_idle), (Level::Shared, false));
        assert_eq!(database.locks().while_free(|| ()), None);
        assert_eq!(database.locks().while_idle(|| ()), None);
        assert!(reader.0.is_in_transaction() && !reader.0.is_busy);
        assert!(!write(&mut writer, 7), "it reads");
        assert_eq!(first_byte(&mut reader, 2), 2, "and needs no other lock for that");
        if dies {
            reader.0.end();
        } else {
            assert!(board(&database).unread(reader.0.seat.unwrap()) && !reader.0.is_in_transaction());
        }
        assert!(write(&mut writer, 7));
        assert!(!board(&database).may_show(now) && database.locks().while_free(|| ()).is_some());
    }
}

#[test]
fn nobody_begins_by_a_seat_beside_one_that_waits_for_readers() {
    let (vfs, database, mut reader) = held_group();
    let [mut other, mut writer] = [(); 2].map(|()| member(&vfs, &database));
    let now = told(&mut other);
    assert_eq!(told(&mut reader), now);
    assert_eq!(read(&database, &reader, now), SeatLock::Shared);
    begin(&mut writer, Moment::default(), Shows::Outcome);
    assert!(writer.ask(Operation::Lock, FileOf::Main, (Level::Exclusive as u64, 0), &[]).is_err());
    assert!(!board(&database).may_show(now));
    assert_eq!(read(&database, &other, now), SeatLock::Refused);
    // One that goes on to write is refused as well, and reads on.
    let data = [statement::encode(false, MembersStatement::UNKNOWN), 1];
    assert!(reader.ask(Operation::Begin, FileOf::Main, (now.epoch, now.commits), &data).is_err());
    assert!(board(&database).reads(reader.0.seat.unwrap()));
    writer.main(Operation::Unlock, Level::None as u64, 0);
    assert_eq!(read(&database, &other, now), SeatLock::Shared, "nothing was committed");
    // A member that sits down meanwhile finds the gate as it is.
    board(&database).end_read(other.0.seat.unwrap());
    board(&database).end_read(reader.0.seat.unwrap());
    begin(&mut writer, Moment::default(), Shows::Outcome);
    writer.main(Operation::Lock, Level::Exclusive as u64, 0);
    let late = member(&vfs, &database);
    assert_eq!(read(&database, &late, now), SeatLock::Refused);
}

#[test]
fn a_lock_of_a_seat_becomes_one_of_the_handle_with_nobody_in_between() {
    for operation in [Operation::Begin, Operation::Lock] {
        let (vfs, database, mut reader) = held_group();
        let mut writer = member(&vfs, &database);
        let now = told(&mut reader);
        assert_eq!(read(&database, &reader, now), SeatLock::Shared);
        if operation == Operation::Begin {
            let (value, news) = begin(&mut reader, now, Shows::Always);
            assert_eq!((value, news.unwrap().0), (HOLDS, now));
        } else {
            reader.main(operation, Level::Shared as u64, 0);
        }
        assert!(!board(&database).reads(reader.0.seat.unwrap()), "it would wait for itself");
        assert!(!write(&mut writer, 7), "it reads");
        for level in [Level::Reserved, Level::Exclusive] {
            reader.main(Operation::Lock, level as u64, 0);
        }
        reader.main(Operation::Unlock, Level::None as u64, 0);
        assert!(write(&mut writer, 7));
    }
}

#[test]
fn the_end_of_a_read_that_is_asked_for_is_told() {
    for end in [Operation::Unlock, Operation::Close] {
        let (vfs, database, mut reader) = held_group();
        let mut writer = member(&vfs, &database);
        let now = told(&mut reader);
        assert_eq!(read(&database, &reader, now), SeatLock::Shared);
        database.locks().ask_for_ends();
        assert!(!board(&database).unread(reader.0.seat.unwrap()));
        assert!(!write(&mut writer, 7), "the owner has not heard of it");
        reader.main(end, Level::None as u64, 0);
        assert!(write(&mut writer, 7));
    }
}

#[test]
fn a_moment_is_hidden_where_the_database_changes_or_is_not_the_owners_alone() {
    type Change = fn(&OpenDatabase);
    let cases: [(Change, &str); 4] = [
        (|database| database.db().shared().changes().forget(), "another program's journal, or a checkpoint"),
        (|database| database.db().shared().set_owned(false), "it is given away"),
        (|database| database.db().shared().close_board(), "a stranger waits"),
        (|database| database.go_native().unwrap(), "a connection without locks"),
    ];
    for (change, what) in cases {
        let (vfs, database, mut reader) = held_group();
        let now = told(&mut reader);
        assert_eq!(read(&database, &reader, now), SeatLock::Shared, "{what}");
        board(&database).end_read(reader.0.seat.unwrap());
        change(&database);
        let now_or_later = database.db().shared().changes().now();
        for moment in [now, now_or_later] {
            assert_eq!(read(&database, &reader, moment), SeatLock::Refused, "{what}");
        }
        drop(vfs);
    }
}

#[test]
fn a_moment_is_not_shown_where_a_transaction_is_not_held() {
    let (vfs, database, mut one) = held_group();
    let flags = (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_CREATE | SQLITE_OPEN_READWRITE) as u64;
    one.ask(Operation::Open, FileOf::Journal, (flags, 0), &[]).unwrap();
    assert!(begin(&mut one, Moment::default(), Shows::Always).1.is_none(), "a journal is open");
    let now = database.db().shared().changes().now();
    assert!(!board(&database).may_show(now));
    let mut other = member(&vfs, &database);
    one.ask(Operation::Close, FileOf::Journal, (0, 0), &[]).unwrap();
    one.main(Operation::Unlock, Level::None as u64, 0);
    assert_eq!(told(&mut other), now);
    assert!(board(&database).may_show(now));
}

#[test]
fn strangers_that_are_let_in_find_the_lock_of_a_seat_on_the_file() {
    for dies in [false, true] {
        let medium = SimMedium::new();
        let (_vfs, database, mut reader) = held_group_on(&medium);
        let now = told(&mut reader);
        assert_eq!(read(&database, &reader, now), SeatLock::Shared);
        let stranger = medium.open(Path::new("/app.db"), FileKind::Database, OpenMode::ReadWrite).unwrap();
        assert!(database.leave_of_test());
        let may_write = || {
            let (at, bytes) = (LOCK_OFFSET + 2, LOCK_BYTES - 2);
            let is_free = stranger.lock_range(at, bytes, RangeLock::Exclusive).unwrap();
            stranger.lock_range(at, bytes, RangeLock::None).unwrap();
            is_free
        };
        assert!(database.is_multi_process() && !may_write(), "a member reads");
        assert_eq!(first_byte(&mut reader, 2), 2);
        if dies {
            reader.0.end();
        } else {
            assert!(!board(&database).unread(reader.0.seat.unwrap()), "the owner has to hear of its end");
            reader.main(Operation::Unlock, Level::None as u64, 0);
            assert_eq!(read(&database, &reader, now), SeatLock::Refused);
        }
        assert!(may_write(), "{dies}");
    }
}

#[test]
fn a_member_that_goes_on_to_write_beside_strangers_does_so_call_by_call() {
    let (_vfs, database, mut reader) = held_group();
    let now = told(&mut reader);
    assert_eq!(read(&database, &reader, now), SeatLock::Shared);
    assert!(database.leave_of_test());
    assert_eq!(begin(&mut reader, now, Shows::Always), (STRANGERS, None));
    assert!(!board(&database).reads(reader.0.seat.unwrap()));
    for level in [Level::Reserved, Level::Exclusive] {
        reader.main(Operation::Lock, level as u64, 0);
    }
}

#[test]
fn beside_strangers_a_member_has_its_turn_and_no_lock_of_a_writer_before_sqlite_asks_for_it() {
    let medium = SimMedium::new();
    let (vfs, database, mut first) = held_group_on(&medium);
    let mut second = member(&vfs, &database);
    let _stranger = medium.open(Path::new("/app.db"), FileKind::Database, OpenMode::ReadWrite).unwrap();
    assert!(database.is_multi_process());
    let begins = |member: &mut Member| begin(member, Moment::default(), Shows::Outcome).0;
    assert_eq!(begins(&mut first), STRANGERS);
    assert!(!database.is_reserved().unwrap(), "a stranger's journal may wait to be rolled back");
    let number = |member: &Member| member.0.main.as_ref().unwrap().id;
    let queue = database.writer_queue();
    assert!(queue.has_turn(number(&first)));
    first.main(Operation::Lock, Level::Reserved as u64, 0);
    assert!(database.is_reserved().unwrap());
    let statement = MembersStatement { is_autocommit: true, shows: Shows::Outcome };
    let said = [statement::encode(false, statement), 0];
    let refused = second.ask(Operation::Begin, FileOf::Main, (0, 0), &said);
    assert!(matches!(refused, Err(Error::Busy)), "it stands in line, and keeps nobody from committing");
    first.main(Operation::Unlock, Level::None as u64, 0);
    assert_eq!(begins(&mut second), STRANGERS);
    second.main(Operation::Lock, Level::Reserved as u64, 0);
}
