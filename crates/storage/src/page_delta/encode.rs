//! The encoder: from changed pages to a payload.

use super::ranges::{self, Span};
use super::search::{self, Index, Sources};
use super::{BATCH_PAGES, FORM_BITS, Form, PAGE_BITS, page_sum, shifts, varint};

/// Bytes of a page's ranges up to which they are taken at once.
const FEW_BYTES: usize = 64;
/// Bytes of a payload that fit into a block of the medium, with all that a log adds. Up to there no index is made, and none
/// for a transaction of more than a batch, of which each page would take longer than it takes to write it.
const ONE_BLOCK_BYTES: usize = 3800;
/// Copies in place are taken where they save at least this part of the ranges' bytes.
const LEAST_GAIN_SHARE: usize = 8;
/// Least part of a page whose copies are looked for with an index.
const LARGE_SHARE: usize = 8;
/// An index pays where it leaves at most this part of the bytes of the pages that it was made for.
const INDEX_SHARE: usize = 2;
/// Most times that an index which has not paid doubles the batches without one.
const MOST_MISSES: u32 = 6;

/// Batches are to be smaller than their pages by this factor: with less the search for copies takes longer than to write
/// the pages.
const LEAST_RATIO: usize = 2;
/// Least bytes of a payload: page size, and two numbers.
const LEAST_BYTES: usize = 3;
/// Least bytes of a page in a payload: number, length, the sum after.
const LEAST_PAGE_BYTES: usize = 6;
/// Most bytes of a page in a payload besides its body: number, length, two sums.
const MOST_HEADER_BYTES: usize = 16;
/// Bytes of the order, and of the checksums, that the encoder keeps from one commit to the next; the other buffers have
/// a batch each.
const KEPT_BYTES: usize = 256 << 10;

/// A page that a transaction has changed.
#[derive(Clone, Copy, Debug)]
pub struct ChangedPage<'a> {
    /// Its number, from 1.
    pub number: u32,
    /// Its version before the transaction; none if it is new, or if it would cost a read.
    pub before: Option<&'a [u8]>,
    /// The checksum of that version, where it is known.
    pub before_sum: Option<u32>,
    /// Its version after the transaction.
    pub after: &'a [u8],
}

/// Encodes the pages of transactions, and keeps its buffers from one to the next.
#[derive(Debug, Default)]
pub struct Encoder {
    /// Indexes of the pages in the order of their numbers, where they come in another one.
    order: Vec<u32>,
    /// The ranges of the pages of a batch.
    spans: Vec<Span>,
    /// The copies in place of the pages of a batch, one behind the other.
    bodies: Vec<u8>,
    /// The copies of a page.
    copies: Vec<u8>,
    /// Where copies are looked for, and if that pays.
    index: Index,
    worth: IndexWorth,
    /// A page of zeros.
    zeros: Vec<u8>,
    /// The checksums of the versions after.
    sums: Vec<u32>,
}

/// The draft of a page.
#[derive(Clone, Copy, Debug)]
struct Draft {
    form: Form,
    /// Where its body is: of ranges their spans, of copies the bytes.
    start: usize,
    end: usize,
    /// Bytes of its body.
    bytes: usize,
    /// True if it has to be encoded with the index.
    is_large: bool,
}

/// If an index pays: where the last ones have found little, some batches go without.
#[derive(Debug, Default)]
struct IndexWorth {
    /// Indexes in a row that have not paid.
    misses: u32,
    /// Batches that go without one now.
    pause: u32,
}

impl IndexWorth {
    /// True if the next batch that could have an index has one.
    fn is_due(&mut self) -> bool {
        let due = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        due
    }

    /// An index has made pages of so many bytes smaller.
    fn note(&mut self, before: usize, after: usize) {
        self.misses = if after <= before / INDEX_SHARE { 0 } else { (self.misses + 1).min(MOST_MISSES) };
        self.pause = (1 << self.misses) - 1;
    }
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
        self.sums.clear();
        let encoded = self.append(pages, start.saturating_add(most_bytes), out);
        self.order.shrink_to(KEPT_BYTES / size_of::<u32>());
        self.sums.shrink_to(KEPT_BYTES / size_of::<u32>());
        if encoded.is_none() {
            out.truncate(start);
        }
        encoded.map(|()| out.len() - start)
    }

    /// The checksums of the versions after, of the pages that were encoded last, in the order of their numbers.
    pub fn sums(&self) -> &[u32] {
        &self.sums
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
            let may_have_index = pages.len() <= BATCH_PAGES;
            last = self.append_batch(&batch[..count], may_have_index, last, most, out)?;
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
        may_have_index: bool,
        mut last: u32,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Option<u32> {
        let mut drafts =
            [Draft { form: Form::New, start: 0, end: 0, bytes: 0, is_large: false }; BATCH_PAGES];
        let drafts = &mut drafts[..batch.len()];
        self.bodies.clear();
        self.spans.clear();
        for (draft, page) in drafts.iter_mut().zip(batch) {
            *draft = self.draft(page);
        }
        let least_large = self.zeros.len() / LARGE_SHARE;
        let (bytes, largest) = drafts.iter().fold((out.len(), 0), |(bytes, largest), draft| {
            (bytes + draft.bytes + MOST_HEADER_BYTES, draft.bytes.max(largest))
        });
        let has_index =
            may_have_index && bytes > ONE_BLOCK_BYTES && largest >= least_large && self.worth.is_due();
        let mut sources = Sources::new(self.zeros.len());
        let (mut slots, mut large) = (0, 0);
        for (draft, page) in drafts.iter_mut().zip(batch) {
            draft.is_large = has_index && draft.bytes >= least_large;
            let Some(before) = page.before.filter(|_| draft.is_large || draft.form == Form::Copies) else {
                continue;
            };
            draft.form = if draft.is_large { Form::Copies } else { draft.form };
            sources.push(before);
            large |= u32::from(draft.is_large) << slots;
            slots += 1;
        }
        if has_index {
            self.index.begin(&sources, large);
        }
        let (mut slot, mut found) = (0, (0, 0));
        for (draft, page) in drafts.iter().zip(batch) {
            // Numbers ascend from 1: a number that comes twice ends here, and 0.
            varint::put(out, page.number.checked_sub(last).filter(|step| *step > 0)?);
            last = page.number;
            let start = out.len();
            self.append_page(page, draft, slot, &mut sources, most, out)?;
            slot += usize::from(draft.form == Form::Copies);
            if draft.is_large {
                found = (found.0 + draft.bytes, found.1 + out.len() - start);
            }
        }
        if has_index {
            self.worth.note(found.0, found.1);
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
        let (mut form, mut bytes) = (draft.form, draft.bytes);
        let mut copies: Option<&[u8]> = None;
        if draft.is_large {
            self.copies.clear();
            let is_new = form == Form::New;
            let most = if is_new { bytes } else { most.saturating_sub(out.len()) };
            match search::encode(page.after, slot, sources, &mut self.index, most, &mut self.copies) {
                Some(()) => {
                    form = if is_new { Form::NewCopies } else { form };
                    (copies, bytes) = (Some(self.copies.as_slice()), self.copies.len());
                }
                None if is_new => {}
                None => return None,
            }
        } else if form == Form::Copies {
            copies = Some(&self.bodies[draft.start..draft.end]);
        }
        if out.len() + bytes > most {
            return None;
        }
        varint::put(out, (bytes as u32) << FORM_BITS | form as u32);
        if let Some(before) = page.before.filter(|_| form.has_before()) {
            let sum = page.before_sum.unwrap_or_else(|| page_sum(before));
            debug_assert_eq!(sum, page_sum(before), "another version of page {}", page.number);
            out.extend_from_slice(&sum.to_le_bytes());
        }
        let sum = page_sum(page.after);
        self.sums.push(sum);
        out.extend_from_slice(&sum.to_le_bytes());
        match copies {
            Some(copies) => out.extend_from_slice(copies),
            None => ranges::encode(&self.spans[draft.start..draft.end], page.after, out),
        }
        (out.len() <= most).then_some(())
    }

    /// Encodes a page as far as that is possible without a dictionary.
    fn draft(&mut self, page: &ChangedPage<'_>) -> Draft {
        let start = self.spans.len();
        let bytes = ranges::find(page.before.unwrap_or(&self.zeros), page.after, &mut self.spans);
        let form = if page.before.is_some() { Form::Ranges } else { Form::New };
        let ranges = Draft { form, start, end: self.spans.len(), bytes, is_large: false };
        let Some(before) = page.before.filter(|_| bytes > FEW_BYTES) else { return ranges };
        let (start, most) = (self.bodies.len(), bytes - bytes / LEAST_GAIN_SHARE);
        if shifts::encode(before, page.after, &self.spans[ranges.start..], most, &mut self.bodies).is_none() {
            self.bodies.truncate(start);
            return ranges;
        }
        let (form, end) = (Form::Copies, self.bodies.len());
        Draft { form, start, end, bytes: end - start, is_large: false }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_does_not_pay_is_made_less_often() {
        let mut worth = IndexWorth::default();
        let mut skipped = |before: usize, after: usize| {
            let pause = (0..1_000).take_while(|_| !worth.is_due()).count();
            worth.note(before, after);
            pause
        };
        let (gain, loss) = ((1_000, 500), (1_000, 501));
        let cases = [(gain, 0), (loss, 0), (loss, 1), (loss, 3), (gain, 7), (gain, 0), (loss, 0), (gain, 1)];
        for (index, ((before, after), expected)) in cases.into_iter().enumerate() {
            assert_eq!(skipped(before, after), expected, "{index}");
        }
        let pauses: Vec<usize> = (0..100).map(|_| skipped(1_000, 501)).collect();
        assert_eq!(pauses.into_iter().max(), Some(63));
    }

    #[test]
    fn a_payload_of_one_block_is_made_without_an_index() {
        let page =
            |bytes: usize| (0..4096).map(|at| if at < bytes { at as u8 } else { 0 }).collect::<Vec<u8>>();
        for (bytes, form) in [(3_000, Form::New), (4_000, Form::NewCopies)] {
            let after = page(bytes);
            let pages = [ChangedPage { number: 2, before: None, before_sum: None, after: &after }];
            let mut payload = Vec::new();
            Encoder::default().encode(4096, 2, &pages, usize::MAX, &mut payload).unwrap();
            let delta = super::super::decode(&payload).unwrap();
            assert_eq!(delta.pages().next().unwrap().form, form, "{bytes}");
        }
    }
}
