//! A trial: a program runs on copies of its databases, on SQLite as it is or on litefoot, and what it does to them is counted.
//!
//! # Why
//! Somebody who wonders what litefoot is worth has a program, and data that nobody may touch. `litefoot try` starts the program again and
//! again, with this library preloaded on both sides. The program names its databases to SQLite, and SQLite asks its VFS for the full
//! name of each: that is where a copy takes the place of the database. Nothing else has to be told, or guessed.
//!
//! | file | decides |
//! |---|---|
//! | `shadow` | which copy stands for a database, and how it is made |
//! | `platform` | counting what SQLite's own VFS writes and syncs |
//!
//! The folder of a trial:
//!
//! ```text
//! FOLDER/first/…/app.db       the database as it was found first, a consistent copy; the path is the database's own
//! FOLDER/RUN/files/…/app.db   the copy that one run works on
//! FOLDER/RUN/figures/         what was counted, a statistics page for each opening (`stats/page.rs`)
//! ```
//!
//! # What it promises
//! 1. No database that SQLite opens by a name, outside of FOLDER, is opened by the program. Where a copy cannot be made, opening fails.
//! 2. Every run begins with the same bytes.
//! 3. On the platform's side SQLite's own VFS does the work; its calls are counted on their way, in the same units as litefoot's.
//!
//! # Limits
//! A program that asks for a VFS by its name, other than the default one, is left alone. Files that a program opens without SQLite are
//! the user's own, as in any run.

mod platform;
mod shadow;

use crate::error::{Error, Result};
use crate::ffi::Sqlite3Vfs;
use crate::ffi::api::Api;
use crate::notice::environment;
use crate::uri_parameters::VFS_NAME;
use std::ffi::CString;
use std::path::PathBuf;

/// The environment variable that names the folder of a trial.
pub const FOLDER_VARIABLE: &str = "LITEFOOT_TRIAL";
/// The environment variable that names the run: a folder within.
pub const RUN_VARIABLE: &str = "LITEFOOT_TRIAL_RUN";
/// The environment variable that names the program `litefoot`, which makes copies.
pub const PROGRAM_VARIABLE: &str = "LITEFOOT_TRIAL_PROGRAM";
/// The environment variable that says on which side: `stock` or `litefoot`.
pub const SIDE_VARIABLE: &str = "LITEFOOT_TRIAL_SIDE";

/// The folders of copies in a trial, and of a run's copies, and of its figures.
pub const FIRST: &str = "first";
/// See [`FIRST`].
pub const FILES: &str = "files";
/// See [`FIRST`].
pub const FIGURES: &str = "figures";

/// A trial that this process takes part in.
#[derive(Clone, Debug)]
pub struct Trial {
    folder: PathBuf,
    run: PathBuf,
    program: PathBuf,
    is_stock: bool,
}

impl Trial {
    /// The trial that the environment names, where it does.
    pub fn of_environment() -> Option<Trial> {
        let folder = PathBuf::from(environment(FOLDER_VARIABLE)?);
        Some(Trial {
            run: folder.join(environment(RUN_VARIABLE)?),
            folder,
            program: PathBuf::from(environment(PROGRAM_VARIABLE)?),
            is_stock: environment(SIDE_VARIABLE)? == "stock",
        })
    }

    /// True where SQLite's own VFS does the work.
    pub fn is_stock(&self) -> bool {
        self.is_stock
    }

    /// Has copies stand for databases in the VFS that serves this side, which is registered. On the platform's side its calls are
    /// counted from now on. May be called while SQLite initialises, and again for the same library.
    ///
    /// # Errors
    /// There is no such VFS, or no place for the figures.
    pub fn begin(self, api: &Api) -> Result<()> {
        let name = CString::new(if self.is_stock { "unix" } else { VFS_NAME })
            .map_err(|_| Error::Path(String::new()))?;
        // SAFETY: a NUL-terminated name.
        let vfs: *mut Sqlite3Vfs = unsafe { (api.vfs_find)(name.as_ptr()) };
        if vfs.is_null() {
            return Err(Error::Refused(format!(
                "a trial: this SQLite has no VFS {}",
                name.to_string_lossy()
            )));
        }
        if self.is_stock {
            // SAFETY: the structure is SQLite's own, lives as long as the process, and is being initialised.
            unsafe { platform::count(vfs, &self.run.join(FIGURES))? };
        }
        // SAFETY: as above; litefoot's own is never freed either.
        unsafe { shadow::cast(vfs, self) };
        Ok(())
    }
}
