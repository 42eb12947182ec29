//! The search for copies: from a page to its bytes as [`super::copies`] takes them apart.
//!
//! Copies are greedy. The search asks first where the last copy would go on, then at the page's own place, then the
//! index, which knows a place for each hash of a few bytes. Every copy is compared before it is taken, so an entry of
//! the index may be wrong, but not lead outside.

use super::ranges::{BLOCK_BYTES, is_equal};
use super::varint;

/// Most pages of a dictionary.
pub const MOST_PAGES: usize = 16;

const WORD_BYTES: usize = 8;
/// Bytes that are hashed: matches of fewer are not looked for.
const HASHED_BYTES: usize = 6;
/// Shortest copy that the index may lead to.
const LEAST_COPY: usize = 8;
/// Every so many places of the dictionary are indexed.
const INDEX_STEP: usize = 2;
/// The index has between 2^12 and 2^16 entries, of four bytes each.
const INDEX_BITS: std::ops::RangeInclusive<u32> = 12..=16;
/// The longer there was no copy, the fewer places are tried: one less for each 2^n bytes.
const PATIENCE_BITS: u32 = 6;

/// The sources of copies: the page's own bytes first, then the dictionary.
#[derive(Debug)]
pub struct Sources<'a> {
    /// Those that there are not are empty.
    pages: [&'a [u8]; MOST_PAGES + 1],
    dictionary: usize,
    page_bits: u32,
}

impl<'a> Sources<'a> {
    /// No dictionary yet, for pages of so many bytes, a power of two.
    pub fn new(page_bytes: usize) -> Sources<'a> {
        Sources { pages: [&[]; MOST_PAGES + 1], dictionary: 0, page_bits: page_bytes.trailing_zeros() }
    }

    /// Adds a page to the dictionary, which has room for one.
    pub fn push(&mut self, page: &'a [u8]) {
        self.dictionary += 1;
        self.pages[self.dictionary] = page;
    }

    /// The rest of a page from `address` on.
    fn find(&self, address: usize) -> Option<&'a [u8]> {
        let offset = address & ((1 << self.page_bits) - 1);
        self.pages.get(address >> self.page_bits)?.get(offset..)
    }

    fn word(&self, address: usize) -> Option<u64> {
        word(self.find(address)?)
    }

    /// True for the dictionary, and for bytes of the page before `at`.
    fn is_before(&self, address: usize, at: usize) -> bool {
        address >> self.page_bits > 0 || address < at
    }

    /// The address of a page of the dictionary.
    fn address(&self, slot: usize) -> usize {
        (slot + 1) << self.page_bits
    }

    /// The longest copy from `source` over the place `at`, and before it down to `end`. None where the bytes at
    /// `source` are not known before those at `at`.
    fn copy(&self, source: usize, at: usize, end: usize) -> Option<Copy> {
        if !self.is_before(source, at) {
            return None;
        }
        let (from, page) = (self.find(source)?, self.pages[0]);
        let bytes = equal_bytes(from, page.get(at..)?);
        let room = (source & ((1 << self.page_bits) - 1)).min(at - end);
        let before = self.find(source - room)?.get(..room)?;
        let equal = before.iter().rev().zip(page.get(..at)?.iter().rev());
        let back = equal.take_while(|(old, new)| old == new).count();
        Some(Copy { source: source - back, at: at - back, bytes: bytes + back })
    }
}

/// A copy that the search has found.
struct Copy {
    /// The address that it is taken from.
    source: usize,
    /// Where it goes.
    at: usize,
    bytes: usize,
}

/// The first word of `bytes`.
pub fn word(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|word| u64::from_le_bytes(*word))
}

/// So many bytes are equal at the beginning of both.
pub fn equal_bytes(old: &[u8], new: &[u8]) -> usize {
    let blocks = old.as_chunks().0.iter().zip(new.as_chunks().0);
    let mut at = blocks.take_while(|(old, new)| is_equal(old, new)).count() * BLOCK_BYTES;
    let words = old[at..].as_chunks::<WORD_BYTES>().0.iter().zip(new[at..].as_chunks::<WORD_BYTES>().0);
    for (old, new) in words {
        let differs = u64::from_le_bytes(*old) ^ u64::from_le_bytes(*new);
        if differs != 0 {
            return at + differs.trailing_zeros() as usize / 8;
        }
        at += WORD_BYTES;
    }
    at + old[at..].iter().zip(&new[at..]).take_while(|(old, new)| old == new).count()
}

/// The places of the dictionary, and of the page so far, by the hash of the bytes there. Kept from one use to the next.
#[derive(Debug, Default)]
pub struct Index {
    /// The address and one more; 0 where there is none.
    entries: Vec<u32>,
    /// The bits of a hash that are dropped.
    shift: u32,
}

impl Index {
    /// Forgets everything, and learns the places of the dictionary's pages whose bits are set in `which`.
    pub fn begin(&mut self, sources: &Sources<'_>, which: u32) {
        let places = (which.count_ones() << sources.page_bits) / INDEX_STEP as u32;
        let bits = places.max(1).ilog2().clamp(*INDEX_BITS.start(), *INDEX_BITS.end());
        self.shift = u64::BITS - bits;
        self.entries.clear();
        self.entries.resize(1 << bits, 0);
        for slot in (0..sources.dictionary).filter(|slot| which >> slot & 1 == 1) {
            let address = sources.address(slot);
            for (step, bytes) in sources.pages[slot + 1].windows(WORD_BYTES).step_by(INDEX_STEP).enumerate() {
                self.put(word(bytes).unwrap_or_default(), address + step * INDEX_STEP);
            }
        }
    }

    fn entry(&self, word: u64) -> usize {
        let hashed = word << (u64::BITS as usize - HASHED_BYTES * 8);
        (hashed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    fn put(&mut self, word: u64, address: usize) {
        let entry = self.entry(word);
        if let Some(known) = self.entries.get_mut(entry) {
            *known = address as u32 + 1;
        }
    }

    /// The place that was learned last of those that have the hash of `word`.
    fn get(&self, word: u64) -> Option<usize> {
        let known = self.entries.get(self.entry(word))?;
        Some(known.checked_sub(1)? as usize)
    }
}

/// Appends `page`, whose source is expected to begin in page `slot` of the dictionary. None once it takes more than `most`
/// bytes.
pub fn encode<'a>(
    page: &'a [u8],
    slot: usize,
    sources: &mut Sources<'a>,
    index: &mut Index,
    most: usize,
    out: &mut Vec<u8>,
) -> Option<()> {
    sources.pages[0] = page;
    let most = out.len().saturating_add(most);
    let own = sources.address(slot);
    // The end of the last copy, and the address where it would go on.
    let (mut end, mut expected) = (0, own);
    let mut at = 0;
    while let Some(word) = word(&page[at.min(page.len())..]) {
        let source = near(sources, word, [expected + at - end, own + at]).or_else(|| index.get(word));
        let copy = source.and_then(|source| sources.copy(source, at, end));
        match copy.filter(|copy| copy.bytes >= LEAST_COPY) {
            Some(copy) => {
                put_bytes(out, &page[end..copy.at]);
                varint::put(out, copy.bytes as u32);
                let distance = copy.source as i32 - (expected + copy.at - end) as i32;
                varint::put(out, (distance << 1 ^ distance >> 31) as u32);
                end = copy.at + copy.bytes;
                expected = copy.source + copy.bytes;
                at = end;
            }
            None => {
                index.put(word, at);
                at += 1 + ((at - end) >> PATIENCE_BITS);
            }
        }
        // Copies may still reach back over the bytes that there is none for: these count later.
        if out.len() > most {
            return None;
        }
    }
    if end < page.len() {
        put_bytes(out, &page[end..]);
    }
    (out.len() <= most).then_some(())
}

/// The first of `addresses` that has `word`.
fn near(sources: &Sources<'_>, word: u64, addresses: [usize; 2]) -> Option<usize> {
    addresses.into_iter().find(|address| sources.word(*address) == Some(word))
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::put(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}
