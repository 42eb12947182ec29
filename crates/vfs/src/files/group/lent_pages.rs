//! Pages that a member reads from its owner's open file, without a message (`owner/lending`).
//!
//! # Invariants
//! 1. A page is read so only where nobody writes it meanwhile ([`Reading`]): the owner has the lock of a reader for the member, or the member has a
//!    slot of the wal-index by its seat.
//! 2. What was read counts only if the owner lived behind it (`sync/unwritten_pages`). Until then its locks were held, and nobody else has written
//!    what they protect.
//! 3. A process borrows a file once, for all its connections to one owner. What becomes of it behind the death of the owner: `borrowed_file`.

use crate::files::group::borrowed_file::BorrowedFile;
use crate::files::group::channel::Channel;
use crate::files::group::joining::borrow_file;
use crate::files::group::link::Link;
use crate::files::group::protocol::{Call, FileOf, Operation};
use crate::sync::heirs::LooksAfter;
use crate::sync::unwritten_pages::Marks;
use litefoot_storage::sync::{AcrossFork, Global};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Pages that a connection asks for before it borrows the file. That takes some messages itself, and many a connection reads less.
const PAGES_BEFORE: u32 = 16;

/// What keeps others from writing a page that a member reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The lock of a reader, which the owner has for a transaction that its member holds back (`held_txn`). Pages that are not in the file are marked.
    Held,
    /// A slot of the wal-index: a checkpoint writes no page that SQLite reads from the file, and the file has all that it reads there.
    Slot,
}

/// The pages of a borrowed file.
pub(super) struct LentPages {
    file: Arc<BorrowedFile>,
}

/// The files that this process has borrowed.
#[derive(Default)]
struct Borrowed(Vec<Weak<LentPages>>);

impl AcrossFork for Borrowed {
    fn inherit(_parents: Borrowed) -> Borrowed {
        Borrowed::default()
    }
}

static BORROWED: Global<Borrowed> = Global::new(Borrowed(Vec::new()));

/// What a connection has borrowed from its owner.
#[derive(Default)]
pub(super) struct Borrowing {
    asked: AtomicU32,
    /// Transactions that have begun.
    begun: AtomicU32,
    /// The number of the owner's marks, where it is known; or 0.
    marks: AtomicU64,
    pages: OnceLock<Option<Arc<LentPages>>>,
}

impl Borrowing {
    /// Reads bytes of a page that its owner would be asked for; `false` where that has to be asked.
    pub(super) fn read(
        &self,
        (link, channel): (&Link, &Channel),
        reading: Reading,
        page: u32,
        buf: &mut [u8],
        offset: u64,
    ) -> bool {
        let pages = match self.pages.get() {
            Some(pages) => pages,
            None if self.asked.fetch_add(1, Ordering::Relaxed) < PAGES_BEFORE => return false,
            None => self.borrow(link, channel),
        };
        // In a forked child the stream is its parent's.
        channel.is_alive() && pages.as_ref().is_some_and(|pages| pages.file.read(reading, page, buf, offset))
    }

    /// A transaction begins. One that `counts` keeps its owner's file, so that it outlives the owner, and so that commits may be deltas; so does any but the first of a
    /// connection, and any where the process has the file already.
    pub(super) fn note_beginning(&self, (link, channel): (&Link, &Channel), counts: impl FnOnce() -> bool) {
        let is_worth_it = || {
            self.begun.fetch_add(1, Ordering::Relaxed) > 0
                || counts()
                || known(&BORROWED.lock(), self.marks(), link).is_some()
        };
        if self.pages.get().is_none() && is_worth_it() {
            self.borrow(link, channel);
        }
    }

    /// What is borrowed.
    pub(super) fn lent(&self) -> Option<&Arc<LentPages>> {
        self.pages.get()?.as_ref()
    }

    /// The connection has lost an owner, and goes on with this one.
    pub(super) fn note_owner_before(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// True where the owner is known to have strangers beside it, or to have died beside them.
    pub(super) fn are_strangers_there(&self) -> bool {
        self.lent().is_some_and(|lent| lent.file.marks().are_beside_strangers())
    }

    /// The owner says which marks it has; 0 for none.
    pub(super) fn note_marks(&self, number: u64) {
        self.marks.store(number, Ordering::Relaxed);
    }

    /// The number of the owner's marks, where it is known; or 0.
    pub(super) fn marks(&self) -> u64 {
        self.marks.load(Ordering::Relaxed)
    }

    fn borrow(&self, link: &Link, channel: &Channel) -> &Option<Arc<LentPages>> {
        let known = known(&BORROWED.lock(), self.marks(), link);
        self.pages.get_or_init(|| known.or_else(|| borrow(link, channel)))
    }
}

/// The file that the owner with these marks has lent to this process, while that lives. The owner counts on those only that were borrowed to be written, so a
/// connection that writes has none else.
fn known(borrowed: &Borrowed, marks: u64, link: &Link) -> Option<Arc<LentPages>> {
    let fits = |file: &BorrowedFile| {
        file.id() == marks && file.marks().has_owner() && (file.may_write() || link.opening.read_only)
    };
    borrowed.0.iter().filter_map(Weak::upgrade).find(|pages| fits(&pages.file))
}

impl LentPages {
    /// The number of the owner's marks.
    pub(super) fn id(&self) -> u64 {
        self.file.id()
    }

    /// True while the owner lives.
    pub(super) fn has_owner(&self) -> bool {
        self.file.marks().has_owner()
    }
}

impl Drop for LentPages {
    fn drop(&mut self) {
        self.file.end();
    }
}

/// Borrows the file from the owner of a stream, unless this process has it already.
fn borrow(link: &Link, channel: &Channel) -> Option<Arc<LentPages>> {
    let asked = channel
        .ask(&Call::new(Operation::Marks, FileOf::Main, 0, 0), |reply| Ok(reply.flag.then_some(reply.value)));
    let (id, memory) = asked.ok().flatten().zip(channel.take_memory())?;
    channel.borrowing.note_marks(id);
    let mut borrowed = BORROWED.lock();
    borrowed.0.retain(|other| other.strong_count() > 0);
    if let Some(known) = known(&borrowed, id, link) {
        return Some(known);
    }
    let marks = Marks::of(memory).ok()?;
    let looks_after = LooksAfter::of(&marks).filter(LooksAfter::begin)?;
    let file = BorrowedFile::new(link, (id, marks), looks_after, borrow_file(link, id)?)?;
    let pages = Arc::new(LentPages { file });
    borrowed.0.push(Arc::downgrade(&pages));
    Some(pages)
}
