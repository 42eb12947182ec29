//! The system's files, read past the system's cache: whoever reads has only the memory that it was given.

use litefoot_storage::file::{File, FileKind, Medium, OpenMode, Result};
use litefoot_storage::os::OsMedium;
use litefoot_storage::pass_on;
use std::path::Path;
use std::sync::Arc;

/// The alignment of addresses, offsets and lengths.
const ALIGNMENT: usize = 4096;

/// Files of the operating system of which databases are read directly. Where the file system has no direct reads the
/// system's cache serves as ever.
pub struct DirectReads(OsMedium);

impl DirectReads {
    pub fn new() -> DirectReads {
        DirectReads(OsMedium::new())
    }
}

impl Medium for DirectReads {
    pass_on!(0: delete, rename, info, list, sync_directory, absolute);

    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        let file = self.0.open(path, kind, mode)?;
        match (kind, mode, file.raw_descriptor()) {
            (
                FileKind::Database,
                OpenMode::ReadOnly | OpenMode::ReadWrite | OpenMode::Create,
                Some(descriptor),
            ) => {
                // SAFETY: a plain system call on an open descriptor. Where it is refused nothing has changed.
                let _ = unsafe { libc::fcntl(descriptor, libc::F_SETFL, libc::O_DIRECT) };
                Ok(Arc::new(DirectFile(file)))
            }
            _ => Ok(file),
        }
    }
}

/// A database that is only read: writes pass as they are.
struct DirectFile(Arc<dyn File>);

impl File for DirectFile {
    pass_on!(0: write_vectored_at, write_durable_at, sync, len, set_len, allocate);
    pass_on!(0: stamp, set_stamp, id, birth, path, lock_range, lock_holder, guarantees);

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let before = offset as usize % ALIGNMENT;
        let aligned = (before + buf.len()).next_multiple_of(ALIGNMENT);
        // SQLite's memory is not aligned.
        let mut memory = vec![0; aligned + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let read = self.0.read_at(&mut memory[start..start + aligned], offset - before as u64)?;
        let found = read.saturating_sub(before).min(buf.len());
        buf[..found].copy_from_slice(&memory[start + before..][..found]);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_a_file_is_read_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let bytes: Vec<u8> = (0..20_000u32).map(|number| (number % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = DirectReads::new().open(&path, FileKind::Database, OpenMode::ReadWrite).unwrap();
        for (offset, len) in [(0, 100), (24, 16), (4096, 4096), (4000, 9000), (19_990, 100), (30_000, 10)] {
            let mut buf = vec![0; len];
            let read = file.read_at(&mut buf, offset as u64).unwrap();
            let expected = &bytes[offset.min(bytes.len())..(offset + len).min(bytes.len())];
            assert_eq!(&buf[..read], expected, "{offset} {len}");
        }
    }
}
