//! The program that inserts, on SQLite built with `SQLITE_ENABLE_ATOMIC_WRITE` and `SQLITE_ENABLE_BATCH_ATOMIC_WRITE`.
//!
//! It is compiled where the experiment runs, from the source of the SQLite that this program bundles. All sides run the same
//! file, each in processes of its own: on a VFS that claims nothing, such a build goes the way of every other.

use crate::experiments::apps::program::{Outcome, run};
use crate::harness::{Progress, compile, compiler};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SOURCE: &str = include_str!("inserts.c");
/// What both builds of the paper's have.
const FLAGS: &[&str] = &[
    "-DSQLITE_ENABLE_ATOMIC_WRITE",
    "-DSQLITE_ENABLE_BATCH_ATOMIC_WRITE",
    // As the SQLite that this program bundles, and as every distribution's.
    "-DHAVE_FDATASYNC=1",
    "-DHAVE_USLEEP=1",
    "-DSQLITE_THREADSAFE=1",
];
/// Inserts before those that count: the first ones make the files.
pub const WARMUP: u64 = 3;

/// One way of inserting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Its name in figures.
    pub name: &'static str,
    kind: &'static str,
    /// Litefoot's options.
    options: &'static str,
}

pub const PERSIST: Way = Way { name: "persist", kind: "stock", options: "" };
pub const ATOMIC_WRITE: Way = Way { name: "atomic_write", kind: "atomic", options: "" };
pub const BATCH: Way = Way { name: "batch_atomic_write", kind: "stock", options: "" };
pub const LITEFOOT: Way = Way { name: "litefoot", kind: "litefoot", options: "" };
pub const LITEFOOT_IN_PLACE: Way =
    Way { name: "litefoot_assume4k", kind: "litefoot", options: "?atomic=assume4k" };

/// The program, compiled.
pub struct Inserts {
    program: PathBuf,
    library: Option<PathBuf>,
}

impl Inserts {
    /// Compiles it into a directory; with `quick` sooner, and slower code.
    ///
    /// # Errors
    /// [`Error::Missing`]: no compiler, or no source of SQLite.
    pub fn build(directory: &Path, library: Option<&Path>, quick: bool) -> Result<Inserts> {
        compiler()?;
        let source = directory.join("inserts.c");
        std::fs::write(&source, SOURCE)
            .map_err(|error| Error::Directory { path: source.clone(), source: error })?;
        let (sqlite, program) = (sqlite()?, directory.join("inserts"));
        let headers = format!("-I{}", sqlite.display());
        let (source, sqlite) = (source.to_string_lossy(), sqlite.join("sqlite3.c"));
        let optimized = if quick { "-O0" } else { "-O1" };
        let files = [optimized, &headers, &source, &sqlite.to_string_lossy()];
        let arguments = [FLAGS, &files, &["-lpthread", "-ldl", "-lm"]].concat();
        compile(&program, &arguments, "what inserts.c is compiled with")?;
        Ok(Inserts { program, library: library.map(Path::to_owned) })
    }

    /// True if there is what a way needs.
    pub fn has(&self, way: &Way) -> bool {
        way.kind != LITEFOOT.kind || self.library.is_some()
    }

    /// The command for so many inserts into a database that is not there yet.
    pub fn command(&self, way: &Way, path: &Path, inserts: u64) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(way.kind).arg(format!("file:{}{}", path.display(), way.options));
        command.args([inserts.to_string(), WARMUP.to_string()]).stderr(Stdio::piped());
        if let Some(library) = &self.library {
            command.env("LITEFOOT_LIBRARY", library);
        }
        command
    }

    /// Runs it to its end.
    pub fn run(&self, way: &Way, path: &Path, inserts: u64, progress: &mut dyn Progress) -> Result<Outcome> {
        run(way.name, self.command(way, path, inserts), None, progress)
    }
}

/// Where cargo has the source of the SQLite that this program bundles.
fn sqlite() -> Result<PathBuf> {
    let missing =
        || Error::Missing("SQLite's source: cargo, and the repository that this was built in".to_owned());
    let mut cargo = Command::new("cargo");
    // What other systems need is not there, and nothing is fetched.
    let system = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    cargo.args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", &system]);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null()).output();
    let output = output.map_err(|_| missing())?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|_| missing())?;
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    let package = packages.find(|package| package["name"] == "libsqlite3-sys");
    let manifest = package.and_then(|package| package["manifest_path"].as_str()).ok_or_else(missing)?;
    let source = Path::new(manifest).with_file_name("sqlite3");
    if source.join("sqlite3.c").is_file() { Ok(source) } else { Err(missing()) }
}
