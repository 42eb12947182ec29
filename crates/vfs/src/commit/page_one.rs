//! Page 1 in a redo log of rollback-journal transactions: its counters, and when it must be logged.
//!
//! # Why
//! Every transaction changes page 1, if only its change counter. An image of page 1 with every transaction would double the
//! bytes of a small one. So a generation of the log has one image, and another one only when more than the counters has
//! changed.
//!
//! # Promises
//! 1. A logged image has counters that are ahead by [`COUNTER_JUMP`], which is more than a generation has transactions. So a
//!    database that was recovered from the log never shows a counter that a connection has seen with other content.
//! 2. A VFS above litefoot may seal page 1: encrypt it, or put a checksum in its reserved bytes. Such a page 1 is
//!    logged unchanged, with every transaction.

use crate::db::{Db, MAGIC};
use crate::error::Result;
use litefoot_storage::wal_file::RedoLog;

/// How far the change counter of a logged page 1 is ahead.
pub(crate) const COUNTER_JUMP: u32 = 1 << 20;
/// Offsets of the change counter in page 1, and of its copy, which vouches for the database size.
pub(crate) const COUNTERS: [usize; 2] = [24, 92];
/// Offset of the number of reserved bytes at the end of each page.
const RESERVED_BYTES: usize = 20;
/// Offset of the read version, which is 2 in WAL mode.
const READ_VERSION: usize = 19;
/// The bytes of page 1 that are read for its journal mode.
const HEAD_BYTES: usize = READ_VERSION + 1;

/// True when the image `logged` stands for `page`: they differ in nothing but counters.
pub(crate) fn is_same_but_counters(logged: &[u8], page: &[u8]) -> bool {
    has_counters(logged) && has_counters(page) && without_counters(logged) == without_counters(page)
}

/// Advances the counters of an image that goes to the log, where only SQLite looks at page 1.
pub(crate) fn advance_counters(page: &mut [u8]) {
    change_counters(page, |counter| counter.wrapping_add(COUNTER_JUMP));
}

/// Page 1 with another change counter; a sealed one as it is.
pub(crate) fn with_counter(page: &[u8], counter: u32) -> Vec<u8> {
    let mut page = page.to_vec();
    change_counters(&mut page, |_| counter);
    page
}

fn change_counters(page: &mut [u8], change: impl Fn(u32) -> u32) {
    if !has_counters(page) {
        return;
    }
    for at in COUNTERS {
        let counter = u32::from_be_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
        page[at..at + 4].copy_from_slice(&change(counter).to_be_bytes());
    }
}

/// The change counter in the first sector of a database.
pub(crate) fn counter_of(sector: &[u8]) -> u32 {
    let at = COUNTERS[0];
    u32::from_be_bytes([sector[at], sector[at + 1], sector[at + 2], sector[at + 3]])
}

/// The parts of page 1 around its counters.
pub(crate) fn without_counters(page: &[u8]) -> [&[u8]; 3] {
    let [first, second] = COUNTERS;
    [&page[..first], &page[first + 4..second], &page[second + 4..]]
}

/// True for a page 1 that only SQLite looks at, so that its counters may be advanced. A VFS above may have encrypted page 1, or
/// keep a checksum at its end, where SQLite leaves room (file format, section 1.3.4).
fn has_counters(page: &[u8]) -> bool {
    page.starts_with(MAGIC) && page.get(RESERVED_BYTES) == Some(&0)
}

/// True when the newest page 1 says that the database is in WAL mode.
pub(crate) fn is_wal_mode(db: &Db, redo: &RedoLog) -> Result<bool> {
    Ok(wal_mode(db, redo)? == Some(true))
}

/// The same of page 1 in the database file.
pub(crate) fn says_wal_mode(db: &Db) -> Result<bool> {
    let mut head = [0; HEAD_BYTES];
    db.data().read_at(&mut head, 0)?;
    Ok(wal_mode_of(&head) == Some(true))
}

/// The journal mode in the newest page 1: true for WAL mode, `None` for an encrypted page 1. A redo log of an encrypted
/// database is recovered as by a checkpoint: its pages are copied to the database file.
pub(crate) fn wal_mode(db: &Db, redo: &RedoLog) -> Result<Option<bool>> {
    let mut head = [0; HEAD_BYTES];
    if !redo.read_page(1, 0, &mut head)? {
        db.data().read_at(&mut head, 0)?;
    }
    Ok(wal_mode_of(&head))
}

fn wal_mode_of(head: &[u8; HEAD_BYTES]) -> Option<bool> {
    head.starts_with(MAGIC).then(|| head[READ_VERSION] == 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_one(counter: u32, filler: u8, reserved: u8) -> Vec<u8> {
        let mut page = vec![filler; 512];
        page[..MAGIC.len()].copy_from_slice(MAGIC);
        page[RESERVED_BYTES] = reserved;
        for at in COUNTERS {
            page[at..at + 4].copy_from_slice(&counter.to_be_bytes());
        }
        page
    }

    #[test]
    fn an_image_stands_for_pages_that_differ_in_counters() {
        let encrypted = vec![3; 512];
        let mut other_copy = page_one(8, 1, 0);
        other_copy[COUNTERS[1]] = 99;
        let mut behind = page_one(7, 1, 0);
        behind[COUNTERS[1] + 4] ^= 1;
        for (page, expected, what) in [
            (page_one(7, 1, 0), true, "the same"),
            (page_one(8, 1, 0), true, "another counter"),
            (other_copy, true, "another copy of the counter"),
            (behind, false, "the byte behind the counter"),
            (page_one(7, 2, 0), false, "other content"),
            (page_one(7, 1, 8), false, "reserved bytes"),
            (encrypted.clone(), false, "encrypted"),
        ] {
            assert_eq!(is_same_but_counters(&page_one(7, 1, 0), &page), expected, "{what}");
        }
        assert!(!is_same_but_counters(&encrypted, &encrypted));
        assert!(!is_same_but_counters(&page_one(7, 1, 8), &page_one(7, 1, 8)));
    }

    #[test]
    fn the_counters_of_an_image_are_ahead_unless_the_page_is_sealed() {
        for (page, ahead) in [
            (page_one(7, 1, 0), COUNTER_JUMP),
            (page_one(u32::MAX, 1, 0), COUNTER_JUMP),
            (page_one(7, 1, 8), 0),
            (vec![3; 512], 0),
        ] {
            let mut image = page.clone();
            advance_counters(&mut image);
            assert_eq!(counter_of(&image), counter_of(&page).wrapping_add(ahead));
            assert_eq!(image[COUNTERS[1]..][..4] == page[COUNTERS[1]..][..4], ahead == 0);
            assert_eq!(without_counters(&image), without_counters(&page));
        }
    }

    #[test]
    fn the_journal_mode_is_read_version_2() {
        let head = |version: u8| {
            let mut head = [0; HEAD_BYTES];
            head[..MAGIC.len()].copy_from_slice(MAGIC);
            head[READ_VERSION] = version;
            head
        };
        assert_eq!([1, 2].map(|version| wal_mode_of(&head(version))), [Some(false), Some(true)]);
        assert_eq!(wal_mode_of(&[2; HEAD_BYTES]), None);
    }
}
