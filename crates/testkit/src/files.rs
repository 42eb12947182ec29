//! The files of a directory.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

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

/// Copies a database and the files beside it as a crash would leave them, while threads may write them.
///
/// A crash leaves the files of one moment. So they are read until they have not changed meanwhile. It leaves their times,
/// too: these tell that nobody has written the database since.
pub fn copy_as_a_crash_leaves(database: &Path, copy: &Path) {
    let files = loop {
        let files = beside(database);
        if files == beside(database) {
            break files;
        }
    };
    for (suffix, (bytes, modified)) in files {
        let to = format!("{}{suffix}", copy.display());
        std::fs::write(&to, bytes).unwrap();
        std::fs::File::options().write(true).open(to).unwrap().set_modified(modified).unwrap();
    }
}

/// The bytes and times of a database and of the files beside it, by what their names add to the database's.
fn beside(database: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let name = database.file_name().unwrap().to_str().unwrap();
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(database.parent().unwrap()).unwrap().map(Result::unwrap) {
        let file_name = entry.file_name();
        let Some(suffix) = file_name.to_str().and_then(|file| file.strip_prefix(name)) else { continue };
        // A file may go meanwhile.
        let Ok(mut file) = std::fs::File::open(entry.path()) else { continue };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        files.insert(suffix.to_owned(), (bytes, file.metadata().unwrap().modified().unwrap()));
    }
    files
}
