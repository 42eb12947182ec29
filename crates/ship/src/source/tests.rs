//! The source against a copy: what it delivers makes the database.

use super::*;
use rusqlite::Connection;
use std::collections::BTreeMap;

/// A destination that is a plain list of pages.
#[derive(Default)]
struct Copy {
    pages: BTreeMap<u32, Vec<u8>>,
    deliveries: u32,
    sent: usize,
}

impl Copy {
    fn take(&mut self, changes: &mut Changes<'_>) -> Result<()> {
        for page in changes.changed() {
            let mut data = vec![0; changes.page_size() as usize];
            changes.read(*page, &mut data)?;
            self.pages.insert(*page, data);
        }
        self.pages.retain(|page, _| *page <= changes.pages());
        self.deliveries += 1;
        self.sent = changes.changed().len();
        Ok(())
    }

    /// The bytes of the database, in WAL mode or not.
    fn bytes(&self) -> Vec<u8> {
        self.pages.values().flatten().copied().collect()
    }

    /// Opens the copy, and answers what a query says.
    fn ask(&self, query: &str) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), self.bytes()).unwrap();
        ask(&Connection::open(file.path()).unwrap(), query)
    }
}

fn ask(database: &Connection, query: &str) -> String {
    assert_eq!(
        database.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)).unwrap(),
        "ok"
    );
    let mut statement = database.prepare(query).unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    rows.collect::<rusqlite::Result<Vec<_>>>().unwrap().join("\n")
}

fn source(path: &Path) -> Source {
    Source::new(path, Box::new(PlainDoor(path.to_owned())), None)
}

/// Waits until the times of the files tell whether they change.
fn settle(path: &Path) {
    while !Stamp::take(path).unwrap().is_settled() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

const ROWS: &str = "SELECT id || ' ' || hex(v) FROM t ORDER BY id";

fn step(database: &Connection, random: &mut fastrand::Rng) {
    let (id, len) = (random.u32(..200), random.u32(..3000));
    let statement = match random.u8(..10) {
        0 => format!("DELETE FROM t WHERE id BETWEEN {id} AND {}", id + 40),
        1 => "VACUUM".into(),
        2 => "PRAGMA wal_checkpoint(TRUNCATE)".into(),
        3 => "PRAGMA wal_checkpoint(PASSIVE)".into(),
        4 => format!("BEGIN; INSERT OR REPLACE INTO t VALUES({id}, randomblob({len})); ROLLBACK"),
        _ => format!("INSERT OR REPLACE INTO t VALUES({id}, randomblob({len}))"),
    };
    database.execute_batch(&statement).unwrap();
}

#[test]
fn a_destination_has_what_the_database_has() {
    for (mode, page_size) in
        [("WAL", 512_u32), ("WAL", 4096), ("DELETE", 1024), ("TRUNCATE", 4096), ("PERSIST", 65_536)]
    {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let database = Connection::open(&path).unwrap();
        database
            .execute_batch(&format!(
                "PRAGMA page_size={page_size}; PRAGMA journal_mode={mode}; PRAGMA synchronous=OFF; PRAGMA auto_vacuum=1;
                 PRAGMA wal_autocheckpoint=20; CREATE TABLE t(id INTEGER PRIMARY KEY, v)"
            ))
            .unwrap();
        let mut random = fastrand::Rng::with_seed(u64::from(page_size));
        let (mut source, mut copy) = (source(&path), Copy::default());
        for round in 0..60 {
            (0..random.u8(..4)).for_each(|_| step(&database, &mut random));
            source.visit(|changes| copy.take(changes)).unwrap();
            assert_eq!(copy.ask(ROWS), ask(&database, ROWS), "{mode}, {page_size}, round {round}");
            let sum = copy
                .pages
                .iter()
                .fold(Checksum::EMPTY, |sum, (page, data)| sum.toggle(Checksum::of_page(*page, data)));
            assert_eq!(source.map().unwrap().sum(), sum);
        }
    }
}

#[test]
fn what_is_not_committed_is_not_seen() {
    for mode in ["WAL", "DELETE"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let database = Connection::open(&path).unwrap();
        database.execute_batch(&format!("PRAGMA journal_mode={mode}; CREATE TABLE t(id, v)")).unwrap();
        let (mut source, mut copy) = (source(&path), Copy::default());
        assert!(source.visit(|changes| copy.take(changes)).unwrap());
        database.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES(1, 2)").unwrap();
        assert!(!source.visit(|changes| copy.take(changes)).unwrap(), "{mode}");
        database.execute_batch("COMMIT").unwrap();
        assert!(source.visit(|changes| copy.take(changes)).unwrap(), "{mode}");
        assert_eq!(copy.ask("SELECT id || v FROM t"), "12");
    }
}

#[test]
fn nothing_is_delivered_where_nothing_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let database = Connection::open(&path).unwrap();
    database.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    let (mut source, mut copy) = (source(&path), Copy::default());
    for expected in [true, false, false] {
        assert_eq!(source.visit(|changes| copy.take(changes)).unwrap(), expected);
    }
    database.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    assert!(!source.visit(|changes| copy.take(changes)).unwrap());
    database.execute("INSERT INTO t VALUES(1, 1)", []).unwrap();
    assert!(source.visit(|changes| copy.take(changes)).unwrap());
    assert_eq!((copy.deliveries, copy.sent), (2, 1), "of a row, its page");
}

#[test]
fn a_gathering_that_fails_counts_as_not_seen() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let database = Connection::open(&path).unwrap();
    database.execute_batch("CREATE TABLE t(id, v)").unwrap();
    let (mut source, mut copy) = (source(&path), Copy::default());
    assert!(source.visit(|_| Err(Error::Interrupted)).is_err());
    assert!(source.may_have_changed().unwrap());
    assert!(source.visit(|changes| copy.take(changes)).unwrap());
    assert_eq!(copy.ask("SELECT name FROM sqlite_schema"), "t");
}

#[test]
fn pages_of_the_last_delivery_are_there_for_the_next_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let database = Connection::open(&path).unwrap();
    database.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    let mut source = source(&path).with_images(Some(Images::new(|_, _| Keep::Always, 0)));
    let mut last = Copy::default();
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..20 {
        let mut next = Copy { pages: last.pages.clone(), ..Copy::default() };
        source
            .visit(|changes| {
                for page in changes.changed() {
                    assert_eq!(changes.image(*page), last.pages.get(page).map(Vec::as_slice), "{page}");
                }
                next.take(changes)
            })
            .unwrap();
        last = next;
        (0..3).for_each(|_| step(&database, &mut random));
    }
}

#[test]
fn a_large_database_is_read_without_a_lock_and_again_where_that_was_too_late() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let database = Connection::open(&path).unwrap();
    database.execute_batch("PRAGMA synchronous=OFF; CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    let insert = |id| {
        database
            .execute("INSERT INTO t VALUES(?1, zeroblob(?2))", [id, i64::from(QUIET_BYTES as u32 / 2)])
            .unwrap()
    };
    (0..3).for_each(|id| {
        insert(id);
    });
    let (mut source, mut copy, mut calls) = (source(&path), Copy::default(), 0);
    source
        .visit(|changes| {
            copy = Copy::default();
            copy.take(changes)?;
            calls += 1;
            if calls == 1 {
                // Nobody holds a lock meanwhile, and what was read is not what is delivered.
                database.execute("UPDATE t SET v = 7 WHERE id = 1", []).unwrap();
            }
            Ok(())
        })
        .unwrap();
    assert_eq!((calls, copy.ask("SELECT CAST(v AS TEXT) FROM t WHERE id = 1")), (2, "7".into()));
    assert!(!source.visit(|changes| copy.take(changes)).unwrap());
}

#[test]
fn a_database_without_pages_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    std::fs::write(&path, "").unwrap();
    let mut source = source(&path);
    assert!(!source.visit(|_| panic!("there is nothing to read")).unwrap());
    std::fs::write(&path, "no database, but 32 bytes long...").unwrap();
    assert!(matches!(source.visit(|_| Ok(())), Err(Error::Local { .. })));
}

#[test]
fn frames_that_wait_for_their_commit_are_looked_at_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let database = Connection::open(&path).unwrap();
    database
        .execute_batch(
            "PRAGMA journal_mode=WAL; PRAGMA cache_size=5; CREATE TABLE t(id INTEGER PRIMARY KEY, v)",
        )
        .unwrap();
    let (mut source, mut copy) = (source(&path), Copy::default());
    assert!(source.visit(|changes| copy.take(changes)).unwrap());
    let log = || std::fs::metadata(beside(&path, "-wal")).unwrap().len();
    let (before, _) = (log(), database.execute_batch("BEGIN").unwrap());
    database.execute("INSERT INTO t VALUES(1, zeroblob(200000))", []).unwrap();
    assert!(log() > before, "its pages are in the log, and not committed");
    // So long that the times of the files tell nothing of it any more.
    settle(&path);
    assert!(!source.visit(|changes| copy.take(changes)).unwrap());
    assert!(source.may_have_changed().unwrap(), "the commit may write nothing more to the log");
    database.execute_batch("COMMIT").unwrap();
    assert!(source.visit(|changes| copy.take(changes)).unwrap());
}

#[test]
fn a_visit_itself_is_no_change() {
    for mode in ["WAL", "DELETE"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let database = Connection::open(&path).unwrap();
        database.execute_batch(&format!("PRAGMA journal_mode={mode}; CREATE TABLE t(id, v)")).unwrap();
        let (mut source, mut copy) = (source(&path), Copy::default());
        let mut look = |source: &mut Source| {
            settle(&path);
            source.visit(|changes| copy.take(changes)).unwrap();
        };
        look(&mut source);
        assert!(!source.may_have_changed().unwrap(), "{mode}");
        drop(database);
        // Closing has brought the log home: one more look, and no more.
        look(&mut source);
        assert!(!source.may_have_changed().unwrap(), "{mode}, closed");
    }
}

#[test]
fn pages_that_did_not_change_are_kept_behind_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let database = Connection::open(&path).unwrap();
    database
        .execute_batch(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE u(v); INSERT INTO t VALUES(1, 1)",
        )
        .unwrap();
    let (mut first, mut copy) = (source(&path), Copy::default());
    first.visit(|changes| copy.take(changes)).unwrap();
    let known = first.map().cloned();
    let mut second = Source::new(&path, Box::new(PlainDoor(path.clone())), known)
        .with_images(Some(Images::new(|_, _| Keep::Always, 0)));
    database.execute("INSERT INTO t VALUES(2, 2)", []).unwrap();
    second
        .visit(|changes| {
            for (page, data) in &copy.pages {
                let is_changed = changes.changed().contains(page);
                assert_eq!(changes.image(*page), (!is_changed).then_some(data.as_slice()), "{page}");
            }
            Ok(())
        })
        .unwrap();
}
