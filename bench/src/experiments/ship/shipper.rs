//! The program `litefoot`, as shipper and as collector.

use super::failed;
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const LAST_LOOKS: u32 = 60;
const TOKEN: &str = "a-token-of-the-experiment";

/// The program, and the directory of its jobs.
pub(super) struct Shipping {
    program: PathBuf,
    directory: PathBuf,
}

/// A running service.
pub(super) struct Service(pub Child);

impl Service {
    pub(super) fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The program beside this one.
pub(super) fn program() -> Result<PathBuf> {
    let missing = || Error::Missing("the program litefoot beside this one: cargo build --release".to_owned());
    let program = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join("litefoot")));
    program.filter(|program| program.is_file()).ok_or_else(missing)
}

impl Shipping {
    pub(super) fn new(directory: &Path) -> Result<Shipping> {
        Ok(Shipping { program: program()?, directory: directory.join("ship") })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("LITEFOOT_SHIP_DIRECTORY", &self.directory);
        command.env("LITEFOOT_COLLECT_TOKEN", TOKEN).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Runs a command to its end; an error is what it has said.
    fn succeed(&self, arguments: &[&str]) -> Result<()> {
        let output = self.command(arguments).output().map_err(|error| failed(&self.program, error))?;
        if output.status.success() {
            return Ok(());
        }
        let what = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(Error::Peer { name: format!("litefoot {}", arguments.join(" ")), what })
    }

    pub(super) fn add(&self, database: &Path, url: &str, interval: &str, name: &str) -> Result<()> {
        self.add_with(database, url, &["--interval", interval, "--name", name])
    }

    /// The same with other options.
    pub(super) fn add_with(&self, database: &Path, url: &str, options: &[&str]) -> Result<()> {
        let path = database.to_string_lossy();
        self.succeed(&[&["ship", "add", &path, url], options].concat())
    }

    /// One look.
    pub(super) fn once(&self) -> Result<()> {
        self.succeed(&["ship", "run", "--once"])
    }

    /// Looks, at a good line, until one has delivered everything: the server may be on its way back.
    pub(super) fn last_look(&self) -> Result<()> {
        let mut last = Ok(());
        for _ in 0..LAST_LOOKS {
            last = self.once();
            if last.is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        last
    }

    /// The service. What it says goes to a file.
    pub(super) fn serve(&self) -> Result<Service> {
        self.start(self.command(&["ship", "run"]), "ship.said")
    }

    /// A collector at a port.
    pub(super) fn collect(&self, port: u16, to: &str) -> Result<Service> {
        self.start(self.collector(port, to), "collect.said")
    }

    fn collector(&self, port: u16, to: &str) -> Command {
        self.command(&["collect", "--listen", &format!("127.0.0.1:{port}"), "--to", to])
    }

    /// The same with a directory of its own for temporary files.
    pub(super) fn collect_in(&self, port: u16, to: &str, temporary: &Path) -> Result<Service> {
        let mut command = self.collector(port, to);
        command.env("TMPDIR", temporary);
        self.start(command, "collect.said")
    }

    fn start(&self, mut command: Command, said: &str) -> Result<Service> {
        let path = self.directory.with_file_name(said);
        let file = std::fs::File::options().create(true).append(true).open(&path);
        let file = file.map_err(|error| failed(&path, error))?;
        command.stderr(file).spawn().map(Service).map_err(|error| failed(&self.program, error))
    }

    /// The last lines that the services have said.
    pub(super) fn said(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.directory.with_file_name(name)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(4)..].join("; ")
    }
}
