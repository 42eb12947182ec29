//! The owner's end of a transaction that an owner had that has died (`open/succession`).
//!
//! # Invariants
//! 1. It gets the locks that it had, or nothing: what was decided before the lock of a reader is looked at once more behind it.
//! 2. Its first commit has a change counter of this owner's. Recovery has shown one that is ahead of its own (`commit/page_one`).

use super::{Answer, Served, unexpected};
use crate::commit::page_one::{counter_of, with_counter};
use crate::db::HEADER_BYTES;
use crate::error::{Error, Result};
use crate::files::group::protocol::{Call, ENDS, FileOf, HOLDS, IS_RESERVED, RESERVED};
use crate::files::handle::Handle;
use crate::files::main_db::MainFile;
use crate::sync::heirs::{Fate, Orphan, Since};
use crate::sync::lock_table::Level;

/// Bytes of what a member says of its transaction.
pub(in crate::files::group) const ORPHAN_BYTES: usize = 21;

/// What a member says of its transaction, as bytes.
pub(in crate::files::group) struct Said {
    pub token: u64,
    /// Bytes of the database, and of a page, as the transaction has found them.
    pub len: u64,
    pub page_bytes: u32,
    pub is_reserved: bool,
    pub ends: bool,
}

impl Said {
    pub fn encode(&self) -> [u8; ORPHAN_BYTES] {
        let mut bytes = [0; ORPHAN_BYTES];
        bytes[..8].copy_from_slice(&self.token.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.len.to_ne_bytes());
        bytes[16..20].copy_from_slice(&self.page_bytes.to_ne_bytes());
        bytes[20] = (u8::from(self.is_reserved) * IS_RESERVED) | (u8::from(self.ends) * ENDS);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Said> {
        let (token, bytes) = bytes.split_first_chunk()?;
        let (len, bytes) = bytes.split_first_chunk()?;
        let (page_bytes, bytes) = bytes.split_first_chunk()?;
        let &[bits] = bytes else { return None };
        Some(Said {
            token: u64::from_ne_bytes(*token),
            len: u64::from_ne_bytes(*len),
            page_bytes: u32::from_ne_bytes(*page_bytes),
            is_reserved: bits & IS_RESERVED != 0,
            ends: bits & ENDS != 0,
        })
    }
}

impl Served {
    /// Gives a transaction the locks that it had, or says that it was committed.
    pub(super) fn go_on(&mut self, call: &Call<'_>) -> Result<Answer> {
        let said = Said::decode(call.data).ok_or_else(unexpected)?;
        let since = Since { marks: call.a, writings: call.b };
        let orphan = Orphan { since, token: said.token, ends: said.ends };
        match self.database.fate_of(orphan) {
            Fate::Committed => return Ok(Answer::value(0)),
            Fate::Lost => return Err(lost()),
            Fate::GoesOn if self.is_in_transaction() => return Err(unexpected()),
            Fate::GoesOn => {}
        }
        self.main()?.is_inherited = true;
        let given = self.give_locks(&said, orphan);
        if given.is_err() {
            self.main()?.unlock(Level::None)?;
        }
        given
    }

    fn give_locks(&mut self, said: &Said, orphan: Orphan) -> Result<Answer> {
        if self.is_there(FileOf::Journal)? {
            return Err(lost());
        }
        let main = self.main()?;
        main.lock(Level::Shared)?;
        if said.is_reserved {
            main.lock(Level::Reserved)?;
        }
        let is_same = main.size()? == said.len;
        let now = self.database.db().shared().changes().now();
        // Nobody writes from now on.
        if !is_same || self.database.fate_of(orphan) != Fate::GoesOn {
            return Err(lost());
        }
        let mut message = std::mem::take(&mut self.buffer);
        message.clear();
        let told = self.tell_news((now, Some(said.page_bytes)), true, &mut message);
        let bytes = message.len();
        self.buffer = message;
        if !told? {
            return Err(lost());
        }
        let reserved = if said.is_reserved { RESERVED } else { 0 };
        Ok(Answer { bytes, ..Answer::value(HOLDS | reserved) })
    }
}

impl MainFile {
    /// Page 1 of a commit, with a counter of this owner's.
    pub(super) fn page_one_to_commit(&mut self, page: &[u8]) -> Result<Vec<u8>> {
        let mut header = [0; HEADER_BYTES];
        self.read(&mut header, 0)?;
        Ok(with_counter(page, counter_of(&header).wrapping_add(1)))
    }
}

/// A transaction that cannot go on.
pub(super) fn lost() -> Error {
    Error::Io("somebody may have written since the owner of this transaction has died".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_member_says_is_read_as_it_was_said() {
        for (is_reserved, ends) in [(false, false), (true, false), (false, true), (true, true)] {
            let said = Said { token: 1 << 63, len: 1 << 40, page_bytes: 65536, is_reserved, ends };
            let bytes = said.encode();
            let read = Said::decode(&bytes).unwrap();
            assert_eq!((read.token, read.len, read.page_bytes), (1 << 63, 1 << 40, 65536));
            assert_eq!((read.is_reserved, read.ends), (is_reserved, ends));
            assert!(Said::decode(&bytes[1..]).is_none());
        }
    }
}
