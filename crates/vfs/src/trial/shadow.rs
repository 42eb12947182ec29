//! Which copy stands for a database, and how it is made.
//!
//! SQLite asks `xFullPathname` once for each database, and derives the names of journal and log from the answer. So that one callback
//! decides where everything happens.
//!
//! # Invariants
//! 1. `first/…` is made once in a trial, by `litefoot backup`: a consistent copy, also beside a program that uses the database.
//! 2. A run's copy is made from it before the run's first opening. A database that was not there has no copy, and its folder exists.
//! 3. Processes of a run that open a database at the same time make one copy: a lock file in FOLDER orders them.

use super::{FILES, FIRST, Trial};
use crate::ffi::Sqlite3Vfs;
use crate::ffi::codes::{SQLITE_CANTOPEN, SQLITE_OK};
use crate::shim::install::OPTIONS_VARIABLE;
use crate::stats::KEEP_VARIABLE;
use litefoot_storage::sync::{AcrossFork, Global};
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::panic::catch_unwind;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

type FullPathname = unsafe extern "C" fn(*mut Sqlite3Vfs, *const c_char, c_int, *mut c_char) -> c_int;

/// A VFS whose answers are changed.
struct Changed {
    vfs: usize,
    original: FullPathname,
    trial: Trial,
}

/// The VFSes of this process whose answers are changed.
#[derive(Default)]
struct AllChanged(Vec<Changed>);

impl AcrossFork for AllChanged {
    fn inherit(parents: AllChanged) -> AllChanged {
        // SQLite's structures are changed in the child as well.
        parents
    }
}

static CHANGED: Global<AllChanged> = Global::new(AllChanged(Vec::new()));

/// Changes the answers of a VFS from now on.
///
/// # Safety
/// The structure lives as long as the process, and may be written now.
pub unsafe fn cast(vfs: *mut Sqlite3Vfs, trial: Trial) {
    let mut changed = CHANGED.lock();
    // SAFETY: by contract.
    let Some(original) = (unsafe { (*vfs).full_pathname }) else { return };
    if changed.0.iter().any(|known| known.vfs == vfs as usize) {
        return;
    }
    changed.0.push(Changed { vfs: vfs as usize, original, trial });
    // SAFETY: by contract.
    unsafe { (*vfs).full_pathname = Some(full_pathname) };
}

unsafe extern "C" fn full_pathname(
    vfs: *mut Sqlite3Vfs,
    name: *const c_char,
    bytes: c_int,
    out: *mut c_char,
) -> c_int {
    let known = CHANGED
        .lock()
        .0
        .iter()
        .find(|known| known.vfs == vfs as usize)
        .map(|known| (known.original, known.trial.clone()));
    let Some((original, trial)) = known else { return SQLITE_CANTOPEN };
    // SAFETY: passed on as it came.
    let code = unsafe { original(vfs, name, bytes, out) };
    // Any other code is an error, or the note that the path has a link, for which SQLite then has the target.
    if code & 0xff != SQLITE_OK {
        return code;
    }
    // SAFETY: the original has written a NUL-terminated path.
    let full = unsafe { CStr::from_ptr(out) }.to_bytes().to_vec();
    let copy = catch_unwind(|| trial.copy_of(Path::new(OsStr::from_bytes(&full))));
    let copy = match copy {
        Ok(Ok(copy)) => copy,
        Ok(Err(why)) => {
            let _ = writeln!(
                io::stderr(),
                "litefoot: a trial: {}: no copy can be made: {why}",
                String::from_utf8_lossy(&full)
            );
            return SQLITE_CANTOPEN;
        }
        Err(_) => return SQLITE_CANTOPEN,
    };
    let text = copy.as_os_str().as_bytes();
    if text.len() >= usize::try_from(bytes).unwrap_or(0) {
        return SQLITE_CANTOPEN;
    }
    // SAFETY: SQLite provides `bytes` bytes of room.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), out.cast::<u8>(), text.len());
        *out.add(text.len()) = 0;
    }
    code
}

impl Trial {
    /// The copy that stands for a database in this run; it is made where it is missing.
    fn copy_of(&self, database: &Path) -> io::Result<PathBuf> {
        if database.starts_with(&self.folder) {
            return Ok(database.to_owned());
        }
        let (first, copy) =
            (within(&self.folder.join(FIRST), database), within(&self.run.join(FILES), database));
        let lock = File::options().create(true).append(true).open(self.folder.join("lock"))?;
        lock.lock()?;
        if !first.try_exists()?
            && fs::metadata(database).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0)
        {
            make_folder(&first)?;
            self.back_up(database, &first)?;
        }
        // Where SQLite would find no folder, it finds none.
        if !copy.try_exists()? && database.parent().is_some_and(Path::is_dir) {
            make_folder(&copy)?;
            if first.try_exists()? {
                // Under another name first: a process that is killed leaves no half of a copy.
                let unfinished = copy.with_extension("unfinished");
                fs::copy(&first, &unfinished)?;
                fs::rename(&unfinished, &copy)?;
            }
        }
        Ok(copy)
    }

    fn back_up(&self, database: &Path, first: &Path) -> io::Result<()> {
        let mut command = Command::new(&self.program);
        command.arg("backup").arg("--").arg(database).arg(first);
        for variable in ["LD_PRELOAD", super::FOLDER_VARIABLE, OPTIONS_VARIABLE, KEEP_VARIABLE] {
            command.env_remove(variable);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        let ended = command.status();
        // A program that waits for children of its own may have waited for this one.
        if first.try_exists()? {
            return Ok(());
        }
        match ended {
            Ok(status) => Err(io::Error::other(format!("litefoot backup: {status}"))),
            Err(error) => Err(error),
        }
    }
}

/// An absolute path within a folder.
fn within(folder: &Path, path: &Path) -> PathBuf {
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_)));
    parts.fold(folder.to_owned(), |folder, part| folder.join(part))
}

fn make_folder(file: &Path) -> io::Result<()> {
    file.parent().map_or(Ok(()), fs::create_dir_all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(folder: &Path, run: &str) -> Trial {
        Trial {
            folder: folder.to_owned(),
            run: folder.join(run),
            program: PathBuf::from("/bin/false"),
            is_stock: true,
        }
    }

    #[test]
    fn each_run_gets_the_bytes_that_were_there_first() {
        let folder = tempfile::tempdir().unwrap();
        let database = Path::new("/data/a b/app.db");
        let first = within(&folder.path().join(FIRST), database);
        make_folder(&first).unwrap();
        fs::write(&first, "as it was").unwrap();
        for run in ["1", "2"] {
            // The folder /data is not there, as SQLite would find.
            let copy = trial(folder.path(), run).copy_of(database).unwrap();
            assert_eq!(copy, folder.path().join(run).join("files/data/a b/app.db"));
            assert!(!copy.exists());
        }
        let real = tempfile::tempdir().unwrap();
        let database = real.path().join("app.db");
        let first = within(&folder.path().join(FIRST), &database);
        make_folder(&first).unwrap();
        fs::write(&first, "as it was").unwrap();
        for run in ["1", "2"] {
            let copy = trial(folder.path(), run).copy_of(&database).unwrap();
            assert_eq!(fs::read(&copy).unwrap(), b"as it was");
            fs::write(&copy, "changed").unwrap();
            assert_eq!(trial(folder.path(), run).copy_of(&database).unwrap(), copy);
            assert_eq!(
                fs::read(&copy).unwrap(),
                b"changed",
                "a second opening finds what the first has left"
            );
            assert_eq!(trial(folder.path(), run).copy_of(&copy).unwrap(), copy, "a copy stands for itself");
        }
    }

    #[test]
    fn a_database_that_cannot_be_copied_is_not_opened() {
        let (folder, real) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (database, empty) = (real.path().join("app.db"), real.path().join("new.db"));
        fs::write(&database, "somebody's").unwrap();
        assert!(trial(folder.path(), "1").copy_of(&database).is_err());
        assert_eq!(fs::read(&database).unwrap(), b"somebody's");
        // One that is not there yet needs no copy, but a folder.
        let copy = trial(folder.path(), "1").copy_of(&empty).unwrap();
        assert!(!copy.exists() && copy.parent().unwrap().is_dir() && !empty.exists());
    }
}
