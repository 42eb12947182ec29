//! Whether a redo log belongs to the database that it lies beside.
//!
//! | database file | first sector | the log | verdict |
//! |---|---|---|---|
//! | any | any | no frame counts | nothing waits |
//! | empty | | any | foreign: SQLite takes the file for a new database |
//! | another file than then, and the log is the same file | any | any | foreign: another file has the name now |
//! | any | as it was when the log began | any | ours: no checkpoint has written page 1 |
//! | any | zeros, or less than a sector | begun upon an empty file | ours: the first commit, cut while it was completed |
//! | any | as an image of page 1 in the log, but for the counters, with a counter of this log's time | any | ours: a checkpoint was under way, or recovery |
//! | any | of the state that the first image follows, by one | begun by SQLite | ours: SQLite took the log over, and was killed |
//! | any | anything else | any | foreign: a copy of another time, or another database |
//!
//! # Invariants
//! 1. Whatever a power cut leaves of a database and its log is ours: while the log holds frames, the first sector is
//!    written by checkpoints only, which sync the log first.
//! 2. A counter of this log's time is one that a transaction of this log has given page 1: between that of an image and
//!    as many more as transactions follow it, or the image's own. So a copy of an earlier or of a later time is foreign.
//!
//! In WAL mode SQLite writes versions of page 1 that the log need not have. There only another file whose first sector the log
//! cannot explain is foreign; everything else is as with stock SQLite.

use super::log::{COUNTER_JUMP, COUNTERS, without_counters};
use crate::error::Result;
use crate::vfs::database::page_bytes_in;
use litefoot_engine::device::SECTOR_BYTES;
use litefoot_engine::log::RedoLog;
use litefoot_engine::log::redo::origin::content_of;

/// What a redo log is to the database that it lies beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing waits in it.
    Nothing,
    /// Its pages are the database's.
    Ours,
    /// It is another database's, or of another time.
    Foreign,
}

/// What `redo` is to its data file, whose first sector is `sector`.
pub fn judge(redo: &RedoLog, sector: &[u8], wal_mode: bool) -> Result<Verdict> {
    if redo.is_empty() {
        return Ok(if redo.is_understood() { Verdict::Nothing } else { Verdict::Foreign });
    }
    if sector.is_empty() {
        return Ok(Verdict::Foreign);
    }
    let moved_in = redo.names_another_file();
    let explained = explains(redo, sector)?;
    let ours = if wal_mode { !moved_in || explained } else { !moved_in && explained };
    Ok(if ours { Verdict::Ours } else { Verdict::Foreign })
}

/// Whether the log tells how the data file came to have this first sector.
fn explains(redo: &RedoLog, sector: &[u8]) -> Result<bool> {
    let Some(origin) = redo.origin() else { return Ok(false) };
    if origin.content == content_of(sector) {
        return Ok(true);
    }
    if origin.content == content_of(&[])
        && (sector.len() < SECTOR_BYTES || sector.iter().all(|byte| *byte == 0))
    {
        return Ok(true);
    }
    if sector.len() < SECTOR_BYTES {
        return Ok(false);
    }
    let counter = counter_of(sector);
    let mut image = [0; SECTOR_BYTES];
    for (number, found) in redo.page_one_images().iter().enumerate() {
        redo.read_frame(found.frame, &mut image)?;
        let logged = counter_of(&image);
        let follow = redo.transactions() - found.transaction;
        let of_its_time =
            counter == logged || counter.wrapping_sub(logged.wrapping_sub(COUNTER_JUMP)) < follow;
        if of_its_time && without_counters(sector) == without_counters(&image) {
            return Ok(true);
        }
        // A log of SQLite's own has no jump.
        let continues = number == 0 && logged == counter.wrapping_add(1);
        if continues && page_bytes_in(sector) == redo.page_bytes() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn counter_of(sector: &[u8]) -> u32 {
    let at = COUNTERS[0];
    u32::from_be_bytes([sector[at], sector[at + 1], sector[at + 2], sector[at + 3]])
}
