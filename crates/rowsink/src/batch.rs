//! A batch of rows, and what a destination does with it.

use crate::Result;
use litefoot_rowdiff::TableChanges;
use serde::{Deserialize, Serialize};

/// The database that changes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The device's own number, drawn at random.
    pub source: [u8; 16],
    /// Raised where the database was restored, or the device copied.
    pub epoch: u64,
}

impl Origin {
    /// The source as people write a UUID.
    pub fn source_text(&self) -> String {
        let hex: String = self.source.iter().map(|byte| format!("{byte:02x}")).collect();
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }
}

/// The last batch that a destination has taken of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The epoch that it was of.
    pub epoch: u64,
    /// Its number, from 1 on.
    pub sequence: u64,
    /// Its [`Batch::token`].
    pub token: u64,
}

/// What a batch has of the transactions between its two moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// It is one of them, and was committed when the batch was made.
    Transaction,
    /// It may be several. What a later one has overwritten is not in it.
    Several,
}

impl History {
    /// Its name in lines.
    pub fn name(self) -> &'static str {
        match self {
            History::Transaction => "one",
            History::Several => "several",
        }
    }
}

/// The changes between two moments of a database.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The database.
    pub origin: Origin,
    /// Its number, one more than that of the batch before.
    pub sequence: u64,
    /// Drawn at random for this batch: copies of a device send batches of one number, and these are told apart.
    pub token: u64,
    /// When it was made, in milliseconds since 1970.
    pub time_ms: u64,
    /// True where it has all rows, and replaces what the destination has of the source.
    pub is_whole: bool,
    /// What it is in a history of the database; `None` where nobody wants one.
    pub history: Option<History>,
    /// The changed tables.
    pub tables: Vec<TableChanges>,
}

impl Batch {
    /// Where a destination stands that has taken it.
    pub fn position(&self) -> Position {
        Position { epoch: self.origin.epoch, sequence: self.sequence, token: self.token }
    }

    /// The number of changed rows.
    pub fn rows(&self) -> usize {
        self.tables.iter().map(|table| table.changes.len()).sum()
    }
}

/// A table that is left out, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    /// The name of the table.
    pub table: String,
    /// The reason, and what to do.
    pub why: String,
}

impl std::fmt::Display for Parked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "table {} is parked: {}", self.table, self.why)
    }
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was taken.
    Done {
        /// Bytes that were sent, about.
        bytes: u64,
        /// Tables of which it was not taken.
        parked: Vec<Parked>,
    },
    /// Nothing of it was taken: the destination stands elsewhere.
    NotNext(Option<Position>),
}

/// A place that takes rows.
pub trait Destination: Send {
    /// Its name for people, without secrets.
    fn place(&self) -> &str;

    /// False where it has to know each row that goes: a batch may have no [ranges](TableChanges::forgotten) then, and all rows in place of these.
    fn takes_ranges(&self) -> bool {
        true
    }

    /// Where it stands with a source; `None` where it knows nothing of it.
    ///
    /// # Errors
    /// The place does not answer, or refuses.
    fn position(&mut self, origin: &Origin) -> Result<Option<Position>>;

    /// Takes a batch, whole or not at all, if it is the one behind its position.
    ///
    /// # Errors
    /// It is unknown whether the batch was taken: [`Destination::position`] tells.
    fn apply(&mut self, batch: &Batch) -> Result<Applied>;
}
