//! Pages that a member reads from its owner's open file, without a message (`owner/lending`).
//!
//! # Invariants
//! 1. A page is read so only where nobody writes it meanwhile ([`Reading`]): the owner has the lock of a reader for the member, or the member has a
//!    slot of the wal-index by its seat.
//! 2. What was read counts only if the owner lived behind it (`sync/unwritten_pages`). Until then its locks were held, and nobody else has written
//!    what they protect.
//! 3. Where an owner has died, one process takes the file over ([`inherit`]), or its locks and its lease are given back. A thread that waits for the end of
//!    a stream sees to it. Nobody could have the database else. A process's streams end behind the last call of its last thread, so nothing of the
//!    owner's is written any more by then.
//! 4. A process that has a transaction of the dead owner's takes the file over at once, and keeps the transaction (`orphan`). Others leave it
//!    [`FILE_LEFT_TO_HEIRS`] for that, and longer while such a process is late. Beside strangers they wait until all have looked after their transactions, and none takes it over: each
//!    transaction gets the same locks by another open file (`file_orphan`).
//! 5. A process borrows a file once, for all its connections to one owner.

use crate::files::group::channel::Channel;
use crate::files::group::file_orphan::keep_file_txns;
use crate::files::group::joining::borrow_file;
use crate::files::group::link::{Link, Opening};
use crate::files::group::protocol::{Call, FileOf, Operation};
use crate::files::vfs::Vfs;
use crate::sync::file_locks::take_from;
use crate::sync::forks::InSqlite;
use crate::sync::heirs::{Estate, Fate, Heritage, LATEST, LooksAfter, Orphan};
use crate::sync::lock_table::Level;
use crate::sync::unwritten_pages::Marks;
use litefoot_storage::file::File;
use litefoot_storage::os::{LentFile, LocalSocket};
use litefoot_storage::sync::{AcrossFork, Condvar, Global, Mutex, RwLock};
use litefoot_storage::thread;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// Pages that a connection asks for before it borrows the file. That takes some messages itself, and many a connection reads less.
const PAGES_BEFORE: u32 = 16;
/// How long processes without a transaction leave the file to those that may have one.
const FILE_LEFT_TO_HEIRS: Duration = Duration::from_millis(200);
/// The time between two looks if one has taken it over, or all are done.
const GLANCE: Duration = Duration::from_millis(2);
/// How long the end of a stream may come behind the death of its owner.
const LAST_CALLS: Duration = LATEST;

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
    marks: Arc<Marks>,
    /// `None` once it was given back.
    file: RwLock<Option<LentFile>>,
    /// This process has transactions to look after, until it has done so.
    looks_after: LooksAfter,
    /// The stream that came with it.
    stream: LocalSocket,
    /// True once the stream has ended.
    has_ended: (Mutex<bool>, Condvar),
    vfs: Weak<Vfs>,
    path: PathBuf,
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

/// What has become of the open file of an owner that has died.
pub(super) enum Inheritance {
    /// It is this process's, which is the next owner; with the number of the owner's marks.
    Ours(Arc<dyn File>, u64, Arc<Marks>),
    /// Another process's.
    Anothers,
    /// There is none, or it was given up.
    Nobodys,
}

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
        channel.is_alive() && pages.as_ref().is_some_and(|pages| pages.there.read(reading, page, buf, offset))
    }

    /// A transaction begins. One that `counts` keeps its owner's file, so that it outlives the owner; so does any but the first of a connection, and any where
    /// the process has the file already.
    pub(super) fn note_beginning(&self, (link, channel): (&Link, &Channel), counts: impl FnOnce() -> bool) {
        let is_worth_it = || {
            self.begun.fetch_add(1, Ordering::Relaxed) > 0
                || counts()
                || known(&BORROWED.lock(), self.marks()).is_some()
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
        self.lent().is_some_and(|lent| lent.there.marks.are_beside_strangers())
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
        let known = known(&BORROWED.lock(), self.marks());
        self.pages.get_or_init(|| known.or_else(|| borrow(link, channel)))
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

    /// Waits for the end of the stream, and gives the file back. What a dead owner has left on it is taken over, or given back as well.
    fn give_back_at_end(&self) {
        while matches!(self.stream.receive(&mut [0]), Ok((1.., _))) {}
        *self.has_ended.0.lock() = true;
        self.has_ended.1.notify_all();
        if !self.marks.has_lost_owner() {
            // A forked child may have the descriptor.
            self.looks_after.end();
            self.file.write().take();
            return;
        }
        let ended = Instant::now();
        if self.marks.may_be_inherited() || self.marks.are_beside_strangers() {
            // Where this process has none of its transactions, another one may.
            self.keep_transactions();
            self.looks_after.end();
            // Elsewhere a member may begin a transaction, and recover the logs before a stranger comes.
            let least = if self.marks.are_beside_strangers() { Duration::ZERO } else { FILE_LEFT_TO_HEIRS };
            let are_others_late = || {
                let since = ended.elapsed();
                since < least || since < LATEST && !self.looks_after.are_all_done()
            };
            while !self.marks.is_decided() && are_others_late() {
                std::thread::sleep(GLANCE);
            }
        }
        let is_given_up = self.marks.decide(Estate::GivenUp);
        if let Some(file) = self.file.write().take().filter(|_| is_given_up) {
            file.release();
        }
    }

    /// The transactions that this process has had with the owner go on with the next one.
    fn keep_transactions(&self) {
        let Some(vfs) = self.vfs.upgrade() else { return };
        let _no_fork = InSqlite::enter();
        let links = vfs.links.of(&self.path);
        if self.marks.are_beside_strangers() {
            return keep_file_txns(links, self.id);
        }
        for link in links {
            link.keep_transaction(self.id);
            link.keep_snapshot(self.id);
        }
    }

    /// True once the stream has ended; the owner has died.
    fn awaits_end(&self) -> bool {
        let (has_ended, ended) = &self.has_ended;
        let (mut has_ended, until) = (has_ended.lock(), Instant::now() + LAST_CALLS);
        while !*has_ended && !ended.wait_until(&mut has_ended, until).timed_out() {}
        *has_ended
    }
}

/// Takes over the open file of an owner that a connection has lost, by the number of its marks: where it has died, and nobody else has taken it over. No
/// other thread opens the database meanwhile.
pub(super) fn inherit(vfs: &Vfs, opening: &Opening, marks: u64) -> Inheritance {
    let lent = lent_by(&BORROWED.lock(), marks);
    let Some(lent) = lent else { return Inheritance::Nobodys };
    let there = &lent.there;
    if opening.read_only
        || !there.marks.has_lost_owner()
        || !there.marks.may_be_inherited()
        || !there.awaits_end()
        // Its last thread may have let strangers in.
        || !there.marks.may_be_inherited()
    {
        return Inheritance::Nobodys;
    }
    let file = there.file.read().as_ref().and_then(|file| file.take_over(&opening.path).ok());
    let has_its_name = |file: &Arc<dyn File>| {
        let id = vfs.medium.identity(&opening.path).ok().flatten();
        id == Some(file.id()) && vfs.databases.get(file.id()).is_none()
    };
    match file.filter(has_its_name) {
        Some(file) if there.marks.decide(Estate::TakenOver) => {
            Inheritance::Ours(file, there.id, there.marks.clone())
        }
        _ if there.marks.is_decided() => Inheritance::Anothers,
        _ => Inheritance::Nobodys,
    }
}

/// What an owner that has died beside strangers has noted of a transaction; `None` where it is not known to have died so.
pub(super) fn fate_beside_strangers(orphan: Orphan) -> Option<Fate> {
    let lent = lent_by(&BORROWED.lock(), orphan.since.marks)?;
    let there = &lent.there;
    let has_died = there.marks.has_lost_owner() && there.marks.are_beside_strangers() && there.awaits_end();
    has_died.then(|| there.marks.fate_of(orphan))
}

/// The owner of a transaction that has died beside strangers (`file_orphan`).
pub(super) struct FormerOwner {
    marks: Arc<Marks>,
}

impl FormerOwner {
    /// One with these marks.
    #[cfg(test)]
    pub fn of_test(owner: &crate::sync::unwritten_pages::UnwrittenPages) -> FormerOwner {
        FormerOwner { marks: owner.of_member() }
    }

    /// True once the locks of its open file were given back.
    pub fn is_released(&self) -> bool {
        self.marks.is_decided()
    }
}

/// What has become of a lock that an owner had that has died beside strangers.
pub(super) enum Reopened {
    /// It is this process's, by that open file.
    Ours(Arc<dyn File>, FormerOwner),
    /// Nobody has it any more.
    Lost,
    /// The owner is not known to have died beside strangers.
    NotYet,
}

/// Opens the file once more that a connection has lost with its owner, by the number of its marks, and takes the lock of a transaction by that.
pub(super) fn open_again(marks: u64, path: &Path, level: Level) -> Reopened {
    let Some(lent) = lent_by(&BORROWED.lock(), marks) else { return Reopened::NotYet };
    let there = &lent.there;
    if !there.marks.has_lost_owner() || !there.marks.are_beside_strangers() || !there.awaits_end() {
        return Reopened::NotYet;
    }
    let lent = there.file.read();
    let opened = lent.as_ref().and_then(|lent| Some((lent, lent.open_again(path).ok()?)));
    let Some((lent, file)) = opened else { return Reopened::Lost };
    let from = |offset, len, lock| lent.lock_range(offset, len, lock).unwrap_or(false);
    match take_from(&*file, from, level, || !there.marks.is_decided()) {
        Ok(true) => Reopened::Ours(file, FormerOwner { marks: there.marks.clone() }),
        Ok(false) | Err(_) => {
            // Nobody else gives back what was taken a moment too late.
            if there.marks.is_decided() {
                lent.release();
            }
            Reopened::Lost
        }
    }
}

/// The file that the owner with these marks has lent to this process.
fn lent_by(borrowed: &Borrowed, marks: u64) -> Option<Arc<LentPages>> {
    borrowed.0.iter().filter_map(Weak::upgrade).find(|pages| pages.there.id == marks)
}

/// The same while the owner lives.
fn known(borrowed: &Borrowed, marks: u64) -> Option<Arc<LentPages>> {
    lent_by(borrowed, marks).filter(|pages| pages.there.marks.has_owner())
}

impl LentPages {
    /// The number of the owner's marks.
    pub(super) fn id(&self) -> u64 {
        self.there.id
    }

    /// True while the owner lives.
    pub(super) fn has_owner(&self) -> bool {
        self.there.marks.has_owner()
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
    channel.borrowing.note_marks(id);
    let mut borrowed = BORROWED.lock();
    borrowed.0.retain(|other| other.strong_count() > 0);
    if let Some(known) = known(&borrowed, id) {
        return Some(known);
    }
    let marks = Arc::new(Marks::of(memory).ok()?);
    let looks_after = LooksAfter::of(&marks).filter(LooksAfter::begin)?;
    let (stream, file) = borrow_file(link, id)?;
    let there = Arc::new(There {
        id,
        marks,
        file: RwLock::new(Some(LentFile::of(file).ok()?)),
        looks_after,
        stream,
        has_ended: Default::default(),
        vfs: link.vfs.clone(),
        path: link.opening.path.clone(),
    });
    let waiting = there.clone();
    // Without a thread nothing is borrowed.
    thread::spawn("litefoot-lent", move || waiting.give_back_at_end()).ok()?;
    let pages = Arc::new(LentPages { there });
    borrowed.0.push(Arc::downgrade(&pages));
    Some(pages)
}
