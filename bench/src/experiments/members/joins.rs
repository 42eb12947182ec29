//! What a process pays that opens a database which another process has open, reads a row or stores one, and ends: a script, a request of a server that forks,
//! a job of cron.
//!
//! The other process has opened the database first, and does nothing else meanwhile: in a group it is the owner, and each that comes is a member. Its time
//! begins before litefoot is set up, and ends behind the close.

use super::process::{self, DATABASE, READY, Side};
use super::{await_ready, complaining, hear_micros, set_medians, take_turns};
use crate::harness::told::Told;
use crate::harness::{Progress, median};
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
use std::path::Path;
use std::time::Instant;

/// The name of the process for [`crate::child`].
pub(crate) const CHILD: &str = "member-joins";

/// Processes of a round, for each of the two.
const COMERS: usize = 25;
const STAYS: &str = "stays";
/// What a process does, and the name of its figure.
const WORK: [(&str, &str); 2] = [("reads", "come_read_us"), ("stores", "come_store_us")];

const MAKE: &str = "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); INSERT INTO t VALUES(5, 'text')";

/// The process: it says how many microseconds it has taken.
pub(crate) fn come(arguments: &[String]) -> std::result::Result<(), String> {
    let [directory, side, work] = arguments else { return Err("three arguments".to_owned()) };
    let text = |error: rusqlite::Error| error.to_string();
    let begun = Instant::now();
    let (vfs, db) = process::open(&Path::new(directory).join(DATABASE), Side::of(side)?)?;
    if work == "stores" {
        db.execute("INSERT INTO t(b) VALUES('text')", []).map_err(text)?;
    } else {
        db.query_row("SELECT b FROM t WHERE a = 5", [], |_| Ok(())).map_err(text)?;
    }
    if work == STAYS {
        println!("{READY}");
        let _ = std::io::stdin().lines().next();
    }
    db.close().map_err(|(_, error)| text(error))?;
    drop(vfs);
    println!("{}", begun.elapsed().as_micros());
    Ok(())
}

/// Measures one journal mode.
pub(super) fn run(
    options: &Options,
    mode: &str,
    figures: &mut Figures,
    progress: &mut dyn Progress,
) -> Result<()> {
    let failed = |source| Error::Directory { path: options.directory.clone(), source };
    let sides = take_turns(progress, |side| {
        let scratch = tempfile::tempdir_in(&options.directory).map_err(failed)?;
        super::make(scratch.path(), mode, |db| db.execute_batch(MAKE))?;
        round(scratch.path(), side)
    })?;
    for (number, (_, figure)) in WORK.iter().enumerate() {
        let times: Vec<Vec<f64>> =
            sides.iter().map(|rounds| rounds.iter().map(|times| times[number]).collect()).collect();
        set_medians(figures, &format!("{figure}.{mode}"), &times);
    }
    Ok(())
}

/// The median of the processes that come, for each kind of work.
fn round(directory: &Path, side: Side) -> Result<[f64; WORK.len()]> {
    let failed = |source| Error::Directory { path: directory.to_owned(), source };
    let start = |number, work| {
        let mut command = complaining(CHILD, directory, number)?;
        command.arg(directory).args([side.name(), work]);
        Told::start(command).map_err(failed)
    };
    let mut first = start(0, STAYS)?;
    await_ready(&first, directory, 0)?;
    let mut medians = [0.0; WORK.len()];
    for (result, (work, _)) in medians.iter_mut().zip(WORK) {
        let mut times = Vec::with_capacity(COMERS);
        for _ in 0..COMERS {
            let mut comer = start(1, work)?;
            times.push(hear_micros(&comer, directory, 1)?);
            comer.child.wait().map_err(failed)?;
        }
        *result = median(times);
    }
    first.tell("").map_err(failed)?;
    first.child.wait().map_err(failed)?;
    Ok(medians)
}
