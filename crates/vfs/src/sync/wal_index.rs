//! The wal-index, in the memory of the owner process.
//!
//! SQLite keeps the index of its write-ahead log in shared memory. Since one process owns the database, plain memory of that
//! process does: no `-shm` file, no lock system calls. While the database is multi-process, the file lies at the same
//! addresses (`wal_index_sharing.rs`).
//!
//! A handle that takes a slot shared writes nothing but a word of its own. A handle that wants a slot exclusively closes that
//! slot's bit of the gate, and then looks at the words of all handles (`reader_gate.rs`).
//!
//! # Invariants
//! 1. A region, once mapped, neither moves nor is freed before the last handle closes the database.
//! 2. A lock slot is held by any number of sharers or by one exclusive holder, never both.
//! 3. Exclusive slots change under the lock only. A slot that was never shared becomes sharable under the lock.
//! 4. While the regions are a file's, no slot is taken or given back without the lock, under which the file's locks change
//!    as well. A thread that has not seen yet that they are finds that this process owns the database no more, and gives the
//!    slot back by [`WalIndex::unlock`].

use crate::error::{Error, Result};
use crate::ffi::codes::SQLITE_SHM_NLOCK;
use crate::sync::reader_gate::{Announcement, Gate};
use crate::sync::shm_file::ShmFile;
use crate::sync::wal_index_group::GroupMemory;
use crate::sync::wal_index_region::{Region, page_bytes, regions_per_mapping};
use litefoot_storage::os::NamelessMemory;
use litefoot_storage::sync::{Mutex, MutexGuard};
use litefoot_storage::wal_file::format::{FRAME_HEADER_BYTES, HEADER_BYTES};
use std::hash::{BuildHasher, RandomState};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};

/// Most regions of a wal-index: 32 KiB each, so 4 GiB of log frames and more.
pub(super) const REGIONS: usize = 4096;

/// The header of a wal-index (<https://www.sqlite.org/walformat.html>, section 2.1) in words of 32 bits: two copies of 12 words,
/// and the checkpoint information. The words of a copy used here are the version, the change counter, the
/// last frame that counts, the checksum of that, and the header's own.
pub(super) const HEADER_WORDS: usize = 34;
pub(crate) const COPY_WORDS: usize = 12;
pub(super) const VERSION_WORD: usize = 0;
pub(crate) const CHANGE_WORD: usize = 2;
/// Behind two bytes, half a word: the size of a page.
const SIZE_WORD: usize = 3;
pub(super) const LAST_FRAME_WORD: usize = 4;
pub(crate) const PAGES_WORD: usize = 5;
pub(super) const FRAME_SUM_WORD: usize = 6;
const SALT_WORD: usize = 8;
pub(super) const SUM_WORD: usize = 10;

/// A log as the header of its index says: what its frames are told by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenLog {
    pub salts: u64,
    pub page_bytes: usize,
    /// The last frame that counts.
    pub last: u32,
}

impl SeenLog {
    /// The log of a header, whose words `word` reads.
    pub fn of(word: impl Fn(usize) -> u32) -> SeenLog {
        let [_, _, low, high] = word(SIZE_WORD).to_ne_bytes();
        let size = usize::from(u16::from_ne_bytes([low, high]));
        SeenLog {
            salts: u64::from(word(SALT_WORD)) << 32 | u64::from(word(SALT_WORD + 1)),
            // A page of 64 KiB is 1.
            page_bytes: if size == 1 { 1 << 16 } else { size },
            last: word(LAST_FRAME_WORD),
        }
    }

    /// The frame whose page of so many bytes lies there.
    pub fn frame_at(offset: u64, page_bytes: usize) -> Option<u32> {
        let (frame_bytes, behind) =
            ((FRAME_HEADER_BYTES + page_bytes) as u64, offset.checked_sub(HEADER_BYTES as u64)?);
        let is_page = page_bytes.is_power_of_two() && page_bytes >= 512;
        let frame = u32::try_from(behind / frame_bytes).ok()?.checked_add(1)?;
        (is_page && behind % frame_bytes == FRAME_HEADER_BYTES as u64).then_some(frame)
    }
}

/// The salts in the header of a log, as [`SeenLog`] has them.
pub(crate) fn salts_of(header: &[u8; HEADER_BYTES]) -> u64 {
    let [_, _, _, _, one, other, _, _] = header.as_chunks::<4>().0 else { return 0 };
    u64::from(u32::from_ne_bytes(*one)) << 32 | u64::from(u32::from_ne_bytes(*other))
}

/// Where the page of a frame lies in a log whose pages have so many bytes.
pub(crate) fn offset_of_page(frame: u32, page_bytes: usize) -> u64 {
    let bytes = (FRAME_HEADER_BYTES + page_bytes) as u64;
    HEADER_BYTES as u64 + u64::from(frame - 1) * bytes + FRAME_HEADER_BYTES as u64
}

/// Slots of the wal-index (SQLite's `wal.c`).
pub(crate) const WRITE_SLOT: usize = 0;
pub(crate) const CHECKPOINT_SLOT: usize = 1;
/// The slot of a connection that makes the index.
pub(crate) const RECOVERY_SLOT: usize = 2;
pub(crate) const READ_SLOTS: usize = 3;

/// Lock slots that one handle holds.
#[derive(Debug)]
pub struct HeldSlots {
    shared: Arc<WalReader>,
    pub(super) exclusive: u8,
    /// The open file by which the handle of a group's member locks slots exclusively, while the regions are a file's.
    pub(super) member: Option<Arc<NamelessMemory>>,
}

/// The slots that one handle shares; in a cache line, or two, of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct WalReader(pub(super) Announcement);

impl HeldSlots {
    /// Tells whether the handle holds no slot.
    pub fn is_empty(&self) -> bool {
        self.exclusive == 0 && self.shared() == 0
    }

    /// Tells whether the handle reads: it holds a read slot.
    pub fn reads(&self) -> bool {
        self.shared() >> READ_SLOTS != 0
    }

    /// Tells whether the handle has the writers' slot.
    pub fn writes(&self) -> bool {
        self.exclusive >> WRITE_SLOT & 1 != 0
    }

    /// The slots that the handle shares.
    #[inline]
    pub(super) fn shared(&self) -> u8 {
        self.shared.0.own()
    }

    /// Shares a slot as a thread does that has not seen a change of the state.
    #[cfg(test)]
    pub(super) fn announce_of_test(&self, slot: usize) {
        self.shared.0.announce(self.shared() | 1 << slot);
    }

    #[inline]
    pub(super) fn unshare(&self, mask: u8) {
        let shared = self.shared();
        if shared & mask != 0 {
            self.shared.0.retract(shared & !mask);
        }
    }
}

/// The wal-index of one database.
#[derive(Default)]
pub struct WalIndex {
    /// Slots that a handle holds exclusively, or is about to.
    pub(super) exclusive: Gate,
    /// Slots that a handle has ever shared.
    pub(super) sharable: AtomicU8,
    /// Set where the next index that is made must differ from all earlier ones.
    pub(super) renewed: AtomicBool,
    /// Set while the regions are a file's.
    pub(super) on_file: AtomicBool,
    /// Set where a group may begin: its members may remember the index of an owner before.
    pub(super) expects_members: AtomicBool,
    /// Set where members of a group may read by their seats.
    pub(super) has_board: AtomicBool,
    /// In a forked child: the address of the parent's wal-index whose regions were adopted.
    adopted: AtomicUsize,
    /// Barriers of exclusive holders.
    barriers: AtomicU64,
    state: Mutex<WalIndexState>,
}

#[derive(Default)]
pub(super) struct WalIndexState {
    pub(super) regions: Vec<Region>,
    pub(super) readers: Vec<Arc<WalReader>>,
    /// The file that the regions are, while the database is multi-process.
    pub(super) file: Option<ShmFile>,
    /// The memory that the regions are otherwise, where members of a group map it.
    pub(super) group: Option<GroupMemory>,
    pub(super) users: usize,
    /// Those of them that are the application's.
    of_application: usize,
    /// Frames that the checkpoint under way sees at least.
    pub(super) checkpoint_sees: u32,
    /// Snapshots of fewer frames are refused.
    pub(super) snapshots_from: u32,
}

impl WalIndex {
    pub(super) fn state(&self) -> MutexGuard<'_, WalIndexState> {
        self.state.lock()
    }

    /// Registers a new handle, which holds no slot.
    pub fn register(&self) -> HeldSlots {
        let held = HeldSlots { shared: Arc::default(), exclusive: 0, member: None };
        self.state().readers.push(held.shared.clone());
        held
    }

    /// Takes back everything of a handle that is closed.
    pub fn unregister(&self, held: &mut HeldSlots) {
        self.unlock(held, 0, SQLITE_SHM_NLOCK);
        self.state().readers.retain(|other| !Arc::ptr_eq(other, &held.shared));
    }

    /// A handle starts to use the memory. The first one calls `first` before another can start.
    pub fn join<E>(&self, first: impl FnOnce() -> std::result::Result<(), E>) -> std::result::Result<(), E> {
        let mut state = self.state();
        if state.users == 0 {
            first()?;
        }
        state.users += 1;
        Ok(())
    }

    /// A handle stops using the memory. With the last one the memory is gone, and the next handle starts from zeros. Where it
    /// is a file's, that is closed, and deleted where SQLite says so.
    pub fn leave(&self, held: &mut HeldSlots, delete: bool) {
        self.unlock(held, 0, SQLITE_SHM_NLOCK);
        let mut state = self.state();
        state.users = state.users.saturating_sub(1);
        if state.users > 0 {
            return;
        }
        // Members may come that remember this index, or one of an owner before.
        self.renewed.store(true, Ordering::SeqCst);
        if state.file.is_some() {
            return self.leave_file(&mut state, delete);
        }
        state.regions.retain(|region| region.inherited);
        state.regions.iter().for_each(Region::clear);
        if state.regions.is_empty() {
            state.renew_memory();
        }
    }

    /// In a forked child, for a database that is opened again: adopts the regions of the parent's wal-index, since inherited
    /// connections know their addresses. No handle uses this memory yet. Where the parent was changing the regions at the
    /// fork, none is adopted.
    pub fn adopt(&self, parents: &WalIndex) {
        let Some(theirs) = parents.state.try_lock() else { return };
        self.state().regions = theirs.regions.iter().map(Region::inherit).collect();
        self.adopted.store(std::ptr::from_ref(parents).addr(), Ordering::Release);
        self.renew();
    }

    /// Tells whether the regions are those of that wal-index of the parent.
    pub fn has_adopted(&self, parents: &WalIndex) -> bool {
        self.adopted.load(Ordering::Acquire) == std::ptr::from_ref(parents).addr()
    }

    /// Counts a handle that uses the memory already.
    pub fn join_again(&self) {
        self.state().users += 1;
    }

    /// In a forked child: leaves the parent's regions where they are.
    pub fn forget(&mut self) {
        std::mem::forget(std::mem::take(&mut self.state.get_mut().regions));
    }

    /// A handle of the application's starts, or stops, to use the memory.
    pub fn note_application(&self, begins: bool) {
        let of_application = &mut self.state().of_application;
        *of_application = if begins { *of_application + 1 } else { of_application.saturating_sub(1) };
    }

    /// Tells whether a handle of the application's uses the memory. In exclusive locking mode, and below a VFS with a
    /// wal-index of its own, none does.
    pub fn is_applications(&self) -> bool {
        self.state().of_application > 0
    }

    /// Tells whether a handle uses the memory.
    pub fn is_used(&self) -> bool {
        self.state().users > 0
    }

    /// Calls `then` if no handle holds a slot. No handle gets one until it is done.
    pub fn while_idle<T>(&self, then: impl FnOnce() -> T) -> Option<T> {
        self.while_nobody_writes(|is_free| is_free.then(then)).flatten()
    }

    /// Calls `then` if no handle holds a slot exclusively, and tells it if none is shared, either. No handle gets one until it is done;
    /// a reader may give its own back.
    pub fn while_nobody_writes<T>(&self, then: impl FnOnce(bool) -> T) -> Option<T> {
        struct OpensGate<'a>(&'a WalIndex);
        impl Drop for OpensGate<'_> {
            fn drop(&mut self) {
                self.0.gates(&self.0.state().group).close(0);
            }
        }
        let state = self.state();
        let readers = state.readers.iter().map(|reader| &reader.0);
        let is_free = self.gates(&state.group).close_all(readers)?;
        drop(state);
        let _opens = OpensGate(self);
        Some(then(is_free))
    }

    /// The log may change: its index is invalid, and the next reader makes another. No handle holds a slot.
    pub fn renew(&self) {
        let state = self.state();
        if let Some(first) = state.regions.first() {
            for word in 0..HEADER_WORDS {
                // SAFETY: a region is far larger; SQLite accesses these words under slots, which no handle holds.
                unsafe { first.word(word) }.store(0, Ordering::SeqCst);
            }
        }
        self.renewed.store(true, Ordering::SeqCst);
    }

    /// A handle is about to give up the write slot, under which an index is made. The first index since
    /// [`WalIndex::renew`] is made different from all earlier ones. Two equal indexes say that nothing has changed, and a
    /// log that was emptied meanwhile would look like the empty log before.
    pub fn index_made(&self, held: &HeldSlots) {
        if held.exclusive & 1 << WRITE_SLOT == 0 || !self.renewed.load(Ordering::Relaxed) {
            return;
        }
        let state = self.state();
        let Some(first) = state.regions.first() else { return };
        // SAFETY: as above; a reader of the header meanwhile finds its two copies different, or the checksum wrong, and waits
        // for the write slot.
        unsafe {
            let header: [u32; COPY_WORDS] =
                std::array::from_fn(|word| first.word(word).load(Ordering::SeqCst));
            if header[VERSION_WORD] == 0 {
                return;
            }
            write_header(first, header);
        }
        self.renewed.store(false, Ordering::Relaxed);
    }

    /// The region of a number; `None` where there is none and `extend` is not set.
    ///
    /// # Errors
    /// Memory runs out, or the file's medium fails or is full.
    pub fn map(&self, number: usize, bytes: usize, extend: bool) -> Result<Option<NonNull<u8>>> {
        let mut state = self.state();
        if number >= REGIONS {
            return Err(Error::NoMemory);
        }
        let in_one = regions_per_mapping(bytes, page_bytes());
        let needed = number / in_one + 1;
        if !state.make(needed, bytes * in_one, extend)? {
            return Ok(None);
        }
        Ok(Some(state.regions[needed - 1].at(number % in_one * bytes)))
    }

    /// Shares slots where that needs no lock; `false` leaves the handle as it was, and says nothing else.
    #[inline]
    pub fn try_share(&self, held: &HeldSlots, first: usize, count: usize) -> bool {
        let (mask, before) = (mask(first, count), held.shared());
        // Acquires what earlier exclusive holders wrote before the slot became sharable.
        before & mask == mask
            || (!self.on_file.load(Ordering::Relaxed)
                && self.sharable.load(Ordering::Acquire) & mask == mask
                && self.exclusive.enter(&held.shared.0, before, before | mask, mask))
    }

    /// Takes slots `first .. first + count` without waiting; `false` when another handle is in the way.
    #[inline]
    pub fn lock(&self, held: &mut HeldSlots, first: usize, count: usize, exclusive: bool) -> bool {
        let mask = mask(first, count);
        if exclusive {
            return self.lock_exclusively(held, mask);
        }
        self.try_share(held, first, count) || self.share_slowly(held, mask)
    }

    /// Shares slots under the lock: a handle that wanted one exclusively has it by now, or has given it up.
    #[cold]
    fn share_slowly(&self, held: &HeldSlots, mask: u8) -> bool {
        let state = &mut *self.state();
        self.sharable.fetch_or(mask, Ordering::Release);
        let file = &mut state.file;
        let lock = || file.as_mut().is_none_or(|file| file.share(mask));
        self.gates(&state.group).share(mask, &held.shared.0, lock)
    }

    fn lock_exclusively(&self, held: &mut HeldSlots, mask: u8) -> bool {
        let state = &mut *self.state();
        // Most writers take a slot that no handle ever shares.
        let is_sharable = self.sharable.load(Ordering::Relaxed) & mask != 0;
        let readers = state.readers.iter().map(|reader| &reader.0);
        let file = &mut state.file;
        let is_locked = self.gates(&state.group).take(mask, is_sharable, readers, || {
            file.as_mut().is_none_or(|file| file.lock_exclusively(mask, held.member.as_deref()))
        });
        if is_locked {
            held.exclusive |= mask;
            if mask >> CHECKPOINT_SLOT & 1 != 0 {
                state.checkpoint_begins();
            }
        }
        is_locked
    }

    /// Gives slots back.
    #[inline]
    pub fn unlock(&self, held: &mut HeldSlots, first: usize, count: usize) {
        let mask = mask(first, count);
        if held.exclusive & mask != 0 {
            self.unlock_exclusively(held, mask);
        }
        if self.on_file.load(Ordering::Relaxed) {
            return self.unshare_on_file(held, mask);
        }
        held.unshare(mask);
    }

    /// Gives slots back where the handle has none exclusively, and that needs no lock; `false` leaves the handle as it was.
    #[inline]
    pub fn try_unshare(&self, held: &HeldSlots, first: usize, count: usize) -> bool {
        let is_ready = held.exclusive == 0 && !self.on_file.load(Ordering::Relaxed);
        if is_ready {
            held.unshare(mask(first, count));
        }
        is_ready
    }

    fn unlock_exclusively(&self, held: &mut HeldSlots, mask: u8) {
        let mut state = self.state();
        let given_back = held.exclusive & mask;
        if given_back >> CHECKPOINT_SLOT & 1 != 0 {
            state.checkpoint_ends();
        }
        if let Some(file) = &mut state.file {
            file.unlock_exclusively(given_back, held.member.as_deref());
        }
        self.gates(&state.group).open(given_back);
        held.exclusive &= !mask;
    }

    /// Orders all memory accesses before it against all after it. An exclusive holder also publishes what was done before.
    /// A fence alone would do only if SQLite's accesses were atomic.
    #[inline]
    pub fn barrier(&self, held: &HeldSlots) {
        fence(Ordering::SeqCst);
        if held.exclusive == 0 {
            self.barriers.load(Ordering::Acquire);
        } else {
            self.barriers.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// Writes a header that is like none before: its change counter is made another, and its checksum fits. The two copies are
/// written as SQLite writes them.
///
/// # Safety
/// The region is the first one, and the write slot is held, or nobody else uses the region.
pub(super) unsafe fn write_header(first: &Region, mut header: [u32; COPY_WORDS]) {
    // A connection may remember an index that a process before this one has made.
    static NUMBER: OnceLock<AtomicU32> = OnceLock::new();
    let number = NUMBER.get_or_init(|| AtomicU32::new(RandomState::new().hash_one(0) as u32));
    header[CHANGE_WORD] = header[CHANGE_WORD].wrapping_add(number.fetch_add(1, Ordering::Relaxed) | 1 << 31);
    [header[SUM_WORD], header[SUM_WORD + 1]] = sum_of(&header);
    for copy in [COPY_WORDS, 0] {
        for (word, value) in header.iter().enumerate() {
            // SAFETY: a region is far larger.
            unsafe { first.word(copy + word) }.store(*value, Ordering::SeqCst);
        }
    }
}

/// The checksum of a header.
pub(crate) fn sum_of(header: &[u32; COPY_WORDS]) -> [u32; 2] {
    let (mut one, mut two) = (0_u32, 0_u32);
    for pair in header[..SUM_WORD].chunks_exact(2) {
        one = one.wrapping_add(pair[0]).wrapping_add(two);
        two = two.wrapping_add(pair[1]).wrapping_add(one);
    }
    [one, two]
}

/// True for a header that was written to its end.
pub(super) fn is_whole(header: &[u32; COPY_WORDS]) -> bool {
    header[SUM_WORD..] == sum_of(header)
}

/// The bits of a range of slots.
fn mask(first: usize, count: usize) -> u8 {
    (((1u16 << count) - 1) << first) as u8
}

#[cfg(test)]
mod tests;
