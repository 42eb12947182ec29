//! Stores beside litefoot, measured for its experiment `peers`: a program of its own.
//!
//! ```text
//! litefoot-peers                           one line of JSON for each store that was built in: {"name", "version", "concurrent"}
//! litefoot-peers NAME DIRECTORY PLAN       one round in an empty directory: a line of JSON, `Round` of the module `round`
//! litefoot-peers load NAME DIRECTORY PLAN  several threads that write, in an empty directory: `Load` of the module `load`
//! ```
//!
//! It is no part of `litefoot`: libSQL brings an SQLite of its own, with the same symbols, and building RocksDB's C++
//! takes long. Each store is a feature, none is on by default; `peers` is all of them.

mod counted;
#[path = "../../src/experiments/group/load.rs"]
mod load;
#[path = "../../src/experiments/peers/round.rs"]
#[allow(dead_code, reason = "a part of it is the other program's")]
mod round;
mod stores;
#[path = "../../src/experiments/commit/values.rs"]
#[allow(dead_code, reason = "a part of it is the other program's")]
mod values;

use load::Writer;
use round::{Outcome, Plan, Row};
use std::path::Path;
use std::process::ExitCode;

/// Whose versions it has.
const LOCK: &str = include_str!("../../../Cargo.lock");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        [] => list(),
        ["load", name, directory, plan] => under_load(name, Path::new(directory), plan),
        [name, directory, plan] => measure(name, Path::new(directory), plan),
        _ => Err("litefoot-peers, or litefoot-peers [load] NAME DIRECTORY PLAN".into()),
    };
    match result {
        Ok(lines) => {
            print!("{lines}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn list() -> Outcome<String> {
    let line = |known: &stores::Known| {
        let (name, package) = (known.name, known.package);
        let version = version(package).ok_or_else(|| format!("Cargo.lock does not know {package}"))?;
        let concurrent = known.share.is_some();
        Ok(format!("{}\n", serde_json::json!({ "name": name, "version": version, "concurrent": concurrent })))
    };
    stores::ALL.iter().map(line).collect()
}

fn measure(name: &str, directory: &Path, plan: &str) -> Outcome<String> {
    let plan: Plan = serde_json::from_str(plan)?;
    let round = round::run(&plan, directory, &find(name)?.open, &counted::spent)?;
    Ok(format!("{}\n", serde_json::to_string(&round)?))
}

fn under_load(name: &str, directory: &Path, plan: &str) -> Outcome<String> {
    let plan: load::Plan = serde_json::from_str(plan)?;
    let known = find(name)?;
    let share = known.share.ok_or_else(|| format!("several threads cannot write {name}"))?;
    let directory = directory.join("load");
    std::fs::create_dir(&directory)?;
    let store = share(&directory)?;
    let writers = (0..plan.threads).map(|_| Box::new(Thread(store.as_ref())) as Box<dyn Writer>);
    let load = load::run(&plan, writers.collect())?;
    drop(store);
    let mut rows = 0;
    let mut store = (known.open)(&directory)?;
    store.scan(&mut |_| rows += 1)?;
    store.close()?;
    let commits = load.latencies_ns.len();
    if rows != commits {
        return Err(format!("{commits} commits were acknowledged, {rows} rows are there").into());
    }
    std::fs::remove_dir_all(&directory)?;
    Ok(format!("{}\n", serde_json::to_string(&load)?))
}

/// One thread of a load.
struct Thread<'a>(&'a dyn stores::Shared);

impl Writer for Thread<'_> {
    fn commit(&mut self, row: &Row) -> Outcome<()> {
        self.0.write(std::slice::from_ref(row))
    }
}

fn find(name: &str) -> Outcome<&'static stores::Known> {
    let known = stores::ALL.iter().find(|known| known.name == name);
    Ok(known.ok_or_else(|| format!("{name} was not built in"))?)
}

/// The version of a package in the lock file.
fn version(package: &str) -> Option<&'static str> {
    let (_, rest) = LOCK.split_once(&format!("\nname = \"{package}\"\nversion = \""))?;
    rest.split_once('"').map(|(version, _)| version)
}
