//! Has anything changed? Told from outside, without opening a file.
//!
//! An owner that is alone with its database learns of everybody who opens the file, so a tick that finds nothing must not open it. Every commit
//! writes the database, its log or its journal, and so changes a length or a time.
//!
//! # Invariant
//! A stamp that was taken at the time of a write may be equal to one that is taken behind the next write: times have the grain of the
//! system's clock. So a stamp counts only if it was [settled](Stamp::is_settled) when it was taken.

use crate::{Error, Result};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// The grain of the times of files, with much to spare: systems have 1 to 10 ms.
const GRAIN: Duration = Duration::from_millis(100);

/// Files that a commit may write. A log without content says nothing: visitors make and remove it.
const FILES: [&str; 3] = ["", "-wal", "-commits"];

/// The lengths and times of the files of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    files: [Option<FileStamp>; FILES.len()],
    settled: bool,
    /// True where somebody was in the middle of a write.
    in_motion: bool,
    taken: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Stamp {
    /// Looks at the files of a database.
    pub fn take(database: &Path) -> Result<Stamp> {
        let (taken, now) =
            (Instant::now(), SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        let mut files = [None; FILES.len()];
        for (place, ending) in files.iter_mut().zip(FILES) {
            let path = beside(database, ending);
            *place = match std::fs::metadata(&path) {
                Ok(found) if !ending.is_empty() && found.len() == 0 => None,
                Ok(found) => Some(FileStamp {
                    device: found.dev(),
                    inode: found.ino(),
                    bytes: found.len(),
                    modified: (found.mtime(), found.mtime_nsec()),
                }),
                Err(error) if error.kind() == io::ErrorKind::NotFound && !ending.is_empty() => None,
                Err(error) => return Err(Error::local(&path, error)),
            };
        }
        let settled = files.iter().flatten().all(|file| is_settled(file.modified, now));
        Ok(Stamp { files, settled, in_motion: false, taken })
    }

    /// True if the same lengths and times tell later that nothing was written since.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Makes it tell nothing: somebody was in the middle of a write.
    pub fn unsettle(&mut self) {
        self.settled = false;
        self.in_motion = true;
    }

    /// True if a database of which this is the last stamp is to be looked at once more, as of a later stamp. Where the two are equal, and the time of a
    /// file had not settled, one look follows when it has.
    pub fn wants_look(&self, later: &Stamp) -> bool {
        let is_over = later.taken.saturating_duration_since(self.taken) > GRAIN;
        self.files != later.files || self.in_motion || (!self.settled && is_over)
    }

    /// True if nothing was written between this stamp and a later one.
    pub fn tells_equal(&self, later: &Stamp) -> bool {
        self.settled && self.files == later.files
    }
}

/// True if a file with that time was written longer ago than the grain of its time. A time in the future tells nothing.
fn is_settled(modified: (i64, i64), now: Duration) -> bool {
    let (Ok(seconds), Ok(nanos)) = (u64::try_from(modified.0), u32::try_from(modified.1)) else {
        return true;
    };
    now.checked_sub(Duration::new(seconds, nanos)).is_some_and(|age| age > GRAIN)
}

/// A file beside a database.
pub fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_settled_when_its_grain_is_over() {
        let now = Duration::from_millis(10_000);
        for (seconds, ms, settled) in
            [(9, 0, true), (9, 899, true), (9, 900, false), (10, 0, false), (11, 0, false), (-5, 0, true)]
        {
            assert_eq!(is_settled((seconds, ms * 1_000_000), now), settled, "{seconds}.{ms}");
        }
    }

    #[test]
    fn a_look_follows_each_write_and_one_more_when_its_time_has_settled() {
        let file = FileStamp { device: 1, inode: 2, bytes: 3, modified: (4, 5) };
        let written = FileStamp { modified: (4, 6), ..file };
        let begin = Instant::now();
        let stamp = |file, settled, in_motion, ms| Stamp {
            files: [Some(file), None, None],
            settled,
            in_motion,
            taken: begin + Duration::from_millis(ms),
        };
        for (settled, in_motion, later, ms, expected) in [
            (true, false, file, 10, false),
            (true, false, file, 1000, false),
            (true, false, written, 10, true),
            (false, false, file, 10, false),
            (false, false, file, 100, false),
            (false, false, file, 101, true),
            (false, false, written, 10, true),
            (false, true, file, 10, true),
        ] {
            let wants = stamp(file, settled, in_motion, 0).wants_look(&stamp(later, true, false, ms));
            assert_eq!(wants, expected, "{settled} {in_motion} {later:?} {ms}");
        }
    }

    #[test]
    fn writes_are_seen_and_empty_logs_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("a.db");
        assert!(Stamp::take(&database).is_err());
        std::fs::write(&database, "x").unwrap();
        let old = SystemTime::now() - Duration::from_secs(5);
        let age =
            |path: &Path| std::fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
        assert!(!Stamp::take(&database).unwrap().is_settled());
        age(&database);
        let stamp = Stamp::take(&database).unwrap();
        assert!(stamp.tells_equal(&Stamp::take(&database).unwrap()));
        std::fs::write(beside(&database, "-wal"), "").unwrap();
        assert!(stamp.tells_equal(&Stamp::take(&database).unwrap()));
        std::fs::write(beside(&database, "-wal"), "frames").unwrap();
        assert!(!stamp.tells_equal(&Stamp::take(&database).unwrap()));
        std::fs::remove_file(beside(&database, "-wal")).unwrap();
        std::fs::write(&database, "xy").unwrap();
        assert!(!stamp.tells_equal(&Stamp::take(&database).unwrap()));
    }
}
