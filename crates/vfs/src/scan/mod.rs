//! Parallel scans: one SELECT over one table, answered from the table's leaves by all cores.
//!
//! # Why
//! SQLite runs a statement on one core. It decodes, filters and adds up the rows of a table one by one. The leaves of a
//! table's b-tree do not depend on each other, and an aggregate over them can be computed in parts.
//!
//! # The form
//! `SELECT c1, c2 FROM litefoot_scan('SELECT city, count(*) FROM t WHERE x > ?1 GROUP BY city', 10)`: the statement as
//! text, and its parameters. A statement is what users have already, it can be tried without the function, and its words
//! name all that is asked. A filter, aggregates and group in arguments of their own would need a second language.
//! SQLite fixes the columns of a function before it sees the arguments, so their names are `c1`, `c2` and so on. ORDER BY,
//! LIMIT and joins stay around the function, where SQLite runs them over its few rows.
//!
//! # Promises
//! 1. The rows are those of SQLite for the same text in the same transaction. Sums of reals may differ in the last bits,
//!    since their order of addition does.
//! 2. A construct that is not understood is an error that names it.
//! 3. This code gives no answer that might not be SQLite's: SQLite runs the statement then, on the same
//!    connection. The column `plan` says which of the two it was, and why.
//!
//! # Invariants
//! 1. Pages are read while the connection is inside a read transaction, and are those of its snapshot.
//! 2. SQLite prepares the text first. So its errors are SQLite's, and the application's authorizer is asked.
//! 3. Where columns lie is SQLite's own knowledge (`probe`), as of the snapshot.
//! 4. The bytes of a page may be anything: every look is bounds-checked, and what is odd is left to SQLite.
//!
//! The operators of `crates/pagestore` serve pages of its own form, pinned in its pool. A scan here reads runs of pages
//! past the pool, which a single pass over a large table would empty.
//!
//! | file | holds |
//! |---|---|
//! | `litefoot_format::words` | the text as words |
//! | `query` | the statement as it was written |
//! | `probe` | where SQLite finds the columns |
//! | `plan` | the statement as it is run |
//! | `filter` | the condition of WHERE |
//! | `value` | values, their order and their equality |
//! | `headers` | headers of records that were met before |
//! | `record` | leaves, cells and records |
//! | `aggregate` | count, sum, avg, total, min and max |
//! | `groups` | the groups of one thread |
//! | `tree` | the b-tree as pieces of work |
//! | `workers` | the threads |

mod aggregate;
mod filter;
mod groups;
mod headers;
mod plan;
mod probe;
mod query;
mod record;
mod run;
mod tree;
mod value;
mod workers;

pub(crate) use run::prepare;
pub(crate) use tree::PageReader;
