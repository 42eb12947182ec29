//! The board of a group: memory that the owner and all members map, in which they see each other without a message.
//!
//! # Why
//! A message costs two changes of process. What every transaction asks for must not be one: whether a reader may begin, and that it has
//! ended.
//!
//! ```text
//! gate       slots of the wal-index that somebody holds exclusively: a copy of the owner's (`wal_index`)
//! open       set while the owner owns the database, and no stranger waits
//! checkpoints  as many have begun to write to the database file
//! epoch      another one whenever the memory of the wal-index is another one
//! promised   commits that were promised to be durable, of those that anybody may see
//! settled    as many of them are known to be durable
//! file gate  closed while somebody waits for the database file alone, or has it: a copy of the owner's (`lock_table`)
//! shown      without a log: the moment that is the present one, and durable; its epoch is 0 where readers ask (`file_seats`)
//! seats      two words for each member's connection: the slots that it shares, and its lock on the file
//! ```
//!
//! All but the seats is the owner's: members have it write-protected.
//!
//! # Invariants
//! 1. Nothing here is needed to recover the files. A member changes the words of its seat, and nothing else. It is the owner that clears the
//!    seat of a member that has died.
//! 2. A member announces slots in its seat, and then looks at the gate; who takes a slot exclusively closes the gate, and then looks at the
//!    seats (`reader_gate`).
//! 3. Slots are shared by a seat in the epoch of the memory that the member has. The epoch changes while the gate is closed. A member that has a slot
//!    keeps its memory until it gives the slot back, and nobody changes that memory meanwhile. Where the epoch has changed by then, it tells the owner.
//! 4. A commit is promised before anybody can see it, and settled once it is durable. A member that finds more promised than settled asks
//!    the owner, which waits.

use crate::error::{Error, Result};
use crate::stats::name_of_group;
use crate::sync::group_changes::Moment;
use crate::sync::reader_gate::{Announcement, Gate};
use crate::sync::wal_index::CHECKPOINT_SLOT;
use crate::sync::wal_index_region::{LARGEST_PAGE, Region};
use crate::sync::word::Word;
use litefoot_storage::file::FileId;
use litefoot_storage::os::NamelessMemory;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Connections of members that have a seat.
const SEATS: usize = 1024;

/// Places of the words, each in cache lines of its own.
const GATE: usize = 0;
const OPEN: usize = 128;
const PROMISED: usize = 256;
const SETTLED: usize = 384;
const EPOCH: usize = 512;
const CHECKPOINTS: usize = 640;
const SHOWN_EPOCH: usize = 768;
const SHOWN_COMMITS: usize = 896;
const FILE_GATE: usize = 1024;
/// Behind the words of the owner, on pages of the system of their own.
const FIRST_SEAT: usize = LARGEST_PAGE;
const SEAT_BYTES: usize = 128;
/// Where in a seat the word of the file's lock lies.
const FILE_SEAT: usize = 64;
const BYTES: usize = FIRST_SEAT + SEATS * SEAT_BYTES;

/// The words of a board, wherever they lie.
pub(crate) trait Words {
    type Slots: Word<u8>;
    type Number: Word<u64>;
    fn word(&self, place: usize) -> &Self::Number;
    fn gate(&self) -> &Gate<Self::Slots>;
    /// The seat of a number below [`SEATS`].
    fn seat(&self, number: usize) -> &Announcement<Self::Slots>;
    fn file_gate(&self) -> &Gate<Self::Slots>;
    /// The same seat's lock on the file.
    fn file_seat(&self, number: usize) -> &Announcement<Self::Slots>;
}

/// Words in memory that the processes of a group map.
pub(crate) struct MappedWords {
    region: Region,
    memory: Arc<NamelessMemory>,
}

// SAFETY: the memory is used through atomic words only.
unsafe impl Sync for MappedWords {}

impl Words for MappedWords {
    type Slots = AtomicU8;
    type Number = AtomicU64;

    #[inline]
    fn word(&self, place: usize) -> &AtomicU64 {
        // SAFETY: aligned, inside of the region, and used as an atomic word by all.
        unsafe { self.region.at(place).cast().as_ref() }
    }

    #[inline]
    fn gate(&self) -> &Gate {
        // SAFETY: a word that is used as the gate by all.
        unsafe { self.region.at(GATE).cast().as_ref() }
    }

    #[inline]
    fn seat(&self, number: usize) -> &Announcement {
        // SAFETY: inside of the region; a word that is used as an announcement by all.
        unsafe { self.region.at(FIRST_SEAT + number * SEAT_BYTES).cast().as_ref() }
    }

    #[inline]
    fn file_gate(&self) -> &Gate {
        // SAFETY: a word that is used as a gate by all.
        unsafe { self.region.at(FILE_GATE).cast().as_ref() }
    }

    #[inline]
    fn file_seat(&self, number: usize) -> &Announcement {
        // SAFETY: inside of the region; a word that is used as an announcement by all.
        unsafe { self.region.at(FIRST_SEAT + number * SEAT_BYTES + FILE_SEAT).cast().as_ref() }
    }
}

/// The board of one database's group.
pub(crate) struct Board<M = MappedWords> {
    words: M,
}

impl Board {
    /// The board of an owner. The system lists it in each process of the group (`stats::processes_of_group`).
    ///
    /// # Errors
    /// The system gives no memory.
    pub fn new(database: FileId) -> Result<Board> {
        let memory = NamelessMemory::listed(&name_of_group(database)).map_err(|_| Error::NoMemory)?;
        Board::map(memory)
    }

    /// The board that an owner has sent.
    ///
    /// # Errors
    /// The system gives no memory.
    pub fn of(memory: NamelessMemory) -> Result<Board> {
        let board = Board::map(memory)?;
        board.words.region.protect(0..FIRST_SEAT).map_err(|_| Error::NoMemory)?;
        Ok(board)
    }

    fn map(memory: NamelessMemory) -> Result<Board> {
        let mut region = Region::new(BYTES).ok_or(Error::NoMemory)?;
        region.join(&memory, 0).map_err(|_| Error::NoMemory)?;
        Ok(Board { words: MappedWords { region, memory: Arc::new(memory) } })
    }

    /// The memory, for a member.
    pub fn memory(&self) -> &Arc<NamelessMemory> {
        &self.words.memory
    }
}

impl<M: Words> Board<M> {
    fn word(&self, place: usize) -> &M::Number {
        self.words.word(place)
    }

    /// The gate.
    pub fn gate(&self) -> &Gate<M::Slots> {
        self.words.gate()
    }

    /// The word of a seat.
    pub fn seat(&self, number: usize) -> Option<&Announcement<M::Slots>> {
        (number < SEATS).then(|| self.words.seat(number))
    }

    /// The gate of the file's lock.
    pub(super) fn file_gate(&self) -> &Gate<M::Slots> {
        self.words.file_gate()
    }

    /// A seat's lock on the file.
    pub(super) fn file_seat(&self, number: usize) -> Option<&Announcement<M::Slots>> {
        (number < SEATS).then(|| self.words.file_seat(number))
    }

    /// The slots that somebody shares by a seat, of as many seats.
    pub fn shared_slots(&self, seats: usize) -> u8 {
        (0..seats).filter_map(|number| self.seat(number)).fold(0, |slots, seat| slots | seat.seen())
    }

    /// The owner owns the database, or does no more.
    pub fn set_open(&self, open: bool) {
        self.word(OPEN).store(u64::from(open), Ordering::SeqCst);
    }

    /// True while the owner owns the database, and no stranger waits.
    pub(super) fn is_open(&self) -> bool {
        self.word(OPEN).load(Ordering::SeqCst) != 0
    }

    /// Without a log a reader may begin by its seat: that moment is the present one, and everything in it is durable.
    pub(crate) fn show(&self, moment: Moment) {
        self.word(SHOWN_COMMITS).store(moment.commits, Ordering::SeqCst);
        self.word(SHOWN_EPOCH).store(moment.epoch, Ordering::SeqCst);
    }

    /// Readers ask the owner from now on.
    pub(crate) fn hide(&self) {
        if self.word(SHOWN_EPOCH).load(Ordering::Relaxed) != 0 {
            self.word(SHOWN_EPOCH).store(0, Ordering::SeqCst);
        }
    }

    /// True if that moment is shown.
    pub(super) fn shows(&self, moment: Moment) -> bool {
        moment.epoch != 0
            && self.word(SHOWN_EPOCH).load(Ordering::SeqCst) == moment.epoch
            && self.word(SHOWN_COMMITS).load(Ordering::SeqCst) == moment.commits
    }

    /// The epoch of the wal-index.
    pub fn epoch(&self) -> u64 {
        self.word(EPOCH).load(Ordering::SeqCst)
    }

    /// The wal-index is other memory from now on: who has the one before has to come anew.
    pub fn begin_epoch(&self) {
        self.word(EPOCH).fetch_add(1, Ordering::SeqCst);
    }

    /// A checkpoint has closed the gate, and may write to the database file from now on.
    pub fn note_checkpoint(&self) {
        self.word(CHECKPOINTS).fetch_add(1, Ordering::SeqCst);
    }

    /// How many checkpoints have begun; `None` while one is under way.
    pub fn checkpoints(&self) -> Option<u64> {
        // In this order: one that has ended meanwhile has been counted.
        let begun = self.word(CHECKPOINTS).load(Ordering::SeqCst);
        (self.gate().closed() >> CHECKPOINT_SLOT & 1 == 0).then_some(begun)
    }

    /// Before a commit is published: as many are promised to be durable.
    pub fn promise(&self, promises: u64) {
        self.word(PROMISED).fetch_max(promises, Ordering::SeqCst);
    }

    /// As many of the promised commits are durable.
    pub fn settle(&self, promises: u64) {
        if self.word(SETTLED).load(Ordering::Relaxed) < promises {
            self.word(SETTLED).fetch_max(promises, Ordering::SeqCst);
        }
    }

    /// True where a member may read what it sees: the owner owns the database, and everything is durable.
    fn may_read(&self) -> bool {
        // In this order: what is promised later may be settled later.
        let settled = self.word(SETTLED).load(Ordering::SeqCst);
        self.is_open() && settled >= self.word(PROMISED).load(Ordering::SeqCst)
    }

    /// A member that has the memory of an epoch shares slots by its seat. `waits_elsewhere` says that it shows nothing that is not durable.
    /// `false` leaves the seat as it was, and the owner must be asked.
    pub fn share(&self, seat: usize, mask: u8, epoch: u64, waits_elsewhere: bool) -> bool {
        let Some(seat) = self.seat(seat) else { return false };
        let before = seat.own();
        if !self.gate().enter(seat, before, before | mask, mask) {
            return false;
        }
        let may_read = self.is_open() && self.epoch() == epoch && (waits_elsewhere || self.may_read());
        if !may_read {
            seat.retract(before);
        }
        may_read
    }

    /// A member gives slots back that it shares by its seat.
    pub fn unshare(&self, seat: usize, mask: u8) {
        if let Some(seat) = self.seat(seat) {
            seat.retract(seat.own() & !mask);
        }
    }

    /// The same at the end of a read. `false` where the owner has to be told: the memory has become another one since, and the slot may be locked on a
    /// file.
    pub fn end(&self, seat: usize, mask: u8, epoch: u64) -> bool {
        let Some(seat) = self.seat(seat) else { return true };
        // In this order: an owner that begins an epoch looks at the seats behind that.
        seat.announce(seat.own() & !mask);
        self.epoch() == epoch
    }

    /// The owner takes all slots from a seat.
    pub fn clear(&self, seat: usize) {
        if let Some(seat) = self.seat(seat) {
            seat.announce(0);
        }
    }
}

#[cfg(test)]
pub(in crate::sync) mod of_test;
#[cfg(test)]
mod tests {
    use super::*;

    /// The board of an owner, and the same memory as a member has it.
    fn boards() -> (Board, Board) {
        let owners = Board::new(of_test::DATABASE).unwrap();
        let descriptor = owners.memory().descriptor().try_clone_to_owned().unwrap();
        (owners, Board::of(NamelessMemory::of(descriptor)).unwrap())
    }

    #[test]
    fn a_seat_shares_what_nobody_closes_and_everybody_may_see() {
        let (owners, members) = boards();
        let cases = [
            // (is owned, closed slots, promised, settled, waits elsewhere, shares)
            (false, 0, 0, 0, false, false),
            (false, 0, 0, 0, true, false),
            (true, 0, 0, 0, false, true),
            (true, 0b1000, 0, 0, false, false),
            (true, 0b0001, 0, 0, false, true),
            (true, 0, 1, 0, false, false),
            (true, 0, 2, 0, true, true),
            (true, 0, 2, 1, false, false),
            (true, 0, 2, 2, false, true),
        ];
        for (open, closed, promised, settled, waits_elsewhere, expected) in cases {
            owners.set_open(open);
            owners.gate().set(closed);
            owners.promise(promised);
            owners.settle(settled);
            let shares = members.share(3, 0b1000, 0, waits_elsewhere);
            assert_eq!(shares, expected, "{open} {closed:b} {promised} {settled} {waits_elsewhere}");
            assert_eq!(owners.shared_slots(4), if expected { 0b1000 } else { 0 });
            assert_eq!(owners.shared_slots(3), 0, "another's seat");
            members.unshare(3, 0b1000);
            assert_eq!(owners.shared_slots(4), 0);
        }
        assert!(members.share(0, 0b1000, 0, true) && !members.share(SEATS, 0b1000, 0, true), "no such seat");
        owners.clear(0);
        assert_eq!(owners.shared_slots(1), 0);
        owners.begin_epoch();
        assert!(!members.share(0, 0b1000, 0, true) && owners.shared_slots(1) == 0, "it has other memory");
        assert!(members.share(0, 0b1000, members.epoch(), true));
    }

    #[test]
    fn a_member_can_write_to_the_seats_only() {
        let (owners, members) = boards();
        let last = FIRST_SEAT + (SEATS - 1) * SEAT_BYTES;
        for (place, expected) in [(GATE, false), (FILE_GATE, false), (FIRST_SEAT, true), (last, true)] {
            assert!(owners.words.region.is_writable(place));
            assert_eq!(members.words.region.is_writable(place), expected, "{place}");
        }
    }

    /// A member that reads and one that takes the slot exclusively never miss each other.
    #[test]
    fn threads_share_by_seats_or_close_the_gate() {
        let (owners, members) = boards();
        owners.set_open(true);
        share_or_close(&owners, &members, 300);
    }

    /// The same where no memory is mapped.
    #[test]
    fn threads_share_a_board_in_plain_memory() {
        let board = of_test::board::<AtomicU8, AtomicU64>();
        share_or_close(&board, &board, if cfg!(miri) { 30 } else { 300 });
    }

    fn share_or_close<M: Words + Sync>(owners: &Board<M>, members: &Board<M>, rounds: u64) {
        let written = [AtomicU64::new(0), AtomicU64::new(0)];
        std::thread::scope(|scope| {
            let reading = [0, 1].map(|seat| {
                let written = &written;
                scope.spawn(move || {
                    let mut seen = 0;
                    while seen < 3 * rounds {
                        if members.share(seat, 0b1000, 0, false) {
                            assert_eq!(
                                written[0].load(Ordering::Relaxed),
                                written[1].load(Ordering::Relaxed)
                            );
                            members.unshare(seat, 0b1000);
                            seen += 1;
                        }
                        std::thread::yield_now();
                    }
                })
            });
            let mut done = 0;
            while done < rounds {
                owners.gate().set(0b1000);
                if owners.shared_slots(2) == 0 {
                    written[0].fetch_add(1, Ordering::Relaxed);
                    std::thread::yield_now();
                    written[1].fetch_add(1, Ordering::Relaxed);
                    done += 1;
                }
                owners.gate().open(0b1000);
                std::thread::yield_now();
            }
            // The thread sanitizer sees a thread that is joined, and not what a scope waits for.
            reading.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}
