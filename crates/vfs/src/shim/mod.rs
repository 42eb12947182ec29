//! The callbacks that SQLite calls: the top floor.

pub mod auto_extension;
pub(crate) mod filenames;
pub mod install;
pub(crate) mod io_methods;
pub(crate) mod page_methods;
pub(crate) mod table_function;
pub mod tables;
pub(crate) mod trace_hook;
pub mod vfs_methods;
