//! The log as SQLite wrote it, for a file: the same frames, salts and checksums.
//!
//! A wal-index that was made of the log in memory is true of that file. Readers find their frames in it, a writer appends behind the
//! last one, and recovery takes every frame.
//!
//! # Invariants
//! 1. Each frame is valid in the file. A frame that nobody can ask for may have another page there, with the same checksum: one whose
//!    page was freed (`superseded`), and one whose page lay in the database file until a checkpoint wrote a newer one or cut the file.
//! 2. A log that SQLite's own checksums do not hold together is not written: recovery would stop there. SQLite up to 3.51 leaves such
//!    a log where `ROLLBACK TO` has taken frames back ([`WalFrames::rebuild_checksums`]).

use super::{WalFrame, WalFrames};
use crate::txn::spill_map::SpillPlace;
use litefoot_storage::file::{self, File};
use litefoot_storage::wal_file::format::{FRAME_HEADER_BYTES, Header};

/// Bytes that are written at a time, at least.
const PART_BYTES: usize = 256 << 10;

impl WalFrames {
    /// Bytes of the log up to a frame.
    pub fn file_bytes(&self, frames: usize) -> u64 {
        self.bytes.offset_of(frames) as u64
    }

    /// Passes the first frames of the log to `put`, with its header, part by part in order; answers the checksum of the last one.
    /// `None` where the frames are not there, or do not hold together. `data` is the database file.
    pub fn whole_log(
        &self,
        frames: usize,
        data: &dyn File,
        put: &mut dyn FnMut(&[u8]) -> file::Result<()>,
    ) -> file::Result<Option<[u32; 2]>> {
        let Some((header, mut checksum)) = Header::decode(self.bytes.head()) else { return Ok(None) };
        if frames > self.committed || header.page_bytes as usize != self.page_bytes() {
            return Ok(None);
        }
        let mut part = Vec::with_capacity(PART_BYTES + header.frame_bytes());
        part.extend_from_slice(self.bytes.head());
        let mut page = vec![0; self.page_bytes()];
        for number in 0..frames {
            let mut head = [0; FRAME_HEADER_BYTES];
            self.bytes.read(&mut head, self.bytes.offset_of(number), data)?;
            if self.bytes.is_freed(number) {
                page = header.page_of_checksum(checksum, &head);
            } else {
                self.copy_page(number, &mut page, data)?;
            }
            let start = part.len();
            part.extend_from_slice(&head);
            part.extend_from_slice(&page);
            if header.decode_frame(checksum, &part[start..]).is_none() && self.has_left_the_file(number) {
                part[start + FRAME_HEADER_BYTES..].copy_from_slice(&header.page_of_checksum(checksum, &head));
            }
            let Some((_, _, next)) = header.decode_frame(checksum, &part[start..]) else { return Ok(None) };
            checksum = next;
            if part.len() >= PART_BYTES {
                put(&part)?;
                part.clear();
            }
        }
        put(&part)?;
        Ok(Some(checksum.words()))
    }

    /// True for a frame whose page lay in the database file, and may have left that: once no reader needs it, a checkpoint writes a newer
    /// one, or cuts the file.
    fn has_left_the_file(&self, number: usize) -> bool {
        let page = self.frames[number].page_number;
        let is_cut_off = |frame: &WalFrame| (1..page).contains(&frame.database_pages);
        matches!(self.bytes.spill_place(number), Some(SpillPlace::Database(_)))
            && (!self.versions.is_newest(number)
                || self.frames[number..self.committed].iter().any(is_cut_off))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{data, frames, offset};
    use super::*;
    use litefoot_storage::wal_file::format::HEADER_BYTES;

    const PAGE: usize = 512;

    /// Writes frames of these pages, each a transaction, as SQLite does; answers the log.
    fn written(frames: &mut WalFrames, pages: &[(u32, u8)]) -> Vec<u8> {
        let (bytes, mut checksum) = Header::first(PAGE as u32, None).encode();
        frames.write(&bytes, 0, &*data()).unwrap();
        let (decoded, _) = Header::decode(&bytes).unwrap();
        let mut log = bytes.to_vec();
        for (number, (page_number, byte)) in pages.iter().enumerate() {
            let page = [*byte; PAGE];
            let (head, next) = decoded.encode_frame(checksum, *page_number, 9, &page);
            frames.write(&head, offset(number), &*data()).unwrap();
            frames.write(&page, offset(number) + FRAME_HEADER_BYTES, &*data()).unwrap();
            log.extend_from_slice(&[&head[..], &page[..]].concat());
            checksum = next;
        }
        log
    }

    fn whole(frames: &WalFrames, count: usize) -> Option<(Vec<u8>, [u32; 2])> {
        whole_beside(frames, count, &*data())
    }

    /// The same where the database file is this one.
    fn whole_beside(frames: &WalFrames, count: usize, data: &dyn File) -> Option<(Vec<u8>, [u32; 2])> {
        let mut found = Vec::new();
        let mut put = |part: &[u8]| {
            found.extend_from_slice(part);
            Ok(())
        };
        let checksum = frames.whole_log(count, data, &mut put).unwrap();
        checksum.map(|checksum| (found, checksum))
    }

    /// Frames of a log that recovery takes, and the checksum of the last.
    fn valid(log: &[u8]) -> (usize, [u32; 2]) {
        let (header, mut checksum) = Header::decode(log).unwrap();
        let mut count = 0;
        for frame in log[HEADER_BYTES..].chunks(header.frame_bytes()) {
            let Some((_, _, next)) = header.decode_frame(checksum, frame) else { break };
            (checksum, count) = (next, count + 1);
        }
        (count, checksum.words())
    }

    #[test]
    fn the_log_is_the_one_that_sqlite_wrote() {
        let mut there = frames();
        let log = written(&mut there, &[(1, 1), (2, 2), (1, 3)]);
        for count in 0..=3 {
            let (found, checksum) = whole(&there, count).unwrap();
            assert_eq!(found, log[..offset(count)]);
            assert_eq!(valid(&found), (count, checksum));
        }
        assert_eq!(whole(&there, 4), None, "frames that are not there");
        assert_eq!(whole(&frames(), 0), None, "no log");
    }

    #[test]
    fn a_page_that_was_freed_leaves_a_frame_that_is_valid() {
        let mut there = frames();
        let pages: Vec<(u32, u8)> = (0..40).map(|number| (1 + number % 3, 1 + number as u8)).collect();
        let log = written(&mut there, &pages);
        there.free_superseded(38);
        let (found, checksum) = whole(&there, 40).unwrap();
        assert_eq!((valid(&found), valid(&log)), ((40, checksum), (40, checksum)));
        let frame = |log: &[u8], number: usize| log[offset(number)..offset(number + 1)].to_vec();
        for number in 0..40 {
            let (before, after) = (frame(&log, number), frame(&found, number));
            assert_eq!(before[..FRAME_HEADER_BYTES], after[..FRAME_HEADER_BYTES]);
            // The last frames of the three pages, and those that nobody has looked at.
            assert_eq!(before == after, number >= 35, "{number}");
        }
    }

    #[test]
    fn a_page_that_a_checkpoint_has_replaced_in_the_file_leaves_a_frame_that_is_valid() {
        let mut there = frames();
        let log = written(&mut there, &[(1, 1), (2, 2), (3, 3), (2, 4), (3, 5)]);
        let file = data();
        let put =
            |page: u32, byte: u8| file.write_at(&[byte; PAGE], u64::from(page - 1) * PAGE as u64).unwrap();
        for (number, page, byte) in [(1, 2, 2), (4, 3, 5)] {
            put(page, byte);
            there.bytes.mark_spilled(number, SpillPlace::Database(page));
        }
        assert_eq!(whole_beside(&there, 5, &*file).unwrap().0, log, "no checkpoint has come yet");
        put(2, 4);
        let (found, checksum) = whole_beside(&there, 5, &*file).unwrap();
        assert_eq!((valid(&found), valid(&log)), ((5, checksum), (5, checksum)));
        let differ =
            (0..5).filter(|number| found[offset(*number)..][..PAGE] != log[offset(*number)..][..PAGE]);
        assert_eq!(differ.collect::<Vec<_>>(), [1]);
        put(3, 6);
        assert_eq!(whole_beside(&there, 5, &*file), None, "nothing replaces the newest frame of a page");
    }

    #[test]
    fn a_page_behind_the_end_of_the_database_leaves_a_frame_that_is_valid() {
        for (size, is_valid) in [(8, true), (9, false)] {
            let mut there = frames();
            written(&mut there, &[(1, 1), (9, 2)]);
            let (header, checksum) = Header::decode(&there.bytes.head()[..]).unwrap();
            let mut log = vec![0; offset(2) - HEADER_BYTES];
            there.bytes.read(&mut log, HEADER_BYTES, &*data()).unwrap();
            let frames = log.chunks(header.frame_bytes());
            let last = frames.fold(checksum, |before, frame| header.decode_frame(before, frame).unwrap().2);
            let (head, _) = header.encode_frame(last, 1, size, &[3; PAGE]);
            there.write(&head, offset(2), &*data()).unwrap();
            there.write(&[3; PAGE], offset(2) + FRAME_HEADER_BYTES, &*data()).unwrap();
            there.bytes.mark_spilled(1, SpillPlace::Database(9));
            let file = data();
            file.set_len(8 * PAGE as u64).unwrap();
            let found = whole_beside(&there, 3, &*file);
            assert_eq!(found.map(|(found, _)| valid(&found).0), is_valid.then_some(3), "{size}");
        }
    }

    #[test]
    fn a_log_that_does_not_hold_together_is_not_written() {
        let mut there = frames();
        written(&mut there, &[(1, 1), (2, 2), (1, 3)]);
        there.bytes.write(&[7; 8], offset(1) + 16, &*data()).unwrap();
        assert!(whole(&there, 1).is_some() && whole(&there, 3).is_none());
        there.rebuild_checksums(&*data()).unwrap();
        assert!(whole(&there, 3).is_some());
    }
}
