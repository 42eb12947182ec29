//! The encoder: from changed pages to a payload.

use super::{PAGE_BITS, page_sum, ranges, varint};

/// So many pages are encoded before the encoder asks whether it pays to go on.
const SAMPLE_PAGES: usize = 16;
/// Least bytes of a payload: page size, and two numbers.
const LEAST_BYTES: usize = 3;
/// Least bytes of a page in a payload: number, length, the sum after.
const LEAST_PAGE_BYTES: usize = 6;
/// What the encoder keeps of the order from one commit to the next; the other buffers have a page each.
const KEPT_BYTES: usize = 256 << 10;

/// A page that a transaction has changed.
#[derive(Clone, Copy, Debug)]
pub struct ChangedPage<'a> {
    /// Its number, from 1.
    pub number: u32,
    /// Its version before the transaction; none if it is new, or if it would cost a read.
    pub before: Option<&'a [u8]>,
    /// Its version after the transaction.
    pub after: &'a [u8],
}

/// Encodes the pages of transactions, and keeps its buffers from one to the next.
#[derive(Debug, Default)]
pub struct Encoder {
    /// Indexes of the pages in the order of their numbers, where they come in another one.
    order: Vec<u32>,
    /// The ranges of the page that is encoded.
    body: Vec<u8>,
    /// Its ranges without its old version.
    plain: Vec<u8>,
    /// A page of zeros.
    zeros: Vec<u8>,
}

impl Encoder {
    /// Appends the payload of a transaction to `out`, and answers its bytes.
    ///
    /// None, with `out` as before, where pages are better written as they are: the payload would have more than
    /// `most_bytes`, or a sample of the pages is more than half as large as they are. None, too, for pages that no
    /// payload can have: of other lengths than `page_bytes`, a power of two of 512 to 65,536; twice the same; number 0.
    pub fn encode(
        &mut self,
        page_bytes: usize,
        database_pages: u32,
        pages: &[ChangedPage<'_>],
        most_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let start = out.len();
        let encoded = self.append(page_bytes, database_pages, pages, most_bytes, out);
        if encoded.is_none() {
            out.truncate(start);
        }
        self.order.shrink_to(KEPT_BYTES / size_of::<u32>());
        encoded.map(|()| out.len() - start)
    }

    fn append(
        &mut self,
        page_bytes: usize,
        database_pages: u32,
        pages: &[ChangedPage<'_>],
        most_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let bits = page_bytes.is_power_of_two().then(|| page_bytes.trailing_zeros())?;
        let fits = |page: &ChangedPage<'_>| {
            page.after.len() == page_bytes && page.before.is_none_or(|before| before.len() == page_bytes)
        };
        let least = pages.len().saturating_mul(LEAST_PAGE_BYTES).saturating_add(LEAST_BYTES);
        let valid = PAGE_BITS.contains(&bits) && least <= most_bytes && pages.iter().all(fits);
        if !valid {
            return None;
        }
        self.zeros.resize(page_bytes, 0);
        self.sort(pages);
        let start = out.len();
        out.push(bits as u8);
        varint::put(out, database_pages);
        varint::put(out, u32::try_from(pages.len()).ok()?);
        let mut last = 0;
        for index in 0..pages.len() {
            let page = self.order.get(index).map_or(index, |sorted| *sorted as usize);
            let page = &pages[page];
            // Numbers ascend from 1: a number that comes twice ends here, and 0.
            varint::put(out, page.number.checked_sub(last).filter(|step| *step > 0)?);
            last = page.number;
            self.append_page(page, out);
            let (encoded, count) = (out.len() - start, index + 1);
            let pays = count != SAMPLE_PAGES || encoded <= count * page_bytes / 2;
            if encoded > most_bytes || !pays {
                return None;
            }
        }
        Some(())
    }

    /// Appends a page, behind its number.
    fn append_page(&mut self, page: &ChangedPage<'_>, out: &mut Vec<u8>) {
        self.body.clear();
        if let Some(before) = page.before {
            ranges::encode(before, page.after, &mut self.body);
        }
        let mut before = page.before;
        // Whatever differs a lot may be mostly zeros, and at worst it goes whole.
        if before.is_none() || self.body.len() > page.after.len() / 2 {
            self.plain.clear();
            ranges::encode(&self.zeros, page.after, &mut self.plain);
            if before.is_none() || self.plain.len() <= self.body.len() {
                std::mem::swap(&mut self.body, &mut self.plain);
                before = None;
            }
        }
        varint::put(out, (self.body.len() as u32) << 1 | u32::from(before.is_some()));
        if let Some(before) = before {
            out.extend_from_slice(&page_sum(before).to_le_bytes());
        }
        out.extend_from_slice(&page_sum(page.after).to_le_bytes());
        out.extend_from_slice(&self.body);
    }

    /// Puts the pages in the order of their numbers, in which they usually are.
    fn sort(&mut self, pages: &[ChangedPage<'_>]) {
        self.order.clear();
        if !pages.is_sorted_by_key(|page| page.number) {
            self.order.extend(0..pages.len() as u32);
            self.order.sort_unstable_by_key(|index| pages[*index as usize].number);
        }
    }
}
