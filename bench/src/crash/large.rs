//! Transactions many times larger than the page cache, some of which change their mind.

use super::model::{self, Change, DATABASE, Rows};
use litefoot_sim::Random;
use rusqlite::{Connection, OpenFlags, ffi};
use std::time::Duration;

/// Ids that only these transactions use, so that each adds pages: apart from the others by that much.
const IDS: std::ops::Range<i64> = 200..260;

/// One such transaction; `rows` is what the database holds once it returns. With a log, another connection from `vfs`
/// reads and checkpoints meanwhile. Then the transaction may be one that nobody asks to be durable.
pub(super) fn transaction(
    db: &Connection,
    vfs: Option<&str>,
    random: &mut Random,
    rows: &mut Rows,
) -> rusqlite::Result<()> {
    let Some(vfs) = vfs else { return alone(db, &mut |_| Ok(()), random, rows) };
    let synchronous = ["off", "normal", "full"][random.below(3) as usize];
    db.execute_batch(&format!("PRAGMA synchronous={synchronous}"))?;
    let mut other = Observer::new(db, vfs, rows.clone())?;
    let mut meanwhile = |random: &mut Random| other.as_mut().map_or(Ok(()), |other| other.act(random));
    alone(db, &mut meanwhile, random, rows)?;
    if let Some(other) = other {
        other.end(rows)?;
    }
    // From here on it is acknowledged.
    db.execute_batch(&format!("PRAGMA synchronous=FULL; PRAGMA user_version={}", random.below(1 << 30)))
}

/// Another connection that looks on.
struct Observer {
    db: Connection,
    /// The rows that it must see until the transaction is over.
    before: Rows,
    reads: bool,
}

impl Observer {
    /// `None` where `db` has the database to itself.
    fn new(db: &Connection, vfs: &str, before: Rows) -> rusqlite::Result<Option<Observer>> {
        let mode: String = db.query_row("PRAGMA locking_mode", [], |row| row.get(0))?;
        if mode == "exclusive" {
            return Ok(None);
        }
        let db = Connection::open_with_flags_and_vfs(DATABASE, OpenFlags::default(), vfs)?;
        db.busy_timeout(Duration::ZERO)?;
        Ok(Some(Observer { db, before, reads: false }))
    }

    fn act(&mut self, random: &mut Random) -> rusqlite::Result<()> {
        match random.below(6) {
            0 => {
                if !self.reads {
                    self.db.execute_batch("BEGIN")?;
                    self.reads = true;
                }
                must_be(&self.db, &self.before)
            }
            1 => must_be(&self.db, &self.before),
            number @ 2..=4 => {
                let mode = ["PASSIVE", "FULL", "TRUNCATE"][number as usize - 2];
                // SQLite takes a checkpoint before the first read for done.
                must_be(&self.db, &self.before)?;
                match self.db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(())) {
                    Err(error) if is_locked(&error) => Ok(()),
                    done => done,
                }
            }
            _ => Ok(()),
        }
    }

    fn end(self, after: &Rows) -> rusqlite::Result<()> {
        if self.reads {
            must_be(&self.db, &self.before)?;
            self.db.execute_batch("COMMIT")?;
        }
        must_be(&self.db, after)
    }
}

fn is_locked(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::DatabaseLocked | rusqlite::ErrorCode::DatabaseBusy)
    )
}

fn must_be(db: &Connection, rows: &Rows) -> rusqlite::Result<()> {
    if model::read(db)? == *rows {
        return Ok(());
    }
    let what = "another connection reads something else than what was committed";
    Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), Some(what.to_owned())))
}

fn alone(
    db: &Connection,
    meanwhile: &mut dyn FnMut(&mut Random) -> rusqlite::Result<()>,
    random: &mut Random,
    rows: &mut Rows,
) -> rusqlite::Result<()> {
    let before = rows.clone();
    db.execute_batch("BEGIN")?;
    let count = 10 + random.below(30);
    put(db, random, rows, count)?;
    meanwhile(random)?;
    db.execute_batch("SAVEPOINT large")?;
    let saved = rows.clone();
    // Pages spilled before the savepoint are changed after it, and spilled once more.
    put(db, random, rows, 30)?;
    meanwhile(random)?;
    if random.one_in(2) {
        Change::UpdateAll(1).execute(db)?;
        Change::UpdateAll(1).apply(rows);
    }
    if random.one_in(2) {
        db.execute_batch("ROLLBACK TO large")?;
        *rows = saved;
        let count = random.below(20);
        put(db, random, rows, count)?;
    }
    meanwhile(random)?;
    match random.below(6) {
        0 => {
            *rows = before;
            return db.execute_batch("ROLLBACK");
        }
        // The database shrinks again, and its pages with it.
        1 => {
            let delete = Change::Delete(IDS.start, IDS.end);
            delete.execute(db)?;
            delete.apply(rows);
        }
        _ => {}
    }
    db.execute_batch("COMMIT")
}

fn put(db: &Connection, random: &mut Random, rows: &mut Rows, count: u64) -> rusqlite::Result<()> {
    for _ in 0..count {
        let id = IDS.start + random.below((IDS.end - IDS.start) as u64) as i64;
        let (byte, len) = (random.below(256) as u8, 500 + random.below(3500));
        let bytes = (0..len).map(|n| byte.wrapping_add((n % 241) as u8)).collect();
        let change = Change::Put(id, random.below(1000) as i64, bytes);
        change.execute(db)?;
        change.apply(rows);
    }
    Ok(())
}
