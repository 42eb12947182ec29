//! Transactions that are larger than the memory for them.
//!
//! Each has a medium of its own and a fixed memory (`write_buffer_size`), so that tests that run at the same time
//! change nothing for each other. The tests of the process's memory are a program of their own (`large_memory`).

#![allow(clippy::unwrap_used)]

mod checkpoint;
mod cuts;
mod full;
#[path = "../support/mod.rs"]
mod hooked;
mod log;
mod slots;
mod support;
mod transaction;
mod written;
