//! A library that makes a VFS of its own out of the default one, as PROJ does: it opens files through the default VFS, and puts that
//! one's other functions beside data of its own.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::{Connection, OpenFlags, ffi};
use std::ffi::{c_char, c_int};
use std::ptr::null;

const NAME: &std::ffi::CStr = c"borrower";

/// What the library keeps in `pAppData`: nothing that litefoot could know.
struct Own {
    _marks: [u64; 16],
    lender: *mut ffi::sqlite3_vfs,
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: the VFS is the one below, and its lender stays registered.
    unsafe {
        let lender = (*(*vfs).pAppData.cast::<Own>()).lender;
        (*lender).xOpen.unwrap()(lender, name, file, flags, out_flags)
    }
}

#[test]
fn a_vfs_that_has_borrowed_functions_can_be_used() {
    litefoot::make_default().unwrap();
    // SAFETY: the structures live as long as the process, and are as SQLite wants them.
    unsafe {
        let lender = ffi::sqlite3_vfs_find(null());
        let own = Box::leak(Box::new(Own { _marks: [u64::MAX; 16], lender }));
        let mut borrower = *lender;
        borrower.zName = NAME.as_ptr();
        borrower.pAppData = std::ptr::from_mut(own).cast();
        borrower.xOpen = Some(open);
        assert_eq!(ffi::sqlite3_vfs_register(Box::leak(Box::new(borrower)), 0), ffi::SQLITE_OK);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let open = || Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), NAME).unwrap();
    for mode in ["delete", "wal"] {
        let db = open();
        db.pragma_update(None, "journal_mode", mode).unwrap();
        db.execute_batch("CREATE TABLE IF NOT EXISTS t(x); INSERT INTO t VALUES (random())").unwrap();
        db.close().unwrap();
    }
    let rows: i64 = open().query_row("SELECT count(*) FROM t", (), |row| row.get(0)).unwrap();
    assert_eq!(rows, 2);
}
