//! Lock table: SQLite's file locks, kept in memory.
//!
//! The owner process holds the real lock on the file (`owner_lock.rs`), so the locks between its own connections need no
//! system call. The rules are those of <https://www.sqlite.org/lockingv3.html>.
//!
//! Each handle has a reader slot, which says how far the handle has locked. A reader writes nothing but its own slot. A handle
//! that wants the database alone closes the gate, and then looks at the slots (`reader_gate.rs`). Members of a group that read without a
//! message are seen by their seats (`file_seats.rs`): each of these counts as a handle at SHARED.
//!
//! # Invariants
//! 1. At most one handle is at RESERVED or above.
//! 2. A handle at EXCLUSIVE is alone: no other handle holds any lock.
//! 3. While a handle is at PENDING, no other handle gets SHARED; handles that have SHARED keep it.
//! 4. The gate, and levels above SHARED, change under the lock only. A level at or below SHARED is changed by its own handle
//!    only. The gate is closed while a handle is at PENDING or above.

use crate::sync::file_seats::FileGates;
use crate::sync::group_board::Board;
use crate::sync::reader_gate::{Announcement, Gate};
use litefoot_storage::fork;
use litefoot_storage::sync::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// A handle of the database, unique in the process.
pub type HandleId = u64;

/// Lock level of a handle, in SQLite's order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing is locked.
    #[default]
    None,
    /// Reading.
    Shared,
    /// Going to write; others may still read.
    Reserved,
    /// Waiting for the readers to leave.
    Pending,
    /// Writing, alone.
    Exclusive,
}

impl Level {
    /// The level of a reader slot's word.
    #[inline]
    fn of(word: u8) -> Level {
        match word {
            0 => Level::None,
            1 => Level::Shared,
            2 => Level::Reserved,
            3 => Level::Pending,
            _ => Level::Exclusive,
        }
    }
}

/// Reader slot: the lock level of one handle, in a cache line or two of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ReaderSlot {
    level: Announcement,
    /// Set where the handle's transactions take slots of the wal-index.
    by_slots: AtomicBool,
}

impl ReaderSlot {
    /// The handle's level.
    #[inline]
    pub fn level(&self) -> Level {
        Level::of(self.level.seen())
    }

    /// Tells the handle whether it may read.
    #[inline]
    pub fn reads(&self) -> bool {
        self.level.own() >= Level::Shared as u8
    }

    /// Tells the handle whether it may read, and has not begun to write.
    #[inline]
    pub fn only_reads(&self) -> bool {
        self.level.own() == Level::Shared as u8
    }

    /// Says whether the handle's transactions take slots of the wal-index. The handle then keeps SHARED between them.
    pub fn set_by_slots(&self, by_slots: bool) {
        self.by_slots.store(by_slots, Ordering::SeqCst);
    }

    /// Tells whether the handle is in no transaction, as far as the slot says.
    pub fn is_idle(&self) -> bool {
        match self.level() {
            Level::None => true,
            Level::Shared => self.by_slots.load(Ordering::SeqCst),
            _ => false,
        }
    }

    #[inline]
    fn set(&self, level: Level) {
        self.level.announce(level as u8);
    }
}

/// The handles that have a lock on the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The highest level of a handle.
    pub level: Level,
    /// True if none of them is in a transaction, as far as the slots say.
    pub are_idle: bool,
}

/// States of the gate.
const OPEN: u8 = 0;
const CLOSED: u8 = 1;

/// The members that may read by their seats.
struct Members {
    board: Arc<Board>,
    /// As many seats were ever taken.
    seats: AtomicUsize,
    /// The process that serves them, as a number of forks: a child must not touch the board.
    generation: u32,
}

/// The locks of all handles on one database.
#[derive(Default)]
pub struct LockTable {
    /// Closed where no further handle may read.
    gate: Gate,
    reader_slots: Mutex<Vec<Arc<ReaderSlot>>>,
    members: OnceLock<Members>,
}

impl LockTable {
    /// A reader slot for a new handle, which holds nothing.
    pub fn new_reader_slot(&self) -> Arc<ReaderSlot> {
        let reader_slot = Arc::<ReaderSlot>::default();
        self.reader_slots.lock().push(reader_slot.clone());
        reader_slot
    }

    /// Takes back the slot of a handle that is closed.
    pub fn leave(&self, reader_slot: &Arc<ReaderSlot>) {
        self.unlock(reader_slot, Level::None);
        self.reader_slots.lock().retain(|other| !Arc::ptr_eq(other, reader_slot));
    }

    /// Gives SHARED to a handle that holds nothing, where the gate is open; `false` leaves the handle as it was, and says
    /// nothing else.
    #[inline]
    pub fn try_share(&self, reader_slot: &ReaderSlot) -> bool {
        // A handle at PENDING waits for readers. A reader that is about to be refused must not look like one of them.
        reader_slot.level.own() == Level::None as u8
            && self.gate.glance() == OPEN
            && self.gate.enter(&reader_slot.level, Level::None as u8, Level::Shared as u8, CLOSED)
    }

    /// Raises a handle's lock; `false` when another handle is in the way. A request for EXCLUSIVE that
    /// meets readers leaves the handle at PENDING, as SQLite expects.
    #[inline]
    pub fn lock(&self, reader_slot: &ReaderSlot, wanted: Level) -> bool {
        if reader_slot.level() >= wanted {
            return true;
        }
        (wanted == Level::Shared && self.try_share(reader_slot)) || self.lock_slowly(reader_slot, wanted)
    }

    #[cold]
    fn lock_slowly(&self, reader_slot: &ReaderSlot, wanted: Level) -> bool {
        let reader_slots = self.reader_slots.lock();
        if wanted >= Level::Pending {
            self.gates().set(true);
        }
        let level = granted(reader_slot.level(), wanted, self.strongest_beside(&reader_slots, reader_slot));
        reader_slot.set(level);
        self.settle_gate(&reader_slots);
        level >= wanted
    }

    /// Takes SHARED back from a handle that has no more than that; `false` leaves the handle as it was.
    #[inline]
    pub fn try_unshare(&self, reader_slot: &ReaderSlot) -> bool {
        let shares = reader_slot.level.own() == Level::Shared as u8;
        if shares {
            reader_slot.level.retract(Level::None as u8);
        }
        shares
    }

    /// Lowers a handle's lock.
    #[inline]
    pub fn unlock(&self, reader_slot: &ReaderSlot, to: Level) {
        match reader_slot.level() {
            level if level <= to => {}
            Level::Shared => reader_slot.level.retract(to as u8),
            _ => self.unlock_slowly(reader_slot, to),
        }
    }

    #[cold]
    fn unlock_slowly(&self, reader_slot: &ReaderSlot, to: Level) {
        let reader_slots = self.reader_slots.lock();
        reader_slot.set(to);
        self.settle_gate(&reader_slots);
    }

    /// Calls `then` if no handle holds any lock. No handle gets one until it is done.
    pub fn while_free<T>(&self, then: impl FnOnce() -> T) -> Option<T> {
        let closed = ClosedGate { table: self, reader_slots: self.reader_slots.lock() };
        self.gates().set(true);
        (self.inside_of(&closed.reader_slots).level == Level::None).then(then)
    }

    /// Calls `then` if no handle is in a transaction, as far as the slots say. No handle gets a lock until it is done.
    pub fn while_idle<T>(&self, then: impl FnOnce() -> T) -> Option<T> {
        self.while_unwritten(|inside| inside.are_idle.then(then)).flatten()
    }

    /// Calls `then` if no handle is at EXCLUSIVE: nobody has written to the file. No handle gets a lock until it is done; a
    /// reader may give its own back.
    pub fn while_unwritten<T>(&self, then: impl FnOnce(Inside) -> T) -> Option<T> {
        let closed = ClosedGate { table: self, reader_slots: self.reader_slots.lock() };
        self.gates().set(true);
        let inside = self.inside_of(&closed.reader_slots);
        (inside.level < Level::Exclusive).then(|| then(inside))
    }

    /// The handles that are inside now.
    pub fn inside(&self) -> Inside {
        self.inside_of(&self.reader_slots.lock())
    }

    /// A member's connection may read by that seat of the board from now on.
    pub(crate) fn sit(&self, board: &Arc<Board>, seat: usize) {
        let reader_slots = self.reader_slots.lock();
        let members = self.members.get_or_init(|| Members {
            board: board.clone(),
            seats: AtomicUsize::new(0),
            generation: fork::generation(),
        });
        members.seats.fetch_max(seat + 1, Ordering::Relaxed);
        self.gates().set(self.gate.glance() == CLOSED);
        drop(reader_slots);
    }

    /// Tells whether a member reads by its seat.
    pub(crate) fn is_read_by_members(&self) -> bool {
        self.gates().are_read()
    }

    /// From now on the end of each member's read that is under way is told. No handle gets a lock meanwhile, or the database is not owned.
    pub(crate) fn ask_for_ends(&self) {
        self.gates().ask_for_ends();
    }

    fn gates(&self) -> FileGates<'_> {
        let members = self.members.get().filter(|members| members.generation == fork::generation());
        let board = members.map(|members| (&*members.board, members.seats.load(Ordering::Relaxed)));
        FileGates::new(&self.gate, board)
    }

    fn level_of_members(&self) -> Level {
        if self.is_read_by_members() { Level::Shared } else { Level::None }
    }

    /// The handles behind the slots, and the members that read by their seats.
    fn inside_of(&self, reader_slots: &[Arc<ReaderSlot>]) -> Inside {
        let members = self.level_of_members();
        let are_idle = members == Level::None && reader_slots.iter().all(|reader_slot| reader_slot.is_idle());
        Inside { level: strongest(reader_slots, None).max(members), are_idle }
    }

    /// Tells whether others than a handle hold a lock, so that it would not get EXCLUSIVE.
    pub fn has_others(&self, reader_slot: &ReaderSlot) -> bool {
        self.strongest_beside(&self.reader_slots.lock(), reader_slot) > Level::None
    }

    /// The highest level of the others, members that read by their seats included.
    fn strongest_beside(&self, reader_slots: &[Arc<ReaderSlot>], reader_slot: &ReaderSlot) -> Level {
        strongest(reader_slots, Some(reader_slot)).max(self.level_of_members())
    }

    /// Tells whether any handle is at RESERVED or above.
    pub fn is_reserved(&self) -> bool {
        self.strongest() >= Level::Reserved
    }

    /// The highest level of any handle.
    pub(super) fn strongest(&self) -> Level {
        self.inside().level
    }

    /// Opens or closes the gate, as the slots say. Under the lock.
    fn settle_gate(&self, reader_slots: &[Arc<ReaderSlot>]) {
        let is_closed = strongest(reader_slots, None) >= Level::Pending;
        if (self.gate.glance() == CLOSED) != is_closed {
            self.gates().set(is_closed);
        }
    }
}

/// The gate, closed for a while. Dropping this opens or closes it as the slots say.
struct ClosedGate<'a> {
    table: &'a LockTable,
    reader_slots: MutexGuard<'a, Vec<Arc<ReaderSlot>>>,
}

impl Drop for ClosedGate<'_> {
    fn drop(&mut self) {
        self.table.settle_gate(&self.reader_slots);
    }
}

/// The level that a request leaves a handle at, by the highest level of the others.
fn granted(held: Level, wanted: Level, others: Level) -> Level {
    match wanted {
        Level::None => held,
        Level::Shared if others <= Level::Reserved => wanted,
        Level::Reserved | Level::Pending if others <= Level::Shared => wanted,
        Level::Exclusive if others == Level::None => wanted,
        Level::Exclusive if others == Level::Shared => Level::Pending,
        _ => held,
    }
}

/// The highest level in any slot but one.
fn strongest(reader_slots: &[Arc<ReaderSlot>], but: Option<&ReaderSlot>) -> Level {
    let others = reader_slots
        .iter()
        .filter(|reader_slot| but.is_none_or(|but| !std::ptr::eq(&raw const ***reader_slot, but)));
    others.map(|reader_slot| reader_slot.level()).max().unwrap_or_default()
}

#[cfg(test)]
mod tests;
