//! The databases, and what the applications do with them.
//!
//! # The paper's four applications
//! From the schemas of Android 2.2 in outline. Every statement is one that the application makes; how often each is
//! made is our guess, since the paper tells nothing of it. Android 2.2 had pages of 1,024 bytes (SQLite's default then),
//! rollback journals that are deleted, `synchronous=FULL`, and was built with `SQLITE_DEFAULT_AUTOVACUUM=1`.
//!
//! # Published mixes
//! [`key_value`] has workloads whose mix and skew others have published. They stand beside the paper's applications,
//! and count in none of the paper's figures.

mod alarms;
mod browser;
mod key_value;
mod messages;
mod phone_book;

use rusqlite::{Connection, Result};

/// A database, and how it is used.
#[derive(Clone, Copy)]
pub struct App {
    /// The file's name, in lower case and without its ending.
    pub name: &'static str,
    /// The application that the paper adds it to; `None` for a published mix.
    pub application: Option<&'static str>,
    pub schema: &'static str,
    /// Fills the database; within one transaction.
    pub prepare: fn(&Connection, &mut Values) -> Result<()>,
    /// One write transaction.
    pub transact: fn(&Connection, &mut Values) -> Result<()>,
}

impl App {
    /// True for a database of the paper's.
    pub fn is_of_the_paper(&self) -> bool {
        self.application.is_some()
    }
}

/// All of them, those of the paper first.
pub const APPS: [App; 8] = [
    browser::WEBVIEW,
    browser::CACHE,
    browser::ICONS,
    messages::MESSAGES,
    phone_book::CONTACTS,
    alarms::ALARMS,
    key_value::YCSB_A,
    key_value::YCSB_D,
];

/// So many of the first are those of the paper's figure 2.
pub const FIGURE_2: usize = 5;

/// The applications, in the order of the paper.
pub const APPLICATIONS: [&str; 4] = ["browser", "messages", "phone_book", "alarm"];

/// Seeded values.
pub struct Values {
    random: fastrand::Rng,
    /// The time, in milliseconds; it goes on with every transaction.
    pub now: i64,
}

impl Values {
    pub fn new(seed: u64) -> Values {
        Values { random: fastrand::Rng::with_seed(seed), now: 1_280_000_000_000 }
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: i64) -> i64 {
        self.random.i64(0..bound.max(1))
    }

    /// One below `bound`, of which low ones are more frequent: half of them in the lowest eighth.
    pub fn often_low(&mut self, bound: i64) -> i64 {
        let share = self.random.f64();
        ((share * share * share * bound as f64) as i64).min(bound - 1).max(0)
    }

    /// A number from 0 to below 1.
    pub fn share(&mut self) -> f64 {
        self.random.f64()
    }

    pub fn one_in(&mut self, n: i64) -> bool {
        self.below(n) == 0
    }

    /// Lower-case letters.
    pub fn word(&mut self, least: usize, most: usize) -> String {
        let len = self.random.usize(least..=most);
        (0..len).map(|_| self.random.lowercase()).collect()
    }

    /// Some words.
    pub fn text(&mut self, words: usize) -> String {
        (0..words).map(|_| self.word(2, 9)).collect::<Vec<_>>().join(" ")
    }

    pub fn number(&mut self) -> String {
        format!("+8242{:07}", self.below(10_000_000))
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.random.u8(..)).collect()
    }

    /// The time of the next thing that happens.
    pub fn later(&mut self) -> i64 {
        self.now += 1000 + self.below(600_000);
        self.now
    }
}

/// Does one thing as a transaction of its own.
pub fn in_transaction(db: &Connection, work: impl FnOnce() -> Result<()>) -> Result<()> {
    db.prepare_cached("BEGIN")?.execute([])?;
    work()?;
    db.prepare_cached("COMMIT")?.execute([]).map(drop)
}

/// The one integer that a query answers with; 0 for none.
pub fn integer(db: &Connection, sql: &str) -> Result<i64> {
    db.prepare_cached(sql)?.query_row([], |row| row.get::<_, Option<i64>>(0)).map(Option::unwrap_or_default)
}
