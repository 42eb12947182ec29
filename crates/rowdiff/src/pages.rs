//! The pages of one version, read with the checks that each page gets.

use crate::error::{Error, Failure, Result, Side};
use litefoot_format::number::be32;
use std::cell::RefCell;
use std::collections::HashSet;

/// One version of a database: a snapshot that does not change while it is read.
pub trait Pages {
    /// Bytes of a page.
    fn page_bytes(&self) -> usize;

    /// Number of pages; 0 for a database in which nothing was ever stored.
    fn count(&self) -> u32;

    /// Reads a page, of 1 to [`count`](Pages::count), into `page`, which has [`page_bytes`](Pages::page_bytes) bytes.
    ///
    /// # Errors
    /// Those of the caller's own reader. A page of the newer version ends the comparison. A page of the older one may be gone, in a table
    /// with rowids, where the visitor takes that ([`Visitor::forget`](crate::Visitor::forget)). The first page has to be there.
    fn read(&self, number: u32, page: &mut [u8]) -> std::result::Result<(), Failure>;
}

/// A database without pages: compared with it, all rows of another are inserted.
#[derive(Clone, Copy, Debug)]
pub struct Empty;

impl Pages for Empty {
    fn page_bytes(&self) -> usize {
        4096
    }

    fn count(&self) -> u32 {
        0
    }

    fn read(&self, number: u32, _: &mut [u8]) -> std::result::Result<(), Failure> {
        Err(format!("an empty database has no page {number}").into())
    }
}

/// The encoding of texts in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
}

/// The shape of all pages: the fields of the header (file format, section 1.3) that a reader of rows needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub page_bytes: usize,
    /// Bytes of a page that b-trees use.
    pub usable: usize,
    pub encoding: Encoding,
}

/// Least usable bytes of a page that SQLite takes.
const LEAST_USABLE: usize = 480;

/// One version while it is compared. No page of it is met twice.
pub(crate) struct Version<'a> {
    pages: &'a dyn Pages,
    pub side: Side,
    pub shape: Shape,
    pub count: u32,
    met: RefCell<HashSet<u32>>,
}

impl<'a> Version<'a> {
    /// Reads the header; `None` for a database without pages.
    pub fn new(pages: &'a dyn Pages, side: Side) -> Result<Option<Version<'a>>> {
        let (count, page_bytes) = (pages.count(), pages.page_bytes());
        if count == 0 {
            return Ok(None);
        }
        let corrupt = |what| Error::Corrupt { side, page: 1, what };
        if !(512..=65_536).contains(&page_bytes) || !page_bytes.is_power_of_two() {
            return Err(corrupt("the page size is none of SQLite's"));
        }
        let mut first = vec![0; page_bytes];
        pages.read(1, &mut first).map_err(|source| Error::Read { side, page: 1, source })?;
        if !first.starts_with(b"SQLite format 3\0") {
            return Err(corrupt("it does not begin as a database of SQLite"));
        }
        let declared = match u16::from_be_bytes([first[16], first[17]]) {
            1 => 65_536,
            bytes => usize::from(bytes),
        };
        if declared != page_bytes {
            return Err(corrupt("the header has another page size"));
        }
        let usable = page_bytes - usize::from(first[20]);
        if usable < LEAST_USABLE {
            return Err(corrupt("too many bytes of each page are reserved"));
        }
        let encoding = match be32(&first, 56) {
            // 0: nothing was ever stored.
            Some(0 | 1) => Encoding::Utf8,
            Some(2) => Encoding::Utf16Le,
            Some(3) => Encoding::Utf16Be,
            _ => return Err(corrupt("the header has no encoding of SQLite's")),
        };
        let shape = Shape { page_bytes, usable, encoding };
        Ok(Some(Version { pages, side, shape, count, met: RefCell::default() }))
    }

    pub fn corrupt(&self, page: u32, what: &'static str) -> Error {
        Error::Corrupt { side: self.side, page, what }
    }

    /// Notes that a page has its place; no page has two.
    pub fn meet(&self, page: u32) -> Result<()> {
        if page == 0 || page > self.count {
            return Err(self.corrupt(page, "the database has no such page"));
        }
        if !self.met.borrow_mut().insert(page) {
            return Err(self.corrupt(page, "two places refer to this page"));
        }
        Ok(())
    }

    /// Reads the bytes of a page that b-trees use.
    pub fn read(&self, page: u32, buf: &mut Vec<u8>) -> Result<()> {
        buf.resize(self.shape.page_bytes, 0);
        self.pages.read(page, buf).map_err(|source| Error::Read { side: self.side, page, source })?;
        buf.truncate(self.shape.usable);
        Ok(())
    }
}
