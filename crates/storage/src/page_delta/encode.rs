//! The encoder: from changed pages to a payload.

use super::search::{self, Index, Sources};
use super::{BATCH_PAGES, FORM_BITS, Form, PAGE_BITS, page_sum, ranges, varint};

/// Bytes of all pages together up to which ranges are taken at once: they fit into a block of the medium with room to
/// spare, and to look for copies takes longer. The part of a page of that.
const FEW_BYTES: usize = 1600;
const FEW_SHARE: usize = 10;
/// The same for copies that were found without an index: changes in place, and arrays of pointers that move. Beyond this
/// the index pays.
const MOST_SIMPLE_BYTES: usize = 3200;
const SIMPLE_SHARE: usize = 5;

/// Batches are to be smaller than their pages by this factor: with less the search for copies takes longer than to write
/// the pages.
const LEAST_RATIO: usize = 2;
/// Least bytes of a payload: page size, and two numbers.
const LEAST_BYTES: usize = 3;
/// Least bytes of a page in a payload: number, length, the sum after.
const LEAST_PAGE_BYTES: usize = 6;
/// Bytes of the order that the encoder keeps from one commit to the next; the other buffers have a batch each.
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
    /// The pages of a batch as far as they are encoded without a dictionary, one behind the other.
    bodies: Vec<u8>,
    /// The copies of a page.
    copies: Vec<u8>,
    /// Where copies are looked for.
    index: Index,
    /// A page of zeros.
    zeros: Vec<u8>,
}

/// The draft of a page.
#[derive(Clone, Copy, Debug)]
struct Draft {
    /// Where its body is.
    start: usize,
    end: usize,
    form: Form,
    /// True if it has to be encoded with the dictionary.
    is_large: bool,
}

impl Encoder {
    /// Appends the payload of a transaction to `out`, and answers its bytes.
    ///
    /// None, with `out` as before, where pages are better written as they are: the payload would have more than
    /// `most_bytes`, or the first batches, of 16 pages each, take more than half of their pages. None, too, for
    /// pages that no payload can have: of other lengths than `page_bytes`, a power of two of 512 to 65,536; twice the
    /// same; number 0.
    pub fn encode(
        &mut self,
        page_bytes: usize,
        database_pages: u32,
        pages: &[ChangedPage<'_>],
        most_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let bits = page_bytes.is_power_of_two().then(|| page_bytes.trailing_zeros())?;
        let least = pages.len().saturating_mul(LEAST_PAGE_BYTES).saturating_add(LEAST_BYTES);
        let fits = |page: &ChangedPage<'_>| {
            page.after.len() == page_bytes && page.before.is_none_or(|before| before.len() == page_bytes)
        };
        if !PAGE_BITS.contains(&bits) || least > most_bytes || !pages.iter().all(fits) {
            return None;
        }
        let start = out.len();
        out.push(bits as u8);
        varint::put(out, database_pages);
        varint::put(out, pages.len() as u32);
        self.zeros.resize(page_bytes, 0);
        let encoded = self.append(pages, start.saturating_add(most_bytes), out);
        self.order.shrink_to(KEPT_BYTES / size_of::<u32>());
        if encoded.is_none() {
            out.truncate(start);
        }
        encoded.map(|()| out.len() - start)
    }

    /// Appends all pages, up to `most` bytes of `out`.
    fn append<'a>(&mut self, pages: &[ChangedPage<'a>], most: usize, out: &mut Vec<u8>) -> Option<()> {
        self.sort(pages);
        let (start, mut last) = (out.len(), 0);
        for first in (0..pages.len()).step_by(BATCH_PAGES) {
            let count = BATCH_PAGES.min(pages.len() - first);
            let mut batch = [&pages[first]; BATCH_PAGES];
            for (index, page) in batch.iter_mut().enumerate().take(count) {
                let sorted = self.order.get(first + index).map_or(first + index, |sorted| *sorted as usize);
                *page = &pages[sorted];
            }
            last = self.append_batch(&batch[..count], last, most, out)?;
            // Where pages are better written as they are, no more time is spent.
            let encoded = first + count;
            if count == BATCH_PAGES && out.len() - start > encoded * self.zeros.len() / LEAST_RATIO {
                return None;
            }
        }
        Some(())
    }

    /// Appends the pages of a batch behind page number `last`, and answers the number of its last one.
    fn append_batch<'a>(
        &mut self,
        batch: &[&ChangedPage<'a>],
        mut last: u32,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Option<u32> {
        let mut drafts = [Draft { start: 0, end: 0, form: Form::New, is_large: false }; BATCH_PAGES];
        let mut sources = Sources::new(self.zeros.len());
        let (mut slots, mut large) = (0, 0);
        self.bodies.clear();
        for (draft, page) in drafts.iter_mut().zip(batch) {
            *draft = self.draft(page, batch.len());
            if let (Form::Copies, Some(before)) = (draft.form, page.before) {
                sources.push(before);
                large |= u32::from(draft.is_large) << slots;
                slots += 1;
            }
        }
        if drafts.iter().any(|draft| draft.is_large) {
            self.index.begin(&sources, large);
        }
        let mut slot = 0;
        for (draft, page) in drafts.iter().zip(batch) {
            // Numbers ascend from 1: a number that comes twice ends here, and 0.
            varint::put(out, page.number.checked_sub(last).filter(|step| *step > 0)?);
            last = page.number;
            self.append_page(page, draft, slot, &mut sources, most, out)?;
            slot += usize::from(draft.form == Form::Copies);
        }
        Some(last)
    }

    /// Appends a page behind its number; the dictionary has it, or has all pages before it, at `slot`.
    fn append_page<'a>(
        &mut self,
        page: &ChangedPage<'a>,
        draft: &Draft,
        slot: usize,
        sources: &mut Sources<'a>,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let (mut form, mut body) = (draft.form, &self.bodies[draft.start..draft.end]);
        if draft.is_large {
            self.copies.clear();
            let is_new = form == Form::New;
            let most = if is_new { body.len() } else { most.saturating_sub(out.len()) };
            let index = Some(&mut self.index);
            match search::encode(page.after, slot, sources, index, most, &mut self.copies) {
                Some(()) => (form, body) = (if is_new { Form::NewCopies } else { form }, &self.copies),
                None if is_new => {}
                None => return None,
            }
        }
        varint::put(out, (body.len() as u32) << FORM_BITS | form as u32);
        if let Some(before) = page.before.filter(|_| form.has_before()) {
            out.extend_from_slice(&page_sum(before).to_le_bytes());
        }
        out.extend_from_slice(&page_sum(page.after).to_le_bytes());
        out.extend_from_slice(body);
        (out.len() <= most).then_some(())
    }

    /// Encodes a page, one of so many, as far as that is possible without a dictionary.
    fn draft(&mut self, page: &ChangedPage<'_>, pages: usize) -> Draft {
        let start = self.bodies.len();
        ranges::encode(page.before.unwrap_or(&self.zeros), page.after, &mut self.bodies);
        let end = self.bodies.len();
        let length = end - start;
        let few = (FEW_BYTES / pages).min(page.after.len() / FEW_SHARE);
        let simple = (MOST_SIMPLE_BYTES / pages).min(page.after.len() / SIMPLE_SHARE);
        let is_large = length > simple;
        let Some(before) = page.before else { return Draft { start, end, form: Form::New, is_large } };
        // Ranges of more bytes do not become so few without an index.
        if length > few && length <= 2 * simple {
            let mut own = Sources::new(before.len());
            own.push(before);
            let most = simple.min(length - 1);
            if search::encode(page.after, 0, &mut own, None, most, &mut self.bodies).is_some() {
                return Draft { start: end, end: self.bodies.len(), form: Form::Copies, is_large: false };
            }
            self.bodies.truncate(end);
        }
        Draft { start, end, form: if is_large { Form::Copies } else { Form::Ranges }, is_large }
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
