//! Access to bytes of pages that another thread may be changing.
//!
//! # Why
//! A writer beneath a page waits for no reader, as if the file were mapped. A read meanwhile finds bytes part old and
//! part new, and SQLite's locks see to it that they are not believed. For the compiler such a read is undefined
//! behaviour, unless both sides say that they expect each other. So all code of litefoot goes through the functions
//! here, whose accesses are atomic, a word at a time and in no order. SQLite itself is C, and reads a file that it has
//! mapped in the same way.
//!
//! The functions compile to plain loads and stores; a page costs about 100 ns more than a plain copy.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a word.
const WORD: usize = size_of::<usize>();
/// Words that are copied without a look at the count.
const AT_ONCE: usize = 8;

/// The word around a byte, and the place of the byte in it. Every access is one to a whole word: accesses of several
/// sizes to the same bytes may not meet.
///
/// # Safety
/// The byte lies in a page, which begins and ends where words do.
#[inline(always)]
unsafe fn word_of<'a>(address: *const u8) -> (&'a AtomicUsize, usize) {
    let inside = address.addr() % WORD;
    // SAFETY: by contract the word lies in the page; its address is a multiple of its size.
    (unsafe { AtomicUsize::from_ptr(address.sub(inside).cast_mut().cast()) }, inside)
}

/// Bytes from one on to the end of its word, of which the first has the lowest place.
///
/// # Safety
/// As for [`word_of`]; the page can be read, and is changed by [`store`] only.
#[inline(always)]
unsafe fn rest_of_word(address: *const u8) -> usize {
    // SAFETY: by contract.
    let (word, inside) = unsafe { word_of(address) };
    usize::from_le(word.load(Ordering::Relaxed)) >> (8 * inside)
}

/// The bytes from a place of a page on to the end of their word, as [`rest_of_word`]: the place alone tells how many.
///
/// # Safety
/// As for [`rest_of_word`], of the byte at that place; `page` is where the page begins.
#[inline(always)]
unsafe fn rest_of_word_at(page: *const u8, place: usize) -> usize {
    debug_assert!(page.cast::<usize>().is_aligned());
    let inside = place % WORD;
    // SAFETY: by contract; the word begins at a multiple of its size from where the page does.
    let word = unsafe { AtomicUsize::from_ptr(page.add(place - inside).cast_mut().cast()) };
    usize::from_le(word.load(Ordering::Relaxed)) >> (8 * inside)
}

/// Reads the byte at a place of a page.
///
/// # Safety
/// The byte lies in the page that begins at `page`. The page begins and ends where words do, can be read, and is changed by
/// `store` only.
#[inline(always)]
pub unsafe fn byte_at(page: *const u8, place: usize) -> u8 {
    // SAFETY: by contract.
    unsafe { rest_of_word_at(page, place) as u8 }
}

/// Reads two bytes at an even place of a page, as a number that begins with its high part.
///
/// # Safety
/// As for [`byte_at`].
#[inline(always)]
pub unsafe fn two_at(page: *const u8, place: usize) -> u16 {
    debug_assert!(place.is_multiple_of(2));
    // SAFETY: by contract; two bytes at an even place lie in one word.
    unsafe { rest_of_word_at(page, place) as u16 }.swap_bytes()
}

/// Copies bytes out of a page.
///
/// # Safety
/// `to.len()` bytes from `from` lie in a page as for [`byte_at`].
#[inline]
pub unsafe fn load(from: *const u8, to: &mut [u8]) {
    let head = from.align_offset(WORD).min(to.len());
    let (first, rest) = to.split_at_mut(head);
    let (words, last) = rest.as_chunks_mut::<WORD>();
    let tail = head + words.len() * WORD;
    // SAFETY: by contract; every address lies inside the page, and those of words are aligned.
    unsafe {
        let get_some = |at: usize, to: &mut [u8]| {
            if !to.is_empty() {
                to.copy_from_slice(&rest_of_word(from.add(at)).to_le_bytes()[..to.len()]);
            }
        };
        get_some(0, first);
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
        get_some(tail, last);
    }
}

/// Copies bytes into a page.
///
/// # Safety
/// `from.len()` bytes from `to` lie in a page that begins and ends where words do, and that can be written. No other
/// thread writes it meanwhile, and it is read by [`byte_at`], [`two_at`] and [`load`] only.
#[inline]
pub(super) unsafe fn store(from: &[u8], to: *mut u8) {
    let head = to.align_offset(WORD).min(from.len());
    let (first, rest) = from.split_at(head);
    let (words, last) = rest.as_chunks::<WORD>();
    let tail = head + words.len() * WORD;
    // SAFETY: as in `load`.
    unsafe {
        // The other bytes of the word stay: no other thread writes.
        let put_some = |at: usize, bytes: &[u8]| {
            if !bytes.is_empty() {
                let (word, inside) = word_of(to.add(at));
                let mut all = word.load(Ordering::Relaxed).to_ne_bytes();
                all[inside..inside + bytes.len()].copy_from_slice(bytes);
                word.store(usize::from_ne_bytes(all), Ordering::Relaxed);
            }
        };
        put_some(0, first);
        let put = |number: usize, bytes: &[u8; WORD]| {
            let word = AtomicUsize::from_ptr(to.add(head + number * WORD).cast());
            word.store(usize::from_ne_bytes(*bytes), Ordering::Relaxed);
        };
        let (blocks, few) = words.as_chunks::<AT_ONCE>();
        for (block, words) in blocks.iter().enumerate() {
            words.iter().enumerate().for_each(|(number, bytes)| put(block * AT_ONCE + number, bytes));
        }
        few.iter().enumerate().for_each(|(number, bytes)| put(blocks.len() * AT_ONCE + number, bytes));
        put_some(tail, last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;

    #[test]
    fn every_byte_arrives_wherever_it_begins() {
        let plain: Vec<u8> = (0..192).collect();
        let (begins, lens) = if cfg!(miri) { (0..9, 120..136) } else { (0..17, 120..175) };
        for from in begins {
            for len in (0..20).chain(60..70).chain(lens.clone()) {
                let mut page = Aligned([0; 192]);
                let start = page.0.as_mut_ptr();
                let mut back = vec![0u8; len];
                // SAFETY: the ranges lie inside the vectors.
                unsafe {
                    store(&plain[from..from + len], start.add(from));
                    load(start.add(from), &mut back);
                    assert_eq!(byte_at(start, from), if len > 0 { plain[from] } else { 0 });
                    let two = if len > 1 { u16::from_be_bytes([plain[from], plain[from + 1]]) } else { 0 };
                    assert!(from % 2 == 1 || len == 1 || two_at(start, from) == two);
                }
                assert_eq!(back, &plain[from..from + len]);
                assert!(page.0[from + len..].iter().chain(&page.0[..from]).all(|byte| *byte == 0));
            }
        }
    }

    #[repr(align(8))]
    struct Aligned([u8; 192]);

    #[repr(align(8))]
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
                        assert!(found.iter().all(|byte| *byte < 100) && unsafe { byte_at(start(), 0) } < 100);
                    }
                });
            }
            for round in 0..rounds {
                // SAFETY: no other thread writes.
                unsafe { store(&[(round % 100) as u8; 512], start()) };
            }
        });
    }
}
