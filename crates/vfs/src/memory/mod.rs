//! Memory: the budget of the process, reservations of it, files in memory and the nameless files behind them.

pub(crate) mod budget;
pub(crate) mod memory_file;
pub(crate) mod reservation;
pub(crate) mod spill_file;
