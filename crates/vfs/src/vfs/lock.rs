//! SQLite's file locks, kept in memory.
//!
//! The owner process holds the real lock on the file (see `ownership.rs`), so the locks between its own
//! connections need no system call. The rules are those of <https://www.sqlite.org/lockingv3.html>.
//!
//! Invariants:
//! 1. At most one handle is at RESERVED or above.
//! 2. Whoever is at EXCLUSIVE is alone: no other handle holds any lock.
//! 3. While somebody is at PENDING, nobody new gets SHARED; those who have it keep it.

use std::collections::BTreeMap;

/// A handle of the database, unique in the process.
pub type HandleId = u64;

/// How far a handle has locked the database. Ordered as SQLite orders them.
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

/// The locks of all handles on one database.
#[derive(Debug, Default)]
pub struct LockTable {
    held: BTreeMap<HandleId, Level>,
}

impl LockTable {
    /// What a handle holds.
    pub fn level(&self, handle: HandleId) -> Level {
        self.held.get(&handle).copied().unwrap_or_default()
    }

    /// Raises a handle's lock; `false` when another handle is in the way. A request for EXCLUSIVE that
    /// meets readers leaves the handle at PENDING, as SQLite expects.
    pub fn lock(&mut self, handle: HandleId, wanted: Level) -> bool {
        if self.level(handle) >= wanted {
            return true;
        }
        let strongest = self.strongest_other(handle);
        let granted = match wanted {
            Level::None => true,
            Level::Shared => strongest <= Level::Reserved,
            Level::Reserved | Level::Pending => strongest <= Level::Shared,
            Level::Exclusive if strongest > Level::Shared => false,
            Level::Exclusive if strongest == Level::Shared => {
                self.held.insert(handle, Level::Pending);
                return false;
            }
            Level::Exclusive => true,
        };
        if granted {
            self.held.insert(handle, wanted);
        }
        granted
    }

    /// Lowers a handle's lock.
    pub fn unlock(&mut self, handle: HandleId, to: Level) {
        match to {
            Level::None => drop(self.held.remove(&handle)),
            to if self.level(handle) > to => drop(self.held.insert(handle, to)),
            _ => {}
        }
    }

    /// Whether nobody holds any lock.
    pub fn is_free(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether any handle is at RESERVED or above.
    pub fn is_reserved(&self) -> bool {
        self.held.values().any(|level| *level >= Level::Reserved)
    }

    fn strongest_other(&self, handle: HandleId) -> Level {
        self.held.iter().filter(|(id, _)| **id != handle).map(|(_, level)| *level).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Level::*;

    #[test]
    fn the_rules_of_lockingv3() {
        // (what handle 1 holds, what handle 2 asks for, granted, level of 2 afterwards)
        let cases = [
            (None, Shared, true, Shared),
            (Shared, Shared, true, Shared),
            (Reserved, Shared, true, Shared),
            (Pending, Shared, false, None),
            (Exclusive, Shared, false, None),
            (Shared, Reserved, true, Reserved),
            (Reserved, Reserved, false, None),
            (Shared, Exclusive, false, Pending),
            (Reserved, Exclusive, false, None),
            (None, Exclusive, true, Exclusive),
        ];
        for (held, wanted, granted, after) in cases {
            let mut table = LockTable::default();
            assert!(table.lock(1, held));
            assert_eq!(table.lock(2, wanted), granted, "{held:?} against {wanted:?}");
            assert_eq!(table.level(2), after, "{held:?} against {wanted:?}");
        }
    }

    #[test]
    fn pending_waits_for_readers_and_then_wins() {
        let mut table = LockTable::default();
        assert!(table.lock(1, Shared) && table.lock(2, Shared) && table.lock(2, Reserved));
        assert!(!table.lock(2, Exclusive));
        assert_eq!(table.level(2), Pending);
        assert!(!table.lock(3, Shared));
        table.unlock(1, None);
        assert!(table.lock(2, Exclusive));
        table.unlock(2, Shared);
        assert!(table.lock(3, Shared) && !table.is_reserved());
    }
}
