//! Other processes come to a database while a connection of the application reads it: the reader stays inside, and its snapshot
//! does not move.

#![allow(clippy::unwrap_used)]

mod visited;

use litefoot::rusqlite::{Connection, Rows, Statement};
use litefoot_sim::{Faults, Random, SimMedium};
use std::time::Duration;
use visited::{Application, integrity, rows};

const ROLLBACK: [&str; 3] = ["delete", "truncate", "persist"];
/// Rows of more than a few pages.
const ROWS: i64 = 60;

/// Connections that do not wait for a lock.
impl Application {
    fn at_once(&self, mode: &str) -> Connection {
        let db = self.open(mode);
        db.busy_timeout(Duration::ZERO).unwrap();
        db
    }

    /// A connection that has a table of [`ROWS`] rows, and another one.
    fn two(&self, mode: &str) -> [Connection; 2] {
        let [db, reader] = [self.at_once(mode), self.at_once(mode)];
        db.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, v)").unwrap();
        (0..ROWS).for_each(|_| assert!(insert(&db).is_ok()));
        [db, reader]
    }

    fn visit_at_once(&self) -> Connection {
        let visitor = self.visit();
        visitor.busy_timeout(Duration::ZERO).unwrap();
        visitor
    }
}

fn insert(db: &Connection) -> litefoot::rusqlite::Result<usize> {
    db.prepare_cached("INSERT INTO t(v) VALUES(randomblob(900))")?.execute([])
}

fn is_locked<T>(result: litefoot::rusqlite::Result<T>) -> bool {
    result.err().is_some_and(|error| error.to_string().contains("locked"))
}

/// A statement that has read some of its rows.
fn begin_scan<'a>(statement: &'a mut Statement<'_>) -> Rows<'a> {
    let mut scan = statement.query([]).unwrap();
    for expected in 1..=5 {
        assert_eq!(scan.next().unwrap().unwrap().get::<_, i64>(0).unwrap(), expected);
    }
    scan
}

/// The rest of its rows.
fn end_scan(mut scan: Rows<'_>, last: i64) {
    for expected in 6..=last {
        let row = scan.next().unwrap().unwrap();
        assert_eq!(row.get::<_, i64>(0).unwrap(), expected);
        assert_eq!(row.get_ref(1).unwrap().as_blob().unwrap().len(), 900);
    }
    assert!(scan.next().unwrap().is_none());
}

const SCAN: &str = "SELECT a, v FROM t ORDER BY a";

/// As beside stock SQLite: others read, and nobody writes before the reader has ended.
#[test]
fn outside_of_wal_mode_a_reader_keeps_writers_out_and_lets_readers_in() {
    for mode in ROLLBACK {
        let there = Application::new(mode);
        let [db, reader] = there.two(mode);
        let mut expected = ROWS;
        for round in 0..3 {
            assert!(there.is_owned(), "{mode} {round}");
            let mut statement = reader.prepare(SCAN).unwrap();
            let scan = begin_scan(&mut statement);
            let visitor = there.visit_at_once();
            assert_eq!((rows(&visitor), integrity(&visitor)), (expected, "ok".to_owned()), "{mode} {round}");
            assert!(!there.is_owned(), "{mode} {round}");
            assert!(is_locked(insert(&visitor)), "{mode} {round}");
            end_scan(scan, expected);
            for connection in [&visitor, &db, &reader] {
                insert(connection).unwrap();
                expected += 1;
                for other in [&visitor, &db, &reader] {
                    assert_eq!(rows(other), expected, "{mode} {round}");
                }
            }
            drop((visitor, statement));
            assert_eq!((rows(&db), integrity(&reader)), (expected, "ok".to_owned()), "{mode} {round}");
        }
    }
}

/// A transaction that has only read when a visitor comes writes afterwards.
#[test]
fn a_reader_that_writes_later_does_so_by_sqlites_own_protocol() {
    for mode in ROLLBACK {
        let there = Application::new(&format!("upgrade-{mode}"));
        let [db, reader] = there.two(mode);
        for (round, end) in ["COMMIT", "ROLLBACK", "COMMIT"].into_iter().enumerate() {
            reader.execute_batch("BEGIN").unwrap();
            let before = rows(&reader);
            let visitor = there.visit_at_once();
            assert_eq!(rows(&visitor), before, "{mode} {round}");
            insert(&reader).unwrap();
            assert_eq!((rows(&reader), rows(&visitor), rows(&db)), (before + 1, before, before));
            assert!(is_locked(insert(&visitor)) && there.medium.files().len() > 1, "{mode} {round}");
            reader.execute_batch(end).unwrap();
            let after = before + i64::from(end == "COMMIT");
            assert_eq!([&reader, &visitor, &db].map(rows), [after; 3], "{mode} {round}");
            insert(&visitor).unwrap();
            assert_eq!([&reader, &visitor, &db].map(rows), [after + 1; 3], "{mode} {round}");
            assert_eq!(integrity(&visitor), "ok");
            drop(visitor);
            assert_eq!(rows(&db), after + 1);
            assert!(there.is_owned(), "{mode} {round}");
        }
    }
}

/// A transaction that is going to write, and has its pages in memory, goes on by SQLite's own protocol: others read beside it.
#[test]
fn outside_of_wal_mode_a_writer_that_has_written_nothing_to_the_file_lets_readers_in() {
    for mode in ROLLBACK {
        for synchronous in ["FULL", "OFF"] {
            let there = Application::new(&format!("writer-{mode}-{synchronous}"));
            let [db, reader] = there.two(mode);
            db.execute_batch(&format!("PRAGMA synchronous={synchronous}")).unwrap();
            let mut expected = ROWS;
            for (round, (begun, end)) in
                [(true, "COMMIT"), (false, "COMMIT"), (true, "ROLLBACK"), (true, "COMMIT")]
                    .into_iter()
                    .enumerate()
            {
                let case = format!("{mode} {synchronous} {round}");
                assert!(there.is_owned(), "{case}");
                db.execute_batch("BEGIN IMMEDIATE").unwrap();
                if begun {
                    insert(&db).unwrap();
                    db.execute_batch("UPDATE t SET v = zeroblob(900) WHERE a % 3 = 0").unwrap();
                }
                let visitor = there.visit_at_once();
                assert_eq!((rows(&visitor), rows(&reader)), (expected, expected), "{case}");
                assert!(is_locked(insert(&visitor)) && is_locked(insert(&reader)) && !there.is_owned());
                insert(&db).unwrap();
                let more = 1 + i64::from(begun);
                assert_eq!(
                    [&db, &visitor, &reader].map(rows),
                    [expected + more, expected, expected],
                    "{case}"
                );
                db.execute_batch(end).unwrap();
                expected += if end == "COMMIT" { more } else { 0 };
                assert_eq!([&db, &visitor, &reader].map(rows), [expected; 3], "{case}");
                assert_eq!(
                    (integrity(&visitor), integrity(&db)),
                    ("ok".to_owned(), "ok".to_owned()),
                    "{case}"
                );
                insert(&visitor).unwrap();
                insert(&reader).unwrap();
                expected += 2;
                drop(visitor);
                assert_eq!((rows(&db), integrity(&reader)), (expected, "ok".to_owned()), "{case}");
            }
        }
    }
}

/// A transaction that has written to the file is not carried over, nor is one of WAL mode: others find the database locked.
#[test]
fn a_writer_of_the_file_or_of_the_log_keeps_others_out() {
    for mode in ["delete", "wal"] {
        let there = Application::new(&format!("keeps-{mode}"));
        let [db, reader] = there.two(mode);
        db.execute_batch("PRAGMA cache_size=5; BEGIN IMMEDIATE").unwrap();
        (0..ROWS).for_each(|_| assert!(insert(&db).is_ok()));
        let visitor = there.visit_at_once();
        assert!(is_locked(visitor.query_row("SELECT count(*) FROM t", [], |_| Ok(()))), "{mode}");
        assert!(there.is_owned());
        db.execute_batch("COMMIT").unwrap();
        assert_eq!(rows(&reader), 2 * ROWS, "{mode}");
        // The simulator has no thread that changes the state later.
        drop((db, reader));
        assert_eq!((rows(&visitor), integrity(&visitor)), (2 * ROWS, "ok".to_owned()), "{mode}");
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

/// The power is cut at any moment of a change beside a transaction that is going to write, and behind it.
#[test]
fn nothing_acknowledged_is_lost_where_a_writer_was_inside() {
    for mode in ROLLBACK {
        let there = Application::new(&format!("cuts-writer-{mode}"));
        let [db, reader] = there.two(mode);
        let (begin, mut done, mut count) = (there.medium.operations(), Acknowledged(Vec::new()), ROWS);
        done.note(&there.medium, count);
        for (end, waits) in [("COMMIT", false), ("ROLLBACK", false), ("COMMIT", true), ("ROLLBACK", true)] {
            reader.execute_batch("BEGIN IMMEDIATE; UPDATE t SET v = randomblob(900)").unwrap();
            insert(&reader).unwrap();
            if waits {
                // At PENDING: a reader of this process is in the way of the commit.
                db.execute_batch("BEGIN").unwrap();
                assert_eq!(rows(&db), count, "{mode}");
                reader.execute_batch("COMMIT").unwrap_err();
            }
            let visitor = there.visit_at_once();
            visitor.execute_batch("PRAGMA synchronous=EXTRA").unwrap();
            assert_eq!(rows(&visitor), count, "{mode}");
            if waits {
                reader.execute_batch("COMMIT").unwrap_err();
                db.execute_batch("COMMIT").unwrap();
            }
            reader.execute_batch(end).unwrap();
            count += i64::from(end == "COMMIT");
            done.note(&there.medium, count);
            for connection in [&visitor, &db] {
                insert(connection).unwrap();
                count += 1;
                done.note(&there.medium, count);
            }
        }
        let mut random = Random::new(37);
        for (point, image) in there.medium.cuts(begin..=there.medium.operations(), 2, &mut random) {
            let (least, most) = done.at(point);
            let other = Application::on(&format!("cut-writer-{mode}"), image);
            let found = other.vfs.open("/app.db").unwrap();
            let found = (rows(&found), integrity(&found));
            assert!((least..=most).contains(&found.0), "{mode} at {point}: {found:?} of {least}..={most}");
            assert_eq!(found.1, "ok", "{mode} at {point}");
        }
    }
}

/// The power is cut at any moment of a change beside a reader and behind it.
#[test]
fn nothing_acknowledged_is_lost_where_a_reader_was_inside() {
    for mode in ROLLBACK {
        let there = Application::new(&format!("cuts-{mode}"));
        let [db, reader] = there.two(mode);
        let (begin, mut done, mut count) = (there.medium.operations(), Acknowledged(Vec::new()), ROWS);
        done.note(&there.medium, count);
        for _ in 0..2 {
            insert(&db).unwrap();
            count += 1;
            done.note(&there.medium, count);
            reader.execute_batch("BEGIN").unwrap();
            assert_eq!(rows(&reader), count);
            let visitor = there.visit_at_once();
            visitor.execute_batch(&format!("PRAGMA journal_mode={mode}; PRAGMA synchronous=EXTRA")).unwrap();
            assert_eq!((rows(&visitor), rows(&reader)), (count, count), "{mode}");
            reader.execute_batch("COMMIT").unwrap();
            for connection in [&visitor, &db, &reader] {
                insert(connection).unwrap();
                count += 1;
                done.note(&there.medium, count);
            }
        }
        let mut random = Random::new(23);
        for (point, image) in there.medium.cuts(begin..=there.medium.operations(), 2, &mut random) {
            let (least, most) = done.at(point);
            let other = Application::on(&format!("cut-{mode}"), image);
            let found = other.vfs.open("/app.db").unwrap();
            let found = (rows(&found), integrity(&found));
            assert!((least..=most).contains(&found.0), "{mode} at {point}: {found:?} of {least}..={most}");
            assert_eq!(found.1, "ok", "{mode} at {point}");
        }
    }
}

/// A log with more frames than a snapshot sees: others read all of it, write behind it, and checkpoint no further than the
/// snapshot lets them.
#[test]
fn a_snapshot_stays_while_others_read_write_and_checkpoint() {
    for checkpoint in ["PASSIVE", "FULL", "TRUNCATE"] {
        let there = Application::new(&format!("snapshot-{checkpoint}"));
        let [db, reader] = there.two("wal");
        let mut expected = ROWS;
        for round in 0..3 {
            assert!(there.is_owned(), "{checkpoint} {round}");
            let mut statement = reader.prepare(SCAN).unwrap();
            let scan = begin_scan(&mut statement);
            let seen = expected;
            for _ in 0..4 {
                insert(&db).unwrap();
                expected += 1;
            }
            db.execute_batch("UPDATE t SET v = zeroblob(900) WHERE a % 2").unwrap();
            let visitor = there.visit_at_once();
            assert_eq!((rows(&visitor), integrity(&visitor)), (expected, "ok".to_owned()), "{checkpoint}");
            assert!(!there.is_owned(), "{checkpoint} {round}");
            for connection in [&visitor, &db, &visitor] {
                insert(connection).unwrap();
                expected += 1;
                connection.execute_batch("DELETE FROM t WHERE a = 30; INSERT INTO t VALUES(30, 0)").unwrap();
                let _ = visitor.query_row(&format!("PRAGMA wal_checkpoint({checkpoint})"), [], |_| Ok(()));
                assert_eq!((rows(&visitor), rows(&db)), (expected, expected), "{checkpoint} {round}");
            }
            end_scan(scan, seen);
            drop(statement);
            visitor.query_row(&format!("PRAGMA wal_checkpoint({checkpoint})"), [], |_| Ok(())).unwrap();
            db.execute_batch("UPDATE t SET v = zeroblob(900) WHERE a = 30").unwrap();
            assert_eq!([&reader, &visitor, &db].map(rows), [expected; 3], "{checkpoint} {round}");
            drop(visitor);
            assert_eq!((rows(&reader), integrity(&db)), (expected, "ok".to_owned()), "{checkpoint} {round}");
        }
    }
}

/// Versions of pages that nobody could ask for have left memory, and their frames are in the middle of the log.
#[test]
fn a_log_whose_older_versions_were_freed_is_whole_for_others() {
    let there = Application::new("freed");
    let [db, reader] = there.two("wal");
    for _ in 0..40 {
        db.execute_batch("UPDATE t SET v = randomblob(900) WHERE a < 4").unwrap();
    }
    reader.execute_batch("BEGIN").unwrap();
    let sum = |db: &Connection| -> String {
        db.query_row("SELECT group_concat(hex(v)) FROM t", [], |row| row.get(0)).unwrap()
    };
    let seen = sum(&reader);
    for _ in 0..40 {
        db.execute_batch("UPDATE t SET v = randomblob(900) WHERE a < 4").unwrap();
    }
    let newest = sum(&db);
    let visitor = there.visit_at_once();
    assert_eq!([&visitor, &db, &reader].map(sum), [&newest, &newest, &seen].map(String::clone));
    assert!(!there.is_owned());
    insert(&visitor).unwrap();
    // Whoever comes after a crash reads the log from its beginning.
    let image = there.medium.copy();
    for passes_through in [true, false] {
        let other = Application::on(&format!("freed-{passes_through}"), image.copy());
        let found = if passes_through { other.visit_at_once() } else { other.vfs.open("/app.db").unwrap() };
        assert_eq!((rows(&found), integrity(&found)), (ROWS + 1, "ok".to_owned()));
    }
    assert_eq!(sum(&reader), seen);
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(rows(&reader), ROWS + 1);
}

/// A reader of the newest snapshot begins to write beside the visitor, and one of an older snapshot is refused, as ever.
#[test]
fn a_snapshot_is_written_upon_as_if_nobody_had_come() {
    for is_newest in [true, false] {
        let there = Application::new(&format!("written-{is_newest}"));
        let [db, reader] = there.two("wal");
        reader.execute_batch("BEGIN").unwrap();
        assert_eq!(rows(&reader), ROWS);
        if !is_newest {
            insert(&db).unwrap();
        }
        let visitor = there.visit_at_once();
        assert_eq!(rows(&visitor), ROWS + i64::from(!is_newest));
        assert_eq!(insert(&reader).is_ok(), is_newest);
        assert_eq!(is_locked(insert(&visitor)), is_newest);
        reader.execute_batch("COMMIT").unwrap();
        insert(&visitor).unwrap();
        let expected = ROWS + 2 + i64::from(!is_newest);
        assert_eq!([&reader, &visitor, &db].map(rows), [expected; 3]);
        assert_eq!(integrity(&visitor), "ok");
    }
}

/// A reader that uses no frame of the log, since all of them are in the database file.
#[test]
fn a_reader_of_an_empty_log_stays() {
    let there = Application::new("empty");
    let [db, reader] = there.two("wal");
    let mut expected = ROWS;
    for round in 0..3 {
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        reader.execute_batch("BEGIN").unwrap();
        assert_eq!(rows(&reader), expected);
        let visitor = there.visit_at_once();
        assert_eq!((rows(&visitor), there.is_owned()), (expected, false), "{round}");
        for connection in [&visitor, &db] {
            insert(connection).unwrap();
            let _ = visitor.query_row("PRAGMA wal_checkpoint(FULL)", [], |_| Ok(()));
        }
        assert_eq!(
            (rows(&reader), rows(&visitor), integrity(&reader)),
            (expected, expected + 2, "ok".into())
        );
        reader.execute_batch("COMMIT").unwrap();
        expected += 2;
        assert_eq!([&reader, &visitor, &db].map(rows), [expected; 3], "{round}");
    }
}

/// There is no room for a copy of the log: the visitor is refused, the reader goes on, and so do commits.
#[test]
fn a_log_that_cannot_be_copied_stays_the_owners() {
    let there = Application::new("full");
    let [db, reader] = there.two("wal");
    let mut statement = reader.prepare(SCAN).unwrap();
    let scan = begin_scan(&mut statement);
    insert(&db).unwrap();
    there.medium.set_faults(Faults::full_at(there.medium.used_bytes()));
    let visitor = there.visit_at_once();
    assert!(is_locked(visitor.query_row("SELECT count(*) FROM t", [], |_| Ok(()))) && there.is_owned());
    there.medium.set_faults(Faults::default());
    insert(&db).unwrap();
    let files = there.medium.files().into_iter().map(|(path, ..)| path.display().to_string());
    assert!(files.clone().all(|name| !name.ends_with("-shm") && !name.ends_with(".new")), "{files:?}");
    end_scan(scan, ROWS);
    drop((statement, visitor));
    assert_eq!([&db, &reader].map(rows), [ROWS + 2; 2]);
    // The simulator has no thread that changes the state later.
    drop((db, reader));
    let visitor = there.visit_at_once();
    assert_eq!((rows(&visitor), integrity(&visitor)), (ROWS + 2, "ok".to_owned()));
}

/// The power is cut at any moment of a change beside a snapshot and behind it, whoever opens the database next.
#[test]
fn nothing_acknowledged_is_lost_where_a_snapshot_was_inside() {
    for synchronous in ["FULL", "EXTRA"] {
        let there = Application::new(&format!("cuts-wal-{synchronous}"));
        let [db, reader] = there.two("wal");
        db.execute_batch(&format!("PRAGMA synchronous={synchronous}")).unwrap();
        let (begin, mut done, mut count) = (there.medium.operations(), Acknowledged(Vec::new()), ROWS);
        done.note(&there.medium, count);
        let mut beside = Vec::new();
        for _ in 0..2 {
            insert(&db).unwrap();
            count += 1;
            done.note(&there.medium, count);
            reader.execute_batch("BEGIN").unwrap();
            let seen = count;
            assert_eq!(rows(&reader), seen);
            for _ in 0..3 {
                insert(&db).unwrap();
                count += 1;
                done.note(&there.medium, count);
            }
            let visitor = there.visit_at_once();
            visitor.execute_batch("PRAGMA synchronous=EXTRA").unwrap();
            assert_eq!((rows(&visitor), rows(&reader)), (count, seen));
            let since = there.medium.operations();
            for connection in [&visitor, &db] {
                insert(connection).unwrap();
                count += 1;
                done.note(&there.medium, count);
                let _ = visitor.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            }
            beside.push(since..there.medium.operations());
            assert_eq!(rows(&reader), seen);
            reader.execute_batch("COMMIT").unwrap();
            drop(visitor);
        }
        insert(&db).unwrap();
        done.note(&there.medium, count + 1);
        let mut random = Random::new(31);
        for (point, image) in there.medium.cuts(begin..=there.medium.operations(), 2, &mut random) {
            let (least, most) = done.at(point);
            let is_beside = beside.iter().any(|range| range.contains(&point));
            let other = Application::on("cut-wal", image);
            let found = if is_beside { other.visit_at_once() } else { other.vfs.open("/app.db").unwrap() };
            let found = (rows(&found), integrity(&found));
            assert!(
                (least..=most).contains(&found.0),
                "{synchronous} at {point}: {found:?} of {least}..={most}"
            );
            assert_eq!(found.1, "ok", "{synchronous} at {point}");
        }
    }
}
