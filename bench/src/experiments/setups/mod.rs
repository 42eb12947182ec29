//! `setups`: ordinary applications that are several processes, on stock SQLite and on litefoot.
//!
//! Each setup is a small program on a library that applications use (`bench/apps/setups`). Its servers and workers run unchanged on
//! either side: litefoot is preloaded, as `litefoot run` does. Clients and cron jobs are on SQLite as it is. When all have ended,
//! stock SQLite looks for every row that was acknowledged. A note names the setups whose library or program is not installed, and
//! what installs it.
//!
//! | file | is |
//! |---|---|
//! | `mod` | the runs, on both sides in turns |
//! | `list` | the setups |
//! | `software` | what they run, and where it comes from |
//! | `outcome` | what they have told |
//!
//! A figure ends with its side: `stock`, `litefoot` with its defaults, or `group`, which is litefoot with `sharing=group`.
//!
//! | figure | meaning |
//! |---|---|
//! | `SETUP.per_s` | requests, jobs or trials a second |
//! | `SETUP.p99_ms` | the time that one in a hundred exceeds |
//! | `SETUP.errors` | requests that failed; a note has each message |
//! | `SETUP.lost` | rows that were acknowledged and are not there |
//! | `SETUP.bytes` | bytes at a device of the setup's own, checkpoints and closing included; only where root can make one |
//! | `SETUP.bytes_each` | the same for each request, job or trial |

mod list;
mod outcome;
mod software;

use super::commit::work_directory;
use crate::harness::Progress;
use crate::harness::device::Device;
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
use list::{ALL, Setup};
use outcome::Outcome;
use software::Software;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The sides, and litefoot's options on each.
const SIDES: [(&str, Option<&str>); 3] =
    [("stock", None), ("litefoot", Some("")), ("group", Some("sharing=group"))];

/// Seconds of a run of each side.
const SECONDS: u64 = 10;
const QUICK_SECONDS: u64 = 2;
/// After so many seconds more a setup counts as hung: its parts have limits of their own.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let chosen = chosen(options.patterns.as_deref())?;
    let library = options
        .library
        .as_deref()
        .ok_or_else(|| Error::Missing("liblitefoot.so: cargo build -p litefoot-extension".to_owned()))?;
    let directory = work_directory(&options.directory)?;
    let software = Software::new(directory.path())?;
    let mut figures = Figures::new();
    if options.install {
        for error in software.install(&chosen) {
            figures.note(format!("not installed: {error}"));
        }
    }
    let device = Device::new(directory.path());
    if let Err(why) = &device {
        figures.note(format!("The device is not counted: {why}."));
    }
    let device = device.ok();
    let seconds = options.seconds.unwrap_or(if options.quick { QUICK_SECONDS } else { SECONDS });
    for setup in chosen {
        progress.begin(setup.name, SIDES.len() as u64);
        if let Err(error) = software.find(setup) {
            figures.note(format!("without {}: {error}", setup.name));
            progress.advance(SIDES.len() as u64)?;
            continue;
        }
        figures.note(format!("{}: {}", setup.name, setup.about));
        for (side, settings) in SIDES {
            let place = tempfile::tempdir_in(device.as_ref().map_or(directory.path(), Device::directory))
                .map_err(|source| failed(directory.path(), source))?;
            let before = device.as_ref().map(Device::synced).transpose()?;
            let mut command = software.command(setup, seconds);
            if let Some(settings) = settings {
                command.env("SETUP_PRELOAD", library).env("LITEFOOT_OPTIONS", settings);
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
        assert!(matches!(chosen(Some("flask,airflow")), Err(Error::Unknown { .. })));
        for (index, setup) in ALL.iter().enumerate() {
            assert!(software::PROGRAMS.iter().any(|(name, _)| *name == setup.program), "{}", setup.name);
            assert!(ALL[..index].iter().all(|other| other.name != setup.name), "{}", setup.name);
            let usable = setup.name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'_'));
            assert!(usable && !setup.about.is_empty(), "{}", setup.name);
        }
    }
}
