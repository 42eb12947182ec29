//! Transactions many times larger than the page cache, some of which change their mind.

use super::model::{Change, Rows};
use litefoot_engine::device::sim::Random;
use rusqlite::Connection;

/// Ids that only these transactions use, so that each adds pages: apart from the others by that much.
const IDS: std::ops::Range<i64> = 200..260;

/// One such transaction; `rows` is what the database holds once it returns.
pub(super) fn transaction(db: &Connection, random: &mut Random, rows: &mut Rows) -> rusqlite::Result<()> {
    let before = rows.clone();
    db.execute_batch("BEGIN")?;
    let count = 10 + random.below(30);
    put(db, random, rows, count)?;
    db.execute_batch("SAVEPOINT large")?;
    let saved = rows.clone();
    // What was written away before the savepoint is changed after it, and written away once more.
    put(db, random, rows, 30)?;
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
