//! The programs, what runs them, and the libraries that they need.
//!
//! The programs are part of this one, and are written to the experiment's directory. Libraries of others are in a
//! cache, which `--install` fills by the language's own package manager: `LITEFOOT_BENCH_CACHE`, else
//! `litefoot-bench` in the user's cache directory.

use super::patterns::{Pattern, Runtime};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Says where the cache is.
const VARIABLE: &str = "LITEFOOT_BENCH_CACHE";

/// The programs, by their files' names.
const PROGRAMS: &[(&str, &str)] = &[
    ("protocol.py", include_str!("../../../apps/protocol.py")),
    ("plain.py", include_str!("../../../apps/plain.py")),
];

/// Prints where it is, for what stands before it may be a script.
const PROBE: &str = "import sys; [__import__(name) for name in sys.argv[1:]]; print(sys.executable)";

/// Where everything is.
pub struct Toolchain {
    programs: PathBuf,
    cache: PathBuf,
}

/// A program that can be run.
pub struct Runnable {
    command: PathBuf,
    first: PathBuf,
    environment: Vec<(&'static str, PathBuf)>,
    /// The variable that makes a program run on litefoot, whose value is the library's path.
    reaches: &'static str,
}

impl Toolchain {
    /// Writes the programs to a directory.
    pub fn new(directory: &Path) -> Result<Toolchain> {
        let programs = directory.join("programs");
        let failed = |source| Error::Directory { path: programs.clone(), source };
        std::fs::create_dir(&programs).map_err(failed)?;
        for (name, text) in PROGRAMS {
            std::fs::write(programs.join(name), text).map_err(failed)?;
        }
        let cache = std::env::var_os(VARIABLE).map(PathBuf::from).or_else(|| {
            let home = || Some(Path::new(&std::env::var_os("HOME")?).join(".cache"));
            let user = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?;
            Some(user.join("litefoot-bench"))
        });
        Ok(Toolchain { programs, cache: cache.unwrap_or_else(|| directory.join("cache")) })
    }

    /// A pattern's program.
    ///
    /// # Errors
    /// [`Error::Missing`]: what to install.
    pub fn find(&self, pattern: &Pattern) -> Result<Runnable> {
        match pattern.runtime {
            Runtime::Python => self.python(pattern),
        }
    }

    fn python(&self, pattern: &Pattern) -> Result<Runnable> {
        let environment =
            vec![("PYTHONPATH", self.cache.join("python")), ("PYTHONDONTWRITEBYTECODE", PathBuf::from("1"))];
        let mut probe = Command::new("python3");
        probe.args(["-c", PROBE]).args(pattern.modules).envs(environment.iter().cloned());
        let advice = if pattern.modules == ["sqlite3"] {
            "python3 with its module sqlite3: apt-get install python3".to_owned()
        } else {
            format!("python3 with {}: litefoot bench apps --install", pattern.modules.join(", "))
        };
        let command = answer(probe).ok_or(Error::Missing(advice))?;
        Ok(Runnable {
            command: command.into(),
            first: self.programs.join(pattern.program),
            environment,
            reaches: "LD_PRELOAD",
        })
    }
}

impl Runnable {
    /// The command, still without what the pattern takes; on litefoot where there is a library.
    pub fn command(&self, library: Option<&Path>) -> Command {
        let mut command = Command::new(&self.command);
        command.arg(&self.first).envs(self.environment.iter().cloned());
        for variable in ["LD_PRELOAD", "LITEFOOT_LIBRARY"] {
            command.env_remove(variable);
        }
        if let Some(library) = library {
            command.env(self.reaches, library);
        }
        command
    }
}

/// What a command answers, if it succeeds.
fn answer(mut command: Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
