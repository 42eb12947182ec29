//! SQLite's own tests of many processes (`mptest`) and many threads (`threadtest3`).

use super::build::Cache;
use crate::Result;
use crate::process::Tally;
use std::path::Path;

/// Runs one of them on both sides.
pub fn check(_cache: &Cache, _source: &Path, _library: &Path, program: &str) -> Result<Tally> {
    Err(format!("{program}: not yet"))
}
