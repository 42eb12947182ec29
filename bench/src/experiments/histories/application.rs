//! The process of the application: it opens the database on litefoot, looks, and commits until it is killed.
//!
//! What it meets goes line by line into a file, to which a killed process loses nothing:
//!
//! | line | meaning |
//! |---|---|
//! | `state 3 5 6` | the commits that it has found |
//! | `ready` | it may write |
//! | `acknowledged 7` | a commit |
//! | `refused what: why` | opening, reading or writing was refused |
//! | `wrong: what` | something was damaged or torn |
//! | `done` | all its commits are made |

use super::content::{self, TABLES, Table};
use litefoot::{Options, Vfs};
use rusqlite::Connection;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Far longer than any process lives that waits for its end.
const WAIT: Duration = Duration::from_secs(600);

/// The end of a process that nobody kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It closes its connection.
    Close,
    /// It returns from `main` with the connection open.
    Exit,
    /// It waits for its end.
    Wait,
}

/// The plan of a process.
#[derive(Clone, Debug)]
pub struct Plan {
    pub path: PathBuf,
    pub said: PathBuf,
    pub journal: &'static str,
    pub synchronous: &'static str,
    /// Options, as names and values.
    pub options: Vec<(&'static str, &'static str)>,
    /// The token of the first commit.
    pub first: u64,
    pub commits: u64,
    pub end: End,
    /// How long it waits for another process.
    pub patience: Duration,
}

impl Plan {
    /// The arguments that tell a process its plan.
    pub fn arguments(&self) -> Vec<String> {
        let options: Vec<String> =
            self.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let end = format!("{:?}", self.end);
        let mut arguments = vec![self.path.display().to_string(), self.said.display().to_string()];
        arguments.extend([self.journal, self.synchronous].map(str::to_owned));
        arguments.extend([options.join(","), self.first.to_string(), self.commits.to_string(), end]);
        arguments.push(self.patience.as_millis().to_string());
        arguments
    }
}

/// Where a process says what it meets.
struct Said(File);

impl Said {
    fn say(&self, line: impl Display) -> Result<(), String> {
        (&self.0).write_all(format!("{line}\n").as_bytes()).map_err(|error| error.to_string())
    }

    fn refused(&self, what: &str, error: &dyn Display) -> Result<(), String> {
        let explained = litefoot::last_error().unwrap_or_default();
        self.say(format!("refused {what}: {error}; {explained}").replace('\n', " "))
    }
}

/// Runs the process.
///
/// # Errors
/// The message for standard error: the plan cannot be understood, or nothing can be said.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let [path, said, journal, synchronous, options, first, commits, end, patience] = arguments else {
        return Err("nine arguments".to_owned());
    };
    let number = |text: &String| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
    let file = OpenOptions::new().create(true).append(true).open(said);
    let said = Said(file.map_err(|error| format!("{said}: {error}"))?);
    let mut set = Options::default();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').ok_or_else(|| format!("{option}: no value"))?;
        set.set(name, value)?;
    }
    let vfs = match Vfs::builder("histories").options(set).register() {
        Ok(vfs) => vfs,
        Err(error) => return said.refused("open", &error),
    };
    let db = match vfs.open(Path::new(path)) {
        Ok(db) => db,
        Err(error) => return said.refused("open", &error),
    };
    let set_up = format!("PRAGMA synchronous={synchronous}; PRAGMA cache_size=20");
    let patience = Duration::from_millis(number(patience)?);
    let set_up = db.busy_timeout(patience).and_then(|()| db.execute_batch(&set_up));
    if let Err(error) = set_up {
        return said.refused("open", &error);
    }
    match content::look(&db) {
        Ok(seen) => {
            let seen: Vec<String> = seen.iter().map(u64::to_string).collect();
            said.say(format!("state {}", seen.join(" ")))?;
        }
        Err(what) if what.starts_with("not readable") => return said.refused("read", &what),
        Err(what) => return said.say(format!("wrong: {what}")),
    }
    let journal = format!("PRAGMA journal_mode={journal}");
    if let Err(error) = db.execute_batch(&journal).and_then(|()| db.execute_batch(TABLES)) {
        return said.refused("write", &error);
    }
    said.say("ready")?;
    work(&db, &said, number(first)?, number(commits)?)?;
    match end.as_str() {
        "Close" => {
            if let Err((_, error)) = db.close() {
                return said.refused("close", &error);
            }
            drop(vfs);
        }
        "Exit" => {
            std::mem::forget(db);
            std::mem::forget(vfs);
        }
        _ => std::thread::sleep(WAIT),
    }
    Ok(())
}

fn work(db: &Connection, said: &Said, first: u64, commits: u64) -> Result<(), String> {
    let mut random = fastrand::Rng::with_seed(first);
    for token in first..first + commits {
        match random.u8(..40) {
            0 => {
                let mode = ["PASSIVE", "FULL", "TRUNCATE"][random.usize(..3)];
                let _ = db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
            }
            1 => std::thread::sleep(Duration::from_millis(2)),
            _ => {}
        }
        match content::commit(db, token, Table::Done) {
            Ok(()) => said.say(format!("acknowledged {token}"))?,
            Err(error) => return said.refused("write", &error),
        }
    }
    said.say("done")
}
