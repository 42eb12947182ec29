//! The process that is killed.
//!
//! Writer w makes transactions 1, 2, 3 …: each puts [`rows`] rows into r, and removes those of the transaction [`KEPT`]
//! before it. It also writes its number and the rows there now to w. After each commit the number goes into a file
//! beside the database, to which a killed process loses nothing.

use litefoot::{Options, Vfs};
use rusqlite::{Connection, ErrorCode};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Most threads that write.
pub const WRITERS: u32 = 3;
/// Transactions of a writer whose rows stay.
const KEPT: i64 = 12;
/// Most transactions of a process that nobody kills.
const TRANSACTIONS: u64 = 3000;
const PATIENCE: Duration = Duration::from_secs(30);

/// Names of the files in the directory.
pub const DATABASE: &str = "app.db";
pub const ACKNOWLEDGED: &str = "acknowledged";
pub const SAID: &str = "said";
/// The message of a process that has found everything acknowledged.
pub const SOUND: &str = "sound";

/// How many rows a transaction adds.
fn rows(number: i64) -> i64 {
    match number {
        number if number % 61 == 60 => 900,
        number if number % 17 == 16 => 120,
        number => 1 + number % 3,
    }
}

/// The plan of a process, from its seed.
pub struct Plan {
    journal: &'static str,
    synchronous: &'static str,
    /// The form of commits in WAL mode.
    pub form: &'static str,
    writers: u32,
    options: Options,
    seed: u64,
}

impl Plan {
    /// The plan of a process. Processes of one directory mostly have the same kind of journal.
    pub fn new(seed: u64, directory_seed: u64) -> Result<Plan, String> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut family = fastrand::Rng::with_seed(directory_seed);
        let is_wal = family.bool() ^ (random.u8(..10) == 0);
        let form = ["statements", "deltas", "auto"][family.usize(..3)];
        let rollback = ["DELETE", "TRUNCATE", "PERSIST"][random.usize(..3)];
        let mut options = Options::default();
        let mut set = |name: &str, value: &str| options.set(name, value);
        set("commit_log", form)?;
        set("buffer_pool_size", ["auto", "auto", "0", "256K"][random.usize(..4)])?;
        set("write_buffer_size", ["auto", "auto", "0", "64K"][random.usize(..4)])?;
        set("max_wal_size", ["4M", "64K"][random.usize(..2)])?;
        set("commit_log_size", ["4M", "64K", "16K"][random.usize(..3)])?;
        Ok(Plan {
            journal: if is_wal { "WAL" } else { rollback },
            synchronous: ["FULL", "FULL", "NORMAL", "OFF"][random.usize(..4)],
            form,
            writers: random.u32(1..=WRITERS),
            options,
            seed,
        })
    }
}

/// Runs a process to its end, which is not its own to choose.
///
/// # Errors
/// A violation; it is written to the file [`SAID`], too.
pub fn run(directory: &Path, seed: u64, directory_seed: u64) -> Result<(), String> {
    let said = create(&directory.join(SAID))?;
    let said = Mutex::new(said);
    let say = |line: &str| {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.write_all(format!("{line}\n").as_bytes()).map_err(|error| error.to_string())
    };
    let plan = Plan::new(seed, directory_seed)?;
    let end = work(directory, &plan, &say);
    if let Err(wrong) = &end {
        say(&format!("wrong: {wrong}"))?;
    }
    end
}

fn create(path: &Path) -> Result<File, String> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn work(directory: &Path, plan: &Plan, say: &dyn Fn(&str) -> Result<(), String>) -> Result<(), String> {
    let vfs =
        Vfs::builder("killed").options(plan.options.clone()).register().map_err(|error| error.to_string())?;
    let path = directory.join(DATABASE);
    let open = || -> Result<Connection, String> {
        let db = vfs.open(&path).map_err(|error| format!("open: {error}"))?;
        db.busy_timeout(PATIENCE).map_err(|error| error.to_string())?;
        Ok(db)
    };
    let db = open()?;
    let sql = format!(
        "PRAGMA journal_mode={}; BEGIN IMMEDIATE;
         CREATE TABLE IF NOT EXISTS r(id INTEGER PRIMARY KEY, writer, number, part, pad);
         CREATE INDEX IF NOT EXISTS r_by ON r(writer, number);
         CREATE TABLE IF NOT EXISTS w(writer INTEGER PRIMARY KEY, number, there);
         INSERT OR IGNORE INTO w SELECT value, 0, 0 FROM json_each('[0,1,2]'); COMMIT",
        plan.journal
    );
    db.execute_batch(&sql).map_err(|error| format!("prepare: {error}"))?;
    let acknowledged = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join(ACKNOWLEDGED))
        .map_err(|error| error.to_string())?;
    verify(&db, directory, true)?;
    say(SOUND)?;
    let (failed, open, acknowledged) = (Mutex::new(None), &open, &acknowledged);
    std::thread::scope(|scope| {
        for writer in 0..plan.writers {
            let failed = &failed;
            let end = move || {
                if let Err(wrong) = write(writer, plan, open, acknowledged) {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(wrong);
                }
            };
            scope.spawn(end);
        }
        let failed = &failed;
        scope.spawn(move || {
            if let Err(wrong) = read(open, failed) {
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(wrong);
            }
        });
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.map_or(Ok(()), Err)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::SchemaChanged))
}

/// One thread that writes.
fn write(
    writer: u32,
    plan: &Plan,
    open: &dyn Fn() -> Result<Connection, String>,
    acknowledged: &File,
) -> Result<(), String> {
    let mut random = fastrand::Rng::with_seed(plan.seed.wrapping_mul(31).wrapping_add(writer.into()));
    let set_up = format!("PRAGMA synchronous={}; PRAGMA cache_size=20", plan.synchronous);
    let connect = || {
        let db = open()?;
        db.execute_batch(&set_up).map_err(|error| error.to_string())?;
        Ok::<_, String>(db)
    };
    let mut db = connect()?;
    let last = "SELECT number FROM w WHERE writer=?1";
    let mut number: i64 =
        db.query_row(last, [writer], |row| row.get(0)).map_err(|error| error.to_string())?;
    // One that was committed in the moment of the last kill counts from now on.
    acknowledged
        .write_all_at(&number.to_le_bytes(), u64::from(writer) * 8)
        .map_err(|error| error.to_string())?;
    for _ in 0..TRANSACTIONS {
        match random.u8(..120) {
            0 => db = connect()?,
            1..=3 => {
                let mode = ["PASSIVE", "FULL", "TRUNCATE"][random.usize(..3)];
                let _ = db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
            }
            4 => match db.execute_batch("VACUUM") {
                Err(error) if !is_busy(&error) => return Err(format!("VACUUM: {error}")),
                _ => {}
            },
            _ => {}
        }
        match transaction(&db, writer, number + 1, &mut random) {
            Ok(true) => {
                number += 1;
                let bytes = number.to_le_bytes();
                acknowledged
                    .write_all_at(&bytes, u64::from(writer) * 8)
                    .map_err(|error| error.to_string())?;
            }
            Ok(false) => {}
            Err(error) => {
                if !db.is_autocommit() {
                    db.execute_batch("ROLLBACK").map_err(|error| format!("ROLLBACK: {error}"))?;
                }
                if !is_busy(&error) {
                    return Err(format!("transaction {number} of writer {writer}: {error}"));
                }
            }
        }
    }
    Ok(())
}

/// One transaction; true if it was committed.
fn transaction(
    db: &Connection,
    writer: u32,
    number: i64,
    random: &mut fastrand::Rng,
) -> rusqlite::Result<bool> {
    db.execute_batch(["BEGIN", "BEGIN IMMEDIATE"][random.usize(..2)])?;
    let mut insert =
        db.prepare_cached("INSERT INTO r(writer, number, part, pad) VALUES(?1, ?2, ?3, zeroblob(?4))")?;
    for part in 0..rows(number) {
        insert.execute((writer, number, part, random.u32(..400)))?;
    }
    let old = number - KEPT;
    db.prepare_cached("DELETE FROM r WHERE writer=?1 AND number=?2")?.execute((writer, old))?;
    if random.u8(..12) == 0 {
        db.execute_batch("SAVEPOINT s; DELETE FROM r WHERE part % 2 = 0; ROLLBACK TO s; RELEASE s")?;
    }
    let there: i64 = (old.max(0) + 1..=number).map(rows).sum();
    db.prepare_cached("UPDATE w SET number=?2, there=?3 WHERE writer=?1")?
        .execute((writer, number, there))?;
    let commits = random.u8(..15) > 0;
    db.execute_batch(if commits { "COMMIT" } else { "ROLLBACK" })?;
    Ok(commits)
}

/// One thread that reads: what it sees belongs together.
fn read(open: &dyn Fn() -> Result<Connection, String>, failed: &Mutex<Option<String>>) -> Result<(), String> {
    let db = open()?;
    let sql = "SELECT (SELECT count(*) FROM r), (SELECT sum(there) FROM w)";
    for _ in 0..TRANSACTIONS {
        if failed.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            break;
        }
        match db.query_row(sql, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))) {
            Ok((found, there)) if found != there => return Err(format!("{found} rows are read of {there}")),
            Err(error) if !is_busy(&error) => return Err(format!("a reader: {error}")),
            _ => std::thread::sleep(Duration::from_micros(300)),
        }
    }
    Ok(())
}

/// Compares what is there with what was acknowledged; how much that was. Where it need not be the `newest` state, it must be
/// whole.
///
/// # Errors
/// The first violation.
pub fn verify(db: &Connection, directory: &Path, newest: bool) -> Result<i64, String> {
    let sqlite = |error: rusqlite::Error| format!("not readable: {error}");
    let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(sqlite)?;
    if integrity != "ok" {
        return Err(format!("damaged: {integrity}"));
    }
    let bytes = std::fs::read(directory.join(ACKNOWLEDGED)).unwrap_or_default();
    let acknowledged: Vec<i64> = bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect();
    let has_tables: bool = db
        .query_row("SELECT count(*) FROM sqlite_schema WHERE name='w'", [], |row| row.get(0))
        .map_err(sqlite)?;
    if !has_tables {
        return if bytes.is_empty() || !newest { Ok(0) } else { Err("lost: the tables".to_owned()) };
    }
    for writer in 0..WRITERS {
        let number: i64 = db
            .query_row("SELECT number FROM w WHERE writer=?1", [writer], |row| row.get(0))
            .map_err(sqlite)?;
        let known = acknowledged.get(writer as usize).copied().unwrap_or_default();
        if newest && number != known && number != known + 1 {
            return Err(format!("lost: writer {writer} is at {number}, {known} was acknowledged"));
        }
        let sql = "SELECT number, count(*), count(DISTINCT part) FROM r WHERE writer=?1 GROUP BY number";
        let mut statement = db.prepare(sql).map_err(sqlite)?;
        let found: Vec<(i64, i64, i64)> = statement
            .query_map([writer], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .and_then(Iterator::collect)
            .map_err(sqlite)?;
        let expected: Vec<_> =
            ((number - KEPT).max(0) + 1..=number).map(|old| (old, rows(old), rows(old))).collect();
        if found != expected {
            let other = found.iter().zip(&expected).find(|(found, expected)| found != expected);
            return Err(format!("torn: writer {writer} at {number}: {other:?}, {} of them", found.len()));
        }
    }
    Ok(acknowledged.iter().sum())
}
