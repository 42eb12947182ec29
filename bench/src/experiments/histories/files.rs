//! The files of a database, as other programs than SQLite handle them: copies, renames, removals.

use super::content;
use crate::harness::open_stock;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// What stock SQLite reads beside a database.
const STOCK: [&str; 2] = ["-wal", "-journal"];
/// What a database consists of, for somebody who copies all of it.
const ALL: [&str; 5] = ["", "-wal", "-wal.new", "-journal", "-commits"];
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// Bytes of the header of a `-wal` and of one of its frames, and where in each the salts are.
const WAL_HEADER_BYTES: usize = 32;
const WAL_FRAME_BYTES: usize = 24;

/// The companion of that suffix.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn if_there(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Copies a file where there is one; `keeps_time` as `cp -p` does.
fn copy(from: &Path, to: &Path, keeps_time: bool) -> io::Result<()> {
    let copied = || {
        fs::copy(from, to)?;
        if keeps_time {
            let time = fs::metadata(from)?.modified()?;
            File::options().write(true).open(to)?.set_modified(time)?;
        }
        Ok(())
    };
    if_there(copied())
}

/// Copies a database: all of its files, or the data file alone.
pub fn copy_database(from: &Path, to: &Path, all: bool, keeps_time: bool) -> io::Result<()> {
    let suffixes = if all { &ALL[..] } else { &ALL[..1] };
    suffixes.iter().try_for_each(|suffix| copy(&beside(from, suffix), &beside(to, suffix), keeps_time))
}

/// Removes the companions of a database.
pub fn remove_companions(path: &Path) -> io::Result<()> {
    ALL[1..].iter().chain(&["-shm"]).try_for_each(|suffix| remove(&beside(path, suffix)))
}

/// Removes a file where there is one.
pub fn remove(path: &Path) -> io::Result<()> {
    if_there(fs::remove_file(path))
}

/// Gives all files of a database another name.
pub fn rename_database(from: &Path, to: &Path) -> io::Result<()> {
    let mut suffixes = ALL.iter().chain(&["-shm"]);
    suffixes.try_for_each(|suffix| if_there(fs::rename(beside(from, suffix), beside(to, suffix))))
}

/// The commits that stock SQLite finds in a copy of the data file, with or without the logs that it knows. `None` where
/// that is nothing sound.
///
/// # Errors
/// Those of copying.
pub fn view(path: &Path, scratch: &Path, with_logs: bool) -> io::Result<Option<Vec<u64>>> {
    remove(scratch)?;
    remove_companions(scratch)?;
    if !path.exists() {
        return Ok(Some(Vec::new()));
    }
    copy(path, scratch, false)?;
    for suffix in STOCK.iter().filter(|_| with_logs) {
        copy(&beside(path, suffix), &beside(scratch, suffix), false)?;
    }
    let found = open_stock(scratch).map_err(|error| error.to_string()).and_then(|db| content::look(&db));
    Ok(found.ok())
}

/// The first sector of a data file.
///
/// # Errors
/// Those of reading.
pub fn first_sector(path: &Path) -> io::Result<Vec<u8>> {
    let mut sector = Vec::new();
    File::open(path)?.take(512).read_to_end(&mut sector)?;
    Ok(sector)
}

/// True if any log lies beside the database.
pub fn has_log(path: &Path) -> bool {
    ALL[1..].iter().any(|suffix| beside(path, suffix).exists())
}

/// True if a log or journal lies beside the database that stock SQLite applies to any file of that name.
pub fn has_stock_log(path: &Path) -> bool {
    let wal = fs::read(beside(path, "-wal")).unwrap_or_default();
    let frame = wal.get(WAL_HEADER_BYTES..WAL_HEADER_BYTES + WAL_FRAME_BYTES);
    let has_frames = frame.is_some_and(|frame| frame[8..16] == wal[16..24]);
    has_frames || fs::read(beside(path, "-journal")).unwrap_or_default().starts_with(&JOURNAL_MAGIC)
}

/// The files of a database, and their lengths.
pub fn listing(path: &Path) -> String {
    let file = |suffix: &&str| {
        let len = fs::metadata(beside(path, suffix)).ok()?.len();
        Some(format!("{}: {len}", if suffix.is_empty() { "file" } else { *suffix }))
    };
    ALL.iter().filter_map(file).collect::<Vec<_>>().join(", ")
}

/// The number of logs that were set aside beside a database.
pub fn set_aside(path: &Path) -> usize {
    let Some(directory) = path.parent() else { return 0 };
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    entries.flatten().filter(|entry| entry.file_name().to_string_lossy().contains(".set-aside-")).count()
}
