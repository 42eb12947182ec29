//! The two programs of the experiment: compiled where it runs, from sources that are part of this one.

use crate::harness::{compile, compiler};
use crate::{Error, Result};
use std::path::{Path, PathBuf};

const SHIM: &str = include_str!("shim.c");
const WORKLOAD: &str = include_str!("workload.c");

/// Where everything is.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The library that lets calls fail.
    pub shim: PathBuf,
    /// The program on SQLite.
    pub workload: PathBuf,
    /// liblitefoot.so.
    pub library: PathBuf,
}

impl Programs {
    /// Compiles them into a directory.
    ///
    /// # Errors
    /// [`Error::Missing`] where there is no compiler, no SQLite to link with, or no liblitefoot.so.
    pub fn build(directory: &Path, library: Option<&Path>) -> Result<Programs> {
        compiler()?;
        let library = library
            .ok_or_else(|| Error::Missing("liblitefoot.so: cargo build -p litefoot-extension".to_owned()))?;
        let programs = Programs {
            shim: directory.join("shim.so"),
            workload: directory.join("workload"),
            library: library.to_owned(),
        };
        build(directory, "shim.c", SHIM, &programs.shim, &["-shared", "-fPIC"], &["-ldl"])?;
        // The library of the distribution has no name for the linker where its headers are not installed.
        build(directory, "workload.c", WORKLOAD, &programs.workload, &[], &["-l:libsqlite3.so.0"])?;
        Ok(programs)
    }
}

fn build(
    directory: &Path,
    name: &str,
    source: &str,
    result: &Path,
    flags: &[&str],
    libraries: &[&str],
) -> Result<()> {
    let path = directory.join(name);
    std::fs::write(&path, source).map_err(|source| Error::Directory { path: path.clone(), source })?;
    let file = path.to_string_lossy();
    let arguments = [&["-O1", "-Wall"], flags, &[&*file], libraries].concat();
    compile(result, &arguments, &format!("what {name} is compiled with (libsqlite3-0 of the distribution)"))
}
