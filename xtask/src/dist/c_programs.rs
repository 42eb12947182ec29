//! The smoke test's program in C, built for any target, and emulated where that is another machine.

use super::build::Built;
use super::repository;
use super::smoke::Trial;
use super::targets::Target;
use crate::process::{self, Result};
use crate::{emulator, process::sqlite_source};
use std::path::{Path, PathBuf};
use std::process::Command;

const LIBRARIES: [&str; 3] = ["-lpthread", "-ldl", "-lm"];

/// `liblitefoot.a` with the amalgamation, linked statically.
pub fn with_sqlite_inside(trial: &Trial<'_>, target: &Target, built: &Built) -> Result<()> {
    let source = sqlite_source(&process::metadata(None)?)?;
    let binary = trial.folder.join(format!("static-{}", target.name));
    let mut cc = compiler(target, &source);
    cc.args(["-static", "-DSQLITE_EXTRA_INIT=litefoot_init", "-DSQLITE_OMIT_LOAD_EXTENSION"]);
    cc.arg("-o").arg(&binary).arg(program()).arg(source.join("sqlite3.c")).arg(&built.archive);
    if target.is_musl {
        cc.arg("-lunwind");
    }
    process::printed(cc.args(LIBRARIES))?;
    trial.check("static library", target.name, || run(target, &binary, None))
}

/// A program that links an SQLite dynamically, with the library of the tarball preloaded.
pub fn preloaded(trial: &Trial<'_>, target: &Target, tarball: &Path) -> Result<()> {
    let source = sqlite_source(&process::metadata(None)?)?;
    let library = tarball.join("lib/liblitefoot.so");
    let folder = trial.folder.join(format!("dynamic-{}", target.name));
    super::tarball::create(&folder)?;
    let (binary, sqlite) = (folder.join("smoke"), folder.join("libsqlite3.so.0"));
    let mut cc = compiler(target, &source);
    cc.args(["-shared", "-fPIC", "-Wl,-soname,libsqlite3.so.0", "-o"]).arg(&sqlite);
    process::printed(cc.arg(source.join("sqlite3.c")).args(LIBRARIES))?;
    let mut cc = compiler(target, &source);
    if target.is_musl {
        // Zig links musl's programs statically by itself.
        cc.arg("-dynamic");
    }
    process::printed(cc.arg("-o").arg(&binary).arg(program()).arg(&sqlite).arg("-Wl,-rpath,$ORIGIN"))?;
    trial.check("tarball", "preloaded", || run(target, &binary, Some(&library)))
}

fn compiler(target: &Target, sqlite: &Path) -> Command {
    let mut cc = target.compiler();
    cc.args(["-O1", "-w", "-I"]).arg(sqlite);
    cc
}

fn run(target: &Target, binary: &Path, preload: Option<&Path>) -> Command {
    let mut run = emulator::command(target.emulator, binary, preload);
    run.args(["app.db", "wal"]);
    run
}

fn program() -> PathBuf {
    repository().join("crates/static/tests/smoke.c")
}
