//! Pages that a member reads from its owner's open file: what stock SQLite would read, and nothing that is not committed.

use crate::kit::{Process, await_owned, open, signal};
use litefoot::rusqlite::Connection;
use litefoot_sim::Random;
use litefoot_testkit::sqlite::metric_or_zero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const MODES: [&str; 3] = ["delete", "truncate", "persist"];
/// A log is brought home now and then, and what small commits have changed stays there for a while.
const OPTIONS: &str = "sharing=group&max_wal_size=512K";

/// More than a member keeps, and than SQLite's cache has.
fn rows(mode: &str) -> String {
    format!(
        "PRAGMA journal_mode={mode}; CREATE TABLE t(writer INTEGER, n INTEGER, data BLOB, PRIMARY KEY(writer, n)); \
         CREATE TABLE rows(id INTEGER PRIMARY KEY, n INTEGER, data BLOB); \
         WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 6000) \
         INSERT INTO rows SELECT i, 0, zeroblob(1700) FROM c"
    )
}

/// A database with an owner that is another process, and this process as a member.
struct Group {
    path: PathBuf,
    /// Until it is killed.
    owner: Option<Process>,
    _vfs: litefoot::Vfs,
    member: Connection,
    /// The same by stock SQLite.
    twin: Connection,
    _directory: tempfile::TempDir,
}

fn start(path: &Path, writer: u32) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("GROUP_OPTIONS", OPTIONS);
    Process::start_by(command, "obey", path, writer)
}

impl Group {
    fn new(mode: &str) -> Group {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.db");
        Connection::open(&path).unwrap().execute_batch(&rows(mode)).unwrap();
        let twin = Connection::open(directory.path().join("twin.db")).unwrap();
        twin.execute_batch(&rows(mode)).unwrap();
        let owner = start(&path, 1);
        let (vfs, member) = crate::kit::open_with(&path, OPTIONS);
        member.execute_batch("PRAGMA cache_size=50").unwrap();
        Group { path, owner: Some(owner), _vfs: vfs, member, twin, _directory: directory }
    }

    /// Has the owner run a statement, and stock SQLite.
    fn run(&mut self, sql: &str) {
        self.owner.as_mut().unwrap().run(sql);
        self.twin.execute_batch(sql).unwrap();
    }

    fn kill_owner(&mut self) {
        self.owner.take().unwrap().kill();
    }

    fn calls(&self) -> i64 {
        metric_or_zero(&self.member, "member_calls")
    }

    fn check(&self, what: &str) {
        assert_eq!(content(&self.member), content(&self.twin), "{what}");
    }
}

/// Something of every row.
fn content(db: &Connection) -> (i64, i64, i64, i64) {
    let sql = "SELECT count(*), sum(id * n), sum(length(CAST(data AS BLOB)) * id), sum(unicode(substr(hex(data), 3399))) FROM rows";
    db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))).unwrap()
}

#[test]
fn a_member_reads_what_is_in_the_file_without_messages() {
    for mode in ["delete", "wal"] {
        let mut group = Group::new(mode);
        group.run("PRAGMA wal_checkpoint(TRUNCATE)");
        // The next one begins without a message.
        let first: i64 =
            group.member.query_row("SELECT n FROM rows WHERE id = 1", [], |row| row.get(0)).unwrap();
        assert_eq!(first, 0, "{mode}");
        group.check("at first");
        let before = group.calls();
        group.check("once more");
        let calls = group.calls() - before;
        assert!(calls < 50, "{mode}: {calls} messages for 3,000 pages");
        assert_eq!(content(&group.member).0, 6000);
    }
}

/// More than the caches of a member have, of commits that are in no file but the log.
#[test]
fn a_member_reads_the_last_commits_in_wal_mode_without_messages() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db) = crate::kit::create(&directory, "wal");
    let mut member = Process::start("obey", &path, 1);
    let look = |changed: i64| {
        let rows = "SELECT count(*) FROM t WHERE writer = 7 AND n % 3 = length(data) - 1000";
        let changed = format!("({rows}) = 3000 AND (SELECT n FROM sums) = {changed}");
        format!("SELECT iif({changed}, 1, abs(-9223372036854775807 - 1))")
    };
    let change = "UPDATE t SET data = randomblob(1000 + n % 3); UPDATE sums SET n = n + 1";
    db.execute_batch(
        "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 3000) \
         INSERT INTO t SELECT 7, i, zeroblob(1000) FROM c",
    )
    .unwrap();
    db.execute_batch(change).unwrap();
    member.run(&look(1));
    for n in 2..=4 {
        // A commit whose flush is under way is waited for by a message.
        db.execute_batch(&format!("{change}; UPDATE sums SET n = n")).unwrap();
        let calls = crate::kit::calls(&db, || (0..3).for_each(|_| member.run(&look(n))));
        assert!(calls <= 1, "{calls} messages for 3 reads of thousands of pages");
    }
    member.end();
}

#[test]
fn a_member_reads_each_commit_as_stock_sqlite_would() {
    for mode in MODES.into_iter().chain(["wal"]) {
        let mut group = Group::new(mode);
        let mut random = Random::new(11);
        group.check(mode);
        for n in 1..=30 {
            let (first, step) = (random.below(6000), random.below(if n % 3 == 0 { 100 } else { 3000 }) + 1);
            let change = format!(
                "UPDATE rows SET n = {n}, data = zeroblob(1699) || char({n}) WHERE id % {step} = {first} % {step}"
            );
            match n % 10 {
                3 => group.run(&format!("BEGIN; {change}; ROLLBACK")),
                4 => group.run(&format!("DELETE FROM rows WHERE id > {}", 5000 + first % 500)),
                5 => group.run(&format!("INSERT INTO rows SELECT id + 10000 * {n}, {n}, zeroblob(1700) FROM rows WHERE id < {first}")),
                6 if n % 20 == 6 => group.run("VACUUM"),
                7 if n % 20 == 7 => group.run("PRAGMA wal_checkpoint"),
                9 if n == 29 => group.run("PRAGMA page_size=1024; VACUUM"),
                8 => group.run(&format!("BEGIN; {change}; SAVEPOINT a; DELETE FROM rows; ROLLBACK TO a; COMMIT")),
                _ => group.run(&change),
            }
            group.check(&format!("{mode}, {n}"));
        }
        let integrity: String =
            group.member.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(integrity, "ok", "{mode}");
    }
}

#[test]
fn a_member_reads_what_strangers_have_written() {
    for mode in ["delete", "persist"] {
        let mut group = Group::new(mode);
        group.check(mode);
        for n in 1..=2 {
            let sql =
                format!("UPDATE rows SET n = {n}, data = zeroblob(1699) || char({n}) WHERE id % 50 = {n}");
            let stranger = Connection::open(&group.path).unwrap();
            stranger.busy_timeout(Duration::from_secs(20)).unwrap();
            stranger.execute_batch(&sql).unwrap();
            group.twin.execute_batch(&sql).unwrap();
            group.check(&format!("{mode}, {n}: beside it"));
            drop(stranger);
            await_owned(&group.member);
            group.run(&sql.replace("% 50", "% 51"));
            group.check(&format!("{mode}, {n}: behind it"));
        }
    }
}

/// A transaction that has read, and whose owner dies, never mixes what two owners have committed. With a rollback journal nobody commits before it
/// has ended.
#[test]
fn a_transaction_reads_nothing_of_the_next_owner() {
    for mode in MODES.into_iter().chain(["wal"]) {
        let mut group = Group::new(mode);
        // Where stock SQLite has left a journal, members hold no transaction back until the owner has written.
        group.run("UPDATE rows SET n = 1 WHERE id = 1");
        group.check(mode);
        let expected = content(&group.twin);
        let owner = group.owner.take().unwrap();
        group.member.execute_batch("BEGIN; SELECT n FROM rows WHERE id = 1").unwrap();
        let mut statement = group.member.prepare("SELECT n FROM rows").unwrap();
        let mut found = statement.query([]).unwrap();
        let mut sum = 0;
        for _ in 0..2000 {
            sum += found.next().unwrap().unwrap().get::<_, i64>(0).unwrap();
        }
        owner.kill();
        let mut next = start(&group.path, 2);
        next.run("PRAGMA busy_timeout=50");
        // In the file, and not in its log.
        next.tell("UPDATE rows SET n = 7 WHERE id % 40 = 0; PRAGMA wal_checkpoint");
        assert_eq!(next.await_answer() == "done", mode == "wal", "{mode}");
        let lost = loop {
            match found.next() {
                Ok(Some(row)) => sum += row.get::<_, i64>(0).unwrap(),
                other => break other.map(|row| row.is_none()),
            }
        };
        assert_eq!(sum, expected.1, "{mode}: nothing of the other's");
        assert_eq!(lost.ok(), Some(true), "{mode}: it goes on to the last row");
        drop(found);
        drop(statement);
        let _ = group.member.execute_batch("ROLLBACK");
        next.run("PRAGMA busy_timeout=20000; UPDATE rows SET n = 7 WHERE id % 40 = 0; PRAGMA wal_checkpoint");
        next.end();
        group.twin.execute_batch("UPDATE rows SET n = 7 WHERE id % 40 = 0").unwrap();
        group.check(mode);
    }
}

/// Locks and the lease belong to the open file, which members have as well. One that goes on gives them back, also where another one is stopped.
#[test]
fn an_owner_that_was_killed_leaves_no_lock_with_its_members() {
    for mode in ["delete", "wal"] {
        let mut group = Group::new(mode);
        group.check(mode);
        let mut other = start(&group.path, 2);
        other.run("PRAGMA cache_size=50; SELECT sum(n) FROM rows");
        signal(&other, "-STOP");
        group.kill_owner();
        let begun = Instant::now();
        let stranger = Connection::open(&group.path).unwrap();
        stranger.busy_timeout(Duration::from_secs(10)).unwrap();
        stranger.execute_batch("UPDATE rows SET n = 3").unwrap();
        assert!(begun.elapsed() < Duration::from_secs(30), "{mode}: nobody gave the lease back");
        group.twin.execute_batch("UPDATE rows SET n = 3").unwrap();
        assert_eq!(content(&group.member), content(&group.twin), "{mode}");
        signal(&other, "-CONT");
        other.run("INSERT INTO t VALUES(2, 1, (SELECT sum(n) FROM rows))");
        let sum: i64 =
            stranger.query_row("SELECT data FROM t WHERE writer = 2", [], |row| row.get(0)).unwrap();
        assert_eq!(sum, 18_000, "{mode}");
    }
}

#[test]
fn the_next_owner_is_alone_though_members_had_the_file() {
    let mut group = Group::new("delete");
    let (_other_vfs, other) = open(&group.path);
    group.check("one member");
    assert_eq!(content(&other), content(&group.twin), "another connection of it");
    let mut second = start(&group.path, 3);
    second.run("SELECT sum(n) FROM rows");
    group.kill_owner();
    for n in 0..3 {
        second.run(&format!("INSERT INTO t VALUES(3, {n}, 'a')"));
        group.member.execute_batch(&format!("INSERT INTO t VALUES(0, {n}, 'a')")).unwrap();
    }
    let own_way = metric_or_zero(&other, "commits_deltas") + metric_or_zero(&other, "commits_pages");
    assert_eq!((own_way, metric_or_zero(&other, "sharing_changes")), (6, 0));
}
