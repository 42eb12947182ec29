//! The smoke test that every package passes: a program inserts a row and says which litefoot is beneath, is killed, opens the
//! database again, and finds the row.
//!
//! Programs know nothing of litefoot. A way whose tools are not there is left out, and said. Nothing is downloaded.

use super::build::Built;
use super::targets::Target;
use super::{c_programs, tarball};
use crate::emulator;
use crate::process::{self, Result};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages of one target, and where they are tried.
pub struct Trial<'a> {
    /// Where the packages lie.
    pub packages: &'a Path,
    /// The version that must answer.
    pub version: &'a str,
    /// Where it is tried.
    pub folder: PathBuf,
}

impl<'a> Trial<'a> {
    /// A trial in an empty folder.
    pub fn new(packages: &'a Path, version: &'a str) -> Result<Trial<'a>> {
        let folder = packages.with_file_name("smoke");
        let _ = std::fs::remove_dir_all(&folder);
        tarball::create(&folder)?;
        Ok(Trial { packages, version, folder })
    }

    /// Tries what was made for a target.
    pub fn target(&self, target: &Target, built: &Built) -> Result<()> {
        if let Some(what) = target.cannot_run() {
            println!("{}: NOT TRIED: {what}", target.name);
            return Ok(());
        }
        c_programs::with_sqlite_inside(self, target, built)?;
        let tarball = self.folder.join(format!("tarball-{}", target.name));
        tarball::create(&tarball)?;
        let name = format!("litefoot-{}-{}.tar.gz", self.version, target.name);
        let mut tar = Command::new("tar");
        process::succeed(
            tar.arg("-xzf").arg(self.packages.join(name)).args(["--strip-components=1", "-C"]).arg(&tarball),
        )?;
        c_programs::preloaded(self, target, &tarball)?;
        self.program(target, &tarball)?;
        if target.emulator.is_some() || target.is_musl {
            return Ok(());
        }
        self.check("tarball", "litefoot run", || {
            let mut run = Command::new(tarball.join("bin/litefoot"));
            run.args(["run", "--", "python3"]).arg(program("smoke.py"));
            run
        })?;
        let drop_in = tarball.join("lib/litefoot-sqlite3");
        if drop_in.exists() {
            self.check("drop-in", "libsqlite3.so.0", || {
                let mut python = Command::new("/usr/bin/python3");
                python.arg(program("smoke.py")).env("LD_LIBRARY_PATH", &drop_in);
                python
            })?;
        }
        self.debian(target)?;
        self.wheel(target)
    }

    /// The program of a tarball, with the database of the trial before.
    fn program(&self, target: &Target, tarball: &Path) -> Result<()> {
        for (arguments, expected) in
            [(&["check", "app.db"][..], "in order"), (&["sql", "app.db", "SELECT count(*) FROM t"], "2")]
        {
            let mut run = emulator::command(target.emulator, &tarball.join("bin/litefoot"), None);
            let said = process::printed(run.args(arguments).current_dir(self.folder.join("work")))?;
            if !said.contains(expected) {
                return Err(format!("{} ({}): {run:?} said {said}", target.name, arguments.join(" ")));
            }
        }
        println!("tarball (litefoot): passed");
        Ok(())
    }

    fn debian(&self, target: &Target) -> Result<()> {
        let name = format!("litefoot_{}_{}.deb", self.version, target.debian);
        let root = self.folder.join("debian");
        process::succeed(Command::new("dpkg-deb").arg("-x").arg(self.packages.join(name)).arg(&root))?;
        self.check("deb", "litefoot run", || {
            let mut run = Command::new(root.join("usr/bin/litefoot"));
            run.args(["run", "--", "sh", "-c"])
                .arg(format!("exec python3 {} \"$@\"", program("smoke.py").display()));
            run.arg("sh");
            run
        })
    }

    /// The wheel that fits this machine, in an environment of its own.
    fn wheel(&self, target: &Target) -> Result<()> {
        let environment = self.folder.join("venv");
        let mut venv = Command::new("python3");
        if process::printed(venv.args(["-m", "venv"]).arg(&environment)).is_err() {
            println!("wheel: NOT TRIED: python3 makes no environment (apt install python3-venv)");
            return Ok(());
        }
        let end = format!("_{}.whl", target.wheel);
        let wheel = self.package(|name| name.contains("manylinux") && name.ends_with(&end))?;
        let Some(wheel) = wheel else { return Ok(()) };
        let mut pip = Command::new(environment.join("bin/pip"));
        process::printed(pip.args(["install", "--quiet", "--no-index"]).arg(wheel))?;
        self.check("wheel", "LITEFOOT=on", || {
            let mut python = Command::new(environment.join("bin/python"));
            python.arg(program("smoke.py")).env("LITEFOOT", "on");
            python
        })
    }

    /// npm's package, installed from its file.
    pub fn npm(&self) -> Result<()> {
        let Some(package) = self.package(|name| name.ends_with(".tgz"))? else { return Ok(()) };
        let has_sqlite = Command::new("node")
            .args(["-e", "process.getBuiltinModule('node:sqlite').DatabaseSync"])
            .output();
        if !has_sqlite.is_ok_and(|output| output.status.success()) {
            println!("npm: NOT TRIED: this node has no node:sqlite; Node 22.13 or later has");
            return Ok(());
        }
        let application = self.folder.join("node");
        tarball::create(&application)?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--offline", "--no-audit", "--no-fund"]).arg(package);
        process::printed(npm.current_dir(&application))?;
        let script = application.join("smoke.mjs");
        std::fs::copy(program("smoke.mjs"), &script)
            .map_err(|error| format!("{}: {error}", script.display()))?;
        let register = application.join("node_modules/litefoot/register.js");
        self.check("npm", "--import litefoot/register", || {
            let mut node = Command::new("node");
            node.arg("--import").arg(&register).arg(&script);
            node
        })
    }

    /// Go's module, beneath a program of one more line; the driver must be in Go's cache.
    pub fn go(&self) -> Result<()> {
        let (module, application) = (self.folder.join("go/module"), self.folder.join("go/application"));
        tarball::create(&module)?;
        tarball::create(&application)?;
        let name = format!("litefoot-go-{}.tar.gz", self.version);
        let mut tar = Command::new("tar");
        process::succeed(
            tar.arg("-xzf").arg(self.packages.join(name)).args(["--strip-components=1", "-C"]).arg(&module),
        )?;
        let path = "github.com/litefoot/litefoot/go";
        let text =
            format!("module smoke\n\ngo 1.22\n\nrequire {path} v0.0.0\n\nreplace {path} => ../module\n");
        for (from, to) in [(module.join("go.sum"), "go.sum"), (program("smoke.go"), "main.go")] {
            std::fs::copy(&from, application.join(to))
                .map_err(|error| format!("{}: {error}", from.display()))?;
        }
        std::fs::write(application.join("go.mod"), text).map_err(|error| format!("go.mod: {error}"))?;
        let mut build = Command::new("go");
        build
            .args(["build", "-mod=mod", "-o", "application"])
            .envs([("GOPROXY", "off"), ("CGO_CFLAGS", "-O1")]);
        if let Err(why) = process::printed(build.current_dir(&application)) {
            println!(
                "go: NOT TRIED: needs Go, and github.com/mattn/go-sqlite3 in its cache (cd go && go mod download)"
            );
            println!("{}", why.lines().last().unwrap_or_default());
            return Ok(());
        }
        self.check("go", "a blank import", || Command::new(application.join("application")))
    }

    /// Java's agent, beneath a program and the driver of Maven's cache.
    pub fn java(&self) -> Result<()> {
        let name = format!("litefoot-{}.jar", self.version);
        let Some(agent) = self.package(|found| found == name)? else { return Ok(()) };
        let home = std::env::var("HOME").unwrap_or_default();
        let drivers = format!("{home}/.m2/repository/org/xerial/sqlite-jdbc");
        let mut find = Command::new("find");
        let found = process::printed(find.args([&drivers, "-name", "sqlite-jdbc-*.jar"])).unwrap_or_default();
        let Some(driver) = found.lines().next() else {
            println!(
                "java: NOT TRIED: there is no sqlite-jdbc in {drivers} (mvn dependency:get -Dartifact=…)"
            );
            return Ok(());
        };
        let classes = self.folder.join("java");
        tarball::create(&classes)?;
        let mut javac = Command::new("javac");
        process::printed(javac.arg("-d").arg(&classes).arg(program("Smoke.java")))?;
        self.check("jar", "-javaagent", || {
            let mut java = Command::new("java");
            java.arg(format!("-javaagent:{}", agent.display()));
            java.args(["-cp", &format!("{}:{driver}", classes.display()), "Smoke"]);
            java
        })
    }

    /// Runs a program twice: it dies by a signal, and then finds what it had committed.
    pub fn check(&self, package: &str, way: &str, command: impl Fn() -> Command) -> Result<()> {
        let folder = self.folder.join("work");
        let _ = std::fs::remove_dir_all(&folder);
        tarball::create(&folder)?;
        for (argument, rows) in [(Some("kill"), 1), (None, 2)] {
            let mut command = command();
            command.args(argument).current_dir(&folder);
            command.env_remove("LITEFOOT_LIBRARY").env_remove("LITEFOOT_OPTIONS");
            let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
            let printed = String::from_utf8_lossy(&output.stdout);
            // A program that is killed under an emulator, or a shell, has the shells' code.
            let died = output.status.signal() == Some(9) || output.status.code() == Some(128 + 9);
            let ended = if argument.is_some() { died } else { output.status.success() };
            if !ended || !printed.ends_with(&format!("{}\n{rows}\n", self.version)) {
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(format!("{package} ({way}): {command:?}: {}\n{printed}{said}", output.status));
            }
        }
        println!("{package} ({way}): passed");
        Ok(())
    }

    /// A package whose name fits.
    fn package(&self, fits: impl Fn(&str) -> bool) -> Result<Option<PathBuf>> {
        let entries = std::fs::read_dir(self.packages).map_err(|error| format!("packages: {error}"))?;
        let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        let named = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).is_some_and(&fits);
        Ok(paths.into_iter().find(named))
    }
}

/// A program of the smoke test.
fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("smoke").join(name)
}
