//! Beyond one machine: what changed in a database, to places where somebody needs it.
//!
//! # Why
//! A database must survive its machine, and a fleet's data must arrive at a centre. Both need the same: what changed since the last time, as
//! one moment of the database, read beside the application that writes it.
//!
//! # What it promises
//! 1. **The application never waits for the network.** Locks are held while pages are read, and never while they are delivered.
//! 2. **Whole transactions, in order.** Each delivery leads from one committed state of the database to a later one.
//! 3. **The database is its own outbox.** Nothing is queued: where a destination was away, the next delivery has all that changed meanwhile.
//! 4. **Nothing when nothing changes**: no file is opened, and nothing is sent.
//!
//! | room | decides |
//! |---|---|
//! | [`source`] | which pages changed, and how they are read beside a running application |
//! | [`sink`] | what a destination has to do |
//! | [`store`] | directories and buckets: named files that are written once |
//! | [`backup`] | deliveries as LTX files, which Litestream restores as well |
//! | [`rows`] | deliveries as changed rows |
//! | [`collect`] | rows of many devices, into one database |
//! | [`restore`] | from those files to a database |
//! | [`follow`] | a copy that keeps up with them |
//! | [`compact`] | few files instead of many, and what may go |
//! | [`destination`], [`credentials`], [`jobs`] | what a URL means, and who asks; what is shipped where |
//! | [`resync`] | what begins anew, whatever the destination has |
//! | [`service`] | when the next look is, and what a failure means |

pub mod backup;
pub mod collect;
pub mod compact;
pub mod credentials;
pub mod destination;
pub mod error;
pub mod follow;
pub mod jobs;
pub mod restore;
pub mod resync;
pub mod rows;
pub mod service;
pub mod sink;
pub mod source;
pub mod store;
pub mod time;

pub use error::{Error, Result};
