//! Replaying a commit log: what capture would not vouch for does not run, whoever has written it.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::config::DbConfig;
use litefoot::rusqlite::hooks::{AuthAction, Authorization};
use litefoot::rusqlite::{Connection, ffi};
use litefoot::{Options, Vfs};
use litefoot_sim::Random;
use litefoot_sim::SimMedium;
use litefoot_storage::commit_log::CommitLog;
use litefoot_storage::commit_log::Record;
use litefoot_storage::file::{FileKind, Medium, OpenMode, SyncLatch};
use litefoot_storage::log_file::Durability;
use litefoot_testkit::sqlite::metric_or_zero;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::sync::Arc;

const LOG: &str = "/app.db-commits";

fn vfs(name: &str, medium: &SimMedium) -> Vfs {
    let options = Options { commit_log: litefoot::CommitLogForm::Statements, ..Options::default() };
    Vfs::builder(name).medium(Arc::new(medium.clone())).options(options).register().unwrap()
}

/// Everything in the tables `t` and `u`.
fn content(db: &Connection) -> Vec<String> {
    let sql = "SELECT 't' || id || '|' || quote(v) || '|' || quote(w) FROM main.t
               UNION ALL SELECT 'u' || rowid || '|' || quote(a) FROM main.u ORDER BY 1";
    let mut statement = db.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// A database with one transaction in its commit log.
fn prepared(name: &str) -> (SimMedium, Vfs, Connection) {
    let medium = SimMedium::new();
    let vfs = vfs(name, &medium);
    let db = vfs.open("/app.db").unwrap();
    db.execute_batch(
        "PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v, w); CREATE TABLE u(a);
         INSERT INTO t VALUES(1, 1, 'x'), (2, 2, 'y'); INSERT INTO u VALUES(1)",
    )
    .unwrap();
    // The log builds upon these rows.
    db.execute_batch("PRAGMA wal_checkpoint; UPDATE t SET v = 5 WHERE id = 1").unwrap();
    assert!(metric_or_zero(&db, "commits_statements") > 0);
    (medium, vfs, db)
}

/// Numbers as they are in a record, as long as they are small.
fn text(id: u8, sql: &str) -> Record {
    Record { kind: 1, payload: [&[id, 0], sql.as_bytes()].concat() }
}

fn transaction(number: u8, ids: &[u8]) -> Record {
    let statements = ids.iter().flat_map(|id| [*id, 0]);
    // Neither counts of rows nor pages.
    let head = [number, 0, 0, 0, 0, 0, 0, ids.len() as u8];
    Record { kind: 2, payload: head.into_iter().chain(statements).collect() }
}

/// The remains of a crash, with a log that somebody else has made of litefoot's.
fn relogged(medium: &SimMedium, change: impl FnOnce(Vec<Record>) -> Vec<Record>) -> SimMedium {
    let image = medium.cut(&mut Random::new(1));
    let latch = Arc::new(SyncLatch::default());
    let shared: Arc<dyn Medium> = Arc::new(image.clone());
    let mut log = CommitLog::open(shared, Path::new(LOG), latch).unwrap();
    let (base, records) = (log.base().unwrap(), log.records().unwrap());
    log.retire();
    log.sync().unwrap();
    log.begin(base);
    log.reserve(1 << 20).unwrap();
    log.append(&change(records), Durability::Durable).unwrap();
    drop(log);
    image
}

/// The same, with a log that has nothing of litefoot's.
fn forged(medium: &SimMedium, texts: &[&str]) -> SimMedium {
    relogged(medium, |_| {
        let ids: Vec<u8> = (1..=texts.len() as u8).collect();
        let mut records: Vec<Record> = ids.iter().zip(texts).map(|(id, sql)| text(*id, sql)).collect();
        records.push(transaction(1, &ids));
        records
    })
}

/// Opening a database refuses its log, changes nothing, and says why.
fn refused(name: &str, image: &SimMedium, why: &str, what: &str) {
    let files = image.files();
    let opened = vfs(name, image);
    let db = opened.open("/app.db").unwrap();
    assert_eq!(content(&db), BASE, "{what}");
    let refused = db.execute("INSERT INTO u VALUES(1)", []).unwrap_err();
    let reason = litefoot::last_error().unwrap();
    assert!(reason.contains(why), "{what}: {refused}: {reason}");
    drop(db);
    assert!(image.files() == files, "{what}: something was written");
}

/// The rows that the log of [`prepared`] builds upon.
const BASE: [&str; 3] = ["t1|1|'x'", "t2|2|'y'", "u1|1"];

#[test]
fn a_log_of_somebody_elses_does_no_more_than_change_rows() {
    let (medium, _vfs, db) = prepared("replay-forged");
    db.execute_batch("BEGIN; UPDATE t SET v = 9; DELETE FROM u; COMMIT").unwrap();
    let good = relogged(&medium, |records| records);
    let opened = vfs("replay-forged-good", &good);
    let changed = content(&opened.open("/app.db").unwrap());
    assert_eq!(changed, ["t1|9|'x'", "t2|9|'y'"], "what could have been captured is replayed");

    let endless = "INSERT INTO u WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i FROM r) SELECT i FROM r";
    for sql in [
        "ATTACH '/other.db' AS x",
        "COMMIT",
        "ROLLBACK",
        "VACUUM INTO '/copy.db'",
        "PRAGMA writable_schema=ON",
        "PRAGMA user_version=7",
        "CREATE TABLE stolen(a)",
        "CREATE TEMP TABLE t(a)",
        "DROP TABLE u",
        "UPDATE sqlite_schema SET sql = 'x'",
        "DELETE FROM sqlite_stat1",
        "INSERT INTO u VALUES(load_extension('x'))",
        "INSERT INTO u VALUES(upper('x'))",
        "INSERT INTO u SELECT count(*) FROM t",
        "INSERT INTO u SELECT name FROM pragma_table_list",
        "INSERT INTO u SELECT value FROM json_each('[1]')",
        "\u{feff}SAVEPOINT s",
        endless,
        "no SQL at all",
    ] {
        refused("replay-forged-bad", &forged(&medium, &["UPDATE t SET v = 9", sql]), sql, sql);
    }
}

/// A record whose checksum fits, and whose transaction does not give the pages that it had given.
#[test]
fn a_replay_that_gives_other_pages_is_refused() {
    let (medium, _vfs, db) = prepared("replay-pages");
    db.execute("UPDATE u SET a = ?1", [7]).unwrap();
    let expected = content(&db);
    // Number, flags, an earlier transaction, one run, its first page, its pages, four bytes of the checksum.
    let pages_at = |payload: &[u8]| payload.windows(2).position(|two| two == [1, 3]).unwrap();
    type Change = fn(&mut Vec<u8>, usize);
    let changes: [(&str, &str, Change); 5] = [
        ("the checksum of its pages", "are not as they were", |payload, at| payload[at + 3] ^= 1),
        ("another page", "it changed page 3, which it had not", |payload, at| payload[at + 1] = 2),
        ("one page more", "are not as they were", |payload, at| payload[at + 2] = 2),
        ("many pages", "more pages than are logged as statements", |payload, at| {
            payload.splice(at + 2..at + 3, [0xff, 0xff, 0xff, 0x7f]);
        }),
        ("another value", "are not as they were", |payload, _| *payload.last_mut().unwrap() = 16),
    ];
    for (what, why, change) in changes {
        let image = relogged(&medium, |mut records| {
            let payload = &mut records.last_mut().unwrap().payload;
            let at = pages_at(payload);
            change(payload, at);
            records
        });
        refused("replay-pages-bad", &image, why, what);
    }
    let recovered = vfs("replay-pages-good", &relogged(&medium, |records| records));
    assert_eq!(content(&recovered.open("/app.db").unwrap()), expected);
}

/// The statement does what it did, and counts as many rows; a byte beside them is another than it was.
#[test]
fn a_page_that_was_another_before_is_noticed() {
    let (medium, _vfs, db) = prepared("replay-before");
    assert_eq!(content(&db)[0], "t1|5|'x'");
    let image = medium.cut(&mut Random::new(1));
    let file = image.open(Path::new("/app.db"), FileKind::Database, OpenMode::ReadWrite).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    // Row 2 has the text of one byte at the end of its record.
    let row = [6, 2, 4, 0, 1, 15, 2, b'y'];
    let at = bytes.windows(row.len()).position(|bytes| bytes == row).unwrap() + row.len() - 1;
    file.write_at(b"z", at as u64).unwrap();
    file.sync().unwrap();
    let opened = vfs("replay-before-cut", &image);
    let db = opened.open("/app.db").unwrap();
    assert_eq!(content(&db)[..2], ["t1|1|'x'", "t2|2|'z'"]);
    assert!(db.execute("INSERT INTO u VALUES(1)", []).is_err());
    assert!(litefoot::last_error().unwrap().contains("are not as they were"));
}

/// A table of one column and without rowids has cells of three bytes, which SQLite fills up with what it has in memory.
#[test]
fn what_is_not_of_the_statement_alone_goes_as_pages() {
    let (medium, _vfs, db) = prepared("replay-short");
    db.execute_batch(
        "CREATE TABLE short(a PRIMARY KEY) WITHOUT ROWID;
         CREATE TABLE two(a, b, PRIMARY KEY(b, a)) WITHOUT ROWID",
    )
    .unwrap();
    let logged = |sql: &str| {
        let before = metric_or_zero(&db, "commits_statements");
        // The first ones after another form are of that form, too.
        (0..3).for_each(|number| assert_eq!(db.execute(sql, [number]), Ok(1)));
        metric_or_zero(&db, "commits_statements") > before
    };
    assert!(logged("INSERT INTO two VALUES(?1, 'x')"));
    assert!(!logged("INSERT INTO short VALUES(?1)"));
    let count = "SELECT count(*) FROM short";
    let recovered = vfs("replay-short-cut", &medium.cut(&mut Random::new(1)));
    let found: i64 = recovered.open("/app.db").unwrap().query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(found, 3);
}

/// A log without the checksums of pages, as it was once, is kept.
#[test]
fn a_log_of_the_format_before_is_refused() {
    let (medium, _vfs, _db) = prepared("replay-format");
    let image = medium.cut(&mut Random::new(1));
    let file = image.open(Path::new(LOG), FileKind::CommitLog, OpenMode::ReadWrite).unwrap();
    let mut header = [0; 64];
    file.read_at(&mut header, 0).unwrap();
    assert_eq!(header[12], 3);
    header[12] = 1;
    let sum = litefoot_storage::page_delta::page_sum(&header[..60]);
    header[60..].copy_from_slice(&sum.to_le_bytes());
    file.write_at(&header, 0).unwrap();
    file.sync().unwrap();
    drop(file);
    refused("replay-format-old", &image, "none that this version of litefoot understands", "state 1");
}

#[test]
fn a_log_that_says_it_is_long_takes_no_memory() {
    let (medium, _vfs, _db) = prepared("replay-long");
    let image = medium.cut(&mut Random::new(1));
    {
        let file = image.open(Path::new(LOG), FileKind::CommitLog, OpenMode::ReadWrite).unwrap();
        // A record behind the others that claims four gigabytes.
        let end = file.len().unwrap();
        file.write_at(&u32::MAX.to_le_bytes(), end).unwrap();
    }
    let recovered = vfs("replay-long-2", &image);
    assert_eq!(content(&recovered.open("/app.db").unwrap())[0], "t1|5|'x'");
}

type Change = fn(&mut Connection);

fn set_length(db: &Connection, bytes: i32) {
    // SAFETY: the connection is alive.
    unsafe { ffi::sqlite3_limit(db.handle(), ffi::SQLITE_LIMIT_LENGTH, bytes) };
}

/// A function that answers the same whatever it is given.
unsafe extern "C" fn answer(
    context: *mut ffi::sqlite3_context,
    _count: std::ffi::c_int,
    _values: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: SQLite calls this from a statement.
    unsafe { ffi::sqlite3_result_int(context, 77) };
}

/// A collation to which all is the same.
unsafe extern "C" fn equal(
    _context: *mut std::ffi::c_void,
    _len: std::ffi::c_int,
    _one: *const std::ffi::c_void,
    _other_len: std::ffi::c_int,
    _other: *const std::ffi::c_void,
) -> std::ffi::c_int {
    0
}

/// An application changes its connection after a text was captured: from then on the text goes as pages.
#[test]
fn what_changes_late_goes_as_pages() {
    let cases: &[(&str, &str, Change)] = &[
        ("temp-table", "INSERT INTO t(v) VALUES(7)", |db| {
            db.execute_batch("CREATE TEMP TABLE t(id INTEGER PRIMARY KEY, v, w)").unwrap();
        }),
        ("temp-view", "UPDATE u SET a = (SELECT v FROM t WHERE id = 1)", |db| {
            db.execute_batch("CREATE TEMP VIEW t AS SELECT 1 AS id, 99 AS v").unwrap();
        }),
        ("temp-trigger", "UPDATE t SET v = 3 WHERE id = 2", |db| {
            let sql = "CREATE TEMP TRIGGER r BEFORE UPDATE ON main.t BEGIN SELECT RAISE(IGNORE); END";
            db.execute_batch(sql).unwrap();
        }),
        ("authorizer", "UPDATE t SET v = w", |db| {
            db.authorizer(Some(|context: litefoot::rusqlite::hooks::AuthContext<'_>| match context.action {
                AuthAction::Read { column_name: "w", .. } => Authorization::Ignore,
                _ => Authorization::Allow,
            }))
            .unwrap();
        }),
        ("authorizer-gone", "UPDATE t SET v = w", |db| {
            db.authorizer(Some(|_: litefoot::rusqlite::hooks::AuthContext<'_>| Authorization::Allow))
                .unwrap();
            db.authorizer(None::<fn(litefoot::rusqlite::hooks::AuthContext<'_>) -> Authorization>).unwrap();
        }),
        ("length", "UPDATE t SET w = w || w || w || w || w || w || w || w || w || w || w", |db| {
            set_length(db, 40);
        }),
        ("triggers", "INSERT INTO u VALUES(4)", |db| {
            db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
        }),
        ("checks", "INSERT INTO u VALUES(4)", |db| {
            db.execute_batch("PRAGMA temp.ignore_check_constraints=ON").unwrap();
        }),
        ("function", "UPDATE t SET w = upper(w)", |db| {
            let (name, flags) = (c"upper".as_ptr(), ffi::SQLITE_UTF8 | ffi::SQLITE_DETERMINISTIC);
            // SAFETY: the connection is alive, and the function needs nothing.
            let code = unsafe {
                let nothing = std::ptr::null_mut();
                ffi::sqlite3_create_function_v2(
                    db.handle(),
                    name,
                    1,
                    flags,
                    nothing,
                    Some(answer),
                    None,
                    None,
                    None,
                )
            };
            assert_eq!(code, ffi::SQLITE_OK);
        }),
        ("collation", "UPDATE t SET v = 8 WHERE w = 'X' COLLATE NOCASE", |db| {
            // SAFETY: the connection is alive, and the collation needs nothing.
            let code = unsafe {
                let nothing = std::ptr::null_mut();
                let name = c"NOCASE".as_ptr();
                ffi::sqlite3_create_collation_v2(
                    db.handle(),
                    name,
                    ffi::SQLITE_UTF8,
                    nothing,
                    Some(equal),
                    None,
                )
            };
            assert_eq!(code, ffi::SQLITE_OK);
        }),
        ("rowid", "INSERT INTO t(v) VALUES(7)", |db| {
            db.execute_batch("INSERT INTO t(id) VALUES(9223372036854775807)").unwrap();
        }),
        ("secure-delete", "DELETE FROM t WHERE id = 2", |db| {
            db.execute_batch("PRAGMA secure_delete=ON").unwrap();
        }),
        ("byte-order", "\u{feff}UPDATE t SET v = 6", |_| {}),
        ("analyze", "UPDATE t SET v = 4 WHERE w >= 'x'", |db| db.execute_batch("ANALYZE").unwrap()),
    ];
    for (name, sql, change) in cases {
        let (medium, _vfs, mut db) = prepared(&format!("late-{name}"));
        for _ in 0..2 {
            db.execute(sql, []).unwrap();
        }
        change(&mut db);
        // Nothing can be asked where nothing may be long.
        let before = (*name != "length").then(|| metric_or_zero(&db, "commits_statements"));
        for _ in 0..2 {
            let _ = db.execute(sql, []);
            db.execute_batch("BEGIN; INSERT INTO main.u VALUES(70)").unwrap();
            let _ = db.execute(sql, []);
            db.execute_batch("COMMIT").unwrap();
        }
        if let Some(before) = before {
            assert_eq!(metric_or_zero(&db, "commits_statements"), before, "{name}");
        }
        let expected = {
            let _ = db.authorizer(None::<fn(litefoot::rusqlite::hooks::AuthContext<'_>) -> Authorization>);
            set_length(&db, 1 << 20);
            content(&db)
        };
        let recovered = vfs(&format!("late-{name}-cut"), &medium.cut(&mut Random::new(1)));
        assert_eq!(content(&recovered.open("/app.db").unwrap()), expected, "{name}");
    }
}

/// A statement that fails in the middle of a transaction may do so for a reason that is gone when it is run again.
#[test]
fn what_changed_nothing_is_not_replayed() {
    let (medium, _vfs, db) = prepared("replay-nothing");
    let before = metric_or_zero(&db, "commits_statements");
    db.execute_batch("BEGIN; INSERT INTO u VALUES(2)").unwrap();
    // Each is a statement of its own: one that starts again might have been prepared anew.
    let mut taken = db.prepare("INSERT INTO t(id, v) VALUES(1, 'taken')").unwrap();
    let mut none = db.prepare("UPDATE t SET v = ?1 WHERE id = 1000").unwrap();
    let mut one = db.prepare("UPDATE t SET v = ?1 WHERE id = 1").unwrap();
    taken.execute([]).unwrap_err();
    assert_eq!((none.execute([1]), one.execute([11])), (Ok(0), Ok(1)));
    db.execute_batch("COMMIT").unwrap();
    assert_eq!(metric_or_zero(&db, "commits_statements"), before + 1);
    let recovered = vfs("replay-nothing-cut", &medium.cut(&mut Random::new(1)));
    assert_eq!(content(&recovered.open("/app.db").unwrap()), content(&db));
}

/// A power cut in the first write of a log leaves texts whose transaction nobody was told of. Stock SQLite may go on there.
#[test]
fn a_log_of_texts_alone_keeps_nobody_from_writing() {
    let (medium, _vfs, _db) = prepared("replay-texts");
    for others_write in [false, true] {
        let image =
            relogged(&medium, |records| records.into_iter().filter(|record| record.kind == 1).collect());
        if others_write {
            let name = "replay-texts-stock";
            let stock =
                Vfs::builder(name).medium(Arc::new(image.clone())).pass_through(true).register().unwrap();
            stock.open("/app.db").unwrap().execute("INSERT INTO u VALUES(2)", []).unwrap();
        }
        let recovered = vfs("replay-texts-cut", &image);
        let db = recovered.open("/app.db").unwrap();
        let rows = if others_write { &["t1|1|'x'", "t2|2|'y'", "u1|1", "u2|2"][..] } else { &BASE };
        assert_eq!(content(&db), rows);
        db.execute("INSERT INTO u VALUES(1)", []).unwrap();
    }
}

/// A statement that was refused is refused again, and the transaction goes on, as it did.
#[test]
fn a_savepoint_that_was_not_there_is_not_there_again() {
    let (medium, _vfs, db) = prepared("replay-savepoint");
    let before = metric_or_zero(&db, "commits_statements");
    db.execute_batch("BEGIN; INSERT INTO u VALUES(2); SAVEPOINT a; INSERT INTO u VALUES(3)").unwrap();
    for missing in ["RELEASE b", "ROLLBACK TO b"] {
        db.execute_batch(missing).unwrap_err();
    }
    db.execute_batch("ROLLBACK TO a; INSERT INTO u VALUES(4); COMMIT").unwrap();
    assert_eq!(metric_or_zero(&db, "commits_statements"), before + 1);
    let recovered = vfs("replay-savepoint-cut", &medium.cut(&mut Random::new(1)));
    assert_eq!(content(&recovered.open("/app.db").unwrap()), content(&db));
}

/// Nothing of ours is left in a connection, or seen by it.
#[test]
fn a_connection_is_as_it_would_be_without_us() {
    for form in [litefoot::CommitLogForm::Statements, litefoot::CommitLogForm::Deltas] {
        let medium = SimMedium::new();
        let options = Options { commit_log: form, ..Options::default() };
        let vfs = Vfs::builder(format!("replay-guest-{form:?}"));
        let vfs = vfs.medium(Arc::new(medium.clone())).options(options).register().unwrap();
        let db = vfs.open("/app.db").unwrap();
        db.execute_batch(
            "PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v, w); CREATE TABLE u(a)",
        )
        .unwrap();
        // The number of changes is the application's.
        db.execute("INSERT INTO t(v) VALUES(1), (2), (3)", []).unwrap();
        for expected in [3, 1] {
            db.execute("INSERT INTO u VALUES(changes())", []).unwrap();
            let found: i64 =
                db.query_row("SELECT a FROM u ORDER BY rowid DESC", [], |row| row.get(0)).unwrap();
            assert_eq!(found, expected, "{form:?}");
        }
        // It can be closed in a transaction, and leaves no lock.
        let other = vfs.open("/app.db").unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        other.execute("INSERT INTO t(v) VALUES(?1)", [4]).unwrap();
        assert!(other.close().is_ok(), "{form:?}");
        db.execute("INSERT INTO t(v) VALUES(?1)", [5]).unwrap();
        // A busy handler is asked as often as it would be, and not once more for us.
        let blocking = vfs.open("/app.db").unwrap();
        blocking.execute_batch("BEGIN EXCLUSIVE").unwrap();
        let mut asked = vfs.open("/app.db").unwrap();
        static CALLS: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(0);
        CALLS.store(0, std::sync::atomic::Ordering::Relaxed);
        asked
            .busy_handler(Some(|count| {
                CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                count < 3
            }))
            .unwrap();
        asked.execute_batch("BEGIN IMMEDIATE").unwrap_err();
        assert_eq!(CALLS.load(std::sync::atomic::Ordering::Relaxed), 4, "{form:?}");
        blocking.execute_batch("ROLLBACK").unwrap();
        // A database that is attached to itself can be written by its other name.
        db.execute_batch("ATTACH '/app.db' AS again; INSERT INTO again.u VALUES(50)").unwrap();
        db.execute_batch("INSERT INTO main.u VALUES(51); INSERT INTO again.u VALUES(52); DETACH again")
            .unwrap();
        assert_eq!(content(&db).iter().filter(|row| row.contains("|5")).count(), 3 + 1, "{form:?}");
        assert!(medium.info(Path::new(LOG)).unwrap().is_some());
    }
}

/// A person who can put a file beside a database has nothing run by those who open it.
#[test]
fn a_log_that_a_stranger_may_have_written_is_not_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let [home, copy] = ["home", "copy"].map(|name| directory.path().join(name));
    for made in [&home, &copy] {
        fs::create_dir(made).unwrap();
    }
    let options = Options { commit_log: litefoot::CommitLogForm::Statements, ..Options::default() };
    let vfs = Vfs::builder("replay-strangers").options(options).register().unwrap();
    let db = vfs.open(home.join("app.db")).unwrap();
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v); INSERT INTO t VALUES(1)").unwrap();
    let count =
        |db: &Connection| db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap();
    db.execute_batch("PRAGMA wal_checkpoint; INSERT INTO t VALUES(2)").unwrap();
    let [path, log] = ["app.db", "app.db-commits"].map(|name| copy.join(name));
    let mode = fs::metadata(home.join("app.db")).unwrap().mode() & 0o755;
    let change = |owner, mode| {
        // Only root can give a file away.
        let _ = chown(&log, Some(owner), None);
        fs::set_permissions(&log, fs::Permissions::from_mode(mode))
    };
    let own = fs::metadata(&home).unwrap().uid();
    for (owner, bits) in [(12345, mode), (own, mode | 0o022)] {
        for name in ["app.db", "app.db-wal", "app.db-commits"] {
            fs::copy(home.join(name), copy.join(name)).unwrap();
        }
        if own != 0 && owner != own {
            continue;
        }
        change(owner, bits).unwrap();
        let refused = vfs.open(&path).unwrap();
        let before = count(&refused);
        assert!(before < 2 && refused.execute_batch("INSERT INTO t VALUES(3)").is_err(), "{owner} {bits:o}");
        drop(refused);
        assert!(log.exists());
        change(own, mode).unwrap();
        let db = vfs.open(&path).unwrap();
        assert_eq!(count(&db), 2, "{owner} {bits:o}");
    }
}

/// Files that were copied are others than those that the redo log names; the statements build upon it all the same.
#[test]
fn a_recovery_of_copied_files_may_be_cut_anywhere() {
    let (medium, _vfs, db) = prepared("replay-copied");
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); INSERT INTO u VALUES(2)").unwrap();
    let before = metric_or_zero(&db, "commits_statements");
    db.execute_batch("INSERT INTO u VALUES(3)").unwrap();
    assert_eq!(metric_or_zero(&db, "commits_statements"), before + 1);
    let expected = content(&db);
    let (left, copy) = (medium.cut(&mut Random::new(1)), SimMedium::new());
    // Files have numbers in the order in which they are made.
    for name in ["/other", LOG, "/app.db-wal", "/app.db"] {
        let to = copy.open(Path::new(name), FileKind::Database, OpenMode::Create).unwrap();
        let Ok(from) = left.open(Path::new(name), FileKind::Database, OpenMode::ReadOnly) else { continue };
        let mut bytes = vec![0; from.len().unwrap() as usize];
        from.read_at(&mut bytes, 0).unwrap();
        to.write_at(&bytes, 0).unwrap();
        to.sync().unwrap();
    }
    copy.sync_directory(Path::new("/")).unwrap();
    let begun = copy.operations();
    let first = vfs("replay-copied-1", &copy);
    assert_eq!(content(&first.open("/app.db").unwrap()), expected);
    let (mut replay, mut random) = (copy.replay(), Random::new(5));
    for cut in begun..replay.len() {
        replay.advance(cut);
        let image = replay.cut(&mut random);
        let vfs = vfs("replay-copied-cut", &image);
        let recovered = vfs.open("/app.db").unwrap();
        assert_eq!(content(&recovered), expected, "cut at {cut} of {}", replay.len());
        assert!(recovered.execute_batch("INSERT INTO u VALUES(4)").is_ok(), "cut at {cut}");
    }
}
