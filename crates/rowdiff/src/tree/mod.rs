//! B-trees: pages, walks from the root, overflow chains.

pub(crate) mod page;
pub(crate) mod walk;

use crate::error::Result;
use crate::pages::Version;
use litefoot_format::number::be32;
use page::{Cell, Page};

impl Version<'_> {
    /// Takes apart a page whose bytes were read.
    pub(crate) fn parse<'b>(&self, number: u32, bytes: &'b [u8]) -> Result<Page<'b>> {
        let most = self.count as usize * self.shape.usable;
        Page::parse(number, bytes, most).map_err(|what| self.corrupt(number, what))
    }

    /// Reads the record of a cell, and appends its overflow pages to `chain`.
    pub(crate) fn record(&self, cell: &Cell<'_>, chain: &mut Vec<u32>) -> Result<Vec<u8>> {
        let mut record = cell.local.to_vec();
        let mut page = Vec::new();
        let (mut next, mut last) = (cell.overflow, 0);
        while record.len() < cell.payload {
            if next == 0 {
                return Err(self.corrupt(last, "an overflow chain is too short"));
            }
            self.meet(next)?;
            chain.push(next);
            self.read(next, &mut page)?;
            let part = (cell.payload - record.len()).min(page.len() - 4);
            record.extend_from_slice(&page[4..4 + part]);
            last = next;
            next = be32(&page, 0).unwrap_or_default();
        }
        if next != 0 {
            return Err(self.corrupt(last, "an overflow chain is too long"));
        }
        Ok(record)
    }
}
