//! The harness: parts that experiments share.

mod batches;
pub mod child;
mod cold;
pub mod committer;
mod compiler;
pub(crate) mod device;
pub mod each_point;
mod environment;
mod latency;
mod processor;
mod progress;
mod rounds;
mod sqlite;
pub(crate) mod told;
pub(crate) mod tracer;

pub use batches::{Batch, in_batches};
pub use cold::make_cold;
pub use compiler::{compile, compiler, program};
pub use environment::Environment;
pub use latency::Latencies;
pub use processor::{process_cpu, thread_cpu};
pub use progress::{Progress, Silent};
pub use rounds::{MIN_ROUNDS, interleave, median, median_ratio, take_turns, turns};
pub use sqlite::{open_stock, vfs_name};
