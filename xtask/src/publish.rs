//! `cargo xtask publish`: what `cargo publish` would do with the library crates, without uploading.
//!
//! Cargo packs them in the order of their dependencies, and builds each from its package.

use crate::process::{self, Result, Tally};

/// The crates for a registry; all others say `publish = false`.
const CRATES: [&str; 8] = [
    "litefoot-format",
    "litefoot-rowdiff",
    "litefoot-storage",
    "litefoot-sim",
    "litefoot-pagestore",
    "litefoot-tier",
    "litefoot-vfs",
    "litefoot",
];

/// Runs the step.
pub fn check() -> Result<Tally> {
    let directory = process::target_directory().join("publish");
    let mut command = process::cargo_command(&["publish", "--dry-run", "--locked", "--allow-dirty"]);
    command.arg("--target-dir").arg(directory);
    command.args(CRATES.iter().flat_map(|name| ["-p", name]));
    process::tally(&mut command)?;
    Ok(Tally { passed: CRATES.len() as u64, failed: 0 })
}

#[test]
fn each_crate_is_for_a_registry_or_says_that_it_is_not() {
    let metadata = process::metadata(None).unwrap();
    let members = metadata["workspace_members"].as_array().unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let mut published: Vec<_> = packages
        .iter()
        .filter(|package| members.contains(&package["id"]) && package["publish"].is_null())
        .map(|package| package["name"].as_str().unwrap())
        .collect();
    let mut listed = CRATES.to_vec();
    published.sort_unstable();
    listed.sort_unstable();
    assert_eq!(published, listed);
}
