//! Bytes of a batch on the wire, for each commit: a sensor, and the states of Home Assistant.
//!
//! ```sh
//! cargo run --release -p litefoot-rowdiff --example wire
//! ```

use litefoot_rowdiff::encode::batch::{Encoder, Envelope};
use litefoot_rowdiff::encode::{changeset, json};
use litefoot_rowdiff::{Changed, Collect, Failure, Map, Pages};
use rusqlite::{Connection, params};

const PAGE_BYTES: usize = 4096;

struct Image(Vec<u8>);

impl Image {
    fn of(database: &mut Connection) -> Result<Image, Failure> {
        Ok(Image(database.serialize("main")?.to_vec()))
    }

    fn changed(&self, newer: &Image) -> Vec<u32> {
        let old = |at: usize| self.0.get(at * PAGE_BYTES..(at + 1) * PAGE_BYTES);
        let pages = newer.0.chunks(PAGE_BYTES).enumerate();
        pages.filter(|(at, page)| old(*at) != Some(*page)).map(|(at, _)| at as u32 + 1).collect()
    }
}

impl Pages for Image {
    fn page_bytes(&self) -> usize {
        PAGE_BYTES
    }

    fn count(&self) -> u32 {
        (self.0.len() / PAGE_BYTES) as u32
    }

    fn read(&self, number: u32, page: &mut [u8]) -> Result<(), Failure> {
        page.copy_from_slice(&self.0[(number as usize - 1) * PAGE_BYTES..][..PAGE_BYTES]);
        Ok(())
    }
}

/// A value with two digits behind the point.
fn measured(random: &mut fastrand::Rng, digits: f64) -> f64 {
    ((20.0 + random.f64() * 5.0) * digits).round() / digits
}

fn sensor(database: &Connection) -> rusqlite::Result<()> {
    database.execute_batch(
        "CREATE TABLE reading(id INTEGER PRIMARY KEY, sensor INT, ts INT, value REAL, quality INT);
         CREATE INDEX ix ON reading(sensor, ts)",
    )
}

fn sensor_commit(database: &Connection, commit: i64, random: &mut fastrand::Rng) -> rusqlite::Result<()> {
    let value = measured(random, 100.0);
    let row = params![commit % 50, 1_700_000_000 + commit, value, 1];
    database.execute("INSERT INTO reading(sensor, ts, value, quality) VALUES (?, ?, ?, ?)", row)?;
    Ok(())
}

fn home_assistant(database: &Connection) -> rusqlite::Result<()> {
    database.execute_batch(
        "CREATE TABLE states(state_id INTEGER PRIMARY KEY, entity_id CHAR(1), state VARCHAR(255), attributes VARCHAR,
           event_id SMALLINT, last_changed CHAR(1), last_changed_ts FLOAT, last_updated CHAR(1), last_updated_ts FLOAT,
           old_state_id INT, attributes_id INT, context_id CHAR, context_user_id CHAR, context_parent_id CHAR,
           origin_idx SMALLINT, context_id_bin BLOB, context_user_id_bin BLOB, context_parent_id_bin BLOB, metadata_id INT);
         CREATE INDEX a ON states(attributes_id); CREATE INDEX b ON states(metadata_id, last_updated_ts);
         CREATE INDEX o ON states(old_state_id); CREATE INDEX l ON states(last_updated_ts);
         CREATE INDEX cx ON states(context_id_bin)",
    )
}

fn home_assistant_commit(
    database: &Connection,
    commit: i64,
    random: &mut fastrand::Rng,
) -> rusqlite::Result<()> {
    for state in 0..5 {
        let number = commit * 5 + state;
        let context: Vec<u8> = (0..16).map(|_| random.u8(..)).collect();
        let row = params![
            measured(random, 10.0).to_string(),
            1_700_000_000.0 + (commit * 5) as f64 + state as f64 * 0.37,
            number - 100,
            number % 300,
            0,
            context,
            random.i64(0..120),
        ];
        database.execute(
            "INSERT INTO states(state, last_updated_ts, old_state_id, attributes_id, origin_idx, context_id_bin, metadata_id)
             VALUES (?, ?, ?, ?, ?, ?, ?)",
            row,
        )?;
    }
    Ok(())
}

type Setup = fn(&Connection) -> rusqlite::Result<()>;
type Commit = fn(&Connection, i64, &mut fastrand::Rng) -> rusqlite::Result<()>;

/// A schema, and a commit.
type Workload = (Setup, Commit);

/// A sensor: a row a commit.
pub const SENSOR: Workload = (sensor, sensor_commit);
/// Home Assistant: five states a commit.
pub const HOME_ASSISTANT: Workload = (home_assistant, home_assistant_commit);

/// Runs a workload; answers the bytes of a commit in a batch.
pub fn run(name: &str, (setup, commit): Workload, commits_in_batch: i64) -> Result<f64, Failure> {
    const FIRST: i64 = 4000;
    const COMMITS: i64 = 600;
    let mut random = fastrand::Rng::with_seed(1);
    let mut database = Connection::open_in_memory()?;
    setup(&database)?;
    database.execute_batch("BEGIN")?;
    (0..FIRST).try_for_each(|number| commit(&database, number, &mut random))?;
    database.execute_batch("COMMIT")?;
    let mut before = Image::of(&mut database)?;
    let mut map = Map::of(&before)?;
    let mut encoder = Encoder::default();
    let (mut pages, mut batches, mut changesets, mut lines) = (0, 0, 0, 0);
    for batch in 0..COMMITS / commits_in_batch {
        let first = FIRST + batch * commits_in_batch;
        (first..first + commits_in_batch).try_for_each(|number| commit(&database, number, &mut random))?;
        let after = Image::of(&mut database)?;
        let changed = before.changed(&after);
        let mut found = Collect::default();
        let step = map.diff(&before, &after, &Changed::Pages(&changed), &mut found)?;
        map.apply(step);
        let sequence = batch as u64 + 1;
        let time_ms = 1_700_000_000_000 + sequence * 10_000;
        let envelope = Envelope { source: [0x5a; 16], epoch: 1, first: sequence, last: sequence, time_ms };
        pages += changed.len() * PAGE_BYTES;
        batches += encoder.batch(&envelope, &found.tables)?.len();
        changesets += changeset::encode(&found.tables).len();
        for table in &found.tables {
            lines +=
                table.changes.iter().map(|change| json::line(table.pair(), change).len() + 1).sum::<usize>();
        }
        before = after;
    }
    let each = |bytes: usize| bytes as f64 / COMMITS as f64;
    println!(
        "{name}, batches of {commits_in_batch}: {:.1} bytes a commit as batches, {:.0} as changesets, {:.0} as JSON lines, {:.0} in pages",
        each(batches),
        each(changesets),
        each(lines),
        each(pages)
    );
    Ok(each(batches))
}

fn main() -> Result<(), Failure> {
    for commits in [1, 10, 60] {
        run("sensor, one row a commit", SENSOR, commits)?;
        run("Home Assistant, five rows a commit", HOME_ASSISTANT, commits)?;
    }
    Ok(())
}
