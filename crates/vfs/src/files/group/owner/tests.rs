use super::*;
use crate::ffi::codes::{
    SQLITE_OPEN_CREATE, SQLITE_OPEN_MAIN_JOURNAL, SQLITE_OPEN_READWRITE, SQLITE_OPEN_WAL,
};
use crate::files::connection_state::MembersStatement;
use crate::files::durable_reads::Shows;
use crate::files::group::batch::{Batch, News, encode_page};
use crate::files::group::of_test::{group_on, inserting};
use crate::files::group::protocol::{HAS_JOURNAL, HOLDS, MORE, RELEASES, RESERVED, SYNC_WANTED};
use crate::open::checkpointer::take_turn_of_test;
use crate::open::database::DatabaseSetup;
use crate::sync::group_changes::Moment;
use crate::sync::wal_index::{READ_SLOTS, WRITE_SLOT};
use litefoot_sim::{Faults, Random, SimMedium};
use litefoot_storage::file::{FileKind, Operation as DeviceOperation};
use litefoot_storage::wal_file::format::Header;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

const PAGE: usize = 512;
const REGION: u64 = 32768;

#[test]
fn levels_and_slots_of_other_programs_are_checked() {
    for number in 0..5 {
        assert_eq!(level(number).unwrap() as u64, number);
    }
    assert!(level(5).is_err() && level(u64::MAX).is_err());
    for (offset, bytes, fits) in
        [(0, 0, true), (MOST_FILE - 8, 8, true), (MOST_FILE - 7, 8, false), (u64::MAX - 4, 8, false)]
    {
        assert_eq!(place(offset, bytes).is_ok(), fits, "{offset} {bytes}");
    }
    assert_eq!(slots(3, 5).unwrap(), (3, 5));
    for (first, count) in [(0, 0), (8, 1), (3, 6), (u64::MAX, 1), (0, u64::MAX)] {
        assert!(slots(first, count).is_err(), "{first} {count}");
    }
}

/// A member without its process: calls are carried out as if they had come over a stream.
pub(super) struct Member(pub(super) Served);

impl Member {
    fn ask(&mut self, operation: Operation, file: FileOf, (a, b): (u64, u64), data: &[u8]) -> Result<Answer> {
        self.0.answer(&Call::new(operation, file, a, b).with(data))
    }

    pub(super) fn main(&mut self, operation: Operation, a: u64, b: u64) {
        self.ask(operation, FileOf::Main, (a, b), &[]).unwrap();
    }

    fn lock(&mut self, slot: usize, exclusive: bool) -> Result<Answer> {
        let statement = [statement::encode(exclusive, MembersStatement::UNKNOWN)];
        self.ask(Operation::ShmLock, FileOf::Main, (slot as u64, 1), &statement)
    }
}

fn group() -> (Arc<Vfs>, Arc<OpenDatabase>) {
    group_on(&SimMedium::new())
}

pub(super) fn member(vfs: &Arc<Vfs>, database: &Arc<OpenDatabase>) -> Member {
    let mut member = Member(Served::new(vfs.clone(), database.clone(), POWERSAFE));
    member.main(Operation::Control, ControlKind::Connected as u64, 0);
    member
}

/// A member that has the database open in WAL mode.
fn member_in_wal_mode(vfs: &Arc<Vfs>, database: &Arc<OpenDatabase>) -> Member {
    let mut member = member(vfs, database);
    member.main(Operation::Lock, Level::Shared as u64, 0);
    let flags = (SQLITE_OPEN_WAL | SQLITE_OPEN_CREATE | SQLITE_OPEN_READWRITE) as u64;
    member.ask(Operation::Open, FileOf::Wal, (flags, 0), &[]).unwrap();
    let mapped = member.ask(Operation::ShmMap, FileOf::Main, (0, REGION), &[1]).unwrap();
    assert!(mapped.flag && mapped.sends_memory);
    member
}

/// Bytes of the two copies of the index's header.
const HEADER: usize = 96;

fn region(database: &OpenDatabase) -> *mut u8 {
    database.wal_index().map(0, REGION as usize, false).unwrap().unwrap().as_ptr()
}

fn fill_header(database: &OpenDatabase) {
    // SAFETY: a region is longer, and nobody else uses it in these tests.
    unsafe { region(database).write_bytes(9, HEADER) };
}

fn header_is(database: &OpenDatabase, byte: u8) -> bool {
    // SAFETY: as above.
    let header = unsafe { std::slice::from_raw_parts(region(database), HEADER) };
    header.iter().all(|found| *found == byte)
}

/// Writes a transaction of one page as SQLite does, with its sync.
fn write_transaction(member: &mut Member) {
    write_unsynced(member, 1);
    member.ask(Operation::Sync, FileOf::Wal, (0, 0), &[]).unwrap();
}

/// The same before the sync, of the last page of the database.
fn write_unsynced(member: &mut Member, number: u32) {
    member.lock(READ_SLOTS + 1, false).unwrap();
    member.lock(WRITE_SLOT, true).unwrap();
    let log = Header::first(PAGE as u32, None);
    let (bytes, checksum) = log.encode();
    let page = [7; PAGE];
    let (frame, _) = log.encode_frame(checksum, number, number, &page);
    let at = bytes.len() as u64;
    for (offset, data) in [(0, &bytes[..]), (at, &frame), (at + frame.len() as u64, &page)] {
        member.ask(Operation::Write, FileOf::Wal, (offset, 0), data).unwrap();
    }
}

#[test]
fn a_commit_of_a_member_that_dies_before_it_is_published_counts_and_its_index_is_made_again() {
    let (vfs, database) = group();
    let mut other = member_in_wal_mode(&vfs, &database);
    let mut dying = member_in_wal_mode(&vfs, &database);
    write_transaction(&mut dying);
    fill_header(&database);
    assert!(other.lock(WRITE_SLOT, true).is_err());
    dying.0.end();
    assert!(header_is(&database, 0), "the next reader makes the index of all that is in the log");
    let wal = database.wal().unwrap();
    assert!(wal.not_durable().is_none() && wal.bytes() > 0);
    other.lock(WRITE_SLOT, true).unwrap();
}

#[test]
fn a_log_that_is_opened_while_others_are_let_in_is_theirs() {
    let (vfs, database) = group();
    let mut member = member(&vfs, &database);
    member.main(Operation::Lock, Level::Shared as u64, 0);
    let flags = (SQLITE_OPEN_WAL | SQLITE_OPEN_CREATE | SQLITE_OPEN_READWRITE) as u64;
    std::thread::scope(|scope| {
        database.let_others_in_of_test(|| {
            scope.spawn(|| member.ask(Operation::Open, FileOf::Wal, (flags, 0), &[]).unwrap());
            // Long enough to find that the database is this process's.
            std::thread::sleep(Duration::from_millis(30));
        });
    });
    assert!(database.is_multi_process() && database.wal().is_none());
}

#[test]
fn a_member_that_only_read_leaves_the_index_as_it_is() {
    let (vfs, database) = group();
    let _other = member_in_wal_mode(&vfs, &database);
    let mut dying = member_in_wal_mode(&vfs, &database);
    dying.lock(READ_SLOTS + 1, false).unwrap();
    fill_header(&database);
    dying.0.end();
    assert!(header_is(&database, 9));
}

#[test]
fn a_rollback_transaction_of_a_member_that_dies_has_never_been() {
    let (vfs, database) = group();
    let mut dying = member(&vfs, &database);
    let flags = (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_CREATE | SQLITE_OPEN_READWRITE) as u64;
    for level in [Level::Shared, Level::Reserved] {
        dying.main(Operation::Lock, level as u64, 0);
    }
    dying.ask(Operation::Open, FileOf::Journal, (flags, 0), &[]).unwrap();
    dying.ask(Operation::Write, FileOf::Journal, (0, 0), &[1; 512]).unwrap();
    dying.main(Operation::Lock, Level::Exclusive as u64, 0);
    dying.ask(Operation::Write, FileOf::Main, (0, 0), &[5; PAGE]).unwrap();
    let mut other = member(&vfs, &database);
    assert!(other.ask(Operation::Lock, FileOf::Main, (Level::Shared as u64, 0), &[]).is_err());
    dying.0.end();
    other.main(Operation::Lock, Level::Shared as u64, 0);
    assert_eq!(other.ask(Operation::Size, FileOf::Main, (0, 0), &[]).unwrap().value, 0);
}

#[test]
fn a_write_that_has_failed_fails_the_next_call_and_what_is_given_back_is_given_back() {
    let (vfs, database) = group();
    let mut member = Member(Served::new(vfs, database, POWERSAFE | READ_ONLY));
    member.main(Operation::Lock, Level::Shared as u64, 0);
    for (operation, is_refused) in
        [(Operation::Sync, true), (Operation::Unlock, false), (Operation::Size, false)]
    {
        if operation != Operation::Size {
            let failed = member.ask(Operation::Write, FileOf::Main, (0, 0), &[5; PAGE]);
            member.0.failed = failed.err();
        }
        assert_eq!(member.ask(operation, FileOf::Main, (0, 0), &[]).is_err(), is_refused, "{operation:?}");
    }
    for (operation, file) in
        [(Operation::Read, FileOf::Wal), (Operation::Open, FileOf::Main), (Operation::Hello, FileOf::Main)]
    {
        assert!(member.ask(operation, file, (0, u64::MAX), &[]).is_err(), "{operation:?}");
    }
    assert!(member.ask(Operation::ShmMap, FileOf::Main, (0, u64::MAX), &[1]).is_err());
}

impl Member {
    fn take_turn(&mut self, shows: Shows) -> bool {
        let statement = MembersStatement { is_autocommit: true, shows };
        let data = [statement::encode(true, statement)];
        self.ask(Operation::TakeTurn, FileOf::Main, (0, 0), &data).unwrap().flag
    }
}

#[test]
fn a_turn_is_one_members_until_it_gives_it_back_or_dies() {
    let (vfs, database) = group();
    let [mut one, mut other] = [(); 2].map(|()| member_in_wal_mode(&vfs, &database));
    for shows in [Shows::Outcome, Shows::Begun] {
        assert!(one.take_turn(shows) && !one.take_turn(shows), "it has it already");
        assert!(!other.take_turn(shows) && other.lock(WRITE_SLOT, true).is_err());
        one.main(Operation::ShmUnlock, WRITE_SLOT as u64, 1);
        assert!(other.take_turn(shows) && !one.take_turn(shows));
        other.main(Operation::ShmUnlock, WRITE_SLOT as u64, 1);
    }
    assert!(one.take_turn(Shows::Outcome));
    one.0.end();
    assert!(other.take_turn(Shows::Outcome));
}

#[test]
fn a_turn_comes_behind_a_checkpoint_that_empties_the_log() {
    let (vfs, database) = group();
    let [mut one, mut other] = [(); 2].map(|()| member_in_wal_mode(&vfs, &database));
    assert!(one.take_turn(Shows::Outcome));
    take_turn_of_test(&database);
    while !database.checkpointer().has_turn() {
        std::thread::yield_now();
    }
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| other.take_turn(Shows::Outcome));
        // Longer than a turn is waited for. One that has given up would read, in the way of the checkpoint.
        std::thread::sleep(Duration::from_millis(40));
        one.main(Operation::ShmUnlock, WRITE_SLOT as u64, 1);
        assert!(waits.join().unwrap());
    });
}

#[test]
fn a_seat_keeps_others_from_the_slots_that_it_shares_until_its_member_dies() {
    let (vfs, database) = group();
    let [dying, mut other] = [(); 2].map(|()| member_in_wal_mode(&vfs, &database));
    let board = database.board().unwrap().clone();
    let seat = dying.0.seat.unwrap();
    assert!(other.lock(READ_SLOTS + 1, true).is_ok());
    assert!(!board.share(seat, 1 << (READ_SLOTS + 1), board.epoch(), true), "another has it");
    other.main(Operation::ShmUnlock, READ_SLOTS as u64 + 1, 1);
    assert!(board.share(seat, 1 << (READ_SLOTS + 1), board.epoch(), true));
    assert!(other.lock(READ_SLOTS + 1, true).is_err() && other.lock(READ_SLOTS + 2, true).is_ok());
    assert_eq!(database.wal_index().while_nobody_writes(|is_free| is_free), None);
    other.main(Operation::ShmUnlock, READ_SLOTS as u64 + 2, 1);
    assert_eq!(database.wal_index().while_nobody_writes(|is_free| is_free), Some(false));
    dying.0.end();
    assert!(other.lock(READ_SLOTS + 1, true).is_ok());
    let mut next = member_in_wal_mode(&vfs, &database);
    assert_eq!(next.0.seat, Some(seat), "it is free again");
    next.main(Operation::Close, 0, 0);
}

#[test]
fn a_reader_finds_a_mark_for_what_is_published() {
    let (vfs, database) = group();
    let mut member = member_in_wal_mode(&vfs, &database);
    // Five frames that count.
    let word = |number: usize| {
        // SAFETY: a region is longer, and nobody else uses it in this test.
        unsafe { &*region(&database).cast::<AtomicU32>().add(number) }
    };
    word(4).store(5, Ordering::SeqCst);
    let marks = || [26, 27, 28, 29].map(|mark| word(mark).load(Ordering::SeqCst));
    member.lock(READ_SLOTS + 1, false).unwrap();
    for before in [[0, 0, 0, 0], [0, 7, 0, 0]] {
        before.into_iter().zip(26..).for_each(|(mark, place)| word(place).store(mark, Ordering::SeqCst));
        database.wal_index().mark_for_members();
        assert_eq!(marks(), [0, 5, 0, 0], "the first that nobody shares");
        database.wal_index().mark_for_members();
        assert_eq!(marks(), [0, 5, 0, 0], "one is enough");
    }
    word(24).store(5, Ordering::SeqCst);
    word(27).store(0, Ordering::SeqCst);
    database.wal_index().mark_for_members();
    assert_eq!(marks(), [0; 4], "readers of the file need none");
    database.wal_index().mark_for_members_at(7);
    assert_eq!(marks(), [0, 7, 0, 0], "what is about to be published");
    word(4).store(7, Ordering::SeqCst);
    database.wal_index().mark_for_members();
    assert_eq!(marks(), [0, 7, 0, 0], "it has its mark");
}

/// A database of two pages, and a member that begins to write to it.
pub(super) fn held_group() -> (Arc<Vfs>, Arc<OpenDatabase>, Member) {
    held_group_on(&SimMedium::new())
}

/// The first page of a database; the version is 1, or 2 in WAL mode.
fn first_page(version: u8) -> [u8; PAGE] {
    let mut page = [1; PAGE];
    page[..16].copy_from_slice(crate::db::MAGIC);
    page[16..18].copy_from_slice(&(PAGE as u16).to_be_bytes());
    page[18..20].fill(version);
    page
}

fn held_group_on(medium: &SimMedium) -> (Arc<Vfs>, Arc<OpenDatabase>, Member) {
    let (vfs, database) = group_on(medium);
    let mut first = member(&vfs, &database);
    for level in [Level::Shared, Level::Reserved, Level::Exclusive] {
        first.main(Operation::Lock, level as u64, 0);
    }
    first.ask(Operation::Write, FileOf::Main, (0, 0), &first_page(1)).unwrap();
    first.ask(Operation::Write, FileOf::Main, (PAGE as u64, 0), &[2; PAGE]).unwrap();
    first.main(Operation::Control, ControlKind::CommitDone as u64, 0);
    first.main(Operation::Close, 0, 0);
    first.0.end();
    database.serves_group_in_test();
    let member = member(&vfs, &database);
    (vfs, database, member)
}

/// What a beginning tells: the moment, the pages that have changed since, and those that come with it.
pub(super) type Told = (Moment, Option<Vec<u32>>, Vec<u32>);

/// What a beginning has said: its bits, and the news where it may hold.
pub(super) fn begin(member: &mut Member, since: Moment, shows: Shows) -> (u64, Option<Told>) {
    let statement = MembersStatement { is_autocommit: true, shows };
    let data = [statement::encode(false, statement), 0];
    let answer = member.ask(Operation::Begin, FileOf::Main, (since.epoch, since.commits), &data).unwrap();
    let news = News::decode(&member.0.buffer[..answer.bytes]);
    let told =
        news.map(|news| (news.moment, news.changed(), news.pages.iter().map(|(number, _)| number).collect()));
    (answer.value, told)
}

pub(super) fn commit(member: &mut Member, len: u64, pages: &[(u32, u8)], flags: u64) -> Result<u64> {
    let message = batch(len, pages);
    member.ask(Operation::Commit, FileOf::Main, (flags, 0), &message).map(|answer| answer.value)
}

fn batch(len: u64, pages: &[(u32, u8)]) -> Vec<u8> {
    batch_behind(len, len, pages)
}

/// The same where the database has been shorter.
fn batch_behind(least: u64, len: u64, pages: &[(u32, u8)]) -> Vec<u8> {
    let mut message = Vec::new();
    Batch::encode(len, least, PAGE, &mut message);
    for (number, filler) in pages {
        encode_page(*number, PAGE, &mut message, |page| {
            page.fill(*filler);
            Ok::<(), ()>(())
        })
        .unwrap();
    }
    message
}

fn first_byte(member: &mut Member, number: u64) -> u8 {
    let at = ((number - 1) * PAGE as u64, PAGE as u64);
    member.ask(Operation::Read, FileOf::Main, at, &[]).unwrap();
    member.0.buffer[PAGE - 1]
}

#[test]
fn a_held_transaction_is_a_beginning_an_exclusive_lock_and_a_commit() {
    let (vfs, database, mut one) = held_group();
    let mut other = member(&vfs, &database);
    let (value, news) = begin(&mut one, Moment::default(), Shows::Outcome);
    let (before, changed, pages) = news.unwrap();
    assert_eq!((value, changed, pages), (HOLDS | RESERVED, None, vec![1]));
    assert!(commit(&mut one, 2 * PAGE as u64, &[(2, 7)], 0).is_err(), "others may read");
    one.main(Operation::Lock, Level::Exclusive as u64, 0);
    let len = 3 * PAGE as u64;
    commit(&mut one, len, &[(2, 7), (3, 8)], SYNC_WANTED | HAS_JOURNAL | RELEASES).unwrap();
    // Everything was given back, and the other hears what has changed.
    let (value, news) = begin(&mut other, before, Shows::Always);
    let (now, changed, pages) = news.unwrap();
    assert_eq!((value, changed, pages), (HOLDS, Some(vec![2, 3]), vec![1, 2, 3]));
    assert_eq!((now.epoch, now.commits), (before.epoch, before.commits + 1));
    assert_eq!((first_byte(&mut other, 2), first_byte(&mut other, 3)), (7, 8));
    assert_eq!(other.ask(Operation::Size, FileOf::Main, (0, 0), &[]).unwrap().value, len);
}

/// The last bytes of page 2 after power cuts, as the next owner finds them.
fn after_power_cuts(medium: &SimMedium) -> Vec<u8> {
    let mut random = Random::new(11);
    let mut found: Vec<u8> = (0..40)
        .map(|_| {
            let image = medium.cut(&mut random);
            let setup = DatabaseSetup::of_test(Arc::new(image), Path::new("/app.db"));
            let database = OpenDatabase::new(setup);
            database.own().unwrap();
            let mut page = [0; PAGE];
            database.read(&mut page, PAGE as u64, &mut ()).unwrap();
            page[PAGE - 1]
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn a_commit_of_a_member_is_as_durable_as_its_sqlite_has_asked_for() {
    let synced = SYNC_WANTED | HAS_JOURNAL;
    for (flags, expected) in [(synced, &[7][..]), (HAS_JOURNAL, &[2, 7]), (synced | MORE, &[2])] {
        let medium = SimMedium::new();
        let (_vfs, _database, mut one) = held_group_on(&medium);
        one.main(Operation::Lock, Level::Shared as u64, 0);
        one.main(Operation::Sync, 0, 0);
        one.main(Operation::Unlock, Level::None as u64, 0);
        // The first ones have a journal of their own (`commit/kept_journal`).
        for filler in [3, 4, 2, 7] {
            begin(&mut one, Moment::default(), Shows::Outcome);
            one.main(Operation::Lock, Level::Exclusive as u64, 0);
            let flags = if filler == 7 { flags } else { SYNC_WANTED | HAS_JOURNAL };
            commit(&mut one, 2 * PAGE as u64, &[(2, filler)], flags | RELEASES).unwrap();
        }
        let found = after_power_cuts(&medium);
        assert!(found.iter().all(|byte| expected.contains(byte)), "{flags}: {found:?}");
    }
}

#[test]
fn a_commit_that_fails_leaves_nothing_behind() {
    for closes_before in 0..3 {
        let (_vfs, database, mut one) = held_group();
        begin(&mut one, Moment::default(), Shows::Outcome);
        one.main(Operation::Lock, Level::Exclusive as u64, 0);
        let flags = SYNC_WANTED | HAS_JOURNAL;
        let failed = [flags | MORE, flags | MORE, flags].into_iter().enumerate().any(|(number, flags)| {
            if number == closes_before {
                database.db().latch().close("a failure of the test's");
            }
            commit(&mut one, 2 * PAGE as u64, &[(2, 7)], flags).is_err()
        });
        assert!(failed, "{closes_before}");
        assert!(one.0.companions.iter().all(Option::is_none) && !one.0.main().unwrap().has_transaction());
        assert_eq!(first_byte(&mut one, 2), 2);
    }
}

#[test]
fn a_commit_of_several_messages_is_one() {
    let (vfs, database, mut one) = held_group();
    let mut other = member(&vfs, &database);
    let (before, ..) = begin(&mut one, Moment::default(), Shows::Outcome).1.unwrap();
    one.main(Operation::Lock, Level::Exclusive as u64, 0);
    // The transaction has cut the database to its first page.
    let (len, least) = (4 * PAGE as u64, PAGE as u64);
    let flags = SYNC_WANTED | HAS_JOURNAL | RELEASES;
    for (number, flags) in [(2, flags | MORE), (3, flags | MORE), (4, flags)] {
        let message = batch_behind(least, len, &[(number, 5 + number as u8)]);
        let committed = one.ask(Operation::Commit, FileOf::Main, (flags, 0), &message).unwrap();
        assert_eq!(committed.value, if number == 4 { before.commits + 1 } else { 0 });
    }
    let (value, news) = begin(&mut other, before, Shows::Always);
    let (now, changed, _) = news.unwrap();
    assert_eq!((value, changed, now.commits), (HOLDS, Some(vec![2, 3, 4]), before.commits + 1));
    assert_eq!([2, 3, 4].map(|number| first_byte(&mut other, number)), [7, 8, 9]);
    assert_eq!(other.ask(Operation::Size, FileOf::Main, (0, 0), &[]).unwrap().value, len);
}

#[test]
fn what_other_programs_send_as_a_commit_is_refused() {
    let (_vfs, _database, mut one) = held_group();
    begin(&mut one, Moment::default(), Shows::Outcome);
    one.main(Operation::Lock, Level::Exclusive as u64, 0);
    for data in [&[][..], &[0; 20], &[9; 600]] {
        assert!(one.ask(Operation::Commit, FileOf::Main, (0, 0), data).is_err());
    }
    assert!(one.ask(Operation::Begin, FileOf::Main, (0, 0), &[1]).is_err());
}

#[test]
fn a_transaction_is_not_held_where_sqlite_finds_files_or_others_may() {
    let (vfs, database, mut one) = held_group();
    let holds = |member: &mut Member| {
        let held = begin(member, Moment::default(), Shows::Outcome);
        member.main(Operation::Unlock, Level::None as u64, 0);
        held.0
    };
    assert_eq!(holds(&mut one), HOLDS | RESERVED);
    let flags = (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_CREATE | SQLITE_OPEN_READWRITE) as u64;
    one.ask(Operation::Open, FileOf::Journal, (flags, 0), &[]).unwrap();
    assert_eq!(holds(&mut one), 0, "a journal is open");
    one.ask(Operation::Close, FileOf::Journal, (0, 0), &[]).unwrap();
    assert_eq!(holds(&mut one), HOLDS | RESERVED);
    let mut in_wal_mode = member_in_wal_mode(&vfs, &database);
    assert_eq!(holds(&mut one), 0, "there is a log");
    in_wal_mode.main(Operation::Close, 0, 0);
}

#[test]
fn writers_take_their_turns_before_they_read() {
    let (vfs, database, mut one) = held_group();
    let mut other = member(&vfs, &database);
    assert_eq!(begin(&mut one, Moment::default(), Shows::Begun).0, HOLDS | RESERVED);
    assert_eq!(begin(&mut other, Moment::default(), Shows::Always).0, HOLDS, "a reader");
    other.main(Operation::Unlock, Level::None as u64, 0);
    let statement = MembersStatement { is_autocommit: true, shows: Shows::Outcome };
    let data = [statement::encode(false, statement), 0];
    let refused = std::thread::scope(|scope| {
        let other = &mut other;
        scope.spawn(move || other.ask(Operation::Begin, FileOf::Main, (0, 0), &data).is_err()).join().unwrap()
    });
    assert!(refused, "it is another's turn");
    one.main(Operation::Unlock, Level::None as u64, 0);
    assert_eq!(begin(&mut other, Moment::default(), Shows::Outcome).0, HOLDS | RESERVED);
}

mod adopted;
mod frames;
mod journals;
mod left_behind;
mod seats;
mod shared_syncs;
mod spills;
