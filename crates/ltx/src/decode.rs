//! The reader of a file.

use crate::encode::following;
use crate::frame::{self, Next};
use crate::header::lock_page;
use crate::index::{Entry, parse_index};
use crate::{Checksum, Digest, Error, HEADER_BYTES, Header, Result, TRAILER_BYTES, Trailer};
use std::io::Read;

/// Most bytes of an entry of an index: three varints.
const ENTRY_BYTES_MAX: u64 = 5 + 10 + 10;

/// Reads one file, page after page. Pages count once [`Decoder::finish`] has compared the checksums.
pub struct Decoder<R> {
    from: R,
    header: Header,
    digest: Digest,
    entries: Vec<Entry>,
    offset: u64,
    packed: Vec<u8>,
    database: Checksum,
    ended: bool,
}

impl<R: Read> Decoder<R> {
    /// Reads the header.
    pub fn new(mut from: R) -> Result<Decoder<R>> {
        let mut bytes = [0; HEADER_BYTES];
        from.read_exact(&mut bytes).map_err(cut_short)?;
        let header = Header::decode(&bytes)?;
        let mut digest = Digest::default();
        digest.update(&bytes);
        Ok(Decoder {
            from,
            header,
            digest,
            entries: Vec::new(),
            offset: HEADER_BYTES as u64,
            packed: Vec::new(),
            database: Checksum::EMPTY,
            ended: false,
        })
    }

    /// What the file says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Reads the next page into `data`, which has the length of a page. Answers its number, or `None` behind the last one.
    pub fn page(&mut self, data: &mut [u8]) -> Result<Option<u32>> {
        if self.ended {
            return Ok(None);
        }
        if data.len() != self.header.page_size as usize {
            return Err(Error::Refused("a page of another size"));
        }
        let header: [u8; frame::FRAME_HEADER_BYTES] = self.read()?;
        let Next::Page { page, sized } = frame::next(header)? else {
            self.ended = true;
            return Ok(None);
        };
        self.check(page)?;
        let offset = self.offset - header.len() as u64;
        if sized {
            let size = self.read()?;
            let bytes = frame::block_bytes(size, data.len())?;
            self.packed.resize(bytes, 0);
            self.from.read_exact(&mut self.packed).map_err(cut_short)?;
            frame::unpack_block(&self.packed, data)?;
        } else {
            frame::read_lz4_frame(&mut self.from, data.len(), &mut self.packed)?;
            frame::unpack_lz4_frame(&self.packed, data)?;
        }
        self.offset += self.packed.len() as u64;
        self.digest.update(data);
        if self.header.is_snapshot() && self.header.tracked {
            self.database = self.database.toggle(Checksum::of_page(page, data));
        }
        self.entries.push(Entry { page, offset, bytes: self.offset - offset });
        Ok(Some(page))
    }

    fn check(&self, page: u32) -> Result<()> {
        let last = self.entries.last().map_or(0, |last| last.page);
        match () {
            () if page <= last => Err(Error::Malformed("its pages are out of order")),
            () if page > self.header.pages => Err(Error::Malformed("a page behind the end of the database")),
            () if page == lock_page(self.header.page_size) => {
                Err(Error::Malformed("the page of SQLite's locks"))
            }
            () if self.header.is_snapshot() && page != following(last, self.header.page_size) => {
                Err(Error::Malformed("a whole database without one of its pages"))
            }
            () => Ok(()),
        }
    }

    /// Reads the end behind the last page, and compares everything. An error says that no page of this file may be used.
    pub fn finish(mut self) -> Result<Trailer> {
        if !self.ended {
            return Err(Error::Refused("its pages were not read to their end"));
        }
        let last = self.entries.last().map_or(0, |last| last.page);
        if self.header.is_snapshot() && following(last, self.header.page_size) <= self.header.pages {
            return Err(Error::Malformed("a whole database without its last pages"));
        }
        let most = self.entries.len() as u64 * ENTRY_BYTES_MAX + 9 + TRAILER_BYTES as u64;
        let mut rest = Vec::new();
        (&mut self.from).take(most + 1).read_to_end(&mut rest)?;
        let (index, trailer) = rest.split_last_chunk().ok_or(Error::Malformed("its end is missing"))?;
        if parse_index(index)? != self.entries {
            return Err(Error::Malformed("its index does not match its pages"));
        }
        let trailer = Trailer::decode(trailer, &self.header);
        trailer.validate(&self.header).map_err(Error::Malformed)?;
        self.digest.update(index);
        self.digest.update(&[0; 8]);
        if self.digest.checksum() != trailer.file {
            return Err(Error::Checksum("the checksum of the file"));
        }
        if self.header.is_snapshot() && self.header.tracked && self.database != trailer.after {
            return Err(Error::Checksum("the checksum of the database"));
        }
        Ok(trailer)
    }

    fn read<const BYTES: usize>(&mut self) -> Result<[u8; BYTES]> {
        let mut bytes = [0; BYTES];
        self.from.read_exact(&mut bytes).map_err(cut_short)?;
        self.digest.update(&bytes);
        self.offset += BYTES as u64;
        Ok(bytes)
    }
}

/// An end that came too soon is the file's fault, and not the medium's.
fn cut_short(error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::Malformed("it is cut short"),
        _ => Error::Io(error),
    }
}
