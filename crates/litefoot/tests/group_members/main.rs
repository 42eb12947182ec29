//! The group (`sharing=group`): real processes that use a database together, of which the first commits for all.
//!
//! Each process is this test's binary once more, with what it is to do in its environment.
//!
//! | file | holds |
//! |---|---|
//! | `kit` | starting processes, and looking for what they have acknowledged |
//! | `together` | members as connections of the owner's, and as stock SQLite |
//! | `seats` | members that read without a message, where there is no log |
//! | `ends` | members and owners that are killed, stopped, or end |
//! | `heirs` | transactions whose owner is killed |
//! | `file_orphans` | the same beside strangers |
//! | `held_thread` | a thread that is held before one of its calls |
//! | `knocks` | how processes come to an owner that is alone |
//! | `by_itself` | processes that join without having been told to |
//! | `slow_device` | a device whose syncs take long |
//! | `containers` | processes of other network namespaces |
//! | `reading` | pages that a member reads from the owner's open file |
//! | `requests` | a connection for each request |
//! | `observers` | commits that are not synced yet, and who sees them |
//! | `left_behind` | snapshots in WAL mode while strangers are there |
//! | `snapshots` | snapshots in WAL mode whose owner is killed |
//! | `shimmed` | members below another VFS |
//! | `spilling` | transactions that do not fit their caches, beside readers |
//! | `strangers` | programs that do not belong to the group |
//! | `waiting_commits` | commits in the commit log whose owner is killed |

#![allow(clippy::unwrap_used)]

mod by_itself;
mod containers;
mod ends;
mod file_orphans;
mod heirs;
mod held_thread;
mod kit;
mod knocks;
mod left_behind;
mod observers;
mod reading;
mod requests;
mod seats;
#[path = "../shims/shim.rs"]
#[expect(dead_code, reason = "another test needs the rest")]
mod shim;
mod shimmed;
mod slow_device;
mod snapshots;
mod spilling;
mod strangers;
mod together;
mod waiting_commits;

use kit::{acknowledged, open, open_below};
use litefoot::rusqlite::Connection;
use litefoot::rusqlite::config::DbConfig;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Set for a process at whose close SQLite makes no checkpoint.
const KEEPS_LOG: &str = "GROUP_KEEPS_LOG";
/// How often a process opens a database that opens it again and again.
const OPENINGS: i64 = 60;
/// What a process that obeys is told to have a child, and how long that lives at most.
const FORK: &str = "fork";
/// That it is to end without closing anything.
const EXIT: &str = "exit";
const LIFE_OF_CHILD: Duration = Duration::from_secs(60);
/// Threads of a process that uses several.
const THREADS: i64 = 4;

/// What the other processes do; nothing where this is the test's own process.
#[test]
fn another_process() {
    let Ok(work) = std::env::var("GROUP_WORK") else { return };
    let path = PathBuf::from(std::env::var("GROUP_PATH").unwrap());
    let writer: i64 = std::env::var("GROUP_WRITER").unwrap().parse().unwrap();
    if work == "open again" {
        return open_again_and_again(&path, writer);
    }
    if work == "obey anew" {
        return obey_anew(&path);
    }
    let (vfs, db) = open(&path);
    if work == "write in threads" {
        return write_in_threads(&vfs, &path);
    }
    if let Ok(sql) = std::env::var("GROUP_FIRST") {
        db.execute_batch(&sql).unwrap();
    }
    if std::env::var_os(KEEPS_LOG).is_some() {
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    }
    let _: i64 = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    println!("ready");
    match work.as_str() {
        // Commits until it is killed, or its input ends.
        "write" => write_until_told(&db, &path, writer),
        // One statement a line.
        "obey" => {
            for line in std::io::stdin().lines() {
                let line = line.unwrap();
                if line == EXIT {
                    std::process::exit(0);
                }
                if line == FORK {
                    live_in_child(&path);
                    println!("done");
                    continue;
                }
                match db.execute_batch(&line) {
                    Ok(()) => println!("done"),
                    Err(error) => println!("failed: {error}"),
                }
            }
        }
        // Counts until its input ends; none of its commits may fail.
        "count" => count_until_told(&db, ["UPDATE sums SET n = n + 1", COUNT_IN_STEPS]),
        // The same, with transactions of a megabyte.
        "count largely" => count_until_told(&db, [COUNT_LARGELY, COUNT_LARGELY]),
        // Holds snapshots until its input ends; each is the same for as long as it lasts.
        "hold snapshots" => {
            listen();
            snapshots::hold_until_told(&db, writer, &ENDS);
        }
        // Reads until its input ends, and looks whether it has seen what is not synced.
        "watch" => {
            drop(db);
            observers::watch_until_told(&vfs, &path, writer);
        }
        // Reads until its input ends: transactions are whole, and none goes away.
        "read" => read_until_told(&db),
        other => panic!("{other}"),
    }
}

/// Forks a child that does nothing while the database is there.
fn live_in_child(path: &Path) {
    // SAFETY: the child calls what one may call that has been forked by one of several threads.
    if unsafe { libc::fork() } == 0 {
        let begun = Instant::now();
        let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: the path is terminated.
        while begun.elapsed() < LIFE_OF_CHILD && unsafe { libc::access(path.as_ptr(), libc::F_OK) } == 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
        // SAFETY: it ends the child.
        unsafe { libc::_exit(0) };
    }
}

/// Opens, commits and closes, as a process of a server does for each request. Says how many milliseconds the longest has taken.
fn open_again_and_again(path: &Path, writer: i64) {
    let mut longest = Duration::ZERO;
    for n in 0..OPENINGS {
        let begun = Instant::now();
        let (_vfs, db) = open(path);
        db.execute("INSERT INTO t VALUES(?1, ?2, 'a')", [writer, n]).unwrap();
        drop(db);
        longest = longest.max(begun.elapsed());
    }
    println!("longest {}", longest.as_millis());
}

/// Each thread opens the database for each of its commits, and takes as many back.
fn write_in_threads(vfs: &litefoot::Vfs, path: &Path) {
    println!("ready");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for n in 0..OPENINGS {
                    let db = open_below(vfs, path);
                    db.execute("INSERT INTO t VALUES(?1, ?2, randomblob(9000))", [thread, n]).unwrap();
                    db.execute_batch("BEGIN IMMEDIATE; UPDATE t SET data = 'b', n = n + 1000; ROLLBACK")
                        .unwrap();
                }
            });
        }
    });
}

/// One statement a line, each by a connection of its own; behind `fork` in a child.
fn obey_anew(path: &Path) {
    let (vfs, db) = open(path);
    drop(db);
    println!("ready");
    let request = |sql: &str| {
        let db = vfs.open(path).map_err(|error| error.to_string())?;
        let done = db.busy_timeout(Duration::from_secs(20)).and_then(|()| db.execute_batch(sql));
        done.map_err(|error| error.to_string())
    };
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let done = match line.strip_prefix("fork ") {
            Some(sql) => in_child(|| request(sql).is_ok()),
            None => request(&line),
        };
        match done {
            Ok(()) => println!("done"),
            Err(error) => println!("failed: {error}"),
        }
    }
}

/// Does something in a forked child.
fn in_child(does: impl FnOnce() -> bool) -> Result<(), String> {
    // SAFETY: the child takes no lock that another thread of this test may have, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = i32::from(!does());
        // SAFETY: a plain system call.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: a plain system call on a child of this process.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    if status == 0 { Ok(()) } else { Err(format!("the child has ended with {status}")) }
}

static ENDS: AtomicBool = AtomicBool::new(false);

/// Hears of the end of the input.
fn listen() {
    std::thread::spawn(|| {
        for line in std::io::stdin().lines() {
            drop(line);
        }
        ENDS.store(true, Ordering::Release);
    });
}

fn read_until_told(db: &Connection) {
    listen();
    let (mut reads, mut last) = (0, 0);
    let mut statement =
        db.prepare("SELECT (SELECT n FROM sums), (SELECT count(*) FROM t WHERE n % 7 = 0)").unwrap();
    while !ENDS.load(Ordering::Acquire) {
        let (sum, count): (i64, i64) = statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert!(sum == count && count >= last, "{sum}, {count} behind {last}");
        (reads, last) = (reads + 1, count);
    }
    println!("reads: {reads}");
}

const COUNT_IN_STEPS: &str = "BEGIN IMMEDIATE; UPDATE sums SET n = n + 1; SAVEPOINT a; COMMIT";
const COUNT_LARGELY: &str =
    "BEGIN IMMEDIATE; UPDATE sums SET n = n + 1; UPDATE t SET data = randomblob(500); COMMIT";

fn count_until_told(db: &Connection, changes: [&str; 2]) {
    listen();
    let mut counted = 0;
    while !ENDS.load(Ordering::Acquire) {
        db.execute_batch(changes[counted % 2]).unwrap();
        counted += 1;
    }
    println!("counted {counted}");
}

fn write_until_told(db: &Connection, path: &Path, writer: i64) {
    listen();
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
