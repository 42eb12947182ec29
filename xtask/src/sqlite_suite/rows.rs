//! `cargo xtask suite-rows`: the row differ on the databases of SQLite's own tests.
//!
//! ```text
//! cargo xtask suite-rows [--short] [--jobs N] [FILE…]
//! ```
//!
//! Each file runs on stock SQLite. `moments.tcl` keeps its databases behind each test case, in `target/sqlite-suite/moments`. Then
//! a test of `litefoot-rowdiff` compares each moment with the one before, by pages and by SQL.

use super::build::{Cache, make, quietly, write};
use super::result::{End, Side};
use super::room::{Room, copy_tree};
use super::{JOBS, Wish, files};
use crate::process::{self, Result, Tally};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const KEEPER: &str = include_str!("moments.tcl");
const KEEPER_FILE: &str = "moments.tcl";

/// What a file gets: the moments of one that takes longer count as far as it came.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs what is asked for.
pub fn run(words: &[&str]) -> Result<Tally> {
    let wish = Wish::of(words)?;
    let cache = Cache::open()?;
    let Some(source) = cache.source()? else {
        println!("suite-rows: NOT CHECKED, it takes the source package that apt-get source sqlite3 brings");
        return Ok(Tally { passed: 1, failed: 0 });
    };
    cache.build(&source)?;
    let room = Room::new(&cache, &source, None)?;
    write(&room.source(KEEPER_FILE), KEEPER)?;
    let files = files(&wish, &room)?;
    let moments = cache.moments();
    let _ = fs::remove_dir_all(&moments);
    make(&moments)?;
    let (next, late) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let outcomes: Vec<Result<()>> = std::thread::scope(|scope| {
        let work = || {
            while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                if keep(&room, &moments, file)? == End::Late {
                    late.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(())
        };
        let threads: Vec<_> = (0..wish.jobs.unwrap_or(JOBS)).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a run was lost".into())))
            .collect()
    });
    outcomes.into_iter().collect::<Result<()>>()?;
    println!("{} files ran, {} of them for as long as they may", files.len(), late.into_inner());
    let test = ["test", "--locked", "-p", "litefoot-rowdiff", "--test", "histories", "--"];
    let one = ["--ignored", "--exact", "--nocapture", "suite::databases_of_sqlites_own_tests"];
    process::cargo_with(&[&test[..], &one].concat(), &[("ROWDIFF_MOMENTS", &*moments.to_string_lossy())])
}

/// Runs a file, and takes its moments out of the room.
fn keep(room: &Room, moments: &Path, file: &str) -> Result<End> {
    let name = file.trim_end_matches(".test").replace(['/', '.'], "_");
    let own = room.program("moments").join(&name);
    make(&own)?;
    // Tests run as a user of their own.
    quietly(Command::new("chmod").arg("777").arg(&own))?;
    let [keeper, script] = [KEEPER_FILE, file].map(|path| room.source(path));
    let arguments = [&keeper, &own, &script].map(|path| path.to_string_lossy());
    let arguments = arguments.each_ref().map(|argument| &**argument);
    let outcome = room.run(Side::Stock, &name, "testfixture", &arguments, LIMIT)?;
    copy_tree(&own, &moments.join(&name))?;
    let _ = fs::remove_dir_all(&own);
    println!("{file}: {:?}, {:.1} s", outcome.end, outcome.seconds);
    Ok(outcome.end)
}
