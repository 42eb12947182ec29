//! Processes of a group: starting them, telling them what to do, and looking for what they have acknowledged.

use crate::shim::{Kind, over};
use crate::slow_device::{SlowDevice, device};
use litefoot::rusqlite::{Connection, OpenFlags};
use litefoot::{Options, Vfs};
use litefoot_testkit::sqlite::{metric_or_zero, vfs_name};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) const MODES: [&str; 4] = ["delete", "persist", "truncate", "wal"];

pub(crate) fn open(path: &Path) -> (Vfs, Connection) {
    open_with(path, &std::env::var("GROUP_OPTIONS").unwrap_or_else(|_| "sharing=group".to_owned()))
}

pub(crate) fn open_with(path: &Path, list: &str) -> (Vfs, Connection) {
    open_on(path, list, device())
}

/// The same on a device; without one it is this machine's.
pub(crate) fn open_on(path: &Path, list: &str, device: Option<Arc<SlowDevice>>) -> (Vfs, Connection) {
    let mut options = Options::default();
    options.set_list(list).unwrap();
    let builder = Vfs::builder(vfs_name("members")).options(options);
    let builder = match device {
        Some(device) => builder.medium(device),
        None => builder,
    };
    let vfs = builder.register().unwrap();
    let db = open_below(&vfs, path);
    (vfs, db)
}

/// A connection by the VFS that is to be above, if any.
pub(crate) fn open_below(vfs: &Vfs, path: &Path) -> Connection {
    let db = match std::env::var("GROUP_SHIM") {
        Ok(wanted) => {
            let kind = Kind::ALL.into_iter().find(|kind| format!("{kind:?}") == wanted).unwrap();
            let above = over(vfs.name(), kind);
            Connection::open_with_flags_and_vfs(path, OpenFlags::default(), above.as_str()).unwrap()
        }
        Err(_) => vfs.open(path).unwrap(),
    };
    db.busy_timeout(Duration::from_secs(20)).unwrap();
    db
}

/// Another process of this test: a line of its output at a time.
pub(crate) struct Process {
    pub(crate) child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Process {
    pub(crate) fn start(work: &str, path: &Path, writer: u32) -> Process {
        Process::start_by(Command::new(std::env::current_exe().unwrap()), work, path, writer)
    }

    /// The same by a command that ends with the program of this test.
    pub(crate) fn start_by(command: Command, work: &str, path: &Path, writer: u32) -> Process {
        let mut process = Process::begin_by(command, work, path, writer);
        process.await_line("ready");
        process
    }

    /// The same, without waiting until it has the database open.
    pub(crate) fn begin_by(mut command: Command, work: &str, path: &Path, writer: u32) -> Process {
        let mut child = command
            .args(["--exact", "another_process", "--nocapture", "--test-threads=1"])
            .envs([("GROUP_WORK", work), ("GROUP_WRITER", &writer.to_string())])
            .env("GROUP_PATH", path)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Process { child, output }
    }

    /// True if it has opened the file itself. A member has not, and may have borrowed it: a thread waits for the end of its owner then.
    pub(crate) fn has_open(&self, path: &Path) -> bool {
        let begun = Instant::now();
        loop {
            let threads = self.threads();
            let count = |wanted| threads.iter().filter(|name| *name == wanted).count();
            let is_open = self.open_descriptors(path) > count("litefoot-lent");
            // A thread that has just been started has no name yet. One that hears of others has been there since the file was opened.
            if !is_open || count("litefoot-lease") > 0 || begun.elapsed() > Duration::from_secs(2) {
                return is_open;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn open_descriptors(&self, path: &Path) -> usize {
        let there = std::fs::metadata(path).unwrap();
        let is_open = |entry: &std::io::Result<std::fs::DirEntry>| {
            let found = std::fs::metadata(entry.as_ref().unwrap().path());
            found.is_ok_and(|found| (found.dev(), found.ino()) == (there.dev(), there.ino()))
        };
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().filter(is_open).count()
    }

    /// The names of its threads.
    pub(crate) fn threads(&self) -> Vec<String> {
        self.named_threads().into_iter().map(|(_, name)| name).collect()
    }

    /// Its threads, with their names.
    pub(crate) fn named_threads(&self) -> Vec<(i32, String)> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let named = |task: std::io::Result<std::fs::DirEntry>| {
            let task = task.unwrap();
            let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            (task.file_name().to_str().unwrap().parse().unwrap(), name.trim().to_owned())
        };
        tasks.map(named).collect()
    }

    pub(crate) fn await_line(&mut self, wanted: &str) -> String {
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
    pub(crate) fn await_answer(&mut self) -> String {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the process has ended");
        line.trim().to_owned()
    }

    pub(crate) fn tell(&mut self, word: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        writeln!(input, "{word}").unwrap();
    }

    /// Has it run a statement, which must succeed.
    pub(crate) fn run(&mut self, sql: &str) {
        self.tell(sql);
        assert_eq!(self.await_answer(), "done", "{sql}");
    }

    /// Ends its input: it finishes what it does, and ends.
    pub(crate) fn end_input(&mut self) {
        drop(self.child.stdin.take());
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it, and answers what it has said since.
    pub(crate) fn end_with_output(mut self) -> String {
        drop(self.child.stdin.take());
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success());
        said
    }

    pub(crate) fn end(mut self) {
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

pub(crate) fn acknowledged(path: &Path, writer: u32) -> PathBuf {
    path.with_extension(format!("acknowledged-{writer}"))
}

pub(crate) fn create(directory: &tempfile::TempDir, mode: &str) -> (PathBuf, Vfs, Connection) {
    create_with(directory, mode, "sharing=group")
}

pub(crate) fn create_with(
    directory: &tempfile::TempDir,
    mode: &str,
    list: &str,
) -> (PathBuf, Vfs, Connection) {
    let path = directory.path().join("app.db");
    let (vfs, db) = open_with(&path, list);
    db.execute_batch(&format!(
        "PRAGMA journal_mode={mode}; CREATE TABLE t(writer INTEGER, n INTEGER, data BLOB, PRIMARY KEY(writer, n)); \
         CREATE TABLE sums(n INTEGER); INSERT INTO sums VALUES(0)"
    ))
    .unwrap();
    (path, vfs, db)
}

pub(crate) fn count(db: &Connection) -> i64 {
    db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

/// A statement that fails unless the table has so many rows.
pub(crate) fn there_are(rows: i64) -> String {
    format!("SELECT iif((SELECT count(*) FROM t) = {rows}, 1, abs(-9223372036854775807 - 1))")
}

/// Messages of members that want a reply meanwhile, but for the first of each connection.
pub(crate) fn calls(db: &Connection, does: impl FnOnce()) -> i64 {
    let before = metric_or_zero(db, "member_calls");
    does();
    metric_or_zero(db, "member_calls") - before
}

/// Everything that was acknowledged is there, and the database is sound.
pub(crate) fn check(db: &Connection, path: &Path, writers: impl Iterator<Item = u32>) -> usize {
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

pub(crate) fn signal(process: &Process, name: &str) {
    let status = Command::new("kill").args([name, &process.child.id().to_string()]).status().unwrap();
    assert!(status.success());
    // One of its threads has to see it first.
    let is_stopped = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.child.id())).unwrap();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    };
    while name == "-STOP" && !is_stopped() {
        std::thread::yield_now();
    }
}

/// Waits until this process owns the database again.
pub(crate) fn await_owned(db: &Connection) {
    let begun = Instant::now();
    while metric_or_zero(db, "shared_since_ms") > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the last visitor has left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A command that runs this test once more, with options.
pub(crate) fn with_options(list: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("GROUP_OPTIONS", list);
    command
}

/// True if somebody listens at the name of the group of a file.
pub(crate) fn has_name(path: &Path) -> bool {
    let file = std::fs::metadata(path).unwrap();
    let name = format!("@litefoot-{:x}-{:x}", file.dev(), file.ino());
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
    // The ends of streams have that name as well. Those that listen have a flag (`__SO_ACCEPTCON`).
    sockets.lines().any(|line| line.ends_with(&name) && line.split(' ').nth(3) == Some("00010000"))
}
