//! What an existing log is worth: its valid prefix, up to the last frame that ends a transaction.

use super::format::{HEADER_BYTES, Header};
use super::{Image, RedoLog};
use crate::file::{File, Result};
use std::collections::BTreeMap;

/// Frames read at a time.
const FRAMES_PER_READ: usize = 64;

/// Fills in what the file holds. A file without a valid header holds nothing.
pub(super) fn scan(file: &dyn File, log: &mut RedoLog) -> Result<()> {
    log.allocated = file.len()?;
    let mut bytes = [0; HEADER_BYTES];
    let read = file.read_at(&mut bytes, 0)?;
    let Some((header, mut checksum)) = Header::decode(&bytes[..read]) else {
        log.found.understood = bytes.iter().all(|byte| *byte == 0);
        return Ok(());
    };
    log.header = Some(header);
    log.checksum = checksum;
    let mut transaction = BTreeMap::new();
    let mut images = Vec::new();
    let mut buffer = vec![0; header.frame_bytes() * FRAMES_PER_READ];
    let mut frame = 0;
    loop {
        let read = file.read_at(&mut buffer, header.frame_offset(frame))?;
        let mut valid = 0;
        for bytes in buffer[..read].chunks_exact(header.frame_bytes()) {
            let Some((page_number, size, next)) = header.decode_frame(checksum, bytes) else { break };
            checksum = next;
            transaction.insert(page_number, frame);
            if page_number == 1 {
                images.push(Image { frame, transaction: log.found.transactions });
            }
            frame += 1;
            valid += 1;
            if size != 0 {
                log.newest.append(&mut transaction);
                log.found.images.append(&mut images);
                log.found.transactions += 1;
                (log.frames, log.checksum, log.database_pages) = (frame, checksum, size);
            }
        }
        if valid < FRAMES_PER_READ {
            return Ok(());
        }
    }
}
