//! Early pages: pages that were in the data file before the log got a transaction. They are the transaction's own, or those of
//! commits before it that were written in place.
//!
//! # Why
//! The log has no image of them. So it is worth nothing beside a data file that lacks them: an older copy, which somebody
//! has put in the place of the file. A transaction with early pages therefore says which they are, and what is in them.
//! They are durable before the transaction is, and stay until the log is void. So a crash always leaves them.
//!
//! # Bytes
//! The page in a frame whose page number is 2^32 - 1, big-endian. No database has that page: SQLite's last is 2^32 - 2. SQLite
//! looks at no frame of a page behind the end of the database.
//!
//! ```text
//! 0                   16            20        24
//! | "litefoot: early\n" | page number | CRC-32C | page number | CRC-32C | … zeros
//! ```
//!
//! # Invariant
//! An early page is awaited in the data file as long as no frame of a later transaction has the page, and none has cut the
//! database before it. A checkpoint writes no other page of the data file.

use crate::file::{File, Result, runs};
use std::collections::BTreeMap;

/// The page number of a frame with early pages.
pub(super) const EARLY_PAGES: u32 = u32::MAX;

const MAGIC: &[u8; 16] = b"litefoot: early\n";
/// Bytes of a page number and its checksum.
const ENTRY_BYTES: usize = 8;

/// A page that is in the data file already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlyPage {
    /// Its number.
    pub number: u32,
    /// The CRC-32C of its bytes.
    pub sum: u32,
}

/// Reads pages of a data file, in order by number, as early pages; those that it does not have as a whole are left out.
///
/// # Errors
/// Errors of reading.
pub fn early_pages(data: &dyn File, numbers: &[u32], page_bytes: u32) -> Result<Vec<EarlyPage>> {
    let mut early = Vec::with_capacity(numbers.len());
    if numbers.is_empty() {
        return Ok(early);
    }
    let mut buffer = Vec::new();
    for run in runs(numbers, page_bytes as usize, |number| u64::from(*number)) {
        buffer.resize(run.len() * page_bytes as usize, 0);
        let read = data.read_at(&mut buffer, u64::from(run[0].saturating_sub(1)) * u64::from(page_bytes))?;
        let pages = run.iter().zip(buffer[..read].chunks_exact(page_bytes as usize));
        early.extend(pages.map(|(number, page)| EarlyPage { number: *number, sum: crc32c::crc32c(page) }));
    }
    Ok(early)
}

/// Early pages that fit into one frame.
fn pages_per_frame(page_bytes: u32) -> usize {
    (page_bytes as usize - MAGIC.len()) / ENTRY_BYTES
}

/// Frames that so many early pages take.
pub fn early_frames(pages: usize, page_bytes: u32) -> usize {
    if pages == 0 { 0 } else { pages.div_ceil(pages_per_frame(page_bytes)) }
}

/// Fills the page of the frame of this index.
pub(super) fn encode(pages: &[EarlyPage], frame: usize, page: &mut [u8]) {
    let count = pages_per_frame(page.len() as u32);
    let (magic, entries) = page.split_at_mut(MAGIC.len());
    magic.copy_from_slice(MAGIC);
    entries.fill(0);
    let listed = pages.iter().skip(frame * count);
    for (early, entry) in listed.zip(entries.chunks_exact_mut(ENTRY_BYTES)) {
        entry[..4].copy_from_slice(&early.number.to_be_bytes());
        entry[4..].copy_from_slice(&early.sum.to_be_bytes());
    }
}

/// The early pages that such a page lists.
pub(super) fn decode(page: &[u8]) -> impl Iterator<Item = EarlyPage> {
    let entries = page.strip_prefix(MAGIC).unwrap_or_default().chunks_exact(ENTRY_BYTES);
    let word = |entry: &[u8], at: usize| {
        u32::from_be_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]])
    };
    entries
        .map(move |entry| EarlyPage { number: word(entry, 0), sum: word(entry, 4) })
        .take_while(|early| early.number > 0)
}

/// The early pages that a log awaits in its data file, with their checksums.
#[derive(Debug, Default)]
pub(super) struct AwaitedPages(BTreeMap<u32, u32>);

impl AwaitedPages {
    /// True where the log says everything itself.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn contains(&self, number: u32) -> bool {
        self.0.contains_key(&number)
    }

    /// Takes up a transaction: its early pages, the pages that it has frames of, and the size of the database after it.
    pub fn commit(
        &mut self,
        early: impl IntoIterator<Item = EarlyPage>,
        logged: impl IntoIterator<Item = u32>,
        database_pages: u32,
    ) {
        self.0.extend(early.into_iter().map(|page| (page.number, page.sum)));
        if self.is_empty() {
            return;
        }
        for number in logged {
            self.0.remove(&number);
        }
        self.0.split_off(&database_pages.saturating_add(1));
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The pages, in order.
    pub fn pages(&self) -> Vec<EarlyPage> {
        self.0.iter().map(|(number, sum)| EarlyPage { number: *number, sum: *sum }).collect()
    }

    /// True if the data file has all of them.
    pub fn are_in(&self, data: &dyn File, page_bytes: u32) -> Result<bool> {
        let numbers: Vec<u32> = self.0.keys().copied().collect();
        Ok(early_pages(data, &numbers, page_bytes)? == self.pages())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{FileKind, Medium, OpenMode};
    use crate::sim::SimMedium;
    use std::path::Path;

    #[test]
    fn a_list_takes_as_many_frames_as_it_needs_and_reads_back() {
        for (pages, page_bytes, frames) in
            [(0, 512, 0), (1, 512, 1), (62, 512, 1), (63, 512, 2), (510, 4096, 1), (511, 4096, 2)]
        {
            let early: Vec<EarlyPage> =
                (1..=pages).map(|number| EarlyPage { number, sum: number ^ 0xabcd_0000 }).collect();
            assert_eq!(early_frames(early.len(), page_bytes), frames, "{pages} {page_bytes}");
            let mut page = vec![7; page_bytes as usize];
            let mut read = Vec::new();
            for frame in 0..frames {
                encode(&early, frame, &mut page);
                read.extend(decode(&page));
            }
            assert_eq!(read, early);
        }
        assert_eq!(decode(&[1; 512]).count(), 0, "no list");
        assert_eq!(decode(b"short").count(), 0);
    }

    #[test]
    fn a_page_is_awaited_until_a_frame_has_it_or_the_database_ends_before_it() {
        // Early pages, logged pages, and the size of the database; the pages awaited then.
        type Step<'a> = (&'a [u32], &'a [u32], u32, &'a [u32]);
        let steps: [Step<'_>; 6] = [
            (&[], &[1, 2], 4, &[]),
            (&[5, 6, 7], &[1, 3], 7, &[5, 6, 7]),
            (&[], &[1, 6], 7, &[5, 7]),
            (&[9, 10], &[1, 10], 10, &[5, 7, 9]),
            (&[], &[1], 6, &[5]),
            (&[7], &[], u32::MAX, &[5, 7]),
        ];
        let mut awaited = AwaitedPages::default();
        for (early, logged, database_pages, expected) in steps {
            let early = early.iter().map(|number| EarlyPage { number: *number, sum: 0 });
            awaited.commit(early, logged.iter().copied(), database_pages);
            let numbers: Vec<u32> = awaited.pages().iter().map(|page| page.number).collect();
            assert_eq!((numbers.as_slice(), awaited.len()), (expected, expected.len()));
            assert_eq!(
                (awaited.contains(5), awaited.is_empty()),
                (expected.contains(&5), expected.is_empty())
            );
        }
        awaited.clear();
        assert!(awaited.is_empty());
    }

    #[test]
    fn pages_are_in_a_file_only_whole_and_as_they_were() {
        const PAGE: usize = 512;
        let file =
            SimMedium::default().open(Path::new("/a"), FileKind::Database, OpenMode::CreateNew).unwrap();
        file.write_at(&[[1; PAGE], [2; PAGE], [3; PAGE]].concat(), 0).unwrap();
        let found = |pages: &[(u32, u8)]| {
            let early = pages.iter().map(|(number, byte)| {
                let sum = crc32c::crc32c(&[*byte; PAGE]);
                EarlyPage { number: *number, sum }
            });
            let mut awaited = AwaitedPages::default();
            awaited.commit(early, [], 9);
            awaited.are_in(&*file, PAGE as u32).unwrap()
        };
        for (pages, expected) in [
            (&[][..], true),
            (&[(2, 2), (3, 3)], true),
            (&[(1, 1), (3, 3)], true),
            (&[(2, 2), (3, 4)], false),
            (&[(3, 3), (4, 0)], false),
        ] {
            assert_eq!(found(pages), expected, "{pages:?}");
        }
        file.set_len(3 * PAGE as u64 - 1).unwrap();
        assert!(!found(&[(3, 3)]), "cut");
    }
}
