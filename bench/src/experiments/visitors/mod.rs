//! `visitors`: other programs come to a database while an application works on it.
//!
//! The owner is a process with three writers and two readers: one holds snapshots, one must see at once what was acknowledged.
//! It runs on litefoot, or on stock SQLite with `--stock`. Visitors are the `sqlite3` program, `python3` and `cp`, none of which
//! waits for a lock. Each must see every commit that was acknowledged before it was started. At the end stock SQLite looks for
//! every commit of the owner and every insert of a visitor.
//!
//! With `--kill-at-calls` there is an owner alone, which is killed at every call of a change of state ([`calls`]). With
//! `--case latency` it is measured what a visit adds ([`latency`]).
//!
//! The database begins in WAL mode, then in each rollback mode. A figure of a mode ends with its name.
//!
//! | figure | meaning |
//! |---|---|
//! | `select`, `insert`, … `cp` | visits of that kind |
//! | `visits`, `visitors_killed` | visits of all kinds; those that a SIGKILL has ended |
//! | `visitor_errors` | visits that were refused; a note has each message |
//! | `visitor_errors_soon` | of these, visits that were refused before 250 ms were over |
//! | `visitor_errors_in_bursts` | the same, of visitors that came with others |
//! | `mode_changes_refused` | `PRAGMA journal_mode` from WAL to DELETE beside the owner, which SQLite refuses |
//! | `owners_killed` | owners that a SIGKILL has ended, with `--owner-kill` |
//! | `state_changes` | how often litefoot went over to SQLite's own protocol beside others, or back |
//! | `snapshots`, `looks` | what the owner's two readers have done |
//! | `owner_errors`, `stale`, `lost`, `damaged` | what must not be |
//! | `visit_p50_us`, `visit_p99_us` | time of `sqlite3 app.db 'SELECT …'` beside the owner |
//! | `idle_p50_us`, `idle_p99_us` | the same beside a connection of stock SQLite that is idle, by turns |
//! | `least_over_most` | commits beside the visitors of the writer that made fewest, over those of the one that made most |
//! | `before_per_s`, `with_per_s`, `after_per_s` | commits of the owner before the visitors, beside them, and one second after |

mod calls;
mod content;
mod latency;
mod owner;
mod phase;
mod running;
mod slots;
mod tally;
mod visit;

use super::commit::work_directory;
use crate::harness::{Progress, program};
use crate::options::{Journals, Options};
use crate::report::Figures;
use crate::{Error, Result};
use owner::{MODES, Plan, Side};
use phase::{Phase, Setup, Until};
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
    if options.case.as_deref() == Some(latency::NAME) {
        return latency::run(options, progress);
    }
    let mut figures = Figures::new();
    let kinds = kinds(options.case.as_deref(), &mut figures)?;
    let modes = match options.journals {
        Journals::Wal => &MODES[..1],
        Journals::Rollback => &MODES[1..],
        Journals::Both => &MODES[..],
    };
    let until = until(options, modes.len() as u64);
    let scratch = work_directory(&options.directory)?;
    let idle = scratch.path().join("idle");
    std::fs::create_dir(&idle).map_err(|source| Error::Directory { path: idle.clone(), source })?;
    let _idle = phase::idle(&idle)?;
    for (number, mode) in modes.iter().enumerate() {
        progress.begin(mode, until.steps());
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
            until,
            kills: options.owner_kill,
            idle: idle.clone(),
        };
        Phase::run(&setup, progress)?.report(mode, &mut figures);
    }
    Ok(figures)
}

/// When each of so many journal modes ends: all visits and all seconds are shared among them.
fn until(options: &Options, modes: u64) -> Until {
    let visits = options.rounds.map(|all| all.div_ceil(modes));
    let of = |seconds: u64| Duration::from_secs((seconds / modes).max(FEWEST_SECONDS));
    match (visits, options.seconds) {
        (Some(visits), Some(seconds)) => Until::Either(visits, of(seconds)),
        (Some(visits), None) => Until::Visits(visits),
        (None, Some(seconds)) => Until::Time(of(seconds)),
        (None, None) => Until::Time(of(if options.quick { QUICK_SECONDS } else { SECONDS })),
    }
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
            known: format!("{}, {}", KINDS.map(|(_, name, _)| name).join(", "), latency::NAME),
        });
    }
    for (name, advice) in [
        ("sqlite3", "the program sqlite3: apt-get install sqlite3"),
        ("python3", "python3: apt-get install python3"),
    ] {
        if program(name, advice).is_err() {
            kinds.retain(|(kind, _)| kind.program() != name);
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
    fn visits_and_seconds_are_shared_among_the_modes() {
        let seconds = Duration::from_secs;
        let of = |rounds, seconds, modes| until(&Options { rounds, seconds, ..Options::default() }, modes);
        assert_eq!(of(None, None, 4), Until::Time(seconds(SECONDS / 4)));
        assert_eq!(of(None, Some(3600), 1), Until::Time(seconds(3600)));
        assert_eq!(of(Some(10_000), None, 4), Until::Visits(2_500));
        assert_eq!(of(Some(10), Some(8), 4), Until::Either(3, seconds(FEWEST_SECONDS)));
        let quick = Options { quick: true, ..Options::default() };
        assert_eq!(until(&quick, 4), Until::Time(seconds(QUICK_SECONDS / 4)));
    }

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
