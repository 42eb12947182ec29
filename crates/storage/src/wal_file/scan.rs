//! The scan of an existing log: its valid prefix, up to the last frame that ends a transaction.

use super::early::{self, EARLY_PAGES};
use super::format::{Checksum, FRAME_HEADER_BYTES, HEADER_BYTES, Header};
use super::{PageOneImage, RedoLog};
use crate::file::{File, Result};
use std::collections::BTreeMap;

/// Frames read at a time.
const FRAMES_PER_READ: usize = 64;

/// Fills in the content of the file. A file without a valid header has no content.
pub(super) fn scan(file: &dyn File, log: &mut RedoLog) -> Result<()> {
    let mut bytes = [0; HEADER_BYTES];
    let read = file.read_at(&mut bytes, 0)?;
    let Some((header, checksum)) = Header::decode(&bytes[..read]) else {
        log.found.understood = bytes.iter().all(|byte| *byte == 0);
        return Ok(());
    };
    log.header = Some(header);
    log.checksum = checksum;
    let mut transaction = BTreeMap::new();
    let (mut images, mut early) = (Vec::new(), Vec::new());
    frames(file, &header, checksum, |frame, page| {
        if frame.page_number == EARLY_PAGES {
            early.extend(early::decode(page));
        } else {
            transaction.insert(frame.page_number, frame.number);
        }
        if frame.page_number == 1 {
            images.push(PageOneImage { frame: frame.number, transaction: log.found.transactions });
        }
        if frame.database_pages != 0 {
            log.awaited.commit(early.drain(..), transaction.keys().copied(), frame.database_pages);
            // `BTreeMap::append` would build the whole map anew with each transaction.
            log.newest.extend(std::mem::take(&mut transaction));
            log.found.images.append(&mut images);
            log.found.transactions += 1;
            (log.frames, log.checksum, log.database_pages) =
                (frame.number + 1, frame.checksum, frame.database_pages);
        }
    })
}

/// A valid frame of a log.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Frames count from 0.
    pub number: u32,
    /// The number of its page.
    pub page_number: u32,
    /// The size of the database after its transaction; 0 except in the last frame of a transaction.
    pub database_pages: u32,
    /// The checksum that the next frame continues.
    pub checksum: Checksum,
}

/// Reads the valid frames of a log in their order, with their pages, up to the first that is not valid. Those behind the last
/// one that ends a transaction do not count.
///
/// # Errors
/// Errors of reading.
pub fn frames(
    file: &dyn File,
    header: &Header,
    start: Checksum,
    mut each: impl FnMut(Frame, &[u8]),
) -> Result<()> {
    let mut checksum = start;
    let mut buffer = vec![0; header.frame_bytes() * FRAMES_PER_READ];
    let mut number = 0;
    loop {
        let read = file.read_at(&mut buffer, header.frame_offset(number))?;
        let mut valid = 0;
        for bytes in buffer[..read].chunks_exact(header.frame_bytes()) {
            let Some((page_number, database_pages, next)) = header.decode_frame(checksum, bytes) else {
                break;
            };
            checksum = next;
            each(Frame { number, page_number, database_pages, checksum }, &bytes[FRAME_HEADER_BYTES..]);
            number += 1;
            valid += 1;
        }
        if valid < FRAMES_PER_READ {
            return Ok(());
        }
    }
}
