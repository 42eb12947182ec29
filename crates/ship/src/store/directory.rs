//! A directory as a store: a disk, a mount, a folder that another program carries away.
//!
//! A file gets its name once its bytes are on the disk, and the directory is synced behind it. Its time is that of its last transaction,
//! as Litestream has it.

use super::{Body, FileName, Listed, Put, Store};
use crate::{Error, Result};
use litefoot_ltx::{Level, name};
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A store in a directory.
#[derive(Debug)]
pub struct Directory {
    root: PathBuf,
    place: String,
}

impl Directory {
    /// A directory, which is made with the first file.
    pub fn new(root: &Path) -> Directory {
        Directory { root: root.to_owned(), place: format!("file://{}", root.display()) }
    }

    fn path(&self, name: FileName) -> PathBuf {
        self.root.join(name.to_string())
    }

    /// A disk that is full, or not mounted, may be there again later.
    fn fail(&self, what: impl std::fmt::Display, error: &io::Error) -> Error {
        Error::Unreachable { place: self.place.clone(), why: format!("{what}: {error}") }
    }

    /// Makes the folder of a level, so that a power cut does not take it away.
    fn make_folder(&self, level: Level) -> Result<PathBuf> {
        let folder = self.root.join(level.folder());
        let fail = |error: io::Error| self.fail(folder.display(), &error);
        if !folder.is_dir() {
            fs::create_dir_all(&folder).map_err(fail)?;
            for made in folder.ancestors().skip(1).take(3).filter(|made| made.starts_with(&self.root)) {
                sync_directory(made).map_err(fail)?;
            }
        }
        Ok(folder)
    }
}

impl Store for Directory {
    fn place(&self) -> &str {
        &self.place
    }

    fn list(&self, level: Level) -> Result<Vec<Listed>> {
        let folder = self.root.join(level.folder());
        let fail = |error: &io::Error| self.fail(folder.display(), error);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(fail(&error)),
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| fail(&error))?;
            let Some((min, max)) = entry.file_name().to_str().and_then(name::parse_file_name) else {
                continue;
            };
            match entry.metadata() {
                Ok(found) => files.push(Listed { name: FileName { level, min, max }, bytes: found.len() }),
                // A compaction has deleted it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(fail(&error)),
            }
        }
        files.sort_unstable();
        Ok(files)
    }

    fn put_new(&self, name: FileName, body: &Body, timestamp_ms: u64) -> Result<Put> {
        let folder = self.make_folder(name.level)?;
        let path = self.path(name);
        let fail = |error: io::Error| self.fail(name, &error);
        let mut file = tempfile::Builder::new()
            .prefix(".litefoot-")
            .suffix(".tmp")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .tempfile_in(&folder)
            .map_err(fail)?;
        io::copy(&mut body.reader()?, &mut file).map_err(fail)?;
        file.as_file()
            .set_modified(SystemTime::UNIX_EPOCH + Duration::from_millis(timestamp_ms))
            .map_err(fail)?;
        file.as_file().sync_all().map_err(fail)?;
        match file.persist_noclobber(&path) {
            Ok(_) => {}
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => return Ok(Put::Exists),
            Err(error) => return Err(fail(error.error)),
        }
        sync_directory(&folder).map_err(fail)?;
        Ok(Put::Created)
    }

    fn get(&self, name: FileName, range: Range<u64>) -> Result<Option<Vec<u8>>> {
        let fail = |error: io::Error| self.fail(name, &error);
        let file = match File::open(self.path(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fail(error)),
        };
        let len = file.metadata().map_err(fail)?.len();
        let range = range.start.min(len)..range.end.min(len);
        let mut bytes = vec![0; range.end.saturating_sub(range.start) as usize];
        file.read_exact_at(&mut bytes, range.start).map_err(fail)?;
        Ok(Some(bytes))
    }

    fn delete(&self, names: &[FileName]) -> Result<()> {
        for name in names {
            match fs::remove_file(self.path(*name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(self.fail(name, &error)),
                _ => {}
            }
        }
        Ok(())
    }

    fn parallel(&self) -> usize {
        std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 8))
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_ltx::TxId;
    use std::io::Write;

    fn name(min: u64, max: u64) -> FileName {
        FileName { level: Level::SHIPMENTS, min: TxId::new(min), max: TxId::new(max) }
    }

    #[test]
    fn a_file_is_written_once() {
        let directory = tempfile::tempdir().unwrap();
        let store = Directory::new(&directory.path().join("new/place"));
        assert!(store.list(Level::SHIPMENTS).unwrap().is_empty());
        let body = |text: &str| {
            let mut body = Body::new(directory.path());
            body.write_all(text.as_bytes()).unwrap();
            body
        };
        assert_eq!(store.put_new(name(2, 2), &body("second"), 2000).unwrap(), Put::Created);
        assert_eq!(store.put_new(name(1, 1), &body("first"), 1000).unwrap(), Put::Created);
        assert_eq!(store.put_new(name(1, 1), &body("another"), 3000).unwrap(), Put::Exists);
        let folder = directory.path().join("new/place/ltx/0");
        std::fs::write(folder.join("notes.txt"), "of somebody else").unwrap();
        let listed = store.list(Level::SHIPMENTS).unwrap();
        assert_eq!(
            listed.iter().map(|file| (file.name, file.bytes)).collect::<Vec<_>>(),
            [(name(1, 1), 5), (name(2, 2), 6)]
        );
        assert_eq!(store.get(name(1, 1), 1..3).unwrap().unwrap(), b"ir");
        assert_eq!(store.get(name(1, 1), 3..99).unwrap().unwrap(), b"st");
        assert_eq!(store.get(name(3, 3), 0..9).unwrap(), None);
        let modified = std::fs::metadata(store.path(name(1, 1))).unwrap().modified().unwrap();
        assert_eq!(modified, SystemTime::UNIX_EPOCH + Duration::from_secs(1));
        store.delete(&[name(1, 1), name(9, 9)]).unwrap();
        assert_eq!(store.list(Level::SHIPMENTS).unwrap().len(), 1);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2, "no unfinished file stays");
    }
}
