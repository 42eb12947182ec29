//! One page of a file: its number, and its bytes under LZ4.
//!
//! Two forms: the sized one has a block and its length; the older one has an LZ4 frame, which tells its own end.

use crate::header::u32_at;
use crate::{Error, Result};
use lz4_flex::block;
use std::io::Read;

/// Bytes before the page's own, in the older form: the number and the flags.
pub const FRAME_HEADER_BYTES: usize = 6;
const SIZE_BYTES: usize = 4;
const SIZED: u16 = 1;

/// What comes next in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A page, with its bytes behind a length or as an LZ4 frame.
    Page { page: u32, sized: bool },
    /// The end of the pages.
    End,
}

/// Reads the header of a frame.
pub fn next(header: [u8; FRAME_HEADER_BYTES]) -> Result<Next> {
    let page = u32_at(&header, 0);
    let flags = u16::from_be_bytes([header[4], header[5]]);
    match (page, flags) {
        (0, 0) => Ok(Next::End),
        (0, _) => Err(Error::Malformed("a page without a number")),
        (page, 0 | SIZED) => Ok(Next::Page { page, sized: flags == SIZED }),
        _ => Err(Error::Malformed("a page of a newer version")),
    }
}

/// Most bytes that a frame takes.
pub fn frame_bytes_max(page_size: u32) -> usize {
    FRAME_HEADER_BYTES + SIZE_BYTES + block::get_maximum_output_size(page_size as usize)
}

/// Writes a frame to a buffer, which is emptied first. Answers the length of its header: behind it are compressed bytes.
pub fn encode(page: u32, data: &[u8], to: &mut Vec<u8>) -> Result<usize> {
    let header = FRAME_HEADER_BYTES + SIZE_BYTES;
    to.clear();
    to.resize(header + block::get_maximum_output_size(data.len()), 0);
    let written = block::compress_into(data, &mut to[header..])
        .map_err(|_| Error::Refused("LZ4 has no room for a page"))?;
    to.truncate(header + written);
    to[..4].copy_from_slice(&page.to_be_bytes());
    to[4..6].copy_from_slice(&SIZED.to_be_bytes());
    to[6..header].copy_from_slice(&(written as u32).to_be_bytes());
    Ok(header)
}

/// Reads the length of a block, and refuses what no page needs.
pub fn block_bytes(size: [u8; SIZE_BYTES], page_size: usize) -> Result<usize> {
    let bytes = u32::from_be_bytes(size) as usize;
    if bytes > block::get_maximum_output_size(page_size) {
        return Err(Error::Malformed("a page is longer than it can be"));
    }
    Ok(bytes)
}

/// Unpacks a block, which must give a whole page.
pub fn unpack_block(packed: &[u8], data: &mut [u8]) -> Result<()> {
    match block::decompress_into(packed, data) {
        Ok(len) if len == data.len() => Ok(()),
        Ok(_) => Err(Error::Malformed("a page is cut short")),
        Err(_) => Err(Error::Malformed("a page cannot be unpacked")),
    }
}

/// Collects the bytes of an LZ4 frame, up to its end and no further.
pub fn read_lz4_frame(from: &mut impl Read, page_size: usize, to: &mut Vec<u8>) -> Result<()> {
    const MAGIC: u32 = 0x184d_2204;
    const STORED: u32 = 1 << 31;
    to.clear();
    take(from, 7, to)?;
    let flags = to[4];
    if u32::from_le_bytes([to[0], to[1], to[2], to[3]]) != MAGIC || flags & 1 != 0 {
        return Err(Error::Malformed("a page is no LZ4 frame"));
    }
    // The descriptor has seven bytes without a content size, and fifteen with one.
    if flags & 8 != 0 {
        take(from, 8, to)?;
    }
    let has_block_checksums = flags & 16 != 0;
    loop {
        let at = to.len();
        take(from, 4, to)?;
        let bytes = u32::from_le_bytes([to[at], to[at + 1], to[at + 2], to[at + 3]]) & !STORED;
        if bytes == 0 {
            break;
        }
        let bytes = bytes as usize + if has_block_checksums { 4 } else { 0 };
        if to.len() + bytes > 2 * frame_bytes_max(page_size as u32) {
            return Err(Error::Malformed("a page is longer than it can be"));
        }
        take(from, bytes, to)?;
    }
    take(from, if flags & 4 != 0 { 4 } else { 0 }, to)
}

/// Unpacks an LZ4 frame, which must give a whole page.
pub fn unpack_lz4_frame(packed: &[u8], data: &mut [u8]) -> Result<()> {
    let mut reader = lz4_flex::frame::FrameDecoder::new(packed);
    let malformed = |_| Error::Malformed("a page cannot be unpacked");
    reader.read_exact(data).map_err(malformed)?;
    match reader.read(&mut [0]).map_err(malformed)? {
        0 => Ok(()),
        _ => Err(Error::Malformed("a page is longer than it can be")),
    }
}

/// Reads one frame from its own bytes, as the index bounds them. Answers the page's number.
pub fn decode_frame(bytes: &[u8], data: &mut [u8]) -> Result<u32> {
    let (header, rest) = bytes.split_first_chunk().ok_or(Error::Malformed("a page is cut short"))?;
    let Next::Page { page, sized } = next(*header)? else {
        return Err(Error::Malformed("a page is missing"));
    };
    if !sized {
        unpack_lz4_frame(rest, data)?;
        return Ok(page);
    }
    let (size, block) = rest.split_first_chunk().ok_or(Error::Malformed("a page is cut short"))?;
    if block_bytes(*size, data.len())? != block.len() {
        return Err(Error::Malformed("a page has another length than its index says"));
    }
    unpack_block(block, data)?;
    Ok(page)
}

fn take(from: &mut impl Read, bytes: usize, to: &mut Vec<u8>) -> Result<()> {
    let at = to.len();
    to.resize(at + bytes, 0);
    Ok(from.read_exact(&mut to[at..])?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_page_comes_back_in_both_forms() {
        let mut random = fastrand::Rng::with_seed(1);
        for data in [vec![0; 512], vec![7; 65_536], (0..4096).map(|_| random.u8(..)).collect::<Vec<_>>()] {
            let mut frame = Vec::new();
            encode(5, &data, &mut frame).unwrap();
            let mut back = vec![1; data.len()];
            assert_eq!(decode_frame(&frame, &mut back).unwrap(), 5);
            assert!(back == data);
            for cut in [0, 5, 9, frame.len() - 1] {
                assert!(decode_frame(&frame[..cut], &mut back).is_err(), "{cut}");
            }
            assert!(decode_frame(&frame, &mut vec![0; data.len() * 2]).is_err());
            assert!(decode_frame(&frame, &mut vec![0; data.len() / 2]).is_err());

            let mut older = lz4_flex::frame::FrameEncoder::new(vec![0, 0, 0, 5, 0, 0]);
            older.write_all(&data).unwrap();
            let older = older.finish().unwrap();
            back.fill(1);
            assert_eq!(decode_frame(&older, &mut back).unwrap(), 5);
            assert!(back == data);

            let mut stream = [&older[FRAME_HEADER_BYTES..], b"next"].concat();
            let (mut rest, mut packed) = (stream.as_slice(), Vec::new());
            read_lz4_frame(&mut rest, data.len(), &mut packed).unwrap();
            assert_eq!(rest, b"next");
            back.fill(1);
            unpack_lz4_frame(&packed, &mut back).unwrap();
            assert!(back == data);
            stream[0] = 0;
            assert!(read_lz4_frame(&mut stream.as_slice(), data.len(), &mut packed).is_err());
        }
    }

    #[test]
    fn the_end_is_told_from_a_page() {
        assert_eq!(next([0; 6]).unwrap(), Next::End);
        assert_eq!(next([0, 0, 1, 0, 0, 1]).unwrap(), Next::Page { page: 256, sized: true });
        assert!(next([0, 0, 0, 0, 0, 1]).is_err());
        assert!(next([0, 0, 0, 1, 0, 2]).is_err());
    }
}
