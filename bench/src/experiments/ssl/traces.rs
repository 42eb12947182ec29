//! The transactions: as many, as long and on as many files as the paper's table says, in seeded order.

use litefoot_sim::Random;
use rusqlite::Connection;

/// One column of the paper's table.
pub struct Trace {
    pub name: &'static str,
    pub files: usize,
    pub batch: u64,
    pub auto: u64,
    /// Statements in all batches together; an automatic transaction has one.
    pub batch_statements: u64,
    /// Bytes of SQL in a transaction.
    pub bytes: u64,
    /// True if most statements change rows rather than add them.
    pub updates: bool,
}

pub const TRACES: [Trace; 6] = [
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

/// Rows that are there before a trace of updates.
const ROWS: u64 = 500;
pub const SCHEMA: &str = "CREATE TABLE item(id INTEGER PRIMARY KEY, sender INTEGER, at INTEGER, body TEXT);
     CREATE INDEX item_at ON item(at); CREATE INDEX item_sender ON item(sender);";
pub const INSERT: &str = "INSERT INTO item(sender, at, body) VALUES(?1, ?2, ?3)";
const UPDATE: &str = "UPDATE item SET body = ?3 WHERE id = ?2 AND ?1 >= 0";

impl Trace {
    /// The rows that are in a file before the trace.
    pub fn rows_before(&self) -> Vec<Row> {
        let rows = if self.updates { ROWS as i64 } else { 0 };
        (0..rows).map(|row| (row, row, "before".repeat(60))).collect()
    }
}

/// A row: sender, time, text.
pub type Row = (i64, i64, String);

/// A statement: what it inserts, or the id of the row it changes and its new text.
pub struct Statement {
    sender: i64,
    number: i64,
    text: String,
}

/// A transaction: the file, whether it has a `BEGIN`, and its statements.
pub struct Transaction {
    pub file: usize,
    batch: bool,
    statements: Vec<Statement>,
}

/// All of a trace, made before the clock runs, and the rows that each file must have afterwards.
pub struct Plan {
    pub transactions: Vec<Transaction>,
    pub expected: Vec<Vec<Row>>,
}

impl Plan {
    /// One part in so many of the trace's transactions.
    pub fn new(trace: &Trace, part: u64, seed: u64) -> Plan {
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

impl Transaction {
    pub fn run(&self, trace: &Trace, db: &Connection) -> rusqlite::Result<()> {
        if self.batch {
            db.prepare_cached("BEGIN")?.execute([])?;
        }
        self.statements.iter().try_for_each(|statement| statement.run(trace, db))?;
        if self.batch {
            db.prepare_cached("COMMIT")?.execute([])?;
        }
        Ok(())
    }
}

impl Statement {
    /// One that takes about `bytes`.
    pub fn new(trace: &Trace, bytes: u64, random: &mut Random) -> Statement {
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

    pub fn run(&self, trace: &Trace, db: &Connection) -> rusqlite::Result<()> {
        let sql = if trace.updates { UPDATE } else { INSERT };
        db.prepare_cached(sql)?.execute((self.sender, self.number, &self.text)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
