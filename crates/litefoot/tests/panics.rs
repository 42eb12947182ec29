//! A panic below SQLite: the database is closed for writing, everybody who waits gets an error, nobody waits for ever.

#![allow(clippy::unwrap_used)]

mod support;

use litefoot::rusqlite::Connection;
use litefoot::{Options, Vfs};
use litefoot_sim::Random;
use litefoot_sim::SimMedium;
use litefoot_storage::file::FileKind;
use litefoot_testkit::process::thread_name;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use support::{Gate, HookedMedium};

/// After this a test counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a test on a thread of its own, which may hang.
fn within_patience(test: impl FnOnce() + Send + 'static) {
    let (sender, ended) = mpsc::channel();
    let run = thread::spawn(move || {
        test();
        let _ = sender.send(());
    });
    let outcome = ended.recv_timeout(PATIENCE);
    assert_ne!(outcome, Err(mpsc::RecvTimeoutError::Timeout), "it hangs");
    run.join().unwrap();
}

/// Checks that every acknowledged commit is there when the power goes, and that the file is sound.
fn check_after_cut(medium: &SimMedium, acknowledged: i64) {
    let image = medium.cut(&mut Random::new(1));
    let vfs = Vfs::builder("panics-after").medium(Arc::new(image)).register().unwrap();
    let db = vfs.open("/app.db").unwrap();
    let found: i64 =
        db.query_row("SELECT count(*) FROM t WHERE id <= ?1", [acknowledged], |row| row.get(0)).unwrap();
    assert_eq!(found, acknowledged);
    let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok");
}

#[test]
fn commits_that_wait_for_a_writer_that_panics_fail_and_so_do_all_after_them() {
    within_patience(|| {
        let (gate, pass) = Gate::new();
        let hook = move |kind: FileKind, durable: bool| {
            if pass(kind, durable) {
                panic!("on purpose");
            }
        };
        let sim = SimMedium::new();
        let medium = HookedMedium { medium: sim.clone(), hook: Arc::new(hook) };
        let options = Options { commit_log: litefoot::CommitLogForm::Statements, ..Options::default() };
        let vfs = Vfs::builder("panics-leader").medium(Arc::new(medium)).options(options).register().unwrap();
        let db = vfs.open("/app.db").unwrap();
        db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        db.execute_batch("INSERT INTO t VALUES(1, 0); INSERT INTO t VALUES(2, 0)").unwrap();
        let insert = |id: i64| {
            let db = vfs.open("/app.db").unwrap();
            // It is warm.
            db.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
            move || db.execute("INSERT INTO t VALUES(?1, 1)", [id]).map_err(|error| error.to_string())
        };
        let [first, second, third] = [3, 4, 5].map(insert);
        thread::scope(|scope| {
            gate.arm();
            let first = scope.spawn(first);
            gate.wait_until_reached();
            let others = [scope.spawn(second), scope.spawn(third)];
            // Long enough for both to queue up; were it not, each would fail for itself.
            thread::sleep(Duration::from_millis(200));
            gate.open();
            first.join().unwrap().unwrap_err();
            for other in others {
                other.join().unwrap().unwrap_err();
            }
        });
        db.execute_batch("INSERT INTO t VALUES(6, 0)").unwrap_err();
        drop((db, vfs));
        check_after_cut(&sim, 2);
    });
}

/// True if this thread has that name, of which the system keeps 15 bytes.
fn is_current(name: &str) -> bool {
    thread_name() == name[..name.len().min(15)]
}

/// A medium on which one thread of ours panics when it writes or syncs for the first time after it was armed.
fn panicking(sim: &SimMedium, name: &'static str, armed: &Arc<AtomicBool>) -> HookedMedium {
    let arm = armed.clone();
    let hook = move |_: FileKind, _: bool| {
        if is_current(name) && arm.swap(false, Ordering::AcqRel) {
            panic!("on purpose");
        }
    };
    HookedMedium { medium: sim.clone(), hook: Arc::new(hook) }
}

/// Commits until one fails, or until a test would count as hung. How many were acknowledged before that.
fn commit_until_failure(db: &Connection, value: &str) -> Option<i64> {
    let begun = Instant::now();
    let commit = |id: &i64| db.execute_batch(&format!("INSERT INTO t VALUES({id}, {value})")).is_err();
    // On a busy machine a flush takes long, and the next one waits for longer.
    (1..).take_while(|_| begun.elapsed() < PATIENCE / 2).find(commit).map(|id| id - 1)
}

#[test]
fn a_panic_of_any_thread_of_ours_is_met_by_the_next_commit_and_by_no_endless_wait() {
    let cases = [
        ("litefoot-flush", "wal", "NORMAL", "1", "flush_interval_ms=1"),
        ("litefoot-checkpoint", "wal", "FULL", "randomblob(200000)", "write_buffer_size=1M"),
        ("litefoot-log", "delete", "FULL", "randomblob(200000)", "max_wal_size=1M"),
        (
            "litefoot-spill",
            "delete",
            "FULL",
            "randomblob(9000000)",
            "buffer_pool_size=4M&page_cleaner=background",
        ),
    ];
    for (name, journal, synchronous, value, options) in cases {
        within_patience(move || {
            let (sim, armed) = (SimMedium::new(), Arc::new(AtomicBool::new(false)));
            let mut chosen = Options::default();
            chosen.set_list(options).unwrap();
            let medium = Arc::new(panicking(&sim, name, &armed));
            let vfs = Vfs::builder("panics-thread").medium(medium).options(chosen).register().unwrap();
            let db = vfs.open("/app.db").unwrap();
            let begin = format!("PRAGMA journal_mode={journal}; CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
            db.execute_batch(&begin).unwrap();
            db.execute_batch(&format!("PRAGMA synchronous={synchronous}")).unwrap();
            armed.store(true, Ordering::Release);
            let acknowledged = commit_until_failure(&db, value);
            assert!(!armed.load(Ordering::Acquire), "{name} never wrote");
            let acknowledged = acknowledged.unwrap_or_else(|| panic!("{name}: nothing has failed"));
            // Closing does not hang either.
            drop((db, vfs));
            check_after_cut(&sim, if synchronous == "FULL" { acknowledged } else { 0 });
        });
    }
}

/// Has the so-manyth call for a page's address panic.
#[cfg(debug_assertions)]
fn panic_in(vfs: &Vfs, calls: u64) {
    let known = |database: &_| litefoot_vfs::open::OpenDatabase::known_pages(database);
    vfs.databases().iter().filter_map(|database| known(database)).for_each(|pages| pages.panic_in(calls));
}

#[test]
#[cfg(debug_assertions)]
fn a_panic_in_a_call_for_a_page_is_an_error_and_nothing_is_written_after_it() {
    // A page that is kept, one in memory, one that is given back: every call of some statements.
    for calls in 1..8 {
        within_patience(move || {
            let sim = SimMedium::new();
            let vfs = Vfs::builder("panics-pages").medium(Arc::new(sim.clone())).register().unwrap();
            let (db, other) = (vfs.open("/app.db").unwrap(), vfs.open("/app.db").unwrap());
            db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
            let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) \
                        INSERT INTO t SELECT i, randomblob(50) FROM n";
            db.execute_batch(fill).unwrap();
            let look = |id: i64| db.query_row("SELECT length(v) FROM t WHERE id = ?1", [id], |_| Ok(()));
            // All of it comes into memory, and the root is kept.
            (1..=2000).for_each(|id| look(id).unwrap());
            panic_in(&vfs, calls);
            let failed = (1..=2000).filter(|id| look(*id).is_err()).count();
            // SQLite takes no answer when it gives a page back.
            assert!(failed <= 1, "{failed} statements failed");
            let write = |db: &Connection| db.execute_batch("INSERT INTO t(v) VALUES(1)");
            let errors = [write(&other), write(&db)].map(|result| result.unwrap_err().to_string());
            assert!(errors.iter().all(|text| text.contains("readonly")), "{errors:?}");
            drop((db, other, vfs));
            check_after_cut(&sim, 2000);
        });
    }
}

#[test]
fn a_panic_while_a_connection_is_closed_is_an_error_and_nothing_is_written_after_it() {
    within_patience(|| {
        let (sim, armed) = (SimMedium::new(), Arc::new(AtomicBool::new(false)));
        let arm = armed.clone();
        let hook = move |kind: FileKind, _: bool| {
            if kind == FileKind::Database && arm.swap(false, Ordering::AcqRel) {
                panic!("on purpose");
            }
        };
        let medium = HookedMedium { medium: sim.clone(), hook: Arc::new(hook) };
        let vfs = Vfs::builder("panics-close").medium(Arc::new(medium)).register().unwrap();
        let db = vfs.open("/app.db").unwrap();
        db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1, 0)").unwrap();
        // As a thread of litefoot's own, which still has it open.
        let databases = vfs.databases();
        assert_eq!(databases.len(), 1);
        armed.store(true, Ordering::Release);
        drop(db);
        assert!(!armed.load(Ordering::Acquire), "nothing was written");
        let next = vfs.open("/app.db").unwrap();
        next.execute_batch("INSERT INTO t VALUES(2, 0)").unwrap_err();
        drop((next, databases, vfs));
        check_after_cut(&sim, 1);
    });
}
