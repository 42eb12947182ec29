//! Faults of the medium, one at a time, at every point of a run in WAL mode.

#![allow(clippy::unwrap_used)]

mod support;

use litefoot::rusqlite::Connection;
use litefoot::rusqlite::config::DbConfig;
use litefoot::{CommitLogForm, Options, Vfs};
use litefoot_sim::SimMedium;
use litefoot_sim::{Faults, Random};
use litefoot_storage::file::{FileKind, Operation};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use support::{Gate, HookedMedium};

const FORMS: [CommitLogForm; 3] = [CommitLogForm::Statements, CommitLogForm::Deltas, CommitLogForm::Pages];

fn open(name: &str, medium: &SimMedium, form: CommitLogForm) -> (Vfs, Connection) {
    let options = Options { commit_log: form, ..Options::default() };
    let vfs = Vfs::builder(name).medium(Arc::new(medium.clone())).options(options).register().unwrap();
    let db = vfs.open("/app.db").unwrap();
    (vfs, db)
}

fn ids(db: &Connection) -> litefoot::rusqlite::Result<BTreeSet<i64>> {
    let mut statement = db.prepare("SELECT id FROM t")?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Runs commits of all kinds with the fault, and says what is wrong with what is left.
fn run(synchronous: &str, form: CommitLogForm, faults: &Faults) -> Result<(), String> {
    let medium = SimMedium::new();
    let (vfs, db) = open("faults", &medium, form);
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    db.execute_batch(&format!("PRAGMA synchronous={synchronous}")).unwrap();
    medium.set_faults(faults.clone());
    let (mut acknowledged, mut failed, mut undone) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for id in 1..40 {
        if id == 30 {
            medium.set_faults(Faults::default());
        }
        let value = match id % 5 {
            0..=2 => format!("x'{}'", "00".repeat(100)),
            3 => "randomblob(9000)".to_owned(),
            _ => "random()".to_owned(),
        };
        match db.execute_batch(&format!("INSERT INTO t VALUES({id}, {value})")) {
            Ok(()) => {
                acknowledged.insert(id);
                undone.append(&mut failed);
            }
            Err(_) => {
                failed.insert(id);
                // Deltas and statements are written once they are published.
                if form == CommitLogForm::Pages && ids(&db).is_ok_and(|shown| shown.contains(&id)) {
                    return Err(format!("{id} has failed, and is shown"));
                }
            }
        }
        if id % 9 == 0 {
            let mode = if id % 2 == 0 { "TRUNCATE" } else { "PASSIVE" };
            let _ = db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
        }
        if let Ok(shown) = ids(&db) {
            if !shown.is_superset(&acknowledged) {
                return Err(format!("{id}: shown {shown:?}, acknowledged {acknowledged:?}"));
            }
            if let Some(id) = shown.intersection(&undone).next() {
                return Err(format!("{id} has failed and is there"));
            }
        }
    }
    medium.set_faults(Faults::default());
    let image = match synchronous {
        "FULL" => medium.cut(&mut Random::new(1)),
        _ => medium.copy(),
    };
    drop((db, vfs));
    for image in [image, medium] {
        let (_vfs, db) = open("faults-after", &image, CommitLogForm::Auto);
        let found = ids(&db).map_err(|error| format!("{error}: {:?}", litefoot::last_error()))?;
        if !found.is_superset(&acknowledged) {
            return Err(format!("found {found:?}, acknowledged {acknowledged:?}"));
        }
        if let Some(id) = found.intersection(&undone).next() {
            return Err(format!("{id} has failed and is there afterwards"));
        }
        let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        if integrity != "ok" {
            return Err(integrity);
        }
    }
    Ok(())
}

/// Every fault at every point: what was acknowledged is there, and what has failed is not, once the database goes on.
#[test]
fn a_fault_costs_no_commit_that_was_acknowledged_and_leaves_none_that_failed() {
    let mut wrong = Vec::new();
    let mut check = |(synchronous, form): (&str, CommitLogForm), faults: &Faults, what: String| {
        if let Err(reason) = run(synchronous, form, faults) {
            wrong.push(format!("{synchronous}, {form:?}, {what}: {reason}"));
        }
    };
    for synchronous in
        ["FULL", "NORMAL"].into_iter().flat_map(|synchronous| FORMS.map(|form| (synchronous, form)))
    {
        for operation in [Operation::Write, Operation::Sync, Operation::SetLength] {
            for kind in [FileKind::CommitLog, FileKind::RedoLog, FileKind::Database] {
                if kind == FileKind::CommitLog && synchronous.1 == CommitLogForm::Pages {
                    continue;
                }
                let most = if synchronous.1 == CommitLogForm::Pages { 15 } else { 30 };
                for (n, again) in (0..most).flat_map(|n| [(n, false), (n, true)]) {
                    let mut faults = Faults::failing(operation, kind, n);
                    faults.fail_again = again;
                    check(synchronous, &faults, format!("{operation:?} {n} of {kind:?}, again: {again}"));
                }
            }
        }
        for bytes in (20_000..2_000_000).step_by(40_000) {
            check(synchronous, &Faults::full_at(bytes), format!("full at {bytes}"));
        }
    }
    assert!(wrong.is_empty(), "{} of the runs went wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Two commits at NORMAL are written by one of them. Where that fails, the other has failed as well.
#[test]
fn a_commit_fails_whose_write_another_has_failed() {
    let (gate, pass) = Gate::new();
    let sim = SimMedium::new();
    let hook = Arc::new(move |kind: FileKind, durable: bool| {
        pass(kind, durable);
    });
    let medium = HookedMedium { medium: sim.clone(), hook };
    let logging = Options { commit_log: CommitLogForm::Statements, ..Options::default() };
    let vfs = Vfs::builder("faults-shared").medium(Arc::new(medium)).options(logging).register().unwrap();
    let db = vfs.open("/app.db").unwrap();
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    let insert = |id: i64| {
        let db = vfs.open("/app.db").unwrap();
        // It is warm, and the log is begun.
        let warm = format!("INSERT INTO t VALUES({}, 0); INSERT INTO t VALUES({}, 0)", id + 100, id + 200);
        db.execute_batch(&warm).unwrap();
        db.execute_batch(if id == 0 { "" } else { "PRAGMA synchronous=NORMAL" }).unwrap();
        move || db.execute_batch(&format!("INSERT INTO t VALUES({id}, 1)"))
    };
    let [promised, first, second] = [insert(0), insert(1), insert(2)];
    std::thread::scope(|scope| {
        gate.arm();
        let promised = scope.spawn(promised);
        gate.wait_until_reached();
        let others = [scope.spawn(first), scope.spawn(second)];
        // Long enough for both to queue up; were it not, each would fail for itself.
        std::thread::sleep(Duration::from_millis(200));
        // The write that is under way succeeds.
        sim.set_faults(Faults::failing(Operation::Write, FileKind::CommitLog, 1));
        gate.open();
        promised.join().unwrap().unwrap();
        for other in others {
            other.join().unwrap().unwrap_err();
        }
    });
}

/// A database whose log stays belongs to nobody once its last connection is closed.
#[test]
fn a_log_that_stays_is_free_when_the_last_connection_is_closed() {
    let medium = SimMedium::new();
    let mut options = Options::default();
    options.set("flush_interval_ms", "1000").unwrap();
    let vfs =
        Vfs::builder("faults-free").medium(Arc::new(medium.clone())).options(options).register().unwrap();
    let db = vfs.open("/app.db").unwrap();
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    db.execute_batch("PRAGMA synchronous=NORMAL; INSERT INTO t VALUES(1, 1); INSERT INTO t VALUES(2, 2)")
        .unwrap();
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    drop(db);
    // A commit that is not durable soon will not be at all.
    let (_vfs, cut) = open("faults-free-cut", &medium.cut(&mut Random::new(1)), CommitLogForm::Auto);
    for db in [vfs.open("/app.db").unwrap(), cut] {
        assert_eq!(ids(&db).map_err(|error| (error, litefoot::last_error())), Ok([1, 2].into()));
    }
}
