//! Opening what a power cut left, and comparing it with what it may be.

use super::model::{self, DATABASE, Rows};
use super::readers::Readers;
use super::workload::{Expected, progress};
use litefoot_sim::SimMedium;
use litefoot_storage::file::FileKind;
use rusqlite::{Connection, OpenFlags};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Where the header of a commit log says its state, and the one of a log of statements.
const STATE: Range<usize> = 12..16;
const STATEMENTS: u32 = 3;

/// The reader that opens the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// litefoot, on the simulated medium.
    Litefoot,
    /// The same without the tier, which must refuse what is marked.
    WithoutTier,
    /// Plain SQLite, on the files exported to a real directory.
    Stock,
}

/// The reader's verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A state that is allowed.
    Sound,
    /// A valid database in a state that is not.
    Lost(String),
    /// No valid database.
    Corrupt(String),
}

/// Opens the files of `image` and compares.
///
/// # Errors
/// When the simulator itself fails: there is no temporary directory.
pub fn check(
    readers: &Readers,
    image: &SimMedium,
    reader: Reader,
    expected: &Expected<'_>,
) -> Result<Verdict, String> {
    // Opening may drain the tier.
    let marked = is_marked(image);
    let before = marked.then(|| image.files());
    let found = match reader {
        Reader::Litefoot | Reader::WithoutTier => {
            let vfs = readers.litefoot(image);
            let tiered = expected.database != DATABASE;
            let name = if reader == Reader::Litefoot { &expected.database } else { DATABASE };
            let db = vfs.open(name).map_err(|error| error.to_string());
            let found = db.and_then(|db| {
                let found = read_whole(&db).map_err(|error| error.to_string())?;
                if !tiered {
                    return Ok(found);
                }
                // The next write may move the logs.
                db.execute_batch("PRAGMA user_version=7").map_err(|error| error.to_string())?;
                read_whole(&db).map_err(|error| error.to_string())
            });
            match (&found, expected.several_files && reader == Reader::Litefoot) {
                (Ok((rows, _)), true) => match second_progress(vfs, &expected.second) {
                    Ok(number) if number == progress(rows) => found,
                    Ok(number) => {
                        let first = progress(rows);
                        return Ok(Verdict::Lost(format!("the databases are at {first} and {number}")));
                    }
                    Err(error) => return Ok(Verdict::Corrupt(format!("{}: {error}", expected.second))),
                },
                _ => found,
            }
        }
        Reader::Stock => {
            let scratch = Scratch::new()?;
            let path = scratch.export(image)?;
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
            let db = Connection::open_with_flags_and_vfs(path, flags, "unix");
            db.and_then(|db| read_whole(&db)).map_err(|error| error.to_string())
        }
    };
    Ok(match found {
        Err(error) if marked && refuses(reader, &error) => match before {
            Some(before) if before != image.files() => {
                Verdict::Corrupt(format!("something was written: {error}"))
            }
            _ => Verdict::Sound,
        },
        Ok(_) if marked && reader != Reader::Litefoot => {
            Verdict::Corrupt("a file was opened whose chunks are away".to_owned())
        }
        Err(error) => Verdict::Corrupt(error),
        Ok(_) if has_log_set_aside(image) => {
            Verdict::Lost("a log of the database was taken for another's".to_owned())
        }
        Ok((_, integrity)) if integrity != "ok" => Verdict::Corrupt(integrity),
        Ok((rows, _)) if reader == Reader::Stock && has_waiting_log(image) && expected.was(&rows) => {
            Verdict::Sound
        }
        Ok((rows, _)) => judge(&rows, expected),
    })
}

/// Reads the files by SQLite's own protocol, on the medium itself. Its close checkpoints a log that has frames.
pub fn read_as_stock(readers: &Readers, image: &SimMedium) {
    // Statements build upon the redo log, and are refused where that is gone.
    if commit_log_state(image) == Some(STATEMENTS) {
        return;
    }
    // What stock makes of them is checked on a copy.
    if let Ok(db) = readers.pass_through(image).open(DATABASE) {
        let _ = read_whole(&db);
    }
}

/// True if a commit log waits to be recovered; until then plain SQLite reads the last checkpoint.
fn has_waiting_log(image: &SimMedium) -> bool {
    commit_log_state(image).is_some_and(|state| state != 0)
}

/// The state of a commit log, as its header says.
fn commit_log_state(image: &SimMedium) -> Option<u32> {
    let mut state = None;
    image.for_each_file(|_, kind, bytes| {
        if kind == FileKind::CommitLog {
            state = bytes.get(STATE).and_then(|state| state.try_into().ok()).map(u32::from_le_bytes);
        }
    });
    state
}

/// True if opening has set a log aside: here every log is the database's own.
fn has_log_set_aside(image: &SimMedium) -> bool {
    any_file(image, |path, _| path.to_string_lossy().contains(".set-aside-"))
}

/// True if the file says that its chunks are away.
fn is_marked(image: &SimMedium) -> bool {
    any_file(image, |path, bytes| path == Path::new(DATABASE) && bytes.starts_with(b"litefoot tiered\0"))
}

fn any_file(image: &SimMedium, mut is_it: impl FnMut(&Path, &[u8]) -> bool) -> bool {
    let mut found = false;
    image.for_each_file(|path, _, bytes| found |= is_it(path, bytes));
    found
}

/// True if that is how a file is refused whose chunks are away.
fn refuses(reader: Reader, error: &str) -> bool {
    match reader {
        Reader::Litefoot => false,
        Reader::WithoutTier => error.contains("parts of it live on the tier device /fast/app.tier"),
        Reader::Stock => error.contains("file is not a database"),
    }
}

fn read_whole(db: &Connection) -> rusqlite::Result<(Rows, String)> {
    let rows = model::read(db)?;
    let integrity = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    Ok((rows, integrity))
}

/// How far the second database is.
fn second_progress(vfs: &litefoot::Vfs, name: &str) -> Result<i64, String> {
    let db = vfs.open(name).map_err(|error| error.to_string())?;
    db.query_row("SELECT n FROM progress", [], |row| row.get(0)).map_err(|error| error.to_string())
}

fn judge(rows: &Rows, expected: &Expected<'_>) -> Verdict {
    if rows == expected.acknowledged || Some(rows) == expected.in_flight {
        return Verdict::Sound;
    }
    let differing = rows
        .keys()
        .chain(expected.acknowledged.keys())
        .find(|id| rows.get(id) != expected.acknowledged.get(id));
    Verdict::Lost(format!(
        "{} rows, {} acknowledged; first difference at id {differing:?}",
        rows.len(),
        expected.acknowledged.len()
    ))
}

/// A directory for exported files, on memory where there is such a file system.
struct Scratch {
    directory: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Result<Scratch, String> {
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Ok(Scratch { directory: directory.map_err(|error| format!("temporary directory: {error}"))? })
    }

    /// Writes the files of the image; returns the path of the database.
    fn export(&self, image: &SimMedium) -> Result<PathBuf, String> {
        let target = |path: &Path| self.directory.path().join(path.file_name().unwrap_or(path.as_os_str()));
        let mut written = Ok(());
        image.for_each_file(|path, _, bytes| {
            if written.is_ok() {
                let target = target(path);
                written =
                    std::fs::write(&target, bytes).map_err(|error| format!("{}: {error}", target.display()));
            }
        });
        written.map(|()| target(Path::new(DATABASE)))
    }
}
