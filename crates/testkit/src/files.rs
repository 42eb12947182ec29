//! The files of a directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names and bytes of all files in a directory.
pub fn snapshot(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let bytes = if path.is_dir() { Vec::new() } else { std::fs::read(&path).unwrap() };
            (path, bytes)
        })
        .collect()
}
