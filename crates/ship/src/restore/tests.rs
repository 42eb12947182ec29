//! A database to a directory and back: every state that was delivered can be had again.

use super::*;
use crate::backup::Backup;
use crate::sink::Sink;
use crate::source::{PlainDoor, Source, state};
use crate::store::{Body, Directory, FileName, Put};
use litefoot_ltx::Level;
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;

/// A database that is backed up to a directory.
struct Case {
    directory: tempfile::TempDir,
    database: Connection,
    source: Source,
    sink: Backup,
}

const NODE: u64 = 7;

impl Case {
    fn new(mode: &str) -> Case {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let database = Connection::open(&path).unwrap();
        database
            .execute_batch(&format!(
                "PRAGMA journal_mode={mode}; PRAGMA synchronous=OFF; PRAGMA auto_vacuum=1; CREATE TABLE t(id INTEGER PRIMARY KEY, v)"
            ))
            .unwrap();
        let (source, sink) = Case::open(directory.path(), NODE, None).unwrap();
        Case { directory, database, source, sink }
    }

    fn open(
        directory: &Path,
        node: u64,
        known: Option<(u64, crate::source::PageMap)>,
    ) -> Result<(Source, Backup)> {
        let path = directory.join("a.db");
        let store = Arc::new(Directory::new(&directory.join("backup")));
        let mut sink = Backup::new(store, node, directory);
        let map = sink.resume(known)?;
        Ok((Source::new(&path, Box::new(PlainDoor(path.clone())), map), sink))
    }

    fn store(&self) -> Directory {
        Directory::new(&self.directory.path().join("backup"))
    }

    /// One tick.
    fn tick(&mut self) -> bool {
        let sink = &mut self.sink;
        self.source.visit(|changes| sink.gather(changes)).unwrap();
        let is_delivery = sink.is_pending();
        sink.deliver().unwrap();
        is_delivery
    }

    fn step(&self, random: &mut fastrand::Rng) {
        let (id, len) = (random.u32(..100), random.u32(..5000));
        let statement = match random.u8(..8) {
            0 => format!("DELETE FROM t WHERE id BETWEEN {id} AND {}", id + 30),
            1 => "VACUUM".into(),
            2 => "PRAGMA wal_checkpoint(TRUNCATE)".into(),
            _ => format!("INSERT OR REPLACE INTO t VALUES({id}, randomblob({len}))"),
        };
        self.database.execute_batch(&statement).unwrap();
    }

    /// Everything in the database, in one text.
    fn rows(&self) -> String {
        rows(&self.database)
    }

    fn restore(&self, until: Until) -> Result<String> {
        let path = self.directory.path().join("restored.db");
        let target = Target::new(&path, Replace::Yes)?;
        restore(&self.store(), until, &target, &|_, _| Ok(()))?;
        Ok(rows(&Connection::open(&path).unwrap()))
    }
}

fn rows(database: &Connection) -> String {
    assert_eq!(
        database.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)).unwrap(),
        "ok"
    );
    let query = "SELECT coalesce(group_concat(id || hex(v)), '') FROM (SELECT * FROM t ORDER BY id)";
    database.query_row(query, [], |row| row.get(0)).unwrap()
}

fn at(sequence: u64) -> Until {
    Until::Transaction(TxId::new(sequence))
}

#[test]
fn every_state_that_was_delivered_can_be_had_again() {
    for (mode, seed) in [("WAL", 1), ("DELETE", 2)] {
        let mut case = Case::new(mode);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut states = Vec::new();
        for _ in 0..25 {
            (0..random.u8(..4)).for_each(|_| case.step(&mut random));
            if case.tick() {
                states.push(case.rows());
            }
        }
        assert_eq!(case.sink.sequence(), states.len() as u64);
        assert_eq!(case.restore(Until::Latest).unwrap(), *states.last().unwrap());
        for (sequence, state) in (1..).zip(&states) {
            assert_eq!(case.restore(at(sequence)).unwrap(), *state, "{mode}, {sequence}");
        }
        assert!(matches!(case.restore(at(99)), Err(Error::Refused { .. })));
    }
}

#[test]
fn a_time_leads_to_the_last_delivery_before_it() {
    let mut case = Case::new("WAL");
    let mut random = fastrand::Rng::with_seed(3);
    let (mut states, mut times) = (Vec::new(), Vec::new());
    while states.len() < 8 {
        case.step(&mut random);
        if case.tick() {
            states.push(case.rows());
            let last = *case.store().list(Level::SHIPMENTS).unwrap().last().unwrap();
            times.push(header(&case.store(), last).unwrap().unwrap().timestamp_ms);
        }
    }
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "times ascend, however quickly deliveries come");
    for (state, time) in states.iter().zip(&times) {
        assert_eq!(case.restore(Until::Time(*time)).unwrap(), *state);
    }
    assert!(matches!(case.restore(Until::Time(times[0] - 1)), Err(Error::Refused { .. })));
}

#[test]
fn a_shipper_goes_on_after_any_end() {
    let mut case = Case::new("WAL");
    let mut random = fastrand::Rng::with_seed(4);
    let mut saved: Option<(u64, crate::source::PageMap)> = None;
    for round in 0..30 {
        (0..random.u8(1..4)).for_each(|_| case.step(&mut random));
        case.tick();
        match random.u8(..4) {
            0 => saved = case.source.map().map(|map| (case.sink.sequence(), map.clone())),
            // It ends between reading and delivering: what was gathered is lost, and gathered again.
            1 => {
                case.step(&mut random);
                let sink = &mut case.sink;
                case.source.visit(|changes| sink.gather(changes)).unwrap();
            }
            _ => {}
        }
        let known = match random.u8(..3) {
            0 => None,
            _ => saved.clone(),
        };
        (case.source, case.sink) = Case::open(case.directory.path(), NODE, known).unwrap();
        case.tick();
        assert_eq!(case.restore(Until::Latest).unwrap(), case.rows(), "{round}");
    }
    let files = case.store().list(Level::SHIPMENTS).unwrap();
    assert!((1..).zip(&files).all(|(number, file)| file.name.min.get() == number), "no gap");
}

#[test]
fn what_was_forgotten_is_not_sent_where_it_is_there() {
    let mut case = Case::new("WAL");
    case.step(&mut fastrand::Rng::with_seed(9));
    assert!(case.tick());
    (case.source, case.sink) = Case::open(case.directory.path(), NODE, None).unwrap();
    assert!(!case.tick(), "the place has all of it");
    case.database.execute("INSERT INTO t VALUES(1000, 1)", []).unwrap();
    assert!(case.tick());
    assert_eq!(case.restore(Until::Latest).unwrap(), case.rows());
}

#[test]
fn a_second_shipper_is_fenced() {
    let mut case = Case::new("WAL");
    case.tick();
    assert!(matches!(Case::open(case.directory.path(), NODE + 1, None), Err(Error::Fenced { .. })));
    // A clone has the same number, and the same place.
    let known = case.source.map().map(|map| (1, map.clone()));
    let (mut source, mut clone) = Case::open(case.directory.path(), NODE, known).unwrap();
    case.database.execute("INSERT INTO t VALUES(1000, 1)", []).unwrap();
    source.visit(|changes| clone.gather(changes)).unwrap();
    case.database.execute("INSERT INTO t VALUES(1001, 1)", []).unwrap();
    assert!(case.tick());
    assert!(matches!(clone.deliver(), Err(Error::Fenced { .. })));
    assert_eq!(case.restore(Until::Latest).unwrap(), case.rows());
}

/// A store whose answers are lost: what was asked for happens all the same.
struct Deaf(Directory);

impl Store for Deaf {
    fn place(&self) -> &str {
        self.0.place()
    }
    fn list(&self, level: Level) -> Result<Vec<crate::store::Listed>> {
        self.0.list(level)
    }
    fn put_new(&self, name: FileName, body: &Body, timestamp_ms: u64) -> Result<Put> {
        match self.0.put_new(name, body, timestamp_ms)? {
            Put::Created => {
                Err(Error::Unreachable { place: String::new(), why: "the answer was lost".into() })
            }
            Put::Exists => Ok(Put::Exists),
        }
    }
    fn get(&self, name: FileName, range: std::ops::Range<u64>) -> Result<Option<Vec<u8>>> {
        self.0.get(name, range)
    }
    fn delete(&self, names: &[FileName]) -> Result<()> {
        self.0.delete(names)
    }
    fn parallel(&self) -> usize {
        1
    }
}

#[test]
fn a_lost_answer_is_no_second_delivery() {
    let mut case = Case::new("DELETE");
    let mut sink = Backup::new(Arc::new(Deaf(case.store())), NODE, case.directory.path());
    sink.resume(None).unwrap();
    for sequence in 1..4 {
        case.database.execute("INSERT INTO t VALUES(NULL, 1)", []).unwrap();
        case.source.visit(|changes| sink.gather(changes)).unwrap();
        assert!(sink.deliver().unwrap_err().is_transient() && sink.is_pending());
        assert_eq!(sink.deliver().unwrap().sequence, sequence);
        assert!(!sink.is_pending());
    }
    assert_eq!(case.store().list(Level::SHIPMENTS).unwrap().len(), 3);
    assert_eq!(case.restore(Until::Latest).unwrap(), case.rows());
}

#[test]
fn damage_is_found_and_leaves_nothing() {
    let mut case = Case::new("WAL");
    let mut random = fastrand::Rng::with_seed(6);
    for _ in 0..5 {
        (0..3).for_each(|_| case.step(&mut random));
        case.tick();
    }
    let sound = case.restore(Until::Latest).unwrap();
    let files = case.store().list(Level::SHIPMENTS).unwrap();
    for listed in &files {
        let path = case.directory.path().join("backup").join(listed.name.to_string());
        let bytes = std::fs::read(&path).unwrap();
        for _ in 0..40 {
            let mut damaged = bytes.clone();
            let at = random.usize(..damaged.len());
            damaged[at] ^= 1 << random.u8(..8);
            std::fs::write(&path, &damaged).unwrap();
            // A page that a later file has again is not looked at, nor is a time.
            if let Ok(rows) = case.restore(Until::Latest) {
                assert!(rows == sound, "{}, byte {at}", listed.name);
            }
        }
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(matches!(case.restore(Until::Latest), Err(Error::Damaged { .. })));
        std::fs::remove_file(&path).unwrap();
        let is_last = listed == files.last().unwrap();
        assert_eq!(case.restore(Until::Latest).is_ok(), is_last, "a gap is an error, and an end is none");
        std::fs::write(&path, &bytes).unwrap();
    }
    let left = std::fs::read_dir(case.directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(
        left.into_iter().all(|name| !name.to_string_lossy().starts_with(".litefoot")),
        "nothing unfinished stays"
    );
}

#[test]
fn what_is_there_is_not_replaced() {
    let mut case = Case::new("WAL");
    case.tick();
    let path = case.directory.path().join("there.db");
    for ending in ["", "-wal", "-journal", "-commits"] {
        let file = crate::source::beside(&path, ending);
        std::fs::write(&file, "precious").unwrap();
        assert!(Target::new(&path, Replace::Never).is_err(), "{ending}");
        std::fs::remove_file(&file).unwrap();
    }
    let target = Target::new(&path, Replace::Never).unwrap();
    std::fs::write(&path, "came meanwhile").unwrap();
    assert!(restore(&case.store(), Until::Latest, &target, &|_, _| Ok(())).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"came meanwhile");
}

#[test]
fn the_state_of_a_source_is_a_file() {
    let mut case = Case::new("WAL");
    case.tick();
    let known = state::Known { sequence: case.sink.sequence(), map: case.source.map().unwrap().clone() };
    let path = case.directory.path().join("state");
    state::save(&path, &known).unwrap();
    assert_eq!(state::load(&path).unwrap(), Some(known));
}
