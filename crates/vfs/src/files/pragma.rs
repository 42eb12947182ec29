//! `PRAGMA litefoot_*`: options and figures of the database at hand.
//!
//! SQLite lets a VFS answer a PRAGMA with one text. Tables are therefore printed one row a line with `|`
//! between the columns, which is what the `sqlite3` shell prints for a table. `shim/tables/stats.rs` has the rows.

use crate::error::{Error, Result};
use crate::open::OpenDatabase;
use std::fmt::Write as _;

/// The answer to `PRAGMA litefoot_<name>`.
pub(crate) fn answer(database: &OpenDatabase, name: &str, value: Option<&str>) -> Result<String> {
    match name {
        "stats" => Ok(table(&database.stats())),
        "buffer_pool_size" if value.is_none() => Ok(table(&pool_rows(database))),
        "version" => Ok(env!("CARGO_PKG_VERSION").to_owned()),
        _ => option(database, name, value),
    }
}

fn option(database: &OpenDatabase, name: &str, value: Option<&str>) -> Result<String> {
    let options = database.db().options();
    match (options.get(name), value) {
        (Some(current), None) => Ok(current),
        (Some(_), Some(_)) => Err(Error::Refused(format!(
            "litefoot_{name} is fixed while the database is open: set it when opening, \
             file:{}?vfs=litefoot&{name}=…",
            database.db().path().display()
        ))),
        (None, _) => Err(Error::Refused(format!(
            "unknown PRAGMA litefoot_{name}; there are stats, pool, version and the options {}",
            crate::options::Options::names()
        ))),
    }
}

/// The figures of the pool.
fn pool_rows(database: &OpenDatabase) -> Vec<(String, i64)> {
    let rows = database.stats().into_iter();
    rows.filter_map(|(name, value)| Some((name.strip_prefix("pool.")?.to_owned(), value))).collect()
}

fn table(rows: &[(String, i64)]) -> String {
    let mut text = String::new();
    for (name, value) in rows {
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = write!(text, "{name}|{value}");
    }
    text
}
