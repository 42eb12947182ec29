//! Logs under names of their own.
//!
//! # Why
//! A log belongs to the database whose name it has. One that is not that database's gets another name, with all that is in it. So does
//! the log of a database whose name another one has taken, until the name comes back or the log ends.
//!
//! # Promises
//! 1. No file is replaced, and none is removed.
//! 2. A name is durable, or its loss is, before the call returns.

use crate::file::{
    DeviceError, ErrorKind, FileId, Medium, Operation, Result, SyncLatch, beside, parent_directory,
};
use std::path::{Path, PathBuf};

/// Most logs that are kept beside one database.
const MOST_SET_ASIDE: u32 = 10_000;

/// Gives a log that is not the database's another name, which nothing has, for good; answers that name.
///
/// # Errors
/// Errors of renaming, and that too many exist already.
pub fn set_aside(medium: &dyn Medium, path: &Path, latch: &SyncLatch) -> Result<PathBuf> {
    latch.check(path)?;
    for number in 1..=MOST_SET_ASIDE {
        let aside = beside(path, &format!(".set-aside-{number}"));
        match medium.rename_new(path, &aside) {
            Ok(()) => {
                // Where the old name came back after a power cut, SQLite itself would take the log for the database's.
                latch.watch(medium.sync_directory(parent_directory(path)))?;
                return Ok(aside);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    let many = std::io::Error::other("too many logs were set aside here already");
    Err(DeviceError::new(Operation::Rename, path, many))
}

/// Gives a file that was set aside the name again that it had; `false` where it has lost the other one meanwhile. A file that has taken
/// the name belongs to no database that has its own: it is set aside.
pub(crate) fn step_back(
    medium: &dyn Medium,
    (aside, name): (&Path, &Path),
    file: FileId,
    latch: &SyncLatch,
) -> Result<bool> {
    latch.check(name)?;
    if medium.identity(aside)? != Some(file) {
        return Ok(false);
    }
    if let Err(error) = medium.rename_new(aside, name) {
        if error.kind() != ErrorKind::AlreadyExists {
            return Err(error);
        }
        set_aside(medium, name, latch)?;
        medium.rename_new(aside, name)?;
    }
    latch.watch(medium.sync_directory(parent_directory(name)))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit_log::{Base, CommitLog, Record, StatementBase, Writer};
    use crate::file::{FileKind, OpenMode};
    use crate::log_file::Durability;
    use crate::sim::{Faults, Random, SimMedium, SyncSite};
    use crate::wal_file::origin::DataFile;
    use crate::wal_file::tests::{append, version_of};
    use crate::wal_file::{RedoLog, Whereabouts};
    use std::sync::Arc;

    const NAMES: [&str; 2] = ["/a-wal", "/a-commits"];

    /// The two logs of a database, with a transaction in each.
    fn logs(medium: &SimMedium) -> (RedoLog, CommitLog) {
        let file = medium.open(Path::new("/a"), FileKind::Database, OpenMode::Create).unwrap();
        let data = DataFile { path: "/a".into(), content: file.clone(), file };
        let shared: Arc<dyn Medium> = Arc::new(medium.clone());
        let mut redo = RedoLog::open_of(shared.clone(), Path::new(NAMES[0]), Arc::default(), data).unwrap();
        let mut commits = CommitLog::open(shared, Path::new(NAMES[1]), Arc::default()).unwrap();
        append(&mut redo, &[1], 1, Durability::Durable).unwrap();
        commits.reserve(4096).unwrap();
        commits.begin(Base::Statements(StatementBase {
            salts: [7; 2],
            frames: 1,
            writer: Writer::default(),
        }));
        commits.append(&[Record { kind: 7, payload: vec![7; 9] }], Durability::Durable).unwrap();
        (redo, commits)
    }

    fn names(medium: &SimMedium) -> Vec<String> {
        let mut names: Vec<String> =
            medium.files().iter().map(|(path, ..)| path.display().to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_log_that_has_stepped_aside_goes_on_and_has_its_name_again_whoever_has_taken_it() {
        for is_taken in [false, true] {
            let medium = SimMedium::new();
            let (mut redo, mut commits) = logs(&medium);
            for _ in 0..2 {
                // The second time nothing is left to do.
                redo.step_aside().unwrap();
                commits.step_aside().unwrap();
            }
            let aside = ["/a", "/a-commits.set-aside-1", "/a-wal.set-aside-1"];
            assert_eq!(names(&medium), aside);
            assert!(redo.is_aside() && redo.whereabouts().unwrap() == Whereabouts::Elsewhere);
            assert!(!commits.is_at_its_name().unwrap());
            append(&mut redo, &[1], 2, Durability::Durable).unwrap();
            if is_taken {
                for name in NAMES {
                    medium.open(Path::new(name), FileKind::RedoLog, OpenMode::CreateNew).unwrap();
                }
            }
            for _ in 0..2 {
                redo.step_back().unwrap();
                commits.step_back().unwrap();
            }
            let others = ["/a-commits.set-aside-2", "/a-wal.set-aside-2"];
            let mut expected = vec!["/a", NAMES[1], NAMES[0]];
            if is_taken {
                expected = vec!["/a", NAMES[1], others[0], NAMES[0], others[1]];
            }
            assert_eq!(names(&medium), expected);
            assert!(!redo.is_aside() && redo.whereabouts().unwrap() == Whereabouts::AtItsName);
            assert!(commits.is_at_its_name().unwrap());
            drop((redo, commits));
            let (redo, commits) = {
                let shared: Arc<dyn Medium> = Arc::new(medium.clone());
                let redo = RedoLog::open(shared.clone(), Path::new(NAMES[0]), Arc::default()).unwrap();
                (redo, CommitLog::open(shared, Path::new(NAMES[1]), Arc::default()).unwrap())
            };
            assert_eq!((version_of(&redo, 1), commits.is_empty()), (Some(2), false));
        }
    }

    #[test]
    fn a_log_that_has_ended_aside_leaves_nothing_and_begins_at_its_first_name() {
        let medium = SimMedium::new();
        let (mut redo, mut commits) = logs(&medium);
        redo.step_aside().unwrap();
        commits.step_aside().unwrap();
        redo.delete().unwrap();
        commits.delete().unwrap();
        assert_eq!(names(&medium), ["/a"]);
        append(&mut redo, &[1], 3, Durability::Durable).unwrap();
        commits.reserve(4096).unwrap();
        assert_eq!(names(&medium), ["/a", NAMES[1], NAMES[0]]);
    }

    #[test]
    fn a_log_whose_own_name_was_taken_stays_where_it_is() {
        let medium = SimMedium::new();
        let (mut redo, _commits) = logs(&medium);
        redo.step_aside().unwrap();
        let aside = Path::new("/a-wal.set-aside-1");
        medium.rename(aside, Path::new("/else")).unwrap();
        medium.open(aside, FileKind::RedoLog, OpenMode::CreateNew).unwrap();
        redo.step_back().unwrap();
        assert!(redo.is_aside() && names(&medium).contains(&aside.display().to_string()));
    }

    /// A crash finds what was acknowledged since by that name.
    #[test]
    fn the_name_of_a_log_that_has_stepped_back_is_durable() {
        let lost = |faults: Faults| {
            let medium = SimMedium::new();
            let (mut redo, mut commits) = logs(&medium);
            redo.step_aside().unwrap();
            commits.step_aside().unwrap();
            medium.set_faults(faults);
            redo.step_back().unwrap();
            commits.step_back().unwrap();
            let mut random = Random::new(7);
            let is_lost =
                |image: SimMedium| NAMES.iter().any(|name| image.info(Path::new(name)).unwrap().is_none());
            (0..30).filter(|_| is_lost(medium.cut(&mut random))).count()
        };
        assert_eq!(lost(Faults::default()), 0);
        assert!(
            lost(Faults::ignoring(SyncSite::Directory, None)) > 0,
            "the sync of the directory is not needed"
        );
    }
}
