//! The files that are installed together: the programs and the preload library.
//!
//! They lie in one directory, as `cargo build` leaves them, or the library in `../lib`. Error messages say what
//! to build.

use crate::failure::Failure;
use litefoot_storage::file::parent_directory;
use std::path::{Path, PathBuf};

/// The preload library's file name.
pub const LIBRARY: &str = "liblitefoot.so";
/// The environment variable that names the preload library.
pub const LIBRARY_VARIABLE: &str = "LITEFOOT_LIBRARY";
/// The exit code of shells for a command that is not found.
pub const NOT_FOUND: u8 = 127;
/// The exit code of shells for a command that is found and cannot be run.
pub const NOT_RUNNABLE: u8 = 126;

/// The directory of the running program.
///
/// # Errors
/// When the system does not tell which file the running program is.
pub fn directory() -> Result<PathBuf, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot tell where this program is: {error}")))?;
    Ok(parent_directory(&program).to_owned())
}

/// The preload library: the file that `LITEFOOT_LIBRARY` names, or the one beside the running program or in `../lib`.
///
/// # Errors
/// When there is none; exit code 127.
pub fn library() -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os(LIBRARY_VARIABLE) {
        return std::fs::canonicalize(&path).map_err(|error| {
            Failure::file(Path::new(&path), error)
                .advice(format!("{LIBRARY_VARIABLE} must name the library {LIBRARY}, or be unset."))
                .code(NOT_FOUND)
        });
    }
    let directory = directory()?;
    let places = [directory.join(LIBRARY), directory.join("../lib").join(LIBRARY)];
    places.iter().find_map(|place| std::fs::canonicalize(place).ok()).ok_or_else(|| {
        Failure::file(&places[0], "the library is missing, and it is not in ../lib either")
            .advice(format!(
                "Build it with `cargo build --release`, or say where it is: {LIBRARY_VARIABLE}=/path/{LIBRARY}"
            ))
            .code(NOT_FOUND)
    })
}
