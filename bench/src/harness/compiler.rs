//! C programs that are part of this one: compiled where an experiment runs.

use crate::{Error, Result};
use std::path::Path;
use std::process::{Command, Stdio};

/// Checks that there is a C compiler.
///
/// # Errors
/// [`Error::Missing`] where there is none.
pub fn compiler() -> Result<()> {
    program("cc", "a C compiler, `cc`: apt-get install gcc libc6-dev")
}

/// Checks that there is a program which says its version; `needs` is what to install.
///
/// # Errors
/// [`Error::Missing`] where there is none.
pub fn program(name: &str, needs: &str) -> Result<()> {
    let mut probe = Command::new(name);
    probe.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match probe.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Error::Missing(needs.to_owned())),
    }
}

/// Compiles; `arguments` name what, how, and with what it is linked, and `needs` what has to be installed for it.
///
/// # Errors
/// [`Error::Missing`] where the compiler is not there, or fails, with its words.
pub fn compile(result: &Path, arguments: &[&str], needs: &str) -> Result<()> {
    let mut cc = Command::new("cc");
    cc.args(arguments).arg("-o").arg(result);
    let output = cc.stdin(Stdio::null()).output().map_err(|error| Error::Missing(format!("cc: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::Missing(format!("{needs}: {}", said.trim())))
}
