//! What was acknowledged, in a file that the processes of the experiment share; a killed process loses nothing of it.
//!
//! ```text
//! u64 number of writer 0, of writer 1, of writer 2 | u64 inserts of visitors | u64 snapshots held | u64 looks
//! ```
//!
//! # Invariant
//! Each number has one writer at a time. It only grows, but where a loss has been told.

use super::content::{Seen, WRITERS};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

const NAME: &str = "acknowledged";
const VISITS: usize = WRITERS;
const SNAPSHOTS: usize = WRITERS + 1;
const LOOKS: usize = WRITERS + 2;
const SLOTS: usize = WRITERS + 3;

/// The file.
pub struct Slots(File);

impl Slots {
    /// Opens the file of a directory, and makes it if need be.
    pub fn open(directory: &Path) -> Result<Slots, String> {
        let path = directory.join(NAME);
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
        Ok(Slots(file.map_err(|error| format!("{}: {error}", path.display()))?))
    }

    fn all(&self) -> Result<[u64; SLOTS], String> {
        let mut bytes = [0; SLOTS * 8];
        let read = self.0.read_at(&mut bytes, 0).map_err(|error| error.to_string())?;
        bytes[read..].fill(0);
        let mut slots = [0; SLOTS];
        for (slot, bytes) in slots.iter_mut().zip(bytes.as_chunks().0) {
            *slot = u64::from_le_bytes(*bytes);
        }
        Ok(slots)
    }

    /// What every reader must see that begins now.
    pub fn floor(&self) -> Result<Seen, String> {
        let slots = self.all()?;
        let mut floor = Seen { visits: slots[VISITS], ..Seen::default() };
        floor.numbers.copy_from_slice(&slots[..WRITERS]);
        Ok(floor)
    }

    /// Commits of all writers.
    pub fn commits(&self) -> Result<u64, String> {
        Ok(self.floor()?.numbers.iter().sum())
    }

    /// Snapshots that were held, and looks of the reader that checks for staleness.
    pub fn readers(&self) -> Result<[u64; 2], String> {
        let slots = self.all()?;
        Ok([slots[SNAPSHOTS], slots[LOOKS]])
    }

    /// A writer has so many commits.
    pub fn set(&self, writer: usize, number: u64) -> Result<(), String> {
        let offset = writer as u64 * 8;
        self.0.write_all_at(&number.to_le_bytes(), offset).map_err(|error| error.to_string())
    }

    /// Visitors have made so many inserts.
    pub fn set_visits(&self, visits: u64) -> Result<(), String> {
        self.set(VISITS, visits)
    }

    /// One more snapshot was held.
    pub fn add_snapshot(&self) -> Result<(), String> {
        self.set(SNAPSHOTS, self.all()?[SNAPSHOTS] + 1)
    }

    /// One more look.
    pub fn add_look(&self) -> Result<(), String> {
        self.set(LOOKS, self.all()?[LOOKS] + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_where_others_look_for_them() {
        let directory = tempfile::tempdir().unwrap();
        let slots = Slots::open(directory.path()).unwrap();
        assert_eq!(slots.floor(), Ok(Seen::default()));
        slots.set(1, 7).unwrap();
        slots.set(2, 5).unwrap();
        slots.add_look().unwrap();
        slots.set_visits(3).unwrap();
        let other = Slots::open(directory.path()).unwrap();
        assert_eq!(other.floor(), Ok(Seen { numbers: [0, 7, 5], visits: 3, large: 0 }));
        assert_eq!((other.commits(), other.readers()), (Ok(12), Ok([0, 1])));
    }
}
