//! Changes as bytes: for SQLite's session extension, for people and scripts, for Kafka's connectors, for a thin line.
//!
//! | module | form |
//! |---|---|
//! | [`changeset`] | SQLite's changeset, which any SQLite with the session extension applies |
//! | [`json`] | a line of JSON for each change, and Debezium's envelope |
//! | [`batch`] | few bytes: columns of many rows, compressed |

pub mod batch;
pub mod changeset;
pub mod json;
