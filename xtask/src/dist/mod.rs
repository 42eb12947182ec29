//! `cargo xtask dist [TARGET…]`: what users download, for each kind of machine, in `target/packages`.
//!
//! | file | makes |
//! |---|---|
//! | `targets` | the kinds of machines |
//! | `build` | the program and the libraries, by the profile `dist` |
//! | `one_symbol` | `liblitefoot.a` with one global symbol |
//! | `floor` | the oldest glibc that they run on |
//! | `bom` | the bill of materials |
//! | `tarball` | tarballs and checksums |
//! | `wheel`, `npm`, `go`, `java`, `deb` | the packages of Python, Node, Go, Java and Debian |
//! | `smoke`, `c_programs` | the same trial for every package |
//! | `drop_in` | `libsqlite3.so.0` with litefoot in it, and its package |
//!
//! # Promises
//! 1. What is packed has no time but the commit's, no path and no name of the builder; the same files give the same bytes.
//! 2. All versions are the workspace's.
//! 3. A target whose tools are not there is left out, and what to install is said.
//! 4. The library is not larger than [`MOST_BYTES`].

mod bom;
mod build;
mod c_programs;
mod deb;
mod drop_in;
mod floor;
mod go;
mod java;
mod npm;
mod one_symbol;
mod smoke;
mod tarball;
mod targets;
mod wheel;

use crate::process::{self, Result};
use build::Built;
use drop_in::DropIn;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tarball::Stage;
use targets::Target;

/// Most bytes of the library, stripped.
pub const MOST_BYTES: u64 = 2 << 20;

/// Runs the command.
pub fn run(names: &[&str]) -> ExitCode {
    let made = match targets::named(names) {
        Ok(targets) => make(&targets),
        Err(unknown) => {
            let known: Vec<_> = targets::TARGETS.iter().map(|target| target.name).collect();
            Err(format!("unknown target {unknown:?}; there are {}", known.join(", ")))
        }
    };
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("dist: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Makes the packages of some targets.
fn make(targets: &[&'static Target]) -> Result<()> {
    let packages = absolute(&process::target_directory())?.join("packages");
    // Nothing of an earlier version is to be found there.
    let _ = std::fs::remove_dir_all(&packages);
    tarball::create(&packages)?;
    let (mut all, mut too_large) = (Vec::new(), Vec::new());
    for target in targets {
        println!("\n== {}", target.name);
        if let Some(what) = build::missing(target) {
            println!("NOT MADE: {what}");
            continue;
        }
        let built = build::build(target)?;
        too_large.extend(measure(&built)?);
        let metadata = process::metadata(Some(target.rust))?;
        let version = version(&metadata)?;
        let drop_in = drop_in::build(target, &built)?;
        tarball(target, &built, drop_in.as_ref(), &metadata, &packages)?;
        wheel::make(target, &built, &packages)?;
        if !target.is_musl {
            deb::make(target, &built, &version, &packages)?;
        }
        if let Some(drop_in) = &drop_in {
            drop_in::package(drop_in, target, &version, &packages)?;
        }
        all.push((*target, built));
    }
    let version = version(&process::metadata(None)?)?;
    npm::make(&all, &packages)?;
    go::make(&all, &version, &packages)?;
    java::make(&all, &version, &packages)?;
    tarball::sums(&packages)?;
    let trial = smoke::Trial::new(&packages, &version)?;
    println!("\n== smoke test");
    for (target, built) in &all {
        trial.target(target, built)?;
    }
    if all.iter().any(|(target, _)| target.is_of_this_machine()) {
        trial.npm()?;
        trial.go()?;
        trial.java()?;
    } else {
        println!("npm, go, jar: NOT TRIED: they have no library for this machine's C library");
    }
    println!("\n{}", packages.display());
    if too_large.is_empty() { Ok(()) } else { Err(too_large.join("; ")) }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Says how large the files are, and which glibc they need. Answers that the library is too large, where it is.
fn measure(built: &Built) -> Result<Option<String>> {
    for file in [&built.program, &built.library, &built.archive] {
        println!("{} bytes: {}", bytes(file)?, file.display());
    }
    match &built.floor {
        Some(floor) => println!("runs on glibc {} and later", floor::show(floor)),
        None => println!("needs no glibc"),
    }
    let size = bytes(&built.library)?;
    let library = built.library.display();
    let hint = if build::library_source().is_none() { " (rustup component add rust-src)" } else { "" };
    Ok((size > MOST_BYTES)
        .then(|| format!("{library}: {size} bytes; at most {MOST_BYTES} are promised{hint}")))
}

fn bytes(file: &Path) -> Result<u64> {
    let metadata = std::fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(metadata.len())
}

/// `litefoot-VERSION-TARGET.tar.gz`, and its bill of materials beside it.
fn tarball(
    target: &Target,
    built: &Built,
    drop_in: Option<&DropIn>,
    metadata: &serde_json::Value,
    packages: &Path,
) -> Result<()> {
    let (version, sqlite) = (version(metadata)?, sqlite_version(&process::sqlite_source(metadata)?)?);
    let name = format!("litefoot-{version}-{}", target.name);
    let stage = Stage::new(process::target_directory().join("stage").join(&name))?;
    stage.copy(&built.program, "bin/litefoot", 0o755)?;
    stage.copy(&built.library, "lib/liblitefoot.so", 0o644)?;
    stage.copy(&built.archive, "lib/liblitefoot.a", 0o644)?;
    if let Some(drop_in) = drop_in {
        stage.copy(&drop_in.library, "lib/litefoot-sqlite3/libsqlite3.so.0", 0o644)?;
    }
    for (from, to) in [
        ("crates/static/litefoot.h", "include/litefoot.h"),
        ("LICENSE-APACHE", "LICENSE-APACHE"),
        ("LICENSE-MIT", "LICENSE-MIT"),
        ("README.md", "README.md"),
        ("CHANGELOG.md", "CHANGELOG.md"),
    ] {
        stage.copy(&repository().join(from), to, 0o644)?;
    }
    let bill = format!("{:#}\n", bom::bill(metadata, &version, &sqlite));
    stage.write("bom.cdx.json", &bill, 0o644)?;
    let bill_file = packages.join(format!("{name}.cdx.json"));
    std::fs::write(&bill_file, bill).map_err(|error| format!("{}: {error}", bill_file.display()))?;
    stage.pack(&packages.join(format!("{name}.tar.gz")))
}

/// The version of everything.
fn version(metadata: &serde_json::Value) -> Result<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut ours = packages.filter(|package| package["name"] == "litefoot-cli");
    let version = ours.find_map(|package| package["version"].as_str());
    version.map(str::to_owned).ok_or_else(|| "cargo metadata does not list litefoot-cli".to_owned())
}

/// The version of the SQLite in a folder.
fn sqlite_version(source: &Path) -> Result<String> {
    let header = source.join("sqlite3.h");
    let text = std::fs::read_to_string(&header).map_err(|error| format!("{}: {error}", header.display()))?;
    let quoted = text.lines().find_map(|line| line.strip_prefix("#define SQLITE_VERSION "));
    let version = quoted.and_then(|quoted| quoted.trim().strip_prefix('"')?.strip_suffix('"'));
    version.map(str::to_owned).ok_or_else(|| format!("{}: no SQLITE_VERSION", header.display()))
}

fn repository() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}
