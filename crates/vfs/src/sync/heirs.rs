//! Heirs: what an owner that dies leaves behind for its members' transactions.
//!
//! # Why
//! A member holds its rollback-journal transaction back until it commits. With its owner goes the lock that the owner has for it, and no more. Where nobody
//! has written the database since, the transaction is as true as before: the next owner may give it the same lock.
//!
//! # How
//! The locks of the file belong to the open file, which members have borrowed. One of them takes it over: it is the *heir*, and the next owner. So nobody
//! else can have had the file in between. Within the owner a connection that writes has EXCLUSIVE. Each such *writing* has a number. In the memory
//! of the marks (`unwritten_pages`) lie, of the last writings:
//!
//! ```text
//! heir       nobody yet; the file was given up; it was taken over
//! writings   how many there have been
//! last       of the last [`LAST`] writings: the number, the connection's token, and whether it was committed
//! ```
//!
//! # Invariants
//! 1. One process takes the file over, once it has recovered the database, or one gives the file up. A compare-and-swap decides. Until then one at a time
//!    tries, which has a byte of the marks' memory locked. So does the next one where that dies.
//! 2. A writing is noted under EXCLUSIVE, before anything is written. While it is the last one nobody else has had EXCLUSIVE since.
//! 3. A commit is noted behind its append to the log, while its connection has EXCLUSIVE still.
//! 4. A transaction that had the lock of a reader after `n` writings is true while there are `n`, or where the next one is its own and the last.
//! 5. Each process that has borrowed the file shares a lock on a byte of the marks' memory, until it has looked after its transactions ([`LooksAfter`]), and
//!    on another one until it has closed the file. Those that have to wait for these processes wait no longer than [`LATEST`].

use crate::sync::unwritten_pages::{Marks, OWNERS, UnwrittenPages};
use crate::sync::word::Word;
use litefoot_storage::file::RangeLock;
use litefoot_storage::os::{LentFile, NamelessMemory};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Places of the words: of the one that members write, and of the owner's.
const HEIR: usize = 128;
const WRITINGS: usize = OWNERS + 512;
const RING: usize = OWNERS + 1024;

/// Writings that are remembered, and the words of each.
const LAST: u64 = 64;
const WORDS: u64 = 3;

/// How long a process may take to look after its transactions. One that is stopped keeps others waiting for as long.
pub(crate) const LATEST: Duration = Duration::from_millis(500);
/// The byte that tells whether one still does, the one that tells whether one takes the file over, and the one that tells whether others have it.
const LOOKS_AFTER: u64 = 0;
const TAKES_OVER: u64 = 1;
const HAS_FILE: u64 = 2;

/// What has become of the open file of an owner that has died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Estate {
    /// Nothing yet.
    Open = 0,
    /// Its locks were given back.
    GivenUp = 1,
    /// A process has recovered the database by it. That is the next owner, or gives the locks back.
    TakenOver = 2,
}

/// A moment at which a connection had the lock of a reader in some owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Since {
    /// The number of the owner's marks; 0 where it has none.
    pub marks: u64,
    /// How many writings there had been.
    pub writings: u64,
}

/// A transaction whose owner has died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Orphan {
    pub since: Since,
    /// The connection, among those of its owner; not 0.
    pub token: u64,
    /// True if a commit was under way with which all locks are given back, and which was the first one of its writing.
    pub ends: bool,
}

/// What is to be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nobody has written since, or only itself: it goes on, and may write the same once more.
    GoesOn,
    /// It was committed.
    Committed,
    /// Somebody may have written since.
    Lost,
}

/// The end of a commit in WAL mode: its last frame, in the log with these salts. No other commit has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub salts: u64,
    pub frame: u32,
}

/// The locks of a process that looks after its transactions, has the file, or takes it over; or those to see whether others do.
///
/// No forked child has them.
pub(crate) struct LooksAfter(LentFile);

impl LooksAfter {
    /// A lock of its own on these marks; `None` where the system has no descriptor.
    pub fn of(marks: &Marks) -> Option<LooksAfter> {
        let again = NamelessMemory::open_again(marks.memory().descriptor().as_raw_fd()).ok()?;
        LentFile::of(again.into()).ok().map(LooksAfter)
    }

    /// This process has the file from now on, and transactions to look after; `false` where that cannot be said.
    pub fn begin(&self) -> bool {
        let shares = |byte| matches!(self.0.lock_range(byte, 1, RangeLock::Shared), Ok(true));
        shares(HAS_FILE) && shares(LOOKS_AFTER)
    }

    /// It has no more.
    pub fn end(&self) {
        let _ = self.0.lock_range(LOOKS_AFTER, 1, RangeLock::None);
    }

    /// True if no other process has any. This one has none by this lock.
    pub fn are_all_done(&self) -> bool {
        let are_done = matches!(self.0.lock_range(LOOKS_AFTER, 1, RangeLock::Exclusive), Ok(true));
        self.end();
        are_done
    }

    /// This process takes the file over; `false` where another one does.
    pub fn begin_taking_over(&self) -> bool {
        matches!(self.0.lock_range(TAKES_OVER, 1, RangeLock::Exclusive), Ok(true))
    }

    /// It does so no more.
    pub fn end_taking_over(&self) {
        let _ = self.0.lock_range(TAKES_OVER, 1, RangeLock::None);
    }

    /// True if no other process has the file any more. None may borrow it from now on.
    pub fn has_file_alone(&self) -> bool {
        matches!(self.0.lock_range(HAS_FILE, 1, RangeLock::Exclusive), Ok(true))
    }

    /// It has closed the file.
    pub fn note_closed(&self) {
        let _ = self.0.lock_range(HAS_FILE, 1, RangeLock::None);
    }
}

/// What an owner leaves behind, wherever its words lie.
pub(crate) trait Heritage {
    type Number: Word<u64>;

    fn number(&self, place: usize) -> &Self::Number;

    /// Decides what becomes of the open file; `false` where that is decided.
    fn decide(&self, what: Estate) -> bool {
        self.number(HEIR).replace(Estate::Open as u64, what as u64, Ordering::SeqCst)
    }

    /// True if it is decided.
    fn is_decided(&self) -> bool {
        self.number(HEIR).load(Ordering::SeqCst) != Estate::Open as u64
    }

    /// A word of a writing's.
    fn word_of(&self, writing: u64, word: u64) -> &Self::Number {
        self.number(RING + ((writing % LAST * WORDS + word) * 8) as usize)
    }

    fn writings(&self) -> u64 {
        self.number(WRITINGS).load(Ordering::SeqCst)
    }

    /// What is to be done with a transaction, once the owner has died.
    fn fate_of(&self, orphan: Orphan) -> Fate {
        let (last, before) = (self.writings(), orphan.since.writings);
        if last == before {
            return Fate::GoesOn;
        }
        let own = before.wrapping_add(1);
        let [number, token, committed] = [0, 1, 2].map(|word| self.word_of(own, word).load(Ordering::SeqCst));
        if number != own || token != orphan.token || token == 0 {
            return Fate::Lost;
        }
        match (committed != 0 && orphan.ends, last == own) {
            (true, _) => Fate::Committed,
            (false, true) => Fate::GoesOn,
            (false, false) => Fate::Lost,
        }
    }

    /// The owner notes that a connection has EXCLUSIVE from now on; 0 is the token of those that are no member's.
    fn note_writing(&self, token: u64) {
        let writing = self.writings().wrapping_add(1);
        for (word, value) in [(0, 0), (1, token), (2, 0), (0, writing)] {
            self.word_of(writing, word).store(value, Ordering::SeqCst);
        }
        self.number(WRITINGS).store(writing, Ordering::SeqCst);
    }

    /// The owner notes that its commit is in the log.
    fn note_committed(&self) {
        self.word_of(self.writings(), 2).store(1, Ordering::SeqCst);
    }
}

impl Heritage for Marks {
    type Number = AtomicU64;

    fn number(&self, place: usize) -> &AtomicU64 {
        Marks::number(self, place)
    }
}

impl UnwrittenPages {
    /// A connection has EXCLUSIVE from now on; 0 is the token of those that are no member's.
    pub fn note_writing(&self, token: u64) {
        self.marks().note_writing(token);
    }

    /// Its commit is in the log.
    pub fn note_committed(&self) {
        self.marks().note_committed();
    }

    /// The present, for a connection that has the lock of a reader.
    pub fn now(&self) -> Since {
        Since { marks: self.id(), writings: self.marks().writings() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: u64 = 7;

    fn fate(marks: &UnwrittenPages, writings: u64, ends: bool) -> Fate {
        let since = Since { marks: marks.id(), writings };
        marks.marks().fate_of(Orphan { since, token: TOKEN, ends })
    }

    #[test]
    fn a_transaction_is_true_until_somebody_else_has_written() {
        let owner = UnwrittenPages::new().unwrap();
        let begun = owner.now().writings;
        assert_eq!(fate(&owner, begun, false), Fate::GoesOn, "nobody has written");
        owner.note_writing(TOKEN);
        assert_eq!(fate(&owner, begun, false), Fate::GoesOn, "it has written itself");
        assert_eq!(fate(&owner, begun, true), Fate::GoesOn, "and has not committed");
        owner.note_committed();
        assert_eq!(fate(&owner, begun, false), Fate::GoesOn, "its commit may be made once more");
        assert_eq!(fate(&owner, begun, true), Fate::Committed);
        assert_eq!(fate(&owner, begun + 1, false), Fate::GoesOn, "behind its commit");
        owner.note_writing(0);
        assert_eq!(fate(&owner, begun, true), Fate::Committed, "also where others have written since");
        for (writings, ends, what) in [
            (begun, false, "it goes on behind its commit"),
            (begun + 1, false, "somebody else has written"),
            (begun + 1, true, "the token is another"),
            (begun + 3, true, "the future"),
        ] {
            assert_eq!(fate(&owner, writings, ends), Fate::Lost, "{what}");
        }
        owner.note_writing(TOKEN);
        owner.note_writing(TOKEN + 1);
        assert_eq!(fate(&owner, begun + 2, true), Fate::Lost, "it was rolled back");
    }

    #[test]
    fn writings_are_remembered_for_a_while() {
        let owner = UnwrittenPages::new().unwrap();
        for writing in 1..=3 * LAST {
            owner.note_writing(TOKEN);
            owner.note_committed();
            let oldest = writing.saturating_sub(LAST);
            assert_eq!(fate(&owner, oldest, true), Fate::Committed);
            assert!(oldest == 0 || fate(&owner, oldest - 1, true) == Fate::Lost);
        }
    }

    #[test]
    fn it_is_seen_whether_a_process_still_looks_after_its_transactions() {
        let owner = UnwrittenPages::new().unwrap();
        let [one, two, heir] = [(); 3].map(|()| LooksAfter::of(owner.marks()).unwrap());
        assert!(heir.are_all_done() && one.begin() && two.begin());
        assert!(!heir.are_all_done());
        one.end();
        assert!(!heir.are_all_done() && !one.are_all_done());
        // As with the death of its process.
        drop(two);
        assert!(heir.are_all_done() && one.are_all_done() && heir.are_all_done());
    }

    #[test]
    fn one_process_at_a_time_takes_the_file_over() {
        let owner = UnwrittenPages::new().unwrap();
        let [one, two] = [(); 2].map(|()| LooksAfter::of(owner.marks()).unwrap());
        assert!(one.begin() && one.begin_taking_over() && !two.begin_taking_over());
        one.end();
        assert!(!two.begin_taking_over(), "that is another byte");
        // As with the death of its process.
        drop(one);
        assert!(two.begin_taking_over());
        two.end_taking_over();
        assert!(LooksAfter::of(owner.marks()).unwrap().begin_taking_over());
    }

    #[test]
    fn it_is_seen_whether_others_have_the_file() {
        let owner = UnwrittenPages::new().unwrap();
        let [heir, one, two] = [(); 3].map(|()| LooksAfter::of(owner.marks()).unwrap());
        assert!(heir.begin() && one.begin() && two.begin());
        one.end();
        two.end();
        two.note_closed();
        assert!(heir.are_all_done() && !heir.has_file_alone());
        drop(one);
        assert!(heir.has_file_alone());
    }

    #[test]
    fn one_decides() {
        for what in [Estate::GivenUp, Estate::TakenOver] {
            let owner = UnwrittenPages::new().unwrap();
            let marks = owner.marks();
            assert!(!marks.is_decided() && marks.decide(what) && marks.is_decided());
            assert!(!marks.decide(Estate::GivenUp) && !marks.decide(Estate::TakenOver));
        }
    }
}

#[cfg(test)]
pub(in crate::sync) mod of_test {
    use super::*;

    /// Words for the first few writings, in the test's own memory.
    #[derive(Default)]
    pub(crate) struct FewWritings<N>([N; 2 + 3 * WORDS as usize]);

    impl<N: Word<u64>> Heritage for FewWritings<N> {
        type Number = N;

        fn number(&self, place: usize) -> &N {
            match place {
                HEIR => &self.0[0],
                WRITINGS => &self.0[1],
                // There is no writing 0.
                of_writing => &self.0[2 + (of_writing - RING) / 8 - WORDS as usize],
            }
        }
    }
}
