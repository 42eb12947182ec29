//! Looking at the header of a commit log that another owner has in use.

use super::format::{Base, HEADER_BYTES, Header};
use crate::file::{FileKind, Medium, OpenMode, Result};
use std::path::Path;

/// The state that the records of the log at `path` build upon; `None` where they are retired, or the file is no log.
///
/// # Errors
/// Errors of opening and reading.
pub fn base_at(medium: &dyn Medium, path: &Path) -> Result<Option<Base>> {
    let file = medium.open(path, FileKind::CommitLog, OpenMode::ReadOnly)?;
    let mut bytes = [0; HEADER_BYTES as usize];
    let read = file.read_at(&mut bytes, 0)?;
    Ok(Header::decode(&bytes[..read]).and_then(|header| header.base))
}
