//! The open file of an owner, as a process has borrowed it, and what becomes of it behind the death of the owner.
//!
//! # Invariants
//! 1. Where an owner has died that had the database alone, one process takes the file over, and recovers what the owner has left ([`BorrowedFile::claim`]). Until
//!    then each process keeps the file that has borrowed it, and its locks and its lease keep all others out. A thread that waits for the end of a stream sees to it. A
//!    process's streams end behind the last call of its last thread, so nothing of the owner's is written any more by then.
//! 2. A process that has a transaction of the dead owner's takes the file over at once, and keeps the transaction (`orphan`). Others leave it
//!    [`FILE_LEFT_TO_HEIRS`] for that, and longer while such a process is late.
//! 3. Beside strangers the files have all that was committed. There the processes wait until all have looked after their transactions, and give the locks and the lease
//!    back. None takes the file over: each transaction gets the same locks by another open file (`file_orphan`).

use crate::files::group::file_orphan::keep_file_txns;
use crate::files::group::joining::{PATIENCE, greeting};
use crate::files::group::lent_pages::Reading;
use crate::files::group::link::{Link, Opening};
use crate::files::vfs::Vfs;
use crate::open::at_exit;
use crate::options::Options;
use crate::sync::file_locks::take_from;
use crate::sync::forks::InSqlite;
use crate::sync::heirs::{Estate, Fate, Heritage, LATEST, LooksAfter, Orphan};
use crate::sync::lock_table::Level;
use crate::sync::unwritten_pages::Marks;
use litefoot_storage::file::{File, FileId};
use litefoot_storage::os::{LentFile, LocalSocket};
use litefoot_storage::sync::{AcrossFork, Condvar, Global, Mutex, RwLock};
use litefoot_storage::thread;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long processes without a transaction leave the file to those that may have one.
const FILE_LEFT_TO_HEIRS: Duration = Duration::from_millis(200);
/// How long a recovery may fail, as on a full disk, before the file is closed without.
const RECOVERY_FAILS: Duration = Duration::from_secs(10);
/// The time between two looks if one has taken it over, or all are done.
const GLANCE: Duration = Duration::from_millis(2);
/// How long the end of a stream may come behind the death of its owner.
const LAST_CALLS: Duration = LATEST;

/// A borrowed file.
pub(super) struct BorrowedFile {
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
    /// True while a thread of this process takes the file over.
    is_claimed: AtomicBool,
    vfs: Weak<Vfs>,
    opening: Opening,
    /// Which file it is, where that is known.
    id_of_file: Option<FileId>,
}

/// The borrowed files that this process has not closed yet.
#[derive(Default)]
struct Files(Vec<Weak<BorrowedFile>>);

impl AcrossFork for Files {
    fn inherit(_parents: Files) -> Files {
        Files::default()
    }
}

static FILES: Global<Files> = Global::new(Files(Vec::new()));

/// The right to take the file of a dead owner over, until this is dropped. One process has it at a time, and none once that is done.
pub(in crate::files) struct Claim(Arc<BorrowedFile>);

impl Claim {
    fn of(file: &Arc<BorrowedFile>) -> Option<Claim> {
        if file.is_claimed.swap(true, Ordering::SeqCst) {
            return None;
        }
        if !file.looks_after.begin_taking_over() {
            file.is_claimed.store(false, Ordering::SeqCst);
            return None;
        }
        let claim = Claim(file.clone());
        (!file.marks.is_decided()).then_some(claim)
    }
}

impl Claim {
    /// The marks of the dead owner, and their number.
    pub(in crate::files) fn marks(&self) -> (u64, Arc<Marks>) {
        (self.0.id, self.0.marks.clone())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.looks_after.end_taking_over();
        self.0.is_claimed.store(false, Ordering::SeqCst);
    }
}

/// What has become of an attempt to recover.
enum Attempt {
    Done,
    Anothers,
    Failed,
    /// This process may not write the database, or has no VFS for it any more.
    Cannot,
}

/// Whose the open file of an owner is to be that has died.
pub(super) enum Inheritance {
    /// This process's, which takes it over.
    Ours(Arc<dyn File>, Claim),
    /// Another process's.
    Anothers,
    /// The system had no descriptor, or did not say which file has the name.
    Failed,
    /// There is none, or not for this process.
    Nobodys,
}

impl BorrowedFile {
    /// The file that has come with a stream, from the owner with these marks. A thread of its own waits for the end of that; without one nothing is borrowed.
    pub(super) fn new(
        link: &Link,
        (id, marks): (u64, Marks),
        looks_after: LooksAfter,
        (stream, file): (LocalSocket, OwnedFd),
    ) -> Option<Arc<BorrowedFile>> {
        let borrowed = Arc::new(BorrowedFile {
            id,
            marks: Arc::new(marks),
            file: RwLock::new(Some(LentFile::of(file).ok()?)),
            looks_after,
            stream,
            has_ended: Default::default(),
            is_claimed: AtomicBool::new(false),
            vfs: link.vfs.clone(),
            opening: link.opening.clone(),
            id_of_file: link.id,
        });
        let waiting = borrowed.clone();
        thread::spawn("litefoot-lent", move || waiting.give_back_at_end()).ok()?;
        let mut files = FILES.lock();
        files.0.retain(|other| other.strong_count() > 0);
        files.0.push(Arc::downgrade(&borrowed));
        drop(files);
        at_exit::first(recover_at_exit);
        Some(borrowed)
    }

    /// The number of the owner's marks.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// The owner's marks.
    pub(super) fn marks(&self) -> &Marks {
        &self.marks
    }

    /// True for options by which the commit log is found where the owner has it (`joining`).
    fn is_like(&self, id: FileId, options: &Options) -> bool {
        greeting(id, &self.opening.options) == greeting(id, options)
    }

    /// True until it is closed.
    fn has_file(&self) -> bool {
        self.file.read().is_some()
    }

    /// True if this process may write the database, as far as it knows.
    pub(super) fn may_write(&self) -> bool {
        !self.opening.read_only
    }

    /// The process needs the file no more, unless its owner has died.
    pub(super) fn end(&self) {
        self.stream.close();
    }

    /// Reads bytes of a page; `false` where the owner has to be asked.
    pub(super) fn read(&self, reading: Reading, page: u32, buf: &mut [u8], offset: u64) -> bool {
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
    fn give_back_at_end(self: &Arc<BorrowedFile>) {
        while matches!(self.stream.receive(&mut [0]), Ok((1.., _))) {}
        *self.has_ended.0.lock() = true;
        self.has_ended.1.notify_all();
        if !self.marks.has_lost_owner() {
            // A forked child may have the descriptor.
            self.looks_after.end();
            return self.close();
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
        if self.marks.needs_heir() {
            self.see_to_recovery(Duration::MAX);
            return self.close();
        }
        if self.marks.decide(Estate::GivenUp) {
            self.release();
        }
        self.close();
    }

    /// Gives the locks and the lease back, for all that have the file: one of them may be stopped.
    fn release(&self) {
        if let Some(file) = self.file.read().as_ref() {
            file.release();
        }
    }

    /// Closes the file. Its locks and its lease last until the last process has done so.
    fn close(&self) {
        self.file.write().take();
        self.looks_after.note_closed();
    }

    /// Waits until what the owner has left is recovered. Where no other process does that, this one does. Whether or not anybody begins another transaction,
    /// strangers are to find what was committed. Where this process cannot, another one may that has the file still. That is waited for for so long.
    fn see_to_recovery(self: &Arc<BorrowedFile>, patience: Duration) {
        let begun = Instant::now();
        let mut failed = None;
        while !self.marks.is_decided() {
            let goes_on = match self.try_to_recover() {
                Attempt::Done | Attempt::Cannot => false,
                Attempt::Anothers => begun.elapsed() < patience,
                // There may be no memory just now, or no space.
                Attempt::Failed => failed.get_or_insert_with(Instant::now).elapsed() < RECOVERY_FAILS,
            };
            if !goes_on {
                return;
            }
            std::thread::sleep(GLANCE);
        }
    }

    /// Recovers it, unless another process is at that, and gives the locks and the lease back.
    fn try_to_recover(self: &Arc<BorrowedFile>) -> Attempt {
        let Some(vfs) = self.vfs.upgrade() else { return Attempt::Cannot };
        let no_fork = InSqlite::enter();
        let links = vfs.links.of(&self.opening.path);
        let as_here =
            |opening: &&Opening| self.id_of_file.is_some_and(|id| self.is_like(id, &opening.options));
        let others = links.iter().map(|link| &link.opening).filter(as_here);
        let mut openings = [&self.opening].into_iter().chain(others);
        let Some(opening) = openings.find(|opening| !opening.read_only) else { return Attempt::Cannot };
        let (file, claim) = match self.claim(&vfs, opening, Duration::ZERO) {
            Inheritance::Ours(file, claim) => (file, claim),
            Inheritance::Anothers => return Attempt::Anothers,
            Inheritance::Failed => return Attempt::Failed,
            Inheritance::Nobodys => return Attempt::Cannot,
        };
        let recovered = vfs.recover_inherited(opening, file, &claim);
        drop((claim, no_fork));
        let Ok(database) = recovered else { return Attempt::Failed };
        // Who opens it next is to be alone: the others close the file.
        let until = Instant::now() + LATEST;
        while !self.looks_after.has_file_alone() && Instant::now() < until {
            std::thread::sleep(GLANCE);
        }
        drop(database);
        self.release();
        Attempt::Done
    }

    /// The file for this process, once the owner has died. While another process takes it over, that is waited for: it may die as well.
    fn claim(self: &Arc<BorrowedFile>, vfs: &Vfs, opening: &Opening, patience: Duration) -> Inheritance {
        if opening.read_only
            || !self.marks.has_lost_owner()
            || !self.marks.needs_heir()
            || !self.awaits_end()
            // Its last thread may have let strangers in.
            || !self.marks.needs_heir()
        {
            return Inheritance::Nobodys;
        }
        let until = Instant::now() + patience;
        let claim = loop {
            if let Some(claim) = Claim::of(self) {
                break claim;
            }
            if self.marks.is_decided() || Instant::now() >= until {
                return Inheritance::Anothers;
            }
            std::thread::sleep(GLANCE);
        };
        let taken = self.file.read().as_ref().map(|file| file.take_over(&opening.path));
        match (taken, vfs.medium.identity(&opening.path)) {
            (Some(Ok(file)), Ok(id)) if id == Some(file.id()) => Inheritance::Ours(file, claim),
            (Some(Ok(_)), Ok(_)) | (None, _) => Inheritance::Nobodys,
            (Some(_), _) => Inheritance::Failed,
        }
    }

    /// The transactions that this process has had with the owner go on with the next one.
    fn keep_transactions(&self) {
        let Some(vfs) = self.vfs.upgrade() else { return };
        let _no_fork = InSqlite::enter();
        let links = vfs.links.of(&self.opening.path);
        if self.marks.are_beside_strangers() {
            return keep_file_txns(links, self.id);
        }
        for link in links {
            link.keep_transaction(self.id);
            link.keep_snapshot(self.id);
        }
    }

    /// True once the owner has died while strangers might have the database.
    fn has_died_beside_strangers(&self) -> bool {
        self.marks.has_lost_owner() && self.marks.are_beside_strangers() && self.awaits_end()
    }

    /// True once the stream has ended; the owner has died.
    fn awaits_end(&self) -> bool {
        let (has_ended, ended) = &self.has_ended;
        let (mut has_ended, until) = (has_ended.lock(), Instant::now() + LAST_CALLS);
        while !*has_ended && !ended.wait_until(&mut has_ended, until).timed_out() {}
        *has_ended
    }
}

/// The file that this process has of the owner with these marks.
fn left_by(marks: u64) -> Option<Arc<BorrowedFile>> {
    FILES.lock().0.iter().filter_map(Weak::upgrade).find(|file| file.id == marks && file.has_file())
}

/// Takes over the open file of an owner that a connection has lost, by the number of its marks: where it has died, and nobody else has taken it over. No
/// other thread opens the database meanwhile.
pub(super) fn inherit(vfs: &Vfs, opening: &Opening, marks: u64) -> Inheritance {
    let Some(left) = left_by(marks) else { return Inheritance::Nobodys };
    match left.claim(vfs, opening, PATIENCE) {
        // This process has it open by another open file.
        Inheritance::Ours(file, _) if vfs.databases.get(file.id()).is_some() => Inheritance::Nobodys,
        inheritance => inheritance,
    }
}

/// The number of the marks of an owner that has died, and has left that file to this process, as a database with such options.
pub(super) fn left_with(id: FileId, options: &Options) -> Option<u64> {
    let is_left = |file: &Arc<BorrowedFile>| {
        file.id_of_file == Some(id)
            && file.is_like(id, options)
            && file.has_file()
            && file.marks.has_lost_owner()
            && file.marks.needs_heir()
            && !file.marks.is_decided()
    };
    FILES.lock().0.iter().filter_map(Weak::upgrade).find(is_left).map(|file| file.id)
}

/// This process ends. It may be the last one that can recover what an owner has left just before.
fn recover_at_exit() {
    let files: Vec<_> = FILES.lock().0.iter().filter_map(Weak::upgrade).collect();
    for file in files {
        if file.marks.has_lost_owner() && file.marks.needs_heir() {
            // Its own transactions are over. Those of others come first.
            file.looks_after.end();
            let until = Instant::now() + LATEST;
            while !file.marks.is_decided() && !file.looks_after.are_all_done() && Instant::now() < until {
                std::thread::sleep(GLANCE);
            }
            file.see_to_recovery(PATIENCE);
        }
    }
}

/// What an owner that has died beside strangers has noted of a transaction; `None` where it is not known to have died so.
pub(super) fn fate_beside_strangers(orphan: Orphan) -> Option<Fate> {
    let left = left_by(orphan.since.marks)?;
    left.has_died_beside_strangers().then(|| left.marks.fate_of(orphan))
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
    let Some(left) = left_by(marks).filter(|left| left.has_died_beside_strangers()) else {
        return Reopened::NotYet;
    };
    let lent = left.file.read();
    let opened = lent.as_ref().and_then(|lent| Some((lent, lent.open_again(path).ok()?)));
    let Some((lent, file)) = opened else { return Reopened::Lost };
    let from = |offset, len, lock| lent.lock_range(offset, len, lock).unwrap_or(false);
    match take_from(&*file, from, level, || !left.marks.is_decided()) {
        Ok(true) => Reopened::Ours(file, FormerOwner { marks: left.marks.clone() }),
        Ok(false) | Err(_) => {
            // Nobody else gives back what was taken a moment too late.
            if left.marks.is_decided() {
                lent.release();
            }
            Reopened::Lost
        }
    }
}
