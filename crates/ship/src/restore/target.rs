//! The place of a restored database: what may be replaced, and how it appears there.

use crate::source::beside;
use crate::{Error, Result};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// What may happen to a file that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// Nothing.
    Never,
    /// It goes, with its logs.
    Yes,
}

/// The files that would be taken for the database's own.
const LOGS: [&str; 4] = ["-wal", "-journal", "-commits", "-shm"];

/// The place of a database that is restored.
#[derive(Clone, Debug)]
pub struct Target {
    path: PathBuf,
    replace: Replace,
}

/// A database without a name of its own yet. It goes when this is dropped.
pub struct Unfinished {
    file: NamedTempFile,
}

impl Target {
    /// Checks the place, before anything is fetched.
    pub fn new(path: &Path, replace: Replace) -> Result<Target> {
        if path.is_dir() {
            return Err(Error::local(path, "is a directory; name the file to be made in it"));
        }
        if replace == Replace::Never {
            for ending in [""].iter().chain(&LOGS) {
                let file = beside(path, ending);
                if fs::symlink_metadata(&file).is_ok() {
                    return Err(Error::local(
                        &file,
                        "there is a file already; name a new one, or replace this one with --force",
                    ));
                }
            }
        }
        Ok(Target { path: path.to_owned(), replace })
    }

    fn directory(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        }
    }

    /// Makes an empty file beside the place.
    pub fn begin(&self) -> Result<Unfinished> {
        let file = tempfile::Builder::new()
            .prefix(".litefoot-restore-")
            .suffix(".tmp")
            .tempfile_in(self.directory())
            .map_err(|error| Error::local(self.directory(), format!("no file can be made here: {error}")))?;
        Ok(Unfinished { file })
    }
}

impl Unfinished {
    /// The file.
    pub fn file(&self) -> &File {
        self.file.as_file()
    }

    /// Its name for now, to be removed by who ends the process.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Makes it durable, under its name.
    pub fn publish(self, target: &Target) -> Result<()> {
        let fail = |error: io::Error| Error::local(&target.path, error);
        self.file.as_file().sync_all().map_err(fail)?;
        match target.replace {
            Replace::Never => {
                self.file.persist_noclobber(&target.path).map_err(|error| fail(error.error))?;
            }
            Replace::Yes => {
                // The new file is for those that the old one was for.
                if let Ok(old) = fs::metadata(&target.path) {
                    self.file.as_file().set_permissions(old.permissions()).map_err(fail)?;
                }
                // The logs of the old file would be taken for the new one's. Without them the old file is older, and whole.
                for ending in LOGS {
                    match fs::remove_file(beside(&target.path, ending)) {
                        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
                        _ => {}
                    }
                }
                self.file.persist(&target.path).map_err(|error| fail(error.error))?;
            }
        }
        File::open(target.directory()).and_then(|directory| directory.sync_all()).map_err(fail)
    }
}
