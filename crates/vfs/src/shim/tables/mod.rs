//! Table-valued functions: the figures of a database as rows.
//!
//! | function | rows |
//! |---|---|
//! | `litefoot_stats`, or `pragma_litefoot_stats` | `name`, `value`: what `PRAGMA litefoot_stats` prints as text; none where the database is not on litefoot |
//! | `litefoot_scan(statement, …)` | those of a SELECT over one table, by all cores |
//!
//! Every connection has the functions, whatever its VFS. They cannot be used in views, triggers or other parts of a
//! schema.

mod scan;
mod stats;

use crate::ffi::Sqlite3;
use crate::ffi::api::Api;
use crate::ffi::codes::SQLITE_OK;
use crate::shim::table_function::register;
use std::ffi::c_int;

/// Makes the functions known to a connection.
///
/// # Safety
/// `db` is a connection of the library behind `api`.
pub unsafe fn register_all(api: &Api, db: *mut Sqlite3) -> c_int {
    // SAFETY: by contract.
    let codes = unsafe {
        [
            register::<stats::Stats>(api, db),
            register::<stats::PragmaStats>(api, db),
            register::<scan::Scan>(api, db),
        ]
    };
    codes.into_iter().find(|code| *code != SQLITE_OK).unwrap_or(SQLITE_OK)
}
