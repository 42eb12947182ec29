//! One process after the other is killed while the next one waits for the database.
//!
//! `LITEFOOT_KILLS=1000 cargo test -p litefoot --test kill` makes it more than the few of a normal run.

#![allow(clippy::unwrap_used)]

use litefoot::Connection;
use litefoot_testkit::process::own_process;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

const DATABASE: &str = "LITEFOOT_TEST_DATABASE";
const WAIT: Duration = Duration::from_secs(60);

/// The processes' program: rows without end, each number printed once its commit has returned.
#[test]
#[ignore = "run by the other test, in processes of its own"]
fn ingest() {
    let path = std::env::var(DATABASE).unwrap();
    let db = Connection::open(path).unwrap();
    db.busy_timeout(WAIT).unwrap();
    let mut output = std::io::stdout().lock();
    writeln!(output, "\nready").unwrap();
    loop {
        // Two rows that belong together, and one that is taken back.
        db.execute_batch(
            "BEGIN; INSERT INTO t(v) VALUES(zeroblob(300)); SAVEPOINT s; DELETE FROM t; ROLLBACK TO s",
        )
        .unwrap();
        db.execute("INSERT INTO pairs VALUES(?1)", [db.last_insert_rowid()]).unwrap();
        let id = db.last_insert_rowid();
        db.execute_batch("COMMIT").unwrap();
        writeln!(output, "{id}").unwrap();
        output.flush().unwrap();
    }
}

struct Ingest {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Ingest {
    fn start(path: &Path) -> Ingest {
        let mut process = own_process("ingest")
            .arg("--nocapture")
            .env(DATABASE, format!("file:{}?sharing=exclusive", path.display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Ingest { process, output }
    }

    /// The next number printed.
    fn acknowledged(&mut self) -> i64 {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the process ended by itself");
            if let Ok(id) = line.trim().parse() {
                return id;
            }
        }
    }

    /// Kills the process; returns the last number it had printed.
    fn kill(mut self, mut last: i64) -> i64 {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        for line in self.output.lines() {
            last = line.unwrap().trim().parse().unwrap_or(last);
        }
        last
    }
}

fn kills() -> u64 {
    std::env::var("LITEFOOT_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

fn killed_again_and_again(journal_mode: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch(&format!(
        "PRAGMA journal_mode={journal_mode};
         CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, v BLOB); CREATE TABLE pairs(id INTEGER PRIMARY KEY)"
    ))
    .unwrap();
    drop(db);
    let mut owner = Ingest::start(&path);
    let mut last = owner.acknowledged();
    for round in 0..kills() {
        let next = Ingest::start(&path);
        for _ in 0..round % 7 * 3 {
            last = owner.acknowledged();
        }
        last = owner.kill(last);
        owner = next;
        let first = owner.acknowledged();
        // Numbers are never used twice: the next owner has seen everything acknowledged before.
        assert!(first > last, "{first} after {last} in round {round}");
        last = first;
    }
    last = owner.kill(last);
    let db = Connection::open(&path).unwrap();
    let (rows, pairs, most): (i64, i64, i64) = db
        .query_row(
            "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM pairs), max(id) FROM t",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .unwrap();
    assert!(rows == pairs && most >= last, "{rows} rows, {pairs} pairs, up to {most}, acknowledged {last}");
    let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok");
}

#[test]
fn killed_with_a_journal() {
    killed_again_and_again("delete");
}

#[test]
fn killed_with_a_write_ahead_log() {
    killed_again_and_again("wal");
}
