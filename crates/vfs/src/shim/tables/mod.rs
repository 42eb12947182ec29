//! Table-valued functions: what the engine's operators answer, and the figures of a database, as rows.
//!
//! | function | rows |
//! |---|---|
//! | `litefoot_bfs(graph, start)` | `node`, `depth`: the nodes that can be reached, level by level |
//! | `litefoot_neighbors(graph, node)` | `neighbor`, `place`: where the edges of a node lead, in the order of the text |
//! | `litefoot_stats`, or `pragma_litefoot_stats` | `name`, `value`: what `PRAGMA litefoot_stats` prints as text; none where the database is not on litefoot |
//!
//! `graph` is the path of a page file that `litefoot graph load` has made. Every connection has the functions,
//! whatever its VFS. They cannot be used in views, triggers or other parts of a schema: opening a database that
//! came from elsewhere must not read other files.

mod graph;
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
            register::<graph::Bfs>(api, db),
            register::<graph::Neighbors>(api, db),
            register::<stats::Stats>(api, db),
            register::<stats::PragmaStats>(api, db),
        ]
    };
    codes.into_iter().find(|code| *code != SQLITE_OK).unwrap_or(SQLITE_OK)
}
