//! Memory for reads and writes past the kernel's cache.

/// Alignment of memory for writes past the kernel's cache.
pub(super) const DIRECT_ALIGNMENT: usize = 4096;

/// Bytes at an aligned address.
pub(super) struct Aligned {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    pub fn copy_of(bytes: &[u8]) -> Aligned {
        let mut memory = vec![0; bytes.len() + DIRECT_ALIGNMENT];
        let start = memory.as_ptr().align_offset(DIRECT_ALIGNMENT).min(DIRECT_ALIGNMENT);
        memory[start..start + bytes.len()].copy_from_slice(bytes);
        Aligned { memory, start, len: bytes.len() }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }

    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}
