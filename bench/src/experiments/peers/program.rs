//! The program that has the other stores: where it is, and how it is asked.

use super::super::group::load::{self, Load};
use super::round::{Plan, Round};
use super::stores::{Known, OTHERS};
use crate::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Its name.
const NAME: &str = "litefoot-peers";
/// Says where it is, if it is not beside this program.
const VARIABLE: &str = "LITEFOOT_PEERS";

/// The program, and which of [`OTHERS`] it has, with their versions.
pub struct Program {
    path: PathBuf,
    pub stores: Vec<(&'static Known, String)>,
    /// Those that several threads may write at once.
    concurrent: Vec<&'static str>,
}

/// A line of its list.
#[derive(Deserialize)]
struct Listed {
    name: String,
    version: String,
    /// Programs that were built before there were loads do not say.
    #[serde(default)]
    concurrent: bool,
}

impl Program {
    /// Looks for it, and asks what it has.
    ///
    /// # Errors
    /// [`Error::Peers`] where it is not there or was built without any store.
    pub fn find() -> Result<Program> {
        let beside = || Some(std::env::current_exe().ok()?.with_file_name(NAME));
        let path = std::env::var_os(VARIABLE).map(PathBuf::from).or_else(beside);
        let path = path.filter(|path| path.is_file()).ok_or(Error::Peers)?;
        let text = ask(Command::new(&path))?;
        let listed: Vec<Listed> =
            text.lines().map(serde_json::from_str).collect::<std::result::Result<_, _>>()?;
        let of = |known: &Known| listed.iter().find(|listed| listed.name == known.name);
        let stores: Vec<_> =
            OTHERS.iter().filter_map(|known| Some((known, of(known)?.version.clone()))).collect();
        let concurrent = OTHERS.iter().filter(|known| of(known).is_some_and(|listed| listed.concurrent));
        let concurrent = concurrent.map(|known| known.name).collect();
        if stores.is_empty() { Err(Error::Peers) } else { Ok(Program { path, stores, concurrent }) }
    }

    /// The names of the stores that take a load.
    pub fn concurrent(&self) -> impl Iterator<Item = &'static str> {
        self.concurrent.iter().copied()
    }

    /// Has it run a round in an empty directory.
    pub fn round(&self, name: &str, directory: &Path, plan: &Plan) -> Result<Round> {
        self.run(&[], name, directory, plan)
    }

    /// Has it run a load in an empty directory.
    pub fn load(&self, name: &str, directory: &Path, plan: &load::Plan) -> Result<Load> {
        self.run(&["load"], name, directory, plan)
    }

    fn run<T: DeserializeOwned>(
        &self,
        what: &[&str],
        name: &str,
        directory: &Path,
        plan: &impl Serialize,
    ) -> Result<T> {
        let mut command = Command::new(&self.path);
        command.args(what).arg(name).arg(directory).arg(serde_json::to_string(plan)?);
        let text =
            ask(command).map_err(|error| Error::Peer { name: name.to_owned(), what: error.to_string() })?;
        Ok(serde_json::from_str(&text)?)
    }
}

/// The output of a command.
fn ask(mut command: Command) -> Result<String> {
    let name = NAME.to_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| Error::Peer { name: name.clone(), what: error.to_string() })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let what = if said.trim().is_empty() { output.status.to_string() } else { said.trim().to_owned() };
    Err(Error::Peer { name, what })
}
