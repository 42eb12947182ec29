//! Python's wheel: the package with the library of a target, for every Python 3.
//!
//! The tag says what is true: `manylinux_X_Y` of the glibc that the library was found to need, or `musllinux_1_2`.

use super::build::Built;
use super::targets::Target;
use super::{repository, tarball};
use crate::process::{self, Result};
use std::path::Path;
use std::process::Command;

/// Makes the wheel; says what is missing where that cannot be.
pub fn make(target: &Target, built: &Built, packages: &Path) -> Result<()> {
    let Some(python) = python() else {
        println!(
            "NO WHEEL: no python3 has setuptools and wheel (apt install python3-setuptools python3-wheel)"
        );
        return Ok(());
    };
    let tag = tag(target, built.floor.as_deref());
    // setuptools leaves folders beside the package.
    let stage = tarball::Stage::new(process::target_directory().join("stage/wheel"))?;
    let source = repository().join("python");
    process::succeed(Command::new("cp").arg("-R").arg(source.join(".")).arg(&stage.folder))?;
    let mut build = Command::new(python);
    build.args(["setup.py", "--quiet", "bdist_wheel", "--plat-name", &tag, "--dist-dir"]).arg(packages);
    build.env("LITEFOOT_LIBRARY", &built.library).env("SOURCE_DATE_EPOCH", tarball::epoch()?);
    process::succeed(build.current_dir(&stage.folder))
}

/// A Python that can build it: the one of the path, or the system's.
fn python() -> Option<&'static str> {
    ["python3", "/usr/bin/python3"].into_iter().find(|python| {
        let mut ask = Command::new(python);
        process::printed(ask.args(["-c", "import setuptools, wheel"])).is_ok()
    })
}

/// The tag of a platform.
fn tag(target: &Target, floor: Option<&[u32]>) -> String {
    match floor {
        Some([major, minor, ..]) if !target.is_musl => format!("manylinux_{major}_{minor}_{}", target.wheel),
        _ => format!("musllinux_1_2_{}", target.wheel),
    }
}

#[test]
fn tags_say_which_c_library_is_needed() {
    let [glibc, .., musl] = &super::targets::TARGETS;
    assert_eq!(tag(glibc, Some(&[2, 28])), "manylinux_2_28_x86_64");
    assert_eq!(tag(glibc, Some(&[2, 2, 5])), "manylinux_2_2_x86_64");
    assert_eq!(tag(musl, None), "musllinux_1_2_armv7l");
}
