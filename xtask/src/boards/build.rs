//! The files that are built for a board: litefoot as it is released, an SQLite that programs link, and two such programs.

use super::Board;
use crate::process::Result;
use crate::process::{self, succeed};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most bytes of the stripped extension.
const MOST_BYTES: u64 = 2 << 20;

/// The files that were built, in one directory.
pub struct Built {
    /// Where all of it lies.
    pub directory: PathBuf,
    /// Bytes of the extension.
    pub extension_bytes: u64,
}

impl Built {
    /// A file of it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// Builds everything for a board.
pub fn build(board: &Board) -> Result<Built> {
    let mut arguments = vec!["build", "--profile", "dist", "--locked"];
    for package in ["litefoot-cli", "litefoot-extension", "litefoot-bench"] {
        arguments.extend(["-p", package]);
    }
    arguments.extend(board.target.iter().flat_map(|target| ["--target", target]));
    let (linker, gcc) = (board.target.map(linker_variable), board.tool("gcc"));
    let environment: Vec<(&str, &str)> = linker.iter().map(|name| (&**name, &*gcc)).collect();
    process::cargo_with(&arguments, &environment)?;
    let release = process::target_directory().join(board.target.unwrap_or_default()).join("dist");
    let directory = release.join("board");
    std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    for file in ["litefoot", "litefoot-bench", "liblitefoot.so"] {
        let mut strip = Command::new(board.tool("strip"));
        succeed(strip.arg("-o").arg(directory.join(file)).arg(release.join(file)))?;
    }
    compile_programs(board, &directory, &process::sqlite_source(&process::metadata(None)?)?)?;
    let extension = directory.join("liblitefoot.so");
    let bytes =
        std::fs::metadata(&extension).map_err(|error| format!("{}: {error}", extension.display()))?.len();
    println!("extension: {bytes} bytes, stripped");
    if bytes >= MOST_BYTES {
        return Err(format!("{}: {bytes} bytes; it must be smaller than {MOST_BYTES}", extension.display()));
    }
    Ok(Built { directory, extension_bytes: bytes })
}

/// Programs that link an SQLite dynamically, with that SQLite beside them.
fn compile_programs(board: &Board, directory: &Path, sqlite: &Path) -> Result<()> {
    let compile = || {
        let mut command = Command::new(board.tool("gcc"));
        command.args(["-O1", "-DSQLITE_THREADSAFE=1", "-I"]).arg(sqlite).arg("-o");
        command
    };
    let library = directory.join("libsqlite3.so.0");
    if !library.exists() {
        let mut command = compile();
        command.arg(&library).args(["-shared", "-fPIC", "-Wl,-soname,libsqlite3.so.0"]);
        succeed(command.arg(sqlite.join("sqlite3.c")).args(["-lpthread", "-ldl", "-lm"]))?;
    }
    for program in ["inserts", "footprint"] {
        let source = format!("{}/../crates/cli/tests/programs/{program}.c", env!("CARGO_MANIFEST_DIR"));
        let mut command = compile();
        command.arg(directory.join(program)).arg(source).arg(&library).arg("-Wl,-rpath,$ORIGIN");
        succeed(&mut command)?;
    }
    Ok(())
}

/// `CARGO_TARGET_…_LINKER`.
fn linker_variable(target: &str) -> String {
    format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"))
}

#[test]
fn linkers_are_named_as_cargo_does() {
    assert_eq!(
        linker_variable("armv7-unknown-linux-gnueabihf"),
        "CARGO_TARGET_ARMV7_UNKNOWN_LINUX_GNUEABIHF_LINKER"
    );
}
