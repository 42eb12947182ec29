//! npm's package: one for all targets that were built, each with its library under `prebuilds/`.

use super::build::Built;
use super::repository;
use super::tarball::Stage;
use super::targets::Target;
use crate::process::{self, Result};
use std::path::Path;
use std::process::Command;

/// Makes `litefoot-VERSION.tgz`.
pub fn make(built: &[(&Target, Built)], packages: &Path) -> Result<()> {
    if !process::answers("npm") {
        println!("NO NPM PACKAGE: there is no npm");
        return Ok(());
    }
    let stage = Stage::new(process::target_directory().join("stage/npm"))?;
    for file in ["package.json", "index.js", "index.d.ts", "register.js", "README.md"] {
        stage.copy(&repository().join("node").join(file), file, 0o644)?;
    }
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        stage.copy(&repository().join(licence), licence, 0o644)?;
    }
    for (target, built) in built {
        let (processor, c_library) = target.node;
        let place = format!("prebuilds/linux-{processor}-{c_library}/liblitefoot.so");
        stage.copy(&built.library, &place, 0o644)?;
    }
    let mut pack = Command::new("npm");
    pack.args(["pack", "--silent", "--ignore-scripts", "--pack-destination"]).arg(packages);
    process::succeed(pack.current_dir(&stage.folder))
}

#[test]
fn the_version_is_the_workspaces() {
    let read = |file: &str| std::fs::read_to_string(repository().join(file)).unwrap();
    let package: serde_json::Value = serde_json::from_str(&read("node/package.json")).unwrap();
    let cargo: toml::Table = read("Cargo.toml").parse().unwrap();
    assert_eq!(package["version"].as_str(), cargo["workspace"]["package"]["version"].as_str());
}

/// They need no package and no build.
#[test]
fn the_packages_own_tests_pass() {
    if !process::answers("node") {
        eprintln!("skipped: there is no node");
        return;
    }
    let mut node = Command::new("node");
    let said = process::printed(node.args(["--test", "test/"]).current_dir(repository().join("node")));
    assert!(said.is_ok(), "{}", said.unwrap_err());
}
