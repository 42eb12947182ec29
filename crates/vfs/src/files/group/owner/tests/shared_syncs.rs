//! Commits that share a sync, of members and of the owner's own: what others see meanwhile, and what a power cut leaves.

use super::*;
use crate::commit::wal::Wal;
use crate::sync::refused_writer::Attempts;
use std::time::Instant;

/// Who comes behind a commit that has given its lock up, and is not durable yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Nobody,
    Reader,
    Begin,
    /// A statement that writes, up to its beginning, and to its end without a commit.
    Writer,
    WriterThatEnds,
    /// Another commit, which waits for its own sync.
    Commit,
    Checkpoint,
}

/// The locks of a member's transaction that writes.
fn begin_to_write(member: &mut Member) {
    begin(member, Moment::default(), Shows::Outcome);
    member.main(Operation::Lock, Level::Exclusive as u64, 0);
}

/// Commits page 2 up to the sync that it may share; answers what it owes.
fn append(member: &mut Member, filler: u8) -> Option<u64> {
    begin_to_write(member);
    let message = batch(2 * PAGE as u64, &[(2, filler)]);
    let flags = SYNC_WANTED | HAS_JOURNAL | RELEASES;
    let call = Call::new(Operation::Commit, FileOf::Main, flags, 0).with(&message);
    member.0.commit_and_release(&call).unwrap().1
}

/// The same behind other commits. The first ones have a journal of their own (`commit/kept_journal`), and the next one begins the log.
fn append_behind_others(member: &mut Member) -> Option<u64> {
    for filler in [3, 5, 2, 4] {
        begin_to_write(member);
        commit(member, 2 * PAGE as u64, &[(2, filler)], SYNC_WANTED | HAS_JOURNAL | RELEASES).unwrap();
    }
    append(member, 7)
}

/// It comes: a member, or a checkpoint.
fn come(next: Next, other: &mut Member, database: &OpenDatabase) {
    match next {
        Next::Nobody => {}
        Next::Reader => drop(begin(other, Moment::default(), Shows::Always)),
        Next::Begin => drop(begin(other, Moment::default(), Shows::Begun)),
        Next::Writer => drop(begin(other, Moment::default(), Shows::Outcome)),
        Next::WriterThatEnds => {
            begin(other, Moment::default(), Shows::Outcome);
            other.main(Operation::Unlock, Level::None as u64, 0);
        }
        Next::Commit => {
            begin_to_write(other);
            commit(other, 2 * PAGE as u64, &[(2, 9)], SYNC_WANTED | HAS_JOURNAL | RELEASES).unwrap();
        }
        Next::Checkpoint => database.rollback_log().retire(database.db()).unwrap(),
    }
}

/// What power cuts leave of page 2 behind a commit of 7 over 4 and whoever has come.
const CASES: [(Next, &[u8]); 7] = [
    (Next::Nobody, &[4, 7]),
    (Next::Writer, &[4, 7]),
    (Next::Reader, &[7]),
    (Next::Begin, &[7]),
    (Next::WriterThatEnds, &[7]),
    (Next::Commit, &[9]),
    (Next::Checkpoint, &[7]),
];

#[test]
fn a_commit_that_shares_a_sync_is_shown_to_nobody_before_that() {
    for (next, expected) in CASES {
        let medium = SimMedium::new();
        let (vfs, database, mut one) = held_group_on(&medium);
        let owed = append_behind_others(&mut one);
        assert!(owed.is_some() && owed == database.rollback_log().syncs().unsettled());
        let mut other = member(&vfs, &database);
        come(next, &mut other, &database);
        let is_settled = !matches!(next, Next::Nobody | Next::Writer | Next::Checkpoint);
        assert_eq!(database.rollback_log().syncs().unsettled().is_none(), is_settled, "{next:?}");
        let now = database.db().shared().changes().now();
        let is_shown = database.board().unwrap().may_show(now);
        assert_eq!(is_shown, matches!(next, Next::Reader | Next::Begin), "{next:?}");
        let found = after_power_cuts(&medium);
        assert_eq!(found, expected, "{next:?}");
        one.0.main().unwrap().await_owed_sync(owed).unwrap();
        assert!(!after_power_cuts(&medium).contains(&4), "{next:?}");
    }
}

/// A panic in the owner, or what else makes its memory doubtful: no member commits any more, and the files have what was acknowledged.
#[test]
fn the_latch_of_an_owner_is_that_of_all_members() {
    let medium = SimMedium::new();
    let (vfs, database, mut one) = held_group_on(&medium);
    assert!(append_behind_others(&mut one).is_some());
    one.0.main().unwrap().await_owed_sync(database.rollback_log().syncs().unsettled()).unwrap();
    database.db().latch_after_panic("on purpose");
    let mut others = [one, member(&vfs, &database)];
    for member in &mut others {
        begin_to_write(member);
        let refused = commit(member, 2 * PAGE as u64, &[(2, 8)], SYNC_WANTED | HAS_JOURNAL | RELEASES);
        let text = refused.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains("internal error") && text.contains("on purpose"), "{text}");
        member.main(Operation::Unlock, Level::None as u64, 0);
    }
    assert_eq!(after_power_cuts(&medium), [7]);
}

/// Its member may hear that it was made, and of nothing else (`group/file_orphan`).
#[test]
fn power_cuts_a_commit_that_waits_for_its_sync_is_durable_before_strangers_come() {
    let medium = SimMedium::new();
    let (_vfs, database, mut one) = held_group_on(&medium);
    assert!(append_behind_others(&mut one).is_some());
    assert_eq!(after_power_cuts(&medium), [4, 7]);
    assert!(database.leave_of_test());
    assert_eq!(after_power_cuts(&medium), [7]);
}

/// A connection of the owner's own process.
fn own(database: &Arc<OpenDatabase>) -> Box<MainFile> {
    let mut own = Box::new(MainFile::new(database.clone(), false, true, false));
    own.control(Control::Connected).unwrap();
    own.connection_state().unwrap().set_handle(inserting());
    own
}

fn journal_path() -> PathBuf {
    Companion::Journal.of(Path::new("/app.db"))
}

/// Its journal.
fn open_journal(vfs: &Arc<Vfs>, own: &MainFile) -> AnyHandle {
    let flags = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_CREATE | SQLITE_OPEN_READWRITE;
    vfs.open_companion_file(&journal_path(), flags, own.connection_state().cloned()).unwrap().handle
}

/// A transaction of the owner's own, up to its commit: SQLite has deleted its journal.
fn write_own(vfs: &Arc<Vfs>, own: &mut MainFile, filler: u8) {
    own.lock(Level::Shared).unwrap();
    own.lock(Level::Reserved).unwrap();
    let mut journal = open_journal(vfs, own);
    journal.write(&[7; 512], 0).unwrap();
    own.lock(Level::Exclusive).unwrap();
    own.write(&[filler; PAGE], PAGE as u64).unwrap();
    own.sync().unwrap();
    journal.close().unwrap();
    vfs.delete(&journal_path(), true, None).unwrap();
}

/// The same to its end.
fn commit_own(vfs: &Arc<Vfs>, own: &mut MainFile, filler: u8) {
    write_own(vfs, own, filler);
    own.control(Control::CommitDone).unwrap();
    own.unlock(Level::Shared).unwrap();
    own.unlock(Level::None).unwrap();
}

fn own_level(own: &MainFile) -> Level {
    own.connection_state().unwrap().reader_slot.level()
}

#[test]
fn a_commit_of_the_owners_own_gives_its_lock_up_before_its_sync_and_is_shown_to_nobody_before_that() {
    for (next, expected) in CASES {
        let medium = SimMedium::new();
        let (vfs, database, _member) = held_group_on(&medium);
        let (mut one, mut other) = (own(&database), member(&vfs, &database));
        for filler in [3, 5, 2, 4] {
            commit_own(&vfs, &mut one, filler);
        }
        write_own(&vfs, &mut one, 7);
        assert!(one.may_release_early());
        let owed = one.commit_and_release().unwrap();
        assert!(owed.is_some() && own_level(&one) == Level::None);
        come(next, &mut other, &database);
        assert_eq!(after_power_cuts(&medium), expected, "{next:?}");
        one.await_owed_sync(owed).unwrap();
        assert!(!after_power_cuts(&medium).contains(&4), "{next:?}");
        one.unlock(Level::Shared).unwrap();
        one.unlock(Level::None).unwrap();
    }
}

#[test]
fn a_commit_of_the_owners_own_is_durable_once_it_is_answered() {
    let medium = SimMedium::new();
    let (vfs, database, _member) = held_group_on(&medium);
    let mut one = own(&database);
    for filler in 3..12 {
        commit_own(&vfs, &mut one, filler);
        assert_eq!(after_power_cuts(&medium), [filler]);
    }
    write_own(&vfs, &mut one, 20);
    medium.set_faults(Faults::failing(DeviceOperation::Sync, FileKind::RedoLog, 0));
    assert!(one.control(Control::CommitDone).is_err() && database.db().latch().reason().is_some());
}

#[test]
fn a_commit_of_the_owners_own_keeps_its_lock_where_nobody_waits_or_sqlite_may_go_on() {
    let (vfs, database, other) = held_group();
    let mut one = own(&database);
    for filler in [3, 5, 2, 4] {
        commit_own(&vfs, &mut one, filler);
    }
    write_own(&vfs, &mut one, 7);
    let mut second = own(&database);
    assert!(one.may_release_early() && !second.may_release_early());
    // A journal that stays, as in exclusive mode.
    let journal = open_journal(&vfs, &one);
    assert!(!one.may_release_early());
    journal.close().unwrap();
    assert!(one.may_release_early());
    other.0.end();
    assert!(!one.may_release_early(), "there is no member");
    one.control(Control::CommitDone).unwrap();
    assert_eq!(own_level(&one), Level::Exclusive);
    one.unlock(Level::None).unwrap();
    second.lock(Level::Shared).unwrap();
    second.unlock(Level::None).unwrap();
}

#[test]
fn sqlite_goes_on_behind_a_lock_that_was_given_up_where_nobody_has_committed() {
    for is_changed in [false, true] {
        let (vfs, database, _member) = held_group();
        let (mut one, mut two) = (own(&database), own(&database));
        for filler in [3, 5, 2, 4] {
            commit_own(&vfs, &mut one, filler);
        }
        write_own(&vfs, &mut one, 7);
        one.control(Control::CommitDone).unwrap();
        assert_eq!(own_level(&one), Level::None);
        if is_changed {
            commit_own(&vfs, &mut two, 8);
        }
        one.unlock(Level::Shared).unwrap();
        assert!(one.fetch(PAGE as u64, PAGE).is_none(), "the lock comes first");
        let mut page = [0; PAGE];
        let read = one.read(&mut page, PAGE as u64);
        assert_eq!(read.is_err(), is_changed, "{read:?}");
        assert_eq!(own_level(&one), if is_changed { Level::None } else { Level::Shared });
        assert!(is_changed || page == [7; PAGE]);
        one.unlock(Level::None).unwrap();
        commit_own(&vfs, &mut one, 9);
    }
}

#[test]
fn a_shared_sync_that_fails_fails_each_commit_that_waits_for_it() {
    let medium = SimMedium::new();
    let (vfs, database, mut one) = held_group_on(&medium);
    let mut owed = None;
    for filler in [3, 5, 2, 4, 6, 7] {
        owed = append(&mut one, filler);
    }
    let last = owed.unwrap();
    assert!(last > 1, "several wait");
    medium.set_faults(Faults::failing(DeviceOperation::Sync, FileKind::RedoLog, 0));
    for number in [last, 1] {
        assert!(one.0.main().unwrap().await_owed_sync(Some(number)).is_err());
    }
    assert!(database.db().latch().reason().is_some());
    let mut other = member(&vfs, &database);
    let reads = other.ask(Operation::Begin, FileOf::Main, (0, 0), &[0, 0]);
    assert!(reads.is_err(), "it would see what is not durable");
    assert_eq!(other.0.main().unwrap().connection_state().unwrap().reader_slot.level(), Level::None);
}

/// Looks at one that waits for a commit of another's, while that is on its way to the medium: the lock that it has, and whether it has the turn.
fn while_one_waits(
    database: &OpenDatabase,
    waits: impl FnOnce() + Send,
    level: impl Fn() -> Level,
) -> (Level, bool) {
    let seen = std::thread::scope(|scope| {
        let (thread, seen) = database.rollback_log().with_state(|_| {
            // The sync needs the log.
            let thread = scope.spawn(waits);
            while !database.rollback_log().syncs().has_leader() {
                std::thread::yield_now();
            }
            (thread, (level(), !database.writer_queue().may_write(u64::MAX)))
        });
        thread.join().unwrap();
        seen
    });
    assert!(database.rollback_log().syncs().unsettled().is_none());
    seen
}

/// A member with commits of its own, and one that was appended and waits for its sync; syncs are long, or not.
fn with_appended(long: bool) -> (Arc<Vfs>, Arc<OpenDatabase>, Member) {
    let (vfs, database, mut one) = held_group();
    assert!(append_behind_others(&mut one).is_some());
    if long {
        database.rollback_log().syncs().seem_long();
    }
    (vfs, database, one)
}

#[test]
fn one_that_waits_for_a_long_sync_before_it_reads_keeps_nobody_from_committing() {
    for (long, shows, was_refused, expected) in [
        (true, Shows::Always, false, (Level::None, false)),
        (true, Shows::Begun, false, (Level::None, false)),
        (true, Shows::Begun, true, (Level::None, false)),
        (false, Shows::Always, false, (Level::Shared, false)),
        (false, Shows::Begun, false, (Level::Reserved, true)),
    ] {
        let (vfs, database, _one) = with_appended(long);
        let mut other = member(&vfs, &database);
        let main = other.0.main().unwrap();
        main.refused = was_refused.then(|| Attempts::another(None, Instant::now()));
        let connection = main.connection_state().unwrap().clone();
        let begins = || drop(begin(&mut other, Moment::default(), shows));
        let seen = while_one_waits(&database, begins, || connection.reader_slot.level());
        assert_eq!(seen, expected, "long: {long}, {shows:?}, refused before: {was_refused}");
        let reached = if shows == Shows::Begun { Level::Reserved } else { Level::Shared };
        assert_eq!(connection.reader_slot.level(), reached);
        other.main(Operation::Unlock, Level::None as u64, 0);
    }
}

#[test]
fn a_members_statement_that_shows_nothing_waits_for_no_sync() {
    for long in [true, false] {
        let (vfs, database, _one) = with_appended(long);
        let mut other = member(&vfs, &database);
        begin(&mut other, Moment::default(), Shows::Outcome);
        assert!(database.rollback_log().syncs().unsettled().is_some());
        other.main(Operation::Unlock, Level::None as u64, 0);
    }
}

#[test]
fn a_statement_of_the_owners_own_takes_its_turn_before_it_reads_where_syncs_are_long() {
    for long in [true, false] {
        let (_vfs, database, _one) = with_appended(long);
        let mut own = own(&database);
        own.lock(Level::Shared).unwrap();
        assert_eq!(database.writer_queue().has_turn(own.id), long);
        assert!(database.rollback_log().syncs().unsettled().is_some(), "it shows nothing yet");
        own.unlock(Level::None).unwrap();
        assert!(!own.try_share() || !long);
        own.unlock(Level::None).unwrap();
        // Another one has its turn: that is told where the lock of a writer is asked for.
        database.writer_queue().enter(u64::MAX, Duration::ZERO);
        database.writer_queue().writes(u64::MAX);
        own.lock(Level::Shared).unwrap();
        assert!(!database.writer_queue().has_turn(own.id));
        own.unlock(Level::None).unwrap();
    }
}

/// A member in WAL mode beside a commit that waits for its sync; syncs are long, or not.
fn beside_committed(long: bool) -> (Arc<OpenDatabase>, Arc<Wal>, Member) {
    let (vfs, database) = group();
    let member = member_in_wal_mode(&vfs, &database);
    let wal = database.wal().unwrap();
    if long {
        wal.commits().seem_long();
    }
    wal.commits().seem_committed();
    database.db().shared().note_durability_wanted();
    (database, wal, member)
}

impl Member {
    /// Asks for a read slot for such a statement.
    fn lock_to_read(&mut self, shows: Shows) {
        let statement = statement::encode(false, MembersStatement { is_autocommit: true, shows });
        self.ask(Operation::ShmLock, FileOf::Main, (READ_SLOTS as u64 + 1, 1), &[statement]).unwrap();
    }
}

#[test]
fn in_wal_mode_a_turn_is_given_up_for_a_long_sync_only() {
    for long in [true, false] {
        let (database, wal, mut member) = beside_committed(long);
        std::thread::scope(|scope| {
            let (waits, has_turn) = wal.commits().with_writer(|_| {
                // The sync needs the log.
                let waits = scope.spawn(|| member.take_turn(Shows::Begun));
                while !wal.commits().has_leader() {
                    std::thread::yield_now();
                }
                (waits, !database.writer_queue().may_write(u64::MAX))
            });
            assert_eq!(has_turn, !long);
            assert!(waits.join().unwrap() && wal.not_durable().is_none());
        });
    }
}

#[test]
fn in_wal_mode_a_statement_that_begins_waits_for_a_long_sync_before_it_reads() {
    for (long, shows, waits) in
        [(true, Shows::Begun, true), (false, Shows::Begun, false), (true, Shows::Outcome, false)]
    {
        let (_database, wal, mut member) = beside_committed(long);
        member.lock_to_read(shows);
        assert_eq!(wal.not_durable().is_none(), waits, "long: {long}, {shows:?}");
    }
}

#[test]
fn in_wal_mode_a_statement_owes_its_wait_to_its_end_where_it_has_its_turn_and_syncs_are_long() {
    for long in [true, false] {
        let (_database, wal, mut member) = beside_committed(long);
        assert!(member.take_turn(Shows::Outcome) && wal.not_durable().is_some());
        // No mark was free for a seat: SQLite has moved one, and asks its owner.
        member.lock_to_read(Shows::Outcome);
        assert_eq!(wal.not_durable().is_some(), long);
        member.main(Operation::ShmUnlock, WRITE_SLOT as u64, 1);
        assert!(wal.not_durable().is_none(), "it ends without a commit");
        let (_database, wal, mut member) = beside_committed(long);
        assert!(member.take_turn(Shows::Outcome));
        member.lock_to_read(Shows::Always);
        assert!(wal.not_durable().is_none(), "another statement shows what it reads");
    }
}

impl Member {
    fn has_turn(&mut self, database: &OpenDatabase) -> bool {
        database.writer_queue().has_turn(self.0.main().unwrap().id)
    }
}

#[test]
fn in_wal_mode_a_statement_that_writes_waits_for_its_turn_before_it_reads_where_syncs_are_long() {
    for (long, shows) in [(true, Shows::Outcome), (false, Shows::Outcome), (true, Shows::Always)] {
        let (database, wal, mut member) = beside_committed(long);
        member.lock_to_read(shows);
        let takes_turn = long && shows == Shows::Outcome;
        assert_eq!(member.has_turn(&database), takes_turn, "long: {long}, {shows:?}");
        member.main(Operation::ShmUnlock, READ_SLOTS as u64 + 1, 1);
        assert!(!member.has_turn(&database), "it ends without using it");
        assert!(wal.not_durable().is_none());
    }
    // The same where everything is durable by then, and it owes no wait.
    let (database, wal, mut member) = beside_committed(true);
    member.lock_to_read(Shows::Outcome);
    let main = member.0.main().unwrap();
    wal.wait_durable(wal.not_durable().unwrap()).unwrap();
    main.unsettled = None;
    assert!(!main.try_unshare_slot(READ_SLOTS + 1, 1));
    member.main(Operation::ShmUnlock, READ_SLOTS as u64 + 1, 1);
    assert!(!member.has_turn(&database));
}

#[test]
fn in_wal_mode_a_statement_begins_anew_where_another_one_has_committed_before_its_turn() {
    let reads_old_index = || {
        let (database, wal, mut member) = beside_committed(true);
        let queue = database.writer_queue();
        queue.enter(u64::MAX, Duration::ZERO);
        let statement =
            statement::encode(false, MembersStatement { is_autocommit: true, shows: Shows::Outcome });
        let mut lock = || {
            let slot = (READ_SLOTS as u64 + 1, 1);
            member.ask(Operation::ShmLock, FileOf::Main, slot, &[statement]).map(drop)
        };
        let locked = std::thread::scope(|scope| {
            let waits = scope.spawn(&mut lock);
            std::thread::sleep(Duration::from_millis(1));
            fill_header(&database);
            queue.leave(u64::MAX);
            waits.join().unwrap()
        });
        if locked.is_ok() {
            // The other one has committed before this one has begun to wait.
            return false;
        }
        lock().unwrap();
        assert!(member.has_turn(&database) && wal.not_durable().is_some(), "nothing was waited for");
        true
    };
    assert!((0..100).any(|_| reads_old_index()));
}

#[test]
fn in_wal_mode_a_statement_with_its_turn_that_begins_to_read_anew_waits_for_no_sync() {
    let (_database, wal, mut member) = beside_committed(true);
    assert!(member.take_turn(Shows::Outcome));
    for _ in 0..2 {
        member.lock_to_read(Shows::Outcome);
        member.main(Operation::ShmUnlock, READ_SLOTS as u64 + 1, 1);
        assert!(wal.not_durable().is_some());
    }
    member.main(Operation::ShmUnlock, WRITE_SLOT as u64, 1);
    assert!(wal.not_durable().is_none(), "it ends without a commit");
}
