//! `member-kills --kill-at-calls`: one process of a group is killed before each of its calls, one after the other.
//!
//! Two processes use a database: its owner, and a member. One of them is traced, while the member joins, commits a row, commits more than it
//! holds, reads, rolls back, and leaves. The traced one is killed before its first call from there on, in the next run before the second, until a run
//! passes whole. After each kill the other one commits. In the end litefoot and stock SQLite look for what was acknowledged.
//!
//! | figure | meaning |
//! |---|---|
//! | `calls.CASE` | calls of the traced process, by case: the last run, which passed whole |
//! | `kills` | runs with a kill |
//! | `lost`, `damaged` | kills after which a commit was missing, or SQLite's own check failed |
//! | `errors` | runs in which the process that lives met an error that the death of the other does not explain |
//! | `longest_ms` | the longest commit of the one that lives, behind a kill |

use super::MODES;
use super::process::{DATABASE, GROUP, Side, open};
use crate::harness::each_call::{Reached, kill_at_each_call};
use crate::harness::told::{Heard, Told};
use crate::harness::tracer::Tracer;
use crate::harness::{self, Batch, Progress, in_batches};
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
use rusqlite::Connection;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// The name of the process for [`crate::child`].
pub(crate) const CHILD: &str = "member-calls";

/// A process that makes no call for so long has nothing to do.
const QUIET: Duration = Duration::from_millis(20);
/// After this a process counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);
/// Only each so many-th call in the short form.
const QUICK_STEP: u64 = 24;
/// What the member does while one of the two is traced.
const LINES: [&str; 6] = ["open", "commit", "large", "commit", "roll back", "close"];

/// The process that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Killed {
    Owner,
    Member,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    mode: &'static str,
    killed: Killed,
    /// Each so many-th call is one that kills.
    step: u64,
}

impl Case {
    fn name(&self) -> String {
        format!("{}.{}", self.mode, if self.killed == Killed::Owner { "owner" } else { "member" })
    }
}

/// The outcome of one run.
#[derive(Debug, Default)]
struct Run {
    reached: Reached,
    longest: Duration,
    wrong: Option<String>,
    error: Option<String>,
}

/// Runs all cases.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let step = if options.quick { QUICK_STEP } else { 1 };
    let cases: Vec<Case> = MODES
        .into_iter()
        .flat_map(|mode| [Killed::Member, Killed::Owner].map(|killed| Case { mode, killed, step }))
        .collect();
    let mut figures = Figures::new();
    for name in ["kills", "lost", "damaged", "errors", "longest_ms"] {
        figures.set(name, 0.0);
    }
    progress.begin("cases", cases.len() as u64);
    let work = |batch: &Batch<'_, (usize, Run)>| {
        let index = batch.first as usize;
        let case = &cases[index];
        let one = |last| one_apart(case, &options.directory, last);
        kill_at_each_call(case.step, one, |run| &run.reached, &mut |run| batch.tell((index, run)))
    };
    in_batches(cases.len() as u64, 1, work, &mut |(index, run)| {
        note(&mut figures, &cases[index], &run);
        progress.advance(u64::from(run.reached.killed.is_none()))
    })?;
    Ok(figures)
}

fn note(figures: &mut Figures, case: &Case, run: &Run) {
    let has = |kind: &str| run.wrong.as_ref().is_some_and(|what| what.starts_with(kind));
    for (name, more) in [
        ("kills", run.reached.killed.is_some()),
        ("lost", has("lost: ")),
        ("damaged", has("damaged: ")),
        ("errors", run.error.is_some()),
    ] {
        let sum = figures.get(name).unwrap_or_default() + f64::from(u8::from(more));
        figures.set(name, sum);
    }
    let longest = figures.get("longest_ms").unwrap_or_default().max(run.longest.as_secs_f64() * 1000.0);
    figures.set("longest_ms", longest);
    run.reached.note(figures, &case.name(), run.wrong.iter().chain(&run.error));
}

/// One run in a directory of its own, with a kill before call `last`.
fn one_apart(case: &Case, parent: &Path, last: u64) -> Result<Run> {
    let failed = |source| Error::Directory { path: parent.to_owned(), source };
    let scratch = tempfile::tempdir_in(parent).map_err(failed)?;
    super::create(scratch.path(), case.mode)?;
    one(case, scratch.path(), last).map_err(failed)
}

/// A process of the group.
struct Process {
    told: Told,
    writer: i64,
    acknowledged: i64,
    error: Option<String>,
}

impl Process {
    fn start(directory: &Path, writer: i64) -> io::Result<Process> {
        let mut command = harness::child::command(CHILD)?;
        command.arg(directory).arg(writer.to_string());
        let told = Told::start(command)?;
        let mut process = Process { told, writer, acknowledged: 0, error: None };
        process.hear(PATIENCE);
        Ok(process)
    }

    /// Waits for an answer; true if there is one, or will be none.
    fn hear(&mut self, patience: Duration) -> bool {
        match self.told.hear(patience) {
            Heard::Line(line) => {
                match line.parse() {
                    Ok(number) => self.acknowledged = number,
                    Err(_) if line.starts_with("error") => self.error = Some(line),
                    Err(_) => {}
                }
                true
            }
            Heard::Nothing => {
                if !patience.is_zero() {
                    self.error = Some("it does not answer".to_owned());
                }
                false
            }
            Heard::End => true,
        }
    }

    fn ask(&mut self, line: &str) -> io::Result<()> {
        self.told.tell(line)?;
        self.hear(PATIENCE);
        Ok(())
    }
}

/// One run, with a kill before call `last`.
fn one(case: &Case, directory: &Path, last: u64) -> io::Result<Run> {
    let (mut owner, mut member) = (Process::start(directory, 1)?, Process::start(directory, 2)?);
    for line in ["open", "commit", "commit"] {
        owner.ask(line)?;
    }
    let traced = if case.killed == Killed::Owner { &owner } else { &member };
    let mut tracer = Tracer::attach(traced.told.child.id())?;
    tracer.begin(QUIET, last)?;
    let mut run = Run::default();
    let mut is_heard = true;
    for line in LINES {
        is_heard = said(&mut member, &mut tracer, line)?;
        if !is_heard && !tracer.has_ended() {
            run.error = Some(format!("it hangs after {} calls, at {line:?}", tracer.calls()));
        }
        if tracer.has_ended() || run.error.is_some() {
            break;
        }
    }
    run.reached.calls = tracer.calls();
    run.reached.killed = tracer.killed_at().map(|call| (last, call.clone()));
    tracer.end()?;
    let (lives, dead) = match case.killed {
        Killed::Owner => (&mut member, &mut owner),
        Killed::Member => (&mut owner, &mut member),
    };
    if !is_heard && case.killed == Killed::Owner {
        // It is on its way to the next owner, or is that now.
        let begun = Instant::now();
        lives.hear(PATIENCE);
        run.longest = begun.elapsed();
    }
    // What it has acknowledged in its last moment.
    while let Heard::Line(line) = dead.told.hear(PATIENCE) {
        dead.acknowledged = line.parse().unwrap_or(dead.acknowledged);
    }
    // The transaction under way has failed with the owner, and nothing else does.
    if case.killed == Killed::Member {
        run.error = run.error.take().or(lives.error.take());
    }
    lives.error = None;
    for line in ["open", "commit", "commit"] {
        let begun = Instant::now();
        lives.ask(line)?;
        run.longest = run.longest.max(begun.elapsed());
    }
    run.error = run.error.take().or(lives.error.take());
    let expected = [(owner.writer, owner.acknowledged), (member.writer, member.acknowledged)];
    drop((owner, member));
    let looks = [GROUP, Side::Stock].map(|side| look(&directory.join(DATABASE), side, expected));
    run.wrong = looks.into_iter().find_map(std::result::Result::err);
    Ok(run)
}

/// Has the member do something while the process that is traced runs; true where it has answered.
fn said(member: &mut Process, tracer: &mut Tracer, line: &str) -> io::Result<bool> {
    // Refused where it was killed at this moment.
    if member.told.tell(line).is_err() {
        return Ok(true);
    }
    let mut is_heard = false;
    tracer.run_until(
        |_| {
            is_heard = is_heard || member.hear(Duration::ZERO);
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

fn look(path: &Path, side: Side, expected: [(i64, i64); 2]) -> std::result::Result<(), String> {
    let damaged = |error: rusqlite::Error| format!("damaged: {error}");
    let (_vfs, db) = open(path, side).map_err(|error| format!("damaged: {error}"))?;
    let verdict: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(damaged)?;
    if verdict != "ok" {
        return Err(format!("damaged: {verdict}"));
    }
    for (writer, acknowledged) in expected {
        let sql = "SELECT count(*), coalesce(max(n), 0), coalesce((SELECT n FROM w WHERE writer = ?1), 0) FROM r WHERE writer = ?1 AND n > 0";
        let found: [i64; 3] = db
            .query_row(sql, [writer], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))
            .map_err(damaged)?;
        if found[1] < acknowledged {
            return Err(format!(
                "lost: commit {} of process {writer} is the newest of {acknowledged}",
                found[1]
            ));
        }
        if found[0] != found[1] || found[2] != found[1] {
            return Err(format!("damaged: {found:?} of process {writer}"));
        }
    }
    Ok(())
}

/// The process: it does what it is told, and answers with the number of its last commit.
///
/// | line | what |
/// |---|---|
/// | `open`, `close` | the connection |
/// | `commit` | a row, and its number in another table |
/// | `large` | the same, and more than a member holds |
/// | `roll back` | a transaction that is rolled back |
pub(crate) fn be_killed(arguments: &[String]) -> std::result::Result<(), String> {
    let [directory, writer] = arguments else { return Err("two arguments".to_owned()) };
    let path = Path::new(directory).join(DATABASE);
    let writer: i64 = writer.parse().map_err(|_| "a number".to_owned())?;
    let mut connection = None;
    let mut number = 0;
    let say = |line: String| {
        let mut output = io::stdout().lock();
        output.write_all(line.as_bytes()).and_then(|()| output.flush()).map_err(|error| error.to_string())
    };
    say("ready\n".to_owned())?;
    for line in io::stdin().lock().lines().map_while(io::Result::ok) {
        let done = match line.as_str() {
            "open" if connection.is_some() => Ok(()),
            "open" => open(&path, GROUP).map(|opened| connection = Some(opened)),
            "close" => {
                close(connection.take());
                Ok(())
            }
            line => match &connection {
                Some((_, db)) => {
                    work(db, line, writer, number + 1).map(|commits| number += i64::from(commits))
                }
                None => Err("there is no connection".to_owned()),
            },
        };
        match done {
            Ok(()) => say(format!("{number}\n"))?,
            Err(error) => {
                // A commit that has failed may be there all the same.
                if let Some((_, db)) = &connection {
                    let sql = "SELECT coalesce(max(n), 0) FROM r WHERE writer = ?1";
                    number = db.query_row(sql, [writer], |row| row.get(0)).unwrap_or(number);
                }
                say(format!("error {}\n", error.replace('\n', " ")))?;
            }
        }
    }
    close(connection);
    Ok(())
}

/// The connection goes first.
fn close(opened: Option<(Option<litefoot::Vfs>, Connection)>) {
    if let Some((vfs, db)) = opened {
        drop(db);
        drop(vfs);
    }
}

/// Does one thing; true where that is a commit.
fn work(db: &Connection, line: &str, writer: i64, n: i64) -> std::result::Result<bool, String> {
    let more = match line {
        "large" => format!("INSERT INTO r VALUES({writer}, {}, zeroblob(900000));", -n),
        _ => String::new(),
    };
    let commits = line != "roll back";
    let end = if commits { "COMMIT" } else { "ROLLBACK" };
    let done = db.execute_batch(&format!(
        "BEGIN IMMEDIATE; INSERT INTO r VALUES({writer}, {n}, 'a row'); INSERT OR REPLACE INTO w VALUES({writer}, {n}); {more} {end}"
    ));
    if done.is_err() && !db.is_autocommit() {
        let _ = db.execute_batch("ROLLBACK");
    }
    done.map(|()| commits).map_err(|error| error.to_string())
}
