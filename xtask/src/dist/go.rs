//! Go's module, with the libraries of all targets for glibc that were built: a program with cgo is linked to it.

use super::build::Built;
use super::repository;
use super::tarball::Stage;
use super::targets::Target;
use crate::process::Result;
use std::path::Path;

/// The processors for which the module embeds what is in a folder: the library, where the target was built.
const PROCESSORS: [&str; 3] = ["amd64", "arm64", "arm"];

/// Makes `litefoot-go-VERSION.tar.gz`.
pub fn make(built: &[(&Target, Built)], version: &str, packages: &Path) -> Result<()> {
    let name = format!("litefoot-go-{version}");
    let stage = Stage::new(crate::process::target_directory().join("stage").join(&name))?;
    let folder = repository().join("go");
    let files = ["go.mod", "go.sum", "litefoot.go", "library_other.go"].map(str::to_owned);
    let embedding = PROCESSORS.map(|processor| format!("library_linux_{processor}.go"));
    for file in files.iter().chain(&embedding) {
        stage.copy(&folder.join(file), file, 0o644)?;
    }
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        stage.copy(&repository().join(licence), licence, 0o644)?;
    }
    for processor in PROCESSORS {
        let place = format!("prebuilds/linux-{processor}");
        stage.copy(&folder.join(&place).join("README"), &format!("{place}/README"), 0o644)?;
    }
    for (target, built) in built.iter().filter(|(target, _)| !target.is_musl) {
        stage.copy(&built.library, &format!("prebuilds/linux-{}/liblitefoot.so", target.go), 0o644)?;
    }
    stage.pack(&packages.join(format!("{name}.tar.gz")))
}
