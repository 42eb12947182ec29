//! Where the tests run: in memory, as an ordinary user.
//!
//! Some tests are about permissions, which root does not have to mind; so root hands them to `nobody`. The directory
//! that this user reaches holds copies of all that a test needs, and goes away at the end.

use super::build::{Cache, make, quietly};
use super::result::{End, Outcome, Side};
use crate::process::Result;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Files of SQLite's tests that no script reads; together they are most of them.
const LARGEST: u64 = 4 << 20;

/// A directory for runs.
pub struct Room {
    root: PathBuf,
    as_nobody: bool,
}

impl Room {
    /// Makes the directory, with the programs, the scripts, and the library where litefoot is tested.
    pub fn new(cache: &Cache, source: &Path, library: Option<&Path>) -> Result<Room> {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let root = place.join(format!("litefoot-sqlite-suite-{}", std::process::id()));
        let as_nobody = super::build::said(Command::new("id").arg("-u"))? == "0";
        let room = Room { root, as_nobody };
        make(&room.root)?;
        for directory in ["test", "ext", "src", "mptest"] {
            copy_tree(&source.join(directory), &room.root.join("source").join(directory))?;
        }
        for file in fs::read_dir(cache.programs()).map_err(|error| error.to_string())?.flatten() {
            let is_program = ["testfixture", "libsuite.so", "threadtest3", "mptester"]
                .iter()
                .any(|name| file.file_name() == *name);
            if is_program {
                copy(&file.path(), &room.root.join(file.file_name()))?;
            }
        }
        library.map_or(Ok(()), |library| copy(library, &room.library()))?;
        Ok(room)
    }

    fn library(&self) -> PathBuf {
        self.root.join("liblitefoot.so")
    }

    /// A file of SQLite's source.
    pub fn source(&self, path: &str) -> PathBuf {
        self.root.join("source").join(path)
    }

    /// A program of SQLite's.
    pub fn program(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Runs a program in a new directory, and removes that.
    pub fn run(
        &self,
        side: Side,
        name: &str,
        program: &str,
        arguments: &[&str],
        limit: Duration,
    ) -> Result<Outcome> {
        self.run_with(side, name, program, arguments, limit, None)
    }

    /// The same, with options for litefoot.
    pub fn run_with(
        &self,
        side: Side,
        name: &str,
        program: &str,
        arguments: &[&str],
        limit: Duration,
        options: Option<&str>,
    ) -> Result<Outcome> {
        let directory = self.root.join(side.name()).join(name);
        let _ = fs::remove_dir_all(&directory);
        make(&directory)?;
        let log = self.root.join(format!("{}-{name}.out", side.name()));
        let out = fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let err = out.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
        let mut command = Command::new("timeout");
        command.args(["-k", "5", &limit.as_secs().to_string()]);
        if self.as_nobody {
            quietly(Command::new("chown").arg("nobody").arg(&directory))?;
            command.args(["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]);
        }
        command.arg(self.program(program)).args(arguments).current_dir(&directory);
        command.env("HOME", &directory).env("LITEFOOT_QUIET", "1").env_remove("LITEFOOT_OPTIONS");
        match side {
            Side::Stock => command.env_remove("LITEFOOT_SUITE_LIBRARY"),
            Side::Litefoot => command.env("LITEFOOT_SUITE_LIBRARY", self.library()),
        };
        if let Some(options) = options {
            command.env("LITEFOOT_OPTIONS", options);
        }
        let begun = Instant::now();
        let status = command.stdin(Stdio::null()).stdout(out).stderr(err).status();
        let status = status.map_err(|error| format!("timeout cannot be started: {error}"))?;
        let seconds = begun.elapsed().as_secs_f64();
        let output = fs::read(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        // A test's limits on itself must not stay.
        let _ = Command::new("chmod").arg("-R").arg("u+rwX").arg(&directory).stderr(Stdio::null()).status();
        let _ = fs::remove_dir_all(&directory);
        let _ = fs::remove_file(&log);
        let output = String::from_utf8_lossy(&output).into_owned();
        Ok(Outcome { end: End::of(status), output, seconds })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).map(drop).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}

/// Copies a directory, but for the largest files.
pub fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    make(to)?;
    let entries = fs::read_dir(from).map_err(|error| format!("{}: {error}", from.display()))?;
    for entry in entries.flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        match entry.metadata() {
            Ok(found) if found.is_dir() => copy_tree(&path, &target)?,
            Ok(found) if found.len() <= LARGEST => copy(&path, &target)?,
            _ => {}
        }
    }
    Ok(())
}
