//! What commits in WAL mode tell those that look at the database from outside.

use crate::db::Db;
use crate::memory::memory_file::position;
use crate::sync::kept_transactions::Transaction as Kept;
use crate::sync::wal_index::offset_of_page;
use crate::txn::wal_frames::{Transaction, WalFrames};

/// Notes a transaction whose last frame is there.
pub(super) fn note(db: &Db, frames: &WalFrames, transaction: Transaction) {
    let changed = db.shared().changed();
    if !changed.are_watched() {
        return;
    }
    let range = transaction.first..transaction.end;
    changed.note(frames.numbers(range.clone()), frames.database_pages().into());
    changed.record(&range, || {
        let (page_bytes, newest) = (frames.page_bytes(), frames.newest_until(range.start, range.end));
        let numbers = newest.keys().copied().collect();
        Kept::read(numbers, page_bytes, frames.database_pages(), |number, page| {
            let place = u32::try_from(newest[&number] + 1).map(|frame| offset_of_page(frame, page_bytes));
            let place = place.ok().and_then(|offset| position(offset, page_bytes).ok());
            place.is_some_and(|place| {
                frames.read(page, place, &**db.data()).is_ok_and(|read| read == page_bytes)
            })
        })
    });
}
