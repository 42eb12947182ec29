//! A member's snapshot in WAL mode whose owner has died: its transaction goes on to read, where it can (`open/succession`).
//!
//! # How
//! The index of the snapshot is memory that the member has mapped, and its frames are in that memory, too. Nobody changes either. Its other pages are in the
//! database file. So the next owner is asked to keep the file as it is: it is the *guardian* of the snapshot. It is asked over a stream of its own, which
//! ends with the transaction. To all else the connection has lost its owner, and its next transaction begins with the next one.
//!
//! # Invariants
//! 1. A page that was read from the file counts where the guardian lived behind the read, and had kept the file since the owner before it has died.
//! 2. A transaction that has the lock of a writer goes on where the guardian gives it that, too (`wal_commits`).
//! 3. All of it happens under the lock of the snapshot: this thread does it, or the one that waits for the death of owners (`borrowed_file`).

use crate::error::{Error, Result};
use crate::files::group::channel::Channel;
use crate::files::group::joining::join_again;
use crate::files::group::lent_pages::Reading;
use crate::files::group::link::Link;
use crate::files::group::member_file::read;
use crate::files::group::orphan::{GLANCE, LAST_STREAM};
use crate::files::group::protocol::{Call, FileOf, Operation};
use crate::files::group::wal_reads::{Guardian, WalReads};
use crate::sync::heirs::LATEST;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a guardian that is just beginning is asked again.
const GUARDIAN_BEGINS: Duration = LATEST;

impl Link {
    /// Reads bytes of the file for a snapshot whose owner has died.
    pub(super) fn read_by_guardian(
        self: &Arc<Link>,
        reads: &mut WalReads,
        page: Option<u32>,
        buf: &mut [u8],
        offset: u64,
    ) -> Result<()> {
        loop {
            let Some(guardian) = self.guardian_of(reads) else { return Err(self.channel().lost()) };
            let ends = (&**self, &*guardian);
            if page.is_some_and(|page| guardian.borrowing.read(ends, Reading::Slot, page, buf, offset)) {
                return Ok(());
            }
            let asked = read(&guardian, FileOf::Main, buf, offset);
            if asked.is_ok() || !guardian.has_lost_owner() {
                return asked;
            }
        }
    }

    /// The guardian of the snapshot, where its owner has died.
    pub(super) fn guardian(self: &Arc<Link>) -> Option<Arc<Channel>> {
        self.guardian_of(&mut self.wal_reads.lock())
    }

    /// The same, which has given the lock of a writer where the transaction has it.
    pub(super) fn guardian_of(self: &Arc<Link>, reads: &mut WalReads) -> Option<Arc<Channel>> {
        let mut former = self.channel();
        if let Some(guardian) = reads.guardian.take() {
            if guardian.channel.look().is_ok() {
                return self.with_guardian(reads, guardian);
            }
            former = guardian.channel;
        }
        let _ = former.look();
        if !reads.outlives_owner() || !former.has_lost_owner() {
            return None;
        }
        let channel = self.find_guardian(&former)?;
        self.with_guardian(reads, Guardian { channel, writes: false })
    }

    fn with_guardian(&self, reads: &mut WalReads, mut guardian: Guardian) -> Option<Arc<Channel>> {
        let goes_on = guardian.writes || !reads.is_to_write() || reads.write_on(&mut guardian);
        let channel = guardian.channel.clone();
        reads.guardian = Some(guardian);
        goes_on.then_some(channel)
    }

    fn find_guardian(self: &Arc<Link>, former: &Arc<Channel>) -> Option<Arc<Channel>> {
        let (marks, flags) = (former.borrowing.marks(), self.open_flags(FileOf::Wal)?);
        if marks == 0 {
            return None;
        }
        let guardian = join_again(self, former).ok()?;
        self.settings.tell(&guardian).ok()?;
        // It may die as well.
        guardian.borrowing.note_beginning((self, &guardian), || true);
        let call = Call::new(Operation::KeepFile, FileOf::Main, marks, flags as u64);
        let until = Instant::now() + GUARDIAN_BEGINS;
        let mut kept = guardian.tell(&call);
        while matches!(kept, Err(Error::Busy)) && Instant::now() < until {
            std::thread::sleep(GLANCE);
            kept = guardian.tell(&call);
        }
        kept.ok().map(|()| guardian)
    }

    /// The owner with these marks has died: a snapshot of its goes on, whatever its connection does just now.
    pub(super) fn keep_snapshot(self: &Arc<Link>, marks: u64) {
        let mut reads = self.wal_reads.lock();
        let guardian = reads.guardian.as_ref().map(|guardian| guardian.channel.clone());
        let channel = guardian.unwrap_or_else(|| self.channel());
        if channel.borrowing.marks() != marks || !reads.outlives_owner() {
            return;
        }
        // The system ends the streams of a process one after the other.
        let until = Instant::now() + LAST_STREAM;
        while channel.look().is_ok() && Instant::now() < until {
            std::thread::sleep(GLANCE);
        }
        let _ = self.guardian_of(&mut reads);
    }
}
