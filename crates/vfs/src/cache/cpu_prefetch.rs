//! Telling the processor which parts of a page SQLite will look at.
//!
//! # Why
//! A page that is in memory is seldom in the processor's cache. SQLite looks for a key by halving: each step asks for a
//! cell that lies anywhere on the page, and waits for memory. The page's head tells which cells the first steps ask
//! for. A scan from leaf to leaf looks at all of them. Asked for together, they arrive in the time of one.
//!
//! # What it does not do
//! Change anything but time. The head is read without trust: an address that is wrong is not looked at, and somebody may be
//! changing it.

use litefoot_storage::mapped_pool::shown;
use std::ptr::NonNull;

/// Bytes that the processor fetches together.
const LINE: usize = 64;
/// Cells from which on it is worth while.
const FEWEST_CELLS: usize = 4;
/// Most bytes of a page that are asked for as a whole.
const MOST_BYTES: usize = 8192;

/// Asks for the cells that the first three steps of a search in a leaf look at.
///
/// # Safety
/// `page` is a page of `bytes` bytes, at least 512, which can be read. It begins where a word does.
#[inline]
pub unsafe fn for_search(page: NonNull<u8>, bytes: usize) {
    // SAFETY: the head of a page lies inside it; cell pointers are looked at inside the page only.
    unsafe {
        let head = page.as_ptr();
        // File format, section 1.6: so long is the head of a leaf.
        let cells = u16::from_be_bytes([shown::byte_at(head, 3), shown::byte_at(head, 4)]);
        let cells = usize::from(cells).min((bytes - 8) / 2);
        if cells < FEWEST_CELLS {
            return;
        }
        let cell = |number: usize| fetch(head.wrapping_add(shown::two_at(head, 8 + 2 * number).into()));
        let (half, quarter, eighth) = (cells / 2, cells / 4, cells / 8);
        cell(half);
        cell(quarter);
        cell(half + quarter);
        cell(eighth);
        cell(quarter + eighth);
        cell(half + eighth);
        cell(half + quarter + eighth);
    }
}

/// Asks for a whole page.
#[inline]
pub fn whole(page: *const u8, bytes: usize) {
    for line in 0..bytes.min(MOST_BYTES) / LINE {
        fetch(page.wrapping_add(line * LINE));
    }
}

/// Asks for what lies at an address, whatever that is.
#[inline]
fn fetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; no address is invalid for it.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_page_says_nothing_else_is_read() {
        let mut random = 12345_u64;
        for bytes in [512, 4096, 65536] {
            for _ in 0..2000 {
                let page: Vec<u64> = (0..bytes / 8)
                    .map(|_| {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(12345);
                        random.rotate_left(32)
                    })
                    .collect();
                // SAFETY: the page has as many bytes, and is one of words.
                unsafe { for_search(NonNull::from(&page[..]).cast(), bytes) };
                whole(page.as_ptr().cast(), bytes);
                if bytes > 4096 {
                    break;
                }
            }
        }
    }
}
