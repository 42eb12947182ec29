//! A member's rollback-journal transaction: its pages and its journal are memory of the member, until the commit is one message.
//!
//! # Why
//! With each write, each read and each look at a journal as a message, a commit took more than a hundred of them, and everybody else waited.
//! But the owner needs nothing of a transaction before its commit, and never its journal: should the member die, the transaction has never
//! been. So a transaction is four messages: the lock with what has changed meanwhile, the exclusive lock, the commit, and mostly no more. A large
//! one commits with more messages, of [`MOST_OF_A_MESSAGE`] each.
//!
//! # When a transaction is not held here
//! The owner says with the lock whether it may be: not in WAL mode, not beside strangers, not where a journal waits, not in an empty database. One
//! that grows beyond [`most_held`], that spans several databases, or that finds strangers when it is to write, is *carried*: what is here goes to the owner in
//! the order in which SQLite has written it, and each further call does.
//!
//! # Invariants
//! 1. While a transaction is held, the owner has its lock and nothing else of it.
//! 2. A read sees the pages of the transaction first, then those that are kept, then the owner's.
//! 3. The journal goes to the owner before the pages that it can roll back.

use crate::error::Result;
use crate::files::group::batch::{MOST_OF_A_MESSAGE, News, ask_with_batch};
use crate::files::group::channel::Channel;
use crate::files::group::kept_pages::KeptPages;
use crate::files::group::protocol::{Call, FileOf, Operation, Seen};
use crate::options::Options;
use crate::sync::heirs::{Orphan, Since};
use litefoot_storage::rollback_journal::MAGIC;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Arc;

/// Most bytes of pages, and of the journal, that are held. There is one writer at a time, so that this is for one process of a group.
const MOST_HELD: usize = 16 << 20;
/// Bytes that a journal keeps between transactions.
const MOST_KEPT: usize = MOST_OF_A_MESSAGE;

/// Most bytes of pages, and of the journal, that are held: no more than the application lets the buffer pool have.
pub(super) fn most_held(options: &Options) -> usize {
    options.buffer_pool_size.map_or(MOST_HELD, |bytes| bytes.clamp(MOST_OF_A_MESSAGE, MOST_HELD))
}

/// The journal of a held transaction.
#[derive(Debug)]
pub(super) struct HeldJournal {
    pub bytes: Vec<u8>,
    /// SQLite's flags of its open.
    pub flags: c_int,
    /// Most bytes.
    most: usize,
}

impl HeldJournal {
    pub(super) fn new(flags: c_int, most: usize) -> HeldJournal {
        HeldJournal { bytes: Vec::new(), flags, most }
    }

    /// Reads from an offset; answers how many bytes there were. The others are zeros.
    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let there = usize::try_from(offset).ok().and_then(|at| self.bytes.get(at..)).unwrap_or_default();
        let count = there.len().min(buf.len());
        let (found, behind) = buf.split_at_mut(count);
        found.copy_from_slice(&there[..count]);
        behind.fill(0);
        // The name of a super-journal ends with it, which may be gone: as in the owner's journals (`files/journal.rs`) the transaction is
        // rolled back all the same.
        if *buf == MAGIC && offset + MAGIC.len() as u64 == self.bytes.len() as u64 {
            buf.fill(0);
        }
        count
    }

    /// Writes; `false` where the journal would be too large.
    pub(super) fn write(&mut self, buf: &[u8], offset: u64) -> bool {
        let end = usize::try_from(offset).ok().and_then(|at| at.checked_add(buf.len()));
        let Some(end) = end.filter(|end| *end <= self.most) else { return false };
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[end - buf.len()..end].copy_from_slice(buf);
        true
    }

    /// Cuts, or extends; `false` where the journal would be too large.
    pub(super) fn set_len(&mut self, len: u64) -> bool {
        let Some(len) = usize::try_from(len).ok().filter(|len| *len <= self.most) else { return false };
        self.bytes.resize(len, 0);
        if len == 0 {
            self.bytes.shrink_to(MOST_KEPT);
        }
        true
    }

    /// The transaction is over. SQLite leaves a journal that it keeps without a header, and looks at nothing behind that.
    fn end(&mut self) {
        self.bytes.truncate(MOST_KEPT);
        self.bytes.shrink_to(MOST_KEPT);
    }
}

/// The pages that a transaction has written.
#[derive(Debug)]
pub(super) struct HeldPages {
    pub page_bytes: usize,
    pub pages: BTreeMap<u32, Box<[u8]>>,
    /// Bytes of the database as the transaction sees it, and as it was before.
    pub len: u64,
    base_len: u64,
    /// The shortest that it has been: what is behind it and not among the pages is zeros.
    pub least: u64,
    pub sync_wanted: bool,
    /// Most bytes of pages, and of the journal.
    pub most: usize,
}

impl HeldPages {
    pub(super) fn new(page_bytes: usize, len: u64, most: usize) -> HeldPages {
        let pages = BTreeMap::new();
        HeldPages { page_bytes, pages, len, base_len: len, least: len, sync_wanted: false, most }
    }

    /// Bytes of the database before the transaction.
    pub(super) fn base_len(&self) -> u64 {
        self.base_len
    }

    /// True for a page that is zeros unless the transaction has written it.
    pub(super) fn is_new(&self, number: u32) -> bool {
        u64::from(number) > self.least / self.page_bytes as u64
    }

    /// The page that bytes lie in, and where in it; `None` where that is not one page.
    pub(super) fn page_of(&self, offset: u64, bytes: usize) -> Option<(u32, usize)> {
        let page_bytes = self.page_bytes as u64;
        let number = u32::try_from(offset / page_bytes).ok()?.checked_add(1)?;
        let inside = (offset % page_bytes) as usize;
        (inside + bytes <= self.page_bytes).then_some((number, inside))
    }

    /// Takes a write; `false` where it is none of a whole page, or there is too much.
    pub(super) fn write(&mut self, buf: &[u8], offset: u64) -> bool {
        let Some((number, 0)) = self.page_of(offset, buf.len()).filter(|_| buf.len() == self.page_bytes)
        else {
            return false;
        };
        if (self.pages.len() + 1) * (self.page_bytes + 4) > self.most && !self.pages.contains_key(&number) {
            return false;
        }
        self.pages.insert(number, buf.into());
        self.len = self.len.max(offset + buf.len() as u64);
        true
    }

    /// Cuts the database, or extends it; `false` where the length is none of whole pages.
    pub(super) fn set_len(&mut self, len: u64) -> bool {
        if !len.is_multiple_of(self.page_bytes as u64) {
            return false;
        }
        let pages = len / self.page_bytes as u64;
        self.pages.retain(|number, _| u64::from(*number) <= pages);
        self.len = len;
        self.least = self.least.min(len);
        true
    }

    /// True if the transaction has changed something.
    pub(super) fn has_changes(&self) -> bool {
        !self.pages.is_empty() || self.len != self.base_len || self.least != self.base_len
    }

    /// Has the owner commit them. Bits of `flags` are those of [`Operation::Commit`]; answers how many commits there were.
    pub(super) fn commit(&self, channel: &Channel, flags: u64) -> Result<u64> {
        let call = Call::new(Operation::Commit, FileOf::Main, flags, 0);
        let pages = self.pages.iter().map(|(number, page)| (*number, &**page));
        ask_with_batch(channel, call, (self.len, self.least, self.page_bytes), pages, |reply| Ok(reply.value))
    }

    /// The transaction is over, with its changes or without.
    pub(super) fn end(&mut self, is_committed: bool) {
        self.pages.clear();
        self.sync_wanted = false;
        if is_committed {
            self.base_len = self.len;
        } else {
            self.len = self.base_len;
        }
        self.least = self.base_len;
    }
}

/// What a member's connection has of a rollback-journal transaction.
#[derive(Default)]
pub(super) struct HeldTxn {
    pub kept: KeptPages,
    /// The pages, while transactions are held.
    pub pages: Option<HeldPages>,
    pub journal: Option<HeldJournal>,
    /// What the owner has found with the lock of a reader, where the transaction is not held: each is answered once, and before anything is written.
    pub seen: Seen,
    /// True if the owner has given the lock of a writer, and SQLite may not have asked for it yet.
    pub is_reserved: bool,
    /// True if SQLite has deleted the journal of the transaction: it gives its locks back behind the commit.
    pub journal_deleted: bool,
    /// True if all locks were given back with the commit.
    pub is_released: bool,
    /// True if the owner has given EXCLUSIVE.
    pub is_alone: bool,
    /// True if the connection has committed with the same EXCLUSIVE before: the dead owner's note of a commit may be of that one.
    pub has_committed: bool,
    /// When the connection had the lock of a reader, for the owner's heirs. EXCLUSIVE is counted where it was given.
    pub since: Since,
    /// The next owner, which has its locks, where the last one has died, and no call has been made since.
    pub next_owner: Option<Arc<Channel>>,
}

impl HeldTxn {
    /// True while transactions are held.
    pub(super) fn is_held(&self) -> bool {
        self.pages.is_some()
    }

    /// The owner has said what has changed.
    pub(super) fn hear(&mut self, news: &News<'_>) {
        self.since = news.since;
        self.kept.go_on(news.moment, news.page_bytes, news.changed().as_deref());
        self.kept.note_len(news.len);
        news.pages.iter().for_each(|(number, page)| self.kept.keep(number, page.into()));
    }

    /// The owner has given EXCLUSIVE.
    pub(super) fn note_alone(&mut self) {
        if !std::mem::replace(&mut self.is_alone, true) {
            self.since.writings += 1;
            self.has_committed = false;
        }
    }

    /// What the owner's heirs are told of the transaction, which has this token. Where it `ends`, a commit was under way with which all locks are given back.
    pub(super) fn orphan(&self, token: u64, ends: bool) -> Orphan {
        let writings = self.since.writings - u64::from(self.is_alone);
        Orphan { since: Since { writings, ..self.since }, token, ends: ends && !self.has_committed }
    }

    /// The owner that has died had committed, and given all locks back.
    pub(super) fn note_committed_elsewhere(&mut self) {
        self.kept.forget_all();
        self.pages.iter_mut().for_each(|pages| pages.end(true));
        (self.is_reserved, self.is_alone, self.journal_deleted) = (false, false, false);
        self.is_released = true;
    }

    /// The lock is given up: whatever was not committed has never been.
    pub(super) fn end(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        let mut journal = self.journal.take();
        journal.iter_mut().for_each(HeldJournal::end);
        *self = HeldTxn { kept, journal, since: self.since, ..HeldTxn::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 512;
    const MOST: usize = 600 << 10;

    #[test]
    fn a_journal_in_memory_is_a_file_up_to_its_limit() {
        let mut journal = HeldJournal::new(0, MOST);
        assert!(journal.write(b"abc", 2));
        let mut found = [9; 4];
        assert_eq!((journal.read(&mut found, 1), found), (4, [0, b'a', b'b', b'c']));
        assert_eq!((journal.read(&mut found, 4), found), (1, [b'c', 0, 0, 0]));
        assert_eq!((journal.read(&mut found, u64::MAX), found), (0, [0; 4]));
        let with_super =
            HeldJournal { bytes: [&MAGIC[..], b"name", &MAGIC].concat(), ..HeldJournal::new(0, MOST) };
        let read = |offset| {
            let mut found = [9; 8];
            with_super.read(&mut found, offset);
            found
        };
        assert_eq!((read(0), read(12)), (MAGIC, [0; 8]), "no super-journal is looked for");
        assert!(journal.set_len(3) && journal.bytes == [0, 0, b'a']);
        let most = MOST as u64;
        assert!(
            journal.write(b"z", most - 1)
                && !journal.write(b"zz", most - 1)
                && !journal.write(b"z", u64::MAX)
        );
        assert!(!journal.write(&vec![0; MOST + 1], 0) && !journal.set_len(most + 1) && journal.set_len(most));
    }

    #[test]
    fn no_more_is_held_than_the_buffer_pool_may_have() {
        for (pool, most) in [(None, 16), (Some(1 << 30), 16), (Some(3 << 20), 3)] {
            let options = Options { buffer_pool_size: pool, ..Options::default() };
            assert_eq!(most_held(&options), most << 20, "{pool:?}");
        }
        let options = Options { buffer_pool_size: Some(0), ..Options::default() };
        assert_eq!(most_held(&options), 512 << 10);
    }

    #[test]
    fn whole_pages_are_held_and_nothing_else() {
        let mut held = HeldPages::new(PAGE, 2 * PAGE as u64, MOST);
        let at = |number: u64| (number - 1) * PAGE as u64;
        assert!(!held.has_changes());
        for (bytes, offset, is_held) in [
            (PAGE, at(2), true),
            (PAGE, at(2) + 1, false),
            (PAGE / 2, at(1), false),
            (2 * PAGE, at(1), false),
            (PAGE, at(4), true),
        ] {
            assert_eq!(held.write(&vec![7; bytes], offset), is_held, "{bytes} at {offset}");
        }
        assert_eq!((held.len, held.pages.len(), held.has_changes()), (at(5), 2, true));
        assert!(!held.set_len(at(3) + 1) && held.set_len(at(3)));
        assert_eq!((held.len, held.pages.len()), (at(3), 1));
        assert!(!held.is_new(2) && held.is_new(3), "the database had two pages");
        assert!(held.set_len(at(2)) && held.is_new(2) && held.set_len(at(3)));
        assert!(held.is_new(2), "it was cut off");
        held.end(false);
        assert_eq!((held.len, held.has_changes()), (at(3), false));
        assert!(held.set_len(at(2)) && held.has_changes());
        held.end(true);
        assert_eq!((held.len, held.has_changes()), (at(2), false));
        let many = MOST / (PAGE + 4);
        for number in 1..=many as u64 {
            assert!(held.write(&[7; PAGE], at(number)));
        }
        assert!(!held.write(&[7; PAGE], at(many as u64 + 1)) && held.write(&[8; PAGE], at(3)));
    }
}
