//! Superseded frames: the page of a frame that no reader can ask for leaves memory.
//!
//! A log that is checkpointed seldom has many versions of the same few pages. SQLite reads only one of them: the newest
//! one up to the last frame that a reader sees.
//!
//! # Invariants
//! 1. The page of frame `f` is freed once a frame `g > f` of the same page is published, and everybody sees `g`: each
//!    reader, each checkpoint, and whoever begins later. A transaction is published when SQLite can take it back no more:
//!    the next writer has begun, or the commit is done.
//! 2. So each use of the log finds its pages:
//!    - a reader takes the newest frame of a page up to its own last one, which is not below `g`;
//!    - a checkpoint takes the newest frame of a page that it sees, and leaves it out where a reader's mark is lower;
//!    - a materialization takes the newest committed frame of a page, which nothing supersedes;
//!    - a record of page deltas is made before its transaction is published, from the newest frame before it;
//!    - a transaction that SQLite spills or rolls back touches frames behind `committed` only;
//!    - a snapshot is refused by the wal-index (`sync/wal_index_marks.rs`), as after a checkpoint.
//! 3. A recovery of the log reads every frame to check its sums. No reader is there then, so the content of a freed page
//!    counts for nothing: the sums are made anew, over zeros.
//! 4. A freed page that is asked for all the same is an error, and never zeros.
//! 5. Frames below `settled` were looked at. What they supersede is freed, or lies outside of memory.

use crate::txn::wal_frames::WalFrames;

impl WalFrames {
    /// True where a frame below `to` supersedes another that was not freed.
    pub fn has_superseded(&self, to: usize) -> bool {
        (self.settled..to.min(self.committed)).any(|number| self.versions.previous(number).is_some())
    }

    /// Frees the pages that frames below `to` supersede. Everybody sees these frames.
    pub fn free_superseded(&mut self, to: usize) {
        let to = to.min(self.committed);
        for number in self.settled..to {
            if let Some(previous) = self.versions.previous(number) {
                self.bytes.free(previous);
                self.unshare_frames(previous..previous + 1);
                self.superseded += 1;
            }
        }
        self.settled = self.settled.max(to);
    }

    /// The frames that everybody sees where an older version of their pages was freed.
    pub fn freed_below(&self) -> usize {
        self.settled
    }

    /// Frames, and the bytes of the pages that are not superseded, wherever these lie.
    pub fn counts(&self) -> (usize, usize) {
        (self.frames.len(), (self.frames.len() - self.superseded) * self.page_bytes())
    }

    /// True where pages of frames were freed.
    pub fn has_freed(&self) -> bool {
        self.bytes.freed() > 0
    }

    /// A commit was taken back: what it supersedes counts again. It was never published, so nothing was freed for it.
    pub(super) fn unsettle(&mut self, first: usize) {
        debug_assert!(self.settled <= first, "a published transaction is taken back");
        self.settled = self.settled.min(first);
    }
}

#[cfg(test)]
mod tests {
    use crate::txn::wal_frames::tests::{data, frames, offset, write_filled, write_frame};
    use crate::txn::wal_frames::{Transaction, WalFrames};
    use litefoot_storage::wal_file::format::{FRAME_HEADER_BYTES, HEADER_BYTES, Header};
    use proptest::prelude::*;

    const PAGE: usize = 512;

    fn header() -> [u8; HEADER_BYTES] {
        Header::first(PAGE as u32, None).encode().0
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// A transaction of these pages, which is published, or revoked.
        Commit {
            pages: Vec<u32>,
            is_published: bool,
        },
        /// One that writes these pages and rolls back.
        RollBack(Vec<u32>),
        /// A reader begins.
        Begin,
        /// The reader of a number ends.
        End(usize),
        /// Pages that nobody can ask for are freed.
        Free,
        /// The log is recovered: there is no reader.
        Recover,
        Restart,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let pages = || prop::collection::vec(1..7_u32, 1..5);
        let step = prop_oneof![
            8 => (pages(), any::<u8>())
                .prop_map(|(pages, byte)| Step::Commit { pages, is_published: byte % 8 > 0 }),
            1 => pages().prop_map(Step::RollBack),
            3 => Just(Step::Begin),
            3 => (0..9_usize).prop_map(Step::End),
            6 => Just(Step::Free),
            1 => Just(Step::Recover),
            1 => Just(Step::Restart),
        ];
        prop::collection::vec(step, 1..50)
    }

    fn byte(frames: &WalFrames, number: usize) -> Option<u8> {
        let mut page = [0; PAGE];
        let read = frames.copy_page(number, &mut page, &*data());
        read.ok().map(|()| page[0])
    }

    proptest! {
        #[test]
        fn whoever_may_ask_for_a_page_finds_it(steps in steps()) {
            let mut frames = frames();
            frames.write(&header(), 0, &*data()).unwrap();
            // Each frame's page and byte; what readers see; and the number of the next byte.
            let (mut plain, mut readers): (Vec<(u32, u8)>, Vec<usize>) = (Vec::new(), Vec::new());
            let mut next = 0_u8;
            for step in steps {
                match step {
                    Step::Commit { pages, is_published } => {
                        let (first, end) = (plain.len(), plain.len() + pages.len());
                        let versions: Vec<(u32, u8)> = pages.iter().map(|page| {
                            next = next.wrapping_add(1);
                            (*page, next)
                        }).collect();
                        for (index, (page, byte)) in versions.iter().enumerate() {
                            let size = if first + index + 1 == end { 9 } else { 0 };
                            write_filled(&mut frames, first + index, *page, size, *byte);
                        }
                        if is_published {
                            plain.extend(versions);
                        } else {
                            // The pages before it are there, as long as it may be taken back.
                            for (page, _) in &versions {
                                let before = plain.iter().rposition(|(other, _)| other == page);
                                prop_assert_eq!(frames.newest_before(*page, first), before);
                                prop_assert_eq!(before.map(|frame| byte(&frames, frame)),
                                    before.map(|frame| Some(plain[frame].1)));
                            }
                            frames.revoke(Transaction { first, end });
                        }
                    }
                    Step::RollBack(pages) => {
                        for (index, page) in pages.iter().enumerate() {
                            write_filled(&mut frames, plain.len() + index, *page, 0, 255);
                        }
                    }
                    Step::Begin => readers.push(plain.len()),
                    Step::End(number) => {
                        if number < readers.len() {
                            readers.remove(number);
                        }
                    }
                    Step::Free => {
                        let to = readers.iter().copied().min().unwrap_or(usize::MAX).min(plain.len());
                        let seen = &plain[..to];
                        let superseded = (0..to)
                            .any(|at| at >= frames.settled && seen[..at].iter().any(|other| other.0 == seen[at].0));
                        prop_assert_eq!(frames.has_superseded(to), superseded);
                        frames.free_superseded(to);
                        // Of the frames that everybody sees, only the newest of each page are in memory.
                        for at in 0..to {
                            let is_newest = !seen[at + 1..].iter().any(|other| other.0 == seen[at].0);
                            prop_assert!(is_newest || !frames.is_in_memory(at), "frame {}", at);
                        }
                    }
                    Step::Recover => {
                        readers.clear();
                        frames.rebuild_checksums(&*data()).unwrap();
                        prop_assert!(!frames.has_freed());
                        prop_assert!((0..plain.len()).all(|frame| byte(&frames, frame).is_some()));
                    }
                    Step::Restart => {
                        readers.clear();
                        frames.write(&header(), 0, &*data()).unwrap();
                        plain.clear();
                        prop_assert!(!frames.has_freed());
                    }
                }
                // Every reader, and one that begins now, finds the newest version that it sees of each page.
                for sees in readers.iter().copied().chain([plain.len()]) {
                    for page in 1..7 {
                        let Some(frame) = plain[..sees].iter().rposition(|(other, _)| *other == page) else { continue };
                        prop_assert_eq!(byte(&frames, frame), Some(plain[frame].1), "page {} of {}", page, sees);
                    }
                }
                let (count, live) = frames.counts();
                prop_assert!(live <= count * PAGE && count >= plain.len());
            }
        }
    }

    #[test]
    fn a_freed_page_is_an_error_and_costs_no_memory() {
        let mut frames = frames();
        frames.write(&header(), 0, &*data()).unwrap();
        for number in 0..100 {
            write_frame(&mut frames, number, 3, 9);
        }
        let before = frames.memory_bytes();
        frames.free_superseded(100);
        assert_eq!(before - frames.memory_bytes(), 99 * PAGE);
        assert_eq!(frames.counts(), (100, PAGE));
        let mut bytes = vec![0; PAGE];
        let error = frames.copy_page(4, &mut bytes, &*data()).unwrap_err();
        assert!(error.to_string().contains("frame 5 of the write-ahead log"), "{error}");
        // Its header is there; SQLite's next frame goes on from the sum in the last one.
        assert!(frames.read(&mut [0; FRAME_HEADER_BYTES], offset(4), &*data()).is_ok());
        assert!(frames.read(&mut bytes, offset(4), &*data()).is_err());
        frames.rebuild_checksums(&*data()).unwrap();
        assert_eq!(byte(&frames, 4), Some(0));
        assert_eq!(byte(&frames, 99), Some(3));
        assert!(frames.memory_bytes() < before - 98 * PAGE);
    }
}
