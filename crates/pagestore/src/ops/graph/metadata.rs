//! The metadata page of a graph; its layout is drawn in the module above.

use super::vector::pages_for;
use crate::ops::{Error, Extents, Result};

const MAGIC: &[u8; 8] = b"lf-graph";
const VERSION: u32 = 1;
/// Of a graph whose nodes have ids of their own.
const VERSION_IDS: u32 = 2;
const CHECKSUM_AT: usize = 20;
const CHECKED_FROM: usize = 24;
const COUNTS_AT: usize = 40;
const RANGES_AT: usize = 56;
const RANGE_BYTES: usize = 16;

/// The content of the metadata page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Metadata {
    /// True if nodes have ids of their own, and are not numbered from 0.
    pub has_ids: bool,
    pub id_bytes: usize,
    pub nodes: u64,
    pub edges: u64,
    pub first_neighbor: Extents,
    pub neighbors: Extents,
    pub new_number: Extents,
    pub old_number: Extents,
}

fn u32_at(page: &[u8], at: usize) -> u32 {
    page[at..at + 4].iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

fn u64_at(page: &[u8], at: usize) -> u64 {
    page[at..at + 8].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Of all bytes but the checksum's own.
fn checksum(page: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&page[..CHECKSUM_AT]), &page[CHECKED_FROM..])
}

impl Metadata {
    pub fn is_at(page: &[u8]) -> bool {
        page.starts_with(MAGIC)
    }

    pub fn vectors(&self) -> [&Extents; 4] {
        [&self.first_neighbor, &self.neighbors, &self.new_number, &self.old_number]
    }

    /// The bytes of the page, as many as are used.
    pub fn encode(&self, page_bytes: usize) -> Result<Vec<u8>> {
        let pieces = self.vectors().iter().map(|extents| extents.ranges().len()).sum();
        let most = (page_bytes - RANGES_AT) / RANGE_BYTES;
        if pieces > most {
            return Err(Error::Fragmented { pieces, most });
        }
        let mut page = Vec::with_capacity(RANGES_AT + pieces * RANGE_BYTES);
        page.extend_from_slice(MAGIC);
        let version = if self.has_ids { VERSION_IDS } else { VERSION };
        for number in [version, page_bytes as u32, self.id_bytes as u32, 0] {
            page.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.nodes, self.edges] {
            page.extend_from_slice(&number.to_le_bytes());
        }
        for extents in self.vectors() {
            page.extend_from_slice(&(extents.ranges().len() as u32).to_le_bytes());
        }
        for range in self.vectors().into_iter().flat_map(Extents::ranges) {
            page.extend_from_slice(&range.start.to_le_bytes());
            page.extend_from_slice(&(range.end - range.start).to_le_bytes());
        }
        let checksum = checksum(&page);
        page[CHECKSUM_AT..CHECKED_FROM].copy_from_slice(&checksum.to_le_bytes());
        Ok(page)
    }

    pub fn read(page: &[u8], page_bytes: usize) -> Result<Metadata> {
        let no = |what: &str| Error::NotAGraph(what.to_owned());
        if page.len() < RANGES_AT || &page[..8] != MAGIC {
            return Err(no("the page for its metadata holds something else"));
        }
        let has_ids = match u32_at(page, 8) {
            VERSION => false,
            VERSION_IDS => true,
            version => return Err(Error::NotAGraph(format!("its format has the version {version}"))),
        };
        let counts: [usize; 4] = std::array::from_fn(|vector| u32_at(page, COUNTS_AT + vector * 4) as usize);
        let pieces = counts.iter().try_fold(0usize, |sum, count| sum.checked_add(*count));
        let end = pieces.and_then(|pieces| pieces.checked_mul(RANGE_BYTES)).map(|bytes| bytes + RANGES_AT);
        let end = end.filter(|end| *end <= page.len()).ok_or_else(|| no("its metadata is cut off"))?;
        if checksum(&page[..end]) != u32_at(page, CHECKSUM_AT) {
            return Err(no("the checksum of its metadata is wrong"));
        }
        if u32_at(page, 12) as usize != page_bytes {
            return Err(no("it was stored with another page size"));
        }
        let id_bytes = u32_at(page, 16) as usize;
        let (nodes, edges) = (u64_at(page, 24), u64_at(page, 32));
        let mut at = RANGES_AT;
        let [first_neighbor, neighbors, new_number, old_number] = counts.map(|count| {
            let ranges = page[at..at + count * RANGE_BYTES].chunks_exact(RANGE_BYTES);
            at += count * RANGE_BYTES;
            let mut extents = Extents::new();
            for range in ranges {
                let (start, count) = (u64_at(range, 0), u64_at(range, 8));
                extents.push_range(start..start.saturating_add(count));
            }
            extents
        });
        let metadata =
            Metadata { has_ids, id_bytes, nodes, edges, first_neighbor, neighbors, new_number, old_number };
        if metadata.is_sound(page_bytes) { Ok(metadata) } else { Err(no("its metadata contradicts itself")) }
    }

    /// True if every vector has the pages that its entries need.
    fn is_sound(&self, page_bytes: usize) -> bool {
        if ![4, 8].contains(&self.id_bytes) || self.nodes == u64::MAX {
            return false;
        }
        let needs = |entries| pages_for(entries, self.id_bytes, page_bytes);
        let new_numbers = if self.new_number.is_empty() { 0 } else { needs(self.nodes) };
        let old_numbers = if self.has_ids { needs(self.nodes) } else { new_numbers };
        let expected = [needs(self.nodes + 1), needs(self.edges), new_numbers, old_numbers];
        self.vectors().map(Extents::len) == expected
    }
}
