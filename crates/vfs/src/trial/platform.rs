//! Counting what SQLite's own VFS writes and syncs.
//!
//! The methods of each file that it opens are replaced by a table that counts and calls the original. Nothing else is changed, and
//! pages that SQLite maps are written by its method as well.
//!
//! Two syncs happen within the platform's VFS and are counted by its rules: that of the directory behind the first sync of a new
//! journal or log, and that behind a file which is deleted with `syncDir` (`os_unix.c`).

use crate::error::{Error, Result};
use crate::ffi::codes::*;
use crate::ffi::{IoMethods, Sqlite3File, Sqlite3Vfs};
use crate::stats::{DatabaseState, Stats, StatsPage};
use litefoot_storage::file::FileKind;
use litefoot_storage::sync::{AcrossFork, Global};
use std::collections::BTreeSet;
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;

type Open =
    unsafe extern "C" fn(*mut Sqlite3Vfs, *const c_char, *mut Sqlite3File, c_int, *mut c_int) -> c_int;
type Delete = unsafe extern "C" fn(*mut Sqlite3Vfs, *const c_char, c_int) -> c_int;

/// `SQLITE_SYNC_NORMAL` and `SQLITE_SYNC_FULL` in what SQLite asks a sync for.
const SYNC_KINDS: c_int = 0x03;

/// A VFS whose calls are counted.
struct Counted {
    vfs: usize,
    open: Open,
    delete: Delete,
}

/// A table of methods that count, and the original behind it.
#[repr(C)]
struct Counting {
    methods: IoMethods,
    original: *const IoMethods,
    kind: FileKind,
}

// SAFETY: the pointer is to a table that never changes and is never freed.
unsafe impl Send for Counting {}
// SAFETY: as above.
unsafe impl Sync for Counting {}

/// What a forked child inherits as it is: SQLite's structures and its open files are in the child as well.
#[derive(Default)]
struct Inherited<T>(T);

impl<T: Default> AcrossFork for Inherited<T> {
    fn inherit(parents: Inherited<T>) -> Inherited<T> {
        parents
    }
}

static PAGE: OnceLock<StatsPage> = OnceLock::new();
static COUNTED: Global<Inherited<Vec<Counted>>> = Global::new(Inherited(Vec::new()));
static TABLES: Global<Inherited<Vec<&'static Counting>>> = Global::new(Inherited(Vec::new()));
/// Files, by the address of their objects, whose first sync syncs their directory as well.
static NEW_FILES: Global<Inherited<BTreeSet<usize>>> = Global::new(Inherited(BTreeSet::new()));

/// Counts the calls of a VFS from now on, in a statistics page in that folder.
///
/// # Safety
/// The structure lives as long as the process, and may be written now.
pub unsafe fn count(vfs: *mut Sqlite3Vfs, figures: &Path) -> Result<()> {
    let mut counted = COUNTED.lock();
    // SAFETY: by contract.
    let (Some(open_original), Some(delete_original)) = (unsafe { ((*vfs).open, (*vfs).delete) }) else {
        return Err(Error::Refused("a trial: the VFS of the platform opens no files".to_owned()));
    };
    if counted.0.iter().any(|known| known.vfs == vfs as usize) {
        return Ok(());
    }
    if PAGE.get().is_none() {
        let page = StatsPage::kept(figures).map_err(|why| {
            Error::Refused(format!("a trial: {}: no page for figures: {why}", figures.display()))
        })?;
        page.set_state(DatabaseState::Owned);
        // Another library of this process may have been faster: its page counts for all.
        let _ = PAGE.set(page);
    }
    counted.0.push(Counted { vfs: vfs as usize, open: open_original, delete: delete_original });
    // SAFETY: by contract.
    unsafe {
        (*vfs).open = Some(open);
        (*vfs).delete = Some(delete);
    }
    Ok(())
}

fn with_page(count: impl FnOnce(&StatsPage)) {
    if let Some(page) = PAGE.get() {
        count(page);
    }
}

/// The kind of a file, by the flags with which SQLite opens it.
fn kind_of(flags: c_int) -> FileKind {
    match flags {
        flags if flags & SQLITE_OPEN_MAIN_DB != 0 => FileKind::Database,
        flags if flags & SQLITE_OPEN_WAL != 0 => FileKind::RedoLog,
        flags if flags & SQLITE_OPEN_MAIN_JOURNAL != 0 => FileKind::Journal,
        flags if flags & SQLITE_OPEN_SUPER_JOURNAL != 0 => FileKind::SuperJournal,
        _ => FileKind::Temporary,
    }
}

/// True where the platform's VFS syncs the directory behind the first sync of a file.
fn syncs_directory(flags: c_int) -> bool {
    let kinds = SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL;
    flags & SQLITE_OPEN_CREATE != 0 && flags & kinds != 0
}

unsafe extern "C" fn open(
    vfs: *mut Sqlite3Vfs,
    name: *const c_char,
    file: *mut Sqlite3File,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let original = COUNTED.lock().0.iter().find(|known| known.vfs == vfs as usize).map(|known| known.open);
    let Some(original) = original else { return SQLITE_CANTOPEN };
    // SAFETY: passed on as it came.
    let code = unsafe { original(vfs, name, file, flags, out_flags) };
    // SAFETY: an open file has the table of its methods.
    let methods = unsafe { (*file).methods };
    if code == SQLITE_OK && !methods.is_null() {
        if syncs_directory(flags) {
            NEW_FILES.lock().0.insert(file as usize);
        }
        // SAFETY: the table begins with methods of the same number and version, and is never freed.
        unsafe { (*file).methods = (&raw const table(methods, kind_of(flags)).methods).cast() };
    }
    code
}

unsafe extern "C" fn delete(vfs: *mut Sqlite3Vfs, name: *const c_char, sync_directory: c_int) -> c_int {
    let original = COUNTED.lock().0.iter().find(|known| known.vfs == vfs as usize).map(|known| known.delete);
    let Some(original) = original else { return SQLITE_ERROR };
    // SAFETY: passed on as it came.
    let code = unsafe { original(vfs, name, sync_directory) };
    if code == SQLITE_OK && sync_directory != 0 {
        with_page(|page| Stats::add(&page.directory_syncs, 1));
    }
    code
}

/// The table that counts for files of a kind with these methods.
///
/// # Safety
/// `original` is a table of methods that is never freed.
unsafe fn table(original: *const IoMethods, kind: FileKind) -> &'static Counting {
    let mut tables = TABLES.lock();
    if let Some(known) = tables.0.iter().find(|known| known.original == original && known.kind == kind) {
        return known;
    }
    // SAFETY: a table of an older version ends before the newest methods, which are not read then.
    let methods = unsafe {
        let version = (*original).version;
        let is_one = version < 2;
        let is_three = version >= 3;
        IoMethods {
            version,
            close,
            read: (*original).read,
            write,
            truncate: (*original).truncate,
            sync,
            file_size: (*original).file_size,
            lock: (*original).lock,
            unlock: (*original).unlock,
            check_reserved_lock: (*original).check_reserved_lock,
            file_control,
            sector_size: (*original).sector_size,
            device_characteristics: (*original).device_characteristics,
            shm_map: if is_one { None } else { (*original).shm_map },
            shm_lock: if is_one { None } else { (*original).shm_lock },
            shm_barrier: if is_one { None } else { (*original).shm_barrier },
            shm_unmap: if is_one { None } else { (*original).shm_unmap },
            fetch: if is_three { (*original).fetch } else { None },
            unfetch: if is_three { (*original).unfetch } else { None },
        }
    };
    let table: &'static Counting = Box::leak(Box::new(Counting { methods, original, kind }));
    tables.0.push(table);
    table
}

/// # Safety
/// `file` has a table that [`table`] has made.
unsafe fn counting<'a>(file: *mut Sqlite3File) -> &'a Counting {
    // SAFETY: by contract; the methods are the first field.
    unsafe { &*(*file).methods.cast::<Counting>() }
}

unsafe extern "C" fn close(file: *mut Sqlite3File) -> c_int {
    // SAFETY: SQLite calls it through our table.
    let original = unsafe { (*counting(file).original).close };
    NEW_FILES.lock().0.remove(&(file as usize));
    // SAFETY: passed on as it came.
    unsafe { original(file) }
}

unsafe extern "C" fn write(
    file: *mut Sqlite3File,
    buffer: *const c_void,
    bytes: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite calls it through our table.
    let table = unsafe { counting(file) };
    with_page(|page| page.add_write(table.kind, offset as u64, u64::try_from(bytes).unwrap_or(0)));
    // SAFETY: passed on as it came.
    unsafe { ((*table.original).write)(file, buffer, bytes, offset) }
}

unsafe extern "C" fn sync(file: *mut Sqlite3File, flags: c_int) -> c_int {
    // SAFETY: SQLite calls it through our table.
    let table = unsafe { counting(file) };
    if flags & SYNC_KINDS != 0 {
        let is_first = NEW_FILES.lock().0.remove(&(file as usize));
        with_page(|page| {
            page.add_sync(table.kind);
            Stats::add(&page.directory_syncs, u64::from(is_first));
        });
    }
    // SAFETY: passed on as it came.
    unsafe { ((*table.original).sync)(file, flags) }
}

unsafe extern "C" fn file_control(file: *mut Sqlite3File, operation: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: SQLite calls it through our table.
    let table = unsafe { counting(file) };
    if operation == SQLITE_FCNTL_COMMIT_PHASETWO && table.kind == FileKind::Database {
        with_page(|page| Stats::add(&page.commits_pages, 1));
    }
    // SAFETY: passed on as it came.
    unsafe { ((*table.original).file_control)(file, operation, argument) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_decide_the_kind_and_the_sync_of_the_directory() {
        let create = SQLITE_OPEN_CREATE | SQLITE_OPEN_READWRITE;
        for (flags, kind, directory) in [
            (SQLITE_OPEN_MAIN_DB | create, FileKind::Database, false),
            (SQLITE_OPEN_WAL | create, FileKind::RedoLog, true),
            (SQLITE_OPEN_MAIN_JOURNAL | create, FileKind::Journal, true),
            (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_READWRITE, FileKind::Journal, false),
            (SQLITE_OPEN_SUPER_JOURNAL | create, FileKind::SuperJournal, true),
            (SQLITE_OPEN_TEMP_DB | create, FileKind::Temporary, false),
        ] {
            assert_eq!((kind_of(flags), syncs_directory(flags)), (kind, directory), "{flags:#x}");
        }
    }
}
