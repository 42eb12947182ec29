//! A member's handles on its journal and its log.
//!
//! # Invariants
//! 1. A journal of a transaction that is held back is memory of the member (`held_txn`). Any other one is the owner's, and so is the log.
//! 2. A write waits for the next call that wants a reply, but for the last frame of a commit.

use crate::error::{Error, Result};
use crate::ffi::codes::SQLITE_OPEN_CREATE;
use crate::files::group::held_txn::HeldJournal;
use crate::files::group::link::Link;
use crate::files::group::member_file::{anew, read, size};
use crate::files::group::protocol::{Call, FileOf, Operation};
use crate::files::handle::Handle;
use litefoot_storage::wal_file::format::FRAME_HEADER_BYTES;
use std::ffi::c_int;
use std::sync::Arc;

/// A member's handle on its journal or its log.
pub(crate) struct MemberCompanion {
    link: Arc<Link>,
    file: FileOf,
    /// The end of what was written.
    end: u64,
    /// True from the header of a commit's last frame to the next frame.
    commits: bool,
}

impl MemberCompanion {
    /// Opens the journal or the log of a connection; answers the flags that it has, too.
    pub(crate) fn open(link: Arc<Link>, file: FileOf, flags: c_int) -> Result<(MemberCompanion, c_int)> {
        if file == FileOf::Journal && flags & SQLITE_OPEN_CREATE != 0 && link.open_journal(flags) {
            return Ok((MemberCompanion { link, file, end: 0, commits: false }, flags));
        }
        // A log begins, or a journal waits.
        link.carry()?;
        let call = Call::new(Operation::Open, file, flags as u64, 0);
        let channel = link.channel();
        let opened = channel.ask(&call, |reply| Ok(reply.value as c_int));
        let opened = if file == FileOf::Journal { link.open_own_journal(opened, flags) } else { opened };
        // SQLite opens its log where a transaction begins.
        let out = if file == FileOf::Wal { anew(&channel, opened)? } else { opened? };
        link.note_open(file, Some(flags));
        Ok((MemberCompanion { link, file, end: 0, commits: false }, out))
    }

    /// True for a write that must be there before SQLite's next step: it completes a commit, which SQLite may publish at once.
    fn is_urgent(&mut self, buf: &[u8], offset: u64) -> bool {
        let overwrites = offset < self.end;
        self.end = if offset == 0 { buf.len() as u64 } else { self.end.max(offset + buf.len() as u64) };
        if self.file == FileOf::Journal {
            return false;
        }
        if buf.len() == FRAME_HEADER_BYTES {
            // The size of the database, in the header of a commit's last frame.
            self.commits = buf.get(4..8).is_some_and(|pages| pages != [0; 4]);
            // SQLite repairs the checksum of a header last of all.
            return self.commits && overwrites;
        }
        self.commits
    }

    /// Does something with the journal, where it is memory of this process.
    fn in_memory<T>(&self, change: impl FnOnce(&mut HeldJournal) -> Option<T>) -> Result<Option<T>> {
        if self.file == FileOf::Journal { self.link.with_journal(change) } else { Ok(None) }
    }
}

impl Handle for MemberCompanion {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        if let Some(count) = self.in_memory(|journal| Some(journal.read(buf, offset)))? {
            return if count < buf.len() { Err(Error::ShortRead) } else { Ok(()) };
        }
        if self.file == FileOf::Wal {
            return self.link.read_log(buf, offset);
        }
        let asked = read(&self.link.channel(), self.file, buf, offset);
        self.link.or_by_itself(asked, |own| own.read(self.file, buf, offset))
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> Result<()> {
        if self.in_memory(|journal| journal.write(buf, offset).then_some(()))?.is_some() {
            return Ok(());
        }
        if self.file == FileOf::Wal {
            self.link.wal_reads.lock().own.note_write(buf, offset);
        }
        let call = Call::new(Operation::Write, self.file, offset, 0).with(buf);
        let is_urgent = self.is_urgent(buf, offset);
        if self.link.note_write(self.file, buf, offset)? {
            return Ok(());
        }
        let channel = self.link.channel();
        let written = if is_urgent && !self.link.commits.awaits_sync() {
            channel
                .ask(&call, |reply| Ok(reply.flag))
                .map(|is_logged| self.link.commits.note_logged(is_logged))
        } else {
            channel.defer(&call)
        };
        let written = self.link.or_by_itself(written, |own| own.write(self.file, buf, offset));
        if written.is_err() && self.file == FileOf::Wal && channel.has_lost_owner() {
            return self.link.write_behind_owner();
        }
        written
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        if self.in_memory(|journal| journal.set_len(len).then_some(()))?.is_some() {
            return Ok(());
        }
        let told = self.link.channel().tell(&Call::new(Operation::Truncate, self.file, len, 0));
        self.link.end_truncate(told, self.file, len)
    }

    fn sync(&mut self) -> Result<()> {
        // One that is memory is made durable where it becomes a file.
        if self.in_memory(|_| Some(()))?.is_some() {
            return Ok(());
        }
        let channel = self.link.channel();
        let synced = channel.tell(&Call::new(Operation::Sync, self.file, 0, 0));
        let synced = self.link.or_by_itself(synced, |own| own.sync(self.file));
        if synced.is_err() && self.file == FileOf::Wal && channel.has_lost_owner() {
            return self.link.write_behind_owner();
        }
        synced?;
        if self.file == FileOf::Wal {
            self.link.commits.note_sync(self.commits);
        }
        Ok(())
    }

    fn size(&mut self) -> Result<u64> {
        if let Some(len) = self.in_memory(|journal| Some(journal.bytes.len() as u64))? {
            return Ok(len);
        }
        let asked = size(&self.link.channel(), self.file);
        self.link.or_by_itself(asked, |own| own.len(self.file))
    }

    fn close(self: Box<Self>) -> Result<()> {
        if self.file == FileOf::Journal && self.link.close_journal() {
            return Ok(());
        }
        self.link.note_open(self.file, None);
        if self.file == FileOf::Journal {
            self.link.note_journal_closed();
        }
        let (channel, close) = (self.link.channel(), Call::new(Operation::Close, self.file, 0, 0));
        // The database is closed next, or its lock is given up.
        let told = if self.file == FileOf::Wal { channel.defer(&close) } else { channel.tell(&close) };
        if channel.is_alive() { told } else { Ok(()) }
    }
}
