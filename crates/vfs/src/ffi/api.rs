//! The table of SQLite's functions.
//!
//! Two ways lead to the same [`Api`]:
//! - [`Api::from_table`]: the `sqlite3_api_routines` table that SQLite gives an extension's entry point. Programs that link
//!   SQLite statically have it as well. The Rust front obtains the table through an automatic extension.
//! - [`Api::from_symbols`]: by name, out of the shared library that called the preload entry.
//!
//! The position of a function in the table is part of SQLite's binary interface: fields are only ever
//! appended (`sqlite3ext.h`).

use crate::ffi::{Sqlite3, Sqlite3Context, Sqlite3Mutex, Sqlite3Stmt, Sqlite3Value, Sqlite3Vfs};
use std::ffi::{CStr, c_char, c_double, c_int, c_uchar, c_uint, c_void};

/// Oldest SQLite that litefoot runs under, as `sqlite3_libversion_number()` reports it.
pub const OLDEST_SQLITE: c_int = 3_040_000;

/// Optional functions: some builds of SQLite lack them.
const OPTIONAL: [&str; 6] = [
    "transfer_bindings",
    "expired",
    "compileoption_get",
    "progress_handler",
    "set_authorizer",
    "table_column_metadata",
];

/// The reason that an SQLite cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsuitable {
    /// It is older than [`OLDEST_SQLITE`].
    #[error("SQLite {0} is too old; {OLDEST_SQLITE} or later is needed")]
    TooOld(c_int),
    /// It was built without a function.
    #[error("this SQLite was built without sqlite3_{0}, which is needed")]
    Missing(&'static str),
}

/// The identity of a build of SQLite; the effect of a statement may depend on the build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Build {
    /// `sqlite3_libversion_number()`.
    pub version: u32,
    /// A hash of its source and its compile-time options.
    pub hash: u64,
}

/// Position of `libversion_number` in the table; it decides whether the rest may be read.
const VERSION_POSITION: usize = 67;

/// A destructor argument: null (the value is static) or -1 (SQLite copies at once).
pub type Destructor = *const c_void;

/// `SQLITE_TRANSIENT`: SQLite copies the value before the call returns.
pub const SQLITE_TRANSIENT: Destructor = usize::MAX as *const c_void;

/// An extension's entry point.
pub type EntryPoint =
    unsafe extern "C" fn(db: *mut Sqlite3, message: *mut *mut c_char, table: *const c_void) -> c_int;

/// The callback of `sqlite3_trace_v2`.
pub type TraceCallback = unsafe extern "C" fn(c_uint, *mut c_void, *mut c_void, *mut c_void) -> c_int;

/// The callback of `sqlite3_busy_handler`.
pub type BusyHandler = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// The callback of `sqlite3_progress_handler`.
pub type ProgressHandler = unsafe extern "C" fn(*mut c_void) -> c_int;

/// `sqlite3_table_column_metadata`: type, collation, and whether NOT NULL, PRIMARY KEY and AUTOINCREMENT apply.
pub type TableColumnMetadata = unsafe extern "C" fn(
    *mut Sqlite3,
    *const c_char,
    *const c_char,
    *const c_char,
    *mut *const c_char,
    *mut *const c_char,
    *mut c_int,
    *mut c_int,
    *mut c_int,
) -> c_int;

/// The callback of `sqlite3_set_authorizer`.
pub type Authorizer = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    *const c_char,
    *const c_char,
    *const c_char,
    *const c_char,
) -> c_int;

macro_rules! api {
    ($($position:literal $name:ident: $type:ty,)*) => {
        /// The SQLite functions that litefoot calls.
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs)]
        pub struct Api {
            $(pub $name: $type,)*
        }

        impl Api {
            /// Reads the functions out of an `sqlite3_api_routines` table.
            ///
            /// # Errors
            /// An SQLite that is too old, or that lacks something.
            ///
            /// # Safety
            /// `table` must be the table that SQLite passed to an extension's entry point.
            pub unsafe fn from_table(table: *const c_void) -> Result<Api, Unsuitable> {
                let table = table.cast::<*const c_void>();
                // SAFETY: every SQLite that loads extensions has this position.
                let version = unsafe { *table.add(VERSION_POSITION) };
                // SAFETY: the function at this position has this type.
                let version: unsafe extern "C" fn() -> c_int = unsafe { std::mem::transmute(version) };
                // SAFETY: a plain function without arguments.
                let version = unsafe { version() };
                if version < OLDEST_SQLITE {
                    return Err(Unsuitable::TooOld(version));
                }
                Ok(Api {
                    $($name: {
                        // SAFETY: SQLite >= 3.40 has all these positions.
                        let address = unsafe { *table.add($position) };
                        // A function that was left out at compile time leaves its position empty.
                        if address.is_null() && !OPTIONAL.contains(&stringify!($name)) {
                            return Err(Unsuitable::Missing(stringify!($name)));
                        }
                        // SAFETY: the function at this position has this type, and may be null where the type
                        // allows that.
                        unsafe { std::mem::transmute::<*const c_void, $type>(address) }
                    },)*
                })
            }

            /// Looks every function up by name. `Err` names the first that is missing.
            ///
            /// # Safety
            /// `find` must return the address of the SQLite function of that name, or null.
            pub unsafe fn from_symbols(
                mut find: impl FnMut(&CStr) -> *const c_void,
            ) -> Result<Api, &'static str> {
                let mut look_up = |name: &'static str| {
                    let symbol = CStr::from_bytes_with_nul(name.as_bytes()).map_err(|_| name)?;
                    let address = find(symbol);
                    let is_optional = OPTIONAL.iter().any(|optional| name.contains(optional));
                    if address.is_null() && !is_optional { Err(name) } else { Ok(address) }
                };
                Ok(Api {
                    $($name: {
                        let address = look_up(concat!("sqlite3_", stringify!($name), "\0"))?;
                        // SAFETY: the caller vouches that the symbol is SQLite's function of that name.
                        unsafe { std::mem::transmute::<*const c_void, $type>(address) }
                    },)*
                })
            }
        }
    };
}

api! {
    3 bind_double: unsafe extern "C" fn(*mut Sqlite3Stmt, c_int, c_double) -> c_int,
    5 bind_int64: unsafe extern "C" fn(*mut Sqlite3Stmt, c_int, i64) -> c_int,
    6 bind_null: unsafe extern "C" fn(*mut Sqlite3Stmt, c_int) -> c_int,
    7 bind_parameter_count: unsafe extern "C" fn(*mut Sqlite3Stmt) -> c_int,
    13 busy_handler: unsafe extern "C" fn(*mut Sqlite3, Option<BusyHandler>, *mut c_void) -> c_int,
    16 close: unsafe extern "C" fn(*mut Sqlite3) -> c_int,
    19 column_blob: unsafe extern "C" fn(*mut Sqlite3Stmt, c_int) -> *const c_void,
    20 column_bytes: unsafe extern "C" fn(*mut Sqlite3Stmt, c_int) -> c_int,
    22 column_count: unsafe extern "C" fn(*mut Sqlite3Stmt) -> c_int,
    27 column_double: unsafe extern "C" fn(*mut Sqlite3Stmt, c_int) -> c_double,
    28 column_int: unsafe extern "C" fn(*mut Sqlite3Stmt, c_int) -> c_int,
    29 column_int64: unsafe extern "C" fn(*mut Sqlite3Stmt, c_int) -> i64,
    36 column_text: unsafe extern "C" fn(*mut Sqlite3Stmt, c_int) -> *const c_uchar,
    38 column_type: unsafe extern "C" fn(*mut Sqlite3Stmt, c_int) -> c_int,
    49 db_handle: unsafe extern "C" fn(*mut Sqlite3Stmt) -> *mut Sqlite3,
    50 declare_vtab: unsafe extern "C" fn(*mut Sqlite3, *const c_char) -> c_int,
    52 errcode: unsafe extern "C" fn(*mut Sqlite3) -> c_int,
    53 errmsg: unsafe extern "C" fn(*mut Sqlite3) -> *const c_char,
    55 exec: unsafe extern "C" fn(*mut Sqlite3, *const c_char, *const c_void, *mut c_void, *mut *mut c_char) -> c_int,
    56 expired: Option<unsafe extern "C" fn(*mut Sqlite3Stmt) -> c_int>,
    57 finalize: unsafe extern "C" fn(*mut Sqlite3Stmt) -> c_int,
    58 free: unsafe extern "C" fn(*mut c_void),
    60 get_autocommit: unsafe extern "C" fn(*mut Sqlite3) -> c_int,
    65 last_insert_rowid: unsafe extern "C" fn(*mut Sqlite3) -> i64,
    67 libversion_number: unsafe extern "C" fn() -> c_int,
    75 progress_handler: Option<unsafe extern "C" fn(*mut Sqlite3, c_int, Option<ProgressHandler>, *mut c_void)>,
    77 reset: unsafe extern "C" fn(*mut Sqlite3Stmt) -> c_int,
    78 result_blob: unsafe extern "C" fn(*mut Sqlite3Context, *const c_void, c_int, Destructor),
    79 result_double: unsafe extern "C" fn(*mut Sqlite3Context, c_double),
    83 result_int64: unsafe extern "C" fn(*mut Sqlite3Context, i64),
    84 result_null: unsafe extern "C" fn(*mut Sqlite3Context),
    85 result_text: unsafe extern "C" fn(*mut Sqlite3Context, *const c_char, c_int, Destructor),
    91 set_authorizer: Option<unsafe extern "C" fn(*mut Sqlite3, Option<Authorizer>, *mut c_void) -> c_int>,
    94 step: unsafe extern "C" fn(*mut Sqlite3Stmt) -> c_int,
    95 table_column_metadata: Option<TableColumnMetadata>,
    97 total_changes: unsafe extern "C" fn(*mut Sqlite3) -> c_int,
    99 transfer_bindings: Option<unsafe extern "C" fn(*mut Sqlite3Stmt, *mut Sqlite3Stmt) -> c_int>,
    102 value_blob: unsafe extern "C" fn(*mut Sqlite3Value) -> *const c_void,
    103 value_bytes: unsafe extern "C" fn(*mut Sqlite3Value) -> c_int,
    105 value_double: unsafe extern "C" fn(*mut Sqlite3Value) -> c_double,
    107 value_int64: unsafe extern "C" fn(*mut Sqlite3Value) -> i64,
    109 value_text: unsafe extern "C" fn(*mut Sqlite3Value) -> *const c_uchar,
    113 value_type: unsafe extern "C" fn(*mut Sqlite3Value) -> c_int,
    116 prepare_v2: unsafe extern "C" fn(*mut Sqlite3, *const c_char, c_int, *mut *mut Sqlite3Stmt, *mut *const c_char) -> c_int,
    119 create_module_v2: unsafe extern "C" fn(*mut Sqlite3, *const c_char, *const c_void, *mut c_void, Option<unsafe extern "C" fn(*mut c_void)>) -> c_int,
    127 file_control: unsafe extern "C" fn(*mut Sqlite3, *const c_char, c_int, *mut c_void) -> c_int,
    130 mutex_alloc: unsafe extern "C" fn(c_int) -> *mut Sqlite3Mutex,
    133 mutex_leave: unsafe extern "C" fn(*mut Sqlite3Mutex),
    134 mutex_try: unsafe extern "C" fn(*mut Sqlite3Mutex) -> c_int,
    135 open_v2: unsafe extern "C" fn(*const c_char, *mut *mut Sqlite3, c_int, *const c_char) -> c_int,
    141 vfs_find: unsafe extern "C" fn(*const c_char) -> *mut Sqlite3Vfs,
    142 vfs_register: unsafe extern "C" fn(*mut Sqlite3Vfs, c_int) -> c_int,
    143 vfs_unregister: unsafe extern "C" fn(*mut Sqlite3Vfs) -> c_int,
    151 limit: unsafe extern "C" fn(*mut Sqlite3, c_int, c_int) -> c_int,
    152 next_stmt: unsafe extern "C" fn(*mut Sqlite3, *mut Sqlite3Stmt) -> *mut Sqlite3Stmt,
    153 sql: unsafe extern "C" fn(*mut Sqlite3Stmt) -> *const c_char,
    160 compileoption_get: Option<unsafe extern "C" fn(c_int) -> *const c_char>,
    163 db_config: unsafe extern "C" fn(*mut Sqlite3, c_int, ...) -> c_int,
    165 db_status: unsafe extern "C" fn(*mut Sqlite3, c_int, *mut c_int, *mut c_int, c_int) -> c_int,
    166 extended_errcode: unsafe extern "C" fn(*mut Sqlite3) -> c_int,
    167 log: unsafe extern "C" fn(c_int, *const c_char, ...),
    169 sourceid: unsafe extern "C" fn() -> *const c_char,
    173 wal_autocheckpoint: unsafe extern "C" fn(*mut Sqlite3, c_int) -> c_int,
    177 vtab_config: unsafe extern "C" fn(*mut Sqlite3, c_int, ...) -> c_int,
    179 close_v2: unsafe extern "C" fn(*mut Sqlite3) -> c_int,
    180 db_filename: unsafe extern "C" fn(*mut Sqlite3, *const c_char) -> *const c_char,
    184 stmt_busy: unsafe extern "C" fn(*mut Sqlite3Stmt) -> c_int,
    185 stmt_readonly: unsafe extern "C" fn(*mut Sqlite3Stmt) -> c_int,
    191 wal_checkpoint_v2: unsafe extern "C" fn(*mut Sqlite3, *const c_char, c_int, *mut c_int, *mut c_int) -> c_int,
    192 auto_extension: unsafe extern "C" fn(EntryPoint) -> c_int,
    193 bind_blob64: unsafe extern "C" fn(*mut Sqlite3Stmt, c_int, *const c_void, u64, Destructor) -> c_int,
    194 bind_text64: unsafe extern "C" fn(*mut Sqlite3Stmt, c_int, *const c_char, u64, Destructor, c_uchar) -> c_int,
    195 cancel_auto_extension: unsafe extern "C" fn(EntryPoint) -> c_int,
    197 malloc64: unsafe extern "C" fn(u64) -> *mut c_void,
    214 trace_v2: unsafe extern "C" fn(*mut Sqlite3, c_uint, Option<TraceCallback>, *mut c_void) -> c_int,
    217 prepare_v3: unsafe extern "C" fn(*mut Sqlite3, *const c_char, c_int, c_uint, *mut *mut Sqlite3Stmt, *mut *const c_char) -> c_int,
    252 txn_state: unsafe extern "C" fn(*mut Sqlite3, *const c_char) -> c_int,
}

impl Api {
    /// A copy of `text` in memory from SQLite's allocator, which SQLite frees; null when out of memory.
    pub fn allocate_text(&self, text: &str) -> *mut c_char {
        let len = text.len();
        // SAFETY: a plain allocation; it is filled within its size below.
        let copy = unsafe { (self.malloc64)(len as u64 + 1) }.cast::<u8>();
        if !copy.is_null() {
            // SAFETY: the allocation holds len + 1 bytes and cannot overlap `text`.
            unsafe {
                std::ptr::copy_nonoverlapping(text.as_ptr(), copy, len);
                *copy.add(len) = 0;
            }
        }
        copy.cast()
    }

    /// The identity of this build.
    pub fn build(&self) -> Build {
        /// 64-bit FNV-1a.
        fn add(hash: &mut u64, text: *const c_char) {
            // SAFETY: SQLite's own constant texts.
            for byte in unsafe { CStr::from_ptr(text) }.to_bytes_with_nul() {
                *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        let mut hash = 0xcbf2_9ce4_8422_2325;
        // SAFETY: plain functions that return constant texts, or null behind the last option.
        unsafe {
            add(&mut hash, (self.sourceid)());
            if let Some(option) = self.compileoption_get {
                (0..)
                    .map(|number| option(number))
                    .take_while(|text| !text.is_null())
                    .for_each(|text| add(&mut hash, text));
            }
            Build { version: (self.libversion_number)() as u32, hash }
        }
    }

    /// True for a build with this compile option; `None` where the build does not list its options.
    pub fn has_option(&self, name: &str) -> Option<bool> {
        let option = self.compileoption_get?;
        // SAFETY: as above.
        let mut texts = (0..).map(|number| unsafe { option(number) }).take_while(|text| !text.is_null());
        // SAFETY: constant texts.
        Some(texts.any(|text| unsafe { CStr::from_ptr(text) }.to_bytes() == name.as_bytes()))
    }

    /// Writes one line to SQLite's error log (`SQLITE_CONFIG_LOG`).
    pub fn write_log(&self, code: c_int, message: &str) {
        let Ok(text) = std::ffi::CString::new(message.replace('\0', " ")) else { return };
        // SAFETY: "%s" takes exactly the one string argument given.
        unsafe { (self.log)(code, c"%s".as_ptr(), text.as_ptr()) }
    }
}
