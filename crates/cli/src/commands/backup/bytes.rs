//! The copy of a database that changes more often than it can be copied: bytes, without SQLite.
//!
//! The file is copied without any lock first, torn as it may be. Then, under SQLite's read lock, the two files are compared, and what
//! differs is copied. Programs that write wait for a comparison, mostly in memory, and for few writes.
//!
//! # Invariants
//! 1. [`catch_up`] is called under the read lock of a rollback-journal mode, after SQLite has rolled back what was hot: the file
//!    is the database then.
//! 2. The descriptor was opened before SQLite's connection, and is closed after it: to close it sooner would take the
//!    connection's locks away (POSIX).

use super::target::Unfinished;
use litefoot_terminal::{Failure, interrupt};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are read at once. A Ctrl-C is heard between two chunks.
const CHUNK_BYTES: usize = 1 << 20;

/// Copies the file as it is, and syncs the copy: what is written later, under the lock, finds no other writes in its way.
pub fn copy(from: &File, path: &Path, unfinished: &Unfinished) -> Result<(), Failure> {
    let to = unfinished.file();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = 0;
    loop {
        interrupt::check()?;
        let read = read(from, &mut chunk, at).map_err(|error| Failure::file(path, error))?;
        to.write_all_at(&chunk[..read], at).map_err(|error| unfinished.cannot_write(&error))?;
        at += read as u64;
        if read < CHUNK_BYTES {
            return to.sync_data().map_err(|error| unfinished.cannot_write(&error));
        }
    }
}

/// Makes the copy equal to the first `bytes` of the file.
pub fn catch_up(from: &File, path: &Path, unfinished: &Unfinished, bytes: u64) -> Result<(), Failure> {
    let to = unfinished.file();
    let [mut there, mut here] = [vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]];
    to.set_len(bytes).map_err(|error| unfinished.cannot_write(&error))?;
    for at in (0..bytes).step_by(CHUNK_BYTES) {
        interrupt::check()?;
        let wanted = CHUNK_BYTES.min((bytes - at) as usize);
        from.read_exact_at(&mut there[..wanted], at).map_err(|error| Failure::file(path, error))?;
        to.read_exact_at(&mut here[..wanted], at).map_err(|error| unfinished.cannot_write(&error))?;
        if there[..wanted] != here[..wanted] {
            to.write_all_at(&there[..wanted], at).map_err(|error| unfinished.cannot_write(&error))?;
        }
    }
    Ok(())
}

/// Reads as much as there is.
fn read(from: &File, chunk: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < chunk.len() {
        match from.read_at(&mut chunk[done..], at + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_torn_copy_catches_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let old: Vec<u8> = (0..2 * CHUNK_BYTES + 500).map(|byte| byte as u8).collect();
        for len in [0, 300, CHUNK_BYTES, 2 * CHUNK_BYTES + 500, 3 * CHUNK_BYTES] {
            fs::write(&path, &old).unwrap();
            let from = File::open(&path).unwrap();
            let unfinished = Unfinished::within(directory.path().to_owned()).unwrap();
            copy(&from, &path, &unfinished).unwrap();
            let mut new = old.clone();
            new.resize(len, 7);
            new.iter_mut().step_by(4096).for_each(|byte| *byte = !*byte);
            fs::write(&path, &new).unwrap();
            catch_up(&from, &path, &unfinished, len as u64).unwrap();
            let mut copied = Vec::new();
            io::Read::read_to_end(&mut unfinished.file(), &mut copied).unwrap();
            assert!(copied == new, "{len}");
            assert!(catch_up(&from, &path, &unfinished, len as u64 + 1).is_err(), "{len}: it is cut short");
        }
    }
}
