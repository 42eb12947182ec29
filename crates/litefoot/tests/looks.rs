//! A process that ships a database looks at it through its owner, without a visit: what it is told is the database, byte for byte.

#![allow(clippy::unwrap_used)]

mod support;

use litefoot::looks::{Answer, Asker, Part};
use litefoot::rusqlite::{Connection as Stock, ffi};
use litefoot::stats::Published;
use litefoot::{CommitLogForm, Connection, Options, Vfs};
use litefoot_sim::Random;
use litefoot_storage::file::{FileId, FileKind};
use litefoot_testkit::at_end::AtEnd;
use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use support::{Gate, of_this_machine};
use tempfile::TempDir;

/// Another process opens the file, reads nothing, and closes it.
fn visit(path: &Path) {
    assert!(Command::new("sh").args(["-c", ": < \"$0\""]).arg(path).status().unwrap().success());
}

/// Knocks as a shipper does, from another process: this one is the owner, which its own lease does not refuse.
fn knock(path: &Path) {
    let from = format!("if={}", path.display());
    let knocked = Command::new("dd").args([&from, "iflag=nonblock", "count=0"]).output();
    assert!(String::from_utf8_lossy(&knocked.unwrap().stderr).contains("unavailable"), "a lease refuses it");
    // The owner is on its way.
    std::thread::sleep(Duration::from_millis(5));
}

/// A copy of a database, by what its owner tells.
struct Copy {
    asker: Asker,
    bytes: Vec<u8>,
    page_bytes: usize,
    /// Pages that were told since the copy was whole.
    told: usize,
}

impl Copy {
    /// A copy that the owner of the database knows of.
    fn new(path: &Path) -> Copy {
        let mut copy = Copy { asker: Asker::new(path), bytes: Vec::new(), page_bytes: 0, told: 0 };
        let begun = Instant::now();
        while !copy.is_met() {
            assert!(begun.elapsed() < Duration::from_secs(20), "no owner comes");
            knock(path);
        }
        copy
    }

    /// True if an owner answers. A part that it tells is a part of the copy.
    fn is_met(&mut self) -> bool {
        match self.asker.changes() {
            Answer::Nobody => return false,
            Answer::Part(part) => self.apply(&part),
            Answer::Company | Answer::Busy => {}
        }
        true
    }

    fn apply(&mut self, part: &Part) {
        self.page_bytes = part.page_bytes as usize;
        self.bytes.resize(part.pages as usize * self.page_bytes, 0);
        self.told += part.numbers.len();
        for (number, page) in part.numbers.iter().zip(part.data.chunks(self.page_bytes.max(1))) {
            let at = (*number as usize - 1) * self.page_bytes;
            self.bytes[at..at + self.page_bytes].copy_from_slice(page);
        }
    }

    /// Asks until the copy is whole; answers how many pages it was told.
    fn follow(&mut self) -> usize {
        let begun = Instant::now();
        self.told = 0;
        loop {
            match self.asker.changes() {
                Answer::Part(part) => {
                    self.apply(&part);
                    if part.is_last {
                        return self.told;
                    }
                }
                Answer::Company | Answer::Busy => std::thread::sleep(Duration::from_millis(2)),
                Answer::Nobody => panic!("the owner has gone"),
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "no end");
        }
    }
}

/// What a history has told.
#[derive(Default, Debug)]
struct Told {
    /// Transactions, one by one.
    transactions: usize,
    /// Times that it had to tell what has changed instead.
    gaps: usize,
}

impl Copy {
    /// Asks for each transaction until nothing is left. `states` are those of the database since the last time, each of which has to be met; but for
    /// those behind which the newest is told alone.
    fn replay(&mut self, states: &mut VecDeque<Vec<u8>>, told: &mut Told) {
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < Duration::from_secs(60), "no end");
            let part = match self.asker.next_transaction() {
                Answer::Part(part) => part,
                Answer::Company | Answer::Busy => {
                    std::thread::sleep(Duration::from_millis(2));
                    continue;
                }
                Answer::Nobody => panic!("the owner has gone"),
            };
            self.apply(&part);
            match part.committed_ms {
                Some(_) if !part.is_last => {}
                Some(time) => {
                    let age = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
                        - time as i64;
                    assert!((0..60_000).contains(&age), "{age} ms");
                    told.transactions += 1;
                    // One statement may be several transactions.
                    if states.front() == Some(&self.bytes) {
                        states.pop_front();
                    }
                }
                None => {
                    if !part.numbers.is_empty() {
                        told.gaps += 1;
                        states.drain(..states.len().saturating_sub(1));
                    }
                    if part.is_last {
                        assert!(
                            states.iter().all(|state| *state == self.bytes),
                            "{} states were not told",
                            states.len()
                        );
                        states.clear();
                        return;
                    }
                }
            }
        }
    }
}

fn file_id(path: &Path) -> FileId {
    let file = std::fs::metadata(path).unwrap();
    FileId { device: file.dev(), inode: file.ino() }
}

/// The database as a connection sees it.
fn serialized(db: &Stock) -> Vec<u8> {
    let mut len = 0;
    // SAFETY: the connection is open; the bytes are copied before they are freed.
    unsafe {
        let bytes = ffi::sqlite3_serialize(db.handle(), c"main".as_ptr(), &raw mut len, 0);
        assert!(!bytes.is_null() || len == 0);
        let copy =
            if len > 0 { std::slice::from_raw_parts(bytes, len as usize).to_vec() } else { Vec::new() };
        ffi::sqlite3_free(bytes.cast());
        copy
    }
}

fn application(mode: &str, page_bytes: u32) -> (TempDir, PathBuf, Connection) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let db = Connection::open(&path).unwrap();
    let setup = format!(
        "PRAGMA page_size = {page_bytes}; PRAGMA auto_vacuum = incremental; PRAGMA journal_mode = {mode}; \
         CREATE TABLE t(a INTEGER PRIMARY KEY, b BLOB); CREATE INDEX i ON t(b); INSERT INTO t VALUES (1, zeroblob(20000))"
    );
    db.execute_batch(&setup).unwrap();
    (directory, path, db)
}

/// One change of any kind.
fn change(db: &Stock, random: &mut Random, mode: &str, other: &Path) {
    let (a, size) = (random.below(400), random.below(9000));
    let statement = match random.below(16) {
        0..=4 => format!("REPLACE INTO t VALUES ({a}, randomblob({size}))"),
        5..=7 => format!("DELETE FROM t WHERE a BETWEEN {a} AND {a} + 20"),
        8 => format!("UPDATE t SET b = randomblob({size}) WHERE a < {a}"),
        // There is no way back in the mode `off`.
        9 | 10 if mode == "off" => format!("DELETE FROM t WHERE a = {a}"),
        9 => "BEGIN; DELETE FROM t; SAVEPOINT s; CREATE TABLE u(x); ROLLBACK TO s; ROLLBACK".to_owned(),
        10 => "BEGIN; INSERT OR IGNORE INTO t SELECT a + 1000, b FROM t; SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; COMMIT"
            .to_owned(),
        11 => format!("DELETE FROM t WHERE a > {a}; PRAGMA incremental_vacuum({})", random.below(50)),
        12 => "VACUUM".to_owned(),
        13 if mode == "wal" => "PRAGMA wal_checkpoint(truncate)".to_owned(),
        13 => format!("PRAGMA cache_size = {}", 5 + random.below(50)),
        14 => format!(
            "ATTACH '{}' AS o; BEGIN; CREATE TABLE IF NOT EXISTS o.v(x); INSERT INTO o.v VALUES (1); \
             INSERT OR IGNORE INTO t VALUES ({a}, 'both'); COMMIT; DETACH o",
            other.display()
        ),
        _ => format!("PRAGMA user_version = {a}"),
    };
    db.execute_batch(&statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
}

/// Whatever a database goes through, its copy is it, in each journal mode. Two visitors come meanwhile, of which one writes.
#[test]
fn a_copy_by_looks_is_the_database() {
    let modes = [
        ("wal", 4096),
        ("delete", 4096),
        ("wal", 512),
        ("truncate", 1024),
        ("persist", 65536),
        ("memory", 2048),
        ("off", 4096),
    ];
    std::thread::scope(|scope| {
        for (number, (mode, page_bytes)) in (0..).zip(modes) {
            scope.spawn(move || follow_changes(number, mode, page_bytes));
        }
    });
}

fn follow_changes(seed: u64, mode: &str, page_bytes: u32) {
    let (directory, path, db) = application(mode, page_bytes);
    let other = directory.path().join("other.db");
    let mut copy = Copy::new(&path);
    let mut random = Random::new(seed);
    for round in 0..120 {
        for _ in 0..random.below(4) {
            change(&db, &mut random, mode, &other);
        }
        match round {
            40 => visit(&path),
            80 => {
                let script = ".timeout 9000\nINSERT INTO t(b) VALUES ('from outside');";
                let arguments = script.split('\n').flat_map(|line| ["-cmd", line]);
                let visitor = Command::new("sqlite3").args(arguments).arg(&path).arg("SELECT 1").output();
                assert!(visitor.unwrap().status.success());
            }
            _ => {}
        }
        copy.follow();
        let expected = serialized(&db);
        let both = copy.bytes.chunks(copy.page_bytes).zip(expected.chunks(copy.page_bytes));
        let first = both.enumerate().find(|(_, (told, is))| told != is).map(|(at, _)| at + 1);
        assert_eq!((first, copy.bytes.len()), (None, expected.len()), "{mode} {page_bytes} {round}");
    }
}

/// A history has each state of a database, in each journal mode, as long as its owner is alone. Two visitors come meanwhile.
#[test]
fn a_history_has_each_transaction() {
    let modes = [("wal", 4096), ("delete", 4096), ("wal", 512), ("truncate", 1024), ("persist", 65536)];
    std::thread::scope(|scope| {
        for (number, (mode, page_bytes)) in (0..).zip(modes) {
            scope.spawn(move || {
                let told = follow_history(number, mode, page_bytes);
                // Of two databases, and what a visitor has written, is no history.
                assert!(told.transactions > 90 && told.gaps < 40, "{mode} {page_bytes}: {told:?}");
            });
        }
    });
}

/// An owner that is alone with plain transactions never has to tell what has changed instead.
#[test]
fn a_history_of_plain_transactions_has_no_gap() {
    for mode in ["wal", "delete"] {
        let (_directory, path, db) = application(mode, 4096);
        let mut copy = Copy::new(&path);
        let (mut random, mut told, mut states) = (Random::new(5), Told::default(), VecDeque::new());
        copy.replay(&mut states, &mut told);
        told = Told::default();
        for _ in 0..150 {
            for _ in 0..random.below(6) {
                let (a, size) = (random.below(60), random.below(9000));
                let statement = format!(
                    "BEGIN; REPLACE INTO t VALUES ({a}, randomblob({size})); DELETE FROM t WHERE a = ({a} + 30) % 60; COMMIT"
                );
                db.execute_batch(&statement).unwrap();
                states.push_back(serialized(&db));
            }
            copy.replay(&mut states, &mut told);
        }
        assert!(told.transactions > 300 && told.gaps == 0, "{mode}: {told:?}");
    }
}

/// SQLite does not write pages that a transaction has added, and frees again. What they hold is told all the same.
#[test]
fn a_history_has_transactions_with_new_pages_that_are_free_again() {
    for mode in ["wal", "delete"] {
        let (_directory, path, db) = application(mode, 4096);
        let mut copy = Copy::new(&path);
        copy.replay(&mut VecDeque::new(), &mut Told::default());
        let (mut states, mut told) = (VecDeque::new(), Told::default());
        for a in [100, 200, 300] {
            let statement = format!(
                "BEGIN; INSERT INTO t VALUES ({a}, zeroblob(40000)), ({a} + 1, randomblob(20000 + {a})); \
                 DELETE FROM t WHERE a = {a}; COMMIT"
            );
            db.execute_batch(&statement).unwrap();
            states.push_back(serialized(&db));
        }
        copy.replay(&mut states, &mut told);
        assert_eq!((told.transactions, told.gaps), (3, 0), "{mode}");
    }
}

/// Who asks for what has changed instead of the next transaction is told that of those that were not told.
#[test]
fn transactions_that_are_not_told_have_changed_their_pages() {
    let (_directory, path, db) = application("wal", 4096);
    let mut copy = Copy::new(&path);
    copy.replay(&mut VecDeque::new(), &mut Told::default());
    let mut page = vec![0; copy.page_bytes];
    assert!(copy.asker.page(2, &mut page));
    for round in 0..3 {
        db.execute_batch(&format!("REPLACE INTO t VALUES ({round}, zeroblob(20000 + {round}))")).unwrap();
    }
    let Answer::Part(first) = copy.asker.next_transaction() else { panic!("the owner tells it") };
    assert!(first.is_last && first.committed_ms.is_some());
    copy.apply(&first);
    assert!(copy.bytes != serialized(&db));
    // What a page is now may be of a later moment.
    assert!(!copy.asker.page(2, &mut page));
    copy.follow();
    assert_eq!(copy.bytes, serialized(&db));
    assert!(copy.asker.page(2, &mut page));
}

fn follow_history(seed: u64, mode: &str, page_bytes: u32) -> Told {
    let (directory, path, db) = application(mode, page_bytes);
    let other = directory.path().join("other.db");
    let mut copy = Copy::new(&path);
    let (mut random, mut told, mut states) = (Random::new(seed), Told::default(), VecDeque::new());
    copy.replay(&mut VecDeque::new(), &mut told);
    let mut last = serialized(&db);
    assert_eq!(copy.bytes, last);
    for round in 0..80 {
        for _ in 0..random.below(5) {
            change(&db, &mut random, mode, &other);
            let state = serialized(&db);
            if state != last {
                states.push_back(state.clone());
            }
            last = state;
        }
        if round == 40 {
            visit(&path);
        }
        if round % 20 == 19 {
            // What is asked for with less care is not told twice.
            copy.follow();
            states.clear();
        }
        copy.replay(&mut states, &mut told);
        assert_eq!(copy.bytes.len(), last.len(), "{mode} {page_bytes} {round}");
        assert!(copy.bytes == last, "{mode} {page_bytes} {round}");
    }
    told
}

/// An owner is asked a thousand times, and stays the owner: only the pages of a change are told.
#[test]
fn looks_are_no_visits_and_tell_what_has_changed() {
    for mode in ["wal", "delete"] {
        let (_directory, path, db) = application(mode, 4096);
        db.execute_batch("WITH n(i) AS (VALUES (2) UNION ALL SELECT i + 1 FROM n WHERE i < 900) INSERT INTO t SELECT i, randomblob(3000) FROM n")
            .unwrap();
        let mut copy = Copy::new(&path);
        copy.follow();
        assert!(copy.bytes.len() > 700 * 4096, "everything at first");
        assert_eq!(copy.follow(), 0);
        let changes =
            || Published::find_owner(file_id(&path)).unwrap().read().unwrap().get("sharing_changes");
        assert_eq!(changes(), 0, "to knock is no visit");
        for round in 0..300 {
            db.execute("UPDATE t SET b = ?1 WHERE a = 1", [round]).unwrap();
            let told = copy.follow();
            assert!((1..=6).contains(&told), "{mode} {round}: {told} pages");
        }
        assert_eq!(changes(), 0, "{mode}");
        assert_eq!(copy.bytes, serialized(&db), "{mode}");
        let mut page = vec![0; copy.page_bytes];
        assert!(copy.asker.page(2, &mut page) && page == copy.bytes[copy.page_bytes..2 * copy.page_bytes]);
        db.execute_batch("VACUUM").unwrap();
        assert!(!copy.asker.page(2, &mut page), "it may have changed");
    }
}

/// Threads move amounts, without a busy timeout where one writes alone. Each whole copy has all of the money, and nobody is refused.
#[test]
fn copies_are_moments_and_writers_notice_nothing() {
    // Transactions of several databases are written in place, by a journal of SQLite's.
    for (mode, writers, is_of_two) in [
        ("wal", 1, false),
        ("delete", 1, false),
        ("wal", 3, false),
        ("delete", 3, false),
        ("delete", 1, true),
    ] {
        let (directory, path, db) = application(mode, 4096);
        let other = directory.path().join("other.db");
        db.execute_batch("CREATE TABLE m(id INTEGER PRIMARY KEY, amount, filler); WITH n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 200) INSERT INTO m SELECT i, 100, zeroblob(1500) FROM n")
            .unwrap();
        let mut copy = Copy::new(&path);
        let (is_over, refused) = (AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for number in 0..writers {
                let (path, other, is_over, refused) = (&path, &other, &is_over, &refused);
                scope.spawn(move || {
                    let db = Connection::open(path).unwrap();
                    db.busy_timeout(Duration::from_secs(if writers > 1 { 20 } else { 0 })).unwrap();
                    if is_of_two {
                        let attach = format!("ATTACH '{}' AS o; CREATE TABLE o.v(x)", other.display());
                        db.execute_batch(&attach).unwrap();
                    }
                    let also = if is_of_two { "INSERT INTO o.v VALUES (1);" } else { "" };
                    let mut random = Random::new(number);
                    while !is_over.load(Ordering::Relaxed) {
                        let [from, to] = [0; 2].map(|_| 1 + random.below(200));
                        let moved = format!(
                            "BEGIN IMMEDIATE; UPDATE m SET amount = amount - 7 WHERE id = {from}; \
                             UPDATE m SET amount = amount + 7 WHERE id = {to}; {also} COMMIT"
                        );
                        if db.execute_batch(&moved).is_err() {
                            refused.fetch_add(1, Ordering::Relaxed);
                            let _ = db.execute_batch("ROLLBACK");
                        }
                    }
                });
            }
            // Also where something is wrong.
            let _ends = AtEnd(|| is_over.store(true, Ordering::Relaxed));
            for number in 0..60 {
                copy.follow();
                let copied = directory.path().join(format!("copy{number}.db"));
                // It has no log: the mode of a journal.
                let mut bytes = copy.bytes.clone();
                bytes[18..20].fill(1);
                std::fs::write(&copied, bytes).unwrap();
                let stock = Stock::open(&copied).unwrap();
                let sum: i64 = stock.query_row("SELECT sum(amount) FROM m", [], |row| row.get(0)).unwrap();
                let sound: String = stock.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
                assert_eq!((sum, sound.as_str()), (20_000, "ok"), "{mode} {writers} {number}");
            }
        });
        assert_eq!(refused.into_inner(), 0, "{mode} {writers}");
    }
}

/// A commit that others may see already waits for its sync: what ships it waits as well.
#[test]
fn what_a_power_cut_could_take_back_is_not_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let (gate, pass) = Gate::new();
    let medium = of_this_machine(move |kind: FileKind, durable| {
        pass(kind, durable);
    });
    let options = Options { commit_log: CommitLogForm::Deltas, ..Options::default() };
    let vfs = Vfs::builder("looks-at-a-gate").medium(medium).options(options).register().unwrap();
    let db = vfs.open(&path).unwrap();
    db.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t(a INTEGER PRIMARY KEY, b)").unwrap();
    let mut copy = Copy::new(&path);
    copy.follow();
    // The first commits may be pages.
    (0..30).for_each(|_| db.execute_batch("INSERT INTO t(b) VALUES ('before')").unwrap());
    copy.follow();
    gate.arm();
    let is_durable = AtomicBool::new(false);
    let _db = std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            db.execute_batch("INSERT INTO t(b) VALUES ('at the gate')").unwrap();
            db
        });
        gate.wait_until_reached();
        let looker = scope.spawn(|| (copy.follow(), is_durable.load(Ordering::SeqCst)));
        std::thread::sleep(Duration::from_millis(200));
        is_durable.store(true, Ordering::SeqCst);
        gate.open();
        let (told, was_durable) = looker.join().unwrap();
        assert!(told == 0 || was_durable, "{told} pages of a commit that is not durable");
        writer.join().unwrap()
    });
    copy.follow();
    assert!(copy.bytes.windows(11).any(|bytes| bytes == b"at the gate"));
}

/// The end of the application ends the stream; the next owner is met at its first visitor.
#[test]
fn each_owner_is_met_anew() {
    let (_directory, path, db) = application("wal", 4096);
    let mut copy = Copy::new(&path);
    copy.follow();
    drop(db);
    let begun = Instant::now();
    while copy.is_met() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    }
    let db = Connection::open(&path).unwrap();
    db.execute_batch("INSERT INTO t(b) VALUES ('new')").unwrap();
    while !copy.is_met() {
        assert!(begun.elapsed() < Duration::from_secs(40));
        knock(&path);
    }
    copy.follow();
    assert_eq!(copy.bytes, serialized(&db));
}
