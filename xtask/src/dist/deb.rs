//! Debian's packages: `litefoot` with the program and the library, `litefoot-dev` with what programs are built with, and
//! `litefoot-sqlite3`, the drop-in `libsqlite3.so.0` ([`super::drop_in`]).

use super::build::Built;
use super::tarball::{self, Stage};
use super::targets::Target;
use super::{floor, repository};
use crate::process::{self, Result};
use std::path::Path;
use std::process::Command;

/// What a package says of itself.
pub struct Package<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
    /// Packages that it needs, beside the C library.
    pub depends: &'a str,
    /// Further fields of `control`.
    pub fields: &'a str,
    /// What it is, in a line, and in more of them.
    pub description: &'a str,
}

/// Makes `litefoot` and `litefoot-dev`.
pub fn make(target: &Target, built: &Built, version: &str, packages: &Path) -> Result<()> {
    let folder = process::target_directory().join("stage").join(format!("deb-{}", target.debian));
    let stage = Stage::new(folder.join("litefoot"))?;
    stage.copy(&built.program, "usr/bin/litefoot", 0o755)?;
    stage.copy(&built.library, "usr/lib/liblitefoot.so", 0o644)?;
    let program = Package {
        name: "litefoot",
        version,
        depends: "",
        // The authorities that TLS trusts.
        fields: "Suggests: ca-certificates\n",
        description: "storage layer under unmodified SQLite that treads lightly on flash\n \
                      Small durable transactions of any program that uses SQLite become one write and\n \
                      one sync: 'litefoot run -- PROGRAM'. The files stay SQLite's.\n",
    };
    pack(&stage, &program, target, built.floor.as_deref(), packages)?;
    let stage = Stage::new(folder.join("litefoot-dev"))?;
    stage.copy(&built.archive, "usr/lib/liblitefoot.a", 0o644)?;
    stage.copy(&repository().join("crates/static/litefoot.h"), "usr/include/litefoot.h", 0o644)?;
    let development = Package {
        name: "litefoot-dev",
        version,
        depends: "",
        fields: "",
        description: "litefoot for programs that compile SQLite themselves\n \
                      A static library with one function, for -DSQLITE_EXTRA_INIT=litefoot_init.\n",
    };
    pack(&stage, &development, target, None, packages)
}

/// Packs a folder as `NAME_VERSION_ARCHITECTURE.deb`.
pub fn pack(
    stage: &Stage,
    package: &Package<'_>,
    target: &Target,
    floor: Option<&[u32]>,
    packages: &Path,
) -> Result<()> {
    let documents = format!("usr/share/doc/{}", package.name);
    let licences = [("LICENSE-MIT", "LICENSE-MIT"), ("LICENSE-APACHE", "LICENSE-APACHE")];
    for (from, to) in licences {
        stage.copy(&repository().join(from), &format!("{documents}/{to}"), 0o644)?;
    }
    stage.write(
        &format!("{documents}/copyright"),
        "Litefoot is under Apache-2.0 or MIT, at your choice; both texts lie beside this file.\n",
        0o644,
    )?;
    stage.write("DEBIAN/control", &control(package, target.debian, floor), 0o644)?;
    let name = format!("{}_{}_{}.deb", package.name, package.version, target.debian);
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&stage.folder).arg(packages.join(name));
    process::succeed(build.env("SOURCE_DATE_EPOCH", tarball::epoch()?))
}

fn control(package: &Package<'_>, architecture: &str, floor: Option<&[u32]>) -> String {
    let glibc = floor.map(|floor| format!("libc6 (>= {})", floor::show(floor)));
    let depends: Vec<&str> = glibc.iter().map(String::as_str).chain([package.depends]).collect();
    let depends: Vec<&str> = depends.into_iter().filter(|one| !one.is_empty()).collect();
    let depends =
        if depends.is_empty() { String::new() } else { format!("Depends: {}\n", depends.join(", ")) };
    format!(
        "Package: {}\nVersion: {}\nArchitecture: {architecture}\nMaintainer: The litefoot project <litefoot@localhost>\n\
         Section: database\nPriority: optional\n{depends}{}Description: {}",
        package.name, package.version, package.fields, package.description
    )
}

#[test]
fn packages_need_the_c_library_that_their_files_need() {
    let package = Package {
        name: "p",
        version: "1.2",
        depends: "libfoo (= 3)",
        fields: "Conflicts: q\n",
        description: "short\n long\n",
    };
    let with = control(&package, "arm64", Some(&[2, 28]));
    assert!(with.contains("\nArchitecture: arm64\n"), "{with}");
    assert!(
        with.contains("\nDepends: libc6 (>= 2.28), libfoo (= 3)\nConflicts: q\nDescription: short\n long\n"),
        "{with}"
    );
    let without = control(&Package { depends: "", ..package }, "arm64", None);
    assert!(!without.contains("Depends"), "{without}");
}
