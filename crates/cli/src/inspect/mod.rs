//! What the bytes of a database say, read without SQLite and without changing anything.
//!
//! `stat` prints it, `check` judges it. References are to SQLite's file format,
//! <https://www.sqlite.org/fileformat2.html>.

mod header;
mod journal;
mod problems;
mod wal;

pub use header::Header;
pub use journal::{Content, Journal};
pub use problems::problems;
pub use wal::Wal;

use crate::failure::Failure;
use litefoot_engine::device::{
    self, DeviceError, ErrorKind, File, FileKind, Medium, OpenMode, OsMedium, RangeLock,
};
use std::path::{Path, PathBuf};

/// First of SQLite's lock bytes, and how many there are (section 1.4 and `os.h`).
const LOCK_OFFSET: u64 = 0x4000_0000;
const LOCK_BYTES: u64 = 512;

/// A database and the files beside it.
#[derive(Debug)]
pub struct Files {
    /// The database file.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// Its first 100 bytes; `None` for an empty file, which is an empty database.
    pub header: Option<Header>,
    /// The rollback journal beside it.
    pub journal: Option<Journal>,
    /// The write-ahead log beside it: SQLite's, and litefoot's redo log.
    pub wal: Option<Wal>,
    /// Length of the statement log beside it.
    pub statement_log_bytes: Option<u64>,
    /// Bytes of a write in place that the device never tears, as it says itself; 0 where it says nothing.
    pub atomic_write_bytes: u32,
    /// Who uses it.
    pub owner: Owner,
}

/// Who holds SQLite's locks on a database file, as far as the system tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Nobody at this moment.
    Nobody,
    /// Somebody reads; writers may be idle.
    Shared(Option<u32>),
    /// One process keeps all others out: its owner through litefoot, or a stock SQLite that writes.
    Exclusive(Option<u32>),
}

/// Reads a database's bytes and those of the files beside it.
pub fn look(path: &Path) -> Result<Files, Failure> {
    let medium = OsMedium::new();
    let Some(info) = medium.info(path).map_err(|error| device_failure(&error))? else {
        return Err(Failure::file(path, "no such file").advice("Check the path; nothing was created."));
    };
    if !info.is_file {
        return Err(Failure::file(path, "is not a regular file").advice("Name a database file."));
    }
    let mode = if info.writable { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
    let file = medium.open(path, FileKind::Database, mode).map_err(|error| device_failure(&error))?;
    let describe = |error: DeviceError| device_failure(&error);
    let header = Header::read(&*file).map_err(describe)?;
    if info.len > 0 && header.is_none() {
        return Err(
            Failure::file(path, "is not a SQLite database").advice("Check the path; nothing was changed.")
        );
    }
    Ok(Files {
        path: path.to_owned(),
        bytes: info.len,
        header,
        journal: beside(&medium, path, "-journal", FileKind::Journal, Journal::read)?,
        wal: beside(&medium, path, "-wal", FileKind::RedoLog, Wal::read)?,
        statement_log_bytes: beside(&medium, path, "-sla", FileKind::StatementLog, |file| file.len())?,
        atomic_write_bytes: file.guarantees().atomic_write_bytes,
        owner: owner(&*file, info.writable).map_err(describe)?,
    })
}

/// Reads a file whose name is the database's and an ending; `None` where there is none.
fn beside<T>(
    medium: &OsMedium,
    path: &Path,
    ending: &str,
    kind: FileKind,
    read: impl Fn(&dyn File) -> litefoot_engine::device::Result<T>,
) -> Result<Option<T>, Failure> {
    match medium.open(&device::beside(path, ending), kind, OpenMode::ReadOnly).and_then(|file| read(&*file)) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(device_failure(&error)),
    }
}

/// Asks for SQLite's locks and gives them back at once: the only way to learn of locks that belong to
/// open file descriptions.
fn owner(file: &dyn File, writable: bool) -> litefoot_engine::device::Result<Owner> {
    let holder = file.lock_holder(LOCK_OFFSET, LOCK_BYTES);
    let shareable = file.lock_range(LOCK_OFFSET, LOCK_BYTES, RangeLock::Shared)?;
    let free = shareable && (!writable || file.lock_range(LOCK_OFFSET, LOCK_BYTES, RangeLock::Exclusive)?);
    file.lock_range(LOCK_OFFSET, LOCK_BYTES, RangeLock::None)?;
    Ok(match (shareable, free) {
        (false, _) => Owner::Exclusive(holder),
        (true, false) => Owner::Shared(holder),
        (true, true) => Owner::Nobody,
    })
}

fn device_failure(error: &DeviceError) -> Failure {
    let advice = match error.kind() {
        ErrorKind::Permission => "Check the permissions of the file and of its directory.",
        ErrorKind::NotFound => "Check the path; nothing was created.",
        ErrorKind::IsDirectory => "Name a database file.",
        _ => "Nothing was changed.",
    };
    Failure::new(error.to_string()).advice(advice)
}

/// A big-endian number, as SQLite writes them; the caller's offsets are within its fixed-size buffer.
fn be_u32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(word)
}
