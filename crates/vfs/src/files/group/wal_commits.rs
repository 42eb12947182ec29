//! A member's transaction in WAL mode that writes, whose owner has died: it goes on with the guardian of its snapshot, where it can (`wal_orphan`).
//!
//! # When
//! The transaction has the lock of a writer, or asks for it. Nobody else has committed since. So the guardian gives it that lock where the database has
//! exactly what the transaction has found: each page of the log is compared, by its hash (`wal_state`).
//!
//! A commit that was under way may be in the log, or not: the dead owner has acknowledged none of those that shared its last sync. Each of them asks the
//! guardian. Those that are in the log are found there, also below others that were published behind them. The others are made once more, in their
//! order: each waits until the database has what it builds upon.
//!
//! SQLite publishes the commit in the index of the dead owner, in which no transaction begins any more.
//!
//! # Invariants
//! 1. A transaction writes on where its member has all that it has written (`own_frames`), and the guardian has found the state that it builds upon.
//! 2. A commit is made at most once: where the guardian has it, nothing is written.
//! 3. A commit that a guardian has made is durable, also where the transaction did not ask for that.

use crate::error::{Error, Result};
use crate::files::group::batch::ask_with_batch;
use crate::files::group::channel::Channel;
use crate::files::group::link::Link;
use crate::files::group::member_rollback::unexpected;
use crate::files::group::orphan::GLANCE;
use crate::files::group::own_frames::OwnCommit;
use crate::files::group::protocol::{Call, FileOf, MOST_BYTES, Operation};
use crate::files::group::wal_reads::{Guardian, WalReads};
use crate::files::group::wal_state::Found;
use crate::sync::wal_index::WRITE_SLOT;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a transaction waits for those that were before it, and have not come to the next owner yet.
const OTHERS_COME: Duration = Duration::from_millis(500);

impl WalReads {
    /// The guardian gives the lock of a writer, where the database has what the transaction has found, or says that it has the commit; `false` where it does
    /// neither.
    pub(super) fn write_on(&mut self, guardian: &mut Guardian) -> bool {
        if self.is_past() {
            self.own.is_made = true;
            return true;
        }
        let claim = self.claim().map(|claim| claim.encode()).filter(|claim| claim.len() < MOST_BYTES / 2);
        let Some(claim) = claim else { return false };
        let found = self.ask_for_writing(guardian, &claim);
        if !found {
            self.own.give_up();
        }
        found
    }

    fn ask_for_writing(&mut self, guardian: &mut Guardian, claim: &[u8]) -> bool {
        let call = Call::new(Operation::WriteOn, FileOf::Main, 0, 0).with(claim);
        let until = Instant::now() + OTHERS_COME;
        loop {
            match guardian.channel.ask(&call, |reply| Found::of(reply.value).ok_or_else(unexpected)) {
                Ok(Found::Base) => guardian.writes = true,
                Ok(Found::Commit) => self.own.is_made = true,
                // One whose commit comes before this one may not be there yet, or somebody makes the index.
                Ok(Found::Nothing) | Err(Error::Busy) if Instant::now() < until => {
                    std::thread::sleep(GLANCE);
                    continue;
                }
                Ok(Found::Nothing) | Err(_) => return false,
            }
            return true;
        }
    }

    /// Has the guardian commit what the transaction has written.
    fn commit_by(&self, guardian: &Channel) -> Result<()> {
        let Some(OwnCommit { pages, page_bytes, database_pages }) = self.own.commit() else {
            return Err(guardian.lost());
        };
        let len = u64::from(database_pages) * page_bytes as u64;
        let call = Call::new(Operation::CommitOn, FileOf::Wal, 0, 0);
        ask_with_batch(guardian, call, (len, len, page_bytes), pages.into_iter(), |_| Ok(()))
    }
}

impl Link {
    /// SQLite has written to its log, or syncs it, and the owner has died. Where that completes a commit the next owner makes it, durably: a log that begins
    /// anew is synced with its first commit.
    pub(super) fn write_behind_owner(self: &Arc<Link>) -> Result<()> {
        let mut reads = self.wal_reads.lock();
        if reads.own.are_complete() {
            return self.commit_behind(&mut reads);
        }
        self.guardian_of(&mut reads).map(drop).ok_or_else(|| self.channel().lost())
    }

    /// SQLite is about to publish a commit, or says that it is done, and the owner has died.
    pub(super) fn commit_behind_owner(self: &Arc<Link>) -> Result<()> {
        let mut reads = self.wal_reads.lock();
        // Strangers are let in while nobody writes. All that was published before them is in the files, durably (`open/sharing/leaving`).
        reads.own.is_made |= reads.own.is_published() && self.channel().borrowing.are_strangers_there();
        if reads.own.are_complete() { self.commit_behind(&mut reads) } else { Err(self.channel().lost()) }
    }

    fn commit_behind(self: &Arc<Link>, reads: &mut WalReads) -> Result<()> {
        // The slot may have been given back in the index already.
        reads.note_writes(true);
        while !reads.own.is_made {
            let Some(guardian) = self.guardian_of(reads) else { return Err(self.channel().lost()) };
            if reads.own.is_made {
                break;
            }
            match reads.commit_by(&guardian) {
                Ok(()) => reads.own.is_made = true,
                // The next one may have the commit, or not.
                Err(_) if guardian.has_lost_owner() => {}
                Err(error) => return Err(error),
            }
        }
        reads.release_writing();
        Ok(())
    }
}

impl WalReads {
    /// The lock of a writer is given back, with a commit or without.
    pub(super) fn release_writing(&mut self) {
        let Some(guardian) = self.guardian.as_mut().filter(|guardian| guardian.writes) else { return };
        guardian.writes = false;
        let _ = guardian.channel.tell(&Call::new(Operation::ShmUnlock, FileOf::Main, WRITE_SLOT as u64, 1));
    }
}
