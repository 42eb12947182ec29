//! Bytes of pages that are shown by address, which somebody may be changing.
//!
//! # Why
//! Whoever writes beneath a page waits for nobody who looks at it: as if the file were mapped. What is read meanwhile is
//! part old and part new, and SQLite's locks see to it that nobody believes it. For the compiler such a read is an error
//! all the same, of which it may make anything, unless both sides say that they expect each other. So all code of ours
//! goes through the functions here, whose accesses are atomic, a word at a time and in no order. SQLite itself is C, and
//! reads a file that it has mapped in the same way.
//!
//! They compile to plain loads and stores; a page costs about 100 ns more than a copy that knows of nobody.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicUsize, Ordering};

/// Bytes of a word.
const WORD: usize = size_of::<usize>();
/// Words that are copied without a look at the count.
const AT_ONCE: usize = 8;

/// Reads a byte.
///
/// # Safety
/// The byte can be read, and is changed by `store` only.
#[inline(always)]
pub unsafe fn byte(address: *const u8) -> u8 {
    // SAFETY: by contract; a byte is aligned anywhere, and a load changes nothing.
    unsafe { AtomicU8::from_ptr(address.cast_mut()) }.load(Ordering::Relaxed)
}

/// Reads two bytes, as a number that begins with its high part.
///
/// # Safety
/// The bytes can be read, are changed by `store` only, and lie at an even address.
#[inline(always)]
pub unsafe fn two(address: *const u8) -> u16 {
    debug_assert!(address.cast::<u16>().is_aligned());
    // SAFETY: by contract; a load changes nothing.
    u16::from_be(unsafe { AtomicU16::from_ptr(address.cast_mut().cast()) }.load(Ordering::Relaxed))
}

/// Copies bytes out of a page.
///
/// # Safety
/// `to.len()` bytes from `from` can be read, and are changed by `store` only.
#[inline]
pub unsafe fn load(from: *const u8, to: &mut [u8]) {
    let head = from.align_offset(WORD).min(to.len());
    let (first, rest) = to.split_at_mut(head);
    let (words, last) = rest.as_chunks_mut::<WORD>();
    let tail = head + words.len() * WORD;
    // SAFETY: by contract; every address lies inside the range, and those of words are aligned.
    unsafe {
        first.iter_mut().enumerate().for_each(|(at, to)| *to = byte(from.add(at)));
        let get = |number: usize, to: &mut [u8; WORD]| {
            let word = AtomicUsize::from_ptr(from.add(head + number * WORD).cast_mut().cast());
            *to = word.load(Ordering::Relaxed).to_ne_bytes();
        };
        let (blocks, few) = words.as_chunks_mut::<AT_ONCE>();
        let before_few = blocks.len() * AT_ONCE;
        for (block, words) in blocks.iter_mut().enumerate() {
            words.iter_mut().enumerate().for_each(|(number, to)| get(block * AT_ONCE + number, to));
        }
        few.iter_mut().enumerate().for_each(|(number, to)| get(before_few + number, to));
        last.iter_mut().enumerate().for_each(|(at, to)| *to = byte(from.add(tail + at)));
    }
}

/// Copies bytes into a page.
///
/// # Safety
/// `from.len()` bytes from `to` can be written, nobody else writes them, and they are read by [`byte`] and [`load`] only.
#[inline]
pub(super) unsafe fn store(from: &[u8], to: *mut u8) {
    let head = to.align_offset(WORD).min(from.len());
    let (first, rest) = from.split_at(head);
    let (words, last) = rest.as_chunks::<WORD>();
    let tail = head + words.len() * WORD;
    // SAFETY: as in `load`.
    unsafe {
        let put = |at: usize, byte: u8| AtomicU8::from_ptr(to.add(at)).store(byte, Ordering::Relaxed);
        first.iter().enumerate().for_each(|(at, byte)| put(at, *byte));
        let put_word = |number: usize, bytes: &[u8; WORD]| {
            let word = AtomicUsize::from_ptr(to.add(head + number * WORD).cast());
            word.store(usize::from_ne_bytes(*bytes), Ordering::Relaxed);
        };
        let (blocks, few) = words.as_chunks::<AT_ONCE>();
        for (block, words) in blocks.iter().enumerate() {
            words.iter().enumerate().for_each(|(number, bytes)| put_word(block * AT_ONCE + number, bytes));
        }
        few.iter().enumerate().for_each(|(number, bytes)| put_word(blocks.len() * AT_ONCE + number, bytes));
        last.iter().enumerate().for_each(|(at, byte)| put(tail + at, *byte));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;

    #[test]
    fn every_byte_arrives_wherever_it_begins() {
        let plain: Vec<u8> = (0..192).collect();
        for from in 0..17 {
            for len in (0..40).chain(60..70).chain(120..175) {
                let mut page = vec![0u8; 192];
                let mut back = vec![0u8; len];
                // SAFETY: the ranges lie inside the vectors.
                unsafe {
                    store(&plain[from..from + len], page.as_mut_ptr().add(from));
                    load(page.as_ptr().add(from), &mut back);
                    assert_eq!(byte(page.as_ptr().add(from)), if len > 0 { plain[from] } else { 0 });
                }
                assert_eq!(back, &plain[from..from + len]);
                assert!(page[from + len..].iter().chain(&page[..from]).all(|byte| *byte == 0));
            }
        }
    }

    struct Page(UnsafeCell<[u8; 512]>);

    // SAFETY: the bytes are reached only by the functions of this module.
    unsafe impl Sync for Page {}

    /// The thread sanitizer and Miri see here whether both sides say that they expect each other.
    #[test]
    fn threads_may_read_a_page_while_another_changes_it() {
        static PAGE: Page = Page(UnsafeCell::new([0; 512]));
        let rounds = if cfg!(miri) { 20 } else { 2000 };
        let start = || PAGE.0.get().cast::<u8>();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut found = [0; 400];
                    for _ in 0..rounds {
                        // SAFETY: the page has as many bytes.
                        unsafe { load(start().add(3), &mut found) };
                        // SAFETY: as above.
                        assert!(found.iter().all(|byte| *byte < 100) && unsafe { byte(start()) } < 100);
                    }
                });
            }
            for round in 0..rounds {
                // SAFETY: nobody else writes.
                unsafe { store(&[(round % 100) as u8; 512], start()) };
            }
        });
    }
}
