//! `litefoot bench`: hands over to `litefoot-bench`, the laboratory, which is a program of its own.
//!
//! The laboratory takes this process's place, so that signals, exit code and terminal are its own.

use litefoot_terminal::Failure;
use litefoot_terminal::installed::{self, NOT_FOUND, NOT_RUNNABLE};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The laboratory's file name.
const LABORATORY: &str = "litefoot-bench";

/// Run an experiment; without a name, list them.
///
/// The experiments are in a program of their own, litefoot-bench, found beside this one or on the PATH.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Arguments of litefoot-bench
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Replaces this process by the laboratory.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::iter::once(installed::directory()?).chain(std::env::split_paths(&search));
    let Some(program) = find(directories) else {
        return Err(Failure::new(format!("{LABORATORY} is missing, beside this program and on the PATH"))
            .advice("The experiments are a program of their own: cargo build --release -p litefoot-bench")
            .code(NOT_FOUND));
    };
    let error = Command::new(&program).args(args.arguments).exec();
    Err(Failure::file(&program, format!("cannot be run: {error}"))
        .advice("Build it again: cargo build --release -p litefoot-bench")
        .code(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE }))
}

/// The first of these directories that has the laboratory.
fn find(directories: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    directories
        .filter(|directory| directory != Path::new(""))
        .map(|directory| directory.join(LABORATORY))
        .find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_directory_that_has_the_laboratory_counts() {
        let [empty, first, second] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        for directory in [&first, &second] {
            std::fs::write(directory.path().join(LABORATORY), "").unwrap();
        }
        std::fs::create_dir(empty.path().join(LABORATORY)).unwrap();
        let directories = |which: &[&tempfile::TempDir]| {
            let paths: Vec<_> = which.iter().map(|directory| directory.path().to_owned()).collect();
            find([PathBuf::new()].into_iter().chain(paths))
        };
        assert_eq!(directories(&[&empty, &first, &second]), Some(first.path().join(LABORATORY)));
        assert_eq!(directories(&[&second, &first]), Some(second.path().join(LABORATORY)));
        assert_eq!(directories(&[&empty]), None);
    }
}
