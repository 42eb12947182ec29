//! One moment of a database, whoever reads it.

use crate::Result;

/// The pages of one moment.
pub trait View {
    /// Bytes of a page.
    fn page_size(&self) -> u32;

    /// The number of pages.
    fn pages(&self) -> u32;

    /// Reads pages that follow one another, from their newest versions. Pages behind the end of the file are zeros, as they are to SQLite.
    fn read(&self, first: u32, to: &mut [u8]) -> Result<()>;
}
