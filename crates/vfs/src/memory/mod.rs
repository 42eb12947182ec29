//! Memory: the process budget, reservations of it, files in memory and the nameless files behind them.
//!
//! ```text
//! memory_file     bytes of a file, in memory as long as they are few
//! sqlite_cache    what SQLite's own cache counts
//! reservation     memory that must not be lost, taken from the budget
//! process_budget  what all databases of the process share
//! spill_file      the nameless file for what does not fit
//! ```

pub(crate) mod memory_file;
pub(crate) mod process_budget;
pub(crate) mod reservation;
pub(crate) mod spill_file;
pub(crate) mod sqlite_cache;
