//! Sensor readings with rusqlite: `litefoot::Connection` derefs to `rusqlite::Connection`.

use litefoot::rusqlite::{Transaction, TransactionBehavior, params};

fn store(tx: &Transaction<'_>, minute: u32) -> litefoot::rusqlite::Result<()> {
    let mut insert = tx.prepare_cached("INSERT INTO reading VALUES (?1, ?2, ?3)")?;
    let at = 1_772_323_200_i64 + 60 * i64::from(minute);
    insert.execute(params![at, "hall", 20.0 + f64::from(minute % 60) / 10.0])?;
    insert.execute(params![at, "yard", 5.0 + f64::from(minute % 40) / 10.0])?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut db = litefoot::Connection::open("readings.db")?;
    db.execute_batch(
        "PRAGMA journal_mode = WAL;
         CREATE TABLE IF NOT EXISTS reading(at INTEGER, sensor TEXT, celsius REAL);",
    )?;
    for minute in 0..500 {
        let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        store(&tx, minute)?;
        tx.commit()?;
    }

    let hall: f64 =
        db.query_row("SELECT avg(celsius) FROM reading WHERE sensor = 'hall'", [], |row| row.get(0))?;
    let rows: i64 = db.query_row("SELECT count(*) FROM reading", [], |row| row.get(0))?;
    let commits = "SELECT sum(value) FROM litefoot_stats WHERE name LIKE 'commits_%'";
    let commits: i64 = db.query_row(commits, [], |row| row.get(0))?;
    println!("hall {hall:.2}");
    println!("{rows} rows, {commits} commits by litefoot");
    Ok(())
}
