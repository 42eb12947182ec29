//! One recorded run: transactions of every kind, and what the database should hold after each.

use super::large;
use super::model::{Change, DATABASE, Rows, SCHEMA};
use super::unusual;
use super::visitors::{self, Visitors};
use crate::harness::vfs_name;
use litefoot::{CommitLogForm, PageCleaner, Sharing};
use litefoot_sim::{Faults, Random, SimMedium};
use litefoot_storage::file::Medium;
use rusqlite::Connection;
use std::sync::Arc;

/// Transactions of one run.
const TRANSACTIONS: usize = 60;

/// Bytes at which a small log restarts: every few transactions.
const SMALL_LOG_BYTES: usize = 32 << 10;

/// The second database of the runs that have one.
pub const SECOND: &str = "/db/second.db";

/// The tier devices of the runs that have some.
const TIER: &str = "/fast/app.tier";
const SECOND_TIER: &str = "/fast/second.tier";

/// The row of the first database that tells how far the second one is.
pub const SECOND_ROW: i64 = 5000;

/// The family of journals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journal {
    /// Write-ahead log.
    Wal,
    /// DELETE, TRUNCATE, PERSIST, MEMORY and OFF, with excursions to WAL.
    Rollback,
}

impl Journal {
    /// The name that the command line takes.
    pub fn name(self) -> &'static str {
        match self {
            Journal::Wal => "wal",
            Journal::Rollback => "rollback",
        }
    }

    /// The statement that sets a mode of the family. SQLite itself promises nothing after a power cut for a
    /// journal in memory.
    fn pragma(self, random: &mut Random, by_sqlite: bool) -> String {
        let safe_by_itself = if by_sqlite { 3 } else { 4 };
        let mode = match self {
            Journal::Wal => "wal",
            Journal::Rollback => {
                ["delete", "truncate", "persist", "memory"][random.below(safe_by_itself) as usize]
            }
        };
        format!("PRAGMA journal_mode={mode}")
    }
}

/// The setup of a run.
#[derive(Clone, Debug)]
pub struct RunSetup {
    /// Everything follows from it.
    pub seed: u64,
    /// The family of journals.
    pub journal: Journal,
    /// SQLite's own protocol instead of litefoot's.
    pub pass_through: bool,
    /// Planted faults.
    pub faults: Faults,
    /// Bytes of a write that the medium promises never to tear.
    pub atomic_write_bytes: u32,
    /// True if hot chunks, and the logs, live on a tier device.
    pub tier: bool,
    /// True if stock SQLite comes while the application has the database open.
    pub visitors: bool,
}

impl RunSetup {
    /// How the first database is opened.
    fn database(&self) -> String {
        self.name(DATABASE, self.tier)
    }

    /// How the second one is.
    fn second(&self) -> String {
        self.name(SECOND, self.tier)
    }

    fn name(&self, path: &str, tier: bool) -> String {
        if !tier {
            return path.to_owned();
        }
        let device = if path == DATABASE { TIER } else { SECOND_TIER };
        // Now everything fits, now little.
        let bytes = if (self.seed / 8).is_multiple_of(2) { 64 << 10 } else { 24 << 10 };
        let policy = if (self.seed / 16).is_multiple_of(2) { "lru" } else { "ewma" };
        format!("file:{path}?tier={device}&tier_size={bytes}&tier_policy={policy}")
    }

    /// The run's special condition. Where the journal families take turns, each has every kind.
    fn kind(&self) -> u64 {
        self.seed / 2 % 4
    }

    fn has_several_files(&self) -> bool {
        self.journal == Journal::Rollback && self.kind() == 0 && !self.visitors
    }

    /// True if the log is so small that a thread of its own restarts it all the time. The order of that thread and the
    /// commits is the one thing that does not follow from the seed.
    fn has_small_log(&self) -> bool {
        self.kind() == 1
    }

    /// True if a transaction's dirty pages, and the log in memory, go to a temporary file.
    fn has_small_memory(&self) -> bool {
        self.kind() == 2
    }

    /// Transactions of an opening, about. One run in four opens the database for nearly each of them.
    fn transactions_per_opening(&self) -> u64 {
        let is_short = self.seed.wrapping_mul(0xd1b5_4a32_d192_ed03) >> 62 == 0;
        match (self.tier, is_short) {
            (true, _) => 8,
            (false, true) => 2,
            (false, false) => 30,
        }
    }

    /// The form of commits in WAL mode, whatever the run's kind.
    fn commit_log(&self) -> CommitLogForm {
        match self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 {
            0 => CommitLogForm::Statements,
            1 => CommitLogForm::Auto,
            _ => CommitLogForm::Deltas,
        }
    }

    /// True if connections use `synchronous=NORMAL`, which with a journal is as durable on litefoot.
    fn is_normal(&self) -> bool {
        self.journal == Journal::Rollback && self.kind() == 3 && !self.goes_by_sqlite()
    }

    /// True if transactions may go by SQLite's own protocol, which promises less: always, or beside a visitor.
    fn goes_by_sqlite(&self) -> bool {
        self.pass_through || self.visitors
    }

    fn options(&self) -> litefoot::Options {
        let mut options = litefoot::Options { commit_log: self.commit_log(), ..litefoot::Options::default() };
        if self.visitors {
            options.sharing = Sharing::Auto;
            if options.commit_log == CommitLogForm::Statements {
                options.commit_log = CommitLogForm::Pages;
            }
        }
        if self.has_small_log() {
            options.max_wal_size = SMALL_LOG_BYTES;
            options.commit_log_size = SMALL_LOG_BYTES;
        }
        if self.has_small_memory() {
            options.write_buffer_size = Some([0, 64 << 10][self.seed as usize / 24 % 2]);
            options.page_cleaner = [PageCleaner::Auto, PageCleaner::Foreground, PageCleaner::Background]
                [self.seed as usize / 8 % 3];
            options.commit_log_size = SMALL_LOG_BYTES / 4;
        }
        options
    }
}

/// A point in the history: once this many operations had happened, the state was acknowledged.
struct Acknowledged {
    operation: usize,
    rows: Rows,
}

/// A recorded run.
pub struct Recording {
    setup: RunSetup,
    medium: SimMedium,
    history: Vec<Acknowledged>,
}

/// Which states a database may be in.
pub struct Expected<'a> {
    /// After the last acknowledged transaction.
    pub acknowledged: &'a Rows,
    /// After the one in flight, if there was one.
    pub in_flight: Option<&'a Rows>,
    /// True if a second database must be as far as the first.
    pub several_files: bool,
    /// How the databases are opened.
    pub database: String,
    pub second: String,
    history: &'a [Acknowledged],
}

impl Expected<'_> {
    /// True if the database was in this state once.
    pub fn was(&self, rows: &Rows) -> bool {
        self.history.iter().any(|state| state.rows == *rows)
    }
}

/// Registers a VFS over a medium under a name of its own.
pub(super) fn vfs_over(
    medium: &SimMedium,
    pass_through: bool,
    options: litefoot::Options,
) -> Result<litefoot::Vfs, String> {
    register(builder_over(medium, pass_through, options))
}

pub(super) fn builder_over(
    medium: &SimMedium,
    pass_through: bool,
    options: litefoot::Options,
) -> litefoot::VfsBuilder {
    builder_on(Arc::new(medium.clone()), pass_through, options)
}

/// The same over any medium.
pub(super) fn builder_on(
    medium: Arc<dyn Medium>,
    pass_through: bool,
    options: litefoot::Options,
) -> litefoot::VfsBuilder {
    litefoot::Vfs::builder(vfs_name()).medium(medium).pass_through(pass_through).options(options)
}

pub(super) fn register(builder: litefoot::VfsBuilder) -> Result<litefoot::Vfs, String> {
    builder.register().map_err(|error| error.to_string())
}

impl Recording {
    /// Runs the workload and records it.
    ///
    /// # Errors
    /// When SQLite reports an error, which without planted faults is a bug.
    pub fn make(setup: &RunSetup) -> Result<Recording, String> {
        let fail = |error: rusqlite::Error| {
            format!("workload of seed {}: {error} {}", setup.seed, litefoot::last_error().unwrap_or_default())
        };
        let mut random = Random::new(setup.seed);
        let medium = prepared(setup, &mut random)?;
        medium.set_faults(setup.faults.clone());
        medium.set_atomic_write_bytes(setup.atomic_write_bytes);
        let builder = builder_over(&medium, setup.pass_through, setup.options());
        let vfs = register(builder.keeps_logs(!setup.pass_through))?;
        let mut rows = Rows::new();
        let mut history = vec![Acknowledged { operation: 0, rows: rows.clone() }];
        let mut db = open(&vfs, setup, &mut random).map_err(fail)?;
        let mut visitors =
            if setup.visitors { Some(Visitors::new(&medium, setup.journal, !setup.tier)?) } else { None };
        for _ in 0..TRANSACTIONS {
            if random.one_in(setup.transactions_per_opening()) {
                drop(db);
                db = open(&vfs, setup, &mut random).map_err(fail)?;
            }
            if let Some(visitors) = &mut visitors {
                let is_there = visitors.step(vfs.name(), &mut random, &mut rows).map_err(fail)?;
                history.push(Acknowledged { operation: medium.operations(), rows: rows.clone() });
                if is_there {
                    visitors::beside(&db, &mut random, &mut rows).map_err(fail)?;
                    history.push(Acknowledged { operation: medium.operations(), rows: rows.clone() });
                    continue;
                }
            }
            transaction(&db, vfs.name(), setup, &mut random, &mut rows).map_err(fail)?;
            history.push(Acknowledged { operation: medium.operations(), rows: rows.clone() });
        }
        Ok(Recording { setup: setup.clone(), medium, history })
    }

    /// The medium with its record.
    pub fn medium(&self) -> &SimMedium {
        &self.medium
    }

    /// True if the run has transactions over two databases. Only litefoot can recover what they leave: elsewhere the
    /// super-journal has another path.
    pub fn has_several_files(&self) -> bool {
        self.setup.has_several_files()
    }

    /// True if the run has a tier device.
    pub fn has_tier(&self) -> bool {
        self.setup.tier
    }

    /// True if stock SQLite came to the run's database.
    pub fn has_visitors(&self) -> bool {
        self.setup.visitors
    }

    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.setup.seed
    }

    /// The family of journals of the run.
    pub fn journal(&self) -> Journal {
        self.setup.journal
    }

    /// Number of transactions.
    pub fn transactions(&self) -> usize {
        self.history.len() - 1
    }

    /// The states that a database may have after a cut, once `point` operations had happened.
    pub fn expected(&self, point: usize) -> Expected<'_> {
        let done = self.history.partition_point(|state| state.operation <= point).max(1);
        Expected {
            acknowledged: &self.history[done - 1].rows,
            in_flight: self.history.get(done).map(|state| &state.rows),
            several_files: self.has_several_files(),
            history: &self.history[..done],
            database: self.setup.database(),
            second: self.setup.second(),
        }
    }
}

/// A medium on which the empty database stands, durably.
fn prepared(setup: &RunSetup, random: &mut Random) -> Result<SimMedium, String> {
    let medium = SimMedium::new();
    let vfs = vfs_over(&medium, setup.pass_through, setup.options())?;
    let page_bytes = [512, 1024, 4096][random.below(3) as usize];
    let auto_vacuum = if random.one_in(4) { "FULL" } else { "NONE" };
    let db = vfs.open(DATABASE).map_err(|error| error.to_string())?;
    let journal = setup.journal.pragma(random, setup.goes_by_sqlite());
    db.execute_batch(&format!(
        "PRAGMA page_size={page_bytes}; PRAGMA auto_vacuum={auto_vacuum}; {journal}; {SCHEMA}"
    ))
    .map_err(|error| error.to_string())?;
    if setup.has_several_files() {
        let second = vfs.open(SECOND).map_err(|error| error.to_string())?;
        second
            .execute_batch("CREATE TABLE progress(n INTEGER); INSERT INTO progress VALUES (0)")
            .map_err(|error| error.to_string())?;
    }
    drop(db);
    Ok(medium.copy())
}

fn open(vfs: &litefoot::Vfs, setup: &RunSetup, random: &mut Random) -> rusqlite::Result<Connection> {
    // After a clean close it makes no difference whether there was a tier.
    let tier = setup.tier && !random.one_in(3);
    let name = setup.name(DATABASE, tier);
    let db = Connection::open_with_flags_and_vfs(name, rusqlite::OpenFlags::default(), vfs.name())?;
    // A small cache makes larger transactions spill before they commit.
    db.execute_batch("PRAGMA cache_size=10")?;
    if setup.is_normal() {
        db.execute_batch("PRAGMA synchronous=NORMAL")?;
    }
    if !setup.pass_through && !setup.visitors && random.one_in(4) {
        db.execute_batch("PRAGMA locking_mode=EXCLUSIVE")?;
    }
    if setup.has_several_files() {
        db.execute("ATTACH ?1 AS second", [setup.name(SECOND, tier)])?;
    }
    Ok(db)
}

/// One transaction of a random kind; `rows` is what the database holds once it returns.
fn transaction(
    db: &Connection,
    vfs: &str,
    setup: &RunSetup,
    random: &mut Random,
    rows: &mut Rows,
) -> rusqlite::Result<()> {
    let rollback = setup.journal == Journal::Rollback;
    let kind = random.below(46);
    if setup.atomic_write_bytes > 0 {
        // A database of some pages, most of which are not in the log when a row of one of them changes.
        match rows.len() {
            0..80 => return fill(db, random, rows),
            _ if random.one_in(2) => return change_in_place(db, random, rows),
            _ => {}
        }
    }
    let log_of = (!rollback && !setup.pass_through).then_some(vfs);
    if log_of.is_some() && setup.has_small_memory() && random.one_in(4) {
        return large::transaction(db, log_of, random, rows);
    }
    match kind {
        0..=21 => change(db, random, rows),
        22..=28 => {
            db.execute_batch("BEGIN")?;
            for _ in 0..2 + random.below(6) {
                change(db, random, rows)?;
            }
            db.execute_batch("COMMIT")
        }
        29..=31 => {
            db.execute_batch("BEGIN")?;
            change(db, random, rows)?;
            db.execute_batch("SAVEPOINT s")?;
            let mut undone = rows.clone();
            for _ in 0..1 + random.below(4) {
                change(db, random, &mut undone)?;
            }
            db.execute_batch("ROLLBACK TO s")?;
            change(db, random, rows)?;
            db.execute_batch("COMMIT")
        }
        32..=34 => {
            db.execute_batch("BEGIN")?;
            let mut undone = rows.clone();
            for _ in 0..1 + random.below(8) {
                change(db, random, &mut undone)?;
            }
            db.execute_batch("ROLLBACK")
        }
        35 => db.execute_batch("VACUUM"),
        36 => fill(db, random, rows),
        44 | 45 => large::transaction(db, log_of, random, rows),
        37 => failed_statement(db, rows),
        38 if rollback => other_page_size(db, random),
        39 if rollback && !setup.goes_by_sqlite() => without_journal(db, random, rows),
        38..=40 if !rollback => unusual::transaction(db, vfs, random, rows),
        40 | 41 if setup.has_several_files() => two_databases(db, random, rows),
        _ => upkeep(db, setup, random),
    }
}

pub(super) fn change(db: &Connection, random: &mut Random, rows: &mut Rows) -> rusqlite::Result<()> {
    let change = Change::random(random);
    change.execute(db)?;
    change.apply(rows);
    Ok(())
}

/// A change of one row's value, which is in no index.
fn change_in_place(db: &Connection, random: &mut Random, rows: &mut Rows) -> rusqlite::Result<()> {
    let place = random.below(rows.len().max(1) as u64) as usize;
    let Some(id) = rows.keys().nth(place).copied().filter(|id| *id != SECOND_ROW) else { return Ok(()) };
    let change = Change::Rewrite(id, vec![random.below(256) as u8; 100]);
    change.execute(db)?;
    change.apply(rows);
    Ok(())
}

/// A transaction larger than the page cache.
fn fill(db: &Connection, random: &mut Random, rows: &mut Rows) -> rusqlite::Result<()> {
    db.execute_batch("BEGIN")?;
    for _ in 0..30 {
        change(db, random, rows)?;
    }
    db.execute_batch("COMMIT")
}

/// A statement that fails in its middle and is undone by itself, in a transaction that goes on.
fn failed_statement(db: &Connection, rows: &mut Rows) -> rusqlite::Result<()> {
    db.execute_batch("BEGIN")?;
    Change::Put(1000, 1, vec![1; 100]).execute(db)?;
    Change::Put(1000, 1, vec![1; 100]).apply(rows);
    let failed = db.execute("INSERT INTO t VALUES (2000, 7, zeroblob(3000)), (1000, 7, NULL)", []);
    debug_assert!(failed.is_err());
    db.execute_batch("COMMIT")
}

/// An action that changes files but no rows.
fn upkeep(db: &Connection, setup: &RunSetup, random: &mut Random) -> rusqlite::Result<()> {
    if random.one_in(4) {
        // Transactions that change nothing but the counters of page 1.
        return (0..1 + random.below(6)).try_for_each(|_| db.execute_batch("PRAGMA user_version=0"));
    }
    let pragma = match setup.journal {
        Journal::Rollback if random.one_in(4) && !setup.is_normal() => "PRAGMA journal_mode=wal".to_owned(),
        Journal::Rollback => Journal::Rollback.pragma(random, setup.goes_by_sqlite()),
        Journal::Wal => {
            let mode = ["PASSIVE", "FULL", "RESTART", "TRUNCATE"][random.below(4) as usize];
            format!("PRAGMA wal_checkpoint({mode})")
        }
    };
    db.query_row(&pragma, [], |_| Ok(()))
}

/// VACUUM to another page size, which writes the whole database anew.
fn other_page_size(db: &Connection, random: &mut Random) -> rusqlite::Result<()> {
    let bytes = [512, 1024, 4096][random.below(3) as usize];
    db.execute_batch(&format!("PRAGMA page_size={bytes}; VACUUM"))
}

/// A transaction in a mode that cannot roll back.
fn without_journal(db: &Connection, random: &mut Random, rows: &mut Rows) -> rusqlite::Result<()> {
    db.query_row("PRAGMA journal_mode=off", [], |_| Ok(()))?;
    change(db, random, rows)?;
    db.query_row(&Journal::Rollback.pragma(random, false), [], |_| Ok(()))
}

/// The number that the rows of the first database tell.
pub(super) fn progress(rows: &Rows) -> i64 {
    let bytes = rows.get(&SECOND_ROW).and_then(|(_, v)| v.as_slice().try_into().ok());
    bytes.map_or(0, i64::from_be_bytes)
}

/// A transaction over two databases: after it both tell the same number. SQLite makes it atomic only where
/// both have a journal file.
fn two_databases(db: &Connection, random: &mut Random, rows: &mut Rows) -> rusqlite::Result<()> {
    let mode: String = db.query_row("PRAGMA main.journal_mode", [], |row| row.get(0))?;
    if mode == "memory" || mode == "wal" {
        return change(db, random, rows);
    }
    let next = progress(rows) + 1;
    db.execute_batch("BEGIN")?;
    change(db, random, rows)?;
    let mark = Change::Put(SECOND_ROW, 0, next.to_be_bytes().to_vec());
    mark.execute(db)?;
    mark.apply(rows);
    db.execute("UPDATE second.progress SET n=?1", [next])?;
    db.execute_batch("COMMIT")
}
