//! Room in a log: written once before it is used, so that a commit into it changes no metadata.

use crate::file::{File, Result, total_bytes};
use std::io::IoSlice;
use std::ops::RangeInclusive;

/// Least and most bytes by which a file grows at a time; in between it doubles.
const GROWTH_BYTES: RangeInclusive<u64> = 16 * 1024..=256 * 1024;
/// Buffers in one write.
const BUFFERS_PER_WRITE: usize = 1024;

/// They are part of the library's file, so they are few.
static ZEROS: [u8; 4096] = [0; 4096];

/// Makes room for at least `end` bytes in a file of which `written` bytes were written before; returns how many are
/// now. A full disk is met here and not by a sync, after which nothing could be trusted. A disk without room for the
/// rounded length gets exactly what was asked for.
pub(crate) fn grow(file: &dyn File, written: u64, end: u64) -> Result<u64> {
    let len = allocate(file, written, end)?;
    let mut at = written;
    while at < len {
        let slices: Vec<IoSlice<'_>> = (at..len)
            .step_by(ZEROS.len())
            .take(BUFFERS_PER_WRITE)
            .map(|from| IoSlice::new(&ZEROS[..ZEROS.len().min((len - from) as usize)]))
            .collect();
        file.write_vectored_at(&slices, at)?;
        at += total_bytes(&slices);
    }
    Ok(len)
}

/// The same without a write, for bytes that are written before they are synced. The first ones of a file get exactly what
/// they take.
pub(crate) fn claim(file: &dyn File, written: u64, end: u64) -> Result<u64> {
    if written == 0 {
        return file.allocate(end).map(|()| end);
    }
    allocate(file, written, end)
}

/// Allocates at least `end` bytes, and more where the disk has room; answers how many.
fn allocate(file: &dyn File, written: u64, end: u64) -> Result<u64> {
    let step = written.clamp(*GROWTH_BYTES.start(), *GROWTH_BYTES.end());
    let generous = end.next_multiple_of(*GROWTH_BYTES.start()).max(written + step);
    match file.allocate(generous) {
        Ok(()) => Ok(generous),
        Err(_) => file.allocate(end).map(|()| end),
    }
}
