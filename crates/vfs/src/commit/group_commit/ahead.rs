//! Writing pages ahead of their materialization, while commits go on.

use super::{CommitPages, GroupCommit};
use crate::commit::pages_ahead::{PAGES_PER_WRITE, PagesAhead, pays};
use litefoot_storage::file;

impl GroupCommit {
    /// Writes pages that the deltas have changed ahead to the redo log. Then it waits until the records up to now are durable. So the
    /// materialization, which keeps commits waiting, has little left to do. One thread at a time does this.
    pub fn write_ahead(&self, pages: CommitPages<'_>) {
        // The materialization writes what is not ahead. It meets a full disk again, and a latch that is closed.
        if self.write_rounds(pages).is_ok_and(|rounds| rounds > 0) {
            let _ = match self.not_durable() {
                Some(lsn) => self.wait_durable(pages, lsn),
                // Commits that wait for no sync go on meanwhile.
                None => self.flush(),
            };
        }
    }

    /// Writes pages ahead, in rounds; answers how many.
    fn write_rounds(&self, pages: CommitPages<'_>) -> file::Result<usize> {
        let mut rounds = 0;
        while let Some(list) = self.next_round(pages, rounds) {
            for part in list.chunks(PAGES_PER_WRITE) {
                if !self.write_part(pages, part)? {
                    return Ok(rounds);
                }
            }
            rounds += 1;
        }
        if rounds > 0 {
            self.with_ahead(|ahead| ahead.frames.sync())?;
        }
        Ok(rounds)
    }

    /// The pages of a round; `None` where no other one pays.
    fn next_round(&self, pages: CommitPages<'_>, rounds: usize) -> Option<Vec<(u32, usize)>> {
        let end = {
            let writer = self.busy_writer();
            if !writer.has_deltas() {
                return None;
            }
            if rounds == 0 {
                let begun = writer.redo.begin_ahead();
                *self.ahead.lock() = begun.map(|frames| PagesAhead::new(frames, writer.logged));
            }
            writer.delta_end
        };
        let frames = pages.frames.read();
        let mut ahead = self.ahead.lock();
        let list = ahead.as_mut().map(|ahead| ahead.look(&frames, end)).unwrap_or_default();
        pays(rounds, list.len()).then(|| list.into_iter().collect())
    }

    /// Writes some pages of a round; `false` where somebody has materialized the records meanwhile.
    fn write_part(&self, pages: CommitPages<'_>, part: &[(u32, usize)]) -> file::Result<bool> {
        let frames = pages.frames.read();
        self.with_ahead(|ahead| {
            ahead.copy(part, &frames, pages.data)?;
            drop(frames);
            ahead.frames.write()
        })
    }

    /// Does something with the pages ahead, which are dropped where that fails; `false` where there are none any more. Whoever
    /// materializes the records waits meanwhile.
    fn with_ahead(&self, work: impl FnOnce(&mut PagesAhead) -> file::Result<()>) -> file::Result<bool> {
        let mut place = self.ahead.lock();
        let Some(mut ahead) = place.take() else { return Ok(false) };
        work(&mut ahead)?;
        *place = Some(ahead);
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
