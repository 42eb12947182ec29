//! The functions of the SQLite that the program is linked with, by name.
//!
//! Those that every build has are plain references: where one is missing, the linker says which. Some compile options leave
//! functions out (`OPTIONAL` in `litefoot_vfs::ffi::api`). Their references are weak, and null where there is no such
//! function. Rust has no weak references of its own yet, so the assembler makes their table.

use std::arch::global_asm;
use std::ffi::{CStr, c_void};

macro_rules! required {
    ($($name:ident)*) => {
        unsafe extern "C" {
            $(fn $name();)*
        }

        /// Functions that every SQLite has.
        const REQUIRED: &[(&str, unsafe extern "C" fn())] = &[$((stringify!($name), $name)),*];
    };
}

required! {
    sqlite3_bind_double sqlite3_bind_int64 sqlite3_bind_null sqlite3_bind_parameter_count sqlite3_busy_handler
    sqlite3_close sqlite3_column_blob sqlite3_column_bytes sqlite3_column_count sqlite3_column_double
    sqlite3_column_int sqlite3_column_int64 sqlite3_column_text sqlite3_column_type sqlite3_db_handle
    sqlite3_declare_vtab sqlite3_errcode sqlite3_errmsg sqlite3_exec sqlite3_finalize sqlite3_free
    sqlite3_get_autocommit sqlite3_last_insert_rowid sqlite3_libversion_number sqlite3_reset
    sqlite3_result_blob sqlite3_result_double sqlite3_result_int64 sqlite3_result_null sqlite3_result_text
    sqlite3_step sqlite3_total_changes sqlite3_value_blob sqlite3_value_bytes sqlite3_value_double
    sqlite3_value_int64 sqlite3_value_text sqlite3_value_type sqlite3_prepare_v2 sqlite3_create_module_v2
    sqlite3_file_control sqlite3_mutex_alloc sqlite3_mutex_leave sqlite3_mutex_try sqlite3_open_v2
    sqlite3_vfs_find sqlite3_vfs_register sqlite3_vfs_unregister sqlite3_limit sqlite3_next_stmt sqlite3_sql
    sqlite3_db_config sqlite3_db_status sqlite3_extended_errcode sqlite3_log sqlite3_sourceid
    sqlite3_wal_autocheckpoint sqlite3_vtab_config sqlite3_close_v2 sqlite3_db_filename sqlite3_stmt_busy
    sqlite3_stmt_readonly sqlite3_wal_checkpoint_v2 sqlite3_auto_extension sqlite3_bind_blob64
    sqlite3_bind_text64 sqlite3_cancel_auto_extension sqlite3_malloc64 sqlite3_trace_v2 sqlite3_prepare_v3
    sqlite3_txn_state
}

/// Functions that some builds of SQLite lack, in the order of the table below.
const OPTIONAL: [&str; 6] = [
    "sqlite3_transfer_bindings",
    "sqlite3_expired",
    "sqlite3_compileoption_get",
    "sqlite3_progress_handler",
    "sqlite3_set_authorizer",
    "sqlite3_table_column_metadata",
];

#[cfg(target_pointer_width = "64")]
macro_rules! optional {
    ($name:literal) => {
        concat!(".weak ", $name, "\n.8byte ", $name)
    };
}
#[cfg(target_pointer_width = "32")]
macro_rules! optional {
    ($name:literal) => {
        concat!(".weak ", $name, "\n.4byte ", $name)
    };
}

// Its relocations are resolved when the program is linked, or loaded.
global_asm!(
    ".pushsection .data.rel.ro.litefoot_optional_functions, \"aw\", %progbits",
    ".balign 8",
    ".global litefoot_optional_functions",
    ".hidden litefoot_optional_functions",
    "litefoot_optional_functions:",
    optional!("sqlite3_transfer_bindings"),
    optional!("sqlite3_expired"),
    optional!("sqlite3_compileoption_get"),
    optional!("sqlite3_progress_handler"),
    optional!("sqlite3_set_authorizer"),
    optional!("sqlite3_table_column_metadata"),
    ".popsection",
);

unsafe extern "C" {
    #[link_name = "litefoot_optional_functions"]
    static ADDRESSES: [*const c_void; OPTIONAL.len()];
}

/// The address of a function; null where this SQLite does not have it.
pub fn find(name: &CStr) -> *const c_void {
    let name = name.to_bytes();
    if let Some((_, function)) = REQUIRED.iter().find(|(known, _)| known.as_bytes() == name) {
        return *function as *const c_void;
    }
    // SAFETY: the table above, which nobody writes.
    let mut optional = OPTIONAL.iter().zip(unsafe { &ADDRESSES });
    optional.find(|(known, _)| known.as_bytes() == name).map_or(std::ptr::null(), |(_, address)| *address)
}
