//! Other processes open a database while an application has it open: connections go on, by SQLite's own protocol, and are
//! litefoot's again afterwards.

#![allow(clippy::unwrap_used)]

mod visited;

use litefoot::Vfs;
use litefoot::rusqlite::Connection;
use litefoot_sim::{Random, SimMedium};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use visited::{Application, integrity, rows};

/// The journal modes of a connection, and what is to be found beside the database once a visitor has seen a commit of it.
const MODES: [(&str, Option<&str>); 6] = [
    // Stock SQLite takes a void one, or an empty one, for none.
    ("delete", Some("void")),
    ("truncate", Some("")),
    ("persist", Some("void")),
    ("memory", None),
    ("off", None),
    ("wal", None),
];

fn insert(db: &Connection) {
    db.prepare_cached("INSERT INTO t VALUES(randomblob(2000))").unwrap().execute([]).unwrap();
}

/// Statements that were prepared before, of two connections, a rollback, and commits of both sides.
#[test]
fn connections_go_on_beside_a_visitor_and_are_the_owners_again() {
    for (mode, left) in MODES {
        let there = Application::new(mode);
        let [db, other] = [there.open(mode), there.open(mode)];
        db.execute_batch("CREATE TABLE t(v)").unwrap();
        let mut expected = 0;
        for round in 0..3 {
            for connection in [&db, &other] {
                insert(connection);
                expected += 1;
                assert_eq!((rows(&db), rows(&other)), (expected, expected), "{mode} {round}");
            }
            assert!(there.is_owned());
            let visitor = there.visit();
            assert_eq!(rows(&visitor), expected, "{mode} {round}");
            assert!(!there.is_owned());
            for connection in [&db, &visitor, &other, &visitor, &db] {
                insert(connection);
                expected += 1;
                for reader in [&db, &other, &visitor] {
                    assert_eq!(rows(reader), expected, "{mode} {round}");
                }
            }
            if mode != "off" {
                db.execute_batch("BEGIN; INSERT INTO t SELECT v FROM t; ROLLBACK").unwrap();
            }
            for reader in [&visitor, &db, &other] {
                assert_eq!((rows(reader), integrity(reader)), (expected, "ok".to_owned()), "{mode} {round}");
            }
            let journal = there.file("/app.db-journal");
            match left {
                None => assert_eq!(journal, None, "{mode}"),
                Some("") => assert_eq!(journal.as_deref(), Some(&b""[..]), "{mode}"),
                Some(_) => assert!(journal.unwrap().starts_with(&[0; 8]), "{mode}"),
            }
            // What a visitor leaves behind, this process does.
            drop(visitor);
            assert_eq!((rows(&other), integrity(&db)), (expected, "ok".to_owned()), "{mode} {round}");
            assert!(there.is_owned(), "{mode} {round}");
            assert_eq!(there.file("/app.db-journal"), None, "{mode} {round}");
        }
        insert(&db);
        drop((db, other));
        let stock = there.visit();
        assert_eq!((rows(&stock), integrity(&stock)), (expected + 1, "ok".to_owned()), "{mode}");
    }
}

/// How many rows were acknowledged, behind so many operations of the medium.
struct Acknowledged(Vec<(usize, i64)>);

impl Acknowledged {
    fn note(&mut self, medium: &SimMedium, rows: i64) {
        self.0.push((medium.operations(), rows));
    }

    /// The rows that must be there when the power is cut behind so many operations, and those that may be.
    fn at(&self, point: usize) -> (i64, i64) {
        let least = self.0.iter().rev().find(|(at, _)| *at <= point).map_or(0, |(_, rows)| *rows);
        let most = self.0.iter().find(|(at, _)| *at > point).map_or(i64::MAX, |(_, rows)| *rows);
        (least, most)
    }
}

/// The power is cut at any moment, beside a visitor and behind it. Nothing that was acknowledged is missing, whoever opens the
/// database next. The visitor's directory is synced only at EXTRA.
#[test]
fn nothing_acknowledged_is_lost_whoever_comes_next() {
    for mode in ["delete", "truncate", "persist", "wal"] {
        let there = Application::new(&format!("cuts-{mode}"));
        let db = there.open(mode);
        db.execute_batch("CREATE TABLE t(v); INSERT INTO t VALUES(0)").unwrap();
        let (begin, mut done) = (there.medium.operations(), Acknowledged(Vec::new()));
        let mut beside = Vec::new();
        let mut count = 1;
        done.note(&there.medium, count);
        for _ in 0..2 {
            for _ in 0..2 {
                insert(&db);
                count += 1;
                done.note(&there.medium, count);
            }
            let visitor = there.visit();
            visitor.execute_batch(&format!("PRAGMA journal_mode={mode}; PRAGMA synchronous=EXTRA")).unwrap();
            let since = there.medium.operations();
            for connection in [&visitor, &db, &db, &visitor] {
                insert(connection);
                count += 1;
                done.note(&there.medium, count);
            }
            beside.push(since..there.medium.operations());
            drop(visitor);
        }
        insert(&db);
        done.note(&there.medium, count + 1);
        let mut random = Random::new(17);
        let points = begin..=there.medium.operations();
        for (point, image) in there.medium.cuts(points, 3, &mut random) {
            let (least, most) = done.at(point);
            let is_beside = beside.iter().any(|range| range.contains(&point));
            let other = Application::on(&format!("cut-{mode}"), image.copy());
            let found = rows(&other.vfs.open("/app.db").unwrap());
            assert!((least..=most).contains(&found), "{mode} at {point}: {found} of {least}..={most}");
            if is_beside {
                let other = Application::on(&format!("cut-{mode}-stock"), image);
                let found = other.visit();
                let found = (rows(&found), integrity(&found));
                assert!(
                    (least..=most).contains(&found.0),
                    "{mode} at {point}: {found:?} of {least}..={most}"
                );
                assert_eq!(found.1, "ok", "{mode} at {point}");
            }
        }
    }
}

/// A commit of the owner's is durable in a log, and builds upon pages in the file that others may not have synced.
#[test]
fn what_others_have_not_synced_is_durable_below_the_owners_next_commit() {
    for mode in ["truncate", "persist"] {
        for by_visitor in [true, false] {
            let there = Application::new(&format!("careless-{mode}-{by_visitor}"));
            let db = there.open(mode);
            db.execute_batch("CREATE TABLE t(v); PRAGMA synchronous=OFF").unwrap();
            let visitor = there.visit();
            visitor.execute_batch(&format!("PRAGMA journal_mode={mode}; PRAGMA synchronous=OFF")).unwrap();
            insert(&visitor);
            insert(if by_visitor { &visitor } else { &db });
            drop(visitor);
            db.execute_batch("PRAGMA synchronous=FULL").unwrap();
            for _ in 0..3 {
                insert(&db);
            }
            assert!(there.is_owned());
            let mut random = Random::new(29);
            for number in 0..60 {
                let other = Application::on(&format!("careless-{mode}"), there.medium.cut(&mut random));
                let found = other.vfs.open("/app.db").unwrap();
                assert_eq!((rows(&found), integrity(&found)), (5, "ok".to_owned()), "{mode}, cut {number}");
            }
        }
    }
}

/// A connection in exclusive locking mode is in a transaction for ever: a visitor finds the database locked.
#[test]
fn a_connection_in_exclusive_locking_mode_keeps_the_database() {
    for mode in ["delete", "persist"] {
        let there = Application::new(&format!("exclusive-{mode}"));
        let db = there.open(mode);
        db.execute_batch("PRAGMA locking_mode=EXCLUSIVE; CREATE TABLE t(v)").unwrap();
        insert(&db);
        let visitor = there.visit();
        visitor.busy_timeout(std::time::Duration::ZERO).unwrap();
        for _ in 0..2 {
            let refused = visitor.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
            assert!(refused.unwrap_err().to_string().contains("locked"), "{mode}");
            insert(&db);
            assert!(there.is_owned(), "{mode}");
        }
        drop(db);
        assert_eq!((rows(&visitor), integrity(&visitor)), (3, "ok".to_owned()), "{mode}");
    }
}

/// Two programs whose calls are only passed on are two processes of stock SQLite to each other.
#[test]
fn processes_that_are_passed_through_share_a_log_and_its_index() {
    let medium = SimMedium::new();
    let stock = |name: &str| {
        Vfs::builder(format!("passed-{name}")).medium(Arc::new(medium.clone())).pass_through(true).register()
    };
    let (one, other) = (stock("one").unwrap(), stock("other").unwrap());
    let [db, visitor] = [&one, &other].map(|vfs| vfs.open("/app.db").unwrap());
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v)").unwrap();
    let is_there = |name: &str| medium.files().iter().any(|(path, ..)| path == Path::new(name));
    for expected in 1..=20 {
        insert(if expected % 2 == 0 { &db } else { &visitor });
        assert_eq!((rows(&db), rows(&visitor)), (expected, expected));
    }
    assert!(is_there("/app.db-shm") && is_there("/app.db-wal"));
    db.execute_batch("BEGIN").unwrap();
    assert_eq!(rows(&db), 20);
    insert(&visitor);
    assert_eq!((rows(&db), rows(&visitor)), (20, 21), "a snapshot stays");
    let refused = db.execute_batch("INSERT INTO t VALUES(1)").unwrap_err();
    assert!(refused.to_string().contains("locked"), "{refused}");
    db.execute_batch("COMMIT; BEGIN IMMEDIATE").unwrap();
    visitor.busy_timeout(std::time::Duration::ZERO).unwrap();
    assert!(visitor.execute_batch("BEGIN IMMEDIATE").is_err(), "one writes");
    db.execute_batch("COMMIT").unwrap();
    drop(db);
    insert(&visitor);
    assert_eq!((rows(&visitor), integrity(&visitor)), (22, "ok".to_owned()));
    drop(visitor);
    assert!(!is_there("/app.db-shm") && !is_there("/app.db-wal"));
}

/// Another program has the database open in WAL mode before the application.
#[test]
fn an_application_joins_a_program_that_came_first() {
    let there = Application::new("joins");
    let visitor = there.visit();
    visitor.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v)").unwrap();
    insert(&visitor);
    let db = there.vfs.open("/app.db").unwrap();
    for expected in 1..=10 {
        assert_eq!((rows(&db), rows(&visitor)), (expected, expected));
        insert(if expected % 2 == 0 { &db } else { &visitor });
    }
    assert!(!there.is_owned());
    drop(db);
    assert_eq!((rows(&visitor), integrity(&visitor)), (11, "ok".to_owned()));
    drop(visitor);
    let db = there.vfs.open("/app.db").unwrap();
    insert(&db);
    assert_eq!((rows(&db), integrity(&db)), (12, "ok".to_owned()));
    assert!(there.is_owned());
}

/// Beside a visitor a commit makes as many operations as one of stock SQLite. A deleted journal is deleted durably, which stock
/// SQLite does at EXTRA only.
#[test]
fn a_commit_beside_a_visitor_costs_what_it_costs_stock_sqlite() {
    for mode in ["delete", "truncate", "persist", "wal"] {
        let there = Application::new(&format!("cost-{mode}"));
        let db = there.open(mode);
        db.execute_batch("CREATE TABLE t(v)").unwrap();
        let visitor = there.visit();
        visitor.pragma_update(None, "journal_mode", mode).unwrap();
        let cost = |connection: &Connection| {
            let before = there.medium.operations();
            for _ in 0..4 {
                connection.execute_batch("INSERT INTO t VALUES(1)").unwrap();
            }
            there.medium.operations() - before
        };
        assert_eq!(rows(&visitor), 0);
        // What the first transactions create is there behind them.
        for connection in [&db, &visitor] {
            cost(connection);
        }
        let (ours, stocks) = (cost(&db), cost(&visitor));
        assert!(ours > 0 && ours <= stocks, "{mode}: {ours} against {stocks}");
    }
}

/// Its busy handler sleeps, and would meet the gaps between the transactions of the other one by chance only.
#[test]
fn a_writer_that_waits_beside_a_visitor_comes_before_those_that_have_just_begun() {
    const MOST: u32 = 100;
    let there = Application::new("order");
    let [db, other] = [there.open("wal"), there.open("wal")];
    db.execute_batch("CREATE TABLE t(v)").unwrap();
    let visitor = there.visit();
    assert!(rows(&visitor) == 0 && !there.is_owned());
    for writer in [&db, &other] {
        writer.busy_timeout(Duration::from_secs(600)).unwrap();
    }
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (has_written, mut passed) = (AtomicBool::new(false), 0);
    let (word, told) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let other = other;
            word.send(()).unwrap();
            insert(&other);
            has_written.store(true, Ordering::SeqCst);
        });
        told.recv().unwrap();
        while !has_written.load(Ordering::SeqCst) && passed < MOST {
            passed += 1;
            insert(&db);
            // The other one asks meanwhile.
            std::thread::sleep(Duration::from_millis(10));
            db.execute_batch("COMMIT; BEGIN IMMEDIATE").unwrap();
        }
        db.execute_batch("ROLLBACK").unwrap();
    });
    assert!(passed < MOST);
    assert_eq!(rows(&visitor), i64::from(passed) + 1);
}
