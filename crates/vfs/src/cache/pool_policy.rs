//! Decisions on a pool: reads past the system's cache, reading a whole file ahead, and how much may stay pinned.

use crate::options::Direct;

/// The part of the frames that connections may hold for themselves.
const PIN_CACHE_SHARE: usize = 8;
/// Smallest pages that can be read past the system's cache.
const DIRECT_BYTES: usize = 4096;

/// True if reads of a database of `len` bytes bypass the system's cache, while so much memory is free.
pub(super) fn reads_past_cache(direct: Direct, page_bytes: usize, len: u64, free: Option<usize>) -> bool {
    let wanted = match direct {
        Direct::On => true,
        Direct::Off => false,
        // The system reads a file that it could keep faster than the device does, and gives that memory away when
        // another process needs it.
        Direct::Auto => free.is_some_and(|free| len > free as u64 / 2),
    };
    wanted && page_bytes >= DIRECT_BYTES
}

/// Most pages of a file that is read ahead whole, while so much memory is free.
pub(super) fn full_file_pages(page_bytes: usize, free: Option<usize>) -> u32 {
    u32::try_from(free.unwrap_or_default() / 2 / page_bytes).unwrap_or(u32::MAX)
}

/// The most pages that connections may keep pinned, of a pool with `populated` pages in memory. After memory was taken
/// away, twice as many may stay.
pub(super) fn most_cached_pins(populated: usize) -> u64 {
    (populated / PIN_CACHE_SHARE) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_go_past_the_systems_cache_where_that_could_not_keep_the_file() {
        const MIB: u64 = 1 << 20;
        for (direct, page_bytes, len, free, past) in [
            (Direct::On, 4096, 0, None, true),
            (Direct::On, 1024, 0, None, false),
            (Direct::Off, 4096, 100 * MIB, Some(0), false),
            (Direct::Auto, 4096, 5 * MIB, Some(10 << 20), false),
            (Direct::Auto, 4096, 5 * MIB + 1, Some(10 << 20), true),
            (Direct::Auto, 512, 100 * MIB, Some(0), false),
            (Direct::Auto, 4096, 100 * MIB, None, false),
        ] {
            assert_eq!(reads_past_cache(direct, page_bytes, len, free), past, "{len} {free:?}");
        }
    }

    #[test]
    fn a_file_is_read_ahead_whole_up_to_half_of_the_free_memory() {
        for (page_bytes, free, pages) in
            [(4096, None, 0), (4096, Some(8192), 1), (1024, Some(8192), 4), (512, Some(usize::MAX), u32::MAX)]
        {
            assert_eq!(full_file_pages(page_bytes, free), pages);
        }
    }

    #[test]
    fn connections_keep_a_small_part_of_the_pool_pinned() {
        for (populated, pins) in [(0, 0), (7, 0), (8, 1), (8000, 1000)] {
            assert_eq!(most_cached_pins(populated), pins);
        }
    }
}
