//! The owner's end of a snapshot in WAL mode that an owner had that has died, and of its commit (`open/succession`).
//!
//! # Invariants
//! 1. A snapshot gets its lock and its slot, and then the file is looked at. Who writes to it has the slot exclusively, or EXCLUSIVE.
//! 2. One that writes gets the lock of a writer, and then the database is compared with what the snapshot has (`wal_state`). A commit that is there is found
//!    without the lock, which another one may have. It is synced before anybody hears of it.
//! 3. Its commit is in the log, durably, before the index is made anew, and both before the lock is given back.

use super::orphans::lost;
use super::{Answer, Served, open_log_to_members, unexpected};
use crate::commit::wal::adopted::PresentPages;
use crate::error::Result;
use crate::files::group::batch::Batch;
use crate::files::group::protocol::{Call, FileOf, MORE};
use crate::files::group::wal_state::{Claim, Content, Found, hash_of};
use crate::files::handle::Handle;
use crate::sync::heirs::Place;
use crate::sync::lock_table::Level;
use crate::sync::wal_index::{READ_SLOTS, WRITE_SLOT};
use crate::sync::wal_index_marks::REGION_BYTES;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_int;

/// Most bytes of pages that a commit may have: as a member holds them, and some more.
const MOST_ADOPTED: usize = 32 << 20;

/// The pages of a commit that has come in part.
#[derive(Default)]
pub(super) struct Adopted {
    pages: BTreeMap<u32, Box<[u8]>>,
    bytes: usize,
}

/// What this owner has, to be compared with what another one had.
struct Compared<'a> {
    pages: PresentPages<'a>,
    page: RefCell<Vec<u8>>,
}

impl Content for Compared<'_> {
    fn page_bytes(&self) -> usize {
        self.page.borrow().len()
    }

    fn pages(&self) -> Result<u64> {
        match self.pages.pages() {
            0 => self.pages_of_file(),
            pages => Ok(pages.into()),
        }
    }

    fn pages_of_file(&self) -> Result<u64> {
        Ok(self.pages.bytes_of_file()? / self.page_bytes().max(1) as u64)
    }

    fn numbers(&self) -> Vec<u32> {
        self.pages.numbers().collect()
    }

    fn hash(&self, number: u32) -> Result<u64> {
        let page = &mut *self.page.borrow_mut();
        self.pages.read(number, page).map(|()| hash_of(page))
    }

    fn hash_in_file(&self, number: u32) -> Result<u64> {
        let page = &mut *self.page.borrow_mut();
        self.pages.read_in_file(number, page).map(|()| hash_of(page))
    }
}

impl Served {
    /// Keeps the file as the owner with these marks has left it, for as long as the member's stream lasts. `flags` are SQLite's of the log.
    pub(super) fn keep_file(&mut self, marks: u64, flags: u64) -> Result<Answer> {
        if self.is_in_transaction() {
            return Err(unexpected());
        }
        self.main()?.lock(Level::Shared)?;
        // In SQLite's order.
        self.open(FileOf::Wal, flags as c_int)?;
        let main = self.main()?;
        main.shm_map(0, REGION_BYTES, true)?;
        main.shm_lock(READ_SLOTS, 1, false)?;
        if !self.database.has_file_of(marks) {
            return Err(lost());
        }
        // This process may die as well.
        open_log_to_members(&self.database);
        Ok(Answer::default())
    }

    /// Gives the lock of a writer to the transaction of such a snapshot, where the database has what it builds upon. The value says what was found; the lock is
    /// given with [`Found::Base`] only.
    pub(super) fn write_on(&mut self, call: &Call<'_>) -> Result<Answer> {
        let claim = Claim::decode(call.data).ok_or_else(unexpected)?;
        let main = self.main()?;
        if !main.slots.reads() || main.slots.writes() {
            return Err(unexpected());
        }
        // It was the writer before all others here.
        main.is_inherited = true;
        let database = self.database.clone();
        let known = |place| database.is_known(place);
        let mut found = Found::Commit;
        if !self.compare(&claim, |content| claim.is_committed(content, known))? {
            self.main()?.shm_lock(WRITE_SLOT, 1, true)?;
            let looked = self.compare(&claim, |content| claim.find(content, known));
            found = *looked.as_ref().unwrap_or(&Found::Nothing);
            if found != Found::Base {
                self.main()?.shm_unlock(WRITE_SLOT, 1)?;
            }
            looked?;
        }
        match (found, &claim.behind) {
            (Found::Nothing, _) => {}
            (Found::Commit, Some(behind)) => self.note_commit(behind.place)?,
            (Found::Commit | Found::Base, _) => self.database.note_known(claim.place),
        }
        Ok(Answer::value(found as u64))
    }

    /// A commit is here. The dead owner may have died before it has synced that.
    fn note_commit(&self, place: Place) -> Result<()> {
        self.database.wal().ok_or_else(lost)?.before_in_place(self.database.db())?;
        self.database.note_known(place);
        Ok(())
    }

    /// Compares what this owner has with a claim.
    fn compare<T>(&self, claim: &Claim, look: impl FnOnce(&dyn Content) -> Result<T>) -> Result<T> {
        self.database.recovery().check_replayed()?;
        let wal = self.database.wal().ok_or_else(lost)?;
        let pages = wal.present(self.database.db());
        let in_log = pages.page_bytes();
        let page_bytes = if in_log == 0 { claim.base.page_bytes } else { in_log };
        look(&Compared { pages, page: RefCell::new(vec![0; page_bytes]) })
    }

    /// Makes the commit of such a transaction.
    pub(super) fn commit_on(&mut self, call: &Call<'_>) -> Result<Answer> {
        let batch = Batch::decode(call.data).ok_or_else(unexpected)?;
        let main = self.main()?;
        if !main.is_inherited || !main.slots.writes() {
            return Err(unexpected());
        }
        for (number, page) in batch.pages.iter() {
            self.adopted.bytes += page.len();
            self.adopted.pages.insert(number, page.into());
        }
        if self.adopted.bytes > MOST_ADOPTED {
            return Err(unexpected());
        }
        if call.a & MORE != 0 {
            return Ok(Answer::default());
        }
        let pages = std::mem::take(&mut self.adopted).pages;
        let database_pages = u32::try_from(batch.len / batch.page_bytes as u64).map_err(|_| unexpected())?;
        let wal = self.database.wal().ok_or_else(lost)?;
        wal.append(&self.database, batch.page_bytes, database_pages, &pages)?;
        // The next reader makes it of all that is in the log.
        self.database.wal_index().invalidate();
        Ok(Answer::default())
    }
}
