//! SQLite's numbers, under SQLite's names (`sqlite3.h`).

#![allow(missing_docs)]

use std::ffi::c_int;

pub const SQLITE_OK: c_int = 0;
pub const SQLITE_ERROR: c_int = 1;
pub const SQLITE_INTERNAL: c_int = 2;
pub const SQLITE_PERM: c_int = 3;
pub const SQLITE_ABORT: c_int = 4;
pub const SQLITE_BUSY: c_int = 5;
pub const SQLITE_LOCKED: c_int = 6;
pub const SQLITE_NOMEM: c_int = 7;
pub const SQLITE_READONLY: c_int = 8;
pub const SQLITE_INTERRUPT: c_int = 9;
pub const SQLITE_IOERR: c_int = 10;
pub const SQLITE_CORRUPT: c_int = 11;
pub const SQLITE_NOTFOUND: c_int = 12;
pub const SQLITE_FULL: c_int = 13;
pub const SQLITE_CANTOPEN: c_int = 14;
pub const SQLITE_PROTOCOL: c_int = 15;
pub const SQLITE_CONSTRAINT: c_int = 19;
pub const SQLITE_TOOBIG: c_int = 18;
pub const SQLITE_MISMATCH: c_int = 20;
pub const SQLITE_MISUSE: c_int = 21;
pub const SQLITE_ROW: c_int = 100;
pub const SQLITE_DONE: c_int = 101;
pub const SQLITE_OK_SYMLINK: c_int = SQLITE_OK | (2 << 8);
pub const SQLITE_OK_LOAD_PERMANENTLY: c_int = SQLITE_OK | (1 << 8);

pub const SQLITE_READONLY_DIRECTORY: c_int = SQLITE_READONLY | (6 << 8);
pub const SQLITE_IOERR_READ: c_int = SQLITE_IOERR | (1 << 8);
pub const SQLITE_IOERR_SHORT_READ: c_int = SQLITE_IOERR | (2 << 8);
pub const SQLITE_IOERR_WRITE: c_int = SQLITE_IOERR | (3 << 8);
pub const SQLITE_IOERR_FSYNC: c_int = SQLITE_IOERR | (4 << 8);
pub const SQLITE_IOERR_DIR_FSYNC: c_int = SQLITE_IOERR | (5 << 8);
pub const SQLITE_IOERR_TRUNCATE: c_int = SQLITE_IOERR | (6 << 8);
pub const SQLITE_IOERR_FSTAT: c_int = SQLITE_IOERR | (7 << 8);
pub const SQLITE_IOERR_DELETE: c_int = SQLITE_IOERR | (10 << 8);
pub const SQLITE_IOERR_NOMEM: c_int = SQLITE_IOERR | (12 << 8);
pub const SQLITE_IOERR_ACCESS: c_int = SQLITE_IOERR | (13 << 8);
pub const SQLITE_IOERR_LOCK: c_int = SQLITE_IOERR | (15 << 8);
pub const SQLITE_IOERR_CLOSE: c_int = SQLITE_IOERR | (16 << 8);
pub const SQLITE_IOERR_SHMMAP: c_int = SQLITE_IOERR | (21 << 8);
pub const SQLITE_IOERR_DELETE_NOENT: c_int = SQLITE_IOERR | (23 << 8);
pub const SQLITE_BUSY_RECOVERY: c_int = SQLITE_BUSY | (1 << 8);
pub const SQLITE_READONLY_CANTINIT: c_int = SQLITE_READONLY | (5 << 8);

pub const SQLITE_OPEN_READONLY: c_int = 0x0000_0001;
pub const SQLITE_OPEN_READWRITE: c_int = 0x0000_0002;
pub const SQLITE_OPEN_CREATE: c_int = 0x0000_0004;
pub const SQLITE_OPEN_DELETEONCLOSE: c_int = 0x0000_0008;
pub const SQLITE_OPEN_EXCLUSIVE: c_int = 0x0000_0010;
pub const SQLITE_OPEN_URI: c_int = 0x0000_0040;
pub const SQLITE_OPEN_MAIN_DB: c_int = 0x0000_0100;
pub const SQLITE_OPEN_TEMP_DB: c_int = 0x0000_0200;
pub const SQLITE_OPEN_TRANSIENT_DB: c_int = 0x0000_0400;
pub const SQLITE_OPEN_MAIN_JOURNAL: c_int = 0x0000_0800;
pub const SQLITE_OPEN_TEMP_JOURNAL: c_int = 0x0000_1000;
pub const SQLITE_OPEN_SUBJOURNAL: c_int = 0x0000_2000;
pub const SQLITE_OPEN_SUPER_JOURNAL: c_int = 0x0000_4000;
pub const SQLITE_OPEN_WAL: c_int = 0x0008_0000;

pub const SQLITE_ACCESS_EXISTS: c_int = 0;
pub const SQLITE_ACCESS_READWRITE: c_int = 1;

pub const SQLITE_LOCK_NONE: c_int = 0;
pub const SQLITE_LOCK_SHARED: c_int = 1;
pub const SQLITE_LOCK_RESERVED: c_int = 2;
pub const SQLITE_LOCK_PENDING: c_int = 3;
pub const SQLITE_LOCK_EXCLUSIVE: c_int = 4;

pub const SQLITE_SYNC_NORMAL: c_int = 0x2;
pub const SQLITE_SYNC_FULL: c_int = 0x3;
pub const SQLITE_SYNC_DATAONLY: c_int = 0x10;

pub const SQLITE_IOCAP_SEQUENTIAL: c_int = 0x0000_0400;
pub const SQLITE_IOCAP_POWERSAFE_OVERWRITE: c_int = 0x0000_1000;
pub const SQLITE_IOCAP_BATCH_ATOMIC: c_int = 0x0000_4000;

pub const SQLITE_SHM_UNLOCK: c_int = 1;
pub const SQLITE_SHM_LOCK: c_int = 2;
pub const SQLITE_SHM_SHARED: c_int = 4;
pub const SQLITE_SHM_EXCLUSIVE: c_int = 8;
pub const SQLITE_SHM_NLOCK: usize = 8;

pub const SQLITE_FCNTL_LOCKSTATE: c_int = 1;
pub const SQLITE_FCNTL_LAST_ERRNO: c_int = 4;
pub const SQLITE_FCNTL_SIZE_HINT: c_int = 5;
pub const SQLITE_FCNTL_CHUNK_SIZE: c_int = 6;
pub const SQLITE_FCNTL_FILE_POINTER: c_int = 7;
pub const SQLITE_FCNTL_SYNC_OMITTED: c_int = 8;
pub const SQLITE_FCNTL_PERSIST_WAL: c_int = 10;
pub const SQLITE_FCNTL_OVERWRITE: c_int = 11;
pub const SQLITE_FCNTL_VFSNAME: c_int = 12;
pub const SQLITE_FCNTL_POWERSAFE_OVERWRITE: c_int = 13;
pub const SQLITE_FCNTL_PRAGMA: c_int = 14;
pub const SQLITE_FCNTL_BUSYHANDLER: c_int = 15;
pub const SQLITE_FCNTL_TEMPFILENAME: c_int = 16;
pub const SQLITE_FCNTL_MMAP_SIZE: c_int = 18;
pub const SQLITE_FCNTL_HAS_MOVED: c_int = 20;
pub const SQLITE_FCNTL_SYNC: c_int = 21;
pub const SQLITE_FCNTL_COMMIT_PHASETWO: c_int = 22;
pub const SQLITE_FCNTL_PDB: c_int = 30;
pub const SQLITE_FCNTL_BEGIN_ATOMIC_WRITE: c_int = 31;
pub const SQLITE_FCNTL_COMMIT_ATOMIC_WRITE: c_int = 32;
pub const SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE: c_int = 33;
pub const SQLITE_FCNTL_CKPT_DONE: c_int = 37;
pub const SQLITE_FCNTL_CKPT_START: c_int = 39;
pub const SQLITE_FCNTL_EXTERNAL_READER: c_int = 40;

pub const SQLITE_TRACE_STMT: u32 = 0x01;
pub const SQLITE_TRACE_PROFILE: u32 = 0x02;
pub const SQLITE_TRACE_CLOSE: u32 = 0x08;

pub const SQLITE_INTEGER: c_int = 1;
pub const SQLITE_FLOAT: c_int = 2;
pub const SQLITE_TEXT: c_int = 3;
pub const SQLITE_BLOB: c_int = 4;

pub const SQLITE_DBSTATUS_CACHE_HIT: c_int = 7;
pub const SQLITE_DBSTATUS_CACHE_MISS: c_int = 8;
pub const SQLITE_DBSTATUS_CACHE_SPILL: c_int = 12;

pub const SQLITE_CHECKPOINT_PASSIVE: c_int = 0;
pub const SQLITE_CHECKPOINT_FULL: c_int = 1;
pub const SQLITE_CHECKPOINT_RESTART: c_int = 2;
pub const SQLITE_CHECKPOINT_TRUNCATE: c_int = 3;

pub const SQLITE_INDEX_CONSTRAINT_EQ: u8 = 2;

pub const SQLITE_VTAB_DIRECTONLY: c_int = 3;
