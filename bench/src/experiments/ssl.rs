//! `ssl`: transactions as mobile applications make them, and how long recovery from a crash takes.
//!
//! # Traces
//! The paper on SQLite's statement logging has a table of six mobile traces. The table gives files, transactions with
//! `BEGIN` (batch) and without (auto), statements, and bytes of SQL in a transaction. The traces themselves are not
//! public. [`TRACES`] has the numbers of that table. Each statement here inserts or updates a row whose text makes up
//! the bytes. The statements go to as many files, to tables with indexes, in seeded order.
//!
//! Sides take turns, at least five rounds; afterwards stock SQLite checks each database. Blocks and syncs are counted in a run
//! of their own.
//!
//! | side | what, all at `synchronous=FULL` |
//! |---|---|
//! | `wal_full`, `delete_full` | stock SQLite in WAL mode, and with a rollback journal |
//! | `litefoot` | litefoot in WAL mode with `commit_log=statements`: statements, or deltas where these are smaller |
//! | `deltas` | litefoot in WAL mode by default |
//!
//! # Figures
//!
//! | name | meaning |
//! |---|---|
//! | `txn_per_s.TRACE.SIDE` | durable transactions a second, closing included; median of the rounds |
//! | `ratio.TRACE_over_wal_full`, `ratio.TRACE_deltas_over_wal_full` | litefoot's over stock's; median of the rounds |
//! | `page_writes.TRACE.SIDE` | blocks of 4 KiB handed to the device for a transaction, checkpoints included |
//! | `bytes.TRACE.SIDE_over_wal_full` | these blocks over stock's in WAL mode |
//! | `checkpoints.TRACE.SIDE` | syncs of the database files in the whole trace |
//! | `capture_ns` | processor time that watching a statement with three values costs, in a transaction of many; median |
//! | `recovery_s.full_log`, `.P_percent` | seconds to open a database beside a commit log of 4 MiB, or a part of it |
//!
//! The paper reports 2 to 6 times WAL on its board.

use super::commit::side::{DELETE_FULL, Kind, LITEFOOT, Side, WAL_FULL, settings};
use super::commit::{remove_database, work_directory};
use crate::harness::{MIN_ROUNDS, Progress, interleave, median, median_ratio};
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
use litefoot_sim::CountingMedium;
use litefoot_sim::Random;
use litefoot_storage::file::FileKind;
use litefoot_storage::os::OsMedium;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// One column of the paper's table.
struct Trace {
    name: &'static str,
    files: usize,
    batch: u64,
    auto: u64,
    /// Statements in all batches together; an automatic transaction has one.
    batch_statements: u64,
    /// Bytes of SQL in a transaction.
    bytes: u64,
    /// True if most statements change rows rather than add them.
    updates: bool,
}

const TRACES: [Trace; 6] = [
    Trace {
        name: "androbench",
        files: 1,
        batch: 2,
        auto: 3079,
        batch_statements: 3,
        bytes: 215,
        updates: false,
    },
    Trace {
        name: "gmail",
        files: 1,
        batch: 806,
        auto: 178,
        batch_statements: 10_419,
        bytes: 1913,
        updates: false,
    },
    Trace {
        name: "kakaotalk",
        files: 1,
        batch: 432,
        auto: 3910,
        batch_statements: 4559,
        bytes: 1094,
        updates: false,
    },
    Trace {
        name: "facebook",
        files: 11,
        batch: 262,
        auto: 1019,
        batch_statements: 2063,
        bytes: 1094,
        updates: false,
    },
    Trace {
        name: "browser",
        files: 6,
        batch: 1439,
        auto: 29,
        batch_statements: 4464,
        bytes: 8304,
        updates: false,
    },
    Trace {
        name: "twitter",
        files: 17,
        batch: 17,
        auto: 2005,
        batch_statements: 448,
        bytes: 506,
        updates: true,
    },
];

const SIDES: [Side; 4] = [
    Side { name: WAL_FULL, kind: Kind::Stock(settings("wal", "full")) },
    Side { name: LITEFOOT, kind: Kind::Statements(settings("wal", "full")) },
    Side { name: DELTAS, kind: Kind::Litefoot(settings("wal", "full")) },
    Side { name: DELETE_FULL, kind: Kind::Stock(settings("delete", "full")) },
];
/// Litefoot as it is by default, with page deltas.
const DELTAS: &str = "deltas";

/// The short form makes this part of the transactions.
const QUICK_PART: u64 = 8;
/// Rows that are there before a trace of updates.
const ROWS: u64 = 500;
const SCHEMA: &str = "CREATE TABLE item(id INTEGER PRIMARY KEY, sender INTEGER, at INTEGER, body TEXT);
     CREATE INDEX item_at ON item(at); CREATE INDEX item_sender ON item(sender);";
const INSERT: &str = "INSERT INTO item(sender, at, body) VALUES(?1, ?2, ?3)";
const UPDATE: &str = "UPDATE item SET body = ?3 WHERE id = ?2 AND ?1 >= 0";

/// Rounds, transactions of each, and statements of each.
const CAPTURE_ROUNDS: usize = 7;
const CAPTURE_TRANSACTIONS: usize = 40;
const CAPTURE_STATEMENTS: usize = 1000;

/// A full commit log, and the options under which it gets full before a checkpoint.
const FULL_LOG: u64 = 4 << 20;
const RECOVERY_OPTIONS: &str = "sharing=exclusive&commit_log_size=8M&write_buffer_size=1G";
/// Bytes of a row's text: so large that the log is full before its frames are as many as a checkpoint allows.
const RECOVERY_TEXT: u64 = 800;

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let directory = work_directory(&options.directory)?;
    let directory = directory.path();
    let part = if options.quick { QUICK_PART } else { 1 };
    let mut figures = Figures::new();
    progress.begin("mobile traces", (TRACES.len() * (MIN_ROUNDS + 1) * SIDES.len()) as u64);
    for trace in &TRACES {
        let plan = Plan::new(trace, part, options.seed);
        let rounds = interleave(&SIDES, MIN_ROUNDS, |_, side| {
            let speed = replay(trace, &plan, side, directory, &mut |path| side.open_timed(path))?;
            progress.advance(1)?;
            Ok(speed)
        })?;
        for (side, speeds) in SIDES.iter().zip(&rounds) {
            figures.set(format!("txn_per_s.{}.{}", trace.name, side.name), median(speeds.iter().copied()));
        }
        figures.set(format!("ratio.{}_over_wal_full", trace.name), median_ratio(&rounds[1], &rounds[0]));
        let name = format!("ratio.{}_{DELTAS}_over_wal_full", trace.name);
        figures.set(name, median_ratio(&rounds[2], &rounds[0]));
        for side in &SIDES {
            count(trace, &plan, side, directory, &mut figures)?;
            progress.advance(1)?;
        }
        for side in &SIDES[1..] {
            let writes = |side: &Side| figures.get(&format!("page_writes.{}.{}", trace.name, side.name));
            let ratio = writes(side).unwrap_or_default() / writes(&SIDES[0]).unwrap_or(1.0).max(1e-9);
            figures.set(format!("bytes.{}.{}_over_wal_full", trace.name, side.name), ratio);
        }
    }
    figures.set("capture_ns", capture(directory, progress)?);
    recovery(directory, options, progress, &mut figures)?;
    Ok(figures)
}

impl Trace {
    /// The rows that are in a file before the trace.
    fn rows_before(&self) -> Vec<Row> {
        let rows = if self.updates { ROWS as i64 } else { 0 };
        (0..rows).map(|row| (row, row, "before".repeat(60))).collect()
    }

    fn paths(&self, side: &Side, directory: &Path) -> Vec<PathBuf> {
        (0..self.files).map(|file| directory.join(format!("{}-{}-{file}.db", self.name, side.name))).collect()
    }
}

/// A row: sender, time, text.
type Row = (i64, i64, String);

/// A statement: what it inserts, or the id of the row it changes and its new text.
struct Statement {
    sender: i64,
    number: i64,
    text: String,
}

/// A transaction: the file, whether it has a `BEGIN`, and its statements.
struct Transaction {
    file: usize,
    batch: bool,
    statements: Vec<Statement>,
}

/// All of a trace, made before the clock runs, and the rows that each file must have afterwards.
struct Plan {
    transactions: Vec<Transaction>,
    expected: Vec<Vec<Row>>,
}

impl Plan {
    fn new(trace: &Trace, part: u64, seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let (batch, auto) = (trace.batch.div_ceil(part), trace.auto.div_ceil(part));
        let batch_statements = (trace.batch_statements * batch / trace.batch).max(batch);
        let mut expected = vec![trace.rows_before(); trace.files];
        let mut left = (batch, auto);
        let mut transactions = Vec::with_capacity((batch + auto) as usize);
        while left.0 + left.1 > 0 {
            let file = random.below(trace.files as u64) as usize;
            let is_batch = random.below(left.0 + left.1) < left.0;
            let count = if is_batch {
                // As even as whole numbers allow: all batches together have what the table says.
                let done = batch - left.0;
                left.0 -= 1;
                batch_statements * (done + 1) / batch - batch_statements * done / batch
            } else {
                left.1 -= 1;
                1
            };
            let statements: Vec<Statement> =
                (0..count).map(|_| Statement::new(trace, trace.bytes / count, &mut random)).collect();
            statements.iter().for_each(|statement| statement.apply(trace, &mut expected[file]));
            transactions.push(Transaction { file, batch: is_batch, statements });
        }
        Plan { transactions, expected }
    }
}

impl Statement {
    /// One that takes about `bytes`.
    fn new(trace: &Trace, bytes: u64, random: &mut Random) -> Statement {
        let text = (0..bytes.max(20)).map(|_| char::from(b'a' + random.below(26) as u8)).collect();
        let number = if trace.updates { 1 + random.below(ROWS) } else { random.below(1 << 30) };
        Statement { sender: random.below(50) as i64, number: number as i64, text }
    }

    fn apply(&self, trace: &Trace, rows: &mut Vec<Row>) {
        if trace.updates {
            rows[self.number as usize - 1].2.clone_from(&self.text);
        } else {
            rows.push((self.sender, self.number, self.text.clone()));
        }
    }

    fn run(&self, trace: &Trace, db: &Connection) -> rusqlite::Result<()> {
        let sql = if trace.updates { UPDATE } else { INSERT };
        db.prepare_cached(sql)?.execute((self.sender, self.number, &self.text)).map(drop)
    }
}

/// One round of a trace on one side; transactions a second.
fn replay(
    trace: &Trace,
    plan: &Plan,
    side: &Side,
    directory: &Path,
    open: &mut dyn FnMut(&Path) -> Result<Connection>,
) -> Result<f64> {
    let explain = |source| side.explain(source);
    let paths = trace.paths(side, directory);
    let connections = paths.iter().map(|path| open(path)).collect::<Result<Vec<_>>>()?;
    for db in &connections {
        db.execute_batch(SCHEMA).map_err(explain)?;
        db.execute_batch("BEGIN").map_err(explain)?;
        for (sender, at, text) in trace.rows_before() {
            db.prepare_cached(INSERT).and_then(|mut row| row.execute((sender, at, text))).map_err(explain)?;
        }
        db.execute_batch("COMMIT").map_err(explain)?;
    }
    let begun = Instant::now();
    for transaction in &plan.transactions {
        transact(trace, &connections[transaction.file], transaction).map_err(explain)?;
    }
    for db in connections {
        db.close().map_err(|(_, error)| explain(error))?;
    }
    let elapsed = begun.elapsed();
    for (path, expected) in paths.iter().zip(&plan.expected) {
        verify(trace, side, path, expected)?;
        remove_database(path)?;
    }
    Ok(plan.transactions.len() as f64 / elapsed.as_secs_f64().max(1e-9))
}

fn transact(trace: &Trace, db: &Connection, transaction: &Transaction) -> rusqlite::Result<()> {
    if transaction.batch {
        db.prepare_cached("BEGIN")?.execute([])?;
    }
    transaction.statements.iter().try_for_each(|statement| statement.run(trace, db))?;
    if transaction.batch {
        db.prepare_cached("COMMIT")?.execute([])?;
    }
    Ok(())
}

/// Every row must be there as it was written last, as stock SQLite reads it.
fn verify(trace: &Trace, side: &Side, path: &Path, expected: &[Row]) -> Result<()> {
    let wrong = |what: String| Error::Wrong(format!("side {}, {}: {what}", side.name, trace.name));
    let db = Connection::open(path).map_err(|error| side.explain(error))?;
    let read = || -> rusqlite::Result<(String, Vec<Row>)> {
        let integrity = db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        let mut rows = db.prepare("SELECT sender, at, body FROM item ORDER BY id")?;
        let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok((integrity, rows.collect::<rusqlite::Result<_>>()?))
    };
    let (integrity, rows) = read().map_err(|error| side.explain(error))?;
    if integrity != "ok" {
        return Err(wrong(integrity));
    }
    if rows != expected {
        return Err(wrong(format!("{} rows are not the {} that were written", rows.len(), expected.len())));
    }
    Ok(())
}

/// Blocks and checkpoints of a trace, by a counting medium.
fn count(trace: &Trace, plan: &Plan, side: &Side, directory: &Path, figures: &mut Figures) -> Result<()> {
    let medium = CountingMedium::new(Arc::new(OsMedium::new()));
    let vfs = litefoot::Vfs::builder(format!("ssl-{}-{}", trace.name, side.name))
        .medium(Arc::new(medium.clone()))
        .pass_through(!side.is_litefoot())
        .register()?;
    let before = medium.snapshot();
    replay(trace, plan, side, directory, &mut |path| side.open_through(&vfs, path))?;
    let spent = medium.snapshot() - before;
    let transactions = plan.transactions.len() as f64;
    let name = format!("{}.{}", trace.name, side.name);
    figures
        .set(format!("page_writes.{name}"), spent.total().block_bytes_written as f64 / 4096.0 / transactions);
    figures.set(format!("checkpoints.{name}"), spent.of(FileKind::Database).syncs as f64);
    Ok(())
}

/// The cost of watching a statement: transactions that are rolled back, with and without a commit log.
fn capture(directory: &Path, progress: &mut dyn Progress) -> Result<f64> {
    let explain = |source| SIDES[1].explain(source);
    let sides = [("commit_log=pages", 0), ("commit_log=statements", 1)];
    progress.begin("watching statements", (CAPTURE_ROUNDS * sides.len()) as u64);
    let times = interleave(&sides, CAPTURE_ROUNDS, |round, (list, number)| {
        let mut side_options = litefoot::Options::default();
        side_options.set_list(list).map_err(Error::Wrong)?;
        let vfs =
            litefoot::Vfs::builder(format!("capture-{number}-{round}")).options(side_options).register()?;
        let path = directory.join(format!("capture-{number}.db"));
        let db = vfs.open(&path)?;
        db.execute_batch("PRAGMA journal_mode=wal").map_err(explain)?;
        db.execute_batch(SCHEMA).map_err(explain)?;
        let time = || -> rusqlite::Result<f64> {
            let mut insert = db.prepare(INSERT)?;
            insert.execute((1, 1, "a text"))?;
            let mut elapsed = 0.0;
            for _ in 0..CAPTURE_TRANSACTIONS {
                db.execute_batch("BEGIN")?;
                let begun = Instant::now();
                for statement in 0..CAPTURE_STATEMENTS {
                    insert.execute((statement as i64, 0.5, "a text"))?;
                }
                elapsed += begun.elapsed().as_secs_f64();
                db.execute_batch("ROLLBACK")?;
            }
            Ok(elapsed * 1e9 / (CAPTURE_TRANSACTIONS * CAPTURE_STATEMENTS) as f64)
        };
        let each = time().map_err(explain)?;
        db.close().map_err(|(_, error)| explain(error))?;
        remove_database(&path)?;
        progress.advance(1)?;
        Ok(each)
    })?;
    Ok(median(times[1].iter().zip(&times[0]).map(|(with, without)| with - without)))
}

/// How long opening takes after a crash, by how full the commit log is, for deltas and for statements.
fn recovery(
    directory: &Path,
    options: &Options,
    progress: &mut dyn Progress,
    figures: &mut Figures,
) -> Result<()> {
    progress.begin("recovery", 8);
    for (form, part) in [("deltas", ""), ("statements", "statements.")] {
        for percent in [25, 50, 75, 100u64] {
            let name = if percent == 100 { "full_log".to_owned() } else { format!("{percent}_percent") };
            let seconds = recover(directory, form, FULL_LOG * percent / 100, options.seed)?;
            figures.set(format!("recovery_s.{part}{name}"), seconds);
            progress.advance(1)?;
        }
    }
    Ok(())
}

/// Fills a commit log, takes the files away from under it as a crash would, and opens them.
fn recover(directory: &Path, form: &str, bytes: u64, seed: u64) -> Result<f64> {
    let explain = |source| SIDES[1].explain(source);
    let wrong = |what: String| Error::Wrong(what);
    let mut litefoot_options = litefoot::Options::default();
    litefoot_options.set_list(&format!("{RECOVERY_OPTIONS}&commit_log={form}")).map_err(wrong)?;
    let vfs =
        litefoot::Vfs::builder(format!("recovery-{form}-{bytes}")).options(litefoot_options).register()?;
    let (path, copy) = (directory.join("running.db"), directory.join("crashed.db"));
    let db = vfs.open(&path)?;
    db.execute_batch("PRAGMA journal_mode=wal").map_err(explain)?;
    db.execute_batch(SCHEMA).map_err(explain)?;
    let trace = &TRACES[0];
    let mut random = Random::new(seed);
    let mut rows = 0u64;
    let log = PathBuf::from(format!("{}-commits", path.display()));
    let in_use = "SELECT value FROM litefoot_stats WHERE name = 'commit_log_bytes'";
    let in_use = || db.query_row(in_use, [], |row| row.get::<_, i64>(0)).map_err(explain);
    let mut filled = in_use()?;
    while filled < bytes as i64 {
        Statement::new(trace, RECOVERY_TEXT, &mut random).run(trace, &db).map_err(explain)?;
        rows += 1;
        let before = std::mem::replace(&mut filled, in_use()?);
        if filled < before {
            return Err(Error::Wrong(format!(
                "the log was materialized at {before} bytes, before it had {bytes}"
            )));
        }
    }
    let io = |error: std::io::Error| Error::Wrong(format!("{}: {error}", log.display()));
    for suffix in ["", "-wal", "-commits"] {
        let [from, to] = [&path, &copy].map(|path| format!("{}{suffix}", path.display()));
        copy_with_time(&from, &to).map_err(io)?;
    }
    let begun = Instant::now();
    let crashed = litefoot::Connection::open(&copy)?;
    let found: i64 = crashed.query_row("SELECT count(*) FROM item", [], |row| row.get(0)).map_err(explain)?;
    let seconds = begun.elapsed().as_secs_f64();
    if found as u64 != rows {
        return Err(Error::Wrong(format!("{found} rows after recovery, {rows} were committed")));
    }
    drop((crashed, db));
    remove_database(&path)?;
    remove_database(&copy)?;
    Ok(seconds)
}

/// Copies a file as a crash leaves it: with its time of change.
fn copy_with_time(from: &str, to: &str) -> std::io::Result<()> {
    std::fs::copy(from, to)?;
    let time = std::fs::metadata(from)?.modified()?;
    std::fs::File::options().write(true).open(to)?.set_modified(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trace_runs_on_both_sides_and_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let mut figures = Figures::new();
        for trace in &TRACES {
            let plan = Plan::new(trace, 200, 1);
            for side in &SIDES {
                count(trace, &plan, side, directory.path(), &mut figures).unwrap();
            }
        }
        assert!(figures.get("page_writes.gmail.litefoot").unwrap() > 0.0);
        assert!(figures.get("checkpoints.gmail.wal_full").unwrap() > 0.0);
    }

    #[test]
    fn a_plan_has_the_numbers_of_the_table() {
        for trace in &TRACES {
            let plan = Plan::new(trace, 1, 7);
            let batches: Vec<&Transaction> =
                plan.transactions.iter().filter(|transaction| transaction.batch).collect();
            let statements: usize = batches.iter().map(|batch| batch.statements.len()).sum();
            assert_eq!(batches.len() as u64, trace.batch);
            assert_eq!(statements as u64, trace.batch_statements);
            assert_eq!((plan.transactions.len() - batches.len()) as u64, trace.auto);
        }
    }

    #[test]
    fn a_row_that_is_not_as_written_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let (trace, side) = (&TRACES[5], &SIDES[0]);
        let mut plan = Plan::new(trace, 200, 1);
        plan.expected[3][4].2.push('x');
        let result = replay(trace, &plan, side, directory.path(), &mut |path| side.open_timed(path));
        assert!(result.is_err_and(|error| error.to_string().contains("twitter")));
    }

    #[test]
    fn a_crash_is_recovered() {
        let directory = tempfile::tempdir().unwrap();
        for form in ["deltas", "statements"] {
            assert!(recover(directory.path(), form, 20_000, 1).unwrap() > 0.0);
        }
    }
}
