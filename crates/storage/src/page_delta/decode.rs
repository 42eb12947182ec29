//! The decoder: from a payload to the pages after a transaction.

use super::varint::Reader;
use super::{BATCH_PAGES, FORM_BITS, Form, PAGE_BITS, copies, page_sum, ranges};

/// A payload that is valid in itself.
#[derive(Clone, Copy, Debug)]
pub struct Delta<'a> {
    page_bytes: usize,
    database_pages: u32,
    count: usize,
    pages: Reader<'a>,
}

/// The delta of one page.
#[derive(Clone, Copy, Debug)]
pub struct PageDelta<'a> {
    /// The page's number, from 1.
    pub number: u32,
    /// The checksum of its version before, where that is needed.
    pub before_sum: Option<u32>,
    /// The checksum of its version after.
    pub after_sum: u32,
    /// How it is encoded.
    pub form: Form,
    encoded: &'a [u8],
}

/// A delta that could not be applied.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError<E> {
    /// The page is not the version that the delta was made from.
    #[error("page {0} is not the version that its delta was made from")]
    Before(u32),
    /// The result is not the version that was committed.
    #[error("the delta of page {0} does not give the version that was committed")]
    After(u32),
    /// The page could not be read or stored.
    #[error(transparent)]
    Io(E),
}

/// The payload in `bytes`, if all of it is valid.
pub fn decode(bytes: &[u8]) -> Option<Delta<'_>> {
    let mut rest = Reader(bytes);
    let bits = u32::from(*rest.bytes(1)?.first()?);
    let page_bytes = PAGE_BITS.contains(&bits).then(|| 1 << bits)?;
    let (database_pages, count) = (rest.varint()?, rest.varint()? as usize);
    let delta = Delta { page_bytes, database_pages, count, pages: rest };
    let mut pages = Pages { rest, left: count, last: 0 };
    while pages.left > 0 {
        let (mut ahead, mut dictionary) = (pages, 0);
        for _ in 0..BATCH_PAGES.min(pages.left) {
            dictionary += usize::from(ahead.next()?.form == Form::Copies);
        }
        let mut slot = 0;
        for page in pages.by_ref().take(BATCH_PAGES) {
            let fits = match page.form {
                Form::New | Form::Ranges => ranges::fit(page.encoded, page_bytes),
                Form::NewCopies | Form::Copies => copies::fit(page.encoded, slot, dictionary, page_bytes),
            };
            if !fits {
                return None;
            }
            slot += usize::from(page.form == Form::Copies);
        }
    }
    pages.rest.0.is_empty().then_some(delta)
}

/// The page behind the one that is numbered `last`.
fn next_page<'a>(rest: &mut Reader<'a>, last: u32) -> Option<PageDelta<'a>> {
    let number = rest.varint().filter(|step| *step > 0)?.checked_add(last)?;
    let kind = rest.varint()?;
    let form = Form::of(kind);
    Some(PageDelta {
        number,
        before_sum: if form.has_before() { Some(rest.u32()?) } else { None },
        after_sum: rest.u32()?,
        form,
        encoded: rest.bytes(kind >> FORM_BITS)?,
    })
}

impl PageDelta<'_> {
    /// Bytes that its ranges or copies take in the payload.
    pub fn encoded_bytes(&self) -> usize {
        self.encoded.len()
    }
}

impl<'a> Delta<'a> {
    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// The size of the database after the transaction, in pages. It may be less than the number of a page.
    pub fn database_pages(&self) -> u32 {
        self.database_pages
    }

    /// Its pages, in ascending order of their numbers.
    pub fn pages(&self) -> impl ExactSizeIterator<Item = PageDelta<'a>> + use<'a> {
        self.all()
    }

    fn all(&self) -> Pages<'a> {
        Pages { rest: self.pages, left: self.count, last: 0 }
    }

    /// Applies the delta: for each page reads its version `before`, where it needs one, and hands out the one `after`.
    ///
    /// # Errors
    /// The first page that cannot be read or stored, that is not the version which the delta was made from, or that
    /// would become another one than was committed. Pages before it were handed out then: they count only together
    /// with all others.
    pub fn apply<E>(
        &self,
        mut before: impl FnMut(u32, &mut [u8]) -> Result<(), E>,
        mut after: impl FnMut(u32, &[u8]) -> Result<(), E>,
    ) -> Result<(), ApplyError<E>> {
        let mut read = |delta: &PageDelta<'_>, page: &mut [u8]| {
            before(delta.number, page).map_err(ApplyError::Io)?;
            let is_its_own = delta.before_sum == Some(page_sum(page));
            if is_its_own { Ok(()) } else { Err(ApplyError::Before(delta.number)) }
        };
        let (mut page, mut dictionary) = (vec![0; self.page_bytes], Vec::new());
        let mut pages = self.all();
        while pages.left > 0 {
            dictionary.clear();
            for delta in pages.take(BATCH_PAGES).filter(|delta| delta.form == Form::Copies) {
                let end = dictionary.len();
                dictionary.resize(end + self.page_bytes, 0);
                read(&delta, &mut dictionary[end..])?;
            }
            let mut slot = 0;
            for delta in pages.by_ref().take(BATCH_PAGES) {
                let applied = match delta.form {
                    Form::New => {
                        page.fill(0);
                        ranges::apply(delta.encoded, &mut page)
                    }
                    Form::Ranges => {
                        read(&delta, &mut page)?;
                        ranges::apply(delta.encoded, &mut page)
                    }
                    Form::NewCopies | Form::Copies => {
                        copies::apply(delta.encoded, slot, &dictionary, &mut page)
                    }
                };
                slot += usize::from(delta.form == Form::Copies);
                if applied.is_none() || page_sum(&page) != delta.after_sum {
                    return Err(ApplyError::After(delta.number));
                }
                after(delta.number, &page).map_err(ApplyError::Io)?;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
struct Pages<'a> {
    rest: Reader<'a>,
    left: usize,
    last: u32,
}

impl<'a> Iterator for Pages<'a> {
    type Item = PageDelta<'a>;

    fn next(&mut self) -> Option<PageDelta<'a>> {
        self.left = self.left.checked_sub(1)?;
        let page = next_page(&mut self.rest, self.last)?;
        self.last = page.number;
        Some(page)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Pages<'_> {}
