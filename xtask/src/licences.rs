//! May the dependencies be used, and has any of them a known hole?
//!
//! With `cargo-deny` installed, it decides, by `deny.toml`. Without it the licences are checked here against the same
//! list, from the output of `cargo metadata`. The advisories then are **not** checked, and the step says so. They are
//! not checked either where the advisory database cannot be fetched.

use crate::process::{self, Result, Tally};
use serde_json::Value;
use std::process::Stdio;

/// Runs the step.
pub fn check() -> Result<Tally> {
    if !has_cargo_deny() {
        let checked = check_metadata()?;
        println!("licences: {checked} packages are under licences that deny.toml allows");
        println!("advisories: NOT CHECKED, cargo-deny is missing (cargo install --locked cargo-deny)");
        return Ok(Tally { passed: 1, failed: 0 });
    }
    process::cargo(&["deny", "--locked", "check", "licenses", "bans", "sources"])?;
    if fetch_advisories() {
        process::cargo(&["deny", "--locked", "--offline", "check", "advisories"])?;
        return Ok(Tally { passed: 2, failed: 0 });
    }
    println!("advisories: NOT CHECKED, the advisory database cannot be fetched from here");
    Ok(Tally { passed: 1, failed: 0 })
}

fn has_cargo_deny() -> bool {
    succeeds(&["deny", "--version"])
}

fn fetch_advisories() -> bool {
    succeeds(&["deny", "--locked", "fetch", "db"])
}

fn succeeds(arguments: &[&str]) -> bool {
    let mut command = process::cargo_command(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Checks every package of the lock file; returns how many there are.
fn check_metadata() -> Result<usize> {
    let allowed = allowed_licences()?;
    let output = process::cargo_command(&["metadata", "--format-version", "1", "--locked", "--all-features"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo metadata cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata ended with {}", output.status));
    }
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let refused: Vec<String> = packages
        .iter()
        .filter_map(|package| refusal(package, &allowed).map(|why| format!("{}: {why}", package["name"])))
        .collect();
    if refused.is_empty() { Ok(packages.len()) } else { Err(refused.join("; ")) }
}

/// Why a package may not be used; `None` when it may.
fn refusal(package: &Value, allowed: &[spdx::Licensee]) -> Option<String> {
    let registry = "registry+https://github.com/rust-lang/crates.io-index";
    if package["source"].as_str().is_some_and(|source| source != registry) {
        return Some(format!("comes from {} and not from crates.io", package["source"]));
    }
    let Some(licence) = package["license"].as_str() else { return Some("names no licence".to_owned()) };
    match spdx::Expression::parse_mode(licence, spdx::ParseMode::LAX) {
        Err(error) => Some(format!("licence {licence:?} cannot be read: {}", error.reason)),
        Ok(terms) => {
            let granted = terms.evaluate(|term| allowed.iter().any(|licensee| licensee.satisfies(term)));
            (!granted).then(|| format!("licence {licence:?} is not on the list of deny.toml"))
        }
    }
}

/// `licenses.allow` of `deny.toml`.
fn allowed_licences() -> Result<Vec<spdx::Licensee>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deny.toml");
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let policy: toml::Table = text.parse().map_err(|error| format!("{path}: {error}"))?;
    let list = policy
        .get("licenses")
        .and_then(|licences| licences.get("allow"))
        .and_then(toml::Value::as_array)
        .ok_or_else(|| format!("{path}: licenses.allow is missing"))?;
    list.iter()
        .map(|name| {
            let name = name.as_str().unwrap_or_default();
            spdx::Licensee::parse(name).map_err(|error| format!("{path}: {name:?}: {}", error.reason))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn licences_are_judged_by_the_list() {
        let allowed = allowed_licences().unwrap();
        let crates_io = "registry+https://github.com/rust-lang/crates.io-index";
        for (licence, source, accepted) in [
            (json!("MIT OR Apache-2.0"), json!(crates_io), true),
            (json!("MIT/Apache-2.0"), json!(crates_io), true),
            (json!("GPL-3.0 OR MIT"), json!(crates_io), true),
            (json!("(MIT OR Apache-2.0) AND Unicode-3.0"), json!(crates_io), true),
            (json!("Apache-2.0 WITH LLVM-exception"), json!(null), true),
            (json!("GPL-3.0"), json!(crates_io), false),
            (json!("MIT AND GPL-3.0"), json!(crates_io), false),
            (json!(null), json!(crates_io), false),
            (json!("MIT"), json!("git+https://example.org/x"), false),
        ] {
            let package = json!({"name": "p", "license": licence, "source": source});
            assert_eq!(refusal(&package, &allowed).is_none(), accepted, "{package}");
        }
    }
}
