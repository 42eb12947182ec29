//! Java's archive for sqlite-jdbc: an agent, with the libraries of all targets that were built, and its `pom`.

use super::build::Built;
use super::tarball::{self, Stage};
use super::targets::Target;
use super::{repository, tarball::epoch};
use crate::process::{self, Result};
use std::path::Path;
use std::process::Command;

/// Makes `litefoot-VERSION.jar` and `litefoot-VERSION.pom`.
pub fn make(built: &[(&Target, Built)], version: &str, packages: &Path) -> Result<()> {
    if !process::answers("javac") {
        println!("NO JAR: there is no javac (apt install default-jdk-headless)");
        return Ok(());
    }
    let folder = repository().join("java");
    let stage = Stage::new(process::target_directory().join("stage/java"))?;
    let mut javac = Command::new("javac");
    javac.args(["--release", "11", "-d"]).arg(&stage.folder);
    process::succeed(javac.arg(folder.join("src/io/github/litefoot/Litefoot.java")))?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        stage.copy(&repository().join(licence), &format!("META-INF/{licence}"), 0o644)?;
    }
    for (target, built) in built {
        let (processor, c_library) = (target.processor(), if target.is_musl { "musl" } else { "gnu" });
        let place = format!("prebuilds/linux-{processor}-{c_library}/liblitefoot.so");
        stage.copy(&built.library, &place, 0o644)?;
    }
    let mut date = Command::new("date");
    let date =
        process::printed(date.args(["-u", "+%Y-%m-%dT%H:%M:%SZ", "-d"]).arg(format!("@{}", epoch()?)))?;
    let mut jar = Command::new("jar");
    jar.args(["--create", "--date", date.trim(), "--manifest"]).arg(folder.join("MANIFEST.MF"));
    jar.arg("--file").arg(packages.join(format!("litefoot-{version}.jar")));
    process::succeed(jar.args(entries(&stage.folder)?).current_dir(&stage.folder))?;
    tarball::copy(&folder.join("pom.xml"), &packages.join(format!("litefoot-{version}.pom")))
}

/// What lies in a folder, in an order that does not depend on the file system.
fn entries(folder: &Path) -> Result<Vec<String>> {
    let mut find = Command::new("find");
    let found = process::printed(find.args([".", "-type", "f", "-printf", "%P\\n"]).current_dir(folder))?;
    let mut names: Vec<String> = found.lines().map(str::to_owned).collect();
    names.sort();
    Ok(names)
}

#[test]
fn the_version_is_the_workspaces() {
    let read = |file: &str| std::fs::read_to_string(repository().join(file)).unwrap();
    let cargo: toml::Table = read("Cargo.toml").parse().unwrap();
    let version = cargo["workspace"]["package"]["version"].as_str().unwrap();
    assert!(read("java/pom.xml").contains(&format!("<version>{version}</version>")));
}
