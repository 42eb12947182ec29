//! Memory file: the bytes of a file in chunks of memory. Bytes beyond the reservation lie in a nameless file.

use crate::error;
use crate::memory::reservation::MemoryReservation;
use crate::memory::spill_file::{MakeSpill, Spill};
use litefoot_storage::file::Result;

/// Bytes of a chunk: large enough that chunks are few, small enough that a short file stays small.
const CHUNK_BYTES: usize = 16 * 1024;

/// The position of `len` bytes at an offset. A 32-bit processor can address 4 GiB of a file in memory.
pub fn position(offset: u64, len: usize) -> error::Result<usize> {
    position_below(usize::MAX as u64, offset, len as u64).ok_or_else(|| {
        error::Error::Io(
            "a journal or log of more than 4 GiB is beyond this 32-bit processor; \
             commit smaller transactions, and close statements that have been open for long"
                .to_owned(),
        )
    })
}

fn position_below(limit: u64, offset: u64, len: u64) -> Option<usize> {
    offset.checked_add(len).filter(|end| *end <= limit)?;
    usize::try_from(offset).ok()
}

/// A file in memory.
///
/// # Invariants
/// 1. `chunks` holds the bytes below `border`, as far as the file reaches. The spill file holds the others, at their own
///    offsets. The border is set when memory is refused, and stays while the file reaches beyond it.
/// 2. Every byte of a chunk at or behind `len` is zero, so that growth needs no clearing.
pub struct MemoryFile {
    chunks: Vec<Box<[u8; CHUNK_BYTES]>>,
    len: usize,
    border: usize,
    reservation: MemoryReservation,
    spill: Spill,
}

impl MemoryFile {
    /// An empty file.
    pub fn new(reservation: MemoryReservation, make_spill: MakeSpill) -> MemoryFile {
        let spill = Spill::new(make_spill);
        MemoryFile { chunks: Vec::new(), len: 0, border: usize::MAX, reservation, spill }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory in use.
    pub fn memory_bytes(&self) -> usize {
        self.chunks.len() * CHUNK_BYTES
    }

    /// Reads from `offset` until `buf` is full or the file ends; returns the bytes read.
    pub fn read(&self, buf: &mut [u8], offset: usize) -> Result<usize> {
        let count = buf.len().min(self.len.saturating_sub(offset));
        let in_memory = count.min(self.border.saturating_sub(offset));
        let mut done = 0;
        while done < in_memory {
            let (chunk, start) = place(offset + done);
            let part = (in_memory - done).min(CHUNK_BYTES - start);
            buf[done..done + part].copy_from_slice(&self.chunks[chunk][start..start + part]);
            done += part;
        }
        if let (true, Some(spill)) = (done < count, self.spill.existing()) {
            done += spill.read_at(&mut buf[done..count], (offset + done) as u64)?;
        }
        buf[done..count].fill(0);
        Ok(count)
    }

    /// Writes at `offset`, growing the file where needed.
    pub fn write(&mut self, buf: &[u8], offset: usize) -> Result<()> {
        let end = offset + buf.len();
        self.grow_chunks(end);
        let in_memory = buf.len().min(self.border.saturating_sub(offset));
        if in_memory < buf.len() {
            self.spill.file()?.write_at(&buf[in_memory..], (offset + in_memory) as u64)?;
        }
        let mut done = 0;
        while done < in_memory {
            let (chunk, start) = place(offset + done);
            let part = (in_memory - done).min(CHUNK_BYTES - start);
            self.chunks[chunk][start..start + part].copy_from_slice(&buf[done..done + part]);
            done += part;
        }
        self.len = self.len.max(end);
        Ok(())
    }

    /// Cuts the file and gives memory back, or extends the file with zeros.
    pub fn set_len(&mut self, len: usize) -> Result<()> {
        if len < self.len {
            self.chunks.truncate(len.min(self.border).div_ceil(CHUNK_BYTES));
            self.account();
            let (chunk, start) = place(len);
            if let Some(last) = self.chunks.get_mut(chunk) {
                last[start..].fill(0);
            }
            match self.spill.existing() {
                Some(_) if len <= self.border => self.spill.discard(),
                Some(spill) => spill.set_len(len as u64)?,
                None => {}
            }
            if self.spill.existing().is_none() {
                self.border = usize::MAX;
            }
        }
        self.grow_chunks(len);
        self.len = len;
        Ok(())
    }

    /// Adds chunks up to a length, as far as the reservation allows.
    fn grow_chunks(&mut self, len: usize) {
        while self.chunks.len() * CHUNK_BYTES < len.min(self.border) {
            let bytes = self.chunks.len() * CHUNK_BYTES;
            if bytes >= self.reservation.most().max(1) {
                self.border = bytes;
                return;
            }
            self.chunks.push(Box::new([0; CHUNK_BYTES]));
            self.account();
        }
    }

    /// Tells the reservation.
    fn account(&mut self) {
        let bytes = self.memory_bytes();
        self.reservation.set(bytes);
    }
}

/// The chunk of an offset, and the offset in it.
fn place(offset: usize) -> (usize, usize) {
    (offset / CHUNK_BYTES, offset % CHUNK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::spill_file::tests::make_spill;
    use proptest::prelude::*;

    #[test]
    fn nothing_wraps_where_addresses_end() {
        let limit = u64::from(u32::MAX);
        for (offset, len, expected) in [
            (0, 0, Some(0)),
            (limit - 4096, 4096, Some((limit - 4096) as usize)),
            (limit - 4095, 4096, None),
            (limit + 1, 0, None),
            (u64::MAX, 1, None),
        ] {
            assert_eq!(position_below(limit, offset, len), expected, "{offset} {len}");
        }
    }

    proptest! {
        #[test]
        fn behaves_like_a_vector(
            steps in prop::collection::vec(
                (0..3 * CHUNK_BYTES, 1..2 * CHUNK_BYTES, any::<u8>(), any::<bool>()), 1..20),
            budget in 0..4 * CHUNK_BYTES,
        ) {
            let mut file = MemoryFile::new(MemoryReservation::fixed(budget), make_spill());
            let mut plain: Vec<u8> = Vec::new();
            for (offset, len, byte, cut) in steps {
                if cut {
                    file.set_len(offset).unwrap();
                    plain.resize(offset, 0);
                } else {
                    file.write(&vec![byte; len], offset).unwrap();
                    plain.resize(plain.len().max(offset + len), 0);
                    plain[offset..offset + len].fill(byte);
                }
                prop_assert_eq!(file.len(), plain.len());
                let mut back = vec![1; plain.len() + 10];
                prop_assert_eq!(file.read(&mut back, 0).unwrap(), plain.len());
                prop_assert!(back[..plain.len()] == plain[..], "the bytes differ");
            }
            prop_assert!(file.memory_bytes() <= budget + CHUNK_BYTES);
        }
    }
}
