//! The buffer pool under SQLite: whatever happens at the same time, everybody sees what was committed.

#![allow(clippy::unwrap_used)]

mod corrupt;
mod faults;
#[path = "../support/mod.rs"]
mod hooked;
mod making;
mod model;
mod pins;
mod pragmas;
mod process;
mod stress;
mod support;
mod sweeps;
mod writer;
