//! Stores beside litefoot, measured for its experiment `peers`: a program of its own.
//!
//! ```text
//! litefoot-peers                      one line of JSON for each store that was built in: {"name", "version"}
//! litefoot-peers NAME DIRECTORY PLAN  one round in an empty directory: a line of JSON, `Round` of the module `round`
//! ```
//!
//! It is no part of `litefoot`: libSQL brings an SQLite of its own, with the same symbols, and building RocksDB's C++
//! takes long. Each store is a feature, none is on by default; `peers` is all of them.

mod counted;
#[path = "../../src/experiments/peers/round.rs"]
#[allow(dead_code, reason = "a part of it is the other program's")]
mod round;
mod stores;
#[path = "../../src/experiments/commit/values.rs"]
#[allow(dead_code, reason = "a part of it is the other program's")]
mod values;

use round::{Outcome, Plan};
use std::path::Path;
use std::process::ExitCode;

/// Whose versions it has.
const LOCK: &str = include_str!("../../../Cargo.lock");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        [] => list(),
        [name, directory, plan] => measure(name, Path::new(directory), plan),
        _ => Err("litefoot-peers, or litefoot-peers NAME DIRECTORY PLAN".into()),
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
    let line = |(name, package, _): &stores::Known| {
        let version = version(package).ok_or_else(|| format!("Cargo.lock does not know {package}"))?;
        Ok(format!("{}\n", serde_json::json!({ "name": name, "version": version })))
    };
    stores::ALL.iter().map(line).collect()
}

fn measure(name: &str, directory: &Path, plan: &str) -> Outcome<String> {
    let plan: Plan = serde_json::from_str(plan)?;
    let known = stores::ALL.iter().find(|(known, ..)| *known == name);
    let (_, _, open) = known.ok_or_else(|| format!("{name} was not built in"))?;
    let round = round::run(&plan, directory, open, &counted::spent)?;
    Ok(format!("{}\n", serde_json::to_string(&round)?))
}

/// The version of a package in the lock file.
fn version(package: &str) -> Option<&'static str> {
    let (_, rest) = LOCK.split_once(&format!("\nname = \"{package}\"\nversion = \""))?;
    rest.split_once('"').map(|(version, _)| version)
}
