//! The laboratory: power cuts, and what is measured about litefoot.
//!
//! | module | holds |
//! |---|---|
//! | [`crash`] | the crash simulator |
//! | `random` | random statements, against stock SQLite |
//! | [`child`] | what the processes do that experiments kill |
//! | [`experiments`] | the experiments, by name |
//! | [`nand`] | a model of NAND flash and PRAM |
//! | [`options`] | what an experiment is run with |
//! | [`harness`] | what they share: sides that take turns, medians, percentiles, the environment |
//! | [`report`] | the figures, and the JSON that scripts read |
//! | [`page`] | the page with all figures, beside those of the papers |
//!
//! An experiment compares sides in one process run, on the same machine and disk, and interleaves them. It never
//! reports one side's best against another's worst: figures are medians over all rounds, ratios are medians of the
//! ratios within each round.

pub mod child;
pub mod crash;
mod error;
pub mod experiments;
pub mod harness;
pub mod nand;
pub mod options;
pub mod page;
mod random;
pub mod report;

pub use error::{Error, Result};
