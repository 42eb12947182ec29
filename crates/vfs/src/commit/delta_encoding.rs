//! Delta encoding: a transaction as the payload of a record of page deltas.
//!
//! # Why
//! A delta needs the version of a page before the transaction. SQLite has read that version just now. So it is in the log
//! in memory, or among the pages of earlier deltas, or in the data file and the system's cache. A page of which it is not
//! at hand, and a new page, has none.
//!
//! # Invariants
//! 1. A version from the data file is the committed one: a page without a frame in SQLite's log, or without a version among
//!    the pages of earlier deltas, is written there by nobody.
//! 2. No version is taken from behind the end of the database, where the file may hold bytes of a transaction that was
//!    rolled back.

use crate::txn::dirty_pages::DirtyPages;
use crate::txn::spiller::PageBytes;
use crate::txn::wal_frames::{Transaction, WalFrames};
use litefoot_storage::file::File;
use litefoot_storage::page_delta::{ChangedPage, Encoder};
use std::collections::BTreeMap;

/// Most pages of a transaction that is logged as deltas.
pub(crate) const MOST_PAGES: usize = 256;
/// More bytes than a record has for each page besides the page.
const PAGE_HEADER_BYTES: usize = 32;
/// Bytes of the buffer for old versions that are kept from one commit to the next.
const KEPT_BYTES: usize = 128 * 1024;

/// Bytes from which a payload is handed over without a copy.
const COPIED_BYTES: usize = 4096;
/// Pages whose checksums are remembered, a power of two.
const REMEMBERED_PAGES: usize = 1024;

/// Encodes the transactions of one database, one at a time.
#[derive(Default)]
pub(crate) struct DeltaEncoding {
    encoder: Encoder,
    /// Old versions that were read from the data file.
    old: Vec<u8>,
    /// The newest frame of each page of the transaction.
    frames: Vec<(u32, usize)>,
    before: Vec<Before>,
    payload: Vec<u8>,
    sums: PageSums,
}

/// Where the version of a page before the transaction is.
#[derive(Clone, Copy)]
enum Before {
    Nowhere,
    Frame(usize),
    /// Among the pages of earlier deltas.
    Newest,
    /// At this place of the buffer.
    Old(usize),
}

/// Checksums of pages as the last transactions have left them. A version is told by the write that made it: no other one
/// has its number.
#[derive(Default)]
struct PageSums(Vec<(u64, u32)>);

impl PageSums {
    fn get(&self, page_number: u32, write: u64) -> Option<u32> {
        let (known, sum) = *self.0.get(page_number as usize % REMEMBERED_PAGES)?;
        (known == write && write > 0).then_some(sum)
    }

    fn put(&mut self, page_number: u32, write: u64, sum: u32) {
        self.0.resize(REMEMBERED_PAGES, (0, 0));
        self.0[page_number as usize % REMEMBERED_PAGES] = (write, sum);
    }
}

impl DeltaEncoding {
    /// The payload of a transaction whose pages are all in memory; `None` where pages are to be logged.
    pub fn encode(
        &mut self,
        frames: &WalFrames,
        data: &dyn File,
        transaction: Transaction,
    ) -> Option<Vec<u8>> {
        let page_bytes = frames.page_bytes();
        frames.newest_into(transaction, &mut self.frames);
        if self.frames.len() > MOST_PAGES {
            return None;
        }
        self.find_versions_before(frames, data, transaction)?;
        let mut changed = Vec::with_capacity(self.frames.len());
        for ((number, frame), before) in self.frames.iter().zip(&self.before) {
            let (before, before_sum) = match *before {
                Before::Nowhere | Before::Newest => (None, None),
                Before::Frame(frame) => {
                    (frames.page_in_memory(frame), self.sums.get(*number, frames.last_write(frame)))
                }
                Before::Old(at) => (Some(&self.old[at..at + page_bytes]), None),
            };
            changed.push(ChangedPage {
                number: *number,
                before,
                before_sum,
                after: frames.page_in_memory(*frame)?,
            });
        }
        self.payload.clear();
        // A commit of pages would end the generation, and the next ones would be pages, too.
        let most_bytes = changed.len() * (page_bytes + PAGE_HEADER_BYTES);
        let pages_after = frames.database_pages_at(transaction.end);
        let encoded = self.encoder.encode(page_bytes, pages_after, &changed, most_bytes, &mut self.payload);
        if encoded.is_some() {
            for ((number, frame), sum) in self.frames.iter().zip(self.encoder.sums()) {
                self.sums.put(*number, frames.last_write(*frame), *sum);
            }
        }
        self.payload_of(encoded)
    }

    /// The payload of a rollback-journal transaction whose pages are all in memory; `None` where pages are to be logged.
    /// `newest` are the versions of pages that the data file does not have yet.
    pub fn encode_dirty(
        &mut self,
        dirty: &DirtyPages,
        newest: &BTreeMap<u32, PageBytes>,
        data: &dyn File,
    ) -> Option<Vec<u8>> {
        let page_bytes = dirty.page_bytes();
        let pages_before = u32::try_from(dirty.base_len() / page_bytes as u64).ok()?;
        let pages_after = u32::try_from(dirty.len().div_ceil(page_bytes as u64)).ok()?;
        self.before.clear();
        let mut at = 0;
        for (number, _) in dirty.newest() {
            self.before.push(match newest.get(&number) {
                _ if number > pages_before => Before::Nowhere,
                Some(_) => Before::Newest,
                None => old_version(&mut self.old, &mut at, data, page_bytes, number),
            });
        }
        let changed = dirty.newest().zip(&self.before).map(|((number, after), before)| {
            let before = match *before {
                Before::Newest => newest.get(&number).map(|page| &**page),
                Before::Old(at) => Some(&self.old[at..at + page_bytes]),
                Before::Nowhere | Before::Frame(_) => None,
            };
            ChangedPage { number, before, before_sum: None, after }
        });
        let changed: Vec<ChangedPage<'_>> = changed.collect();
        self.payload.clear();
        let most_bytes = changed.len() * (page_bytes + PAGE_HEADER_BYTES);
        let encoded = self.encoder.encode(page_bytes, pages_after, &changed, most_bytes, &mut self.payload);
        self.payload_of(encoded)
    }

    /// The payload that was encoded, where one was; the buffers stay small.
    fn payload_of(&mut self, encoded: Option<usize>) -> Option<Vec<u8>> {
        // A small one is copied to its exact length; to copy a large one takes longer than to make room for the next.
        let payload = encoded.map(|bytes| match bytes {
            ..COPIED_BYTES => self.payload.as_slice().to_vec(),
            _ => std::mem::take(&mut self.payload),
        });
        self.old.truncate(KEPT_BYTES);
        self.old.shrink_to(KEPT_BYTES);
        payload
    }

    /// Finds the version before the transaction of each of its pages.
    fn find_versions_before(
        &mut self,
        frames: &WalFrames,
        data: &dyn File,
        transaction: Transaction,
    ) -> Option<()> {
        let page_bytes = frames.page_bytes();
        let pages_before = pages_before(frames, data, transaction)?;
        self.before.clear();
        let mut at = 0;
        for (number, _) in &self.frames {
            let before = match frames.newest_before(*number, transaction.first) {
                Some(frame) if frames.page_in_memory(frame).is_some() => Before::Frame(frame),
                Some(_) => Before::Nowhere,
                None if *number > pages_before => Before::Nowhere,
                None => old_version(&mut self.old, &mut at, data, page_bytes, *number),
            };
            self.before.push(before);
        }
        Some(())
    }
}

/// Reads the version of a page in the data file into a buffer, in use up to `at`, where it costs no read of the device.
fn old_version(old: &mut Vec<u8>, at: &mut usize, data: &dyn File, page_bytes: usize, number: u32) -> Before {
    let place = *at;
    // What it had last is overwritten, or not used.
    old.resize(old.len().max(place + page_bytes), 0);
    match data.read_cached_at(&mut old[place..place + page_bytes], u64::from(number - 1) * page_bytes as u64)
    {
        Ok(Some(read)) if read == page_bytes => {
            *at += page_bytes;
            Before::Old(place)
        }
        _ => Before::Nowhere,
    }
}

/// Pages of the database before a transaction.
fn pages_before(frames: &WalFrames, data: &dyn File, transaction: Transaction) -> Option<u32> {
    match transaction.first {
        0 => u32::try_from(data.len().ok()? / frames.page_bytes() as u64).ok(),
        first => Some(frames.database_pages_at(first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::of_test::{Logs, PAGE};
    use litefoot_storage::page_delta::decode;

    fn encode(logs: &Logs, transaction: Transaction) -> Option<Vec<u8>> {
        let frames = logs.frames.read();
        DeltaEncoding::default().encode(&frames, &**logs.db.data(), transaction)
    }

    /// The pages of a payload: number, and if the version before is known.
    fn told(payload: &[u8]) -> Vec<(u32, bool)> {
        let delta = decode(payload).unwrap();
        delta.pages().map(|page| (page.number, page.before_sum.is_some())).collect()
    }

    #[test]
    fn a_version_before_comes_from_the_log_or_the_file_and_never_from_behind_the_end() {
        let logs = Logs::of_test(&[7; 4 * PAGE], 1 << 20);
        let first = logs.write_first_bytes(&[(2, 1), (3, 2), (2, 3)], 4);
        assert_eq!(told(&encode(&logs, first).unwrap()), [(2, true), (3, true)]);
        let second = logs.write_first_bytes(&[(2, 4), (5, 1)], 5);
        assert_eq!(told(&encode(&logs, second).unwrap()), [(2, true), (5, false)]);
    }

    #[test]
    fn a_remembered_checksum_is_of_the_version_that_was_written() {
        let logs = Logs::of_test(&[7; 4 * PAGE], 1 << 20);
        let mut encoding = DeltaEncoding::default();
        let mut encode = |transaction: Transaction| {
            let frames = logs.frames.read();
            let payload = encoding.encode(&frames, &**logs.db.data(), transaction).unwrap();
            let delta = decode(&payload).unwrap();
            delta.pages().map(|page| (page.before_sum, page.after_sum)).collect::<Vec<_>>()
        };
        let [first] = encode(logs.write_first_bytes(&[(2, 1)], 4))[..] else { panic!("one page") };
        let second = logs.write_first_bytes(&[(2, 2)], 4);
        let [told] = encode(second)[..] else { panic!("one page") };
        assert_eq!(told.0, Some(first.1));
        // The commit is taken back, and its frame is another one.
        logs.frames.write().revoke(second);
        let [other] = encode(logs.write_first_bytes(&[(2, 3)], 4))[..] else { panic!("one page") };
        assert_eq!(other.0, Some(first.1));
        assert_ne!(other.1, told.1);
        // Another page in its place, and a version that nobody has told of.
        encode(logs.write_first_bytes(&[(2, 4)], 4));
        let sums = &encoding.sums;
        assert!(sums.get(2, logs.frames.read().writes).is_some());
        assert_eq!(sums.get(2, logs.frames.read().writes - 1), None);
        assert_eq!(sums.get(2 + REMEMBERED_PAGES as u32, 0), None);
    }

    #[test]
    fn many_pages_are_no_delta() {
        let logs = Logs::of_test(&[7; 4 * PAGE], 1 << 20);
        let pages: Vec<(u32, u8)> = (1..=MOST_PAGES as u32 + 1).map(|number| (number, 1)).collect();
        let transaction = logs.write(&pages, pages.len() as u32);
        assert!(encode(&logs, transaction).is_none());
    }
}
