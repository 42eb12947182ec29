//! `member-kills --kill-at-calls` and `--kill-at-stores`: one process of a group is killed at each point of its path, one after the other.
//!
//! Several processes use a database: its owner, a member, and a third one where the owner is killed first. One of them is traced while it does something
//! (`paths`). The traced one is killed at its first point from there on, in the next run at the second, until runs pass whole. After each kill another one
//! commits. In the end litefoot and stock SQLite look for what was acknowledged, and for what nobody has committed.
//!
//! With `--kill-at-calls` the points are its calls, in one path from the open to the close. With `--kill-at-stores` they are before and behind each call, and before
//! and behind each store into memory that other processes have, in many short paths (`--case` has the beginning of `MODE.PATH`). Nobody else can tell where
//! between two of these points a process was killed: it was killed at each instruction of the path. All processors share the points of a case; `--case MODE.PATH:200-299` takes some of them.
//!
//! | figure | meaning |
//! |---|---|
//! | `calls.CASE`, `points.CASE` | points of the traced process, by case: the longest of the runs that passed whole |
//! | `stores.CASE` | stores among them |
//! | `kills` | runs with a kill |
//! | `lost`, `damaged` | kills after which a commit was missing; after which SQLite's own check failed, or there was what nobody has committed |
//! | `errors` | runs in which the process that lives met an error that the death of the other does not explain |
//! | `strangers` | runs in which a process came as a stranger, since the one that is traced was too slow for it; each is made again. With rollback journals only runs that pass whole are known for such |
//! | `longest_ms` | the longest commit of the one that lives, behind a kill |

mod child;
mod paths;

use super::MODES;
use super::process::{DATABASE, GROUP, Side, open};
use crate::harness::committer::{Committer, PATIENCE};
use crate::harness::each_point::{Points, Reached};
use crate::harness::tracer::Tracer;
use crate::harness::{self, Batch, Progress, in_batches};
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
pub(crate) use child::{CHILD, be_killed};
use std::io;
use std::ops::RangeInclusive;
use std::path::Path as FilePath;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// The processes, in the order in which they begin.
const OWNER: usize = 0;
const MEMBER: usize = 1;
const THIRD: usize = 2;

/// A process that reaches no point for so long has nothing to do.
const QUIET: Duration = Duration::from_millis(20);
/// Only each so many-th call in the short form, or point.
const QUICK_STEP: u64 = 24;
const QUICK_STEP_OF_STORES: u64 = 200;
/// So many runs are made for a point where processes come as strangers.
const MOST_TRIES: usize = 5;
/// The end of the name of a file that strangers share, and members do not; and of memory that an owner has with its members.
const STRANGERS: &str = "-shm";
const MEMBERS: &str = "/memfd:litefoot (deleted)";
/// What the owner does first.
const BEGINS: [paths::Told; 3] = [(OWNER, "open"), (OWNER, "commit"), (OWNER, "commit")];

/// A path in a journal mode.
#[derive(Debug)]
struct Case {
    mode: &'static str,
    path: &'static paths::Path,
    /// True where stores are points.
    at_stores: bool,
    /// Points that nobody has taken yet.
    points: Points,
}

impl Case {
    fn name(&self) -> String {
        format!("{}.{}", self.mode, self.path.name)
    }
}

/// The outcome of one run.
#[derive(Debug, Default)]
struct Run {
    reached: Reached,
    stores: u64,
    /// True where a process came as a stranger: the path was another one.
    has_stranger: bool,
    longest: Duration,
    wrong: Option<String>,
    error: Option<String>,
}

/// Runs all cases.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let cases = cases(options)?;
    let mut figures = Figures::new();
    for name in ["kills", "lost", "damaged", "errors", "strangers", "longest_ms"] {
        figures.set(name, 0.0);
    }
    let parts = available_parallelism().map_or(1, usize::from);
    let all = (cases.len() * parts) as u64;
    progress.begin("parts of cases", all);
    let work = |batch: &Batch<'_, (usize, Option<Run>)>| {
        let index = batch.first as usize / parts;
        let case = &cases[index];
        let one = |last| {
            for _ in 1..MOST_TRIES {
                let run = one_apart(case, &options.directory, last)?;
                if !run.has_stranger {
                    return Ok(run);
                }
                batch.tell((index, Some(run)));
            }
            one_apart(case, &options.directory, last)
        };
        let tell = &mut |run| batch.tell((index, Some(run)));
        case.points.kill_at_each(one, |run: &Run| &run.reached, tell)?;
        batch.tell((index, None));
        Ok(())
    };
    in_batches(all, 1, work, &mut |(index, run)| {
        if let Some(run) = &run {
            note(&mut figures, &cases[index], run);
        }
        progress.advance(u64::from(run.is_none()))
    })?;
    Ok(figures)
}

/// The cases that are wanted, all of each or some points.
fn cases(options: &Options) -> Result<Vec<Case>> {
    let (paths, step): (&'static [paths::Path], _) = match options.kill_at_stores {
        true => (&paths::EACH, QUICK_STEP_OF_STORES),
        false => (&paths::WHOLE, QUICK_STEP),
    };
    let (at_stores, step) = (options.kill_at_stores, if options.quick { step } else { 1 });
    let wanted = options.case.as_deref().unwrap_or_default();
    let unknown = || Error::Wrong(format!("no path is called {wanted:?}"));
    let (name, range) = match wanted.split_once(':') {
        Some((name, range)) => (name, points(range).ok_or_else(unknown)?),
        None => (wanted, 1..=u64::MAX),
    };
    let all = MODES.into_iter().flat_map(|mode| paths.iter().map(move |path| (mode, path)));
    let all = all.filter(|(mode, path)| !path.has_snapshot || *mode == "wal");
    let case = |(mode, path): (_, &'static paths::Path)| Case {
        mode,
        path,
        at_stores,
        points: Points::of(&range, step),
    };
    let cases: Vec<Case> = all.map(case).filter(|case| case.name().starts_with(name)).collect();
    if cases.is_empty() { Err(unknown()) } else { Ok(cases) }
}

/// Numbers of points: one, or the first and the last.
fn points(range: &str) -> Option<RangeInclusive<u64>> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (1 <= first && first <= last).then_some(first..=last)
}

fn note(figures: &mut Figures, case: &Case, run: &Run) {
    let has = |kind: &str| run.wrong.as_ref().is_some_and(|what| what.starts_with(kind));
    for (name, more) in [
        ("kills", run.reached.killed.is_some()),
        ("lost", has("lost: ")),
        ("damaged", has("damaged: ")),
        ("errors", run.error.is_some()),
        ("strangers", run.has_stranger),
    ] {
        let sum = figures.get(name).unwrap_or_default() + f64::from(u8::from(more));
        figures.set(name, sum);
    }
    let longest = figures.get("longest_ms").unwrap_or_default().max(run.longest.as_secs_f64() * 1000.0);
    figures.set("longest_ms", longest);
    if case.at_stores && run.reached.killed.is_none() {
        let name = format!("stores.{}", case.name());
        let most = figures.get(&name).unwrap_or_default().max(run.stores as f64);
        figures.set(name, most);
    }
    let points = if case.at_stores { "points" } else { "calls" };
    run.reached.note(figures, points, &case.name(), run.wrong.iter().chain(&run.error));
}

/// One run in a directory of its own, with a kill at point `last`.
fn one_apart(case: &Case, parent: &FilePath, last: u64) -> Result<Run> {
    let failed = |source| Error::Directory { path: parent.to_owned(), source };
    let scratch = tempfile::tempdir_in(parent).map_err(failed)?;
    super::create(scratch.path(), case.mode)?;
    one(case, scratch.path(), last).map_err(failed)
}

/// A process of the group.
fn start(directory: &FilePath, writer: i64) -> io::Result<Committer> {
    let mut command = harness::child::command(CHILD)?;
    command.arg(directory).arg(writer.to_string());
    Committer::start(command)
}

/// One run, with a kill at point `last`.
fn one(case: &Case, directory: &FilePath, last: u64) -> io::Result<Run> {
    let path = case.path;
    let beside = path.beside.map_or(OWNER, |(_, (process, _))| process);
    let third = if path.has_snapshot { THIRD } else { OWNER };
    let many = 1 + path.lives.max(path.killed).max(beside).max(third);
    let mut processes: Vec<Committer> =
        (1..).take(many).map(|writer| start(directory, writer)).collect::<io::Result<_>>()?;
    for (process, line) in BEGINS.iter().chain(path.before) {
        processes[*process].ask(line)?;
    }
    let mut tracer = Tracer::attach(processes[path.killed].told.child.id())?;
    tracer.begin(QUIET, last)?;
    if case.at_stores {
        tracer.count_stores(is_own)?;
    }
    if path.without_owner {
        processes[OWNER].told.child.kill()?;
    }
    let mut run = Run::default();
    let (mut is_heard, mut asked, mut beside) = (true, path.killed, path.beside);
    for (process, line) in path.traced {
        asked = *process;
        let is_told = processes[*process].tell(line).is_ok();
        if let Some((point, (other, line))) = beside.take() {
            tracer.run_until(|tracer| tracer.points() >= point, QUIET, PATIENCE)?;
            processes[other].tell(line)?;
        }
        // Refused where it was killed at this moment.
        is_heard = !is_told || is_answered(&mut processes[*process], &mut tracer)?;
        if !is_heard && !tracer.has_ended() {
            run.error = Some(format!("it hangs after {} points, at {line:?}", tracer.points()));
        }
        if tracer.has_ended() || run.error.is_some() {
            break;
        }
    }
    let other = path.beside.map(|(_, (other, _))| other);
    let is_other_heard = match other {
        Some(other) => is_answered(&mut processes[other], &mut tracer)?,
        None => true,
    };
    run.reached = Reached::of(&tracer, last);
    run.stores = tracer.stores();
    let passed = run.reached.killed.is_none();
    run.has_stranger =
        case.at_stores && (tracer.had_memory(STRANGERS) || passed && !tracer.had_memory(MEMBERS));
    if run.has_stranger {
        (run.reached.points, run.stores) = (0, 0);
    }
    if let Some(number) = tracer.met_memory() {
        run.error = Some(format!("call number {number} has met memory that is watched"));
    }
    tracer.end()?;
    // They are on their way to the next owner, or are that now.
    let begun = Instant::now();
    if !is_heard && asked != path.killed {
        processes[asked].hear(PATIENCE);
    }
    if let Some(other) = other.filter(|_| !is_other_heard) {
        processes[other].hear(PATIENCE);
    }
    run.longest = begun.elapsed();
    // What it has acknowledged in its last moment.
    processes[path.killed].hear_the_rest();
    // The transaction under way has failed with the owner, and nothing else does.
    for (index, process) in processes.iter_mut().enumerate() {
        if path.has_snapshot && index == THIRD {
            continue;
        }
        if passed || path.killed != OWNER && index != path.killed && Some(index) != other {
            run.error = run.error.take().or(process.error.take());
        }
    }
    let mut looks = |processes: &mut [Committer], lines: &[&str]| -> io::Result<()> {
        let third = &mut processes[THIRD];
        lines.iter().try_for_each(|line| third.ask(line))?;
        // A snapshot outlives the process that is killed; it may be lost where the next owner is killed as well, and is never another one.
        let error = third.error.take().filter(|error| !path.without_owner || error.contains("the snapshot "));
        run.error = run.error.take().or(error);
        Ok(())
    };
    if path.has_snapshot {
        looks(&mut processes, &["look"])?;
        if path.lives != THIRD {
            ["open", "commit", "checkpoint in part"]
                .iter()
                .try_for_each(|line| processes[path.lives].ask(line))?;
        }
        looks(&mut processes, &["look"])?;
        processes[THIRD].ask("let go")?;
    }
    let lives = &mut processes[path.lives];
    lives.error = None;
    // A checkpoint meets what the dead one may have left in the wal-index.
    for line in ["open", "commit", "commit", "checkpoint"] {
        let begun = Instant::now();
        lives.ask(line)?;
        run.longest = run.longest.max(begun.elapsed());
    }
    run.error = run.error.take().or(lives.error.take());
    let expected: Vec<Expected> = (1..).zip(&processes).map(Expected::of).collect();
    drop(processes);
    let looks = [GROUP, Side::Stock].map(|side| look(&directory.join(DATABASE), side, &expected));
    run.wrong = looks.into_iter().find_map(std::result::Result::err);
    Ok(run)
}

/// True for memory that no other process of a group has: the buffer pool, and figures for whoever asks.
fn is_own(name: &str) -> bool {
    ["/memfd:frames", "/memfd:litefoot-stats"].iter().any(|own| name.starts_with(own))
}

/// Waits for an answer of a process while the one that is traced runs; true where there is one.
fn is_answered(process: &mut Committer, tracer: &mut Tracer) -> io::Result<bool> {
    let mut is_heard = false;
    tracer.run_until(
        |_| {
            is_heard = is_heard || process.hear(Duration::ZERO);
            is_heard
        },
        PATIENCE,
        PATIENCE,
    )?;
    if is_heard && !tracer.has_ended() {
        // Other threads may have begun something meanwhile.
        tracer.run_until(|_| false, QUIET, PATIENCE)?;
    }
    Ok(is_heard)
}

/// What must be there of a process.
struct Expected {
    writer: i64,
    acknowledged: i64,
    told_commits: i64,
}

impl Expected {
    fn of((writer, process): (i64, &Committer)) -> Expected {
        Expected { writer, acknowledged: process.acknowledged as i64, told_commits: process.asked as i64 }
    }
}

fn look(path: &FilePath, side: Side, expected: &[Expected]) -> std::result::Result<(), String> {
    let damaged = |error: rusqlite::Error| format!("damaged: {error}");
    let (_vfs, db) = open(path, side).map_err(|error| format!("damaged: {error}"))?;
    let verdict: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(damaged)?;
    if verdict != "ok" {
        return Err(format!("damaged: {verdict}"));
    }
    for Expected { writer, acknowledged, told_commits } in expected {
        let sql = "SELECT count(*), coalesce(max(n), 0), coalesce((SELECT n FROM w WHERE writer = ?1), 0) FROM r WHERE writer = ?1 AND n > 0";
        let found: [i64; 3] = db
            .query_row(sql, [writer], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))
            .map_err(damaged)?;
        if found[1] < *acknowledged {
            return Err(format!(
                "lost: commit {} of process {writer} is the newest of {acknowledged}",
                found[1]
            ));
        }
        // The other half of a large transaction has the number with a minus.
        let sql = "SELECT count(*) FROM r AS large WHERE writer = ?1 AND n < 0 AND NOT EXISTS(SELECT 1 FROM r WHERE writer = ?1 AND n = -large.n)";
        let halves: i64 = db.query_row(sql, [writer], |row| row.get(0)).map_err(damaged)?;
        if found[0] != found[1] || found[2] != found[1] || found[1] > *told_commits || halves > 0 {
            return Err(format!(
                "damaged: {found:?} and {halves} halves of process {writer}, of {told_commits} commits"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::points;

    #[test]
    fn points_are_one_or_the_first_and_the_last() {
        assert_eq!(points("7"), Some(7..=7));
        assert_eq!(points("200-299"), Some(200..=299));
        for wrong in ["", "0", "9-3", "-3", "3-", "a"] {
            assert_eq!(points(wrong), None, "{wrong:?}");
        }
    }
}
