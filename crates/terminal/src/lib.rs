//! The terminal side of litefoot's programs: errors, tables, progress bars, signals.
//!
//! | module | decides |
//! |---|---|
//! | [`failure`] | how an error reads and which exit code it has |
//! | [`output`] | standard output |
//! | [`table`] | aligned tables |
//! | [`text`] | control characters, numbers and times as people read them |
//! | [`progress`] | bars on the terminal, gone when the work is done |
//! | [`interrupt`] | Ctrl-C and SIGTERM |
//! | [`child`] | how a program is run and waited for |
//! | [`installed`] | where the library and the programs lie |
//!
//! # Invariants
//! 1. Only [`output`] writes to standard output, only [`failure`] and [`progress`] to standard error.
//! 2. A reader that goes away (`litefoot sql … | head`) ends the program quietly, databases closed.
//! 3. The first Ctrl-C asks the running command to stop and clean up; the second one does not ask.

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod child;
pub mod failure;
pub mod installed;
pub mod interrupt;
pub mod output;
pub mod progress;
pub mod table;
pub mod text;

pub use failure::Failure;
