//! SQLite's test programs, from the source package of the distribution.
//!
//! apt fetches it with lists and settings of its own (`apt/` in the cache), so that nothing of the machine's is changed.
//! The version is that of the installed `libsqlite3-0`. All of it is cached in `target/sqlite-suite`, and nothing of
//! it is part of the project.

use crate::process::{self, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The part of the test program that is ours.
const HARNESS: &str = include_str!("harness.c");

/// Features that the tests of this version ask for.
const OPTIONS: &str = "-DSQLITE_EXTRA_INIT=litefoot_suite_init -DSQLITE_ENABLE_FTS3_PARENTHESIS \
                       -DSQLITE_ENABLE_COLUMN_METADATA -DSQLITE_ENABLE_UNLOCK_NOTIFY \
                       -DSQLITE_ENABLE_DBSTAT_VTAB -DSQLITE_USE_URI=0";

/// Directories of the cache.
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The cache in the target directory, made if need be.
    pub fn open() -> Result<Cache> {
        let root = absolute(&process::target_directory())?.join("sqlite-suite");
        make(&root.join("build"))?;
        Ok(Cache { root })
    }

    /// Where results are kept.
    pub fn results(&self) -> PathBuf {
        self.root.join("results")
    }

    /// Where the databases of the tests are kept.
    pub fn moments(&self) -> PathBuf {
        self.root.join("moments")
    }

    /// Where the programs lie.
    pub fn programs(&self) -> PathBuf {
        self.root.join("build")
    }

    /// SQLite's source, fetched if need be; `None` where it cannot be had.
    pub fn source(&self) -> Result<Option<PathBuf>> {
        let place = self.root.join("source");
        if let Some(found) = unpacked(&place) {
            return Ok(Some(found));
        }
        make(&place)?;
        if let Err(why) = fetch(&self.root.join("apt"), &place) {
            println!("the source package of sqlite3 cannot be had: {why}");
            return Ok(None);
        }
        Ok(unpacked(&place))
    }

    /// Builds what is missing of `testfixture` and the other programs.
    pub fn build(&self, source: &Path) -> Result<()> {
        let programs = self.programs();
        if !programs.join("Makefile").exists() {
            println!("configuring SQLite");
            let configure = source.join("configure");
            let mut command = Command::new(configure);
            command
                .args(["--disable-shared", "--enable-all", "--enable-update-limit"])
                .env("CFLAGS", "-O1 -g1");
            quietly(command.current_dir(&programs))?;
        }
        self.harness(source)?;
        if !programs.join("testfixture").exists() {
            println!("building testfixture, which takes minutes");
            let makefile = read(&programs.join("Makefile"))?;
            let tcl = makefile.lines().find_map(|line| line.strip_prefix("LIBTCL = ")).unwrap_or("-ltcl8.6");
            let libraries = format!("LIBTCL={tcl} -rdynamic -L. -lsuite -Wl,-rpath,'$$ORIGIN'");
            let mut command = Command::new("make");
            command.args(["testfixture", &format!("OPTS={OPTIONS}"), &libraries]).current_dir(&programs);
            quietly(&mut command)?;
        }
        Ok(())
    }

    /// Builds one of SQLite's programs that run many threads or processes, with an SQLite as it is for users.
    pub fn build_program(&self, source: &Path, name: &str) -> Result<()> {
        let programs = self.programs();
        if programs.join(name).exists() {
            return Ok(());
        }
        println!("building {name}");
        let files: &[&str] = match name {
            "threadtest3" => &["test/threadtest3.c", "src/test_multiplex.c"],
            _ => &["mptest/mptest.c"],
        };
        let mut command = Command::new("gcc");
        command.args([
            "-O1",
            "-g1",
            "-w",
            "-DSQLITE_THREADSAFE=1",
            "-DSQLITE_EXTRA_INIT=litefoot_suite_init",
        ]);
        command.args(["-DSQLITE_ENABLE_UNLOCK_NOTIFY", "-I.", "-I"]).arg(source.join("src"));
        command.args(files.iter().map(|file| source.join(file))).args(["sqlite3.c", "-o", name]);
        command.args(["-rdynamic", "-L.", "-lsuite", "-Wl,-rpath,$ORIGIN", "-lpthread", "-lm", "-ldl"]);
        quietly(command.current_dir(&programs))
    }

    /// Compiles our part, where it is not the one that was compiled last.
    fn harness(&self, source: &Path) -> Result<()> {
        let programs = self.programs();
        let [code, library] = ["harness.c", "libsuite.so"].map(|name| programs.join(name));
        if library.exists() && fs::read_to_string(&code).is_ok_and(|before| before == HARNESS) {
            return Ok(());
        }
        let mut headers = Command::new("make");
        quietly(headers.arg("sqlite3.h").current_dir(&programs))?;
        write(&code, HARNESS)?;
        let mut command = Command::new("gcc");
        command.args(["-O1", "-g", "-Wall", "-Werror", "-shared", "-fPIC", "-DSQLITE_CORE", "-I.", "-I"]);
        command.arg(source.join("src")).args(["-o", "libsuite.so", "harness.c", "-ldl"]);
        let compiled = quietly(command.current_dir(&programs));
        if compiled.is_err() {
            // So that the next run compiles it again.
            let _ = fs::remove_file(&code);
        }
        compiled
    }
}

/// Fetches and unpacks the source of the installed version.
fn fetch(apt: &Path, place: &Path) -> Result<()> {
    for directory in ["lists/partial", "cache/archives/partial"] {
        make(&apt.join(directory))?;
    }
    let list = apt.join("sources.list");
    write(&list, &sources()?)?;
    let settings = [
        format!("Dir::Etc::sourcelist={}", list.display()),
        "Dir::Etc::sourceparts=/dev/null".to_owned(),
        format!("Dir::State::lists={}", apt.join("lists").display()),
        format!("Dir::Cache={}", apt.join("cache").display()),
    ];
    let apt_get = || {
        let mut command = Command::new("apt-get");
        command.args(settings.iter().flat_map(|setting| ["-o", setting])).current_dir(place);
        command
    };
    let version = said(Command::new("dpkg-query").args(["-W", "-f", "${source:Version}", "libsqlite3-0"]))?;
    println!("fetching the source package of sqlite3 {version}");
    quietly(apt_get().args(["-q", "update"]))?;
    quietly(apt_get().args(["-q", "source", &format!("sqlite3={version}")]))
}

/// Where the distribution keeps its sources.
fn sources() -> Result<String> {
    let release =
        fs::read_to_string("/etc/os-release").map_err(|error| format!("/etc/os-release: {error}"))?;
    let field = |name: &str| {
        let value = release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.map(|value| value.trim_matches('"').to_owned())
    };
    let codename = field("VERSION_CODENAME").ok_or("/etc/os-release names no release")?;
    match field("ID").as_deref() {
        Some("debian") => Ok(format!(
            "deb-src http://deb.debian.org/debian {codename} main\n\
             deb-src http://deb.debian.org/debian {codename}-updates main\n\
             deb-src http://deb.debian.org/debian-security {codename}-security main\n"
        )),
        Some("ubuntu") => Ok(["", "-updates", "-security"]
            .map(|suite| format!("deb-src http://archive.ubuntu.com/ubuntu {codename}{suite} main\n"))
            .concat()),
        other => Err(format!("no known place for the sources of {}", other.unwrap_or("this system"))),
    }
}

/// The directory that the package was unpacked to.
fn unpacked(place: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(place).ok()?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.find(|path| path.join("test/tester.tcl").exists())
}

/// A path that does not depend on the directory we are in.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Makes a directory and those above it.
pub fn make(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes a file.
pub fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs a command whose output only matters if it fails.
pub fn quietly(command: &mut Command) -> Result<()> {
    said(command).map(drop)
}

/// Runs a command, and answers its standard output.
pub fn said(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{:?} cannot be started: {error}", command.get_program()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().collect();
    let end = lines.len().saturating_sub(12);
    Err(format!("{command:?} ended with {}:\n{}", output.status, lines[end..].join("\n")))
}
