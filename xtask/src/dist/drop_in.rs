//! The drop-in `libsqlite3.so.0`: the distribution's SQLite, with litefoot as default VFS.
//!
//! It is made from the distribution's own source package, patches and compile options included, so that whatever a
//! program sees of SQLite stays as it was: version, source id, options, symbols, `DELETE … LIMIT`. The distribution's shell `sqlite3`
//! refuses any other source. One line is added: SQLite registers litefoot where it registers the system's VFS. So no thread
//! finds SQLite initialised without it, and `sqlite3_config` works before as always.
//!
//! The package lies beside the distribution's library, in a folder that the loader looks into first (`ld.so.conf.d`). Nothing of the
//! distribution's is replaced: removing the package restores it, and no moment is without a library.
//!
//! # Limits
//! Made for the machine on which it runs, since it is compared with the library there ([`compare`]). Internal symbols, which the
//! distribution's build happens to export, are not exported.

use super::build::Built;
use super::deb::{self, Package};
use super::floor;
use super::tarball::{self, Stage};
use super::targets::Target;
use crate::process::{self, Result};
use crate::sqlite_suite::Cache;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The line of SQLite's source behind which litefoot is registered, and what is added.
const BEFORE: &str = "      rc = sqlite3OsInit();\n";
const ADDED: &str = "      if( rc==SQLITE_OK ) rc = litefoot_init(0);\n";
const DECLARED: &str = "extern int litefoot_init(const char*);\n";

/// The families of SQLite's functions that programs may call.
const PUBLIC: [&str; 5] =
    ["sqlite3_", "sqlite3changegroup_", "sqlite3changeset_", "sqlite3rebaser_", "sqlite3session_"];

/// The library that was made.
pub struct DropIn {
    /// `libsqlite3.so.0`.
    pub library: PathBuf,
    /// The version of the distribution's package.
    sqlite: String,
}

/// Makes the library; `None`, with the reason said, where that cannot be.
pub fn build(target: &Target, built: &Built) -> Result<Option<DropIn>> {
    if target.is_musl || !target.tools.is_empty() {
        return Ok(None);
    }
    let Some(source) = Cache::open()?.source()? else {
        println!("NO DROP-IN: it is made from the source package of this system's libsqlite3");
        return Ok(None);
    };
    let folder = process::target_directory().join(target.rust).join("dist/drop-in");
    tarball::create(&folder)?;
    if !folder.join("Makefile").exists() {
        let mut configure = Command::new(source.join("configure"));
        configure.args([
            "--quiet",
            "--enable-threadsafe",
            "--enable-load-extension",
            "--enable-fts4",
            "--enable-fts5",
        ]);
        process::succeed(configure.current_dir(&folder))?;
    }
    let rules = read(&source.join("debian/rules"))?;
    let options = options(&rules);
    let mut make = Command::new("make");
    // The grammar is made for these options as well.
    make.args(["--quiet", "sqlite3.c", &format!("OPTS={}", options.join(" "))]).current_dir(&folder);
    process::printed(&mut make)?;
    let code = folder.join("litefoot-sqlite3.c");
    write(&code, &patched(&read(&folder.join("sqlite3.c"))?)?)?;
    let map = folder.join("symbols.map");
    write(&map, &format!("{{ global: {}*; local: *; }};\n", PUBLIC.join("*; ")))?;
    let library = folder.join("libsqlite3.so.0");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-fPIC", "-shared", "-fno-strict-aliasing", "-w", "-fstack-protector-strong"])
        .args(&options);
    gcc.args(["-D_HAVE_SQLITE_CONFIG_H", "-DBUILD_sqlite", "-DNDEBUG", "-DSQLITE_ENABLE_MATH_FUNCTIONS"]);
    gcc.args(["-DSQLITE_ENABLE_FTS4", "-DSQLITE_ENABLE_FTS5", "-I"]).arg(&folder).arg("-o").arg(&library);
    gcc.arg(&code).arg(&built.archive).args([
        "-static-libgcc",
        "-Wl,-soname,libsqlite3.so.0",
        "-Wl,--strip-all",
    ]);
    // Threads of litefoot's run in it: it stays, whoever closes it.
    gcc.args(["-Wl,-z,nodelete,-z,relro,-z,now", "-Wl,--as-needed"]);
    gcc.arg(format!("-Wl,--version-script={}", map.display())).args(["-lpthread", "-ldl", "-lm"]);
    process::succeed(&mut gcc)?;
    let mut ask = Command::new("dpkg-query");
    let sqlite = process::printed(ask.args(["-W", "-f", "${source:Version}", "libsqlite3-0"]))?;
    compare(&library)?;
    Ok(Some(DropIn { library, sqlite }))
}

/// Makes the package `litefoot-sqlite3`.
pub fn package(drop_in: &DropIn, target: &Target, version: &str, packages: &Path) -> Result<()> {
    let stage = Stage::new(process::target_directory().join("stage/deb-drop-in/litefoot-sqlite3"))?;
    let place = "usr/lib/litefoot-sqlite3";
    stage.copy(&drop_in.library, &format!("{place}/libsqlite3.so.0"), 0o644)?;
    // The loader's folders are in the order of these names.
    stage.write("etc/ld.so.conf.d/000-litefoot-sqlite3.conf", &format!("/{place}\n"), 0o644)?;
    stage.write("DEBIAN/triggers", "activate-noawait ldconfig\n", 0o644)?;
    let upstream = drop_in.sqlite.split('-').next().unwrap_or_default();
    let package = Package {
        name: "litefoot-sqlite3",
        version,
        depends: &format!("libsqlite3-0 (>= {upstream})"),
        fields: "",
        description: &format!(
            "libsqlite3.so.0 with litefoot beneath it, for every program\n \
             This system's SQLite ({}), built with its own options, and litefoot as its\n \
             default VFS. LITEFOOT=off leaves a program as it was; removing this package all of them.\n",
            drop_in.sqlite
        ),
    };
    deb::pack(&stage, &package, target, floor::of(&drop_in.library)?.as_deref(), packages)
}

/// The source with litefoot registered in it.
fn patched(source: &str) -> Result<String> {
    match source.matches(BEFORE).count() {
        1 => Ok(format!("{DECLARED}{}", source.replace(BEFORE, &format!("{BEFORE}{ADDED}")))),
        found => Err(format!("sqlite3.c has {found} lines {BEFORE:?}; litefoot is registered behind one")),
    }
}

/// The options for the compiler in the distribution's rules.
fn options(rules: &str) -> Vec<String> {
    let words = rules.split_whitespace().filter(|word| word.starts_with("-DSQLITE_"));
    words.map(str::to_owned).collect()
}

/// Fails where programs would see another SQLite than the system's: symbols or compile options.
fn compare(library: &Path) -> Result<()> {
    let installed = installed()?;
    let (theirs, ours) = (symbols(&installed)?, symbols(library)?);
    if theirs != ours {
        let differ: Vec<_> = theirs.symmetric_difference(&ours).collect();
        return Err(format!(
            "{}: public symbols differ from {}: {differ:?}",
            library.display(),
            installed.display()
        ));
    }
    let answers = |path: &str| {
        let sql = "SELECT sqlite_version(), sqlite_source_id(); PRAGMA compile_options";
        let mut shell = Command::new("sqlite3");
        process::printed(shell.args([":memory:", sql]).env("LD_LIBRARY_PATH", path))
    };
    let folder = library.parent().unwrap_or(library).to_string_lossy().into_owned();
    let (stock, replaced) = (answers("")?, answers(&folder)?);
    if stock != replaced {
        return Err(format!("{}: compile options differ:\n{stock}\n{replaced}", library.display()));
    }
    println!(
        "drop-in: {} public symbols and all compile options are those of {}",
        ours.len(),
        installed.display()
    );
    Ok(())
}

/// The system's library.
fn installed() -> Result<PathBuf> {
    let files = process::printed(Command::new("dpkg-query").args(["--listfiles", "libsqlite3-0"]))?;
    let found = files.lines().find(|file| file.ends_with("/libsqlite3.so.0"));
    found.map(PathBuf::from).ok_or_else(|| "libsqlite3-0 has no libsqlite3.so.0".to_owned())
}

/// The public symbols that a library defines.
fn symbols(library: &Path) -> Result<BTreeSet<String>> {
    let mut nm = Command::new("nm");
    let said =
        process::printed(nm.args(["--dynamic", "--defined-only", "--format=just-symbols"]).arg(library))?;
    let is_public = |name: &&str| PUBLIC.iter().any(|family| name.starts_with(family));
    Ok(said.lines().filter(is_public).map(str::to_owned).collect())
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn litefoot_is_registered_behind_the_systems_vfs_and_nowhere_else() {
        let source = format!("before\n{BEFORE}after\n");
        assert_eq!(patched(&source).unwrap(), format!("{DECLARED}before\n{BEFORE}{ADDED}after\n"));
        for wrong in ["nothing\n", &source.repeat(2)] {
            assert!(patched(wrong).is_err());
        }
    }

    #[test]
    fn options_are_those_of_the_rules() {
        let rules =
            "export CFLAGS += -O2 -DSQLITE_SECURE_DELETE \\\n\t-DSQLITE_ENABLE_RTREE=1 \\\n\t-DNDEBUG\n";
        assert_eq!(options(rules), ["-DSQLITE_SECURE_DELETE", "-DSQLITE_ENABLE_RTREE=1"]);
    }
}
