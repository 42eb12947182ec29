//! Copies in place: a page that has most bytes where they were, and the others moved by a few cells' pointers.
//!
//! A row that is inserted into a b-tree page moves the pointers behind its own by one. The ranges say where a page
//! differs. So only these bytes are compared with their neighbours, and everything between them is one copy. What moved
//! farther is left to [`super::search`].

use super::ranges::Span;
use super::search::{equal_bytes, word};
use super::varint;

/// A cell's pointer in a b-tree page.
const POINTER_BYTES: isize = 2;
/// Shortest copy of bytes that are in place.
const LEAST_COPY: usize = 4;
/// The longer there was no copy, the fewer places are tried: one less for each 2^n bytes.
const PATIENCE_BITS: u32 = 4;

/// The copies of a page from its own version before, as far as they are encoded.
struct Copies<'a> {
    after: &'a [u8],
    /// The end of the last copy.
    end: usize,
    /// The place that it came from, less the one where it went.
    shift: isize,
}

impl Copies<'_> {
    /// Appends a copy of `bytes` to `at`, from `shift` behind it.
    fn put(&mut self, at: usize, bytes: usize, shift: isize, out: &mut Vec<u8>) {
        self.put_bytes(at, out);
        varint::put(out, bytes as u32);
        let distance = (shift - self.shift) as i32;
        varint::put(out, (distance << 1 ^ distance >> 31) as u32);
        (self.end, self.shift) = (at + bytes, shift);
    }

    /// Appends the bytes up to `at`, which are new.
    fn put_bytes(&self, at: usize, out: &mut Vec<u8>) {
        varint::put(out, (at - self.end) as u32);
        out.extend_from_slice(&self.after[self.end..at]);
    }
}

/// Appends `after`, which differs from `before` in `spans`. None once it takes more than `most` bytes.
pub fn encode(before: &[u8], after: &[u8], spans: &[Span], most: usize, out: &mut Vec<u8>) -> Option<()> {
    let most = out.len().saturating_add(most);
    let mut copies = Copies { after, end: 0, shift: 0 };
    // Bytes before are copied, or new.
    let mut at = 0;
    for span in spans {
        let (start, end) = (span.start as usize, span.end as usize);
        if start >= at + LEAST_COPY {
            copies.put(at, start - at, 0, out);
        }
        at = at.max(start);
        while at < end {
            match find(before, after, at, copies.shift) {
                Some((bytes, shift)) => {
                    let back = equal_bytes_before(before, after, at, shift, copies.end);
                    copies.put(at - back, bytes + back, shift, out);
                    at += bytes;
                }
                None => at = end.min(at + 1 + ((at - copies.end) >> PATIENCE_BITS)),
            }
            if out.len() + at - copies.end > most {
                return None;
            }
        }
    }
    if at < after.len() {
        copies.put(at, after.len() - at, 0, out);
    } else if copies.end < after.len() {
        copies.put_bytes(after.len(), out);
    }
    (out.len() <= most).then_some(())
}

/// A copy to `at`, from where the last one goes on, or a pointer beside it: its length, and the shift.
fn find(before: &[u8], after: &[u8], at: usize, shift: isize) -> Option<(usize, isize)> {
    let new = word(after.get(at..)?)?;
    [shift, shift - POINTER_BYTES, shift + POINTER_BYTES].into_iter().find_map(|shift| {
        // A place before the page is one far behind it.
        let old = before.get(at.wrapping_add_signed(shift)..)?;
        (word(old)? == new).then(|| (equal_bytes(old, &after[at..]), shift))
    })
}

/// So many bytes before `at`, down to `end`, are those before their source.
fn equal_bytes_before(before: &[u8], after: &[u8], at: usize, shift: isize, end: usize) -> usize {
    let source = at.saturating_add_signed(shift);
    let (old, new) = (before[..source].iter().rev(), after[end..at].iter().rev());
    old.zip(new).take_while(|(old, new)| old == new).count()
}
