//! Numbers of variable length, and the reader that every payload is taken apart with.

/// Appends `value`, in at most five bytes.
pub fn put(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that `value` takes.
pub fn bytes(value: u32) -> usize {
    [7, 14, 21, 28].into_iter().fold(1, |bytes, bits| bytes + usize::from(value >> bits > 0))
}

/// Bytes that have not been read yet.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next number; none where the bytes end, or where it does not fit.
    pub fn varint(&mut self) -> Option<u32> {
        let mut value = 0;
        for shift in (0..).step_by(7).take(5) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(value).ok();
            }
        }
        None
    }

    /// The next number of four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*word))
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, count: u32) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count as usize)?;
        self.0 = rest;
        Some(bytes)
    }
}
