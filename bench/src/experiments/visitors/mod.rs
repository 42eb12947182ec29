//! `visitors`: other programs come to a database while an application works on it.
//!
//! The owner is a process with three writers and two readers: one holds snapshots, one must see at once what was acknowledged.
//! It runs on litefoot, or on stock SQLite with `--stock`. Visitors are the `sqlite3` program, `python3` and `cp`, none of which
//! waits for a lock. Each must see every commit that was acknowledged before it was started. At the end stock SQLite looks for
//! every commit of the owner and every insert of a visitor.
//!
//! With `--kill-at-calls` there is an owner alone, which is killed at every call of a change of state ([`calls`]).
//!
//! The database begins in WAL mode, then in each rollback mode. A figure of a mode ends with its name.
//!
//! | figure | meaning |
//! |---|---|
//! | `select`, `insert`, … `cp` | visits of that kind |
//! | `visits`, `visitors_killed` | visits of all kinds; those that a SIGKILL has ended |
//! | `visitor_errors` | visits that were refused; a note has each message |
//! | `visitor_errors_in_bursts` | the same, of visitors that came with others |
//! | `mode_changes_refused` | `PRAGMA journal_mode` from WAL to DELETE beside the owner, which SQLite refuses |
//! | `owners_killed` | owners that a SIGKILL has ended, with `--owner-kill` |
//! | `state_changes` | how often litefoot went over to SQLite's own protocol beside others, or back |
//! | `snapshots`, `looks` | what the owner's two readers have done |
//! | `owner_errors`, `stale`, `lost`, `damaged` | what must not be |
//! | `visit_p50_us`, `visit_p99_us` | time of `sqlite3 app.db 'SELECT …'` beside the owner |
//! | `idle_p50_us`, `idle_p99_us` | the same beside a connection of stock SQLite that is idle, by turns |
//! | `before_per_s`, `with_per_s`, `after_per_s` | commits of the owner before the visitors, beside them, and one second after |

mod calls;
mod content;
mod owner;
mod phase;
mod running;
mod slots;
mod tally;
mod visit;

use super::commit::work_directory;
use crate::harness::Progress;
use crate::options::{Journals, Options};
use crate::report::Figures;
use crate::{Error, Result};
use owner::{MODES, Plan, Side};
use phase::{Phase, STEPS, Setup};
use std::process::{Command, Stdio};
use std::time::Duration;
use visit::{KINDS, Kind};

/// Seconds of a full run and of a quick one.
const SECONDS: u64 = 240;
const QUICK_SECONDS: u64 = 32;
/// A mode has at least so many.
const FEWEST_SECONDS: u64 = 5;

/// The name of the process for [`crate::child`].
pub(crate) const CHILD: &str = "visitors";
pub(crate) use calls::{CHILD as CALLS_CHILD, be_killed as be_killed_at_calls};
pub(crate) use owner::run as be_visited;

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    if options.kill_at_calls {
        return calls::run(options, progress);
    }
    let mut figures = Figures::new();
    let kinds = kinds(options.case.as_deref(), &mut figures)?;
    let modes = match options.journals {
        Journals::Wal => &MODES[..1],
        Journals::Rollback => &MODES[1..],
        Journals::Both => &MODES[..],
    };
    let seconds = options.seconds.unwrap_or(if options.quick { QUICK_SECONDS } else { SECONDS });
    let seconds = (seconds / modes.len() as u64).max(FEWEST_SECONDS);
    let scratch = work_directory(&options.directory)?;
    let idle = scratch.path().join("idle");
    std::fs::create_dir(&idle).map_err(|source| Error::Directory { path: idle.clone(), source })?;
    let _idle = phase::idle(&idle)?;
    for (number, mode) in modes.iter().enumerate() {
        progress.begin(mode, seconds * STEPS);
        let setup = Setup {
            plan: Plan {
                directory: scratch.path().join(mode),
                side: if options.stock { Side::Stock } else { Side::Litefoot },
                journal: mode,
                tight: options.tight,
                seed: options.seed.wrapping_add(number as u64),
            },
            timed: kinds.iter().map(|(kind, _)| *kind).find(|kind| *kind == Kind::Select),
            kinds: kinds.clone(),
            length: Duration::from_secs(seconds),
            visits: options.rounds.map(|all| all.div_ceil(modes.len() as u64)),
            kills: options.owner_kill,
            idle: idle.clone(),
        };
        Phase::run(&setup, progress)?.report(mode, &mut figures);
    }
    Ok(figures)
}

/// The kinds of visits with such names whose programs are there; a note names those that are not.
fn kinds(named: Option<&str>, figures: &mut Figures) -> Result<Vec<(Kind, u32)>> {
    let begins = |name: &str| named.is_none_or(|beginning| name.starts_with(beginning));
    let mut kinds: Vec<_> =
        KINDS.iter().filter(|(_, name, _)| begins(name)).map(|(kind, _, share)| (*kind, *share)).collect();
    if kinds.is_empty() {
        return Err(Error::Unknown {
            what: "kind of visit",
            name: named.unwrap_or_default().to_owned(),
            known: KINDS.map(|(_, name, _)| name).join(", "),
        });
    }
    for (program, advice) in [
        ("sqlite3", "the program sqlite3: apt-get install sqlite3"),
        ("python3", "python3: apt-get install python3"),
    ] {
        let mut probe = Command::new(program);
        probe.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if !probe.status().is_ok_and(|status| status.success()) {
            kinds.retain(|(kind, _)| kind.program() != program);
            figures.note(format!("without visits of {advice}"));
        }
    }
    if kinds.is_empty() {
        return Err(Error::Missing("the program sqlite3, or python3: apt-get install sqlite3".to_owned()));
    }
    Ok(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_are_chosen_by_the_beginning_of_their_names() {
        let mut figures = Figures::new();
        let of = |named, figures: &mut Figures| {
            let kinds = kinds(named, figures)?;
            Ok::<_, Error>(kinds.into_iter().map(|(kind, _)| kind.name()).collect::<Vec<_>>())
        };
        assert!(of(None, &mut figures).unwrap().contains(&"cp"));
        assert_eq!(of(Some("cp"), &mut figures).unwrap(), ["cp"]);
        assert!(matches!(of(Some("shell"), &mut figures), Err(Error::Unknown { .. })));
    }
}
