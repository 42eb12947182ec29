//! The oldest glibc that a file runs on: the newest version among the symbols that it needs.

use crate::process::Result;
use std::path::Path;
use std::process::Command;

/// A version of glibc.
pub type Version = Vec<u32>;

/// The floor of a file; `None` where it needs no glibc.
pub fn of(file: &Path) -> Result<Option<Version>> {
    let output = Command::new("readelf")
        .args(["--version-info", "--wide"])
        .arg(file)
        .output()
        .map_err(|error| format!("readelf: {error}"))?;
    Ok(newest(&String::from_utf8_lossy(&output.stdout)))
}

/// `2.28`.
pub fn show(version: &[u32]) -> String {
    version.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
}

/// The newest `GLIBC_…` in what readelf says of needed versions. A weak reference counts as well: without the version the
/// loader refuses the file.
fn newest(said: &str) -> Option<Version> {
    let names = said.split("GLIBC_").skip(1).filter_map(|rest| rest.split_whitespace().next());
    names.filter_map(|name| name.split('.').map(|part| part.parse().ok()).collect::<Option<Version>>()).max()
}

#[test]
fn the_newest_version_is_the_floor() {
    let said = "
  0x0010:   Name: GLIBC_2.9  Flags: none  Version: 8
  0x0020:   Name: GLIBC_2.28  Flags: WEAK  Version: 3
  0x0030:   Name: GLIBC_PRIVATE  Flags: none  Version: 5
  0x0040:   Name: GCC_4.2.0  Flags: none  Version: 4";
    assert_eq!(newest(said).map(|version| show(&version)).as_deref(), Some("2.28"));
    assert_eq!(newest("No version information found in this file."), None);
}
