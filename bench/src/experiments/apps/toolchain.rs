//! The programs, what runs them, and the libraries that they need.
//!
//! The programs are part of this one, and are written to the experiment's directory. Libraries of others are in a
//! cache, which `--install` fills by the language's own package manager: `LITEFOOT_BENCH_CACHE`, else
//! `litefoot-bench` in the user's cache directory. Nothing else is downloaded, ever.

use super::patterns::{Pattern, Runtime};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Says where the cache is.
const VARIABLE: &str = "LITEFOOT_BENCH_CACHE";

/// The programs, and what their package managers read, by their files' names.
const PROGRAMS: &[(&str, &str)] = &[
    ("protocol.py", include_str!("../../../apps/protocol.py")),
    ("plain.py", include_str!("../../../apps/plain.py")),
    ("orm.py", include_str!("../../../apps/orm.py")),
    ("django_orders.py", include_str!("../../../apps/django_orders.py")),
    ("svn.py", include_str!("../../../apps/svn.py")),
    ("requirements.txt", include_str!("../../../apps/requirements.txt")),
    ("protocol.js", include_str!("../../../apps/protocol.js")),
    ("better.js", include_str!("../../../apps/better.js")),
    ("callbacks.js", include_str!("../../../apps/callbacks.js")),
    ("package.json", include_str!("../../../apps/package.json")),
    (GO_SOURCE, include_str!("../../../apps/go/main.go")),
    ("go/go.mod", include_str!("../../../apps/go/go.mod")),
    ("go/go.sum", include_str!("../../../apps/go/go.sum")),
];
const GO_SOURCE: &str = "go/main.go";

/// Imports what is named, and prints where Python is: what stands before it on the `PATH` may be a script.
const PYTHON_PROBE: &str = "import sys; [__import__(name) for name in sys.argv[1:]]; print(sys.executable)";
/// The same for Node.js.
const NODE_PROBE: &str = "require(process.argv[1]); console.log(process.execPath)";

const PRELOAD: &str = "LD_PRELOAD";
/// Names the library to programs that load it as an extension.
const EXTENSION: &str = "LITEFOOT_LIBRARY";

/// Where everything is.
pub struct Toolchain {
    /// Of this experiment; removed at its end.
    scratch: PathBuf,
    programs: PathBuf,
    cache: PathBuf,
}

/// A program that can be run.
pub struct Runnable {
    command: PathBuf,
    first: Option<PathBuf>,
    environment: Vec<(&'static str, PathBuf)>,
    /// The variable that makes a program run on litefoot, whose value is the library's path.
    reaches: &'static str,
}

impl Toolchain {
    /// Writes the programs to a directory.
    pub fn new(scratch: &Path) -> Result<Toolchain> {
        let programs = scratch.join("programs");
        write_programs(&programs, PROGRAMS)?;
        Ok(Toolchain { scratch: scratch.to_owned(), programs, cache: cache(scratch)? })
    }

    /// Fills the cache with what a runtime needs; nothing for one that needs nothing.
    ///
    /// # Errors
    /// [`Error::Missing`] where the package manager fails, with its last words.
    pub fn install(&self, runtime: Runtime) -> Result<()> {
        let (name, mut command) = match runtime {
            Runtime::Python(["sqlite3"]) | Runtime::Subversion => return Ok(()),
            Runtime::Python(_) => {
                let mut pip = Command::new("python3");
                pip.args(["-m", "pip", "install", "--quiet", "--upgrade", "--target"]);
                pip.arg(self.cache.join("python")).arg("-r").arg(self.programs.join("requirements.txt"));
                ("pip", pip)
            }
            Runtime::Node(_) => {
                let place = self.cache.join("node");
                write_programs(&place, PROGRAMS)?;
                let mut npm = Command::new("npm");
                npm.args(["install", "--no-audit", "--no-fund"]).current_dir(place);
                ("npm, of Node.js 20 or later", npm)
            }
            Runtime::Go => {
                let place = self.cache.join("go");
                let program = self.go_program();
                // What is there was made from another source, until it is made again.
                write_programs(&place, PROGRAMS)?;
                let mut go = Command::new("go");
                go.args(["build", "-o"]).arg(program).arg(".").current_dir(place.join("go"));
                go.env("CGO_ENABLED", "1").env("GOTOOLCHAIN", "local").env("GOFLAGS", "-modcacherw");
                go.env("GOCACHE", place.join("build")).env("GOMODCACHE", place.join("mod"));
                ("go, 1.22 or later, and a C compiler", go)
            }
        };
        fetch(name, &mut command)
    }

    /// A pattern's program.
    ///
    /// # Errors
    /// [`Error::Missing`]: what to install.
    pub fn find(&self, pattern: &Pattern) -> Result<Runnable> {
        match pattern.runtime {
            Runtime::Python(modules) => self.python(pattern, modules),
            Runtime::Node(package) => self.node(pattern, package),
            Runtime::Go => self.go(),
            Runtime::Subversion => {
                let advice =
                    "svn and svnadmin, whose SQLite is a library of its own: apt-get install subversion";
                let linked = answer(
                    Command::new("sh").args(["-c", "svnadmin --version -q && ldd \"$(command -v svn)\""]),
                );
                match linked {
                    Some(libraries) if libraries.contains("libsqlite3.so") => {
                        self.python(pattern, &["sqlite3"])
                    }
                    _ => Err(Error::Missing(advice.to_owned())),
                }
            }
        }
    }

    fn python(&self, pattern: &Pattern, modules: &[&str]) -> Result<Runnable> {
        let environment = vec![
            ("PYTHONPATH", self.cache.join("python")),
            ("PYTHONDONTWRITEBYTECODE", PathBuf::from("1")),
            ("APPS_SCRATCH", self.scratch.clone()),
        ];
        let mut probe = Command::new("python3");
        probe.args(["-c", PYTHON_PROBE]).args(modules).envs(environment.iter().cloned());
        let advice = if modules == ["sqlite3"] {
            "python3 with its module sqlite3: apt-get install python3".to_owned()
        } else {
            format!("python3 with {}: litefoot bench apps --install", modules.join(", "))
        };
        let command = answer(&mut probe).ok_or(Error::Missing(advice))?;
        let first = Some(self.programs.join(pattern.program));
        Ok(Runnable { command: command.into(), first, environment, reaches: PRELOAD })
    }

    fn node(&self, pattern: &Pattern, package: &str) -> Result<Runnable> {
        let environment = vec![("NODE_PATH", self.cache.join("node/node_modules"))];
        let mut probe = Command::new("node");
        probe.args(["-e", NODE_PROBE, package]).envs(environment.iter().cloned());
        let advice = || Error::Missing(format!("Node.js and {package}: litefoot bench apps --install"));
        let command = answer(&mut probe).ok_or_else(advice)?;
        let first = Some(self.programs.join(pattern.program));
        Ok(Runnable { command: command.into(), first, environment, reaches: EXTENSION })
    }

    /// The program that was built from the source that this program has.
    fn go(&self) -> Result<Runnable> {
        let command = self.go_program();
        let source = |directory: &Path| std::fs::read(directory.join(GO_SOURCE)).ok();
        if command.is_file() && source(&self.programs) == source(&self.cache.join("go")) {
            return Ok(Runnable { command, first: None, environment: Vec::new(), reaches: EXTENSION });
        }
        Err(Error::Missing("a program in Go: litefoot bench apps --install".to_owned()))
    }

    fn go_program(&self) -> PathBuf {
        self.cache.join("go/accounts")
    }
}

impl Runnable {
    /// The command, still without what the pattern takes; on litefoot where there is a library.
    pub fn command(&self, library: Option<&Path>) -> Command {
        let mut command = Command::new(&self.command);
        command.args(&self.first).envs(self.environment.iter().cloned());
        command.env_remove(PRELOAD).env_remove(EXTENSION);
        if let Some(library) = library {
            command.env(self.reaches, library);
        }
        command
    }
}

/// The cache, an absolute path; in the experiment's directory where the user has none.
pub fn cache(scratch: &Path) -> Result<PathBuf> {
    let named = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = || Some(named("HOME")?.join(".cache"));
    let user = || Some(named("XDG_CACHE_HOME").or_else(home)?.join("litefoot-bench"));
    let cache = named(VARIABLE).or_else(user);
    let cache = cache.unwrap_or_else(|| scratch.join("cache"));
    std::path::absolute(&cache).map_err(|source| Error::Directory { path: cache, source })
}

/// Runs a package manager.
///
/// # Errors
/// [`Error::Missing`] where it is not there, or fails, with its last words.
pub fn fetch(name: &str, command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| Error::Missing(format!("{name} ({error})")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::Missing(format!("{name} ({})", said.trim().lines().last().unwrap_or("no reason given"))))
}

/// Writes programs, by their files' names and texts, to a directory.
pub fn write_programs(directory: &Path, programs: &[(&str, &str)]) -> Result<()> {
    for (name, text) in programs {
        let path = directory.join(name);
        let parent = path.parent().unwrap_or(directory);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|source| Error::Directory { path, source })?;
    }
    Ok(())
}

/// What a command answers, if it succeeds.
fn answer(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::patterns;
    use super::*;

    #[test]
    fn every_pattern_has_its_program() {
        for pattern in patterns::ALL.iter().filter(|pattern| pattern.runtime != Runtime::Go) {
            let text = PROGRAMS.iter().find(|(name, _)| *name == pattern.program).map(|(_, text)| text);
            let text = text.unwrap_or_else(|| panic!("{}", pattern.name));
            assert!(
                text.contains(&format!("\"{}\":", pattern.name))
                    || text.contains(&format!("{}: ", pattern.name)),
                "{}",
                pattern.name
            );
        }
    }

    #[test]
    fn a_program_is_on_litefoot_by_one_variable() {
        let program =
            |reaches| Runnable { command: "x".into(), first: None, environment: Vec::new(), reaches };
        for (reaches, other) in [(PRELOAD, EXTENSION), (EXTENSION, PRELOAD)] {
            let command = program(reaches).command(Some(Path::new("/lib/liblitefoot.so")));
            let value =
                |name: &str| command.get_envs().find(|(key, _)| *key == name).and_then(|(_, value)| value);
            assert_eq!(value(reaches), Some("/lib/liblitefoot.so".as_ref()));
            assert_eq!(value(other), None);
            let stock = program(reaches).command(None);
            assert!(stock.get_envs().all(|(_, value)| value.is_none()));
        }
    }

    #[test]
    fn a_program_of_another_source_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let toolchain = Toolchain {
            scratch: directory.path().to_owned(),
            programs: directory.path().join("programs"),
            cache: directory.path().join("cache"),
        };
        write_programs(&toolchain.programs, PROGRAMS).unwrap();
        write_programs(&toolchain.cache.join("go"), PROGRAMS).unwrap();
        assert!(toolchain.go().is_err());
        std::fs::write(toolchain.go_program(), "").unwrap();
        assert!(toolchain.go().is_ok());
        std::fs::write(toolchain.cache.join("go").join(GO_SOURCE), "package old").unwrap();
        assert!(toolchain.go().is_err());
    }
}
