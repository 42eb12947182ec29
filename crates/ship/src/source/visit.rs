//! A visit: the database opened beside the programs that use it, and one moment of it held.
//!
//! SQLite takes the locks, recovers, and rolls back what is hot. The pages are read from the files, past SQLite: it would pass each one
//! through its cache, and tells nobody which frame of the log is the newest.
//!
//! # Invariants
//! 1. While SQLite's connection is open, this process closes no other descriptor of the database, its log or its wal-index: that would take
//!    the connection's locks away (POSIX). So the descriptors stand behind the connection, and are dropped after it.
//! 2. In WAL mode the committed end is taken from the wal-index within a read transaction. The transaction keeps the log from being restarted, or
//!    the file from being written; where the log was complete in the file it may be restarted, and [`Snapshot::is_sound`] says so.
//! 3. With a rollback journal the file is the database while the read transaction lasts.
//! 4. The stamp of a snapshot is taken within the read transaction, and before the committed end is read: a commit that the snapshot lacks is
//!    written later, or its frames stand behind that end already.

use super::owner::Owner;
use super::stamp::{Stamp, beside};
use super::view::View;
use super::wal_index::{self, WalIndex};
use crate::{Error, Result};
use rusqlite::{Connection, ErrorCode};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a visit waits for a lock. Then the next tick tries again.
const PATIENCE: Duration = Duration::from_secs(2);
/// Times that a wal-index is read while writers are at work on it.
const READS_MAX: u32 = 1000;
const LOG_HEADER_BYTES: u64 = 32;
const FRAME_HEADER_BYTES: u64 = 24;

/// The way into a database beside the programs that use it.
pub trait Door: Send {
    /// Opens the file, and then a connection of SQLite's own VFS.
    fn enter(&self) -> Result<(File, Connection)>;

    /// True if a connection that reads now sees everything that was committed. An owner may have been killed between the look and the
    /// lock, and have left a log that only litefoot understands.
    fn is_complete(&self, is_wal: bool) -> Result<bool>;

    /// The process that owns the database, where there may be one that answers.
    fn owner(&self) -> Option<Box<dyn Owner>> {
        None
    }
}

/// A door for databases that no other storage layer is beneath.
#[derive(Clone, Debug)]
pub struct PlainDoor(pub PathBuf);

impl Door for PlainDoor {
    fn enter(&self) -> Result<(File, Connection)> {
        let file = File::open(&self.0).map_err(|error| Error::local(&self.0, error))?;
        let connection = Connection::open(&self.0).map_err(|error| explain(&self.0, &error))?;
        Ok((file, connection))
    }

    fn is_complete(&self, _: bool) -> Result<bool> {
        Ok(true)
    }
}

/// An open database.
pub struct Visit {
    connection: Connection,
    file: File,
    log: OnceCell<(File, File)>,
    path: PathBuf,
}

impl Visit {
    /// Opens the database. Nothing is locked.
    pub fn open(path: &Path, door: &dyn Door) -> Result<Visit> {
        let (file, connection) = door.enter()?;
        connection.busy_timeout(PATIENCE).map_err(|error| explain(path, &error))?;
        Ok(Visit { connection, file, log: OnceCell::new(), path: path.to_owned() })
    }

    /// The database file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Begins a read transaction, and looks at the moment that it holds. Answers no snapshot where what was committed cannot be seen yet.
    pub fn begin(&self, door: &dyn Door) -> Result<Option<Snapshot<'_>>> {
        let fail = |error| explain(&self.path, &error);
        self.connection.execute_batch("BEGIN").map_err(fail)?;
        self.connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(fail)?;
        let number = |pragma| self.connection.pragma_query_value(None, pragma, |row| row.get::<_, u32>(0));
        let mode = self.connection.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0));
        let is_wal = mode.map_err(fail)? == "wal";
        if !door.is_complete(is_wal)? {
            self.end()?;
            return Ok(None);
        }
        let mut snapshot = Snapshot {
            visit: self,
            stamp: Stamp::take(&self.path)?,
            page_size: number("page_size").map_err(fail)?,
            pages: number("page_count").map_err(fail)?,
            log: None,
            is_wal,
        };
        if is_wal && let Some(log) = self.log()? {
            // A log without frames says nothing of the number of pages.
            if log.index.frames > 0 {
                snapshot.pages = log.index.pages;
                snapshot.page_size = log.index.page_size;
            }
            if log.goes_on().map_err(|error| Error::local(&beside(&self.path, "-wal"), error))? {
                snapshot.stamp.unsettle();
            }
            snapshot.log = Some(log);
        }
        Ok(Some(snapshot))
    }

    /// Ends the transaction: the moment is no longer held.
    pub fn end(&self) -> Result<()> {
        if self.connection.is_autocommit() {
            return Ok(());
        }
        self.connection.execute_batch("COMMIT").map_err(|error| explain(&self.path, &error))
    }

    /// The log with its committed end; `None` where there is none, as beside a database that everybody had closed.
    fn log(&self) -> Result<Option<Log<'_>>> {
        if self.log.get().is_none() {
            let open = |ending| match File::open(beside(&self.path, ending)) {
                Ok(file) => Ok(Some(file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(Error::local(&beside(&self.path, ending), error)),
            };
            if let Some(log) = open("-wal")? {
                // Kept also where the other is missing, since a descriptor must not be closed before the connection.
                let Some(index) = open("-shm")? else {
                    return Err(Error::local(
                        &beside(&self.path, "-shm"),
                        "the wal-index is missing beside its log",
                    ));
                };
                let _ = self.log.set((log, index));
            }
        }
        let Some((log, index)) = self.log.get() else { return Ok(None) };
        let committed =
            read_index(index).map_err(|error| Error::local(&beside(&self.path, "-shm"), error))?;
        let Some(committed) = committed else {
            let path = self.path.clone();
            return Err(Error::Locked {
                path,
                why: "writers are at work on its wal-index all the time".into(),
            });
        };
        Ok(Some(Log { file: log, shared: index, index: committed, newest: OnceCell::new() }))
    }
}

/// Reads the wal-index, between writers.
fn read_index(file: &File) -> io::Result<Option<WalIndex>> {
    let mut bytes = [0; wal_index::BYTES];
    for _ in 0..READS_MAX {
        file.read_exact_at(&mut bytes, 0)?;
        if let Some(found) = wal_index::parse(&bytes) {
            return Ok(Some(found));
        }
        std::thread::yield_now();
    }
    Ok(None)
}

/// A log, up to its committed end.
struct Log<'v> {
    file: &'v File,
    shared: &'v File,
    index: WalIndex,
    newest: OnceCell<HashMap<u32, u32>>,
}

impl Log<'_> {
    fn frame_bytes(&self) -> u64 {
        FRAME_HEADER_BYTES + u64::from(self.index.page_size)
    }

    fn offset(&self, frame: u32) -> u64 {
        LOG_HEADER_BYTES + (u64::from(frame) - 1) * self.frame_bytes()
    }

    /// The pages of the frames behind `from`, with their frames.
    fn frames(&self, from: u32) -> io::Result<Vec<(u32, u32)>> {
        let mut header = [0; FRAME_HEADER_BYTES as usize];
        (from + 1..=self.index.frames)
            .map(|frame| {
                self.file.read_exact_at(&mut header, self.offset(frame))?;
                if header[8..16] != self.index.salts {
                    return Err(io::Error::other(format!("frame {frame} belongs to another log")));
                }
                Ok((u32::from_be_bytes([header[0], header[1], header[2], header[3]]), frame))
            })
            .collect()
    }

    /// True if frames of this log stand behind its committed end: somebody is about to commit them, or has given up.
    fn goes_on(&self) -> io::Result<bool> {
        let mut header = [0; FRAME_HEADER_BYTES as usize];
        read_or_zero(self.file, self.offset(self.index.frames + 1), &mut header)?;
        // Behind the end of the file are zeros, and a log without a header has zeros for salts.
        Ok(header[..4] != [0; 4] && header[8..16] == self.index.salts)
    }

    /// The newest frame of each page.
    fn newest(&self) -> io::Result<&HashMap<u32, u32>> {
        if self.newest.get().is_none() {
            let frames = self.frames(0)?;
            let _ = self.newest.set(frames.into_iter().collect());
        }
        self.newest.get().ok_or_else(|| io::Error::other("no frames"))
    }

    /// The checksum of a frame, as the log has it.
    fn checksum(&self, frame: u32) -> io::Result<[u8; 8]> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, self.offset(frame) + 16)?;
        Ok(bytes)
    }
}

/// The end of a log, by which it is known again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    salts: [u8; 8],
    frames: u32,
    checksum: [u8; 8],
}

/// One moment of a database, for as long as the read transaction lasts.
pub struct Snapshot<'v> {
    visit: &'v Visit,
    stamp: Stamp,
    page_size: u32,
    pages: u32,
    log: Option<Log<'v>>,
    is_wal: bool,
}

impl Snapshot<'_> {
    /// The stamp of the files at this moment.
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// True in WAL mode, where nobody waits for a reader.
    pub fn is_wal(&self) -> bool {
        self.is_wal
    }

    /// The end of the log, to be given to [`Snapshot::logged_since`] later.
    pub fn log_end(&self) -> Result<Option<LogEnd>> {
        let Some(log) = self.log.as_ref().filter(|log| log.index.frames > 0) else { return Ok(None) };
        let checksum =
            log.checksum(log.index.frames).map_err(|error| Error::local(&self.visit.path, error))?;
        Ok(Some(LogEnd { salts: log.index.salts, frames: log.index.frames, checksum }))
    }

    /// The pages that were logged behind an earlier end; `None` where the log is another one by now.
    pub fn logged_since(&self, end: LogEnd) -> Result<Option<Vec<u32>>> {
        let fail = |error| Error::local(&self.visit.path, error);
        let Some(log) = &self.log else { return Ok(None) };
        if log.index.salts != end.salts
            || log.index.frames < end.frames
            || log.checksum(end.frames).map_err(fail)? != end.checksum
        {
            return Ok(None);
        }
        let mut pages: Vec<u32> =
            log.frames(end.frames).map_err(fail)?.into_iter().map(|(page, _)| page).collect();
        pages.sort_unstable();
        pages.dedup();
        Ok(Some(pages))
    }

    /// False where the log was restarted while pages were read: they may be of several moments.
    pub fn is_sound(&self) -> Result<bool> {
        let Some(log) = &self.log else { return Ok(true) };
        let now = read_index(log.shared).map_err(|error| Error::local(&self.visit.path, error))?;
        Ok(now.is_some_and(|now| now.salts == log.index.salts && now.frames >= log.index.frames))
    }
}

impl View for Snapshot<'_> {
    fn page_size(&self) -> u32 {
        self.page_size
    }

    fn pages(&self) -> u32 {
        self.pages
    }

    fn read(&self, first: u32, to: &mut [u8]) -> Result<()> {
        let size = self.page_size as usize;
        let fail = |error| Error::local(&self.visit.path, error);
        read_or_zero(&self.visit.file, (u64::from(first) - 1) * size as u64, to).map_err(fail)?;
        let Some(log) = &self.log else { return Ok(()) };
        let newest = log.newest().map_err(fail)?;
        for (page, place) in (first..).zip(to.chunks_mut(size)) {
            if let Some(frame) = newest.get(&page) {
                log.file.read_exact_at(place, log.offset(*frame) + FRAME_HEADER_BYTES).map_err(fail)?;
            }
        }
        Ok(())
    }
}

/// Reads what there is, and zeros behind it.
fn read_or_zero(file: &File, at: u64, to: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < to.len() {
        match file.read_at(&mut to[done..], at + done as u64) {
            Ok(0) => {
                to[done..].fill(0);
                break;
            }
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// SQLite's refusal, by what is to be done about it.
pub fn explain(path: &Path, error: &rusqlite::Error) -> Error {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::Locked { path, why: "is in use by another program that does not share it now".into() }
        }
        _ => Error::Local { path, why: error.to_string() },
    }
}
