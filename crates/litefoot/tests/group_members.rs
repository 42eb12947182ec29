//! The group (`sharing=group`): real processes that use a database together, of which the first commits for all.
//!
//! Each process is this test's binary once more, with what it is to do in its environment.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::{Connection, ErrorCode};
use litefoot::{Options, Vfs};
use litefoot_sim::Random;
use litefoot_testkit::sqlite::metric_or_zero;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
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

    /// The answer to a statement: `done`, or what has failed.
    fn await_answer(&mut self) -> String {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the process has ended");
        line.trim().to_owned()
    }

    fn tell(&mut self, word: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        writeln!(input, "{word}").unwrap();
    }

    /// Ends its input: it finishes what it does, and ends.
    fn end_input(&mut self) {
        drop(self.child.stdin.take());
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it, and answers what it has said since.
    fn end_with_output(mut self) -> String {
        drop(self.child.stdin.take());
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success());
        said
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Where a test has failed: also one that is stopped ends.
        let _ = self.child.kill();
        let _ = self.child.wait();
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

/// Statements as an application makes them, of all kinds that end a transaction or keep it open.
fn random_statement(random: &mut Random, n: i64) -> String {
    let key = random.below(60);
    match random.below(22) {
        0 => "BEGIN".to_owned(),
        1 => "BEGIN IMMEDIATE".to_owned(),
        2 | 3 => "COMMIT".to_owned(),
        4 => "ROLLBACK".to_owned(),
        5 => "SAVEPOINT a".to_owned(),
        6 => "ROLLBACK TO a".to_owned(),
        7 => "RELEASE a".to_owned(),
        8 => format!("INSERT INTO t VALUES({key}, {n}, zeroblob({}))", random.below(900_000)),
        9 => format!("DELETE FROM t WHERE writer < {}", random.below(60)),
        10 => "VACUUM".to_owned(),
        11 => format!("PRAGMA cache_size={}", 10 + random.below(100)),
        12 => format!("UPDATE sums SET n = n + {n}; UPDATE t SET n = -n WHERE writer = {key}"),
        13 => format!("PRAGMA user_version={n}"),
        14 => format!("CREATE TABLE IF NOT EXISTS x{}(a, b UNIQUE)", random.below(4)),
        15 => format!("DROP TABLE IF EXISTS x{}", random.below(4)),
        16 => format!("PRAGMA synchronous={}", ["OFF", "NORMAL", "FULL"][random.below(3) as usize]),
        17 => format!(
            "PRAGMA journal_mode={}",
            ["delete", "truncate", "persist", "memory"][random.below(4) as usize]
        ),
        18 => format!("INSERT INTO t SELECT writer, n + 1, data FROM t WHERE writer > {key}"),
        19 => format!("INSERT INTO t VALUES({key}, {n}, 'a'), ({key}, {n}, 'a')"),
        _ => format!("INSERT INTO t VALUES({key}, {n}, hex(zeroblob({})))", random.below(3000)),
    }
}

fn content(db: &Connection) -> Vec<String> {
    let mut found = Vec::new();
    for sql in [
        "SELECT type || name || coalesce(sql, '') FROM sqlite_schema ORDER BY 1",
        "SELECT writer || ' ' || n || ' ' || length(data) || ' ' || hex(substr(data, 1, 4)) FROM t ORDER BY writer, n",
        "SELECT 'sum ' || n FROM sums",
        "SELECT 'version ' || user_version FROM pragma_user_version",
        "SELECT integrity_check FROM pragma_integrity_check",
    ] {
        let mut statement = db.prepare(sql).unwrap();
        found.extend(statement.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap));
    }
    found
}

/// Two members and stock SQLite run the same statements, one connection at a time.
#[test]
fn members_answer_as_stock_sqlite_does() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, "delete");
        let stock_path = directory.path().join("stock.db");
        std::fs::copy(&path, &stock_path).unwrap();
        let mut members = [1, 2].map(|writer| Process::start("obey", &path, writer));
        let stock = [(); 2].map(|()| Connection::open(&stock_path).unwrap());
        let mut log = Vec::new();
        for n in 0..150 {
            let at = random.below(2) as usize;
            let sql = random_statement(&mut random, n);
            // The other one is in no transaction, or both would wait for each other.
            let other = 1 - at;
            if !stock[other].is_autocommit() {
                let _ = stock[other].execute_batch("COMMIT");
                members[other].tell("COMMIT");
                members[other].await_answer();
            }
            let expected = stock[at].execute_batch(&sql);
            members[at].tell(&sql);
            let found = members[at].await_answer();
            log.push(format!("{at}: {sql}: {expected:?} {found}"));
            assert_eq!(found == "done", expected.is_ok(), "seed {seed}\n{}", log.join("\n"));
            if n % 10 == 9 && stock.iter().all(Connection::is_autocommit) {
                assert_eq!(content(&db), content(&stock[0]), "seed {seed}\n{}", log.join("\n"));
            }
        }
        members.into_iter().for_each(Process::end);
        for one in &stock {
            let _ = one.execute_batch("ROLLBACK");
        }
        assert_eq!(content(&db), content(&stock[0]), "seed {seed}\n{}", log.join("\n"));
        drop(db);
        assert_eq!(content(&Connection::open(&path).unwrap()), content(&stock[1]), "seed {seed}, by stock");
    }
}

#[test]
fn a_commit_of_a_member_without_a_write_ahead_log_is_few_messages() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db) = create(&directory, "delete");
    let mut members = [1, 2].map(|writer| Process::start("obey", &path, writer));
    let mut insert = |at: usize, n: i64| {
        members[at].tell(&format!("INSERT INTO t VALUES({at}, {n}, 'some text')"));
        assert_eq!(members[at].await_answer(), "done");
    };
    for n in 0..4 {
        insert(0, n);
        insert(1, n);
    }
    let before = metric_or_zero(&db, "member_calls");
    for n in 4..54 {
        insert(0, n);
        insert(1, n);
    }
    let calls = metric_or_zero(&db, "member_calls") - before;
    // The lock, the lock to write alone, the commit; now and then a page that is new to the member.
    assert!((300..=330).contains(&calls), "{calls} for 100 commits");
    assert_eq!(count(&db), 108);
}

#[test]
fn a_stranger_that_comes_in_the_middle_of_a_members_transaction_sees_it_whole_or_not() {
    for mode in ["delete", "truncate", "persist"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        let mut member = Process::start("obey", &path, 1);
        for n in 0..6 {
            for sql in [
                "BEGIN IMMEDIATE",
                &format!("INSERT INTO t VALUES(1, {n}, 'a')"),
                "UPDATE sums SET n = n + 1",
            ] {
                member.tell(sql);
                assert_eq!(member.await_answer(), "done", "{mode}");
            }
            let stranger = Connection::open(&path).unwrap();
            stranger.busy_timeout(Duration::from_secs(20)).unwrap();
            let seen = |stranger: &Connection| {
                let sum: i64 = stranger.query_row("SELECT n FROM sums", [], |row| row.get(0)).unwrap();
                (count(stranger), sum)
            };
            let committed = n / 2 + n % 2;
            assert_eq!(seen(&stranger), (committed, committed), "{mode}");
            // Every other one is rolled back.
            let commits = n % 2 == 0;
            member.tell(if commits { "COMMIT" } else { "ROLLBACK" });
            assert_eq!(member.await_answer(), "done", "{mode}");
            let committed = committed + i64::from(commits);
            assert_eq!(seen(&stranger), (committed, committed), "{mode}");
        }
        member.end();
        assert_eq!(count(&db), 3, "{mode}");
    }
}

#[test]
fn a_member_in_exclusive_mode_keeps_its_lock_and_what_it_commits_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db) = create(&directory, "delete");
    let mut member = Process::start("obey", &path, 1);
    let mut run = |sql: &str| {
        member.tell(sql);
        member.await_answer()
    };
    for sql in [
        "INSERT INTO t VALUES(1, 1, 'a')",
        "PRAGMA locking_mode=EXCLUSIVE",
        "INSERT INTO t VALUES(1, 2, 'b')",
        "BEGIN; INSERT INTO t VALUES(1, 3, zeroblob(100000)); ROLLBACK",
        "INSERT INTO t VALUES(1, 4, 'c')",
    ] {
        assert_eq!(run(sql), "done", "{sql}");
    }
    db.busy_timeout(Duration::ZERO).unwrap();
    assert!(db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).is_err(), "it is locked");
    assert_eq!(run("PRAGMA locking_mode=NORMAL; SELECT count(*) FROM t"), "done");
    db.busy_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(count(&db), 3);
}

fn signal(process: &Process, name: &str) {
    let status = Command::new("kill").args([name, &process.child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_member_gives_an_owner_up_that_is_stopped_and_goes_on_with_it_later() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create(&directory, mode);
        drop((db, vfs));
        let owner = Process::start("obey", &path, 1);
        let (_vfs, db) = open(&path);
        db.execute_batch("INSERT INTO t VALUES(2, 1, 'a')").unwrap();
        db.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES(2, 2, 'b')").unwrap();
        signal(&owner, "-STOP");
        db.busy_timeout(Duration::from_millis(300)).unwrap();
        let lost = db.execute_batch("COMMIT").unwrap_err();
        assert!(lost.to_string().contains("disk I/O error"), "{mode}: {lost}");
        let _ = db.execute_batch("ROLLBACK");
        for sql in ["INSERT INTO t VALUES(2, 3, 'c')", "SELECT count(*) FROM t"] {
            let refused = db.query_row(sql, [], |_| Ok(())).unwrap_err();
            // In WAL mode nobody can wait for a lock to read.
            let expected = if mode == "wal" { ErrorCode::SystemIoFailure } else { ErrorCode::DatabaseBusy };
            assert_eq!(refused.sqlite_error_code(), Some(expected), "{mode}: {sql}: {refused}");
        }
        let mut options = Options::default();
        options.set_list("sharing=group").unwrap();
        let another = Vfs::builder("another").options(options).register().unwrap();
        let refused = another.open(&path).map(drop).unwrap_err().to_string();
        assert!(refused.contains("is stopped"), "{mode}: {refused}");
        signal(&owner, "-CONT");
        if mode == "wal" {
            // Its connection has to be opened again.
            drop(db);
            owner.end();
            continue;
        }
        db.busy_timeout(Duration::from_secs(20)).unwrap();
        db.execute_batch("INSERT INTO t VALUES(2, 4, 'd')").unwrap();
        // The commit that was under way may be there, or not; what was refused is not.
        let found: i64 =
            db.query_row("SELECT count(*) FROM t WHERE n IN (1, 3, 4)", [], |row| row.get(0)).unwrap();
        assert_eq!(found, 2, "{mode}");
        owner.end();
        assert!(count(&db) >= 2, "{mode}");
    }
}

#[test]
fn an_owner_that_ends_in_order_lets_transactions_end_and_nobody_fails() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create(&directory, mode);
        drop((db, vfs));
        let mut owners = vec![Process::start("obey", &path, 1)];
        let mut member = Process::start("obey", &path, 2);
        let mut writers: Vec<_> = (3..5).map(|writer| Process::start("write", &path, writer)).collect();
        for n in 0..3 {
            // In the middle of a transaction the owner ends. It waits.
            for sql in [
                "PRAGMA busy_timeout=20000".to_owned(),
                "BEGIN IMMEDIATE".to_owned(),
                format!("INSERT INTO t VALUES(2, {}, zeroblob(5000))", n + 1),
            ] {
                member.tell(&sql);
                assert_eq!(member.await_answer(), "done", "{mode}: {sql}");
            }
            let mut owner = owners.remove(0);
            owner.end_input();
            std::thread::sleep(Duration::from_millis(100));
            member.tell("COMMIT");
            assert_eq!(member.await_answer(), "done", "{mode}, {n}");
            assert!(owner.child.wait().unwrap().success());
            // The next owner is one of those that write, or this one: it ends, too.
            let next = writers.remove(0);
            writers.push(Process::start("write", &path, 5 + n));
            owners.push(Process::start("obey", &path, 100 + n));
            let said = next.end_with_output();
            assert!(!said.contains("failed: "), "{mode}, {n}: {said}");
        }
        for process in writers.into_iter().chain(owners).chain([member]) {
            let said = process.end_with_output();
            assert!(!said.contains("failed: "), "{mode}: {said}");
        }
        let (_vfs, db) = open(&path);
        assert!(check(&db, &path, 1..9) > 3, "{mode}");
        let committed: i64 =
            db.query_row("SELECT count(*) FROM t WHERE writer = 2", [], |row| row.get(0)).unwrap();
        assert_eq!(committed, 3, "{mode}");
    }
}

/// Waits until this process owns the database again.
fn await_owned(db: &Connection) {
    let begun = Instant::now();
    while metric_or_zero(db, "shared_since_ms") > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the last visitor has left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_a_stranger_writes_is_seen_by_members_that_keep_pages() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db) = create(&directory, "delete");
    let mut member = Process::start("obey", &path, 1);
    let mut run = |sql: &str| {
        member.tell(sql);
        assert_eq!(member.await_answer(), "done", "{sql}");
    };
    for n in 0..4 {
        // Its pages are kept now.
        run(&format!("INSERT INTO t SELECT 1, {n}, count(*) FROM t"));
        let stranger = Connection::open(&path).unwrap();
        stranger.busy_timeout(Duration::from_secs(20)).unwrap();
        stranger.execute("INSERT INTO t VALUES(100, ?1, 'theirs')", [n]).unwrap();
        if n % 2 == 0 {
            run(&format!("INSERT INTO t SELECT 2, {n}, count(*) FROM t"));
        }
        drop(stranger);
        await_owned(&db);
        run(&format!("INSERT INTO t SELECT 3, {n}, count(*) FROM t"));
    }
    let mut statement = db.prepare("SELECT data FROM t WHERE writer < 100 ORDER BY n, writer").unwrap();
    let counted: Vec<i64> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(counted, [0, 2, 3, 4, 6, 7, 9, 10, 11, 13]);
}

#[test]
fn a_member_that_dies_beside_a_stranger_leaves_a_journal_that_rolls_back() {
    for mode in ["delete", "truncate", "persist"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        db.execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) \
             INSERT INTO t SELECT 1, i, hex(zeroblob(500)) FROM n",
        )
        .unwrap();
        let mut member = Process::start("obey", &path, 1);
        let stranger = Connection::open(&path).unwrap();
        stranger.busy_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(count(&stranger), 300, "{mode}");
        // The pages do not fit, and some are in the file before the commit.
        for sql in ["PRAGMA cache_size=5", "BEGIN", "UPDATE t SET data = hex(randomblob(500)), n = -n"] {
            member.tell(sql);
            assert_eq!(member.await_answer(), "done", "{mode}: {sql}");
        }
        let journal = directory.path().join("app.db-journal");
        assert!(std::fs::metadata(journal).is_ok_and(|file| file.len() > 100_000), "{mode}: a file by now");
        member.kill();
        for one in [&stranger, &db] {
            one.busy_timeout(Duration::from_secs(20)).unwrap();
            let sum: i64 = one.query_row("SELECT sum(n) FROM t", [], |row| row.get(0)).unwrap();
            assert_eq!(sum, 300 * 301 / 2, "{mode}");
            let integrity: String = one.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(integrity, "ok", "{mode}");
        }
    }
}

#[test]
fn a_transaction_of_a_member_over_two_databases_is_whole_after_a_rollback() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db) = create(&directory, "delete");
    let other = directory.path().join("other.db");
    let (_other_vfs, other_db) = open(&other);
    other_db.execute_batch("CREATE TABLE o(a UNIQUE)").unwrap();
    let mut member = Process::start("obey", &path, 1);
    let mut run = |sql: &str| {
        member.tell(sql);
        member.await_answer()
    };
    assert_eq!(run(&format!("ATTACH '{}' AS other", other.display())), "done");
    for n in 0..3 {
        for sql in [
            "BEGIN",
            &format!("INSERT INTO t VALUES(1, {n}, 'a')"),
            &format!("INSERT INTO o VALUES({n})"),
            "COMMIT",
        ] {
            assert_eq!(run(sql), "done", "{sql}");
        }
        assert!(
            run(&format!("BEGIN; INSERT INTO t VALUES(2, {n}, 'a'); INSERT INTO o VALUES({n}); COMMIT"))
                .contains("UNIQUE")
        );
        assert_eq!(run("ROLLBACK"), "done");
        let others: i64 = other_db.query_row("SELECT count(*) FROM o", [], |row| row.get(0)).unwrap();
        assert_eq!((count(&db), others), (n + 1, n + 1));
    }
}
