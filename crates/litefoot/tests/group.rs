//! Several connections at once: commits that share a sync, readers, and checkpoints in the background.

#![allow(clippy::unwrap_used)]

mod support;

use litefoot::rusqlite::Connection;
use litefoot::{CommitLogForm, Options, Vfs};
use litefoot_sim::Random;
use litefoot_sim::SimMedium;
use litefoot_storage::file::{FileKind, Medium, OpenMode};
use litefoot_storage::wal_file::format::{HEADER_BYTES, Header};
use litefoot_storage::wal_file::{Frame, frames};
use litefoot_testkit::sqlite::metric_or_zero;
use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use support::{Gate, HookedMedium};

const SCHEMA: &str =
    "PRAGMA journal_mode=wal; CREATE TABLE t(writer INTEGER, n INTEGER, PRIMARY KEY(writer, n));";

/// Commits are logged as statements.
fn logging() -> Options {
    Options { commit_log: CommitLogForm::Statements, ..Options::default() }
}

/// Four writers, two readers and small budgets: every row is there, in order, and no reader sees a gap.
#[test]
fn threads_write_read_and_checkpoint() {
    const ROWS: i64 = 250;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let mut options = Options::default();
    options.set_list("write_buffer_size=128K&commit_log=statements&commit_log_size=32K").unwrap();
    let vfs = Vfs::builder("group-threads").options(options).register().unwrap();
    let db = vfs.open(&path).unwrap();
    db.execute_batch(SCHEMA).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (vfs, path) = (&vfs, &path);
                scope.spawn(move || {
                    let db = vfs.open(path).unwrap();
                    for n in 0..ROWS {
                        if n % 3 == 0 {
                            db.execute_batch("BEGIN IMMEDIATE").unwrap();
                        }
                        db.execute("INSERT INTO t VALUES(?1, ?2)", [writer, n]).unwrap();
                        if n % 3 == 0 {
                            db.execute_batch("COMMIT").unwrap();
                        }
                        if n % 50 == 0 {
                            db.execute("UPDATE t SET n = n + 0 * random() WHERE writer = ?1", [writer])
                                .unwrap();
                        }
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                let db = vfs.open(&path).unwrap();
                let sql = "SELECT count(*) FROM (SELECT count(*) AS c, max(n) AS m FROM t GROUP BY writer) WHERE c != m + 1";
                let mut gaps = db.prepare(sql).unwrap();
                while !done.load(Ordering::Acquire) {
                    assert_eq!(gaps.query_row([], |row| row.get::<_, i64>(0)).unwrap(), 0);
                }
            });
        }
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Release);
    });
    let count =
        |db: &Connection| db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count(&db), 4 * ROWS);
    assert!(metric_or_zero(&db, "commits_statements") > 0 && metric_or_zero(&db, "fallback.function") > 0);
    drop(db);
    let left: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["app.db"]);
    let stock = Connection::open(&path).unwrap();
    assert_eq!(count(&stock), 4 * ROWS);
    let integrity: String = stock.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok");
}

/// While the first commit waits for its sync, three others queue up behind it; one more sync is enough for them.
#[test]
fn commits_that_wait_together_share_a_sync() {
    let ((gate, pass), syncs) = (Gate::new(), Arc::new(AtomicU64::new(0)));
    let count = syncs.clone();
    let hook = move |kind: FileKind, durable: bool| {
        if kind == FileKind::CommitLog && durable {
            count.fetch_add(1, Ordering::Relaxed);
        }
        pass(kind, durable);
    };
    let medium = HookedMedium { medium: SimMedium::new(), hook: Arc::new(hook) };
    let vfs = Vfs::builder("group-share").medium(Arc::new(medium)).options(logging()).register().unwrap();
    let connections: Vec<Connection> = (0..4).map(|_| vfs.open("/app.db").unwrap()).collect();
    connections[0].execute_batch(SCHEMA).unwrap();
    for (writer, db) in connections.iter().enumerate() {
        // Each connection is warm, and the log is begun.
        db.execute("INSERT INTO t VALUES(?1, -1)", [writer as i64]).unwrap();
        db.execute("INSERT INTO t VALUES(?1, -2)", [writer as i64]).unwrap();
    }
    syncs.store(0, Ordering::Relaxed);
    gate.arm();
    let reader = vfs.open("/app.db").unwrap();
    let seen = std::thread::scope(|scope| {
        let insert = |writer: usize| {
            let db = SendConnection(&connections[writer]);
            scope.spawn(move || db.get().execute("INSERT INTO t VALUES(?1, 1)", [writer as i64]).unwrap())
        };
        insert(0);
        gate.wait_until_reached();
        let others: Vec<_> = (1..4).map(insert).collect();
        let reader = SendConnection(&reader);
        let (seen, shown) = mpsc::channel();
        scope.spawn(move || {
            let sql = "SELECT count(*) FROM t WHERE n = 1";
            seen.send(reader.get().query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()).unwrap();
        });
        // Long enough for the others to queue up; were it not, they would need more syncs, never fewer rows.
        std::thread::sleep(Duration::from_millis(200));
        assert!(others.iter().all(|other| !other.is_finished()), "a commit returned before its sync");
        assert!(shown.try_recv().is_err(), "a reader saw what could still be lost");
        gate.open();
        shown.recv().unwrap()
    });
    assert!(seen >= 1, "the reader waited for the commit that it would have seen");
    let figures: String = reader.query_row("PRAGMA litefoot_stats", [], |row| row.get(0)).unwrap();
    assert_eq!(syncs.load(Ordering::Relaxed), 2, "{figures}");
}

/// Frames behind the last one of the redo log that counts.
fn frames_ahead(medium: &SimMedium) -> usize {
    let path = Path::new("/app.db-wal");
    let Ok(file) = medium.open(path, FileKind::RedoLog, OpenMode::ReadOnly) else { return 0 };
    let mut bytes = [0; HEADER_BYTES];
    let read = file.read_at(&mut bytes, 0).unwrap();
    let Some((header, checksum)) = Header::decode(&bytes[..read]) else { return 0 };
    let mut ahead = 0;
    let count = |frame: Frame, _: &[u8]| ahead = if frame.database_pages == 0 { ahead + 1 } else { 0 };
    frames(&*file, &header, checksum, count).unwrap();
    ahead
}

/// The commit log is full, and its pages are on their way to the redo log: other commits do not wait for them. What a crash leaves
/// then is the last checkpoint to stock SQLite, which changes nothing, and every commit to litefoot.
#[test]
fn commits_finish_while_a_full_log_is_materialized() {
    // More pages than the log has records: none is changed twice.
    const ROWS: i64 = 2_000;
    const FRAMES_AHEAD: usize = 64;
    const FULL_BYTES: i64 = 52_000;
    thread_local! {
        static IS_APPLICATIONS: Cell<bool> = const { Cell::new(false) };
    }
    IS_APPLICATIONS.set(true);
    let (reached, waits) = mpsc::channel::<()>();
    let (go, gate) = mpsc::channel::<()>();
    let (reached, gate) = (std::sync::Mutex::new(reached), std::sync::Mutex::new(gate));
    let (sim, armed) = (SimMedium::unrecorded(), Arc::new(AtomicBool::new(true)));
    let (looked_at, arm) = (sim.clone(), armed);
    // The checkpointer is stopped once some frames are there that do not count.
    let hook = move |kind: FileKind, _: bool| {
        let is_checkpointers = !IS_APPLICATIONS.get() && kind == FileKind::RedoLog;
        if is_checkpointers && frames_ahead(&looked_at) == FRAMES_AHEAD && arm.swap(false, Ordering::AcqRel) {
            reached.lock().unwrap().send(()).unwrap();
            let _ = gate.lock().unwrap().recv();
        }
    };
    let medium = HookedMedium { medium: sim.clone(), hook: Arc::new(hook) };
    let mut options = Options::default();
    options.set_list("commit_log=deltas&commit_log_size=64K").unwrap();
    let vfs =
        Vfs::builder("group-ahead").medium(Arc::new(medium)).options(options.clone()).register().unwrap();
    let db = vfs.open("/app.db").unwrap();
    let rows = format!("WITH c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {ROWS})");
    db.execute_batch(&format!(
        "PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER, v);
         INSERT INTO t {rows} SELECT i, 0, randomblob(3000) FROM c; PRAGMA wal_checkpoint(TRUNCATE)"
    ))
    .unwrap();
    let update = |round: i64| {
        db.execute("UPDATE t SET n = n + 1 WHERE id = 1 + ?1 % ?2", [round, ROWS]).unwrap();
    };
    let mut updates = 0;
    let is_full = || metric_or_zero(&db, "commit_log_bytes") > FULL_BYTES;
    // A full log is given time: commits that find no room in it would materialize it themselves.
    while waits.recv_timeout(Duration::from_secs(if is_full() { 10 } else { 0 })).is_err() {
        update(updates);
        updates += 1;
        assert!(updates < 100_000, "the log is never full");
    }
    let deltas = metric_or_zero(&db, "commits_deltas");
    let (done, finished) = mpsc::channel();
    std::thread::scope(|scope| {
        let db = SendConnection(&db);
        scope.spawn(move || {
            IS_APPLICATIONS.set(true);
            for _ in 0..10 {
                db.get().execute("UPDATE t SET n = n + 1 WHERE id = 7", []).unwrap();
            }
            done.send(()).unwrap();
        });
        let in_time = finished.recv_timeout(Duration::from_secs(60));
        let crashed = sim.copy();
        go.send(()).unwrap();
        in_time.expect("a commit waits for the pages of others");
        let sum =
            |db: &Connection| db.query_row("SELECT sum(n) FROM t", [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(frames_ahead(&crashed), FRAMES_AHEAD);
        let directory = tempfile::tempdir().unwrap();
        let contents = |name: &str| {
            let files = crashed.files();
            files.into_iter().find(|(path, ..)| path.ends_with(name)).map(|(_, _, bytes)| bytes).unwrap()
        };
        let path = directory.path().join("app.db");
        std::fs::write(directory.path().join("app.db-wal"), contents("app.db-wal")).unwrap();
        std::fs::write(&path, contents("app.db")).unwrap();
        let stock = Connection::open(&path).unwrap();
        assert_eq!(sum(&stock), 0);
        drop(stock);
        assert_eq!(
            std::fs::read(&path).unwrap(),
            contents("app.db"),
            "stock SQLite has checkpointed something"
        );
        let again =
            Vfs::builder("group-ahead-again").medium(Arc::new(crashed)).options(options).register().unwrap();
        assert_eq!(sum(&again.open("/app.db").unwrap()), updates + 10);
    });
    assert_eq!(metric_or_zero(&db, "commits_deltas"), deltas + 10);
    // The checkpoint ends, and the next generation begins.
    while metric_or_zero(&db, "commits_deltas") < deltas + 20 {
        update(updates);
        updates += 1;
        assert!(updates < 100_000, "no other generation begins");
    }
}

/// A connection that another thread uses while this one does not.
struct SendConnection<'a>(&'a Connection);

// SAFETY: each connection is used by one thread at a time.
unsafe impl Send for SendConnection<'_> {}

impl<'a> SendConnection<'a> {
    fn get(&self) -> &'a Connection {
        self.0
    }
}

/// A commit at NORMAL is durable within its window, without another commit.
#[test]
fn normal_commits_are_durable_soon() {
    let (synced, durable) = mpsc::channel::<()>();
    let synced = std::sync::Mutex::new(synced);
    let hook = move |kind: FileKind, durable: bool| {
        // Where statements took long, the next commits are pages for a while.
        if matches!(kind, FileKind::CommitLog | FileKind::RedoLog) && durable {
            let _ = synced.lock().unwrap().send(());
        }
    };
    let sim = SimMedium::new();
    let medium = HookedMedium { medium: sim.clone(), hook: Arc::new(hook) };
    let vfs = Vfs::builder("group-normal").medium(Arc::new(medium)).options(logging()).register().unwrap();
    let db = vfs.open("/app.db").unwrap();
    db.execute_batch(SCHEMA).unwrap();
    db.execute_batch("PRAGMA synchronous=NORMAL; INSERT INTO t VALUES(1, 1); INSERT INTO t VALUES(1, 2)")
        .unwrap();
    durable.recv_timeout(Duration::from_secs(60)).unwrap();
    while db.execute("INSERT INTO t VALUES(2, (SELECT count(*) FROM t))", []).is_ok() {
        let before = sim.operations();
        if durable.recv_timeout(Duration::from_secs(60)).is_ok() && sim.operations() > before {
            break;
        }
    }
    let rows: i64 = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    assert!(metric_or_zero(&db, "commits_statements") >= 1);
    let image = sim.cut(&mut Random::new(3));
    let vfs = Vfs::builder("group-normal-2").medium(Arc::new(image)).register().unwrap();
    let db = vfs.open("/app.db").unwrap();
    let found: i64 = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    assert!(found >= rows - 1, "{found} of {rows} rows");
}

/// At NORMAL, commits that are written as pages are durable soon, too.
#[test]
fn at_normal_pages_are_durable_soon() {
    let sim = SimMedium::new();
    let options = Options { commit_log: CommitLogForm::Pages, ..Options::default() };
    let vfs = Vfs::builder("group-pages").medium(Arc::new(sim.clone())).options(options).register().unwrap();
    let db = vfs.open("/app.db").unwrap();
    db.execute_batch(SCHEMA).unwrap();
    db.execute_batch("PRAGMA synchronous=NORMAL; INSERT INTO t VALUES(7, random())").unwrap();
    let begun = Instant::now();
    let mut random = Random::new(3);
    let mut survives = |rows: i64| {
        (0..5).all(|_| {
            let image = sim.cut(&mut random);
            let vfs = Vfs::builder("group-pages-cut").medium(Arc::new(image)).register().unwrap();
            let db = vfs.open("/app.db").unwrap();
            db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap() == rows
        })
    };
    for n in 1..4 {
        let before = metric_or_zero(&db, "commits_pages");
        db.execute("INSERT INTO t VALUES(?1, random())", [n]).unwrap();
        assert_eq!(metric_or_zero(&db, "commits_pages") - before, 1);
        // Nothing but time passes.
        while !survives(n + 1) {
            assert!(begun.elapsed() < Duration::from_secs(60), "transaction {n} is not durable");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A transaction that has read, and then writes, is not told that somebody else wrote when only the log was emptied
/// in the background.
#[test]
fn emptying_the_log_does_not_disturb_a_transaction() {
    let mut options = Options::default();
    options.set_list("write_buffer_size=0&commit_log=statements&commit_log_size=8K").unwrap();
    let vfs =
        Vfs::builder("group-empty").medium(Arc::new(SimMedium::new())).options(options).register().unwrap();
    let db = vfs.open("/app.db").unwrap();
    db.execute_batch(SCHEMA).unwrap();
    for n in 0..400 {
        // The commit starts the thread; the next transaction reads while it is at work, and then writes.
        db.execute_batch("INSERT OR REPLACE INTO t VALUES(1, 1); INSERT OR REPLACE INTO t VALUES(2, 1)")
            .unwrap();
        db.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
        std::thread::sleep(Duration::from_micros(20 * (n % 40)));
        db.execute("INSERT INTO t VALUES(3, ?1)", [n as i64]).unwrap();
        db.execute_batch("COMMIT").unwrap();
    }
}

/// Figures are read while others commit, materialize and empty the log: nobody waits for the other without end.
#[test]
fn figures_are_in_nobodys_way() {
    let mut options = Options::default();
    options.set_list("write_buffer_size=0&commit_log=statements&commit_log_size=2K").unwrap();
    let vfs =
        Vfs::builder("group-figures").medium(Arc::new(SimMedium::new())).options(options).register().unwrap();
    let vfs = Arc::new(vfs);
    vfs.open("/app.db").unwrap().execute_batch(SCHEMA).unwrap();
    let (ended, ends) = mpsc::channel();
    let done = Arc::new(AtomicBool::new(false));
    for writer in 0..3 {
        let (vfs, ended) = (vfs.clone(), ended.clone());
        std::thread::spawn(move || {
            let db = vfs.open("/app.db").unwrap();
            db.busy_timeout(Duration::from_secs(60)).unwrap();
            for n in 0..300 {
                let value = if n % 7 == 0 { "random()" } else { "?2 % 10" };
                let sql = format!("INSERT OR REPLACE INTO t VALUES(?1, {value} + 0 * ?2)");
                db.execute(&sql, [writer, n]).unwrap();
            }
            ended.send(()).unwrap();
        });
    }
    for _ in 0..2 {
        let (vfs, done) = (vfs.clone(), done.clone());
        std::thread::spawn(move || {
            let db = vfs.open("/app.db").unwrap();
            while !done.load(Ordering::Acquire) {
                let _ = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
                metric_or_zero(&db, "wal_memory_bytes");
            }
        });
    }
    for _ in 0..3 {
        ends.recv_timeout(Duration::from_secs(120)).expect("a writer waits without end");
    }
    done.store(true, Ordering::Release);
}
