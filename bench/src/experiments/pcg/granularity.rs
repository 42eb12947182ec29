//! What a write costs by its length: the paper's figure 5.
//!
//! A file whose space is written already is written again from end to end, by requests of one length. `cached` goes
//! through the system's page cache, and a sync follows the last request; `direct` goes past it, so that each request
//! reaches the device as it is.

use super::Task;
use crate::harness::{Progress, median, median_ratio, take_turns};
use crate::report::Figures;
use crate::{Error, Result};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

/// Lengths of a request, in KiB; ratios are over the last.
const LENGTHS: [usize; 8] = [4, 8, 16, 32, 64, 128, 256, 512];
const MOST_BYTES: usize = 512 << 10;
/// Alignment of memory that any device takes past the cache.
const ALIGNMENT: usize = 4096;
const GIB: f64 = (1u64 << 30) as f64;

pub fn run(task: &Task<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    let path = task.directory.join("written");
    let failed = |source| Error::Directory { path: path.clone(), source };
    let bytes = Buffer::new();
    let file = File::create(&path).map_err(failed)?;
    write(&file, bytes.get(MOST_BYTES), task.sizes.file_bytes).map_err(failed)?;
    drop(file);
    for (way, flags) in [("cached", 0), ("direct", libc::O_DIRECT)] {
        progress.begin(&format!("writes, {way}"), (LENGTHS.len() * task.sizes.rounds) as u64);
        let Some(file) = open(&path, flags, &bytes).map_err(failed)? else {
            figures.note("direct writes were left out: the file system refuses them");
            continue;
        };
        let seconds = take_turns(&LENGTHS, task.sizes.rounds, |_, length| {
            let begun = Instant::now();
            write(&file, bytes.get(length << 10), task.sizes.file_bytes).map_err(failed)?;
            progress.advance(1)?;
            Ok(begun.elapsed().as_secs_f64() * GIB / task.sizes.file_bytes as f64)
        })?;
        let longest = &seconds[LENGTHS.len() - 1];
        for (length, seconds) in LENGTHS.iter().zip(&seconds) {
            figures.set(format!("write_s_per_gib.{way}.{length}k"), median(seconds.iter().copied()));
            figures.set(format!("ratio.write_over_512k.{way}.{length}k"), median_ratio(seconds, longest));
        }
    }
    std::fs::remove_file(&path).map_err(failed)
}

/// The file, once a first request was taken; nothing where the file system refuses the flags.
fn open(path: &Path, flags: i32, bytes: &Buffer) -> std::io::Result<Option<File>> {
    let refused = |error: &std::io::Error| error.raw_os_error() == Some(libc::EINVAL);
    let opened = OpenOptions::new().write(true).custom_flags(flags).open(path);
    match opened.and_then(|file| file.write_all_at(bytes.get(ALIGNMENT), 0).map(|()| file)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if flags != 0 && refused(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The whole file, by requests of the slice's length; durable at the end.
fn write(file: &File, bytes: &[u8], file_bytes: u64) -> std::io::Result<()> {
    let mut offset = 0;
    while offset < file_bytes {
        file.write_all_at(bytes, offset)?;
        offset += bytes.len() as u64;
    }
    file.sync_data()
}

/// Aligned memory.
struct Buffer {
    begin: usize,
    bytes: Vec<u8>,
}

impl Buffer {
    fn new() -> Buffer {
        let bytes = vec![0x5a; MOST_BYTES + ALIGNMENT];
        Buffer { begin: bytes.as_ptr().align_offset(ALIGNMENT), bytes }
    }

    fn get(&self, length: usize) -> &[u8] {
        &self.bytes[self.begin..self.begin + length]
    }
}
