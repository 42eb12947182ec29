//! The application whose rows are shipped: a process of its own, on stock SQLite or on litefoot, which commits at a rate.

use super::{Side, now_ns};
use crate::harness::{child, open_stock};
use litefoot::Vfs;
use rusqlite::{Connection, params};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The name of the process for [`crate::child`].
pub(crate) const CHILD: &str = "shipped-application";
/// Commits that are there before the first that counts.
pub(super) const FIRST: i64 = 4000;

/// What a commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    /// A row, and an index.
    Sensor,
    /// Five rows of the states of Home Assistant, and five indexes.
    HomeAssistant,
    /// Inserted, updated and deleted rows of two tables.
    Mixed,
}

const WORKLOADS: [(Workload, &str); 3] =
    [(Workload::Sensor, "sensor"), (Workload::HomeAssistant, "home_assistant"), (Workload::Mixed, "mixed")];

impl Workload {
    /// The table into which a commit inserts, and how many rows.
    pub(super) fn inserts(self) -> (&'static str, i64) {
        match self {
            Workload::Sensor => ("reading", 1),
            Workload::HomeAssistant => ("states", 5),
            Workload::Mixed => ("item", 0),
        }
    }

    pub(super) fn name(self) -> &'static str {
        WORKLOADS.iter().find(|known| known.0 == self).map_or("", |known| known.1)
    }
}

/// What the application does.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub database: PathBuf,
    pub side: Side,
    pub workload: Workload,
    pub per_s: u32,
    /// How many commits; 0 until its input ends.
    pub commits: u32,
    pub seed: u64,
}

/// A commit: the highest row, and when it was there, and how long it took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Committed {
    pub row: u64,
    pub at_ns: u64,
    pub took_ns: u64,
}

/// The running process.
pub(super) struct Application {
    child: Child,
    input: Option<ChildStdin>,
}

impl Application {
    pub(super) fn start(plan: &Plan) -> std::io::Result<Application> {
        let mut command = child::command(CHILD)?;
        let path = plan.database.to_string_lossy();
        let numbers = [u64::from(plan.per_s), u64::from(plan.commits), plan.seed].map(|n| n.to_string());
        command.args([&*path, plan.side.name(), plan.workload.name()]).args(numbers);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        Ok(Application { child, input })
    }

    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end, which its input's end brings about where it has no number of commits.
    pub(super) fn finish(mut self, ends_input: bool) -> Result<Vec<Committed>, String> {
        if ends_input {
            self.input = None;
        }
        let (mut said, mut complaints) = (String::new(), String::new());
        let read = |from: Option<&mut dyn Read>, to: &mut String| from.map(|from| from.read_to_string(to));
        read(self.child.stdout.as_mut().map(|pipe| pipe as &mut dyn Read), &mut said);
        read(self.child.stderr.as_mut().map(|pipe| pipe as &mut dyn Read), &mut complaints);
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("the application: {status}: {complaints}"));
        }
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        let commit = |line: &str| {
            let mut words = line.split(' ');
            let (row, at_ns) = (number(words.next())?, number(words.next())?);
            Some(Committed { row, at_ns, took_ns: number(words.next())? })
        };
        Ok(said.lines().filter_map(commit).collect())
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Makes the database.
pub(super) fn create(path: &Path, workload: Workload, journal: &str) -> rusqlite::Result<()> {
    let database = open_stock(path)?;
    database.pragma_update(None, "journal_mode", journal)?;
    let mut random = fastrand::Rng::with_seed(1);
    database.execute_batch(match workload {
        Workload::Sensor => {
            "CREATE TABLE reading(id INTEGER PRIMARY KEY, sensor INT, ts INT, value REAL, quality INT);
             CREATE INDEX ix ON reading(sensor, ts)"
        }
        Workload::HomeAssistant => {
            "CREATE TABLE states(state_id INTEGER PRIMARY KEY, entity_id CHAR(1), state VARCHAR(255), attributes VARCHAR,
               event_id SMALLINT, last_changed CHAR(1), last_changed_ts FLOAT, last_updated CHAR(1), last_updated_ts FLOAT,
               old_state_id INT, attributes_id INT, context_id CHAR, context_user_id CHAR, context_parent_id CHAR,
               origin_idx SMALLINT, context_id_bin BLOB, context_user_id_bin BLOB, context_parent_id_bin BLOB, metadata_id INT);
             CREATE INDEX a ON states(attributes_id); CREATE INDEX b ON states(metadata_id, last_updated_ts);
             CREATE INDEX o ON states(old_state_id); CREATE INDEX l ON states(last_updated_ts);
             CREATE INDEX cx ON states(context_id_bin)"
        }
        Workload::Mixed => {
            "CREATE TABLE item(id INTEGER PRIMARY KEY, n INTEGER, text TEXT, data BLOB);
             CREATE INDEX item_n ON item(n);
             CREATE TABLE tag(k TEXT PRIMARY KEY, v INTEGER) WITHOUT ROWID;
             INSERT INTO item(id, n) VALUES (0, 0); INSERT INTO tag VALUES ('balance', 0)"
        }
    })?;
    database.execute_batch("BEGIN")?;
    let first = if workload == Workload::Mixed { 30 } else { FIRST };
    (0..first).try_for_each(|number| change(&database, workload, number, &mut random))?;
    database.execute_batch("COMMIT")
}

/// What one transaction does.
fn change(
    database: &Connection,
    workload: Workload,
    number: i64,
    random: &mut fastrand::Rng,
) -> rusqlite::Result<()> {
    match workload {
        Workload::Sensor => {
            let value = ((20.0 + random.f64() * 5.0) * 100.0).round() / 100.0;
            let row = params![number % 50, 1_700_000_000 + number, value, 1];
            let insert = "INSERT INTO reading(sensor, ts, value, quality) VALUES (?, ?, ?, ?)";
            database.prepare_cached(insert)?.execute(row)?;
        }
        Workload::HomeAssistant => {
            for state in number * 5..number * 5 + 5 {
                let context: Vec<u8> = (0..16).map(|_| random.u8(..)).collect();
                let value = ((20.0 + random.f64() * 5.0) * 10.0).round() / 10.0;
                let at = 1_700_000_000.0 + (number * 5) as f64 + (state % 5) as f64 * 0.37;
                let row =
                    params![value.to_string(), at, state - 100, state % 300, 0, context, random.i64(0..120)];
                let insert = "INSERT INTO states(state, last_updated_ts, old_state_id, attributes_id, origin_idx, context_id_bin,
                    metadata_id) VALUES (?, ?, ?, ?, ?, ?, ?)";
                database.prepare_cached(insert)?.execute(row)?;
            }
        }
        Workload::Mixed => {
            // The two numbers are of one transaction: their sum is 0 at every moment.
            database.execute("UPDATE item SET n = n + 1 WHERE id = 0", [])?;
            database.execute("UPDATE tag SET v = v - 1 WHERE k = 'balance'", [])?;
            for _ in 0..random.u8(1..5) {
                let (key, bytes) = (random.i64(1..200), vec![random.u8(..); random.usize(..3000)]);
                match random.u8(..6) {
                    0..3 => database.execute(
                        "INSERT OR REPLACE INTO item VALUES (?, ?, ?, ?)",
                        params![key, random.i64(-9..9), format!("text {number}"), bytes],
                    )?,
                    3 => database.execute("DELETE FROM item WHERE id = ?", [key])?,
                    4 => database.execute(
                        "INSERT OR REPLACE INTO tag VALUES (?, ?)",
                        params![format!("k{}", key % 40), number],
                    )?,
                    _ => database.execute("DELETE FROM tag WHERE k = ?", [format!("k{}", key % 40)])?,
                };
            }
        }
    }
    Ok(())
}

/// The process: commits, and tells each commit at its end.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let [database, side, workload, per_s, commits, seed] = arguments else {
        return Err("six arguments".to_owned());
    };
    let number = |text: &String| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
    let workload = WORKLOADS.iter().find(|known| known.1 == workload).ok_or("no such workload")?.0;
    let side = Side::of(side).ok_or("no such side")?;
    let (per_s, commits) = (number(per_s)?, number(commits)?);
    let text = |error: rusqlite::Error| error.to_string();
    let path = Path::new(database);
    let (_vfs, database) = match side {
        Side::Stock => (None, open_stock(path).map_err(text)?),
        Side::Litefoot => {
            let vfs = Vfs::builder("shipped").register().map_err(|error| error.to_string())?;
            let database = vfs.open(path).map_err(|error| error.to_string())?;
            (Some(vfs), database)
        }
    };
    database.busy_timeout(Duration::from_secs(10)).map_err(text)?;
    database.pragma_update(None, "synchronous", "FULL").map_err(text)?;
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        over.store(true, Ordering::SeqCst);
    });
    let mut random = fastrand::Rng::with_seed(number(seed)?);
    let mut told = String::new();
    let mut next_ns = now_ns();
    for commit in 0.. {
        if (commits > 0 && commit == commits) || is_over.load(Ordering::SeqCst) {
            break;
        }
        // Arrivals that know nothing of one another, so that ticks meet them at any time.
        next_ns += (-(1.0 - random.f64()).ln() / per_s as f64 * 1e9) as u64;
        std::thread::sleep(Duration::from_nanos(next_ns.saturating_sub(now_ns())));
        let began = now_ns();
        database.execute_batch("BEGIN IMMEDIATE").map_err(text)?;
        change(&database, workload, FIRST + commit as i64, &mut random).map_err(text)?;
        database.execute_batch("COMMIT").map_err(text)?;
        let at_ns = now_ns();
        if commits > 0 {
            told.push_str(&format!("{} {at_ns} {}\n", database.last_insert_rowid(), at_ns - began));
        }
    }
    database.close().map_err(|(_, error)| text(error))?;
    std::io::stdout().write_all(told.as_bytes()).map_err(|error| error.to_string())
}
