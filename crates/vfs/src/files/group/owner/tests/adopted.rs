//! Transactions in WAL mode that an owner had that has died: this one gives them the lock of a writer, finds their commits, or makes them.

use super::*;
use crate::files::group::wal_state::{Behind, Claim, Found, State, hash_of};
use crate::sync::heirs::Place;
use crate::sync::unwritten_pages::UnwrittenPages;

const MARKS: u64 = 7;
const SALTS: u64 = 11;
const WAL: u64 = (SQLITE_OPEN_WAL | SQLITE_OPEN_CREATE | SQLITE_OPEN_READWRITE) as u64;

/// A database of two pages, of which the second has the byte 3 everywhere. Its owner is killed once a transaction is in the log that makes it 7, and maybe
/// before the sync.
fn dead_owner(is_synced: bool) -> SimMedium {
    let content = [first_page(2), [3; PAGE]].concat();
    let medium = SimMedium::with_files([(Path::new("/app.db").to_owned(), FileKind::Database, content)]);
    let (vfs, database) = group_on(&medium);
    let mut writer = member_in_wal_mode(&vfs, &database);
    write_unsynced(&mut writer, 2);
    if is_synced {
        writer.ask(Operation::Sync, FileOf::Wal, (0, 0), &[]).unwrap();
    }
    writer.main(Operation::Control, ControlKind::CommitDone as u64, 0);
    database.db().latch().close("killed");
    medium
}

/// Its heir, and a member that had the lock of a reader and the snapshot of it.
fn heir(medium: &SimMedium) -> (Arc<Vfs>, Arc<OpenDatabase>, Member) {
    let medium = Arc::new(medium.clone());
    let vfs = crate::files::group::of_test::vfs_on(medium.clone());
    let setup = DatabaseSetup::of_test(medium, Path::new("/app.db"));
    let database = vfs.databases.get_or_insert(setup.file.id(), || OpenDatabase::new(setup));
    database.db().shared().begin_board(database.wal_index().begin_group(database.db().file().id()).unwrap());
    let marks = UnwrittenPages::of_dead_owner();
    database.succeed(MARKS, marks.of_member()).unwrap();
    let orphan = orphan(&vfs, &database);
    (vfs, database, orphan)
}

fn orphan(vfs: &Arc<Vfs>, database: &Arc<OpenDatabase>) -> Member {
    let mut orphan = member(vfs, database);
    orphan.ask(Operation::KeepFile, FileOf::Main, (MARKS, WAL), &[]).unwrap();
    orphan
}

/// The database, whose second page has that byte everywhere.
fn state(filler: u8) -> State {
    State { page_bytes: PAGE, pages: 2, hashes: [(2, hash_of(&[filler; PAGE]))].into() }
}

fn claim(base: u8, behind: Option<u8>) -> Claim {
    let at = |frame| Place { salts: SALTS, frame };
    let behind = behind.map(|byte| Behind { place: at(2), state: state(byte), later: Vec::new() });
    Claim { place: at(1), base: state(base), behind }
}

impl Member {
    fn write_on(&mut self, claim: &Claim) -> Result<Found> {
        let answer = self.ask(Operation::WriteOn, FileOf::Main, (0, 0), &claim.encode())?;
        Ok(Found::of(answer.value).unwrap())
    }

    fn commit_on(&mut self, flags: u64, len: u64, pages: &[(u32, u8)]) -> Result<Answer> {
        self.ask(Operation::CommitOn, FileOf::Wal, (flags, 0), &batch(len, pages))
    }
}

/// The first bytes of the second page and the third, as the next owner finds them after power cuts; 0 for one that is not there.
fn pages_after_power_cuts(medium: &SimMedium) -> Vec<[u8; 2]> {
    let mut random = Random::new(11);
    let mut found: Vec<[u8; 2]> = (0..40)
        .map(|_| {
            let (_vfs, database, _) = heir(&medium.cut(&mut random));
            let wal = database.wal().unwrap();
            let present = wal.present(database.db());
            [2, 3].map(|number| {
                let mut page = [0; PAGE];
                present.read(number, &mut page).unwrap();
                page[0]
            })
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn a_transaction_goes_on_where_the_database_has_what_it_builds_upon() {
    let medium = dead_owner(true);
    let (vfs, database, mut one) = heir(&medium);
    for wrong in [&[][..], &[1; 11], &[9; 100]] {
        assert!(one.ask(Operation::WriteOn, FileOf::Main, (0, 0), wrong).is_err());
    }
    assert!(one.commit_on(0, 2 * PAGE as u64, &[(2, 8)]).is_err(), "it has no lock");
    assert!(member_in_wal_mode(&vfs, &database).write_on(&claim(7, None)).is_err(), "it keeps no snapshot");
    let mut other = orphan(&vfs, &database);
    assert_eq!(other.write_on(&claim(6, None)).unwrap(), Found::Nothing);
    assert_eq!(one.write_on(&claim(7, None)).unwrap(), Found::Base, "nobody kept the lock");
    assert!(matches!(other.write_on(&claim(7, None)), Err(Error::Busy)), "another one has it");
    assert_eq!(other.write_on(&claim(3, Some(7))).unwrap(), Found::Commit, "which needs no lock");
    assert!(one.commit_on(0, 2 * PAGE as u64, &[(3, 9)]).is_err(), "a page behind the end");
    assert!(one.commit_on(0, 2 * PAGE as u64, &[]).is_err());
    // Each page comes with a message of its own.
    fill_header(&database);
    let len = 3 * PAGE as u64;
    one.commit_on(MORE, len, &[(2, 8)]).unwrap();
    one.commit_on(0, len, &[(3, 9)]).unwrap();
    assert!(header_is(&database, 0), "the next reader makes the index of all that is in the log");
    one.main(Operation::ShmUnlock, WRITE_SLOT as u64, 1);
    assert_eq!(pages_after_power_cuts(&medium), [[8, 9]]);
    assert!(one.commit_on(0, len, &[(2, 7)]).is_err(), "it has given the lock back");
    let mut third = orphan(&vfs, &database);
    assert_eq!(third.write_on(&claim(7, None)).unwrap(), Found::Nothing, "somebody has written since");
}

#[test]
fn a_commit_that_was_under_way_is_found_and_is_durable_then() {
    for is_synced in [true, false] {
        let medium = dead_owner(is_synced);
        let (vfs, database, mut one) = heir(&medium);
        assert_eq!(pages_after_power_cuts(&medium).len(), if is_synced { 1 } else { 2 });
        assert_eq!(one.write_on(&claim(3, Some(7))).unwrap(), Found::Commit);
        assert_eq!(pages_after_power_cuts(&medium), [[7, 0]], "{is_synced}");
        let mut other = orphan(&vfs, &database);
        assert_eq!(other.write_on(&claim(7, None)).unwrap(), Found::Base, "the lock is free");
    }
}

/// Commits of one sync of the dead owner's, one upon the other.
#[test]
fn a_commit_below_another_one_is_found_where_that_one_is() {
    let medium = dead_owner(true);
    let commit = |salts, frame| {
        let behind = Some(Behind { place: Place { salts, frame }, ..Behind::default() });
        Claim { behind, ..claim(3, None) }
    };
    let (vfs, database, mut one) = heir(&medium);
    assert_eq!(one.write_on(&commit(SALTS, 1)).unwrap(), Found::Nothing);
    let mut other = orphan(&vfs, &database);
    assert_eq!(other.write_on(&claim(2, Some(7))).unwrap(), Found::Commit);
    assert_eq!(one.write_on(&commit(SALTS, 1)).unwrap(), Found::Commit);
    assert_eq!(one.write_on(&commit(SALTS, 3)).unwrap(), Found::Nothing, "a later one");
    assert_eq!(one.write_on(&commit(SALTS + 1, 1)).unwrap(), Found::Nothing, "of another log");
    let (vfs, database, mut one) = heir(&medium.copy());
    let mut other = orphan(&vfs, &database);
    assert_eq!(other.write_on(&claim(7, None)).unwrap(), Found::Base);
    assert_eq!(one.write_on(&commit(SALTS, 1)).unwrap(), Found::Commit, "another one builds upon it");
}
