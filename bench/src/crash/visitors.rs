//! Visitors of a run: stock SQLite opens the database while the application has it open.
//!
//! The visitor is a second, pass-through VFS over the same medium: another process, as far as the medium can tell. It stays for
//! a few transactions of the application's, reads, and commits transactions of its own. Each visit takes the database over to
//! SQLite's own protocol, and the application's first transaction after it takes it back. A cut hits all of that.
//!
//! In every other visit a connection of the application's reads when the visitor comes. In WAL mode commits follow before that, and
//! its snapshot stays for as long as the visitor does. In the other modes nobody could commit beside it. A database with a tier waits
//! until nobody reads: there nobody does.

use super::model::{Change, DATABASE, Rows, read};
use super::workload::{Journal, change, vfs_over};
use litefoot_sim::{Random, SimMedium};
use rusqlite::Connection;

/// One of so many transactions has a visitor come before it.
const VISIT_IN: u64 = 4;
/// The transactions of the application's that a visitor stays for, at most.
const STAYS_FOR: u64 = 4;

/// The visitors of one run.
pub(super) struct Visitors {
    vfs: litefoot::Vfs,
    journal: Journal,
    /// True if connections of the application's may read when a visitor comes.
    reads: bool,
    guest: Option<Guest>,
    snapshot: Option<Snapshot>,
}

struct Guest {
    db: Connection,
    /// Transactions until it leaves.
    stays: u64,
}

/// A connection of the application's in a transaction that reads, and what it has seen.
struct Snapshot {
    db: Connection,
    rows: Rows,
}

fn open(vfs: &str) -> rusqlite::Result<Connection> {
    Connection::open_with_flags_and_vfs(DATABASE, rusqlite::OpenFlags::default(), vfs)
}

/// Reads everything, and compares it with what must be there.
fn look(who: &str, db: &Connection, rows: &Rows) -> rusqlite::Result<()> {
    let seen = read(db)?;
    if seen == *rows {
        return Ok(());
    }
    let what = format!("{who} sees {} rows that are not the {} committed", seen.len(), rows.len());
    Err(rusqlite::Error::ToSqlConversionFailure(what.into()))
}

impl Visitors {
    pub(super) fn new(medium: &SimMedium, journal: Journal, reads: bool) -> Result<Visitors, String> {
        let vfs = vfs_over(medium, true, litefoot::Options::default())?;
        Ok(Visitors { vfs, journal, reads, guest: None, snapshot: None })
    }

    /// Comes, does something, or leaves, before a transaction of the application's, whose VFS this is. Answers whether a visitor is
    /// there, or is about to come.
    pub(super) fn step(&mut self, vfs: &str, random: &mut Random, rows: &mut Rows) -> rusqlite::Result<bool> {
        match &mut self.guest {
            Some(guest) if guest.stays == 0 => {
                self.end_snapshot()?;
                self.guest = None;
            }
            Some(guest) => {
                guest.stays -= 1;
                look("a visitor", &guest.db, rows)?;
                guest.write(random, rows)?;
                self.snapshot.as_ref().map_or(Ok(()), Snapshot::look)?;
            }
            None if self.snapshot.is_some() => self.come(random, rows)?,
            None if random.one_in(VISIT_IN) => {
                let reads = self.reads && random.one_in(2);
                if reads {
                    self.snapshot = Some(Snapshot::begin(vfs, rows)?);
                }
                if reads && self.journal == Journal::Wal {
                    return Ok(true);
                }
                self.come(random, rows)?;
            }
            None => {}
        }
        Ok(self.guest.is_some())
    }

    fn come(&mut self, random: &mut Random, rows: &mut Rows) -> rusqlite::Result<()> {
        let mut guest = Guest { db: open(self.vfs.name())?, stays: random.below(STAYS_FOR) };
        // Below that SQLite does not make the end of its journal durable.
        guest.db.execute_batch("PRAGMA synchronous=EXTRA")?;
        look("a visitor", &guest.db, rows)?;
        if self.journal != Journal::Wal {
            self.end_snapshot()?;
        }
        guest.write(random, rows)?;
        self.guest = Some(guest);
        self.snapshot.as_ref().map_or(Ok(()), Snapshot::look)
    }

    fn end_snapshot(&mut self) -> rusqlite::Result<()> {
        match self.snapshot.take() {
            Some(snapshot) => snapshot.look().and_then(|()| snapshot.db.execute_batch("COMMIT")),
            None => Ok(()),
        }
    }
}

impl Snapshot {
    fn begin(vfs: &str, rows: &Rows) -> rusqlite::Result<Snapshot> {
        let snapshot = Snapshot { db: open(vfs)?, rows: rows.clone() };
        snapshot.db.execute_batch("PRAGMA cache_size=10; BEGIN")?;
        snapshot.look().map(|()| snapshot)
    }

    fn look(&self) -> rusqlite::Result<()> {
        look("a snapshot", &self.db, &self.rows)
    }
}

impl Guest {
    /// Makes a transaction perhaps.
    fn write(&mut self, random: &mut Random, rows: &mut Rows) -> rusqlite::Result<()> {
        if random.one_in(2) {
            self.db.execute_batch("BEGIN IMMEDIATE")?;
            for _ in 0..1 + random.below(3) {
                change(&self.db, random, rows)?;
            }
            self.db.execute_batch("COMMIT")?;
        }
        Ok(())
    }
}

/// A transaction of the application's beside a visitor.
pub(super) fn beside(db: &Connection, random: &mut Random, rows: &mut Rows) -> rusqlite::Result<()> {
    let undone = random.one_in(4);
    let mut after = rows.clone();
    db.execute_batch("BEGIN")?;
    for _ in 0..1 + random.below(4) {
        let change = Change::random(random);
        change.execute(db)?;
        change.apply(&mut after);
    }
    db.execute_batch(if undone { "ROLLBACK" } else { "COMMIT" })?;
    if !undone {
        *rows = after;
    }
    if read(db)? == *rows { Ok(()) } else { Err(rusqlite::Error::InvalidQuery) }
}
