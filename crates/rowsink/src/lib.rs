//! Destinations of changed rows: each batch arrives once, whole.
//!
//! # Why a crate of its own
//! Nothing that is loaded into applications depends on it: a runtime, sockets and drivers of databases stay outside of them.
//!
//! # Exactly once
//! A batch has a number. The destination notes that number in the transaction in which it takes the rows, and takes the batch that follows its
//! number, and no other. Where an answer is lost, [`Destination::position`] tells whether the batch has arrived. [`deliver`] does both.
//!
//! | file | decides |
//! |---|---|
//! | `batch` | a batch, and what a destination does with it |
//! | `deliver` | until a batch has arrived, and when somebody else delivers |
//! | [`lines`] | lines of JSON, to standard output or into a directory |
//! | [`postgres`] | tables of PostgreSQL |
//! | [`collect`] | a collector, which takes batches of many devices into PostgreSQL |
//! | `nats` | a stream of NATS JetStream; with the feature of this name |
//! | `line` | how a line is protected |
//! | `tls` | encrypted lines; with the feature of this name |
//! | `error` | what can go wrong, by what is to be done about it |

mod batch;
pub mod collect;
mod deliver;
mod error;
mod line;
pub mod lines;
#[cfg(feature = "nats")]
pub mod nats;
pub mod postgres;
#[cfg(feature = "tls")]
mod tls;

pub use batch::{Applied, Batch, Destination, History, Origin, Parked, Position};
pub use deliver::{Arrived, deliver};
pub use error::{Error, Result};
