//! A member's transaction whose owner has died: it goes on with the next one, where it can (`open/succession`).
//!
//! # When
//! The member has held the transaction back (`held_txn`), and nobody has written since. Its pages and its journal are here, and those that it has read are
//! still true. Only its locks were the owner's. The next owner gives them again.
//!
//! # Invariants
//! 1. A transaction goes on by the word of the next owner, or fails as if there were none.
//! 2. A commit that was under way is made once more, unless it is known to have been made. The next owner says so. It writes the same pages again.
//! 3. All of it happens under the lock of the transaction: this thread does it, or the one that waits for the death of owners (`borrowed_file`).

use crate::error::{Error, Result};
use crate::files::group::batch::News;
use crate::files::group::channel::Channel;
use crate::files::group::held_txn::HeldTxn;
use crate::files::group::joining::join_again;
use crate::files::group::link::Link;
use crate::files::group::member_file::MemberFile;
use crate::files::group::member_rollback::unexpected;
use crate::files::group::owner::Said;
use crate::files::group::protocol::{Call, FileOf, HOLDS, Operation, RESERVED};
use crate::sync::heirs::{LATEST, Orphan};
use crate::sync::lock_table::Level;
use litefoot_storage::sync::MutexGuard;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a commit waits for readers that have come to the next owner meanwhile.
const READERS_LEAVE: Duration = Duration::from_secs(5);
/// How long the stream of a connection may end behind another one of the same owner's.
pub(super) const LAST_STREAM: Duration = LATEST;
/// The time between two looks.
pub(super) const GLANCE: Duration = Duration::from_millis(1);

/// What has become of a transaction, and its next owner.
pub(super) enum Orphaned {
    GoesOn(Arc<Channel>),
    Committed(Arc<Channel>),
}

impl Link {
    /// The next owner of a transaction that is held, where the last one has died. Where it `ends`, a commit was under way that gives all locks back.
    pub(super) fn find_next_owner(self: &Arc<Link>, txn: &mut HeldTxn, ends: bool) -> Option<Orphaned> {
        let mut former = self.channel();
        // Nothing may have been asked since.
        let _ = former.look();
        // Beside strangers it goes on by itself (`file_orphan`).
        if !former.has_lost_owner() || txn.is_released || former.borrowing.are_strangers_there() {
            return None;
        }
        if let Some(channel) = txn.next_owner.take() {
            if channel.look().is_ok() {
                return Some(Orphaned::GoesOn(channel));
            }
            former = channel;
        }
        if txn.since.marks == 0 {
            return None;
        }
        let (len, page_bytes) = {
            let pages = txn.pages.as_ref()?;
            (pages.base_len(), pages.page_bytes)
        };
        let channel = join_again(self, &former).ok()?;
        self.settings.tell(&channel).ok()?;
        // It may die as well.
        channel.borrowing.note_beginning((self, &channel), || true);
        let Orphan { since, token, ends } = txn.orphan(self.token, ends);
        let said = Said { token, len, page_bytes: page_bytes as u32, is_reserved: txn.is_reserved, ends };
        let said = said.encode();
        let call = Call::new(Operation::GoOn, FileOf::Main, since.marks, since.writings).with(&said);
        let given = channel.ask(&call, |reply| {
            if reply.value & HOLDS == 0 {
                return Ok(false);
            }
            let news = News::decode(reply.data).ok_or_else(unexpected)?;
            if txn.is_reserved && reply.value & RESERVED == 0 || news.len != len {
                return Err(unexpected());
            }
            txn.kept.go_on(news.moment, news.page_bytes, Some(&[]));
            txn.kept.note_len(news.len);
            (txn.since, txn.is_alone) = (news.since, false);
            Ok(true)
        });
        Some(if given.ok()? { Orphaned::GoesOn(channel) } else { Orphaned::Committed(channel) })
    }

    /// The transaction, once no call of its connection is under way; `None` where that has come to the next owner itself, or takes too long. One that
    /// waits for its application may have come to a next owner without its connection, which has died by now.
    fn await_call(&self, marks: u64) -> Option<MutexGuard<'_, HeldTxn>> {
        let until = Instant::now() + LATEST;
        loop {
            if let Some(txn) = self.txn.try_lock() {
                return Some(txn);
            }
            let channel = self.channel();
            let has_come = channel.borrowing.marks() != marks && channel.is_alive();
            if has_come || Instant::now() >= until {
                return None;
            }
            std::thread::sleep(GLANCE);
        }
    }

    /// The owner with these marks has died: a transaction of its goes on, whatever its connection does just now.
    pub(super) fn keep_transaction(self: &Arc<Link>, marks: u64) {
        let Some(mut txn) = self.await_call(marks) else { return };
        if txn.since.marks != marks || !txn.is_held() {
            return;
        }
        // The system ends the streams of a process one after the other.
        let channel = txn.next_owner.clone().unwrap_or_else(|| self.channel());
        let until = Instant::now() + LAST_STREAM;
        while channel.look().is_ok() && Instant::now() < until {
            std::thread::sleep(GLANCE);
        }
        if let Some(Orphaned::GoesOn(channel)) = self.find_next_owner(&mut txn, false) {
            txn.next_owner = Some(channel);
        }
    }
}

impl MemberFile {
    /// Makes a call of a transaction, with the next owner where the last one has died.
    pub(super) fn in_transaction<T>(&mut self, call: impl Fn(&mut MemberFile) -> Result<T>) -> Result<T> {
        let mut result = call(self);
        while result.is_err() && self.goes_on() {
            result = call(self);
        }
        result
    }

    /// True if the transaction goes on with a next owner, where the last one was found to have died.
    pub(super) fn goes_on(&mut self) -> bool {
        if self.channel.is_alive() {
            return false;
        }
        let link = self.link.clone();
        let mut txn = link.txn.lock();
        while let Some(Orphaned::GoesOn(channel)) = link.find_next_owner(&mut txn, false) {
            if self.go_on_with(channel, &mut txn) {
                return true;
            }
        }
        false
    }

    /// The same before the owner is given what is held.
    pub(super) fn look_for_owner(&mut self) {
        if self.link.txn.lock().is_held() && self.channel.look().is_err() {
            self.goes_on();
        }
    }

    /// From now on that is its owner.
    pub(super) fn move_to(&mut self, channel: Arc<Channel>) {
        self.link.set_channel(channel.clone());
        self.channel = channel;
        self.reads_by_seat = false;
    }

    /// From now on that is its owner. It gives EXCLUSIVE where the last one has; `false` where it does not, and the transaction fails.
    pub(super) fn go_on_with(&mut self, channel: Arc<Channel>, txn: &mut HeldTxn) -> bool {
        self.move_to(channel);
        let goes_on = self.level < Level::Exclusive || self.is_alone_again(txn);
        if !goes_on {
            // SQLite must not commit with less than it believes to have.
            self.channel.leave();
        }
        goes_on
    }

    /// Takes EXCLUSIVE once more. Strangers would have to see the journal.
    fn is_alone_again(&self, txn: &mut HeldTxn) -> bool {
        let call = Self::call(Operation::Lock, Level::Exclusive as u64, self.link.token);
        let until = Instant::now() + READERS_LEAVE;
        loop {
            match self.channel.ask(&call, |reply| Ok(reply.flag)) {
                Err(Error::Busy) if Instant::now() < until => std::thread::sleep(GLANCE),
                Ok(false) => {
                    txn.note_alone();
                    return true;
                }
                Ok(true) | Err(_) => return false,
            }
        }
    }
}
