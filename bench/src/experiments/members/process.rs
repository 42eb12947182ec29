//! A process of a group, or one beside others on stock SQLite: it commits until its time is over, or it is killed.
//!
//! Three in four transactions insert one row, the fourth is `BEGIN IMMEDIATE` with an insert and an update. After each commit
//! its number goes into a file beside the database, to which a killed process loses nothing.

use super::{ALL_MODES, NORMAL};
use crate::harness::{Latencies, open_stock};
use litefoot::{Options, Vfs};
use rusqlite::Connection;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The name of the database in its directory.
pub(super) const DATABASE: &str = "app.db";
/// What a process says once it can begin, and what it is told then.
pub(super) const READY: &str = "ready";
pub(super) const BEGIN: &str = "begin";
/// As drivers have it.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) const SCHEMA: &str =
    "CREATE TABLE r(writer INTEGER, n INTEGER, text TEXT, PRIMARY KEY(writer, n));
     CREATE TABLE w(writer INTEGER PRIMARY KEY, n INTEGER);
     CREATE TABLE v(id INTEGER PRIMARY KEY, balance INTEGER, rest BLOB);";

/// Balances, whose sum stays 0: more pages than SQLite and a member keep.
pub(super) const BALANCES: &str =
    "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 3000)
     INSERT INTO v SELECT i, 0, zeroblob(1000) FROM c";
/// As many.
const BALANCE_ROWS: u64 = 3000;
/// Of so many transactions one reads all balances, where processes are killed, and of so many one changes all of them.
const READ_EACH: i64 = 16;
const CHANGE_EACH: i64 = 80;

/// The longest time for which such a reader holds its snapshot.
const MOST_HELD_MS: u64 = 150;

/// Where processes are killed, every other one opens a connection for so many transactions.
const CONNECT_EACH: i64 = 3;

/// How many transactions are there in part.
pub(super) const TORN: &str = "SELECT count(*) + (SELECT coalesce(sum(balance), 0) <> 0 FROM v) FROM w
     WHERE NOT EXISTS(SELECT 1 FROM r WHERE r.writer = w.writer AND r.n = w.n)";

/// What carries a process's SQLite.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Litefoot, with this value of `sharing`.
    Litefoot(&'static str),
    Stock,
}

pub(super) const GROUP: Side = Side::Litefoot("group");
const AUTO: Side = Side::Litefoot("auto");
pub(super) const SIDES: [Side; 3] = [GROUP, AUTO, Side::Stock];

impl Side {
    /// As figures name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Side::Litefoot(sharing) => sharing,
            Side::Stock => "stock",
        }
    }

    pub(super) fn of(name: &str) -> Result<Side, String> {
        SIDES.into_iter().find(|side| side.name() == name).ok_or_else(|| format!("{name}: no such side"))
    }
}

/// What a process does.
pub(super) struct Plan {
    pub directory: PathBuf,
    pub writer: i64,
    pub side: Side,
    /// One of [`ALL_MODES`].
    pub mode: &'static str,
    /// How long it commits, from the line that tells it to begin; nothing for ever and at once.
    pub time: Option<Duration>,
}

impl Plan {
    /// The arguments of the process.
    pub(super) fn arguments(&self) -> [String; 5] {
        [
            self.directory.to_string_lossy().into_owned(),
            self.writer.to_string(),
            self.side.name().to_owned(),
            self.mode.to_owned(),
            self.time.map_or(0, |time| time.as_millis()).to_string(),
        ]
    }

    pub(super) fn of(arguments: &[String]) -> Result<Plan, String> {
        let [directory, writer, side, mode, time] = arguments else {
            return Err("five arguments".to_owned());
        };
        let known = ALL_MODES.into_iter().find(|known| known == mode);
        let ms: u64 = time.parse().map_err(|error| format!("{time}: {error}"))?;
        Ok(Plan {
            directory: directory.into(),
            writer: writer.parse().map_err(|error| format!("{writer}: {error}"))?,
            side: Side::of(side)?,
            mode: known.ok_or_else(|| format!("{mode}: no such mode"))?,
            time: (ms > 0).then(|| Duration::from_millis(ms)),
        })
    }
}

/// The file with a writer's acknowledged commits, and the one with its result.
pub(super) fn acknowledged(directory: &Path, writer: i64) -> PathBuf {
    directory.join(format!("acknowledged-{writer}"))
}

pub(super) fn result(directory: &Path, writer: i64) -> PathBuf {
    directory.join(format!("result-{writer}"))
}

/// The file with what has failed for a writer, but for locks; a line each.
pub(super) fn failures(directory: &Path, writer: i64) -> PathBuf {
    directory.join(format!("failures-{writer}"))
}

/// The file with a writer's longest transactions, each longer than those before.
fn longest(directory: &Path, writer: i64) -> PathBuf {
    directory.join(format!("longest-{writer}"))
}

/// A writer's longest transaction.
pub(super) fn longest_ms(directory: &Path, writer: i64) -> f64 {
    let text = std::fs::read_to_string(longest(directory, writer)).unwrap_or_default();
    text.lines().filter_map(|line| line.parse::<f64>().ok()).fold(0.0, f64::max)
}

/// Opens a database as all processes do; what comes first must live as long.
pub(super) fn open(path: &Path, side: Side) -> Result<(Option<Vfs>, Connection), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let (vfs, db) = if let Side::Litefoot(sharing) = side {
        let mut options = Options::default();
        options.set("sharing", sharing).map_err(|error| text(&error))?;
        let vfs = Vfs::builder("members").options(options).register().map_err(|error| text(&error))?;
        let db = connect(Some(&vfs), path)?;
        (Some(vfs), db)
    } else {
        (None, connect(None, path)?)
    };
    Ok((vfs, db))
}

/// Opens one more connection, on litefoot or on stock SQLite.
fn connect(vfs: Option<&Vfs>, path: &Path) -> Result<Connection, String> {
    let db = match vfs {
        Some(vfs) => vfs.open(path).map_err(|error| error.to_string())?,
        None => open_stock(path).map_err(|error| error.to_string())?,
    };
    db.busy_timeout(BUSY_TIMEOUT).map_err(|error| error.to_string())?;
    Ok(db)
}

/// A connection as the plan has it.
fn set_up(db: Connection, plan: &Plan) -> Result<Connection, String> {
    if plan.mode == NORMAL {
        beside_kills(|| db.pragma_update(None, "synchronous", "NORMAL"))?;
    }
    Ok(db)
}

/// What begins beside owners that die, and meets locks as well.
fn beside_kills<T>(does: impl Fn() -> rusqlite::Result<T>) -> Result<T, String> {
    loop {
        match does() {
            Err(error) if is_busy(&error) => {}
            done => return done.map_err(|error| error.to_string()),
        }
    }
}

/// Opens a database. Where `member-kills` has stopped the owner for a moment, the open is refused, and comes again.
fn open_beside_stops<T>(open: impl Fn() -> Result<T, String>) -> Result<T, String> {
    let begun = Instant::now();
    loop {
        match open() {
            Err(refused) if refused.contains("is stopped") && begun.elapsed() < BUSY_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return opened,
        }
    }
}

/// What must be there is there: the first that is not.
pub(super) fn missing(db: &Connection, directory: &Path, writer: i64) -> Result<Option<i64>, String> {
    let Ok(text) = std::fs::read_to_string(acknowledged(directory, writer)) else { return Ok(None) };
    let sql = "SELECT EXISTS(SELECT 1 FROM r WHERE writer = ?1 AND n = ?2)";
    let mut statement = db.prepare(sql).map_err(|error| error.to_string())?;
    for n in text.lines().filter_map(|line| line.parse::<i64>().ok()) {
        let is_there: bool =
            statement.query_row([writer, n], |row| row.get(0)).map_err(|error| error.to_string())?;
        if !is_there {
            return Ok(Some(n));
        }
    }
    Ok(None)
}

/// Commits, and writes how often, the longest commit and the 99.9th percentile in microseconds, how many have failed, and the calls of all
/// members.
pub(super) fn run(plan: &Plan) -> Result<(), String> {
    let database = plan.directory.join(DATABASE);
    let (vfs, db) = open_beside_stops(|| open(&database, plan.side))?;
    let mut db = set_up(db, plan)?;
    let (writer, text) = (plan.writer, |error: std::io::Error| error.to_string());
    let path = acknowledged(&plan.directory, writer);
    let mut log: File = OpenOptions::new().create(true).append(true).open(path).map_err(text)?;
    let first = "SELECT coalesce(max(n), 0) FROM r WHERE writer = ?1";
    let mut n: i64 = beside_kills(|| db.query_row(first, [writer], |row| row.get(0)))?;
    if plan.time.is_some() {
        // Whoever is late would commit alone behind the others.
        println!("{READY}");
        std::io::stdin().read_line(&mut String::new()).map_err(text)?;
    }
    let (mut latencies, mut failed) = (Latencies::new().map_err(|error| error.to_string())?, 0);
    let mut longest = Longest { path: longest(&plan.directory, writer), so_far: TO_BE_NOTED };
    let mut random = fastrand::Rng::with_seed(writer as u64);
    let begun = Instant::now();
    while plan.time.is_none_or(|time| begun.elapsed() < time) {
        n += 1;
        let since = Instant::now();
        if plan.time.is_none() && writer % 2 == 1 && n % CONNECT_EACH == 0 {
            drop(db);
            db = set_up(open_beside_stops(|| connect(vfs.as_ref(), &database))?, plan)?;
        }
        let done = if plan.time.is_none() && n % READ_EACH == 1 {
            read_balances(&db, Duration::from_millis(random.u64(..=MOST_HELD_MS)))?
        } else if plan.time.is_none() && n % CHANGE_EACH == 0 {
            // 3 MB of pages, more than SQLite keeps. The sum stays 0, and that of two moments does not.
            db.execute_batch(&format!(
                "BEGIN IMMEDIATE; INSERT INTO r VALUES({writer}, {n}, 'twice'); \
                 INSERT OR REPLACE INTO w VALUES({writer}, {n}); UPDATE v SET balance = -balance; COMMIT"
            ))
        } else if plan.time.is_none() && n % 4 == 0 {
            let mut any = || random.u64(1..=BALANCE_ROWS);
            db.execute_batch(&format!(
                "BEGIN IMMEDIATE; INSERT INTO r VALUES({writer}, {n}, 'twice'); \
                 INSERT OR REPLACE INTO w VALUES({writer}, {n}); \
                 UPDATE v SET balance = balance + {n} WHERE id = {}; \
                 UPDATE v SET balance = balance - {n} WHERE id = {}; COMMIT",
                any(),
                any()
            ))
        } else if n % 4 == 0 {
            db.execute_batch(&format!(
                "BEGIN IMMEDIATE; INSERT INTO r VALUES({writer}, {n}, 'twice'); \
                 INSERT OR REPLACE INTO w VALUES({writer}, {n}); COMMIT"
            ))
        } else {
            db.execute_batch(&format!("INSERT INTO r VALUES({writer}, {n}, 'a row of some bytes, once')"))
        };
        latencies.record(since.elapsed());
        longest.note(since.elapsed()).map_err(text)?;
        match done {
            Ok(()) if plan.time.is_none() && n % READ_EACH == 1 => {}
            Ok(()) => log.write_all(format!("{n}\n").as_bytes()).map_err(text)?,
            Err(error) => {
                failed += 1;
                if plan.time.is_none() && has_failed(&error) {
                    let path = failures(&plan.directory, writer);
                    let mut file = OpenOptions::new().create(true).append(true).open(path).map_err(text)?;
                    writeln!(file, "{n} {error}").map_err(text)?;
                }
                if let Some(code) = error.sqlite_error_code()
                    && matches!(
                        code,
                        rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase
                    )
                {
                    return Err(error.to_string());
                }
                if !db.is_autocommit() {
                    let _ = db.execute_batch("ROLLBACK");
                }
            }
        }
    }
    let calls = if plan.side == GROUP { calls(&db) } else { 0 };
    let line = format!(
        "{} {} {} {failed} {calls}",
        latencies.count() - failed,
        latencies.percentile_us(1.0),
        latencies.percentile_us(0.999)
    );
    std::fs::write(result(&plan.directory, writer), line).map_err(text)
}

/// The sum of all balances, and a number that each change of two of them changes.
const LOOK: &str = "SELECT coalesce(sum(balance), 0), coalesce(sum(balance * id), 0) FROM v";

/// Reads all balances twice in one transaction, so long apart; the outer error is a sum that no transaction has left, or another snapshot.
fn read_balances(db: &Connection, held: Duration) -> Result<rusqlite::Result<()>, String> {
    let look = || db.query_row(LOOK, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)));
    let read = || {
        db.execute_batch("PRAGMA cache_size=20; BEGIN")?;
        let first = look()?;
        std::thread::sleep(held);
        let second = look()?;
        db.execute_batch("COMMIT")?;
        Ok((first, second))
    };
    match read() {
        Ok((first, second)) if first != second => {
            Err(format!("{first:?}, and then {second:?}: not one snapshot"))
        }
        Ok(((0, _), _)) => Ok(Ok(())),
        Ok(((sum, _), _)) => Err(format!("the balances are {sum}: pages of several moments")),
        Err(error) => Ok(Err(error)),
    }
}

/// Shorter transactions are nobody's longest.
const TO_BE_NOTED: Duration = Duration::from_millis(20);

/// Notes each transaction that was longer than all before it, so that a killed process has said its longest.
struct Longest {
    path: PathBuf,
    so_far: Duration,
}

impl Longest {
    fn note(&mut self, time: Duration) -> std::io::Result<()> {
        if time <= self.so_far {
            return Ok(());
        }
        self.so_far = time;
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        writeln!(file, "{}", time.as_secs_f64() * 1000.0)
    }
}

/// The calls of members that their owner has answered.
fn calls(db: &Connection) -> u64 {
    let text = db.query_row("PRAGMA litefoot_stats", [], |row| row.get::<_, String>(0)).unwrap_or_default();
    let value = |line: &str| line.strip_prefix("member_calls|")?.parse().ok();
    text.lines().find_map(value).unwrap_or(0)
}

/// True where a transaction has failed with its owner.
fn has_failed(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::SystemIoFailure)
}

/// Transactions refused, or failed with their owner.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::SystemIoFailure)
    )
}
