//! New pages of a large transaction, written into the database file before the commit that makes them count.
//!
//! A page behind the end of the database file is nobody's: whoever reads one that was committed finds it in the log. So a
//! transaction that adds many need not write them to the redo log first and to the file later: they go into the file,
//! which is synced, and then the rest of the transaction goes to the redo log, with the new size of the database.
//! A cut before that leaves a file that is longer than its header says, which SQLite bears with. When
//! SQLite checkpoints them, it finds them there ([`Database::write_unseen`]).
//!
//! # Why nothing undoes it
//! 1. The redo log has no version of such a page, which would hide it from whoever recovers.
//! 2. No transaction before this one has a version in SQLite's log that the redo log does not have: a checkpoint that knows
//!    of that one only could still write it to the file, over ours.
//! 3. A checkpoint that does not know of this transaction yet cannot cut the file ([`Database::note_needed`]).

use super::frames::Frames;
use crate::error::Result;
use crate::vfs::database::Database;
use litefoot_engine::device::runs;
use litefoot_engine::log::RedoLog;
use std::collections::BTreeMap;
use std::io::IoSlice;

/// A transaction that may be written like that.
pub struct Ahead<'a> {
    pub database: &'a Database,
    /// Its first frame.
    pub first: usize,
}

impl Ahead<'_> {
    /// Takes out of `newest` (page number and frame) the pages that are new, and writes them to the database file,
    /// durably; answers where the file ends then. `None` where all stay. The redo log has the frames before `logged`.
    pub fn write(
        &self,
        frames: &Frames,
        logged: usize,
        redo: &RedoLog,
        newest: &mut BTreeMap<u32, usize>,
    ) -> Result<Option<u64>> {
        let database = self.database;
        let page_bytes = frames.page_bytes();
        let end = database.file_len()?;
        let first = end.div_ceil(page_bytes as u64) as u32 + 1;
        let last = frames.database_pages();
        let before = frames.page_numbers(logged..self.first.max(logged));
        let is_new = |number: u32| {
            number >= first && number <= last && !redo.contains(number) && !before.contains(&number)
        };
        let new: Vec<(u32, usize)> = newest
            .range(first..)
            .filter(|(number, _)| is_new(**number))
            .map(|(number, frame)| (*number, *frame))
            .collect();
        // Something must be left that says that the transaction counts, and page 1 always is.
        if end == 0 || new.len() * page_bytes <= database.many_new_bytes() || !newest.contains_key(&1) {
            return Ok(None);
        }
        let mut buffer = Vec::new();
        let mut len = end;
        for run in runs(&new, page_bytes, |(number, _)| u64::from(*number)) {
            buffer.resize(run.len() * page_bytes, 0);
            for ((_, frame), page) in run.iter().zip(buffer.chunks_exact_mut(page_bytes)) {
                frames.copy_page(*frame, page)?;
            }
            let offset = u64::from(run[0].0 - 1) * page_bytes as u64;
            database.write_behind_end(&[IoSlice::new(&buffer)], offset, false)?;
            len = offset + buffer.len() as u64;
        }
        database.sync()?;
        newest.retain(|number, _| !is_new(*number));
        Ok(Some(len))
    }
}
