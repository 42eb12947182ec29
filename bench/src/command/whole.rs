//! Files that are either whole or not there.

use litefoot_terminal::Failure;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A file that gets its name when everything is in it: what had the name before stays until then.
pub struct WholeFile {
    path: PathBuf,
    file: NamedTempFile,
    /// Advice for a file that cannot be written.
    advice: &'static str,
}

impl WholeFile {
    /// Makes the file, still without its name.
    pub fn create(path: &Path, advice: &'static str) -> Result<WholeFile, Failure> {
        use std::os::unix::fs::PermissionsExt;
        if path.is_dir() {
            return Err(Failure::file(path, "is a directory").advice(advice));
        }
        tempfile::Builder::new()
            .prefix(".litefoot-")
            .permissions(std::fs::Permissions::from_mode(0o666))
            .tempfile_in(litefoot_storage::file::parent_directory(path))
            .map(|file| WholeFile { path: path.to_owned(), file, advice })
            .map_err(|error| failure(path, &error, advice))
    }

    /// Fills it and gives it its name.
    pub fn write(mut self, text: &str) -> Result<(), Failure> {
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.as_file().sync_all());
        let WholeFile { path, file, advice } = self;
        written
            .and_then(|()| file.persist(&path).map(drop).map_err(|error| error.error))
            .map_err(|error| failure(&path, &error, advice))
    }
}

fn failure(path: &Path, error: &std::io::Error, advice: &'static str) -> Failure {
    Failure::file(path, format!("cannot be written: {error}")).advice(advice)
}
