//! Processes that join without having been told to (`sharing=auto`): outside of WAL mode, and in WAL mode where a sync takes long.
//!
//! What a process knows of a device is its own, so each of these tests has processes for all that it does.

use crate::kit::{Process, count, create, has_name, with_options};
use litefoot::rusqlite::Connection;
use litefoot_storage::file::beside;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Of a sync on a device where it takes long.
const LONG_MS: &str = "3";
/// Of a sync on a device where it takes next to nothing.
const SHORT_MS: &str = "0";

/// A database in memory, where a sync takes what a device of these tests adds.
struct Place {
    directory: tempfile::TempDir,
    path: PathBuf,
}

impl Place {
    fn new(mode: &str) -> Place {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let (path, vfs, db) = create(&directory, mode);
        drop((db, vfs));
        Place { directory, path }
    }

    /// A command of a process that has options, on a device.
    fn command(&self, list: &str, sync_ms: &str) -> Command {
        let mut command = with_options(list);
        command.env("GROUP_SYNC_MS", sync_ms).env("GROUP_ASKED", self.asked_path());
        command
    }

    fn start(&self, list: &str, sync_ms: &str, writer: u32) -> Process {
        Process::start_by(self.command(list, sync_ms), "obey", &self.path, writer)
    }

    /// Waits until its owner is alone: a process that this test was just starting for another one may have had the file.
    fn await_owned(&self) {
        let begun = Instant::now();
        while beside(&self.path, "-shm").exists() {
            assert!(begun.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn asked_path(&self) -> PathBuf {
        self.directory.path().join("asked")
    }

    /// The threads that have asked how long a sync takes.
    fn asked(&self) -> Vec<String> {
        let asked = std::fs::read_to_string(self.asked_path()).unwrap_or_default();
        asked.lines().map(str::to_owned).collect()
    }

    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }
}

/// Both see what the other one has committed.
fn commit_both(owner: &mut Process, other: &mut Process, path: &Path) {
    other.run("INSERT INTO t VALUES(2, 1, 'a')");
    owner.run("INSERT INTO t SELECT 3, count(*), 'a' FROM t WHERE writer < 3");
    other.run("INSERT INTO t SELECT 4, n, 'a' FROM t WHERE writer = 3");
    let stock = Connection::open(path).unwrap();
    stock.busy_timeout(Duration::from_secs(20)).unwrap();
    let seen: i64 = stock.query_row("SELECT n FROM t WHERE writer = 4", [], |row| row.get(0)).unwrap();
    assert_eq!(seen, 2);
}

#[test]
fn in_wal_mode_processes_join_where_a_sync_takes_long() {
    for (mode, owners, others, sync_ms, joins, asked) in [
        ("wal", "sharing=auto", "sharing=auto", LONG_MS, true, 1),
        ("wal", "sharing=auto", "sharing=group", LONG_MS, true, 1),
        ("wal", "sharing=group", "sharing=auto", LONG_MS, true, 1),
        ("wal", "sharing=group", "sharing=group", LONG_MS, true, 0),
        ("wal", "sharing=auto", "sharing=separate", LONG_MS, false, 0),
        ("wal", "sharing=separate", "sharing=auto", LONG_MS, false, 0),
        ("wal", "sharing=auto", "sharing=auto&flush_interval_ms=50", LONG_MS, false, 1),
        ("wal", "sharing=auto", "sharing=auto", SHORT_MS, false, 1),
        ("wal", "sharing=group", "sharing=auto", SHORT_MS, false, 1),
        ("delete", "sharing=auto", "sharing=auto", LONG_MS, true, 0),
        ("delete", "sharing=auto", "sharing=auto", SHORT_MS, true, 0),
    ] {
        let what = format!("{mode}: {owners}, {others}, {sync_ms} ms");
        let place = Place::new(mode);
        let mut owner = place.start(owners, sync_ms, 1);
        owner.run("INSERT INTO t VALUES(1, 1, 'a')");
        let mut other = place.start(others, sync_ms, 2);
        assert_eq!(other.has_open(&place.path), !joins, "{what}");
        assert_eq!(place.asked().len(), asked, "{what}");
        commit_both(&mut owner, &mut other, &place.path);
        other.end();
        owner.end();
        let kept = place.files();
        assert!(kept.iter().all(|name| name.starts_with("app.db") || name == "asked"), "{what}: {kept:?}");
        assert_eq!(count(&Connection::open(&place.path).unwrap()), 4, "{what}");
    }
}

/// Its members would gain nothing by a sync that nobody waits for.
#[test]
fn in_wal_mode_processes_are_strangers_where_commits_are_not_synced() {
    for (said, joins) in [
        ("PRAGMA synchronous=NORMAL", false),
        ("PRAGMA synchronous=OFF", false),
        ("PRAGMA synchronous=NORMAL; INSERT INTO t VALUES(5, 1, 'a'); PRAGMA synchronous=FULL", true),
        ("INSERT INTO t VALUES(5, 1, 'a')", true),
        ("PRAGMA synchronous=NORMAL; INSERT INTO t VALUES(5, 1, 'a')", false),
    ] {
        let place = Place::new("wal");
        let mut owner = place.start("sharing=auto", LONG_MS, 1);
        owner.run(said);
        let mut other = place.start("sharing=auto", LONG_MS, 2);
        assert_eq!(other.has_open(&place.path), !joins, "{said}");
        assert_eq!(place.asked().len(), usize::from(joins), "{said}");
        owner.run("PRAGMA synchronous=NORMAL");
        owner.run("INSERT INTO t VALUES(1, 1, 'a')");
        // Nobody is a stranger beside members.
        let third = place.start("sharing=auto", LONG_MS, 3);
        assert_eq!(third.has_open(&place.path), !joins, "{said}");
        third.end();
        commit_both(&mut owner, &mut other, &place.path);
        other.end();
        owner.end();
    }
}

/// Without a pause: a file in memory.
#[test]
fn in_wal_mode_processes_are_strangers_where_a_database_is_in_memory() {
    let place = Place::new("wal");
    let auto = || with_options("sharing=auto");
    let mut owner = Process::start_by(auto(), "obey", &place.path, 1);
    owner.run("INSERT INTO t VALUES(1, 1, 'a')");
    let mut other = Process::start_by(auto(), "obey", &place.path, 2);
    assert!(other.has_open(&place.path));
    commit_both(&mut owner, &mut other, &place.path);
    other.end();
    owner.end();
}

#[test]
fn where_the_device_cannot_be_asked_commits_tell() {
    let place = Place::new("wal");
    let silent = || {
        let mut command = place.command("sharing=auto", LONG_MS);
        command.env("GROUP_NAMELESS", "none");
        command
    };
    let mut owner = Process::start_by(silent(), "obey", &place.path, 1);
    owner.run("INSERT INTO t VALUES(1, 0, 'a')");
    let other = Process::start_by(silent(), "obey", &place.path, 2);
    assert!(other.has_open(&place.path));
    // It is met once more where it has not heard of the answer yet, and then nothing is known still.
    assert!(!place.asked().is_empty());
    other.end();
    owner.end();
    // An owner that has just been beside others has learnt nothing.
    let joins = |attempt: i64| {
        let mut owner = Process::start_by(silent(), "obey", &place.path, 1);
        place.await_owned();
        (1..20).for_each(|n| owner.run(&format!("INSERT INTO t VALUES(1, {attempt} * 100 + {n}, 'a')")));
        let before = place.asked().len();
        let other = Process::start_by(silent(), "obey", &place.path, 2);
        let has_joined = !other.has_open(&place.path);
        assert!(!has_joined || place.asked().len() == before);
        other.end();
        owner.end();
        has_joined
    };
    assert!((0..6).any(joins));
}

/// Its own commits tell of another device.
#[test]
fn an_owner_whose_commits_go_elsewhere_asks_no_device() {
    let place = Place::new("wal");
    let elsewhere = place.directory.path().join("app.db-elsewhere");
    let list = format!("sharing=auto&commit_log_path={}", elsewhere.display());
    let mut owner = place.start(&list, LONG_MS, 1);
    owner.run("INSERT INTO t VALUES(1, 1, 'a')");
    let other = place.start(&list, LONG_MS, 2);
    assert!(other.has_open(&place.path) && place.asked().is_empty());
    other.end();
    owner.end();
}

#[test]
fn an_application_that_is_alone_asks_no_device_nor_does_one_with_visitors() {
    let place = Place::new("wal");
    let mut owner = place.start("sharing=auto", LONG_MS, 1);
    (1..4).for_each(|n| owner.run(&format!("INSERT INTO t VALUES(1, {n}, 'a')")));
    for _ in 0..2 {
        let stock = Connection::open(&place.path).unwrap();
        stock.busy_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(count(&stock), 3);
    }
    owner.end();
    assert!(place.asked().is_empty(), "{:?}", place.asked());
}

/// Several that come, one after the other and to several databases of a device.
#[test]
fn a_process_asks_once_and_by_threads_of_its_own() {
    let place = Place::new("wal");
    let second = place.directory.path().join("app.db-second");
    std::fs::copy(&place.path, &second).unwrap();
    let mut owner = place.start("sharing=auto", LONG_MS, 1);
    owner.run(&format!("ATTACH '{}' AS second; INSERT INTO second.t VALUES(1, 1, 'a')", second.display()));
    for (path, writer) in [(&place.path, 2), (&place.path, 3), (&second, 4)] {
        let command = place.command("sharing=auto", LONG_MS);
        let mut member = Process::start_by(command, "obey", path, writer);
        member.run(&format!("INSERT INTO t VALUES({writer}, 1, 'a')"));
        assert!(!member.has_open(path), "{writer}");
        member.end();
    }
    owner.end();
    let asked = place.asked();
    assert!(asked.len() == 1 && asked[0].starts_with("litefoot-"), "{asked:?}");
}

/// A process waits at the name while another one opens the file: that one knows nothing, and is knocked at.
#[test]
fn a_process_that_opens_a_database_asks_no_device() {
    let place = Place::new("wal");
    let mut command = place.command("sharing=auto", LONG_MS);
    command.env("GROUP_OPEN_MS", "400");
    let mut owner = Process::begin_by(command, "obey", &place.path, 1);
    let begun = Instant::now();
    while !has_name(&place.path) {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::yield_now();
    }
    let mut other = place.start("sharing=auto", LONG_MS, 2);
    owner.await_line("ready");
    assert!(owner.has_open(&place.path) && !other.has_open(&place.path));
    let asked = place.asked();
    assert!(asked.len() == 1 && asked[0].starts_with("litefoot-"), "{asked:?}");
    commit_others(&mut owner, &mut other);
    other.end();
    owner.end();
}

fn commit_others(owner: &mut Process, other: &mut Process) {
    owner.run("INSERT INTO t VALUES(1, 1, 'a')");
    other.run("INSERT INTO t SELECT 2, count(*), 'a' FROM t");
}

/// Others have the file open. What commits have told before counts, and no device is asked.
#[test]
fn beside_a_stranger_an_owner_serves_where_it_knows_that_a_sync_takes_long() {
    let serves = |commits: i64| {
        let place = Place::new("wal");
        let mut owner = place.start("sharing=auto", LONG_MS, 1);
        place.await_owned();
        (0..commits).for_each(|n| owner.run(&format!("INSERT INTO t VALUES(1, {n} - 100, 'a')")));
        let stranger = Connection::open(&place.path).unwrap();
        stranger.busy_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(count(&stranger), commits);
        let begun = Instant::now();
        while !has_name(&place.path) && begun.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut other = place.start("sharing=auto", LONG_MS, 2);
        let has_joined = !other.has_open(&place.path);
        assert!(place.asked().is_empty(), "{:?}", place.asked());
        commit_others(&mut owner, &mut other);
        assert_eq!(count(&stranger), commits + 2);
        drop(stranger);
        other.end();
        owner.end();
        has_joined
    };
    assert!(!serves(1));
    // An owner that has just been beside others has learnt nothing.
    assert!((0..6).any(|_| serves(20)));
}

/// Who has joined goes on at the next owner.
#[test]
fn a_member_stays_one_where_its_owner_is_killed() {
    let place = Place::new("wal");
    let mut owner = place.start("sharing=auto", LONG_MS, 1);
    owner.run("INSERT INTO t VALUES(1, 1, 'a')");
    let mut members = [2, 3].map(|writer| place.start("sharing=auto", LONG_MS, writer));
    members.iter_mut().for_each(|member| member.run("INSERT INTO t SELECT 2, count(*), 'a' FROM t"));
    owner.kill();
    members.iter_mut().for_each(|member| member.run("INSERT INTO t SELECT 3, count(*), 'a' FROM t"));
    let owners = members.iter().filter(|member| member.has_open(&place.path)).count();
    assert_eq!((owners, place.asked().len()), (1, 1));
    members.into_iter().for_each(Process::end);
    assert_eq!(count(&Connection::open(&place.path).unwrap()), 5);
}
