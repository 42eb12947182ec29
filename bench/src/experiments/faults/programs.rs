//! The two programs of the experiment: compiled where it runs, from sources that are part of this one.

use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// Checks that there is a C compiler.
///
/// # Errors
/// [`Error::Missing`] where there is none.
pub fn compiler() -> Result<()> {
    let answer = Command::new("cc").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match answer {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Error::Missing("a C compiler, `cc`: apt-get install gcc libc6-dev".to_owned())),
    }
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
        compile(directory, "shim.c", SHIM, &programs.shim, &["-shared", "-fPIC"], &["-ldl"])?;
        // The library of the distribution has no name for the linker where its headers are not installed.
        compile(directory, "workload.c", WORKLOAD, &programs.workload, &[], &["-l:libsqlite3.so.0"])?;
        Ok(programs)
    }
}

fn compile(
    directory: &Path,
    name: &str,
    source: &str,
    result: &Path,
    flags: &[&str],
    libraries: &[&str],
) -> Result<()> {
    let path = directory.join(name);
    std::fs::write(&path, source).map_err(|source| Error::Directory { path: path.clone(), source })?;
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall"]).args(flags).arg("-o").arg(result).arg(&path).args(libraries);
    let output = cc.stdin(Stdio::null()).output().map_err(|error| Error::Missing(format!("cc: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::Missing(format!(
        "what {name} is compiled with (libsqlite3-0 of the distribution): {}",
        said.trim()
    )))
}
