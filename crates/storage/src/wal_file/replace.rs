//! Replacement: a whole log, made elsewhere, takes the place of the redo log.
//!
//! # Why
//! Others are about to use the log by SQLite's own protocol, beside readers that know it by its frames: by their numbers, salts and
//! checksums. The redo log has the same pages in other frames.
//!
//! # Order
//! ```text
//! app.db-wal.new:  the log             synced
//! app.db-wal.new -> app.db-wal         renamed, the directory synced
//! ```
//!
//! # Promises
//! 1. A process that is killed, or a power cut, leaves the old log or the new one at the name, whole.
//! 2. The name is durable afterwards: what others append to the new log is found by it.
//! 3. A replacement that fails before the new log has the name leaves the old one. A failed sync closes the latch.

use super::compact::{new_path, remove_remnant};
use crate::file::{File, FileKind, Medium, OpenMode, Result, SyncLatch, parent_directory};
use crate::log_file::InUse;
use std::path::Path;
use std::sync::Arc;

/// Replaces the log at `path` by what `write` puts into an empty file, durably.
pub fn replace(
    medium: &Arc<dyn Medium>,
    path: &Path,
    latch: &SyncLatch,
    write: impl FnOnce(&dyn File) -> Result<()>,
) -> Result<()> {
    let new = new_path(path);
    latch.check(path)?;
    remove_remnant(&**medium, &new)?;
    let file = medium.open(&new, FileKind::RedoLog, OpenMode::CreateNew)?;
    let _in_use = InUse::take(&file)?;
    let written = write(&*file).and_then(|()| latch.watch(file.sync()));
    if let Err(error) = written.and_then(|()| medium.rename(&new, path)) {
        let _ = medium.delete(&new);
        return Err(error);
    }
    latch.watch(medium.sync_directory(parent_directory(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Faults, Random, SimMedium, SyncSite};
    use std::path::PathBuf;

    const LOG: &str = "/a-wal";

    fn medium() -> (SimMedium, Arc<dyn Medium>) {
        let medium = SimMedium::default();
        let there: Arc<dyn Medium> = Arc::new(medium.clone());
        let old = there.open(Path::new(LOG), FileKind::RedoLog, OpenMode::Create).unwrap();
        old.write_at(&[1; 3000], 0).unwrap();
        old.sync().unwrap();
        there.sync_directory(Path::new("/")).unwrap();
        (medium, there)
    }

    fn put(medium: &Arc<dyn Medium>, byte: u8) -> Result<()> {
        replace(medium, Path::new(LOG), &SyncLatch::default(), |file| file.write_at(&[byte; 4000], 0))
    }

    fn content(medium: &SimMedium) -> Vec<(PathBuf, Vec<u8>)> {
        medium.files().into_iter().map(|(path, _, bytes)| (path, bytes)).collect()
    }

    #[test]
    fn the_new_log_has_the_name_and_nothing_else_is_left() {
        let (medium, there) = medium();
        let remnant = there.open(Path::new("/a-wal.new"), FileKind::RedoLog, OpenMode::Create).unwrap();
        remnant.write_at(&[9; 9000], 0).unwrap();
        drop(remnant);
        put(&there, 2).unwrap();
        assert_eq!(content(&medium), [(LOG.into(), vec![2; 4000])]);
    }

    #[test]
    fn a_replacement_that_fails_leaves_the_old_log() {
        let (medium, there) = medium();
        medium.set_faults(Faults::full_at(medium.used_bytes()));
        assert!(put(&there, 2).is_err());
        medium.set_faults(Faults::default());
        assert_eq!(content(&medium), [(LOG.into(), vec![1; 3000])]);
        let latch = SyncLatch::default();
        latch.close("on purpose");
        assert!(replace(&there, Path::new(LOG), &latch, |_| Ok(())).is_err());
        assert_eq!(content(&medium), [(LOG.into(), vec![1; 3000])]);
    }

    /// Replaces a log, appends to the new one durably, and cuts the power everywhere. True if all is as promised.
    fn survives(seed: u64, faults: Faults) -> bool {
        let (medium, there) = medium();
        medium.set_faults(faults);
        let begin = medium.operations();
        put(&there, 2).unwrap();
        let replaced = medium.operations();
        // Another process.
        let file = there.open(Path::new(LOG), FileKind::RedoLog, OpenMode::ReadWrite).unwrap();
        file.write_at(&[3; 1000], 4000).unwrap();
        medium.set_faults(Faults::default());
        file.sync().unwrap();
        let mut random = Random::new(seed);
        let appended = [vec![2; 4000], vec![3; 1000]].concat();
        medium.cuts(begin..=medium.operations(), 2, &mut random).into_iter().all(|(point, image)| {
            let files = content(&image);
            let found = files.iter().find(|(path, _)| path == Path::new(LOG)).map(|(_, bytes)| bytes);
            let Some(found) = found else { return false };
            let is_new = found.starts_with(&[2; 4000]);
            match point {
                point if point < replaced => is_new || *found == [1; 3000],
                point if point < medium.operations() => is_new,
                _ => *found == appended,
            }
        })
    }

    #[test]
    fn power_cuts_leave_a_whole_log_and_each_sync_left_out_is_noticed() {
        assert!((0..20).all(|seed| survives(seed, Faults::default())));
        for site in [SyncSite::File(FileKind::RedoLog), SyncSite::Directory] {
            assert!((0..60).any(|seed| !survives(seed, Faults::ignoring(site, None))), "{site:?}");
        }
    }
}
