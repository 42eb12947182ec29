//! `setups`: ordinary applications that are several processes, on stock SQLite and on litefoot.
//!
//! Each setup is a small program on a library that applications use (`bench/apps/setups`). Its servers and workers run unchanged on
//! either side: litefoot is preloaded, as `litefoot run` does. Clients and cron jobs are on SQLite as it is. When all have ended,
//! stock SQLite looks for every row that was acknowledged. A note names the setups whose library or program is not installed, and
//! what installs it.
//!
//! A figure ends with its side.
//!
//! | figure | meaning |
//! |---|---|
//! | `SETUP.per_s` | requests, jobs or trials a second |
//! | `SETUP.p99_ms` | the time that one in a hundred exceeds |
//! | `SETUP.errors` | requests that failed; a note has each message |
//! | `SETUP.lost` | rows that were acknowledged and are not there |
//! | `SETUP.bytes` | bytes at a device of the setup's own, checkpoints and closing included; only where root can make one |

mod outcome;

use super::apps::device::Device;
use super::apps::toolchain::cache;
use super::commit::work_directory;
use crate::harness::Progress;
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
use outcome::Outcome;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Seconds of a run of each side.
const SECONDS: u64 = 10;
const QUICK_SECONDS: u64 = 2;
/// After so many seconds more a setup counts as hung: its parts have limits of their own.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A setup.
#[derive(Clone, Copy, Debug)]
struct Setup {
    name: &'static str,
    about: &'static str,
    program: &'static str,
    /// Modules of Python's that it needs.
    modules: &'static [&'static str],
    /// Programs that it needs.
    programs: &'static [&'static str],
}

const WEB: Setup =
    Setup { name: "", about: "", program: "web.py", modules: &["flask", "gunicorn"], programs: &[] };

/// All setups, in the order of the table.
const ALL: &[Setup] = &[
    Setup {
        name: "django_per_request",
        about: "Django's defaults, gunicorn with four workers",
        modules: &["django", "gunicorn"],
        ..WEB
    },
    Setup {
        name: "django_persistent",
        about: "the same with CONN_MAX_AGE = None",
        modules: &["django", "gunicorn"],
        ..WEB
    },
    Setup { name: "flask", about: "Flask, WAL, gunicorn with four workers", ..WEB },
    Setup {
        name: "gunicorn_preload",
        about: "the same with --preload, and a connection from before the fork",
        ..WEB
    },
    Setup { name: "cron", about: "the same, and a cron job that inserts", programs: &["sqlite3"], ..WEB },
    Setup {
        name: "backup",
        about: "the same, and sqlite3 .backup every second",
        programs: &["sqlite3"],
        ..WEB
    },
    Setup {
        name: "huey",
        about: "huey with two worker processes, a producer that waits",
        program: "jobs.py",
        modules: &["huey"],
        programs: &[],
    },
    Setup {
        name: "optuna",
        about: "Optuna, four processes on one study",
        program: "jobs.py",
        modules: &["optuna"],
        programs: &[],
    },
];

/// The programs, and what pip reads.
const PROGRAMS: &[(&str, &str)] = &[
    ("together.py", include_str!("../../../apps/setups/together.py")),
    ("web.py", include_str!("../../../apps/setups/web.py")),
    ("jobs.py", include_str!("../../../apps/setups/jobs.py")),
    (REQUIREMENTS, include_str!("../../../apps/setups/requirements.txt")),
];
const REQUIREMENTS: &str = "requirements.txt";

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let chosen = chosen(options.patterns.as_deref())?;
    let library = options
        .library
        .as_deref()
        .ok_or_else(|| Error::Missing("liblitefoot.so: cargo build -p litefoot-extension".to_owned()))?;
    let directory = work_directory(&options.directory)?;
    let programs = directory.path().join("programs");
    std::fs::create_dir(&programs).map_err(|source| failed(&programs, source))?;
    for (name, text) in PROGRAMS {
        std::fs::write(programs.join(name), text).map_err(|source| failed(&programs, source))?;
    }
    let modules = cache(directory.path())?.join("setups");
    let mut figures = Figures::new();
    if options.install
        && let Err(error) = install(&modules, &programs)
    {
        figures.note(format!("not installed: {error}"));
    }
    let device = Device::new(directory.path());
    if let Err(why) = &device {
        figures.note(format!("The device is not counted: {why}."));
    }
    let device = device.ok();
    let seconds = options.seconds.unwrap_or(if options.quick { QUICK_SECONDS } else { SECONDS });
    for setup in chosen {
        progress.begin(setup.name, 2);
        if let Err(error) = find(setup, &modules) {
            figures.note(format!("without {}: {error}", setup.name));
            progress.advance(2)?;
            continue;
        }
        figures.note(format!("{}: {}", setup.name, setup.about));
        for (side, library) in [("stock", None), ("litefoot", Some(library))] {
            let place = tempfile::tempdir_in(device.as_ref().map_or(directory.path(), Device::directory))
                .map_err(|source| failed(directory.path(), source))?;
            let before = device.as_ref().map(Device::synced).transpose()?;
            let mut command = Command::new("python3");
            command.arg(programs.join(setup.program)).args([setup.name, &seconds.to_string()]);
            command.env("PYTHONPATH", &modules).env("PYTHONDONTWRITEBYTECODE", "1").env_remove("LD_PRELOAD");
            if let Some(library) = library {
                command.env("SETUP_PRELOAD", library);
            }
            let mut outcome = ended(command.current_dir(place.path()), seconds, progress)?;
            let after = device.as_ref().map(Device::synced).transpose()?;
            outcome.bytes = after.zip(before).map(|(after, before)| after.since(before).bytes);
            outcome.report(setup.name, side, &mut figures);
            progress.advance(1)?;
        }
    }
    Ok(figures)
}

fn failed(path: &Path, source: std::io::Error) -> Error {
    Error::Directory { path: path.to_owned(), source }
}

/// The setups of a list of names, `a,b`; all of them where there is no list.
fn chosen(names: Option<&str>) -> Result<Vec<&'static Setup>> {
    let Some(names) = names else { return Ok(ALL.iter().collect()) };
    if let Some(name) = names.split(',').find(|name| ALL.iter().all(|setup| setup.name != *name)) {
        let known: Vec<&str> = ALL.iter().map(|setup| setup.name).collect();
        return Err(Error::Unknown { what: "setup", name: name.to_owned(), known: known.join(", ") });
    }
    Ok(ALL.iter().filter(|setup| names.split(',').any(|name| name == setup.name)).collect())
}

/// Has pip fetch the modules of all setups.
fn install(modules: &Path, programs: &Path) -> Result<()> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "-q", "--upgrade", "--target"]).arg(modules);
    let output = pip.arg("-r").arg(programs.join(REQUIREMENTS)).stdin(Stdio::null()).output();
    let output = output.map_err(|error| Error::Missing(format!("python3 with pip ({error})")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::Missing(format!("pip ({})", said.trim().lines().last().unwrap_or("no reason given"))))
}

/// Looks whether all is there that a setup needs.
fn find(setup: &Setup, modules: &Path) -> Result<()> {
    let mut probes: Vec<(Command, String)> = setup
        .programs
        .iter()
        .map(|name| (Command::new(name), format!("{name}: apt-get install {name}")))
        .collect();
    let mut python = Command::new("python3");
    python.args(["-c", "import sys; [__import__(name) for name in sys.argv[2:]]"]).env("PYTHONPATH", modules);
    let advice = format!("python3 with {}: litefoot bench setups --install", setup.modules.join(", "));
    probes.push((python, advice));
    for (mut probe, advice) in probes {
        probe.arg("--version").args(setup.modules);
        probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if !probe.status().is_ok_and(|status| status.success()) {
            return Err(Error::Missing(advice));
        }
    }
    Ok(())
}

/// Runs a setup to its end.
fn ended(command: &mut Command, seconds: u64, progress: &mut dyn Progress) -> Result<Outcome> {
    let place = command.get_current_dir().map_or_else(PathBuf::new, Path::to_owned);
    let [said, complaints] = ["said", "complaints"].map(|name| place.join(name));
    let file = |path: &Path| std::fs::File::create(path).map_err(|source| failed(path, source));
    command.stdin(Stdio::null()).stdout(file(&said)?).stderr(file(&complaints)?);
    let mut child = command.spawn().map_err(|source| failed(Path::new("python3"), source))?;
    let end = Instant::now() + Duration::from_secs(seconds) + PATIENCE;
    let status = loop {
        let stops = progress.advance(0);
        let status = child.try_wait().map_err(|source| failed(&place, source))?;
        if let Some(status) = status {
            break status.to_string();
        }
        if stops.is_err() || Instant::now() > end {
            // Its servers end with it: it is told, not killed.
            if let Ok(id) = i32::try_from(child.id()) {
                // SAFETY: a plain system call; the child has not been waited for, so the number is still its own.
                unsafe { libc::kill(id, libc::SIGINT) };
            }
            child.wait().map_err(|source| failed(&place, source))?;
            stops?;
            break "it hangs".to_owned();
        }
        std::thread::sleep(LOOK_EVERY);
    };
    let read = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    Ok(Outcome::parse(&read(&said), &read(&complaints), &status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setups_are_chosen_by_name_and_each_has_its_program() {
        assert_eq!(chosen(None).unwrap().len(), ALL.len());
        assert_eq!(chosen(Some("huey,flask")).unwrap().len(), 2);
        assert!(matches!(chosen(Some("flask,php")), Err(Error::Unknown { .. })));
        for (index, setup) in ALL.iter().enumerate() {
            assert!(PROGRAMS.iter().any(|(name, _)| *name == setup.program), "{}", setup.name);
            assert!(ALL[..index].iter().all(|other| other.name != setup.name), "{}", setup.name);
            let usable = setup.name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'_'));
            assert!(usable && !setup.about.is_empty(), "{}", setup.name);
        }
    }
}
