//! A member's database file: each call of SQLite's goes to the owner, which has the same file open for the member.
//!
//! # Invariants
//! 1. A write may wait for the next call that wants a reply, but for what others may see before such a call comes: the last frame of a
//!    commit, and a page that a checkpoint writes.
//! 2. Once the owner is gone, a transaction that has read or written fails. The next one begins with the next owner, which gets to know of
//!    the connection in SQLite's own order: that it tells of commits, then its lock, then its files.
//! 3. What SQLite gives back it always can, also where the owner is gone: everything of the transaction is then.

use crate::cache::connection_cache::is_change_look;
use crate::error::{Error, Result, last_errno};
use crate::ffi::codes::SQLITE_IOCAP_POWERSAFE_OVERWRITE;
use crate::files::group::channel::Channel;
use crate::files::group::held_txn::HeldTxn;
use crate::files::group::link::Link;
use crate::files::group::member_index::MemberIndex;
use crate::files::group::member_rollback::Held;
use crate::files::group::member_spills::Spills;
use crate::files::group::protocol::{Call, ControlKind, FileOf, Operation, Seen};
use crate::files::group::retained;
use crate::files::group::wal_reads::WalReads;
use crate::files::handle::{Control, Handle, Handled, exchange_mmap_size};
use crate::sync::lock_table::Level;
use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Reads bytes of a file.
pub(super) fn read(channel: &Arc<Channel>, file: FileOf, buf: &mut [u8], offset: u64) -> Result<()> {
    let call = Call::new(Operation::Read, file, offset, buf.len() as u64);
    channel.ask(&call, |reply| {
        if reply.data.len() != buf.len() {
            return Err(Error::Io(
                "the owner of a group has sent other bytes than were asked for".to_owned(),
            ));
        }
        buf.copy_from_slice(reply.data);
        reply.check_length()
    })
}

pub(super) fn size(channel: &Arc<Channel>, file: FileOf) -> Result<u64> {
    channel.ask(&Call::new(Operation::Size, file, 0, 0), |reply| Ok(reply.value))
}

/// Most owners that are met one after the other, each of which ends at once.
pub(super) const MOST_OWNERS: usize = 16;

/// What SQLite asks where a transaction begins: where the owner has ended nothing is lost, and SQLite's busy handler begins anew.
pub(super) fn anew<T>(channel: &Channel, asked: Result<T>) -> Result<T> {
    asked.map_err(|error| if channel.has_lost_owner() { Error::Busy } else { error })
}

/// A member's handle on a main database file.
pub(crate) struct MemberFile {
    pub(super) link: Arc<Link>,
    pub(super) channel: Arc<Channel>,
    /// The level that SQLite has.
    pub(super) level: Level,
    pub(super) index: MemberIndex,
    /// True if its lock of a reader is one of its seat (`member_seat`).
    pub(super) reads_by_seat: bool,
    pub(super) spills: Spills,
    /// Until its first lock.
    is_new: bool,
    /// True from the end of its wal-index to its next lock.
    has_left_log: bool,
    /// True if the owner has no lock of the connection's, and has been told so.
    has_nothing: bool,
    mmap_size: i64,
}

impl MemberFile {
    pub(super) fn new(link: Arc<Link>) -> MemberFile {
        MemberFile {
            channel: link.channel(),
            link,
            level: Level::None,
            index: MemberIndex::default(),
            reads_by_seat: false,
            spills: Spills::default(),
            is_new: true,
            has_left_log: false,
            has_nothing: false,
            mmap_size: 0,
        }
    }

    pub(super) fn call<'a>(operation: Operation, a: u64, b: u64) -> Call<'a> {
        Call::new(operation, FileOf::Main, a, b)
    }

    /// True where SQLite counts on nothing that the owner has of the connection, but for the lock that a connection with a log has between
    /// its transactions. It keeps that lock also where it could not begin to use the index.
    pub(super) fn is_between_transactions(&self) -> bool {
        let has_log = || self.link.open_flags(FileOf::Wal).is_some();
        self.level == Level::None || self.level == Level::Shared && has_log() && self.index.has_no_slot()
    }

    /// The owner is gone before the connection: what it has left is brought home by the next one, also where that is this process and no
    /// transaction follows. Otherwise stock SQLite might see an older commit.
    #[cold]
    fn leave_after_owner(&mut self) {
        self.level = Level::None;
        self.link.note_level(Level::None);
        if self.channel.is_of_this_process() && self.meet_next_owner().is_ok() {
            for (operation, level) in [
                (Operation::Lock, Level::Shared),
                (Operation::Unlock, Level::None),
                (Operation::Close, Level::None),
            ] {
                let _ = self.tell(&Self::call(operation, level as u64, 0));
            }
        }
    }

    /// Makes a call that may begin a transaction, or is one of it: with the next owner, where the last one is gone.
    pub(super) fn begin<T>(&mut self, call: impl Fn(&mut MemberFile) -> Result<T>) -> Result<T> {
        if !self.is_between_transactions() {
            return self.in_transaction(call);
        }
        let mut result = call(self);
        for _ in 0..MOST_OWNERS {
            if result.is_ok() || self.channel.is_alive() {
                break;
            }
            self.meet_next_owner()?;
            result = call(self);
        }
        result
    }

    /// Goes on with the next owner. The connection has there what it has between its transactions.
    #[cold]
    fn meet_next_owner(&mut self) -> Result<()> {
        // The last one may have taken a slot for this connection, and not have said so.
        self.unlock_left();
        let mut met = Err(Error::Busy);
        for _ in 0..MOST_OWNERS {
            let channel = super::join_again(&self.link, &self.channel)?;
            met = self.introduce(&channel);
            if met.is_ok() {
                *self.link.txn.lock() = HeldTxn::default();
                *self.link.wal_reads.lock() = WalReads::default();
                channel.borrowing.note_owner_before();
                self.link.set_channel(channel.clone());
                self.channel = channel;
                break;
            }
            // One that has ended at once has a next one, too.
            if channel.is_alive() {
                break;
            }
        }
        met
    }

    /// Gives an owner the connection as the last one has had it between two transactions, in SQLite's order.
    fn introduce(&mut self, channel: &Arc<Channel>) -> Result<()> {
        self.link.settings.tell(channel)?;
        let files = [FileOf::Wal, FileOf::Journal].map(|file| (file, self.link.open_flags(file)));
        let locks = self.level == Level::Shared || files.iter().any(|(_, flags)| flags.is_some());
        if locks {
            // With the lock comes recovery, which no open may forestall.
            channel.tell(&Self::call(Operation::Lock, Level::Shared as u64, 0))?;
        }
        if self.link.open_flags(FileOf::Wal).is_some() {
            super::check_wal_mode(channel, &self.link.opening.path)?;
        }
        for (file, flags) in files {
            if let Some(flags) = flags {
                channel.tell(&Call::new(Operation::Open, file, flags as u64, 0))?;
            }
        }
        if locks && self.level == Level::None {
            channel.tell(&Self::call(Operation::Unlock, Level::None as u64, 0))?;
        }
        self.index.map_again(channel)
    }

    fn read_once(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        let mut held = self.read_held(buf, offset);
        while held.is_err() && self.goes_on() {
            held = self.read_held(buf, offset);
        }
        if held.is_err() && !self.channel.is_alive() && self.link.goes_by_itself() {
            held = self.read_held(buf, offset);
        }
        match held? {
            Held::Done(()) => Ok(()),
            Held::Asks => self.read_file(buf, offset),
        }
    }

    /// What SQLite asks before a transaction has read its first page: where the owner is gone SQLite begins anew, by its busy handler.
    pub(super) fn before_first_page<T>(&self, asked: Result<T>) -> Result<T> {
        let begins = self.level <= Level::Shared && !self.index.has_exclusive_slot();
        if begins { anew(&self.channel, asked) } else { asked }
    }

    pub(super) fn tell(&self, call: &Call<'_>) -> Result<()> {
        self.channel.tell(call)
    }

    /// Gives something back; where the owner is gone, everything is given back.
    pub(super) fn give_back(&self, call: &Call<'_>) -> Result<()> {
        let told = self.tell(call);
        if self.channel.is_alive() { told } else { Ok(()) }
    }

    /// Gives something back with the next call: SQLite is about to close its files.
    fn put_off(&self, call: &Call<'_>) {
        // With a lost owner it is given back.
        let _ = self.channel.defer(call);
    }

    /// The process has the owner's file, and the pages that the connection has kept, for a while longer.
    fn retain(&mut self) {
        let between =
            self.has_nothing && self.channel.is_alive() && self.link.open_flags(FileOf::Wal).is_none();
        if let Some(lent) = self.channel.borrowing.lent().filter(|_| between) {
            let kept = std::mem::take(&mut self.link.txn.lock().kept);
            retained::retain(&self.link.opening.path, lent.clone(), kept);
        }
    }

    fn control_of(&self, kind: ControlKind, value: u64) -> Result<u64> {
        self.channel.ask(&Self::call(Operation::Control, kind as u64, value), |reply| Ok(reply.value))
    }
}

impl Handle for MemberFile {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        if self.is_new && self.link.read_header(buf, offset) {
            return Ok(());
        }
        let result = self.read_once(buf, offset);
        // SQLite reads the header when it opens the file, without a lock.
        if self.level == Level::None && !self.channel.is_alive() {
            self.meet_next_owner()?;
            return self.read_once(buf, offset);
        }
        // Page 1, which stays in use throughout a transaction, and the look whether it has changed.
        if offset == 0 || is_change_look(buf, offset) { self.before_first_page(result) } else { result }
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> Result<()> {
        if let Held::Done(()) = self.write_held(buf, offset)? {
            return Ok(());
        }
        if self.link.note_write(FileOf::Main, buf, offset)? {
            return Ok(());
        }
        let call = Self::call(Operation::Write, offset, 0).with(buf);
        // Others may read a page from the file as soon as the index says so.
        let written = if self.index.checkpoints() { self.tell(&call) } else { self.channel.defer(&call) };
        self.link.or_by_itself(written, |own| own.write(FileOf::Main, buf, offset))
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        if let Held::Done(()) = self.truncate_held(len)? {
            return Ok(());
        }
        let told = self.tell(&Self::call(Operation::Truncate, len, 0));
        self.link.end_truncate(told, FileOf::Main, len)
    }

    fn sync(&mut self) -> Result<()> {
        if let Held::Done(()) = self.sync_held() {
            return Ok(());
        }
        let told = self.tell(&Self::call(Operation::Sync, 0, 0));
        self.link.or_by_itself(told, |own| own.sync(FileOf::Main))
    }

    fn size(&mut self) -> Result<u64> {
        match self.size_held() {
            Held::Done(len) => Ok(len),
            Held::Asks => {
                let asked = size(&self.channel, FileOf::Main);
                self.before_first_page(self.link.or_by_itself(asked, |own| own.len(FileOf::Main)))
            }
        }
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.link.recovery.note_regions(&[]);
        self.before_unlock_on_file(u8::MAX);
        self.index.leave();
        let close = Self::call(Operation::Close, 0, 0);
        self.retain();
        // Whoever opens the file next waits for the owner.
        let is_posted = self.has_nothing && self.channel.has_lease.load(Ordering::Relaxed);
        let told = if is_posted { self.channel.post(&close) } else { self.tell(&close) };
        if self.channel.is_alive() {
            return told;
        }
        self.leave_after_owner();
        Ok(())
    }

    fn lock(&mut self, to: Level) -> Result<()> {
        (self.is_new, self.has_nothing, self.has_left_log) = (false, false, false);
        if to > Level::Shared {
            self.link.txn.lock().seen = Seen::default();
        }
        match to {
            level if level <= self.level => {}
            Level::None => {}
            Level::Shared => self.begin_transaction()?,
            Level::Reserved => self.reserve()?,
            Level::Pending | Level::Exclusive => self.lock_alone()?,
        }
        let before = self.level;
        self.level = before.max(to);
        self.link.note_level(self.level);
        self.link.confirm_lock(self.level).inspect_err(|_| {
            self.level = before;
            self.link.note_level(before);
        })
    }

    fn unlock(&mut self, to: Level) -> Result<()> {
        if self.has_nothing {
            return Ok(());
        }
        self.level = self.level.min(to);
        self.link.note_level(self.level);
        self.link.end_file_txn(to)?;
        if self.end_transaction(to) && !self.ends_read_by_seat(to) {
            let unlock = Self::call(Operation::Unlock, to as u64, 0);
            // A connection that has left its log closes next, or goes on without one.
            if self.has_left_log {
                let _ = self.channel.post(&unlock);
            } else {
                self.give_back(&unlock)?;
            }
        }
        self.has_nothing = to == Level::None;
        Ok(())
    }

    fn is_reserved(&mut self) -> Result<bool> {
        let call = Self::call(Operation::IsReserved, 0, 0);
        let asked = self.in_transaction(|this| this.channel.ask(&call, |reply| Ok(reply.flag)));
        self.before_first_page(self.link.or_by_itself(asked, |own| own.is_reserved()))
    }

    fn control(&mut self, control: Control<'_>) -> Result<Handled> {
        match control {
            Control::LockState(state) => *state = self.level as c_int,
            Control::LastErrno(errno) => *errno = last_errno(),
            Control::PersistWal(value) => {
                let wanted = i64::from(*value) as u64;
                *value = self.begin(|this| this.control_of(ControlKind::PersistWal, wanted))? as c_int;
                self.link.settings.persist_wal.store(*value != 0, Ordering::Relaxed);
            }
            Control::PowersafeOverwrite(value) => {
                let wanted = i64::from(*value) as u64;
                *value =
                    self.begin(|this| this.control_of(ControlKind::PowersafeOverwrite, wanted))? as c_int;
                self.link.settings.powersafe_overwrite.store(*value != 0, Ordering::Relaxed);
            }
            // The owner has looked when the transaction began.
            Control::HasMoved(moved) if self.link.has_no_companions() => *moved = 0,
            // SQLite asks where a transaction goes on, and once more when it closes.
            Control::HasMoved(moved) => {
                // Where the owner has ended, a connection that closes its log is to find the next one.
                let may_look = self.is_between_transactions() && self.channel.look().is_ok();
                let known = if may_look { self.link.has_moved() } else { None };
                *moved = match known {
                    Some(has_moved) => c_int::from(has_moved),
                    None => {
                        let asked = self.begin(|this| this.control_of(ControlKind::HasMoved, 0));
                        // What it goes by itself with has its name.
                        self.link.or_by_itself(asked, |_| Ok(0))? as c_int
                    }
                };
            }
            Control::MmapSize(size) => exchange_mmap_size(&mut self.mmap_size, size),
            Control::ExternalReader(is_there) => {
                *is_there = self.begin(|this| this.control_of(ControlKind::ExternalReader, 0))? as c_int;
            }
            Control::Growth => {}
            Control::Connected => {
                self.link.settings.receives_file_controls.store(true, Ordering::Relaxed);
                // It goes with the first call; the next owner is told by the setting.
                let call = Self::call(Operation::Control, ControlKind::Connected as u64, 0);
                self.begin(|this| this.channel.defer(&call))?;
            }
            Control::SeveralFiles => {
                self.look_for_owner();
                self.link.carry()?;
                let told = self.control_of(ControlKind::SeveralFiles, 0);
                self.link.or_by_itself(told, |_| Ok(0))?;
            }
            Control::CommitDone => {
                if let Held::Done(()) = self.commit_held()? {
                    return Ok(Handled::Yes);
                }
                self.index.check_published(&self.link)?;
                let call = Self::call(Operation::Control, ControlKind::CommitDone as u64, 0);
                let done = match self.link.commits.take_logged() {
                    true => self.channel.post(&call),
                    false => self.tell(&call),
                };
                // What was synced is durable, and nobody waits for it.
                let done = self.link.or_by_itself(done, |_| Ok(()));
                self.link.forget_written();
                if done.is_err() && self.channel.has_lost_owner() {
                    self.link.commit_behind_owner()?;
                } else {
                    done?;
                }
            }
            Control::Pragma(call) => {
                let mut data = call.name.as_bytes().to_vec();
                if call.name.eq_ignore_ascii_case("synchronous") {
                    self.link.commits.note_setting();
                }
                if let Some(value) = call.value {
                    data.push(0);
                    data.extend_from_slice(value.as_bytes());
                }
                let has_value = u64::from(call.value.is_some());
                let pragma = Self::call(Operation::Pragma, has_value, 0).with(&data);
                let ask = |channel: &Channel| {
                    channel.ask(&pragma, |reply| {
                        let text = (reply.value & 1 != 0).then(|| String::from_utf8_lossy(reply.data));
                        Ok((reply.flag, text.map(|text| text.into_owned())))
                    })
                };
                let mut asked = self.begin(|this| ask(&this.channel));
                if asked.is_err()
                    && let Some(guardian) = self.link.guardian()
                {
                    asked = ask(&guardian);
                }
                // Its own SQLite carries out, whether an owner could note them or not.
                let (is_known, answer) = match asked {
                    Err(_) if !call.name.starts_with("litefoot_") => (false, None),
                    asked => asked?,
                };
                if answer.is_some() {
                    *call.answer = answer;
                }
                return Ok(if is_known { Handled::Yes } else { Handled::No });
            }
        }
        Ok(Handled::Yes)
    }

    fn characteristics(&self) -> c_int {
        let is_set = self.link.settings.powersafe_overwrite.load(Ordering::Relaxed);
        let powersafe = is_set || self.link.open_flags(FileOf::Wal).is_some();
        if powersafe { SQLITE_IOCAP_POWERSAFE_OVERWRITE } else { 0 }
    }

    fn member(&self) -> Option<&Arc<Link>> {
        Some(&self.link)
    }

    fn shm_map(&mut self, region: usize, bytes: usize, extend: bool) -> Result<Option<NonNull<u8>>> {
        // From now on the length of the file is another connection's affair, too.
        self.link.txn.lock().seen = Seen::default();
        let mapped = self.begin(|this| this.index.map(&this.channel.clone(), region, bytes, extend));
        self.link.recovery.note_regions(self.index.regions());
        mapped
    }

    fn shm_lock(&mut self, first: usize, count: usize, exclusive: bool) -> Result<()> {
        self.lock_slots(first, count, exclusive)
    }

    fn shm_unlock(&mut self, first: usize, count: usize) -> Result<()> {
        self.unlock_slots(first, count)
    }

    fn shm_barrier(&mut self) {
        fence(Ordering::SeqCst);
        self.before_publishing();
        fence(Ordering::SeqCst);
    }

    fn shm_unmap(&mut self, delete: bool) -> Result<()> {
        self.index.unshare_all(&self.channel);
        self.link.recovery.note_regions(&[]);
        self.before_unlock_on_file(u8::MAX);
        self.index.leave();
        *self.link.wal_reads.lock() = WalReads::default();
        // SQLite closes its log next.
        self.has_left_log = true;
        self.put_off(&Self::call(Operation::ShmUnmap, u64::from(delete), 0));
        Ok(())
    }
}
