//! Pages that a member reads from its owner's open file, without a message (`owner/lending`).
//!
//! # Invariants
//! 1. A page is read so only where nobody writes it meanwhile ([`Reading`]): the owner has the lock of a reader for the member, or the member has a
//!    slot of the wal-index by its seat.
//! 2. What was read counts only if the owner lived behind it (`sync/unwritten_pages`). Until then its locks were held, and nobody else has written
//!    what they protect.
//! 3. Locks and the lease of an owner that has died are given back at once, by a thread that waits for the end of a stream. Nobody could have the
//!    database else. A process's streams end behind the last call of its last thread, so nothing of the owner's is written any more by then.
//! 4. A process borrows a file once, for all its connections to one owner.

use crate::files::group::channel::Channel;
use crate::files::group::joining::borrow_file;
use crate::files::group::link::Link;
use crate::files::group::protocol::{Call, FileOf, Operation};
use crate::sync::unwritten_pages::Marks;
use litefoot_storage::os::{LentFile, LocalSocket};
use litefoot_storage::sync::{AcrossFork, Global, RwLock};
use litefoot_storage::thread;
use std::sync::atomic::{AtomicU32, Ordering};
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

/// A borrowed file.
pub(super) struct LentPages {
    there: Arc<There>,
}

struct There {
    /// The number of the owner's marks.
    id: u64,
    marks: Marks,
    /// `None` once it was given back.
    file: RwLock<Option<LentFile>>,
    /// The stream that came with it.
    stream: LocalSocket,
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
            None => self.pages.get_or_init(|| borrow(link, channel)),
        };
        // In a forked child the stream is its parent's.
        channel.is_alive() && pages.as_ref().is_some_and(|pages| pages.there.read(reading, page, buf, offset))
    }
}

impl There {
    fn read(&self, reading: Reading, page: u32, buf: &mut [u8], offset: u64) -> bool {
        let read = || {
            let file = self.file.read();
            file.as_ref().is_some_and(|file| file.read_at(buf, offset).is_ok_and(|read| read == buf.len()))
        };
        match reading {
            Reading::Held => self.marks.read(page, read),
            Reading::Slot => self.marks.read_beside_owner(read),
        }
    }

    /// Waits for the end of the stream, and gives the file back, with what a dead owner has left on it.
    fn give_back_at_end(&self) {
        while matches!(self.stream.receive(&mut [0]), Ok((1.., _))) {}
        let file = self.file.write().take();
        if let Some(file) = file.filter(|_| self.marks.has_lost_owner()) {
            file.release();
        }
    }
}

impl Drop for LentPages {
    fn drop(&mut self) {
        self.there.stream.close();
    }
}

/// Borrows the file from the owner of a stream, unless this process has it already.
fn borrow(link: &Link, channel: &Channel) -> Option<Arc<LentPages>> {
    let asked = channel
        .ask(&Call::new(Operation::Marks, FileOf::Main, 0, 0), |reply| Ok(reply.flag.then_some(reply.value)));
    let (id, memory) = asked.ok().flatten().zip(channel.take_memory())?;
    let mut borrowed = BORROWED.lock();
    borrowed.0.retain(|other| other.strong_count() > 0);
    let has_it = |pages: &Arc<LentPages>| pages.there.id == id && pages.there.marks.has_owner();
    if let Some(known) = borrowed.0.iter().filter_map(Weak::upgrade).find(has_it) {
        return Some(known);
    }
    let marks = Marks::of(memory).ok()?;
    let (stream, file) = borrow_file(link, id)?;
    let there = Arc::new(There { id, marks, file: RwLock::new(Some(LentFile::of(file).ok()?)), stream });
    let waiting = there.clone();
    // Without a thread nothing is borrowed.
    thread::spawn("litefoot-lent", move || waiting.give_back_at_end()).ok()?;
    let pages = Arc::new(LentPages { there });
    borrowed.0.push(Arc::downgrade(&pages));
    Some(pages)
}
