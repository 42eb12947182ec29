//! A member's wal-index: its memory, its slots, and the messages that its transactions do without.
//!
//! # Why
//! SQLite takes and gives back some six slots a transaction. Two messages do: one for the turn to write, and one for the commit. What else
//! there is stands on the board (`sync/group_board`).
//!
//! # Invariants
//! 1. A slot that is shared by the seat is not shared in the owner, and the other way round.
//! 2. The write slot that was given with a turn is given back as soon as the transaction ends without asking for it.
//! 3. Nothing of a commit is published before the owner has its frames.
//! 4. While strangers have the database open, the member's own file has its slots (`file_slots`).
//! 5. A write slot whose return waits for the message of the commit is sent back at the end of the transaction at the latest.

use crate::error::{Error, Result};
use crate::files::connection_state::MembersStatement;
use crate::files::durable_reads::Shows;
use crate::files::group::channel::Channel;
use crate::files::group::held_txn::most_held;
use crate::files::group::link::Link;
use crate::files::group::member_file::MemberFile;
use crate::files::group::protocol::{Call, FileOf, HAS_FRAMES, IS_FILE, Operation};
use crate::files::group::statement;
use crate::files::group::wal_reads::WalReads;
use crate::sync::shared_frames::FrameMemory;
use crate::sync::wal_index::{
    CHANGE_WORD, CHECKPOINT_SLOT, COPY_WORDS, PAGES_WORD, READ_SLOTS, RECOVERY_SLOT, SeenLog, WRITE_SLOT,
};
use crate::sync::wal_index_region::{Region, page_bytes, regions_per_mapping};
use litefoot_storage::os::NamelessMemory;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const WRITES: u8 = 1 << WRITE_SLOT;

/// The wal-index of a member's connection.
#[derive(Default)]
pub(super) struct MemberIndex {
    /// The slots that it has from the owner, one bit each.
    pub(super) shared: u8,
    pub(super) exclusive: u8,
    /// The slots that it shares by its seat.
    seated: u8,
    /// The change counter of the index when it began to read by its seat.
    seated_since: u32,
    /// True if it has the write slot, and SQLite has not asked for it yet.
    has_turn: bool,
    /// The epoch of the memory.
    pub(super) epoch: u64,
    /// True if the memory is the file that strangers have.
    pub(super) is_file: bool,
    /// The memory, and its regions, under the addresses that SQLite knows.
    pub(super) memory: Option<Arc<NamelessMemory>>,
    regions: Vec<Region>,
    /// The frames of the log in that memory.
    frames: Option<Arc<FrameMemory>>,
    /// Bytes of a region as SQLite has it.
    region_bytes: usize,
}

/// What is known of a connection's commits, for its files.
#[derive(Default)]
pub(super) struct Commits {
    /// True if SQLite has synced the last commit, and no setting has changed since.
    are_synced: AtomicBool,
    /// True if the last frame of a commit waits for the sync, to go with it.
    awaits_sync: AtomicBool,
    /// True if SQLite has synced what it has written.
    was_synced: AtomicBool,
    /// True if the owner has given a commit to the system, which SQLite does not sync: nothing of it waits for the owner.
    is_logged: AtomicBool,
    /// True if a commit was not what it had to be, and does not count.
    has_failed: AtomicBool,
}

impl Commits {
    /// A setting has changed that says if commits are synced.
    pub(super) fn note_setting(&self) {
        self.are_synced.store(false, Ordering::Relaxed);
    }

    /// The write slot was taken.
    fn begin(&self) {
        for flag in [&self.awaits_sync, &self.was_synced, &self.is_logged] {
            flag.store(false, Ordering::Relaxed);
        }
    }

    /// The write slot is given back: true if SQLite is about to say that a commit is done.
    fn end(&self) -> bool {
        self.awaits_sync.store(false, Ordering::Relaxed);
        self.was_synced.swap(false, Ordering::Relaxed) || self.is_logged.load(Ordering::Relaxed)
    }

    /// The owner has the last frame of a commit, and has given that to the system, or not yet.
    pub(super) fn note_logged(&self, is_logged: bool) {
        self.is_logged.store(is_logged, Ordering::Relaxed);
    }

    /// Takes it that the owner has given the last commit to the system.
    pub(super) fn take_logged(&self) -> bool {
        self.is_logged.swap(false, Ordering::Relaxed)
    }

    /// The last frame of a commit is written: true if it may wait for a sync.
    pub(super) fn awaits_sync(&self) -> bool {
        let awaits = self.are_synced.load(Ordering::Relaxed);
        self.awaits_sync.store(awaits, Ordering::Relaxed);
        awaits
    }

    /// The log is synced, behind a commit or not.
    pub(super) fn note_sync(&self, commits: bool) {
        self.awaits_sync.store(false, Ordering::Relaxed);
        if commits {
            self.are_synced.store(true, Ordering::Relaxed);
            self.was_synced.store(true, Ordering::Relaxed);
        }
    }
}

impl MemberIndex {
    /// True if it has no slot: a transaction has ended, and none has begun.
    pub(super) fn has_no_slot(&self) -> bool {
        self.shared | self.exclusive | self.seated == 0
    }

    /// True during a checkpoint, a recovery, or a transaction that writes.
    pub(super) fn has_exclusive_slot(&self) -> bool {
        self.exclusive != 0
    }

    /// True during a checkpoint.
    pub(super) fn checkpoints(&self) -> bool {
        self.exclusive >> CHECKPOINT_SLOT & 1 != 0
    }

    /// True while SQLite makes the index.
    fn makes_index(&self) -> bool {
        self.exclusive >> RECOVERY_SLOT & 1 != 0
    }

    /// Its regions.
    pub(super) fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The owner has given the write slot with a turn.
    #[cfg(test)]
    pub(super) fn begin_turn_of_test(&mut self) {
        self.has_turn = true;
    }

    /// It has the first region of that memory; answers where.
    #[cfg(test)]
    pub(super) fn begin_of_test(&mut self, memory: &Arc<NamelessMemory>) -> NonNull<u8> {
        let mut region = Region::new(1 << 15).unwrap();
        region.join(memory, 0).unwrap();
        let at = region.at(0);
        (self.region_bytes, self.memory) = (region.bytes(), Some(memory.clone()));
        self.regions.push(region);
        at
    }

    fn word(&self, number: usize) -> u32 {
        // SAFETY: a region is far larger.
        self.regions.first().map_or(0, |first| unsafe { first.word(number) }.load(Ordering::SeqCst))
    }

    /// A region, as SQLite asks for it.
    pub(super) fn map(
        &mut self,
        channel: &Arc<Channel>,
        region: usize,
        bytes: usize,
        extend: bool,
    ) -> Result<Option<NonNull<u8>>> {
        let in_one = regions_per_mapping(bytes, page_bytes());
        let number = region / in_one;
        // Where the owner has died, a transaction asks for no more than was there.
        let is_left_behind = channel.has_lost_owner() && !self.regions.is_empty();
        if is_left_behind && self.is_file {
            if !self.extend_file((number + 1) * bytes * in_one, extend)? {
                return Ok(None);
            }
        } else if self.regions.len() <= number && !is_left_behind {
            let call = MemberFile::call(Operation::ShmMap, region as u64, bytes as u64);
            if !self.ask_for_region(channel, &call.with(&[u8::from(extend)]))? {
                return Ok(None);
            }
        }
        self.region_bytes = bytes;
        let memory = self.memory.as_ref().ok_or(Error::NoMemory)?;
        while self.regions.len() <= number {
            let mut region = Region::new(bytes * in_one).ok_or(Error::NoMemory)?;
            let offset = (self.regions.len() * bytes * in_one) as u64;
            region.join(memory, offset).map_err(|_| Error::NoMemory)?;
            self.regions.push(region);
        }
        Ok(self.regions.get(number).map(|found| found.at(region % in_one * bytes)))
    }

    /// Asks for a region, and takes the memory that comes with the first one; `false` where there is none.
    fn ask_for_region(&mut self, channel: &Arc<Channel>, call: &Call<'_>) -> Result<bool> {
        let told = channel.ask(call, |reply| Ok((reply.flag, reply.value, reply.data.first().copied())))?;
        let (is_there, epoch, kind) = told;
        if let Some(memory) = channel.take_memory().map(Arc::new) {
            self.is_file = kind == Some(IS_FILE);
            let frames = (kind == Some(HAS_FRAMES)).then(|| FrameMemory::of(memory.clone()).ok()).flatten();
            (self.memory, self.epoch, self.frames) = (Some(memory), epoch, frames.map(Arc::new));
        }
        Ok(is_there)
    }

    /// The next owner's wal-index takes the place of the last one's.
    pub(super) fn map_again(&mut self, channel: &Arc<Channel>) -> Result<()> {
        self.has_turn = false;
        // Nothing is read of the last one's, also where the next one's does not come.
        (self.memory, self.frames) = (None, None);
        let in_one = regions_per_mapping(self.region_bytes, page_bytes());
        let mut regions = std::mem::take(&mut self.regions);
        let mapped = regions.iter_mut().enumerate().try_for_each(|(number, region)| {
            let call =
                MemberFile::call(Operation::ShmMap, (number * in_one) as u64, self.region_bytes as u64);
            self.ask_for_region(channel, &call.with(&[1]))?;
            let memory = self.memory.as_ref().ok_or(Error::NoMemory)?;
            let offset = (number * region.bytes()) as u64;
            region.join(memory, offset).map_err(|_| Error::NoMemory)
        });
        self.regions = regions;
        mapped
    }

    /// SQLite uses it no more.
    pub(super) fn leave(&mut self) {
        self.regions.clear();
        (self.memory, self.frames) = (None, None);
        (self.shared, self.exclusive, self.seated, self.has_turn) = (0, 0, 0, false);
        self.is_file = false;
    }

    /// Gives back what is shared by the seat.
    pub(super) fn unshare_all(&mut self, channel: &Channel) {
        if let Some((board, seat)) = channel.board() {
            board.unshare(seat, self.seated);
        }
        self.seated = 0;
    }

    /// Fails where a commit was not what it had to be.
    pub(super) fn check_published(&self, link: &Link) -> Result<()> {
        if !link.commits.has_failed.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        Err(Error::Io(format!("{}: the owner could not take a commit", link.opening.path.display())))
    }
}

/// The bits of a range of slots.
fn mask(first: usize, count: usize) -> u8 {
    (((1_u16 << count.min(8)) - 1) << first.min(8)) as u8
}

impl MemberFile {
    pub(super) fn lock_slots(&mut self, first: usize, count: usize, exclusive: bool) -> Result<()> {
        let bits = mask(first, count);
        if exclusive && bits == WRITES && std::mem::take(&mut self.index.has_turn) {
            // What it has read may have come without a message, and nothing is written yet: SQLite begins anew.
            let looked = self.channel.look();
            if looked.is_err() && self.link.guardian().is_none() {
                self.before_first_page(looked)?;
            }
            self.index.exclusive |= WRITES;
            self.begin_to_write();
            return Ok(());
        }
        let statement = self.link.statement();
        if !exclusive && count == 1 && first >= READ_SLOTS && self.begins_by_seat(bits, statement)? {
            return Ok(());
        }
        let mut data = vec![statement::encode(exclusive, statement)];
        if self.index.seated != 0 {
            data.extend_from_slice(&self.index.seated_since.to_ne_bytes());
        }
        let call = Self::call(Operation::ShmLock, first as u64, count as u64).with(&data);
        let locked = self.begin(|this| this.tell(&call));
        let locked = if self.index.is_file { self.lock_on_file(bits, exclusive, locked) } else { locked };
        if locked.is_err() && first >= READ_SLOTS && self.index.exclusive & WRITES != 0 {
            return self.lock_behind_owner(bits, exclusive, locked);
        }
        if locked.is_err() && bits == WRITES && exclusive && self.reads_behind_owner() {
            self.begin_to_write();
            if self.link.guardian().is_some() {
                self.index.exclusive |= WRITES;
                return Ok(());
            }
            // As where somebody has committed since.
            self.link.wal_reads.lock().note_writes(false);
            return Err(Error::Busy);
        }
        if locked.is_err() && !exclusive && std::mem::take(&mut self.index.has_turn) {
            // Nobody knows whether SQLite will begin anew.
            let _ = self.give_back(&Self::call(Operation::ShmUnlock, WRITE_SLOT as u64, 1));
        }
        // A statement that is to write, and nothing else, begins anew where its owner is gone.
        let begins_to_write = bits == WRITES && exclusive && statement.is_autocommit;
        if begins_to_write {
            self.before_first_page(locked)?
        } else {
            locked?
        };
        if exclusive {
            self.index.exclusive |= bits;
            self.link.recovery.note(self.index.makes_index());
            if bits & WRITES != 0 {
                self.begin_to_write();
            }
        } else {
            self.index.shared |= bits;
            if first >= READ_SLOTS {
                self.note_beginning();
            }
            // A slot of the present epoch, whose memory has frames: the owner owns the database until it is given back.
            match self.index.frames.is_some() && first >= READ_SLOTS {
                true => self.begin_to_read(),
                false => self.link.wal_reads.lock().end(),
            }
        }
        Ok(())
    }

    /// The connection has the write slot.
    fn begin_to_write(&self) {
        self.link.commits.begin();
        let mut reads = self.link.wal_reads.lock();
        reads.note_writes(true);
        self.begin_own(&mut reads);
    }

    fn begin_own(&self, reads: &mut WalReads) {
        if self.index.is_file {
            return;
        }
        reads.own.begin(self.seen_log(), self.index.word(PAGES_WORD), most_held(&self.link.opening.options));
    }

    /// It has a slot of a reader.
    fn begin_to_read(&self) {
        let mut reads = self.link.wal_reads.lock();
        let writes = self.index.has_turn || self.index.exclusive & WRITES != 0;
        if !writes {
            reads.end();
        }
        reads.begin(self.seen_log(), self.index.frames.clone());
        reads.note_writes(writes);
        if writes {
            self.begin_own(&mut reads);
        }
    }

    /// A writer takes another slot of a reader before its first frame, and its owner has died. Nobody begins to read by the index any more. Others may have
    /// snapshots by it, so that the log does not begin anew there.
    fn lock_behind_owner(&mut self, bits: u8, exclusive: bool, lost: Result<()>) -> Result<()> {
        if self.link.guardian().is_none() {
            return lost;
        }
        match exclusive {
            true if bits.count_ones() > 1 => return Err(Error::Busy),
            true => self.index.exclusive |= bits,
            false => self.index.shared |= bits,
        }
        Ok(())
    }

    /// True if a transaction under way has read, and its owner has died.
    fn reads_behind_owner(&self) -> bool {
        self.channel.has_lost_owner() && self.link.wal_reads.lock().outlives_owner()
    }

    /// The log, as the header of the index says.
    fn seen_log(&self) -> SeenLog {
        SeenLog::of(|number| self.index.word(number))
    }

    /// Begins to read by the seat, behind the turn of a statement that writes; `false` where the owner must be asked.
    fn begins_by_seat(&mut self, bits: u8, statement: MembersStatement) -> Result<bool> {
        if self.channel.board().is_none() && self.channel.is_alive() {
            return Ok(false);
        }
        let has_write_slot = self.index.has_turn || self.index.exclusive & WRITES != 0;
        if !has_write_slot && statement.shows != Shows::Always && self.index.has_no_slot() {
            let header = self.header();
            let data = [statement::encode(true, statement)];
            self.index.has_turn = self.begin(|this| this.take_turn(&data))?;
            if self.index.has_turn && self.header() != header {
                // SQLite begins anew at once, by the snapshot that stays the newest.
                return Err(Error::Busy);
            }
        } else if self.index.has_no_slot() {
            // Nothing else would tell that the owner has ended.
            self.begin(|this| this.channel.look())?;
        }
        self.note_beginning();
        let waits_elsewhere = self.index.has_turn || has_write_slot;
        let since = self.index.word(CHANGE_WORD);
        let Some((board, seat)) = self.channel.board() else { return Ok(false) };
        if !board.share(seat, bits, self.index.epoch, waits_elsewhere) {
            return Ok(false);
        }
        self.index.seated |= bits;
        self.index.seated_since = since;
        self.begin_to_read();
        Ok(true)
    }

    /// A transaction begins, and keeps its owner's file. Behind the death of an owner stock SQLite would not see what that has committed last: whoever has
    /// the file is before it.
    fn note_beginning(&self) {
        self.channel.borrowing.note_beginning((&self.link, &self.channel), || true);
    }

    /// Asks for the turn to write.
    fn take_turn(&self, data: &[u8]) -> Result<bool> {
        self.channel.ask(&Self::call(Operation::TakeTurn, 0, 0).with(data), |reply| Ok(reply.flag))
    }

    /// The header of the index, as far as it says whether there was a commit.
    fn header(&self) -> [u32; COPY_WORDS] {
        std::array::from_fn(|number| self.index.word(number))
    }

    pub(super) fn unlock_slots(&mut self, first: usize, count: usize) -> Result<()> {
        let bits = mask(first, count);
        if self.index.seated & bits == bits {
            let is_heard = self.give_back_by_seat(first, count, bits);
            return self.end_by_seat(bits).and(is_heard);
        }
        self.before_unlock_on_file(bits);
        self.index.shared &= !bits;
        self.index.exclusive &= !bits;
        self.end_without_slots();
        self.link.recovery.note(self.index.makes_index());
        let given_back = self.give_back_slots(first, count, bits);
        self.unlock_left();
        if self.index.is_file && self.index.has_no_slot() {
            self.link.note_file_slots(false);
        }
        given_back
    }

    fn give_back_slots(&mut self, first: usize, count: usize, bits: u8) -> Result<()> {
        let call = Self::call(Operation::ShmUnlock, first as u64, count as u64);
        if bits != WRITES {
            return self.give_back(&call);
        }
        if !self.link.commits.has_failed.load(Ordering::Relaxed) {
            let mut reads = self.link.wal_reads.lock();
            reads.note_published(self.seen_log());
            // A statement that reads may be under way still.
            reads.note_writes(false);
            reads.release_writing();
        }
        // SQLite is about to say that the commit is done, and waits there until it is as durable as it has to be.
        if self.link.commits.end() && self.link.is_heard() && self.index.seated != 0 {
            let told = self.channel.defer(&call);
            return if self.channel.is_alive() { told } else { Ok(()) };
        }
        self.give_back(&call)
    }

    /// The transaction ends with its last slot. A writer takes another slot of a reader before its first frame.
    fn end_without_slots(&self) {
        let MemberIndex { shared, seated, exclusive, .. } = self.index;
        if (shared | seated) >> READ_SLOTS == 0 && exclusive & WRITES == 0 {
            self.link.wal_reads.lock().end();
        }
    }

    fn end_by_seat(&mut self, bits: u8) -> Result<()> {
        self.index.seated &= !bits;
        self.end_without_slots();
        if self.index.seated != 0 || !self.channel.is_alive() {
            self.index.has_turn &= self.index.seated != 0;
            return Ok(());
        }
        if std::mem::take(&mut self.index.has_turn) {
            return self.give_back(&Self::call(Operation::ShmUnlock, WRITE_SLOT as u64, 1));
        }
        if !self.channel.is_sent() {
            let _ = self.channel.send();
        }
        Ok(())
    }

    /// SQLite is about to publish what it has written: the owner must have it.
    pub(super) fn before_publishing(&mut self) {
        let commits = &self.link.commits;
        if !commits.awaits_sync.swap(false, Ordering::Relaxed) {
            return;
        }
        // There was no sync, against all that was known.
        commits.note_setting();
        let call = Call::new(Operation::Size, FileOf::Wal, 0, 0);
        let asked = self.link.or_by_itself(self.channel.ask(&call, |_| Ok(())), |_| Ok(()));
        let lost = asked.is_err();
        if !lost || self.channel.has_lost_owner() && self.link.commit_behind_owner().is_ok() {
            return;
        }
        commits.has_failed.store(true, Ordering::Relaxed);
        // The copy that SQLite has written just now: who finds the two different makes the index from what is in the log.
        if let Some(first) = self.index.regions.first() {
            for word in COPY_WORDS..2 * COPY_WORDS {
                // SAFETY: a region is far larger, and the write slot is this connection's.
                unsafe { first.word(word) }.store(0, Ordering::SeqCst);
            }
        }
    }
}
