//! Pages in messages as bytes: what has changed since a member's last transaction, and what it commits, outside of WAL mode or behind the death of its owner.
//!
//! ```text
//! news    epoch (8)  commits (8)  marks (8)  writings (8)  length of the database (8)  bytes of a page (4)  numbers (4)  number (4) each  pages
//! page    number (4)  its bytes
//! batch   length of the database (8)  its least length (8)  bytes of a page (4)  pages
//! ```
//!
//! Numbers have the order of the machine's bytes. `ALL` in place of how many numbers there are says that any page may have changed.
//!
//! # Invariants
//! 1. What is decoded fits: pages are whole, numbers count from 1, and a page has a size that SQLite's may have.

use crate::error;
use crate::files::group::channel::Channel;
use crate::files::group::protocol::{Call, MORE, Reply};
use crate::sync::group_changes::Moment;
use crate::sync::heirs::Since;

/// Most bytes of the pages that come with the news.
pub(super) const MOST_NEWS_BYTES: usize = 64 << 10;

/// Bytes of pages that a message has, about.
pub(super) const MOST_OF_A_MESSAGE: usize = 512 << 10;

/// Any page may have changed.
const ALL: u32 = u32::MAX;

/// What a member hears with the lock of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct News<'a> {
    pub moment: Moment,
    /// The same, for the owner's heirs.
    pub since: Since,
    /// Bytes of the database.
    pub len: u64,
    pub page_bytes: usize,
    /// The numbers of the pages that have changed, 4 bytes each; `None` for any.
    changed: Option<&'a [u8]>,
    /// Some of them as they are now.
    pub pages: Pages<'a>,
}

/// Pages in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pages<'a> {
    bytes: &'a [u8],
    page_bytes: usize,
}

impl<'a> Pages<'a> {
    fn decode(bytes: &'a [u8], page_bytes: usize) -> Option<Pages<'a>> {
        let is_size = page_bytes.is_power_of_two() && (512..=65536).contains(&page_bytes);
        let pages = Pages { bytes, page_bytes };
        let fits = is_size && bytes.len().is_multiple_of(4 + page_bytes);
        (fits && pages.iter().all(|(number, _)| number > 0)).then_some(pages)
    }

    /// The pages and their numbers.
    pub(super) fn iter(self) -> impl Iterator<Item = (u32, &'a [u8])> {
        self.bytes.chunks_exact(4 + self.page_bytes).filter_map(|page| {
            let (number, page) = page.split_first_chunk()?;
            Some((u32::from_ne_bytes(*number), page))
        })
    }
}

/// Appends a page to a message; `fill` fills its bytes.
pub(super) fn encode_page<E>(
    number: u32,
    page_bytes: usize,
    message: &mut Vec<u8>,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    message.extend_from_slice(&number.to_ne_bytes());
    let begin = message.len();
    message.resize(begin + page_bytes, 0);
    fill(message.get_mut(begin..).unwrap_or_default())
}

impl<'a> News<'a> {
    /// The news without pages.
    pub(super) fn encode(
        (moment, since): (Moment, Since),
        len: u64,
        page_bytes: usize,
        changed: Option<&[u32]>,
        message: &mut Vec<u8>,
    ) {
        for number in [moment.epoch, moment.commits, since.marks, since.writings, len] {
            message.extend_from_slice(&number.to_ne_bytes());
        }
        message.extend_from_slice(&(page_bytes as u32).to_ne_bytes());
        message.extend_from_slice(&changed.map_or(ALL, |numbers| numbers.len() as u32).to_ne_bytes());
        changed.iter().copied().flatten().for_each(|number| message.extend_from_slice(&number.to_ne_bytes()));
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Option<News<'a>> {
        let (epoch, bytes) = bytes.split_first_chunk()?;
        let (commits, bytes) = bytes.split_first_chunk()?;
        let (marks, bytes) = bytes.split_first_chunk()?;
        let (writings, bytes) = bytes.split_first_chunk()?;
        let (len, bytes) = bytes.split_first_chunk()?;
        let (page_bytes, bytes) = bytes.split_first_chunk()?;
        let (numbers, bytes) = bytes.split_first_chunk()?;
        let page_bytes = u32::from_ne_bytes(*page_bytes) as usize;
        let (changed, bytes) = match u32::from_ne_bytes(*numbers) {
            ALL => (None, bytes),
            numbers => {
                let (changed, rest) = bytes.split_at_checked((numbers as usize).checked_mul(4)?)?;
                (Some(changed), rest)
            }
        };
        Some(News {
            moment: Moment { epoch: u64::from_ne_bytes(*epoch), commits: u64::from_ne_bytes(*commits) },
            since: Since { marks: u64::from_ne_bytes(*marks), writings: u64::from_ne_bytes(*writings) },
            len: u64::from_ne_bytes(*len),
            page_bytes,
            changed,
            pages: Pages::decode(bytes, page_bytes)?,
        })
    }

    /// The numbers of the pages that have changed; `None` for any.
    pub(super) fn changed(&self) -> Option<Vec<u32>> {
        let number = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_ne_bytes);
        self.changed.map(|changed| changed.chunks_exact(4).filter_map(number).collect())
    }
}

/// What a member commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Batch<'a> {
    /// Bytes of the database behind the commit.
    pub len: u64,
    /// The shortest that it has been: what was behind that, and does not come with the batch, is zeros.
    pub least: u64,
    pub page_bytes: usize,
    pub pages: Pages<'a>,
}

impl<'a> Batch<'a> {
    /// The batch without pages.
    pub(super) fn encode(len: u64, least: u64, page_bytes: usize, message: &mut Vec<u8>) {
        message.extend_from_slice(&len.to_ne_bytes());
        message.extend_from_slice(&least.to_ne_bytes());
        message.extend_from_slice(&(page_bytes as u32).to_ne_bytes());
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Option<Batch<'a>> {
        let (len, bytes) = bytes.split_first_chunk()?;
        let (least, bytes) = bytes.split_first_chunk()?;
        let (page_bytes, bytes) = bytes.split_first_chunk()?;
        let page_bytes = u32::from_ne_bytes(*page_bytes) as usize;
        let (len, least) = (u64::from_ne_bytes(*len), u64::from_ne_bytes(*least));
        Some(Batch { len, least, page_bytes, pages: Pages::decode(bytes, page_bytes)? })
    }
}

/// Makes a call with a batch, in as many messages as it takes: all but the last say [`MORE`], and wait for no reply.
pub(super) fn ask_with_batch<'p, T>(
    channel: &Channel,
    call: Call<'_>,
    (len, least, page_bytes): (u64, u64, usize),
    pages: impl ExactSizeIterator<Item = (u32, &'p [u8])>,
    then: impl FnOnce(&Reply<'_>) -> error::Result<T>,
) -> error::Result<T> {
    let bytes = (pages.len() * (page_bytes + 4)).min(MOST_OF_A_MESSAGE);
    let mut message = Vec::with_capacity(32 + bytes);
    Batch::encode(len, least, page_bytes, &mut message);
    let head = message.len();
    let more = Call { a: call.a | MORE, ..call };
    for (number, page) in pages {
        if message.len() + page.len() > MOST_OF_A_MESSAGE {
            channel.defer(&more.with(&message))?;
            message.truncate(head);
        }
        encode_page(number, page_bytes, &mut message, |bytes| {
            bytes.copy_from_slice(page);
            Ok::<(), error::Error>(())
        })?;
    }
    channel.ask(&call.with(&message), then)
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_sim::Random;

    const PAGE: usize = 512;
    const NOW: Moment = Moment { epoch: 3, commits: 9 };
    const SINCE: Since = Since { marks: 1 << 60, writings: 9 };

    fn append(numbers: &[u32], message: &mut Vec<u8>) {
        for number in numbers {
            encode_page(*number, PAGE, message, |page| {
                page.fill(*number as u8);
                Ok::<_, ()>(())
            })
            .unwrap();
        }
    }

    fn fillers(pages: Pages<'_>) -> Vec<(u32, u8)> {
        pages.iter().map(|(number, page)| (number, page[PAGE - 1])).collect()
    }

    #[test]
    fn news_and_batches_are_read_as_they_were_written() {
        for changed in [None, Some(&[][..]), Some(&[1, 5, 900_000_000][..])] {
            let mut message = Vec::new();
            News::encode((NOW, SINCE), 7 << 40, PAGE, changed, &mut message);
            append(&[5, 1], &mut message);
            let news = News::decode(&message).unwrap();
            assert_eq!((news.moment, news.since), (NOW, SINCE));
            assert_eq!((news.len, news.page_bytes), (7 << 40, PAGE));
            assert_eq!(news.changed().as_deref(), changed);
            assert_eq!(fillers(news.pages), [(5, 5), (1, 1)]);
        }
        let mut message = Vec::new();
        Batch::encode(1024, 512, PAGE, &mut message);
        append(&[2], &mut message);
        let batch = Batch::decode(&message).unwrap();
        assert_eq!((batch.len, batch.least, batch.page_bytes), (1024, 512, PAGE));
        assert_eq!(fillers(batch.pages), [(2, 2)]);
    }

    #[test]
    fn bytes_of_other_programs_are_whole_pages_or_nothing() {
        let mut random = Random::new(5);
        let mut message = Vec::new();
        News::encode((NOW, SINCE), 1024, PAGE, Some(&[1]), &mut message);
        append(&[1, 2], &mut message);
        for _ in 0..20_000 {
            let mut wrong = message.clone();
            wrong.truncate(random.below(message.len() as u64 + 1) as usize);
            for _ in 0..random.below(3) {
                let at = random.below(wrong.len().max(1) as u64) as usize;
                wrong.get_mut(at).into_iter().for_each(|byte| *byte = random.below(256) as u8);
            }
            for pages in [News::decode(&wrong).map(|news| news.pages), Batch::decode(&wrong).map(|b| b.pages)]
            {
                for (number, page) in pages.into_iter().flat_map(Pages::iter) {
                    assert!(number > 0 && page.len().is_power_of_two() && page.len() >= 512);
                }
            }
        }
        for size in [0_u32, 1, 511, 513, 256, 131_072] {
            let mut batch = Vec::new();
            Batch::encode(0, 0, size as usize, &mut batch);
            assert!(Batch::decode(&batch).is_none(), "{size}");
        }
    }
}
