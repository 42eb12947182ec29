//! Media that simulate, count and model.
//!
//! # Why
//! A promise about power cuts, writes or times is as good as its tests. Every file operation of litefoot passes
//! [`Medium`](litefoot_storage::file::Medium) and [`File`](litefoot_storage::file::File), so a medium of this crate
//! sees all of them.
//!
//! | module | holds |
//! |---|---|
//! | `simulated` | a medium in memory that loses power and fails on demand |
//! | `counting` | a medium that counts what passes to the one beneath it |
//! | `modelled` | a medium that says how long its operations would take on other devices |
//!
//! # Invariant
//! Modules name each other by `super`, never by `crate`: the unit tests of `litefoot-storage` compile them as a part
//! of that crate.

mod counting;
mod modelled;
mod simulated;

pub use counting::{CountingMedium, Counts, Snapshot};
pub use modelled::{DEVICES, Device, DeviceModel, METADATA_BYTES, ModelledMedium, Parameter, Source};
pub use simulated::{Faults, Random, Replay, SimMedium, SyncSite};

/// The examples of `README.md` run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
