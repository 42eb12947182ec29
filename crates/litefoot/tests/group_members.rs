//! The group (`sharing=group`): real processes that use a database together, of which the first commits for all.
//!
//! Each process is this test's binary once more, with what it is to do in its environment.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::{Connection, ErrorCode};
use litefoot::{Options, Vfs};
use litefoot_sim::Random;
use litefoot_testkit::sqlite::metric_or_zero;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MODES: [&str; 4] = ["delete", "persist", "truncate", "wal"];

fn open(path: &Path) -> (Vfs, Connection) {
    let mut options = Options::default();
    options.set_list("sharing=group").unwrap();
    let vfs = Vfs::builder("members").options(options).register().unwrap();
    let db = vfs.open(path).unwrap();
    db.busy_timeout(Duration::from_secs(20)).unwrap();
    (vfs, db)
}

/// Another process of this test: a line of its output at a time.
struct Process {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Process {
    fn start(work: &str, path: &Path, writer: u32) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "another_process", "--nocapture", "--test-threads=1"])
            .envs([("GROUP_WORK", work), ("GROUP_WRITER", &writer.to_string())])
            .env("GROUP_PATH", path)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut process = Process { child, output };
        process.await_line("ready");
        process
    }

    fn await_line(&mut self, wanted: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the process has ended before: {wanted}");
            // The harness writes before it, in the same line.
            if let Some(at) = line.find(wanted) {
                return line[at + wanted.len()..].trim().to_owned();
            }
        }
    }

    fn tell(&mut self, word: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        writeln!(input, "{word}").unwrap();
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

fn acknowledged(path: &Path, writer: u32) -> PathBuf {
    path.with_extension(format!("acknowledged-{writer}"))
}

/// What the other processes do; nothing where this is the test's own process.
#[test]
fn another_process() {
    let Ok(work) = std::env::var("GROUP_WORK") else { return };
    let path = PathBuf::from(std::env::var("GROUP_PATH").unwrap());
    let writer: i64 = std::env::var("GROUP_WRITER").unwrap().parse().unwrap();
    let (_vfs, db) = open(&path);
    let _: i64 = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    println!("ready");
    match work.as_str() {
        // Commits until it is killed, or its input ends.
        "write" => write_until_told(&db, &path, writer),
        // One statement a line.
        "obey" => {
            for line in std::io::stdin().lines() {
                match db.execute_batch(&line.unwrap()) {
                    Ok(()) => println!("done"),
                    Err(error) => println!("failed: {error}"),
                }
            }
        }
        other => panic!("{other}"),
    }
}

fn write_until_told(db: &Connection, path: &Path, writer: i64) {
    use std::sync::atomic::{AtomicBool, Ordering};
    static ENDS: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(|| {
        for line in std::io::stdin().lines() {
            drop(line);
        }
        ENDS.store(true, Ordering::Release);
    });
    let mut log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(acknowledged(path, u32::try_from(writer).unwrap()))
        .unwrap();
    let mut n: i64 = db
        .query_row("SELECT coalesce(max(n), 0) FROM t WHERE writer = ?1", [writer], |row| row.get(0))
        .unwrap();
    while !ENDS.load(Ordering::Acquire) {
        n += 1;
        let inserted = if n % 7 == 0 {
            db.execute_batch(&format!(
                "BEGIN IMMEDIATE; INSERT INTO t VALUES({writer}, {n}, zeroblob(300)); \
                 UPDATE sums SET n = n + 1; COMMIT"
            ))
        } else {
            db.execute_batch(&format!("INSERT INTO t VALUES({writer}, {n}, randomblob(50))"))
        };
        match inserted {
            Ok(()) => writeln!(log, "{n}").unwrap(),
            Err(error) => {
                println!("failed: {error}");
                if !db.is_autocommit() {
                    let _ = db.execute_batch("ROLLBACK");
                }
            }
        }
    }
}

fn create(directory: &tempfile::TempDir, mode: &str) -> (PathBuf, Vfs, Connection) {
    let path = directory.path().join("app.db");
    let (vfs, db) = open(&path);
    db.execute_batch(&format!(
        "PRAGMA journal_mode={mode}; CREATE TABLE t(writer INTEGER, n INTEGER, data BLOB, PRIMARY KEY(writer, n)); \
         CREATE TABLE sums(n INTEGER); INSERT INTO sums VALUES(0)"
    ))
    .unwrap();
    (path, vfs, db)
}

fn count(db: &Connection) -> i64 {
    db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

/// Everything that was acknowledged is there, and the database is sound.
fn check(db: &Connection, path: &Path, writers: impl Iterator<Item = u32>) -> usize {
    let mut total = 0;
    for writer in writers {
        let Ok(text) = std::fs::read_to_string(acknowledged(path, writer)) else { continue };
        for n in text.lines().filter_map(|line| line.parse::<i64>().ok()) {
            let is_there: bool = db
                .query_row(
                    "SELECT EXISTS(SELECT 1 FROM t WHERE writer = ?1 AND n = ?2)",
                    [i64::from(writer), n],
                    |row| row.get(0),
                )
                .unwrap();
            assert!(is_there, "commit {n} of process {writer} was acknowledged, and is lost");
            total += 1;
        }
    }
    let sevenths: i64 = db.query_row("SELECT count(*) FROM t WHERE n % 7 = 0", [], |row| row.get(0)).unwrap();
    let sum: i64 = db.query_row("SELECT n FROM sums", [], |row| row.get(0)).unwrap();
    assert_eq!(sum, sevenths, "transactions are whole");
    let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok");
    total
}

#[test]
fn members_see_and_make_commits_as_connections_of_the_owner_do() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        let mut one = Process::start("obey", &path, 1);
        let mut two = Process::start("obey", &path, 2);
        for (process, sql) in [
            (&mut one, "INSERT INTO t VALUES(1, 1, 'a')"),
            (&mut two, "INSERT INTO t SELECT 2, n, data FROM t WHERE writer = 1"),
        ] {
            process.tell(sql);
            process.await_line("done");
        }
        assert_eq!(count(&db), 2, "{mode}");
        db.execute_batch("INSERT INTO t VALUES(0, 1, 'b')").unwrap();
        one.tell("INSERT INTO t SELECT 3, count(*), 'c' FROM t");
        one.await_line("done");
        let counted: i64 = db.query_row("SELECT n FROM t WHERE writer = 3", [], |row| row.get(0)).unwrap();
        assert_eq!(counted, 3, "{mode}");
        // A transaction of a member keeps the others out, and its death gives them the lock.
        two.tell("BEGIN IMMEDIATE; INSERT INTO t VALUES(9, 9, 'never')");
        two.await_line("done");
        db.busy_timeout(Duration::ZERO).unwrap();
        let refused = db.execute_batch("INSERT INTO t VALUES(0, 2, 'd')").unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{mode}");
        two.kill();
        db.busy_timeout(Duration::from_secs(10)).unwrap();
        db.execute_batch("INSERT INTO t VALUES(0, 2, 'd')").unwrap();
        assert_eq!(count(&db), 5, "{mode}");
        one.end();
        assert_eq!(metric_or_zero(&db, "sharing_changes"), 0, "{mode}");
        drop(db);
        let left: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["app.db"], "{mode}");
        assert_eq!(count(&Connection::open(&path).unwrap()), 5, "{mode}, stock");
    }
}

#[test]
fn the_death_of_members_costs_nothing_that_was_acknowledged() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        let mut random = Random::new(7);
        let mut members: Vec<_> = (1..4).map(|writer| Process::start("write", &path, writer)).collect();
        let mut next = 4;
        let end = Instant::now() + Duration::from_secs(4);
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(random.below(120)));
            let at = random.below(members.len() as u64) as usize;
            members.swap_remove(at).kill();
            db.execute_batch("UPDATE sums SET n = n").unwrap();
            members.push(Process::start("write", &path, next));
            next += 1;
        }
        members.into_iter().for_each(Process::end);
        let total = check(&db, &path, 1..next);
        assert!(total > 20, "{mode}: {total}");
        drop(db);
        check(&Connection::open(&path).unwrap(), &path, 1..next);
    }
}

#[test]
fn members_go_on_after_the_death_of_their_owner() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create(&directory, mode);
        drop((db, vfs));
        let owner = Process::start("write", &path, 1);
        let mut members: Vec<_> = (2..5).map(|writer| Process::start("write", &path, writer)).collect();
        std::thread::sleep(Duration::from_millis(500));
        owner.kill();
        std::thread::sleep(Duration::from_millis(500));
        let before: Vec<_> = (2..5)
            .map(|writer| std::fs::read_to_string(acknowledged(&path, writer)).unwrap().len())
            .collect();
        std::thread::sleep(Duration::from_millis(1000));
        for (writer, before) in (2..5).zip(before) {
            let after = std::fs::read_to_string(acknowledged(&path, writer)).unwrap().len();
            assert!(after > before, "{mode}: process {writer} goes on");
        }
        // The next owner is one of them.
        for member in members.drain(..2) {
            member.kill();
        }
        std::thread::sleep(Duration::from_millis(300));
        members.into_iter().for_each(Process::end);
        let (_vfs, db) = open(&path);
        assert!(check(&db, &path, 1..5) > 20, "{mode}");
    }
}

#[test]
fn a_stranger_comes_and_goes_beside_members() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db) = create(&directory, "delete");
    let members: Vec<_> = (1..3).map(|writer| Process::start("write", &path, writer)).collect();
    for n in 0..5 {
        let stranger = Connection::open(&path).unwrap();
        stranger.busy_timeout(Duration::from_secs(20)).unwrap();
        stranger.execute("INSERT INTO t VALUES(100, ?1, NULL)", [n + 1]).unwrap();
        drop(stranger);
        std::thread::sleep(Duration::from_millis(100));
    }
    members.into_iter().for_each(Process::end);
    let strangers: i64 =
        db.query_row("SELECT count(*) FROM t WHERE writer = 100", [], |row| row.get(0)).unwrap();
    assert_eq!(strangers, 5);
    check(&db, &path, 1..3);
}
