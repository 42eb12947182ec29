//! The copy: read and written beside SQLite's readers, by SQLite's own locks.
//!
//! # Invariants
//! 1. While SQLite's connection is open, this process closes no other descriptor of the copy: that would take the connection's locks away
//!    (POSIX). So the connection is closed first.
//! 2. The header of the copy says rollback journal, and its change counter rises with each change: readers forget the pages that they know.

use super::change::{Change, apply};
use crate::source::{PageMap, explain};
use crate::{Error, Result};
use litefoot_ltx::{Checksum, is_page_size, lock_page};
use litefoot_storage::file::{DeviceError, FileKind, Medium, OpenMode};
use litefoot_storage::os::OsMedium;
use rusqlite::{Connection, OpenFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a change waits for readers.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Places in the header (file format, section 1.3).
const PAGE_SIZE: usize = 16;
const VERSIONS: usize = 18;
const COUNTER: usize = 24;
const PAGES: usize = 28;
const VALID_FOR: usize = 92;
/// A version of the file format that is read and written with a rollback journal.
const ROLLBACK: u8 = 1;

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The copy has it.
    Yes,
    /// The copy is not as it was left: nothing was written.
    NotOurs,
}

/// The copy under SQLite's exclusive lock.
struct Locked {
    connection: Connection,
    file: Arc<dyn litefoot_storage::file::File>,
}

impl Locked {
    fn open(path: &Path, begin: &str) -> Result<Locked> {
        let fail = |error: rusqlite::Error| explain(path, &error);
        let file = OsMedium.open(path, FileKind::Database, OpenMode::ReadWrite).map_err(of_device)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(fail)?;
        connection.busy_timeout(PATIENCE).map_err(fail)?;
        // SQLite rolls back here what a kill has left.
        connection.execute_batch(begin).map_err(fail)?;
        Ok(Locked { connection, file })
    }

    fn close(self, path: &Path) -> Result<()> {
        self.connection.execute_batch("COMMIT").map_err(|error| explain(path, &error))?;
        self.connection.close().map_err(|(_, error)| explain(path, &error))
    }
}

fn of_device(error: DeviceError) -> Error {
    Error::Local { path: error.path.clone(), why: error.to_string() }
}

/// Writes a change to a copy of so many pages, whose first page is known.
pub fn write(path: &Path, pages: u32, first: &[u8], change: &Change) -> Result<Written> {
    let locked = Locked::open(path, "BEGIN EXCLUSIVE")?;
    let mut found = vec![0; change.page_bytes];
    let read = locked.file.read_at(&mut found, 0).map_err(of_device)?;
    let bytes = locked.file.len().map_err(of_device)?;
    // Whoever writes to a database raises its change counter, or makes it one of WAL mode.
    if read != first.len() || found != first || bytes != u64::from(pages) * change.page_bytes as u64 {
        locked.close(path)?;
        return Ok(Written::NotOurs);
    }
    apply(&OsMedium, path, &*locked.file, change).map_err(of_device)?;
    locked.close(path)?;
    Ok(Written::Yes)
}

/// Brings a copy to what a file has: writes the pages that differ. `note` hears of the first page before anything is written.
pub fn replace(
    path: &Path,
    from: &File,
    page_size: u32,
    count: u32,
    note: impl FnOnce(Vec<u8>) -> Result<()>,
) -> Result<()> {
    let locked =
        Locked::open(path, "PRAGMA journal_mode=DELETE; BEGIN EXCLUSIVE").map_err(|error| match error {
            Error::Local { path, why } => {
                // It may be no database any more.
                Error::Local { path, why: format!("{why}; remove the copy, and it is made anew") }
            }
            other => other,
        })?;
    let size = page_size as usize;
    let fail = |error: io::Error| Error::local(path, error);
    let mut pages = BTreeMap::new();
    let (mut new, mut old) = (vec![0; size], vec![0; size]);
    for page in 1..=count {
        let at = u64::from(page - 1) * u64::from(page_size);
        from.read_exact_at(&mut new, at).map_err(fail)?;
        let read = locked.file.read_at(&mut old, at).map_err(of_device)?;
        if page == 1 {
            let counter = if read == size { counter(&old) } else { 0 };
            own(&mut new, count, counter.wrapping_add(1));
        }
        if read < size || old != new {
            pages.insert(page, new.clone());
        }
    }
    note(pages.get(&1).cloned().unwrap_or_default())?;
    apply(&OsMedium, path, &*locked.file, &Change { page_bytes: size, count, pages }).map_err(of_device)?;
    locked.close(path)
}

/// Gives a restored file a header of the copy's own, and answers its first page.
pub fn begin(file: &File, path: &Path, page_size: u32, count: u32) -> Result<Vec<u8>> {
    let fail = |error: io::Error| Error::local(path, error);
    let mut first = vec![0; page_size as usize];
    file.read_exact_at(&mut first, 0).map_err(fail)?;
    let counter = counter(&first).wrapping_add(1);
    own(&mut first, count, counter);
    file.write_all_at(&first, 0).map_err(fail)?;
    Ok(first)
}

/// The change counter of a first page.
pub fn counter(first: &[u8]) -> u32 {
    u32::from_be_bytes([first[COUNTER], first[COUNTER + 1], first[COUNTER + 2], first[COUNTER + 3]])
}

/// Makes a header the copy's own.
pub fn own(first: &mut [u8], count: u32, counter: u32) {
    first[VERSIONS..VERSIONS + 2].fill(ROLLBACK);
    for (at, value) in [(COUNTER, counter), (PAGES, count), (VALID_FOR, counter)] {
        first[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }
}

/// Bytes of a page, by the header of a file.
pub fn page_size(file: &File, path: &Path) -> Result<u32> {
    let mut header = [0; 100];
    file.read_exact_at(&mut header, 0).map_err(|error| Error::local(path, error))?;
    let size = match u16::from_be_bytes([header[PAGE_SIZE], header[PAGE_SIZE + 1]]) {
        1 => 65536,
        size => u32::from(size),
    };
    if is_page_size(size) { Ok(size) } else { Err(Error::local(path, "has no sound header")) }
}

/// The checksums of all pages of a file.
pub fn map_of(file: &File, path: &Path, page_size: u32) -> Result<PageMap> {
    let fail = |error: io::Error| Error::local(path, error);
    let mut map = PageMap::new(page_size);
    let size = page_size as usize;
    let count = (file.metadata().map_err(fail)?.len() / size as u64) as u32;
    let mut chunk = vec![0; CHUNK_BYTES.max(size)];
    let step = (chunk.len() / size) as u32;
    let mut page = 1;
    while page <= count {
        let pages = step.min(count - page + 1);
        let bytes = &mut chunk[..pages as usize * size];
        file.read_exact_at(bytes, u64::from(page - 1) * size as u64).map_err(fail)?;
        for (page, data) in (page..).zip(bytes.chunks(size)).filter(|(page, _)| *page != lock_page(page_size))
        {
            map.set(page, Checksum::of_page(page, data));
        }
        page += pages;
    }
    map.resize(count);
    Ok(map)
}

/// The checksums of a copy and its first page, under SQLite's lock, once what a kill has left is rolled back.
pub fn read(path: &Path, page_size: u32) -> Result<(PageMap, Vec<u8>)> {
    // It is closed behind the connection.
    let file = File::open(path).map_err(|error| Error::local(path, error))?;
    let locked = Locked::open(path, "BEGIN; SELECT count(*) FROM sqlite_schema")?;
    let map = map_of(&file, path, page_size)?;
    let mut first = vec![0; page_size as usize];
    file.read_exact_at(&mut first, 0).map_err(|error| Error::local(path, error))?;
    locked.close(path)?;
    Ok((map, first))
}
