//! The inconsistencies between memory, table and file, by name. Names of the thesis' codes in brackets.

use super::PageId;
use super::allocation::Allocation;
use super::inner::Inner;
use std::collections::BTreeSet;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Inconsistency {
    /// (`E_BUFPOOL_ALLOCATED_PAGE_IN_FREELIST`)
    #[error("page {page} is in use, and in the list of free pages")]
    AllocatedPageInFreeList {
        /// The page.
        page: PageId,
    },
    /// (`E_BUFPOOL_PROTECTED_PAGE_IN_FREELIST`)
    #[error("page {page} holds the allocation table, and is in the list of free pages")]
    ProtectedPageInFreeList {
        /// The page.
        page: PageId,
    },
    /// (`E_BUFPOOL_FREE_PAGE_NOT_IN_FREELIST`)
    #[error("page {page} is free, and not in the list of free pages")]
    FreePageNotInFreeList {
        /// The page.
        page: PageId,
    },
    /// (`E_BUFPOOL_BUFFER_DESCRIPTOR_INCORRECT_DATA`)
    #[error("page {page}: {what}")]
    Descriptor {
        /// The page.
        page: PageId,
        /// The fault of its frame.
        what: String,
    },
    /// (`E_BUFPOOL_FREE_PAGE_MAPPED_TO_BUFFER`)
    #[error("page {page} is free, and in memory")]
    FreePageInMemory {
        /// The page.
        page: PageId,
    },
    /// The data file is shorter than its pages.
    #[error("the data file has {bytes} bytes, {expected} at least are in use")]
    FileLength {
        /// Bytes it has.
        bytes: u64,
        /// Bytes it should have.
        expected: u64,
    },
}

/// The faults of the table by itself.
pub(super) fn of_table(table: &Allocation) -> Vec<Inconsistency> {
    let free: BTreeSet<PageId> = table.free().collect();
    let of_page = |page: PageId| match (free.contains(&page), table.is_in_use(page), table.is_protected(page))
    {
        (true, _, true) => Some(Inconsistency::ProtectedPageInFreeList { page }),
        (true, true, _) => Some(Inconsistency::AllocatedPageInFreeList { page }),
        (false, false, _) => Some(Inconsistency::FreePageNotInFreeList { page }),
        _ => None,
    };
    (0..table.pages()).filter_map(of_page).collect()
}

impl Inner {
    /// Everything that is wrong. No unit is open meanwhile.
    pub fn inconsistencies(&self) -> super::Result<Vec<Inconsistency>> {
        let look = || -> super::Result<Vec<Inconsistency>> {
            let table = self.allocation.lock();
            let mut wrong = of_table(&table);
            let frames = self.pool.inconsistencies();
            wrong.extend(frames.into_iter().map(|(page, what)| Inconsistency::Descriptor { page, what }));
            let free = self.pool.resident().into_iter().filter(|page| !table.is_in_use(*page));
            wrong.extend(free.map(|page| Inconsistency::FreePageInMemory { page }));
            let files = self.files.lock();
            let expected = table.end_of_use() * self.pool.page_bytes() as u64;
            let bytes = files.data.len()?;
            if bytes < expected {
                wrong.push(Inconsistency::FileLength { bytes, expected });
            }
            Ok(wrong)
        };
        self.gate.between(look).ok_or_else(|| super::Error::UnitOpen { path: self.path.clone() })?
    }
}
