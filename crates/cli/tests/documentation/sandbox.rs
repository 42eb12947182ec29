//! Where the blocks of one document are run: a directory of its own, with the program and the extension at hand.
//!
//! A block finds what the blocks before it have left. The processes that it leaves running end with it.

use super::blocks::Block;
use super::support::{PROGRAM, Watchdog};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The outcome of a block.
pub enum Outcome {
    /// It succeeded, and printed this.
    Done(String),
    /// Something is missing on this machine.
    Missing(&'static str),
    /// It failed, and printed this.
    Failed(String),
}

pub struct Sandbox {
    directory: tempfile::TempDir,
}

impl Sandbox {
    /// A directory with `liblitefoot.so` in it; beside it the program, and the Python package as pip lays it out.
    pub fn new() -> Sandbox {
        let sandbox = Sandbox { directory: tempfile::tempdir().unwrap() };
        let library = Path::new(PROGRAM).with_file_name("liblitefoot.so").canonicalize();
        let library = library.expect("liblitefoot.so is missing beside the program: cargo build");
        for directory in ["work", "bin", "python"] {
            fs::create_dir(sandbox.path(directory)).unwrap();
        }
        let package = sandbox.path("python/litefoot");
        fs::create_dir(&package).unwrap();
        for entry in fs::read_dir(repository().join("python/src/litefoot")).unwrap().flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "py") {
                symlink(entry.path(), package.join(entry.file_name())).unwrap();
            }
        }
        symlink(PROGRAM, sandbox.path("bin/litefoot")).unwrap();
        symlink(&library, package.join("liblitefoot.so")).unwrap();
        symlink(&library, sandbox.path("work/liblitefoot.so")).unwrap();
        sandbox
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file for later blocks.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path("work").join(name), text).unwrap();
    }

    /// Runs a block.
    pub fn run(&self, block: &Block) -> Outcome {
        match block.language.as_str() {
            "sh" => self.finish(Command::new("bash").args(["-euo", "pipefail", "-c", &block.text])),
            "python" => self.finish(Command::new("python3").args(["-c", &block.text])),
            "sql" => self.finish(Command::new(PROGRAM).args(["sql", "app.db", &block.text])),
            "c" => self.compile(&block.text),
            language => Outcome::Failed(format!("{language} cannot be run")),
        }
    }

    fn compile(&self, text: &str) -> Outcome {
        if !Path::new("/usr/include/sqlite3.h").exists() {
            return Outcome::Missing("sqlite3.h (apt install gcc libsqlite3-dev)");
        }
        self.write("block.c", text);
        let compile = ["-Wall", "-Werror", "-o", "block", "block.c", "-lsqlite3"];
        match self.finish(Command::new("cc").args(compile)) {
            Outcome::Done(_) => self.finish(&mut Command::new("./block")),
            failed => failed,
        }
    }

    /// Runs a command to its end, and ends what it has left running.
    fn finish(&self, command: &mut Command) -> Outcome {
        let search = std::env::var("PATH").unwrap_or_default();
        let [out, err] = ["out", "err"].map(|name| self.path(name));
        command
            .current_dir(self.path("work"))
            .env("PATH", format!("{}:{search}", self.path("bin").display()))
            .env("PYTHONPATH", self.path("python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("HOME", self.directory.path())
            .env("LC_ALL", "C.UTF-8")
            .env_remove("LITEFOOT_LIBRARY")
            .env_remove("LITEFOOT_OPTIONS")
            .stdin(Stdio::null())
            // Not pipes: whatever runs on would keep them open.
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap())
            .process_group(0);
        let mut child = command.spawn().unwrap();
        let watchdog = Watchdog::over(&child);
        let status = child.wait().unwrap();
        drop(watchdog);
        let group = format!("-{}", child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let [printed, complained] = [out, err].map(|file| fs::read_to_string(file).unwrap());
        if status.success() {
            Outcome::Done(printed)
        } else {
            Outcome::Failed(format!("{status}\n{printed}{complained}"))
        }
    }
}

/// The root of the repository.
pub fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
