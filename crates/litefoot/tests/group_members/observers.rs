//! Who sees a commit before it is synced: nobody, in no process. And who waits for a sync of others.
//!
//! The owner's device has a gate. While it is closed syncs wait. Processes that watch read the database all the time, and look behind
//! each read whether the gate is still closed: then they must not have seen the commit that waits there.

use crate::kit::{MODES, Process, count, open_below, open_on, with_options};
use crate::slow_device::SlowDevice;
use crate::{ENDS, listen};
use litefoot::Vfs;
use litefoot::rusqlite::{Connection, ErrorCode};
use litefoot_testkit::at_end::AtEnd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const TABLE: &str = "CREATE TABLE t(writer INTEGER, n INTEGER, data BLOB, PRIMARY KEY(writer, n))";
/// The option by which commits are pages.
const PAGES: &str = "commit_log=pages";
const ROUNDS: i64 = 12;
/// How long the gate stays closed for a commit that others may have to wait for.
const CLOSED: Duration = Duration::from_millis(25);
const PAUSE: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(60);

/// A file beside the database while syncs wait. It has the number of rows before the commit that waits, and whether a sync waits.
#[derive(Debug, Clone)]
struct Gate {
    file: PathBuf,
    waiting: Arc<AtomicUsize>,
}

impl Gate {
    fn of(database: &Path) -> Gate {
        Gate { file: database.with_extension("gate"), waiting: Arc::default() }
    }

    fn close(&self, state: State) {
        let new = self.file.with_extension("new-gate");
        std::fs::write(&new, format!("{} {}", state.rows, state.has_sync)).unwrap();
        std::fs::rename(new, &self.file).unwrap();
    }

    fn open(&self) {
        let _ = std::fs::remove_file(&self.file);
    }

    /// `None` where it is open.
    fn state(&self) -> Option<State> {
        let content = std::fs::read_to_string(&self.file).ok()?;
        let (rows, has_sync) = content.split_once(' ')?;
        Some(State { rows: rows.parse().ok()?, has_sync: has_sync.parse().ok()? })
    }

    fn pass(&self) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        while self.file.exists() {
            std::thread::sleep(PAUSE);
        }
        self.waiting.fetch_sub(1, Ordering::AcqRel);
    }

    /// Waits until a sync waits.
    fn await_sync(&self) {
        let begun = Instant::now();
        while self.waiting.load(Ordering::Acquire) == 0 {
            assert!(begun.elapsed() < PATIENCE, "no sync");
            std::thread::sleep(PAUSE);
        }
    }

    /// Where a process that watches notes for which rows it has read while a sync waited, and before that that it has read at all.
    fn note(&self, watcher: i64) -> PathBuf {
        self.file.with_extension(format!("looked-{watcher}"))
    }

    fn await_notes(&self, wanted: i64, watchers: &[i64]) {
        let begun = Instant::now();
        for watcher in watchers {
            while std::fs::read_to_string(self.note(*watcher)).unwrap_or_default() != wanted.to_string() {
                assert!(begun.elapsed() < PATIENCE, "process {watcher} does not come to read: {wanted}");
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Reads until the end. Answers how many of these reads have seen what waits at the gate.
    fn watch(&self, watcher: i64, read: impl Fn() -> Option<i64>, ends: &AtomicBool) -> usize {
        let (mut wrong, mut noted) = (0, None);
        while !ends.load(Ordering::Acquire) {
            let before = self.state();
            let Some(seen) = read() else { continue };
            if noted.is_none() {
                noted = Some(BEGUN);
                std::fs::write(self.note(watcher), BEGUN.to_string()).unwrap();
            }
            let Some(state) = self.state() else { continue };
            wrong += usize::from(seen > state.rows);
            if before == Some(state) && state.has_sync && noted.replace(state.rows) != Some(state.rows) {
                std::fs::write(self.note(watcher), state.rows.to_string()).unwrap();
            }
        }
        wrong
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    rows: i64,
    has_sync: bool,
}

/// What another process does that watches.
pub(crate) fn watch_until_told(vfs: &Vfs, path: &Path, watcher: i64) {
    listen();
    let kept = (watcher == MEMBER).then(|| open_below(vfs, path));
    let read = || match &kept {
        Some(db) => read(db),
        None if watcher == STRANGER => read(&Connection::open(path).ok()?),
        None => read(&vfs.open(path).ok()?),
    };
    println!("wrong: {}", Gate::of(path).watch(watcher, read, &ENDS));
}

/// The rows, where no lock is in the way.
fn read(db: &Connection) -> Option<i64> {
    match db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)) {
        Ok(rows) => Some(rows),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => None,
        Err(error) => panic!("{error}"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Committing {
    Owner,
    Member,
}

/// Who watches: the owner, a member, a member that opens the database for each read, and stock SQLite, which does so as well.
const OWNER: i64 = 0;
const WRITER: i64 = 1;
const MEMBER: i64 = 2;
const REQUESTS: i64 = 3;
const STRANGER: i64 = 4;
/// What one that watches notes first.
const BEGUN: i64 = -1;

/// Commits with a closed gate, again and again. All watch, but for the stranger where none is wanted.
fn watched(mode: &str, options: &str, who: Committing, has_stranger: bool) {
    let what = format!("{mode}, {options}, {who:?}, a stranger: {has_stranger}");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let gate = Gate::of(&path);
    let at_sync = gate.clone();
    let device = SlowDevice::new(move || at_sync.pass());
    let (vfs, mut db) = open_on(&path, options, Some(Arc::new(device)));
    db.execute_batch(&format!("PRAGMA journal_mode={mode}; {TABLE}")).unwrap();
    let start = |work, number: i64| {
        Process::start_by(with_options(options), work, &path, u32::try_from(number).unwrap())
    };
    let mut writer = start("obey", WRITER);
    let watchers = &[OWNER, MEMBER, REQUESTS, STRANGER][..if has_stranger { 4 } else { 3 }];
    let watching: Vec<_> = watchers.iter().skip(1).map(|watcher| start("watch", *watcher)).collect();
    let own = open_below(&vfs, &path);
    let (at_gate, ends) = (&gate, &AtomicBool::new(false));
    let wrong = std::thread::scope(|scope| {
        let own = scope.spawn(move || at_gate.watch(OWNER, || read(&own), ends));
        let ended = AtEnd(|| ends.store(true, Ordering::Release));
        gate.await_notes(BEGUN, watchers);
        for rows in 0..ROUNDS {
            let sql = format!("INSERT INTO t VALUES(1, {rows}, randomblob(300))");
            gate.close(State { rows, has_sync: false });
            std::thread::scope(|scope| {
                let _opened = AtEnd(|| gate.open());
                let (db, writer) = (&mut db, &mut writer);
                let committing = scope.spawn(move || match who {
                    Committing::Owner => db.execute_batch(&sql).unwrap(),
                    Committing::Member => writer.run(&sql),
                });
                gate.await_sync();
                gate.close(State { rows, has_sync: true });
                // Commits as pages are in nobody's way: nor is anything that others do beside them.
                if mode == "wal" && options.contains(PAGES) {
                    gate.await_notes(rows, watchers);
                } else {
                    std::thread::sleep(CLOSED);
                }
                assert!(!committing.is_finished(), "{what}: acknowledged before its sync");
            });
        }
        drop(ended);
        own.join().unwrap()
    });
    assert_eq!(wrong, 0, "{what}: seen in the owner");
    for process in watching {
        let said = process.end_with_output();
        assert!(said.contains("wrong: 0\n"), "{what}: {said}");
    }
    writer.end();
    assert_eq!(count(&db), ROUNDS, "{what}");
}

#[test]
fn nobody_sees_a_commit_before_it_is_synced() {
    for mode in MODES {
        for who in [Committing::Owner, Committing::Member] {
            watched(mode, "sharing=group", who, false);
        }
    }
}

#[test]
fn nobody_sees_a_commit_beside_a_stranger_before_it_is_synced() {
    for mode in ["truncate", "wal"] {
        for who in [Committing::Owner, Committing::Member] {
            watched(mode, "sharing=group", who, true);
        }
    }
}

/// Readers find the database as it was before, and requests as well.
#[test]
fn in_wal_mode_nobody_waits_for_the_sync_of_a_commit_that_is_pages() {
    for who in [Committing::Owner, Committing::Member] {
        watched("wal", &format!("sharing=group&{PAGES}"), who, false);
    }
}
