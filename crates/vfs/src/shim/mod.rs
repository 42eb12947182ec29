//! The callbacks that SQLite calls: the top floor.
//!
//! SQLite's C calls come in here, and safe code goes out. A callback checks its arguments, catches panics, maps errors
//! to codes and hands over to `files`. No other room imports this one.
//!
//! | file | holds |
//! |---|---|
//! | `install` | putting litefoot into a running SQLite |
//! | `vfs_methods` | `sqlite3_vfs`, and its registration |
//! | `platform_methods` | its callbacks that the platform's VFS carries out |
//! | `auto_extension` | the hook on new connections |
//! | `tables`, `table_function` | table-valued functions |
//! | `main_file` | the main file of a connection, and a new connection on it |
//! | `io_methods`, `page_methods`, `file_control` | `sqlite3_io_methods` |
//! | `file_object` | the object behind an open file |
//! | `trace_hook` | the application's statements |
//! | `filenames` | SQLite's file names and URI parameters |
//! | `libraries` | the SQLite libraries of this process |
//! | `boundary` | panics and errors, as SQLite's codes |

pub mod auto_extension;
pub(crate) mod boundary;
pub(crate) mod file_control;
pub(crate) mod file_object;
pub(crate) mod filenames;
pub mod install;
pub(crate) mod io_methods;
pub(crate) mod libraries;
pub(crate) mod main_file;
pub(crate) mod page_methods;
mod platform_methods;
pub(crate) mod table_function;
pub mod tables;
pub(crate) mod trace_hook;
pub mod vfs_methods;
