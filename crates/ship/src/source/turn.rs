//! One visit of a database at a time in this process.
//!
//! A process that closes any descriptor of a file loses all its locks on it (POSIX). SQLite knows of its own descriptors, and not of those of a
//! visit. So the jobs of one database take turns.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};

static TAKEN: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);
static ENDED: Condvar = Condvar::new();

/// The turn of a database, until it is dropped.
pub struct Turn(PathBuf);

impl Turn {
    /// Waits for it.
    pub fn take(database: &Path) -> Turn {
        // Two names of one file are one file.
        let path = std::fs::canonicalize(database).unwrap_or_else(|_| database.to_owned());
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        while !taken.get_or_insert_default().insert(path.clone()) {
            taken = ENDED.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        Turn(path)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        taken.get_or_insert_default().remove(&self.0);
        ENDED.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn two_names_of_a_file_have_one_turn() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        std::fs::write(&path, "").unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for name in [&path, &link, &path, &link] {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _turn = Turn::take(name);
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
            let _other = Turn::take(&directory.path().join("other.db"));
        });
    }
}
