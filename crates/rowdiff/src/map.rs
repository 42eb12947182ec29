//! The map: where each page of each table belongs.
//!
//! # Why
//! A changed leaf does not say which table it is of, nor an overflow page which row. The pages above them need not have
//! changed. The map has for each page the page above it, as the pointer map of an auto-vacuum database has: 4 bytes and a
//! bit a page.
//!
//! # Invariants
//! 1. For each page of each table's tree, and for each overflow page of its rows, the map has the page that refers to it. A
//!    root refers to itself.
//! 2. What the map says of other pages is without meaning, and may be out of date.

use crate::error::{Result, Side};
use crate::pages::{Pages, Shape, Version};
use crate::schema::Table;
use std::collections::HashSet;

/// Where each page of each table belongs, in one version of a database.
#[derive(Clone, Debug, Default)]
pub struct Map {
    pub(crate) shape: Option<Shape>,
    /// The page that refers to a page, by its number; 0 for none.
    parents: Vec<u32>,
    /// A bit for each page: whether it is an overflow page.
    overflow: Vec<u64>,
    pub(crate) tables: Vec<Table>,
}

/// What a map has to learn to be that of the newer version.
#[derive(Debug, Default)]
pub struct Step {
    /// The map begins with nothing.
    pub(crate) is_fresh: bool,
    pub(crate) shape: Option<Shape>,
    /// The number of pages.
    pub(crate) count: u32,
    pub(crate) left: Vec<u32>,
    pub(crate) entries: Vec<Entry>,
    /// The tables, where they have changed.
    pub(crate) tables: Option<Vec<Table>>,
}

/// A page, and the one that refers to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub page: u32,
    pub parent: u32,
    pub is_overflow: bool,
}

/// The pages above the changed ones.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Changed pages, and all above them.
    pub marked: HashSet<u32>,
    /// Pages with rows that have changed themselves, or an overflow page of theirs has.
    pub touched: HashSet<u32>,
    /// First pages of overflow chains in which a page has changed.
    pub chains: HashSet<u32>,
    /// Roots of trees with changes.
    pub roots: HashSet<u32>,
}

impl Map {
    /// The map of a database: reads its interior pages, its leaves and its overflow pages once.
    ///
    /// # Errors
    /// Those of damaged pages, and of the reader.
    pub fn of(pages: &dyn Pages) -> Result<Map> {
        let mut map = Map::default();
        let step =
            map.diff(&crate::pages::Empty, pages, &crate::Changed::All, &mut crate::visitor::Ignore)?;
        map.apply(step);
        Ok(map)
    }

    /// The tables, `sqlite_schema` first.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Makes the map that of the newer version.
    pub fn apply(&mut self, step: Step) {
        if step.is_fresh {
            *self = Map::default();
        }
        let count = step.count as usize + 1;
        self.shape = step.shape;
        self.parents.resize(count, 0);
        self.overflow.resize(count.div_ceil(64), 0);
        for page in step.left {
            self.set(Entry { page, parent: 0, is_overflow: false });
        }
        for entry in step.entries {
            self.set(entry);
        }
        if let Some(tables) = step.tables {
            self.tables = tables;
        }
    }

    fn set(&mut self, entry: Entry) {
        let at = entry.page as usize;
        // Pages that have left may be behind a new end.
        if let (Some(parent), Some(word)) = (self.parents.get_mut(at), self.overflow.get_mut(at / 64)) {
            *parent = entry.parent;
            *word = *word & !(1 << (at % 64)) | u64::from(entry.is_overflow) << (at % 64);
        }
    }

    fn parent(&self, page: u32) -> Option<u32> {
        self.parents.get(page as usize).copied().filter(|parent| *parent != 0)
    }

    fn is_overflow(&self, page: u32) -> bool {
        self.overflow.get(page as usize / 64).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    /// Goes up from the changed pages.
    pub(crate) fn marks(&self, changed: &[u32]) -> Marks {
        let mut marks = Marks::default();
        for page in changed {
            marks.touched.insert(*page);
            self.mark(*page, &mut marks);
        }
        marks
    }

    fn mark(&self, changed: u32, marks: &mut Marks) {
        let mut page = changed;
        while let Some(parent) = self.parent(page) {
            if !marks.marked.insert(page) {
                return;
            }
            if self.is_overflow(page) && !self.is_overflow(parent) {
                marks.chains.insert(page);
                marks.touched.insert(parent);
            }
            if parent == page {
                marks.roots.insert(page);
                return;
            }
            page = parent;
        }
    }

    /// The first difference to the map that a look at all pages makes.
    ///
    /// # Errors
    /// Those of [`Map::of`].
    pub fn verify(&self, pages: &dyn Pages) -> Result<Option<String>> {
        let whole = Map::of(pages)?;
        if self.tables != whole.tables {
            return Ok(Some("the tables differ".to_owned()));
        }
        let pages = 1..whole.parents.len() as u32;
        let entry = |map: &Map, page| map.parent(page).map(|parent| (parent, map.is_overflow(page)));
        let differs = |page: &u32| entry(&whole, *page).is_some_and(|is| entry(self, *page) != Some(is));
        Ok({ pages }
            .find(differs)
            .map(|page| format!("page {page}: {:?} instead of {:?}", entry(self, page), entry(&whole, page))))
    }

    /// The header of the older version, which has to be the one that the map is of.
    pub(crate) fn check<'a>(&self, pages: &'a dyn Pages) -> Result<Option<Version<'a>>> {
        let before = Version::new(pages, Side::Before)?;
        if before.as_ref().map(|version| version.shape) != self.shape {
            let what = "the map is that of another database";
            return Err(crate::Error::Corrupt { side: Side::Before, page: 1, what });
        }
        Ok(before)
    }
}
