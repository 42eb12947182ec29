//! Memory: the budget of the process, reservations of it, files in memory and the nameless files behind them.

pub(crate) mod memory_file;
pub(crate) mod process_budget;
pub(crate) mod reservation;
pub(crate) mod spill_file;
