//! `histories`: what may happen to a database's files, in any order.
//!
//! A history is a random sequence: an application on litefoot works, and is killed or closes; stock SQLite reads, or
//! writes; somebody copies the files, restores an old copy, renames or removes them. A model knows what the database must
//! hold at each look.
//!
//! | figure | meaning |
//! |---|---|
//! | `histories` | sequences lived |
//! | `processes`, `killed` | processes of the application, and those killed |
//! | `by_stock` | looks by stock SQLite |
//! | `acknowledged` | commits acknowledged |
//! | `told` | openings that found less than was acknowledged, and said which log has the rest |
//! | `refused` | openings that could not write, and said why |
//! | `wrong` | histories in which something was lost in silence, damaged, or refused without need |

mod application;
mod content;
mod files;
mod history;
mod model;
mod process;

use crate::harness::{Batch, Progress, in_batches};
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
use history::{History, Tally};
use std::collections::BTreeMap;
use std::path::Path;

/// Histories of a full run and of a quick one.
const HISTORIES: u64 = 10_000;
const QUICK_HISTORIES: u64 = 150;
/// Histories in one batch.
const BATCH: u64 = 5;
/// Failures that are described.
const DESCRIBED: usize = 10;

/// The options of an application's commit log, and whether stock SQLite sees each commit.
const FORMS: [((&str, &str), bool); 4] = [
    (("commit_log", "auto"), false),
    (("commit_log", "deltas"), false),
    (("commit_log", "deltas"), false),
    (("commit_log", "pages"), true),
];

/// The name of the process for [`crate::child`].
pub(crate) const CHILD: &str = "histories";
pub(crate) use application::run as be_killed;

/// The outcome of a history.
struct Lived {
    seed: u64,
    tally: Tally,
    wrong: Option<String>,
}

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let all = options.count.unwrap_or(if options.quick { QUICK_HISTORIES } else { HISTORIES });
    let failed = |source| Error::Directory { path: options.directory.clone(), source };
    let scratch = tempfile::tempdir_in(&options.directory).map_err(failed)?;
    let mut figures = Figures::new();
    for name in ["histories", "processes", "killed", "by_stock", "acknowledged", "told", "refused", "wrong"] {
        figures.set(name, 0.0);
    }
    figures.set("seed", options.seed as f64);
    progress.begin("histories", all);
    let mut messages = BTreeMap::new();
    let live = |batch: &Batch<'_, Lived>| {
        for number in batch.first..batch.first + batch.many {
            if !batch.tell(live(scratch.path(), options.seed.wrapping_add(number))?) {
                break;
            }
        }
        Ok(())
    };
    let ended = in_batches(all, BATCH, live, &mut |lived| {
        note(&mut figures, &mut messages, &lived);
        progress.advance(1)
    });
    for line in table(&messages) {
        figures.note(line);
    }
    figures.at_end(ended)
}

fn live(scratch: &Path, seed: u64) -> Result<Lived> {
    let directory = scratch.join(format!("history-{seed}"));
    let failed = |source| Error::Directory { path: directory.clone(), source };
    std::fs::create_dir(&directory).map_err(failed)?;
    let mut history = History::new(&directory, seed);
    let wrong = history.run().err().map(|what| format!("{what}\n  {}", history.events.join("\n  ")));
    std::fs::remove_dir_all(&directory).map_err(failed)?;
    Ok(Lived { seed, tally: history.tally, wrong })
}

fn note(figures: &mut Figures, messages: &mut BTreeMap<String, u64>, lived: &Lived) {
    let tally = &lived.tally;
    for (name, number) in [
        ("histories", 1),
        ("processes", tally.processes),
        ("killed", tally.killed),
        ("by_stock", tally.looks_by_stock),
        ("acknowledged", tally.acknowledged),
        ("told", tally.told),
        ("refused", tally.refused),
        ("wrong", lived.wrong.is_some().into()),
    ] {
        let sum = figures.get(name).unwrap_or_default() + number as f64;
        figures.set(name, sum);
    }
    for (message, count) in &tally.messages {
        *messages.entry(message.clone()).or_default() += count;
    }
    if let Some(wrong) = lived.wrong.as_ref().filter(|_| figures.alarms().len() < DESCRIBED) {
        figures.alarm(format!("{wrong}\nthe same again: --count 1 --seed {}", lived.seed));
    }
}

/// The messages, the most frequent first.
fn table(messages: &BTreeMap<String, u64>) -> Vec<String> {
    let mut rows: Vec<(&String, &u64)> = messages.iter().collect();
    rows.sort_by_key(|(message, count)| (std::cmp::Reverse(**count), *message));
    rows.iter().map(|(message, count)| format!("{count:7}  {message}")).collect()
}
