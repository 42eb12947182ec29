//! The writer of a file.

use crate::header::lock_page;
use crate::index::{Entry, encode_index};
use crate::{Checksum, Digest, Error, Header, Result, Trailer, frame};
use std::io::Write;

/// Writes one file, page after page.
///
/// # Invariants
/// 1. Pages ascend, and none is the page of the locks.
/// 2. A snapshot has all pages: [`Encoder::finish`] refuses to end one that has not.
pub struct Encoder<W> {
    to: W,
    header: Header,
    digest: Digest,
    entries: Vec<Entry>,
    offset: u64,
    buffer: Vec<u8>,
}

impl<W: Write> Encoder<W> {
    /// Writes the header.
    pub fn new(to: W, header: Header) -> Result<Encoder<W>> {
        header.validate().map_err(Error::Refused)?;
        let mut encoder = Encoder {
            to,
            digest: Digest::default(),
            entries: Vec::new(),
            offset: 0,
            buffer: Vec::new(),
            header,
        };
        let bytes = encoder.header.encode();
        encoder.write(&bytes)?;
        Ok(encoder)
    }

    /// Writes a page.
    pub fn page(&mut self, page: u32, data: &[u8]) -> Result<()> {
        self.check(page, data)?;
        let offset = self.offset;
        let mut buffer = std::mem::take(&mut self.buffer);
        let header = frame::encode(page, data, &mut buffer)?;
        self.to.write_all(&buffer)?;
        self.digest.update(&buffer[..header]);
        self.digest.update(data);
        self.offset += buffer.len() as u64;
        self.entries.push(Entry { page, offset, bytes: buffer.len() as u64 });
        self.buffer = buffer;
        Ok(())
    }

    fn check(&self, page: u32, data: &[u8]) -> Result<()> {
        let last = self.entries.last().map_or(0, |last| last.page);
        match () {
            () if data.len() != self.header.page_size as usize => {
                Err(Error::Refused("a page of another size"))
            }
            () if page > self.header.pages => Err(Error::Refused("a page behind the end of the database")),
            () if page == lock_page(self.header.page_size) => {
                Err(Error::Refused("the page of SQLite's locks"))
            }
            () if page <= last => Err(Error::Refused("pages out of order")),
            () if self.header.is_snapshot() && page != following(last, self.header.page_size) => {
                Err(Error::Refused("a whole database without one of its pages"))
            }
            () => Ok(()),
        }
    }

    /// Pages that were written.
    pub fn pages(&self) -> usize {
        self.entries.len()
    }

    /// Writes the end: the index, and the checksum of the file. `after` is that of the database, which the header has already.
    pub fn finish(mut self, after: Checksum) -> Result<(W, Trailer)> {
        let last = self.entries.last().map_or(0, |last| last.page);
        if self.header.is_snapshot() && following(last, self.header.page_size) <= self.header.pages {
            return Err(Error::Refused("a whole database without its last pages"));
        }
        let index = encode_index(&self.entries);
        self.write(&[0; frame::FRAME_HEADER_BYTES])?;
        self.write(&index)?;
        self.digest.update(&[0; 8]);
        let trailer = Trailer { after, file: self.digest.checksum() };
        trailer.validate(&self.header).map_err(Error::Refused)?;
        self.to.write_all(&trailer.encode())?;
        Ok((self.to, trailer))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.to.write_all(bytes)?;
        self.digest.update(bytes);
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

/// The page behind this one, where a database has all.
pub fn following(page: u32, page_size: u32) -> u32 {
    let next = page.saturating_add(1);
    if next == lock_page(page_size) { next + 1 } else { next }
}
