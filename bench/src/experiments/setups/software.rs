//! What setups run: their programs, and what others have written.
//!
//! The software of others is in a cache, which `--install` fills by pip and go (`LITEFOOT_BENCH_CACHE`, else `litefoot-bench` in the
//! user's cache directory). Nothing else is downloaded, ever.

use super::list::{Modules, Setup};
use crate::experiments::apps::toolchain::{cache, fetch, write_programs};
use crate::{Error, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The programs, and what pip reads.
pub const PROGRAMS: &[(&str, &str)] = &[
    ("together.py", include_str!("../../../apps/setups/together.py")),
    ("web.py", include_str!("../../../apps/setups/web.py")),
    ("jobs.py", include_str!("../../../apps/setups/jobs.py")),
    ("services.py", include_str!("../../../apps/setups/services.py")),
    ("workers.py", include_str!("../../../apps/setups/workers.py")),
    ("requirements.txt", include_str!("../../../apps/setups/requirements.txt")),
    ("requirements-mlflow.txt", include_str!("../../../apps/setups/requirements-mlflow.txt")),
    ("requirements-trac.txt", include_str!("../../../apps/setups/requirements-trac.txt")),
];

/// Looks whether a module is there, without its code.
const MODULE_PROBE: &str =
    "import importlib.util, sys; sys.exit(not all(importlib.util.find_spec(name) for name in sys.argv[1:]))";

/// Litestream is a program of Go's.
const LITESTREAM: &str = "github.com/benbjohnson/litestream/cmd/litestream@v0.3.13";

impl Modules {
    /// The directory in the cache, and what pip reads.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Modules::Common => ("setups", "requirements.txt"),
            Modules::Mlflow => ("setups-mlflow", "requirements-mlflow.txt"),
            Modules::Trac => ("setups-trac", "requirements-trac.txt"),
        }
    }
}

/// Where everything is.
pub struct Software {
    /// Of this experiment; removed at its end.
    programs: PathBuf,
    cache: PathBuf,
}

impl Software {
    /// Writes the programs to a directory.
    pub fn new(directory: &Path) -> Result<Software> {
        let programs = directory.join("programs");
        write_programs(&programs, PROGRAMS)?;
        Ok(Software { programs, cache: cache(directory)? })
    }

    /// Where programs are that `--install` has brought.
    fn bin(&self) -> PathBuf {
        self.cache.join("setups-go")
    }

    /// Fetches what these setups need, and tells what cannot be had.
    pub fn install(&self, setups: &[&Setup]) -> Vec<Error> {
        let mut commands: Vec<(&str, Command)> = Vec::new();
        for modules in [Modules::Common, Modules::Mlflow, Modules::Trac] {
            if setups.iter().any(|setup| setup.modules_in == modules && !setup.modules.is_empty()) {
                let (directory, requirements) = modules.names();
                let mut pip = Command::new("python3");
                pip.args(["-m", "pip", "install", "-q", "--upgrade", "--target"])
                    .arg(self.cache.join(directory));
                pip.arg("-r").arg(self.programs.join(requirements));
                commands.push(("python3 with pip", pip));
            }
        }
        if setups.iter().any(|setup| setup.programs.iter().any(|program| program.probe[0] == "litestream")) {
            let mut go = Command::new("go");
            go.args(["install", LITESTREAM]).env("GOBIN", self.bin()).env("CGO_ENABLED", "1");
            go.env("GOFLAGS", "-modcacherw").env("GOCACHE", self.bin().join("build"));
            go.env("GOMODCACHE", self.bin().join("mod"));
            commands.push(("go and a C compiler", go));
        }
        commands.into_iter().filter_map(|(name, mut command)| fetch(name, &mut command).err()).collect()
    }

    /// Looks whether all is there that a setup needs.
    pub fn find(&self, setup: &Setup) -> Result<()> {
        let mut python = self.python(setup);
        python.args(["-c", MODULE_PROBE]).args(setup.modules);
        let advice = format!("python3 with {}: litefoot bench setups --install", setup.modules.join(", "));
        let mut probes = vec![(python, advice)];
        for program in setup.programs {
            let mut command = Command::new(program.probe[0]);
            command.args(&program.probe[1..]).env("PATH", self.path());
            probes.push((command, program.advice.to_owned()));
        }
        for (mut probe, advice) in probes {
            probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if !probe.status().is_ok_and(|status| status.success()) {
                return Err(Error::Missing(advice));
            }
        }
        Ok(())
    }

    /// The command that runs a setup for so many seconds.
    pub fn command(&self, setup: &Setup, seconds: u64) -> Command {
        let mut command = self.python(setup);
        command.arg(self.programs.join(setup.program)).args([setup.name, &seconds.to_string()]);
        command.env_remove("LD_PRELOAD");
        command
    }

    fn python(&self, setup: &Setup) -> Command {
        let mut python = Command::new("python3");
        python.env("PYTHONPATH", self.cache.join(setup.modules_in.names().0));
        python.env("PYTHONDONTWRITEBYTECODE", "1").env("PATH", self.path());
        python
    }

    fn path(&self) -> OsString {
        let mut path = self.bin().into_os_string();
        if let Some(other) = std::env::var_os("PATH") {
            path.push(":");
            path.push(other);
        }
        path
    }
}
