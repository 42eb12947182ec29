//! The owner's end of a member's turn to write in WAL mode: with it come the frames that the member is going to read.
//!
//! # Why
//! A member has the pages that it has read, by their frames (`kept_frames`). Those that others have changed since it would ask for, one after the
//! other. The owner knows which pages it has asked for before.
//!
//! # Invariants
//! 1. The frames count: the member has the write slot, and nobody commits meanwhile.
//! 2. What is remembered and what is sent is bounded.

use super::{Answer, Served, unexpected};
use crate::error::Result;
use crate::files::group::batch::{Frames, MOST_NEWS_BYTES, encode_page};
use crate::files::group::protocol::{Call, FileOf};
use crate::files::group::statement;
use crate::sync::wal_index::SeenLog;
use std::collections::{BTreeSet, VecDeque};

/// Pages that are remembered.
const MOST_WANTED: usize = 32;
/// Frames that are looked at.
const MOST_FRAMES: u32 = 512;

/// The pages that a member has asked for last.
#[derive(Default)]
pub(super) struct Wanted(VecDeque<u32>);

impl Wanted {
    fn note(&mut self, page: u32) {
        self.0.retain(|other| *other != page);
        self.0.push_front(page);
        self.0.truncate(MOST_WANTED);
    }
}

impl Served {
    /// Notes which page a member has asked for.
    pub(super) fn note_read(&mut self, file: FileOf, offset: u64, bytes: usize) {
        if self.memory.is_none() || !bytes.is_power_of_two() || bytes < 512 {
            return;
        }
        let page = match file {
            FileOf::Journal => None,
            FileOf::Wal => SeenLog::frame_at(offset, bytes)
                .and_then(|frame| self.database.wal_index().page_of_frame(frame)),
            FileOf::Main => u32::try_from(offset / bytes as u64).ok().and_then(|page| page.checked_add(1)),
        };
        page.into_iter().for_each(|page| self.wanted.note(page));
    }

    /// Takes the write slot for a member that has not read yet.
    pub(super) fn take_turn(&mut self, call: &Call<'_>) -> Result<Answer> {
        let (_, statement) = statement::decode(call.data.first().copied().unwrap_or(1));
        let main = self.main()?;
        main.note_statement(statement);
        main.note_seat_read(None);
        let has_turn = main.take_turn();
        let bytes = if has_turn { self.bring_frames(call.a, call.b) } else { 0 };
        Ok(Answer { bytes, ..Answer::flag(has_turn) })
    }

    /// Puts the newest frames of wanted pages into the buffer, those behind the last frame that the member has seen; answers their bytes.
    fn bring_frames(&mut self, salts: u64, through: u64) -> usize {
        let index = self.database.wal_index();
        let Some((log, wal)) = index.seen_log().zip(self.database.wal()) else { return 0 };
        if !log.page_bytes.is_power_of_two() || log.page_bytes < 512 {
            return 0;
        }
        let through = if salts == log.salts { u32::try_from(through).unwrap_or(u32::MAX) } else { 0 };
        let first = through.max(log.last.saturating_sub(MOST_FRAMES));
        let (mut message, mut found) = (std::mem::take(&mut self.buffer), BTreeSet::new());
        message.clear();
        Frames::encode(log.salts, log.page_bytes, &mut message);
        for frame in (first..log.last).rev().map(|before| before + 1) {
            let Some(page) = index.page_of_frame(frame) else { break };
            if !self.wanted.0.contains(&page) || !found.insert(page) {
                continue;
            }
            let begin = message.len();
            let read = encode_page(frame, log.page_bytes, &mut message, |bytes| {
                let count = wal.read(self.database.db(), bytes, log.page_of(frame))?;
                if count == bytes.len() { Ok(()) } else { Err(unexpected()) }
            });
            if read.is_err() {
                message.truncate(begin);
            }
            if message.len() >= MOST_NEWS_BYTES {
                break;
            }
        }
        let bytes = message.len();
        self.buffer = message;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_asked_for_last_are_wanted() {
        let mut wanted = Wanted::default();
        (0..MOST_WANTED as u32 + 1).for_each(|page| wanted.note(page));
        wanted.note(1);
        assert!(!wanted.0.contains(&0) && wanted.0.front() == Some(&1) && wanted.0.len() == MOST_WANTED);
    }
}
