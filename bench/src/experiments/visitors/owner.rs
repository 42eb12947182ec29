//! The process that has the database open: an application with three writers and two readers.
//!
//! It says line by line in a file what it meets:
//!
//! | line | meaning |
//! |---|---|
//! | `ready` | it works |
//! | `error what: why` | SQLite refused something |
//! | `stale what` | a reader has seen less than was acknowledged, or a snapshot that moved |
//! | `lost: what` | a commit that was acknowledged is not there |
//! | `changes 3` | how often litefoot has changed between the states of the database while it was open |
//! | `done` | it has closed its connections |
//!
//! # Invariant
//! The main thread alone changes the phase, and leaves [`Phase::Reopen`] only after every other thread has closed its
//! connection.

use super::content::{self, DATABASE, SECOND, SECOND_TABLE, Seen, TABLES, WRITERS};
use super::slots::Slots;
use crate::harness::open_stock;
use rusqlite::Connection;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// Names of the files in the directory: what the process says, and its order to end.
pub const SAID: &str = "said";
pub const STOP: &str = "stop";

/// The journal modes of a connection to a database in a rollback mode; the first is the plan's own.
const JOURNALS: [&str; WRITERS] = ["", "persist", "truncate"];
/// As an application's: longer than any other holds a lock.
const PATIENCE: Duration = Duration::from_secs(30);
const SNAPSHOT: Duration = Duration::from_millis(300);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Between two snapshots; a rollback journal keeps others from committing while there is one.
const SNAPSHOTS_EVERY_MS: Range<u64> = 300..2_000;
/// Pauses of a writer between its commits in milliseconds, as an application's; now and then it makes several at once.
const PAUSES_MS: Range<u64> = 20..250;
/// Transactions of 10,000 rows, and closings of all connections, are so far apart.
const LARGE_EVERY_MS: Range<u64> = 3_000..8_000;
const REOPENS_EVERY_MS: Range<u64> = 5_000..15_000;
/// How often the database became one of several processes, or of this one alone. Stock SQLite has no such table.
const CHANGES: &str = "SELECT CAST(value AS INTEGER) FROM litefoot_stats WHERE name='sharing_changes'";

/// What is under the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// SQLite as it is.
    Stock,
    /// Litefoot.
    Litefoot,
}

/// The plan of a process.
#[derive(Clone, Debug)]
pub struct Plan {
    pub directory: PathBuf,
    pub side: Side,
    pub journal: &'static str,
    /// True if writers make no pauses.
    pub tight: bool,
    pub seed: u64,
}

/// The journal modes that a database begins in.
pub const MODES: [&str; 4] = ["wal", "delete", "truncate", "persist"];

impl Plan {
    /// The arguments that tell a process its plan.
    pub fn arguments(&self) -> Vec<String> {
        let words = [format!("{:?}", self.side), self.journal.to_owned(), self.tight.to_string()];
        let mut arguments = vec![self.directory.display().to_string()];
        arguments.extend(words);
        arguments.push(self.seed.to_string());
        arguments
    }

    fn parse(arguments: &[String]) -> Option<Plan> {
        let [directory, side, journal, tight, seed] = arguments else { return None };
        Some(Plan {
            directory: PathBuf::from(directory),
            side: [Side::Stock, Side::Litefoot].into_iter().find(|known| format!("{known:?}") == *side)?,
            journal: MODES.into_iter().find(|known| known == journal)?,
            tight: tight.parse().ok()?,
            seed: seed.parse().ok()?,
        })
    }
}

/// What the threads shall do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Work,
    /// Close all connections, and open new ones.
    Reopen,
    Stop,
}

struct Owner {
    plan: Plan,
    slots: Slots,
    said: File,
    phase: AtomicU8,
    /// All threads, and the main one.
    all: Barrier,
}

/// Runs the process.
///
/// # Errors
/// The message for standard error: the plan cannot be understood, or nothing can be said.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let plan = Plan::parse(arguments).ok_or("the five arguments of a plan")?;
    let path = plan.directory.join(SAID);
    let said = OpenOptions::new().create(true).append(true).open(&path);
    let owner = Owner {
        slots: Slots::open(&plan.directory)?,
        said: said.map_err(|error| format!("{}: {error}", path.display()))?,
        phase: AtomicU8::new(Phase::Work as u8),
        all: Barrier::new(WRITERS + 3),
        plan,
    };
    if let Err(wrong) = owner.begin() {
        return owner.say(wrong);
    }
    owner.say("ready")?;
    std::thread::scope(|scope| {
        let owner = &owner;
        for writer in 0..WRITERS {
            scope.spawn(move || owner.write(writer));
        }
        scope.spawn(|| owner.hold_snapshots());
        scope.spawn(|| owner.look());
        owner.conduct();
    });
    owner.say("done")
}

impl Owner {
    fn say(&self, line: impl Display) -> Result<(), String> {
        let line = format!("{line}").replace('\n', " ");
        (&self.said).write_all(format!("{line}\n").as_bytes()).map_err(|error| error.to_string())
    }

    fn phase(&self) -> Phase {
        let phase = self.phase.load(Ordering::Acquire);
        [Phase::Work, Phase::Reopen].into_iter().find(|known| *known as u8 == phase).unwrap_or(Phase::Stop)
    }

    /// A new connection, in the journal mode of that writer where the database is not in WAL mode.
    fn open(&self, writer: usize) -> Result<Connection, String> {
        let path = self.plan.directory.join(DATABASE);
        let db = match self.plan.side {
            Side::Stock => open_stock(&path).map_err(|error| error.to_string())?,
            Side::Litefoot => {
                litefoot::Connection::open(&path).map_err(|error| error.to_string())?.into_inner()
            }
        };
        let text = |error: rusqlite::Error| error.to_string();
        db.busy_timeout(PATIENCE).map_err(text)?;
        // A transaction of 10,000 rows does not fit.
        db.execute_batch("PRAGMA synchronous=FULL; PRAGMA cache_size=200").map_err(text)?;
        let mode: String = db.query_row("PRAGMA journal_mode", [], |row| row.get(0)).map_err(text)?;
        let wanted = Some(JOURNALS[writer]).filter(|own| !own.is_empty()).unwrap_or(self.plan.journal);
        if mode != "wal" && self.plan.journal != "wal" {
            // Refused where a visitor makes a log of it at this moment.
            let _ = db.execute_batch(&format!("PRAGMA main.journal_mode={wanted}"));
        }
        if writer == 1 {
            let second = self.plan.directory.join(SECOND);
            db.execute("ATTACH ?1 AS second", [second.to_string_lossy()]).map_err(text)?;
        }
        Ok(db)
    }

    /// Makes what is missing, and compares what is there with what was acknowledged.
    fn begin(&self) -> Result<(), String> {
        let error = |error: String| format!("error begin: {error}");
        let db = self.open(1).map_err(error)?;
        let journal = self.plan.journal;
        let set_up = format!(
            "PRAGMA main.journal_mode={journal}; PRAGMA second.journal_mode={journal}; {TABLES}; {SECOND_TABLE}"
        );
        db.execute_batch(&set_up).map_err(|why| error(why.to_string()))?;
        let seen = Seen::of(&db).map_err(|why| error(why.to_string()))?;
        if let Some(lacking) = seen.lacks(&self.slots.floor()?) {
            return Err(format!("lost: at the opening {lacking}"));
        }
        // A commit that was made in the moment of the last kill counts from now on.
        seen.numbers.into_iter().enumerate().try_for_each(|(writer, number)| self.slots.set(writer, number))
    }

    /// The main thread: all connections are closed now and then, until the order to end comes.
    fn conduct(&self) {
        let mut random = fastrand::Rng::with_seed(self.plan.seed);
        let mut reopen = next(&mut random, REOPENS_EVERY_MS);
        while !self.plan.directory.join(STOP).exists() {
            std::thread::sleep(LOOK_EVERY);
            if Instant::now() >= reopen {
                self.reopen();
                reopen = next(&mut random, REOPENS_EVERY_MS);
            }
        }
        self.phase.store(Phase::Stop as u8, Ordering::Release);
    }

    /// A visitor may have changed the journal mode; without a connection there is a way back.
    fn reopen(&self) {
        self.phase.store(Phase::Reopen as u8, Ordering::Release);
        self.all.wait();
        if let Ok(db) = self.open(0) {
            // Refused while a visitor is there.
            let _ = db.execute_batch(&format!("PRAGMA journal_mode={}", self.plan.journal));
        }
        self.phase.store(Phase::Work as u8, Ordering::Release);
        self.all.wait();
    }

    /// Does something again and again, with a connection of its own, until the end.
    fn repeat(&self, writer: usize, mut turn: impl FnMut(&Connection) -> Result<(), String>) {
        let complain = |why: String| {
            // A file that cannot be written shows as commits that are missing.
            let _ = self.say(why);
            std::thread::sleep(LOOK_EVERY);
        };
        loop {
            match self.phase() {
                Phase::Stop => return,
                Phase::Reopen => {
                    self.all.wait();
                    self.all.wait();
                }
                Phase::Work => match self.open(writer) {
                    Ok(db) => {
                        while self.phase() == Phase::Work {
                            turn(&db).unwrap_or_else(complain);
                        }
                        // One of the threads is enough, and this is not yet the last connection.
                        if writer == 1 {
                            self.tell_changes(&db).unwrap_or_else(complain);
                        }
                    }
                    Err(why) => complain(format!("error open: {why}")),
                },
            }
        }
    }

    fn pause(&self, random: &mut fastrand::Rng) {
        if !self.plan.tight && random.u8(..4) > 0 {
            std::thread::sleep(Duration::from_millis(random.u64(PAUSES_MS)));
        }
    }

    fn write(&self, writer: usize) {
        let mut random =
            fastrand::Rng::with_seed(self.plan.seed.wrapping_mul(31).wrapping_add(writer as u64));
        let mut large = next(&mut random, LARGE_EVERY_MS);
        self.repeat(writer, |db| {
            let number = self.slots.floor()?.numbers[writer];
            let is_large = writer == 0 && Instant::now() >= large;
            match content::commit(db, writer, number, is_large) {
                Ok(()) => {
                    self.slots.set(writer, number + 1)?;
                    if is_large {
                        large = next(&mut random, LARGE_EVERY_MS);
                    }
                }
                Err(why) => {
                    let is_loss = why.starts_with("lost");
                    let what = format!("error commit {} of writer {writer}: ", number + 1);
                    self.say(format!("{}{why}", if is_loss { "" } else { &what }))?;
                    // A loss is said once, and a commit that was made in spite of its error counts.
                    let now = Seen::of(db).map_err(|why| format!("{what}{why}"))?.numbers[writer];
                    if is_loss || now > number {
                        self.slots.set(writer, now)?;
                    }
                }
            }
            self.pause(&mut random);
            Ok(())
        });
    }

    /// A reader in whose transaction nothing moves.
    fn hold_snapshots(&self) {
        let mut random = fastrand::Rng::with_seed(self.plan.seed);
        let mut begins = Instant::now();
        self.repeat(0, |db| {
            if Instant::now() < begins {
                std::thread::sleep(LOOK_EVERY);
                return Ok(());
            }
            let error = |why: rusqlite::Error| format!("error snapshot: {why}");
            let transaction = db.unchecked_transaction().map_err(error)?;
            let (begun, floor) = (Instant::now(), self.slots.floor()?);
            let first = Seen::of(db).map_err(error)?;
            if let Some(lacking) = first.lacks(&floor) {
                return Err(format!("stale snapshot: {lacking}"));
            }
            while begun.elapsed() < SNAPSHOT && self.phase() == Phase::Work {
                std::thread::sleep(LOOK_EVERY);
                let now = Seen::of(db).map_err(error)?;
                if now != first {
                    return Err(format!("stale snapshot: {first:?} moved to {now:?}"));
                }
            }
            transaction.commit().map_err(error)?;
            if !self.plan.tight {
                begins = next(&mut random, SNAPSHOTS_EVERY_MS);
            }
            self.slots.add_snapshot()
        });
    }

    /// A reader that must see whatever was acknowledged before, by the owner or by a visitor.
    fn look(&self) {
        self.repeat(0, |db| {
            let floor = self.slots.floor()?;
            let seen = Seen::of(db).map_err(|why| format!("error look: {why}"))?;
            if let Some(lacking) = seen.lacks(&floor) {
                return Err(format!("stale look: {lacking}"));
            }
            std::thread::sleep(if self.plan.tight { Duration::from_millis(1) } else { LOOK_EVERY / 2 });
            self.slots.add_look()
        });
    }

    /// Tells how often the state of the database has changed, before its last connection is closed.
    fn tell_changes(&self, db: &Connection) -> Result<(), String> {
        match db.query_row(CHANGES, [], |row| row.get::<_, i64>(0)) {
            Ok(changes) => self.say(format!("changes {changes}")),
            Err(_) => Ok(()),
        }
    }
}

fn next(random: &mut fastrand::Rng, every_ms: Range<u64>) -> Instant {
    Instant::now() + Duration::from_millis(random.u64(every_ms))
}

/// True if the directory has nothing of a database's owner beside it that stock SQLite does not know.
pub fn stock_sees_all(directory: &Path) -> bool {
    [DATABASE, SECOND].iter().all(|name| !directory.join(format!("{name}-commits")).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_understands_its_plan() {
        let plan = Plan {
            directory: PathBuf::from("/a b"),
            side: Side::Litefoot,
            journal: "persist",
            tight: true,
            seed: 7,
        };
        let read = Plan::parse(&plan.arguments()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{plan:?}"));
        for wrong in [&["/a", "Stock", "wal", "true"][..], &["/a", "Stock", "off", "true", "1"]] {
            let wrong: Vec<String> = wrong.iter().map(|&word| word.to_owned()).collect();
            assert!(Plan::parse(&wrong).is_none());
        }
    }
}
