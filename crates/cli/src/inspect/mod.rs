//! The inspector: reads the bytes of a database without SQLite and without changing anything.
//!
//! `stat` prints it, `check` judges it. References are to SQLite's file format,
//! <https://www.sqlite.org/fileformat2.html>.
//!
//! A database file whose owner is alone with it is not opened: the owner would share it from then on.

mod header;
mod journal;
mod owner;
mod problems;
mod tier;
mod wal;

pub use header::Header;
pub use journal::{Content, Journal};
pub use owner::{Owner, Presence, is_shared_on_demand, process, program};
pub use problems::{notes, problems};
pub use tier::Away;
pub use wal::Wal;

use litefoot::stats::Published;
use litefoot::tier::logs_beside;
use litefoot_storage::file::{
    self, DeviceError, ErrorKind, File, FileId, FileKind, Medium, OpenMode, PathInfo,
};
use litefoot_storage::os::OsMedium;
use litefoot_terminal::Failure;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A database and the files beside it.
#[derive(Debug)]
pub struct Files {
    /// The database file.
    pub path: PathBuf,
    /// Its identity.
    pub id: FileId,
    /// Its length.
    pub bytes: u64,
    /// Its first 100 bytes; `None` for an empty file, which is an empty database, and for one that was not read.
    pub header: Option<Header>,
    /// True where the database file was not opened, since its owner is alone with it.
    pub unread: bool,
    /// The rollback journal beside it.
    pub journal: Option<Journal>,
    /// The write-ahead log beside it: SQLite's, and litefoot's redo log.
    pub wal: Option<Wal>,
    /// Where parts of it live, if they are away. The logs lie there as well.
    pub away: Option<Away>,
    /// Length of the commit log beside it.
    pub commit_log_bytes: Option<u64>,
    /// A redo log that was to take the place of the one beside it, and did not: its program was killed.
    pub unfinished_log: Option<PathBuf>,
    /// Bytes of a write in place that the device never tears, as it says itself; 0 where it says nothing.
    pub atomic_write_bytes: u32,
    /// The processes that use it.
    pub owner: Owner,
    /// True where its owner shares it with whoever opens the file.
    pub shared_on_demand: bool,
    /// The figures of its owner, where that shows them.
    pub published: Option<Published>,
}

impl Files {
    /// Refuses a database that somebody else keeps others out of, or has open through litefoot.
    pub fn refuse_owned(&self, advice: &str) -> Result<(), Failure> {
        let process = match (self.owner, &self.published) {
            (Owner::Exclusive(owner), _) => owner,
            (_, Some(published)) => Some(published.process),
            _ => return Ok(()),
        };
        let what = format!("{} has this database open", owner::process(process));
        Err(Failure::file(&self.path, what).advice(advice))
    }
}

/// Reads a database's bytes and those of the files beside it.
pub fn look(path: &Path) -> Result<Files, Failure> {
    let medium: Arc<dyn Medium> = Arc::new(OsMedium::new());
    let info = regular_file(path)?;
    let presence = Presence::find(info.id);
    let unread = presence.is_owned();
    let published = presence.published();
    let known = published.as_ref().map(|published| published.process);
    let read = if unread { None } else { Some(Read::new(&medium, path, info.writable)?) };
    let (owner, header, away, atomic_write_bytes) = match read {
        None => (Owner::Exclusive(known), None, None, 0),
        Some(Read { owner, header, away, atomic_write_bytes }) => {
            let owner = match owner {
                // An application that shares it may hold no lock at this moment.
                Owner::Nobody if published.is_some() => Owner::Shared(known),
                owner => owner.or_process(known),
            };
            (owner, header, away, atomic_write_bytes)
        }
    };
    if !unread && info.len > 0 && header.is_none() && away.is_none() {
        return Err(
            Failure::file(path, "is not a SQLite database").advice("Check the path; nothing was changed.")
        );
    }
    let [redo, statements] = match &away {
        Some(away) => logs_beside(&away.device),
        None => ["-wal", "-commits"].map(|ending| file::beside(path, ending)),
    };
    Ok(Files {
        path: path.to_owned(),
        id: info.id,
        bytes: info.len,
        header,
        unread,
        journal: read_log(&file::beside(path, "-journal"), FileKind::Journal, Journal::read)?,
        wal: read_log(&redo, FileKind::RedoLog, Wal::read)?,
        unfinished_log: unfinished_log(&redo)?,
        commit_log_bytes: read_log(&statements, FileKind::CommitLog, |file| file.len())?,
        away,
        atomic_write_bytes,
        owner,
        shared_on_demand: unread && owner::is_shared_on_demand(info.id),
        published,
    })
}

/// The properties of a database file, without opening it.
pub fn regular_file(path: &Path) -> Result<PathInfo, Failure> {
    let Some(info) = OsMedium.info(path).map_err(|error| device_failure(&error))? else {
        return Err(Failure::file(path, "no such file").advice("Check the path; nothing was created."));
    };
    if !info.is_file {
        return Err(Failure::file(path, "is not a regular file").advice("Name a database file."));
    }
    Ok(info)
}

/// The parts of [`Files`] that are read from the database file itself.
struct Read {
    owner: Owner,
    header: Option<Header>,
    away: Option<Away>,
    atomic_write_bytes: u32,
}

impl Read {
    fn new(medium: &Arc<dyn Medium>, path: &Path, writable: bool) -> Result<Read, Failure> {
        let describe = |error: DeviceError| device_failure(&error);
        let mode = if writable { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
        let file = medium.absolute(path).and_then(|found| medium.open(&found.path, FileKind::Database, mode));
        let file = file.map_err(describe)?;
        let away = Away::read(medium, &*file);
        Ok(Read {
            owner: owner::holder(&*file),
            header: Header::read(&*file).map_err(describe)?,
            away: away.map_err(|what| Failure::new(what).advice("Nothing was changed."))?,
            atomic_write_bytes: file.guarantees().atomic_write_bytes,
        })
    }
}

/// The write-ahead log beside a database, without a look at the database itself.
pub fn redo_log(database: &Path) -> Result<Option<Wal>, Failure> {
    read_log(&file::beside(database, "-wal"), FileKind::RedoLog, Wal::read)
}

/// The file that a program has left which was killed while it made a redo log smaller.
fn unfinished_log(redo: &Path) -> Result<Option<PathBuf>, Failure> {
    let path = litefoot_storage::wal_file::new_path(redo);
    let info = OsMedium.info(&path).map_err(|error| device_failure(&error))?;
    Ok(info.filter(|info| info.is_file).map(|_| path))
}

/// Reads a file that belongs to the database; `None` where there is none.
fn read_log<T>(
    path: &Path,
    kind: FileKind,
    read: impl Fn(&dyn File) -> litefoot_storage::file::Result<T>,
) -> Result<Option<T>, Failure> {
    match OsMedium.open(path, kind, OpenMode::ReadOnly).and_then(|file| read(&*file)) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(device_failure(&error)),
    }
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
