//! How many pages of the database file a member asks its owner for at once.
//!
//! # Why
//! Each page that a member has not kept is a message, and two changes of process. A query that reads a table from one end to the other asks for
//! pages that follow one another: twice as many with each message, up to [`MOST_BYTES`].
//!
//! # Invariants
//! 1. Nothing is read ahead before two pages that follow one another were asked for: a query that looks up rows pays for no other page.

use crate::error::Result;
use crate::files::group::channel::Channel;
use crate::files::group::protocol::{Call, FileOf, Operation};

/// Most bytes of a message: 16 pages of 4 KiB. What is kept has room for many more.
const MOST_BYTES: usize = 64 << 10;

/// The pages that were asked for last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadAhead {
    /// The page behind them.
    next: u32,
    count: u32,
}

impl ReadAhead {
    /// A page is missing, and `last` is the last one that there may be: how many are to be asked for from that page on.
    pub(super) fn count(&mut self, number: u32, last: u32, page_bytes: usize) -> u32 {
        let most = (MOST_BYTES / page_bytes.max(1)).max(1) as u32;
        let wanted = if number == self.next { self.count.saturating_mul(2).min(most) } else { 1 };
        let there = last.saturating_sub(number).saturating_add(1);
        self.count = wanted.min(there).max(1);
        self.next = number.saturating_add(self.count);
        self.count
    }
}

/// Reads pages that follow one another, and has `keep` look at those that are there: none, where the file ends before the end of the first.
pub(super) fn read_pages(
    channel: &Channel,
    first: u32,
    count: u32,
    page_bytes: usize,
    mut keep: impl FnMut(u32, &[u8]),
) -> Result<()> {
    let offset = u64::from(first.saturating_sub(1)) * page_bytes as u64;
    let bytes = u64::from(count) * page_bytes as u64;
    let parts = [u8::try_from(count).unwrap_or(1)];
    let call = Call::new(Operation::Read, FileOf::Main, offset, bytes).with(&parts);
    channel.ask(&call, |reply| {
        if reply.check_length().is_ok() {
            let pages = reply.data.chunks_exact(page_bytes).take(count as usize);
            (first..).zip(pages).for_each(|(number, page)| keep(number, page));
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::group::protocol::{Incoming, Outcome, Reply};
    use litefoot_storage::os::{LocalListener, LocalSocket};
    use std::path::Path;

    #[test]
    fn pages_behind_the_end_of_the_file_are_none() {
        let name = format!("litefoot-read-ahead-{}", std::process::id());
        let listener = LocalListener::bind(&name).unwrap().unwrap();
        let channel = Channel::new(LocalSocket::connect(&name).unwrap().unwrap(), Path::new("/a.db"));
        let (owner, mut incoming) = (listener.accept().unwrap(), Incoming::default());
        for (outcome, bytes, expected) in [
            (Outcome::Done, 4 * 512, &[3, 4, 5, 6][..]),
            (Outcome::Done, 2 * 512, &[3, 4]),
            (Outcome::Done, 9 * 512, &[3, 4, 5, 6]),
            // The bytes of a read that is too long are zeros.
            (Outcome::ShortRead, 4 * 512, &[]),
        ] {
            let kept = std::thread::scope(|scope| {
                scope.spawn(|| {
                    let (call, _) = Call::decode(incoming.next(&owner).unwrap().unwrap()).unwrap();
                    assert_eq!((call.a, call.b, call.data), (2 * 512, 4 * 512, &[4][..]));
                    let mut reply = Vec::new();
                    Reply { outcome, data: &vec![0; bytes], ..Reply::DONE }.encode(&mut reply);
                    owner.send(&reply, None).unwrap();
                });
                let mut kept = Vec::new();
                read_pages(&channel, 3, 4, 512, |number, page| kept.push((number, page.len()))).unwrap();
                kept
            });
            assert_eq!(kept, expected.iter().map(|number| (*number, 512)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn pages_that_follow_one_another_come_together() {
        let mut ahead = ReadAhead::default();
        // (the page that is missing, the last page, how many are asked for)
        for (number, last, expected) in [
            (7, 100, 1),
            (8, 100, 2),
            (10, 100, 4),
            (14, 100, 8),
            (22, 100, 16),
            (38, 100, 16),
            (54, 60, 7),
            (61, 61, 1),
            (90, 100, 1),
            (93, 100, 1),
            (94, 100, 2),
            (u32::MAX, u32::MAX, 1),
        ] {
            assert_eq!(ahead.count(number, last, 4096), expected, "{number}");
        }
        let mut ahead = ReadAhead::default();
        for number in 1..=9 {
            assert_eq!(ahead.count(number, 100, 65536), 1, "pages of 64 KiB");
        }
    }
}
