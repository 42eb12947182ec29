//! A copy beside its readers, with kills, power cuts, compactions and strangers that write to it.

use super::*;
use crate::backup::Backup;
use crate::compact::{Retention, compact};
use crate::sink::Sink;
use crate::source::{PlainDoor, Source};
use crate::store::Directory;
use litefoot_sim::{Random, SimMedium};
use litefoot_storage::file::{FileKind, Medium, OpenMode};
use rusqlite::Connection;
use std::time::Duration;

const SCHEMA: &str = "CREATE TABLE a(n); INSERT INTO a VALUES(0); CREATE TABLE b(n); INSERT INTO b VALUES(0); \
                      CREATE TABLE blob(id INTEGER PRIMARY KEY, x);";
const CHANGE: &str = "BEGIN; UPDATE a SET n = n + 1; UPDATE b SET n = n - 1; \
                      INSERT OR REPLACE INTO blob SELECT abs(random()) % 40, randomblob(2000); COMMIT;";

struct Case {
    directory: tempfile::TempDir,
    database: Connection,
    source: Source,
    sink: Backup,
}

impl Case {
    fn new(mode: &str) -> Case {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let database = Connection::open(&path).unwrap();
        database
            .execute_batch(&format!("PRAGMA journal_mode={mode}; PRAGMA page_size=1024; {SCHEMA}"))
            .unwrap();
        let source = Source::new(&path, Box::new(PlainDoor(path.clone())), None);
        let store = Arc::new(Directory::new(&directory.path().join("backup")));
        let mut sink = Backup::new(store, 7, directory.path());
        sink.resume(None).unwrap();
        Case { directory, database, source, sink }
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(Directory::new(&self.directory.path().join("backup")))
    }

    fn copy(&self) -> PathBuf {
        self.directory.path().join("copy.db")
    }

    fn follower(&self) -> Follower {
        Follower::new(self.store(), &self.copy())
    }

    fn deliver(&mut self) {
        let sink = &mut self.sink;
        self.source.visit(|changes| sink.gather(changes)).unwrap();
        self.sink.deliver().unwrap();
    }

    fn step(&mut self) {
        self.database.execute_batch(CHANGE).unwrap();
        self.deliver();
    }

    fn count(&self) -> i64 {
        self.database.query_row("SELECT n FROM a", [], |row| row.get(0)).unwrap()
    }
}

/// The count in a copy, which is in order.
fn counted(copy: &Connection) -> i64 {
    let check: String = copy.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let counts =
        copy.query_row("SELECT a.n, b.n FROM a, b", [], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)));
    let (a, b): (i64, i64) = counts.unwrap();
    assert_eq!(a, -b, "half of a transaction is there");
    a
}

#[test]
fn a_reader_that_stays_sees_each_delivery() {
    for mode in ["WAL", "DELETE"] {
        let mut case = Case::new(mode);
        case.step();
        let mut follower = case.follower();
        assert!(follower.look().unwrap() && !follower.look().unwrap(), "{mode}");
        let reader = Connection::open(case.copy()).unwrap();
        for step in 1..20 {
            assert_eq!(counted(&reader), step, "{mode}");
            if step == 9 {
                case.database.execute_batch("DELETE FROM blob; VACUUM").unwrap();
            }
            case.step();
            assert!(follower.look().unwrap(), "{mode}");
            assert_eq!(follower.position().unwrap().transaction, step as u64 + 1);
            if step % 5 == 0 {
                // The process is another one, and goes on.
                follower = case.follower();
                assert!(!follower.look().unwrap(), "{mode}: nothing is fetched again");
            }
        }
    }
}

#[test]
fn what_was_merged_meanwhile_leads_on_and_what_is_gone_is_fetched_whole() {
    let mut case = Case::new("DELETE");
    case.step();
    let mut follower = case.follower();
    follower.look().unwrap();
    let reader = Connection::open(case.copy()).unwrap();
    (0..5).for_each(|_| case.step());
    let merge = |case: &Case, days: u64, snapshots: Duration| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let now_ms = now.as_millis() as u64 + days * 86_400_000;
        let retention = Retention { snapshots, ..Retention::default() };
        compact(&*case.store(), &retention, now_ms, case.directory.path(), &|| Ok(())).unwrap();
    };
    // Single deliveries are gone, and merged ones lead on.
    merge(&case, 2, Retention::default().snapshots);
    assert!(case.store().list(Level::SHIPMENTS).unwrap().len() < 6);
    assert!(follower.look().unwrap());
    assert_eq!((counted(&reader), follower.position().unwrap().transaction), (6, 6));
    // Nothing but the newest whole database is left.
    (0..5).for_each(|_| case.step());
    let store = case.store();
    merge(&case, 60, Duration::ZERO);
    for level in Level::all().filter(|level| *level != Level::SNAPSHOTS) {
        let names: Vec<_> = store.list(level).unwrap().iter().map(|file| file.name).collect();
        store.delete(&names).unwrap();
    }
    let newest = store.list(Level::SNAPSHOTS).unwrap().last().unwrap().name.max.get();
    assert!(newest > 6);
    follower.looks = 0;
    assert!(follower.look().unwrap());
    assert_eq!(follower.position().unwrap().transaction, newest);
    assert_eq!(counted(&reader), newest as i64);
}

#[test]
fn what_somebody_else_wrote_to_the_copy_is_undone() {
    let mut case = Case::new("WAL");
    case.step();
    let mut follower = case.follower();
    follower.look().unwrap();
    for statement in [
        "INSERT OR REPLACE INTO blob VALUES(1000, randomblob(9000))",
        "UPDATE blob SET x = randomblob(2000)",
        "PRAGMA journal_mode=WAL",
    ] {
        let stranger = Connection::open(case.copy()).unwrap();
        stranger.busy_timeout(Duration::from_secs(5)).unwrap();
        stranger.query_row(statement, [], |_| Ok(())).or_else(|_| stranger.execute_batch(statement)).unwrap();
        drop(stranger);
        // A process that goes on hears of it, and so does one that begins.
        let mut another = case.follower();
        another.look().unwrap();
        case.step();
        another.look().unwrap();
        let reader = Connection::open(case.copy()).unwrap();
        assert_eq!(counted(&reader), case.count(), "{statement}");
        let strange: i64 =
            reader.query_row("SELECT count(*) FROM blob WHERE id = 1000", [], |row| row.get(0)).unwrap();
        assert_eq!(strange, 0, "{statement}");
    }
}

#[test]
fn a_file_of_somebody_else_is_left_alone() {
    let mut case = Case::new("DELETE");
    case.step();
    std::fs::write(case.copy(), "mine").unwrap();
    let refused = case.follower().look().unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    assert_eq!(std::fs::read(case.copy()).unwrap(), b"mine");
}

/// The pages of two deliveries, as a change of the copy.
fn change_of(from: &[u8], to: &[u8], size: usize) -> Change {
    let pages = to.chunks(size).enumerate().filter(|(at, page)| from.chunks(size).nth(*at) != Some(page));
    Change {
        page_bytes: size,
        count: (to.len() / size) as u32,
        pages: pages.map(|(at, page)| (at as u32 + 1, page.to_vec())).collect(),
    }
}

#[test]
fn a_power_cut_anywhere_leaves_one_delivery() {
    const CUTS: usize = 12;
    let case = Case::new("DELETE");
    let mut states = Vec::new();
    for step in 0..6 {
        (0..3).for_each(|_| case.database.execute_batch(CHANGE).unwrap());
        if step % 2 == 1 {
            case.database.execute_batch("DELETE FROM blob WHERE id % 3; VACUUM").unwrap();
        }
        states.push(std::fs::read(case.directory.path().join("a.db")).unwrap());
    }
    let path = Path::new("/copy.db");
    let medium = SimMedium::with_files([(path.to_owned(), FileKind::Database, states[0].clone())]);
    let mut ends = vec![0];
    for two in states.windows(2) {
        let file = medium.open(path, FileKind::Database, OpenMode::ReadWrite).unwrap();
        change::apply(&medium, path, &*file, &change_of(&two[0], &two[1], 1024)).unwrap();
        ends.push(medium.operations());
    }
    assert_eq!(std::fs::metadata(case.directory.path().join("a.db")).unwrap().len(), states[5].len() as u64);
    let mut replay = medium.replay();
    let (mut random, mut rolled_back) = (Random::new(3), 0);
    for point in 0..=medium.operations() {
        replay.advance(point);
        // What has ended is there, and what has begun may be.
        let ended = ends.iter().rposition(|end| *end <= point).unwrap();
        for _ in 0..CUTS {
            let left = replay.cut(&mut random);
            let directory = tempfile::tempdir().unwrap();
            let mut journal = 0;
            for (path, kind, bytes) in left.files() {
                std::fs::write(directory.path().join(path.file_name().unwrap()), &bytes).unwrap();
                if kind == FileKind::Journal {
                    journal = bytes.len();
                }
            }
            let name = directory.path().join("copy.db");
            let found = Connection::open(&name).unwrap();
            let count = counted(&found);
            drop(found);
            let found = std::fs::read(&name).unwrap();
            let at = states.iter().position(|state| *state == found);
            assert!(
                at == Some(ended) || at == Some(ended + 1),
                "point {point}: {at:?} behind {ended}, count {count}"
            );
            rolled_back += usize::from(at == Some(ended) && journal > 0);
        }
    }
    assert!(rolled_back > 100, "{rolled_back}");
}
