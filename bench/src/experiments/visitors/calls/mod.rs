//! The owner is killed before each of its calls during a change of state, one after the other.
//!
//! A case is a journal mode, a direction, and something or nothing in the logs. Each run has a process of its own, which
//! makes commits and waits. Then somebody opens the file, or the visitor that was there leaves.
//! All calls count from there on, to the end of the owner's next commit. The process is killed before the first of them, in the
//! next run before the second, until runs pass whole. After each kill stock SQLite and litefoot look at copies of the files.
//!
//! | figure | meaning |
//! |---|---|
//! | `calls` | calls of a change and of the commit after it, by case: the longest of the runs that passed whole |
//! | `kills` | runs with a kill |
//! | `stock_sees_all` | kills after which no commit log was there: stock SQLite must see everything |
//! | `lost`, `damaged` | kills after which a commit was missing, or SQLite's own check failed |
//! | `owner_errors` | runs in which the owner met an error, or did not go on |

mod owner;

use super::content::DATABASE;
use super::owner::{MODES, stock_sees_all};
use crate::harness::committer::{Committer, PATIENCE};
use crate::harness::each_point::{Points, Reached};
use crate::harness::tracer::Tracer;
use crate::harness::{self, Batch, Progress, in_batches, open_stock};
use crate::options::{Journals, Options};
use crate::report::Figures;
use crate::{Error, Result};
use owner::look;
pub use owner::run as be_killed;
use rusqlite::Connection;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The name of the process for [`crate::child`].
pub const CHILD: &str = "visitors-calls";

/// Commits before the change, and those beside a visitor.
const COMMITS: u64 = 9;
const COMMITS_BESIDE: u64 = 3;
/// A process that makes no call for so long has nothing to do.
const QUIET: Duration = Duration::from_millis(20);
/// Only each so many-th call in the short form.
const QUICK_STEP: u64 = 16;
/// The thread that changes states; it ends with the way back.
const WATCHER: &str = "litefoot-shari";

/// The direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Out,
    Back,
}

/// The log that commits wait in before the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Log {
    /// The redo log, and SQLite's own beside a visitor.
    Pages,
    /// The commit log, and SQLite's own beside a visitor.
    Deltas,
    /// The commit log, and a connection is in a transaction that reads.
    Read,
    /// All logs are empty.
    None,
}

impl Log {
    const ALL: [Log; 4] = [Log::Pages, Log::Deltas, Log::Read, Log::None];

    /// The option `commit_log` that brings it about.
    fn option(self) -> &'static str {
        if matches!(self, Log::Deltas | Log::Read) { "deltas" } else { "auto" }
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    journal: &'static str,
    way: Way,
    log: Log,
    /// Each so many-th call is one that kills.
    step: u64,
}

impl Case {
    fn name(&self) -> String {
        let way = if self.way == Way::Out { "out" } else { "back" };
        format!("{}.{way}.{}", self.journal, format!("{:?}", self.log).to_lowercase())
    }
}

/// The outcome of one run.
#[derive(Debug, Default)]
struct Run {
    reached: Reached,
    stock_sees_all: bool,
    wrong: Vec<String>,
    error: Option<String>,
}

/// Runs all cases.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let cases = cases(options);
    let scratch = super::work_directory(&options.directory)?;
    let mut figures = Figures::new();
    for name in ["kills", "stock_sees_all", "lost", "damaged", "owner_errors"] {
        figures.set(name, 0.0);
    }
    progress.begin("changes", cases.len() as u64);
    let work = |batch: &Batch<'_, (usize, Option<Run>)>| {
        let index = batch.first as usize;
        let case = &cases[index];
        let one = |last| one_apart(case, scratch.path(), last);
        let tell = &mut |run| batch.tell((index, Some(run)));
        Points::of(&(1..=u64::MAX), case.step).kill_at_each(one, |run: &Run| &run.reached, tell)?;
        batch.tell((index, None));
        Ok(())
    };
    in_batches(cases.len() as u64, 1, work, &mut |(index, run)| {
        if let Some(run) = &run {
            note(&mut figures, &cases[index], run);
        }
        progress.advance(u64::from(run.is_none()))
    })?;
    Ok(figures)
}

fn cases(options: &Options) -> Vec<Case> {
    let modes = match options.journals {
        Journals::Wal => &MODES[..1],
        Journals::Rollback if options.quick => &MODES[1..2],
        Journals::Both if options.quick => &MODES[..2],
        Journals::Rollback => &MODES[1..],
        Journals::Both => &MODES[..],
    };
    let mut cases = Vec::new();
    for journal in modes {
        for way in [Way::Out, Way::Back] {
            for log in Log::ALL {
                // Nobody comes back while a connection is in a transaction.
                let is_none = way == Way::Back && log == Log::Read;
                if !is_none && (!options.quick || log == Log::Deltas) {
                    cases.push(Case { journal, way, log, step: if options.quick { QUICK_STEP } else { 1 } });
                }
            }
        }
    }
    cases
}

fn note(figures: &mut Figures, case: &Case, run: &Run) {
    let mut add = |name: &str, number: usize| {
        let sum = figures.get(name).unwrap_or_default() + number as f64;
        figures.set(name, sum);
    };
    let of = |kind: &str| run.wrong.iter().filter(|what| what.contains(kind)).count();
    add("kills", run.reached.killed.is_some().into());
    add("stock_sees_all", (run.reached.killed.is_some() && run.stock_sees_all).into());
    add("lost", of("lost: "));
    add("damaged", of("damaged: "));
    add("owner_errors", run.error.is_some().into());
    run.reached.note(figures, "calls", &case.name(), run.wrong.iter().chain(&run.error));
}

/// One run in a directory of its own, with a kill before call `last`.
fn one_apart(case: &Case, scratch: &Path, last: u64) -> Result<Run> {
    let directory = scratch.join(format!("{}-{last}", case.name()));
    let failed = |source| Error::Directory { path: directory.clone(), source };
    fs::create_dir(&directory).map_err(failed)?;
    let run = one(case, &directory, last).map_err(failed)?;
    fs::remove_dir_all(&directory).map_err(failed)?;
    Ok(run)
}

fn start(case: &Case, directory: &Path) -> io::Result<Committer> {
    let mut command = harness::child::command(CHILD)?;
    command.arg(directory).args([case.journal, case.log.option()]);
    Committer::start(command)
}

/// One run, with a kill before call `last`.
fn one(case: &Case, directory: &Path, last: u64) -> io::Result<Run> {
    let database = directory.join(DATABASE);
    let mut owner = start(case, directory)?;
    for _ in 0..COMMITS {
        owner.ask("commit")?;
    }
    if case.log == Log::None {
        owner.ask("reopen")?;
    }
    if case.log == Log::Read {
        owner.ask("read")?;
    }
    let mut visits = 0;
    if case.way == Way::Back {
        let visited = visit(&database, case.log != Log::None, &mut owner);
        visits = visited.map_err(|error| io::Error::other(format!("the visitor: {error}")))?;
    }
    let mut run = Run::default();
    if owner.error.is_none() {
        let mut tracer = Tracer::attach(owner.told.child.id())?;
        change(case, &database, &mut owner, &mut tracer, last)?;
        run.reached = Reached::of(&tracer, last);
        tracer.end()?;
        owner.hear_the_rest();
    }
    run.error = owner.error.take();
    run.stock_sees_all = stock_sees_all(directory);
    run.wrong = wrong(directory, run.stock_sees_all, owner.acknowledged, owner.asked, visits);
    Ok(run)
}

/// A visitor comes, is there for some commits of both sides, and leaves. Answers how many rows it has made.
fn visit(database: &Path, has_log: bool, owner: &mut Committer) -> std::result::Result<i64, String> {
    let text = |error: rusqlite::Error| error.to_string();
    let db = open_stock(database).map_err(text)?;
    db.busy_timeout(PATIENCE).map_err(text)?;
    db.execute_batch("INSERT INTO visits DEFAULT VALUES").map_err(text)?;
    for _ in 0..COMMITS_BESIDE {
        owner.ask("commit").map_err(|error| error.to_string())?;
    }
    db.execute_batch("INSERT INTO visits DEFAULT VALUES").map_err(text)?;
    if !has_log {
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(text)?;
    }
    Ok(2)
}

/// Lets a change happen, and a commit after it.
fn change(
    case: &Case,
    database: &Path,
    owner: &mut Committer,
    tracer: &mut Tracer,
    last: u64,
) -> io::Result<()> {
    tracer.begin(QUIET, last)?;
    let in_time = if case.way == Way::Out {
        let database = database.to_owned();
        let opener = std::thread::spawn(move || fs::File::open(database));
        let in_time = tracer.run_until(|_| opener.is_finished(), PATIENCE, PATIENCE)?;
        // It stays until the commit is made, or the owner is gone.
        let lines: &[&str] = match (case.log, case.journal) {
            (Log::Read, "wal") => &["commit", "read on"],
            // With a journal a commit waits for readers.
            (Log::Read, _) => &["read on", "commit"],
            _ => &["commit"],
        };
        let mut commits = in_time;
        for line in lines {
            commits = commits && said(owner, tracer, line)?;
        }
        if tracer.has_ended() || commits {
            drop(opener.join());
        }
        commits
    } else {
        let is_back = |tracer: &Tracer| !tracer.has_thread(WATCHER);
        tracer.run_until(is_back, PATIENCE, PATIENCE)? && said(owner, tracer, "commit")?
    };
    if !in_time && owner.error.is_none() {
        owner.error = Some(format!("it hangs after {} calls", tracer.points()));
    }
    Ok(())
}

/// Has the owner do something; false where it does not come to an end.
fn said(owner: &mut Committer, tracer: &mut Tracer, line: &str) -> io::Result<bool> {
    if tracer.has_ended() {
        return Ok(true);
    }
    // Refused where the process was killed at this moment.
    if owner.tell(line).is_ok() && !tracer.run_until(|_| owner.hear(Duration::ZERO), PATIENCE, PATIENCE)? {
        return Ok(false);
    }
    // Other threads may have begun something meanwhile.
    tracer.run_until(|_| false, QUIET, PATIENCE)
}

/// Looks at copies of what a killed process has left: stock SQLite first and litefoot after it, and litefoot first and stock after
/// it.
fn wrong(directory: &Path, stock_sees_all: bool, acknowledged: u64, begun: u64, visits: i64) -> Vec<String> {
    let copy = |name: &str| {
        let copy = directory.join(name);
        fs::create_dir(&copy)?;
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let to = copy.join(entry.file_name());
                fs::copy(entry.path(), &to)?;
                // By its time litefoot knows that nobody has written the database since its deltas.
                let times = fs::FileTimes::new().set_modified(entry.metadata()?.modified()?);
                fs::File::options().write(true).open(&to)?.set_times(times)?;
            }
        }
        Ok::<PathBuf, io::Error>(copy.join(DATABASE))
    };
    let stock = |path: &Path| open_stock(path).map_err(|error| format!("damaged: {error}"));
    let litefoot = |path: &Path| {
        let db = litefoot::Connection::open(path).map_err(|error| format!("damaged: {error}"))?;
        Ok::<Connection, String>(db.into_inner())
    };
    let check = |db: std::result::Result<Connection, String>| {
        let db = db?;
        let text = |error: rusqlite::Error| format!("damaged: {error}");
        let verdict: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(text)?;
        if verdict != "ok" {
            return Err(format!("damaged: {verdict}"));
        }
        look(&db, acknowledged, begun)?;
        let there: i64 = db.query_row("SELECT count(*) FROM visits", [], |row| row.get(0)).map_err(text)?;
        if there == visits { Ok(()) } else { Err(format!("lost: {there} of {visits} rows of a visitor")) }
    };
    let mut wrong = Vec::new();
    let mut hear = |who: &str, said: std::result::Result<(), String>| {
        wrong.extend(said.err().map(|what| format!("{who}: {what}")));
    };
    match copy("stock-first").and_then(|first| Ok((first, copy("litefoot-first")?))) {
        Ok((stock_first, litefoot_first)) => {
            let seen = check(stock(&stock_first));
            // Else it has the last checkpoint.
            if stock_sees_all {
                hear("stock", seen);
            }
            hear("litefoot after stock", check(litefoot(&stock_first)));
            hear("litefoot", check(litefoot(&litefoot_first)));
            hear("stock after litefoot", check(stock(&litefoot_first)));
        }
        Err(error) => wrong.push(format!("damaged: the files cannot be copied: {error}")),
    }
    wrong
}
