//! The rows that differ between two versions of a SQLite database, derived from the pages that differ.
//!
//! # Why
//! Rows that are to be shipped have to be known. Triggers change the schema and add writes. SQLite's session extension is
//! missing from most builds, and wants a primary key. Pages are at hand in any storage layer, before and after. They are a
//! hundred times the bytes of their rows, so this crate takes the rows out of them.
//!
//! # What it promises
//! 1. The changes are those between the two versions of each table: inserted, deleted and updated rows, with their values
//!    before and after. A row that was rewritten with equal values is none.
//! 2. All of SQLite's page sizes and encodings, overflow chains, tables without rowids, auto-vacuum, VACUUM and ALTER TABLE.
//!    The schema is a table like the others.
//! 3. Any bytes may come in. Pages that SQLite would not have written are an error, never a wrong row, as far as that shows:
//!    a changed byte within a value does not.
//!
//! # What it does not do
//! It reads no file: the caller gives pages of two snapshots. Virtual generated columns have no values. Invalid UTF-16 becomes
//! U+FFFD. The rows of a table without rowids whose pages have changed are in memory while they are compared.
//!
//! ```
//! use litefoot_rowdiff::{Change, Changed, Collect, Map, Pages};
//!
//! /// A database file in memory.
//! struct File(Vec<u8>);
//!
//! impl Pages for File {
//!     fn page_bytes(&self) -> usize {
//!         4096
//!     }
//!     fn count(&self) -> u32 {
//!         (self.0.len() / 4096) as u32
//!     }
//!     fn read(&self, number: u32, page: &mut [u8]) -> Result<(), litefoot_rowdiff::Failure> {
//!         page.copy_from_slice(&self.0[(number as usize - 1) * 4096..][..4096]);
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut database = rusqlite::Connection::open_in_memory()?;
//! database.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES (1, 'one'), (2, 'two')")?;
//! let before = File(database.serialize("main")?.to_vec());
//! database.execute("UPDATE t SET b = 'zwei' WHERE a = 2", [])?;
//! let after = File(database.serialize("main")?.to_vec());
//!
//! let mut map = Map::of(&before)?;
//! let mut changes = Collect::default();
//! let step = map.diff(&before, &after, &Changed::Pages(&[1, 2]), &mut changes)?;
//! map.apply(step);
//! let Change::Update { before, after } = &changes.tables[0].changes[0] else { panic!() };
//! assert_eq!((&before.values[1], &after.values[1]), (&"two".into(), &"zwei".into()));
//! # Ok(())
//! # }
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `pages` | a version: its pages, its header |
//! | `tree` | pages of b-trees, walks, overflow chains |
//! | `record` | records and rows |
//! | `schema` | tables and columns, out of CREATE TABLE |
//! | `map` | where each page belongs |
//! | `diff` | tables in pairs, their changed pages |
//! | `rows` | the rows on these pages, compared |
//! | `visitor` | changes as they are told |
//! | [`encode`] | changes as bytes |

mod diff;
pub mod encode;
mod error;
mod map;
mod pages;
mod record;
mod rows;
mod schema;
mod tree;
mod value;
mod visitor;

pub use diff::Changed;
pub use error::{Error, Failure, Result, Side};
pub use map::{Map, Step};
pub use pages::{Empty, Pages};
pub use record::Row;
pub use schema::{Affinity, Column, Key, Table};
pub use value::Value;
pub use visitor::{Change, Collect, Rowids, Rows, TableChanges, TablePair, Visitor};
