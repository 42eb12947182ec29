//! Writers whose commits share syncs, without a hook on their connections: what they may show meanwhile, and how they wait.

#![allow(clippy::unwrap_used)]

mod support;

use litefoot::rusqlite::{Connection, Error, ErrorCode};
use litefoot::{CommitLogForm, Options, Vfs};
use litefoot_sim::{Random, SimMedium};
use litefoot_storage::file::FileKind;
use litefoot_testkit::at_end::AtEnd;
use litefoot_testkit::sqlite::metric_or_zero;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;
use support::{Gate, HookedMedium};

const SCHEMA: &str = "PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, writer, n)";

/// Deltas from the first commit on.
fn deltas() -> Options {
    Options { commit_log: CommitLogForm::Deltas, ..Options::default() }
}

fn open(vfs: &Vfs) -> Connection {
    let db = vfs.open("/app.db").unwrap();
    db.busy_timeout(Duration::from_secs(60)).unwrap();
    db
}

fn count(db: &Connection, condition: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM t WHERE {condition}");
    db.query_row(&sql, [], |row| row.get(0)).unwrap()
}

fn is_conflict(result: &Result<usize, Error>) -> bool {
    matches!(result, Err(Error::SqliteFailure(error, _)) if error.code == ErrorCode::ConstraintViolation)
}

/// The rows for which a condition holds after a power cut now.
fn after_a_cut(sim: &SimMedium, random: &mut Random, name: &str, condition: &str) -> i64 {
    let image = sim.cut(random);
    let vfs = Vfs::builder(name).medium(Arc::new(image)).register().unwrap();
    count(&vfs.open("/app.db").unwrap(), condition)
}

/// Six writers, of which some begin with BEGIN IMMEDIATE, on a device whose syncs take long: most commits share theirs, none
/// meets SQLITE_BUSY, and every row is there.
#[test]
fn commits_of_many_writers_share_syncs() {
    const WRITERS: i64 = 6;
    const ROWS: i64 = 40;
    let syncs = Arc::new(AtomicU64::new(0));
    let counted = syncs.clone();
    let hook = move |kind: FileKind, durable: bool| {
        if durable && kind == FileKind::CommitLog {
            counted.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    let medium = HookedMedium { medium: SimMedium::new(), hook: Arc::new(hook) };
    let vfs = Vfs::builder("shared-syncs").medium(Arc::new(medium)).options(deltas()).register().unwrap();
    let db = open(&vfs);
    db.execute_batch(SCHEMA).unwrap();
    let before = syncs.load(Ordering::Relaxed);
    let all_there = Barrier::new(WRITERS as usize);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (vfs, all_there) = (&vfs, &all_there);
            scope.spawn(move || {
                let db = open(vfs);
                all_there.wait();
                for n in 0..ROWS {
                    let immediate = writer == 0 && n % 8 == 0;
                    if immediate {
                        db.execute_batch("BEGIN IMMEDIATE").unwrap();
                    }
                    db.execute("INSERT INTO t(writer, n) VALUES(?1, ?2)", [writer, n]).unwrap();
                    if immediate {
                        db.execute_batch("COMMIT").unwrap();
                    }
                }
            });
        }
    });
    let commits = WRITERS * ROWS;
    assert_eq!(count(&db, "1"), commits);
    assert!(metric_or_zero(&db, "commits_deltas") > commits / 2);
    let syncs = (syncs.load(Ordering::Relaxed) - before) as i64;
    assert!(syncs * 10 < commits * 6, "{syncs} syncs of {commits} commits");
}

/// While a commit waits for its sync, no statement returns that tells of it, whatever it is. Once it has returned, the commit
/// survives a power cut.
#[test]
fn what_is_shown_survives() {
    // Answers if what it was shown tells of the row; one that is shown it in the midst says so by the function.
    type Tells = fn(&Connection, &dyn Fn(bool)) -> bool;
    let cases: [(&str, Tells); 13] = [
        ("a query", |db, _| count(db, "id = 7") == 1),
        ("a query in a transaction", |db, _| {
            db.execute_batch("BEGIN").unwrap();
            count(db, "id = 7") == 1
        }),
        ("a conflict", |db, _| is_conflict(&db.execute("INSERT INTO t(id) VALUES(7)", []))),
        ("a conflict in a transaction", |db, _| {
            db.execute_batch("BEGIN IMMEDIATE").unwrap();
            is_conflict(&db.execute("INSERT INTO t(id) VALUES(7)", []))
        }),
        ("a conflict that is ignored", |db, _| {
            db.execute("INSERT OR IGNORE INTO t(id) VALUES(7)", []).unwrap() == 0
        }),
        ("no row that fits", |db, _| {
            db.execute("UPDATE t SET n = 1 WHERE id != 7 AND id != 1", []).unwrap() == 0
                && db.total_changes() == 0
        }),
        ("a conflict in a transaction that has just begun", |db, _| {
            db.execute_batch("BEGIN").unwrap();
            is_conflict(&db.execute("INSERT INTO t(id) VALUES(7)", []))
        }),
        ("a row returned", |db, tell| {
            let sql = "INSERT INTO t(writer) SELECT max(id) FROM t RETURNING writer";
            let mut insert = db.prepare(sql).unwrap();
            let mut rows = insert.query([]).unwrap();
            let is_seen = rows.next().unwrap().unwrap().get::<_, i64>(0).unwrap() == 7;
            tell(is_seen);
            is_seen
        }),
        ("a change", |db, _| db.execute("UPDATE t SET n = 9 WHERE id = 7", []).unwrap() == 1),
        ("a copy in the temporary database", |db, _| {
            db.execute("INSERT INTO temp.seen SELECT id FROM t WHERE id = 7", []).unwrap() == 1
        }),
        ("the beginning of a transaction", |db, _| {
            db.execute_batch("BEGIN IMMEDIATE").unwrap();
            true
        }),
        ("the beginning of an exclusive one", |db, _| {
            db.execute_batch("BEGIN EXCLUSIVE").unwrap();
            true
        }),
        ("a copy while another query is stepped", |db, tell| {
            db.execute("INSERT INTO temp.seen VALUES(0)", []).unwrap();
            let mut query = db.prepare("SELECT id FROM temp.seen").unwrap();
            let mut rows = query.query([]).unwrap();
            rows.next().unwrap();
            let sql = "INSERT INTO temp.copied SELECT id FROM t WHERE id = 7";
            let copied = db.execute(sql, []).unwrap() == 1;
            tell(copied);
            copied
        }),
    ];
    let mut random = Random::new(11);
    for (number, (what, tells)) in cases.into_iter().enumerate() {
        let (gate, pass) = Gate::new();
        let sim = SimMedium::new();
        let hook = Arc::new(move |kind: FileKind, durable: bool| {
            pass(kind, durable);
        });
        let medium = HookedMedium { medium: sim.clone(), hook };
        let name = format!("shows-{number}");
        let vfs = Vfs::builder(&*name).medium(Arc::new(medium)).options(deltas()).register().unwrap();
        let (writer, other) = (open(&vfs), open(&vfs));
        writer.execute_batch(SCHEMA).unwrap();
        writer.execute("INSERT INTO t(id) VALUES(1)", []).unwrap();
        other.execute_batch("CREATE TEMP TABLE seen(id); CREATE TEMP TABLE copied(id)").unwrap();
        assert_eq!(count(&other, "1"), 1);
        gate.arm();
        std::thread::scope(|scope| {
            // Where something fails, the gate is gone.
            let gate = gate;
            scope.spawn(move || writer.execute("INSERT INTO t(id) VALUES(7)", []).unwrap());
            gate.wait_until_reached();
            let (told, tell) = mpsc::channel();
            scope.spawn(move || {
                let all = tells(&other, &|seen| {
                    let _ = told.send(seen);
                });
                let _ = told.send(all);
                other
            });
            // Long enough for a statement that does not wait.
            assert!(tell.recv_timeout(Duration::from_millis(60)).is_err(), "{what}: shown too early");
            gate.open();
            assert!(tell.recv().unwrap(), "{what}");
        });
        let cut = format!("shows-cut-{number}");
        assert_eq!(after_a_cut(&sim, &mut random, &cut, "id = 7"), 1, "{what}");
    }
}

/// The rows of which a thread was told.
type Told = Arc<Mutex<Vec<i64>>>;

/// Threads insert, meet conflicts, read and return rows, while power is cut again and again: whatever one was told before
/// a cut is there afterwards.
#[test]
fn what_a_thread_is_told_outlives_a_power_cut() {
    let (sim, told, done) = (SimMedium::new(), Told::default(), AtomicBool::new(false));
    let slow = |_: FileKind, durable: bool| {
        if durable {
            std::thread::sleep(Duration::from_micros(300));
        }
    };
    let medium = HookedMedium { medium: sim.clone(), hook: Arc::new(slow) };
    let vfs = Vfs::builder("told").medium(Arc::new(medium)).options(deltas()).register().unwrap();
    let keeper = open(&vfs);
    keeper.execute_batch(SCHEMA).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..5_i64 {
            let (vfs, told, done) = (&vfs, told.clone(), &done);
            scope.spawn(move || {
                let db = open(vfs);
                let tell = |id: i64| told.lock().unwrap().push(id);
                for id in (1..).take_while(|_| !done.load(Ordering::Acquire)) {
                    match writer {
                        // Two of them want the same rows: one is told of a conflict.
                        0 | 1 => {
                            let inserted =
                                db.execute("INSERT INTO t(id, writer) VALUES(?1, ?2)", [id, writer]);
                            assert!(inserted == Ok(1) || is_conflict(&inserted), "{inserted:?}");
                        }
                        2 => {
                            let sql = "INSERT INTO t(writer) VALUES(2) RETURNING (SELECT max(id) FROM t)";
                            tell(db.query_row(sql, [], |row| row.get(0)).unwrap());
                            continue;
                        }
                        3 => {
                            let sql = "SELECT ifnull(max(id), 0) FROM t";
                            let seen = db.query_row(sql, [], |row| row.get(0)).unwrap();
                            tell(seen);
                            continue;
                        }
                        _ => {
                            db.execute_batch("BEGIN IMMEDIATE").unwrap();
                            db.execute("INSERT INTO t(writer) VALUES(4)", []).unwrap();
                            let last = db.last_insert_rowid();
                            db.execute_batch("COMMIT").unwrap();
                            tell(last);
                            continue;
                        }
                    }
                    tell(id);
                }
            });
        }
        let _ends = AtEnd(|| done.store(true, Ordering::Release));
        let mut random = Random::new(5);
        for cut in 0..16 {
            std::thread::sleep(Duration::from_millis(10));
            let known: Vec<i64> = told.lock().unwrap().iter().copied().filter(|id| *id > 0).collect();
            let image = sim.cut(&mut random);
            let after = Vfs::builder(format!("told-{cut}")).medium(Arc::new(image)).register().unwrap();
            let db = after.open("/app.db").unwrap();
            let mut there = db.prepare("SELECT 1 FROM t WHERE id = ?1").unwrap();
            for id in known {
                assert!(there.exists([id]).unwrap(), "cut {cut}: row {id} is gone");
            }
        }
    });
    assert!(metric_or_zero(&keeper, "commits_deltas") > 0);
}

/// Readers get through though writers never pause, and see each writer's rows without a gap.
#[test]
fn threads_read_while_others_write() {
    let slow = |kind: FileKind, durable: bool| {
        if durable && kind == FileKind::CommitLog {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let medium = HookedMedium { medium: SimMedium::new(), hook: Arc::new(slow) };
    let vfs = Vfs::builder("read-on").medium(Arc::new(medium)).options(deltas()).register().unwrap();
    open(&vfs).execute_batch(SCHEMA).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..6_i64 {
            let (vfs, done) = (&vfs, &done);
            scope.spawn(move || {
                let db = open(vfs);
                for n in (0..).take_while(|_| !done.load(Ordering::Acquire)) {
                    db.execute("INSERT INTO t(writer, n) VALUES(?1, ?2)", [writer, n]).unwrap();
                }
            });
        }
        let _ends = AtEnd(|| done.store(true, Ordering::Release));
        let db = open(&vfs);
        for _ in 0..60 {
            let gaps = "SELECT count(*) FROM (SELECT count(*) AS c, max(n) AS m FROM t GROUP BY writer) WHERE c != m + 1";
            assert_eq!(db.query_row(gaps, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
        }
    });
}
