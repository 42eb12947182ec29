//! One open database: what ties its rooms together, from the first open to the last close.

pub(crate) mod capture_host;
pub(crate) mod checkpointer;
pub mod database;
mod export_sql;
pub mod log_inspect;
pub(crate) mod recovery;
pub mod registry;
pub mod replay;
pub mod tier;
