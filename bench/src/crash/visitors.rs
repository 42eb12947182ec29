//! Visitors of a run: stock SQLite opens the database while the application has it open.
//!
//! The visitor is a second, pass-through VFS over the same medium: another process, as far as the medium can tell. It stays for
//! a few transactions of the application's, reads, and commits transactions of its own. Each visit takes the database over to
//! SQLite's own protocol, and the application's first transaction after it takes it back. A cut hits all of that.

use super::model::{Change, DATABASE, Rows, read};
use super::workload::{change, vfs_over};
use litefoot_sim::{Random, SimMedium};
use rusqlite::Connection;

/// One of so many transactions has a visitor come before it.
const VISIT_IN: u64 = 4;
/// The transactions of the application's that a visitor stays for, at most.
const STAYS_FOR: u64 = 4;

/// The visitors of one run.
pub(super) struct Visitors {
    vfs: litefoot::Vfs,
    guest: Option<Guest>,
}

struct Guest {
    db: Connection,
    /// Transactions until it leaves.
    stays: u64,
}

impl Visitors {
    pub(super) fn new(medium: &SimMedium) -> Result<Visitors, String> {
        Ok(Visitors { vfs: vfs_over(medium, true, litefoot::Options::default())?, guest: None })
    }

    /// Comes, does something, or leaves, before a transaction of the application's. Answers whether a visitor is there.
    pub(super) fn step(&mut self, random: &mut Random, rows: &mut Rows) -> rusqlite::Result<bool> {
        match &mut self.guest {
            Some(guest) if guest.stays == 0 => self.guest = None,
            Some(guest) => {
                guest.stays -= 1;
                guest.act(random, rows)?;
            }
            None if random.one_in(VISIT_IN) => {
                let db = Connection::open_with_flags_and_vfs(
                    DATABASE,
                    rusqlite::OpenFlags::default(),
                    self.vfs.name(),
                )?;
                // Below that SQLite does not make the end of its journal durable.
                db.execute_batch("PRAGMA synchronous=EXTRA")?;
                let mut guest = Guest { db, stays: random.below(STAYS_FOR) };
                guest.act(random, rows)?;
                self.guest = Some(guest);
            }
            None => {}
        }
        Ok(self.guest.is_some())
    }
}

impl Guest {
    /// Reads everything, and makes a transaction perhaps.
    fn act(&mut self, random: &mut Random, rows: &mut Rows) -> rusqlite::Result<()> {
        let seen = read(&self.db)?;
        if seen != *rows {
            let what =
                format!("a visitor sees {} rows that are not the {} committed", seen.len(), rows.len());
            return Err(rusqlite::Error::ToSqlConversionFailure(what.into()));
        }
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
