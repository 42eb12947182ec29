//! The checksum of a page: CRC-32C.
//!
//! # Why
//! A commit of one row takes the checksums of some pages of 4,096 bytes. The processor has an instruction for eight bytes,
//! and begins another one before it has ended. So three parts of such a page are summed beside one another, and many
//! words in each turn of the loop. Pages of other sizes, and other processors, have the crate `crc32c`.
//!
//! # Invariants
//! 1. The sum is that of the crate, for all pages.

/// The checksum of a page.
pub fn page_sum(page: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if let Ok(page) = page.try_into()
        && std::arch::is_x86_feature_detected!("sse4.2")
    {
        // SAFETY: the processor has the instruction.
        return unsafe { lanes::sum(page) };
    }
    crc32c::crc32c(page)
}

#[cfg(target_arch = "x86_64")]
mod lanes {
    use std::arch::x86_64::_mm_crc32_u64;

    const WORD_BYTES: usize = 8;
    /// Words of each part: three parts, and two words behind them, are a page.
    const LANE_WORDS: usize = 170;
    /// Words of a turn of the loop, in each part.
    const TURN_WORDS: usize = 17;
    /// The polynomial, the lowest bit first.
    const POLYNOMIAL: u32 = 0x82f6_3b78;

    /// The sum of a page.
    #[target_feature(enable = "sse4.2")]
    pub fn sum(page: &[u8; 4096]) -> u32 {
        let words = page.as_chunks::<WORD_BYTES>().0;
        let (first, rest) = words.split_at(LANE_WORDS);
        let (second, rest) = rest.split_at(LANE_WORDS);
        let (third, rest) = rest.split_at(LANE_WORDS);
        let turns = [first, second, third].map(|lane| lane.as_chunks::<TURN_WORDS>().0);
        let (mut one, mut two, mut three) = (u64::from(u32::MAX), 0, 0);
        for ((first, second), third) in turns[0].iter().zip(turns[1]).zip(turns[2]) {
            for word in 0..TURN_WORDS {
                one = _mm_crc32_u64(one, u64::from_le_bytes(first[word]));
                two = _mm_crc32_u64(two, u64::from_le_bytes(second[word]));
                three = _mm_crc32_u64(three, u64::from_le_bytes(third[word]));
            }
        }
        let mut sum = advance(advance(one as u32) ^ two as u32) ^ three as u32;
        for word in rest {
            sum = _mm_crc32_u64(u64::from(sum), u64::from_le_bytes(*word)) as u32;
        }
        !sum
    }

    /// A sum behind as many zeros as a part has bytes.
    #[inline]
    fn advance(sum: u32) -> u32 {
        let [first, second, third, fourth] = sum.to_le_bytes();
        ADVANCED[0][usize::from(first)]
            ^ ADVANCED[1][usize::from(second)]
            ^ ADVANCED[2][usize::from(third)]
            ^ ADVANCED[3][usize::from(fourth)]
    }

    /// The same of each byte alone, at each of its places: zeros change a sum bit by bit.
    static ADVANCED: [[u32; 256]; 4] = advanced(LANE_WORDS * WORD_BYTES);

    /// What becomes of each bit of a sum.
    type Bits = [u32; 32];

    const fn advanced(bytes: usize) -> [[u32; 256]; 4] {
        let bits = power(ZERO_BIT, 8 * bytes);
        let mut table = [[0; 256]; 4];
        let mut place = 0;
        while place < 4 {
            let mut byte = 0;
            while byte < 256 {
                table[place][byte] = apply(&bits, (byte as u32) << (8 * place));
                byte += 1;
            }
            place += 1;
        }
        table
    }

    /// A zero bit behind a sum: all bits go down by one, and the lowest becomes the polynomial.
    const ZERO_BIT: Bits = {
        let mut bits = [POLYNOMIAL; 32];
        let mut bit = 1;
        while bit < 32 {
            bits[bit] = 1 << (bit - 1);
            bit += 1;
        }
        bits
    };

    /// So many times the same.
    const fn power(mut base: Bits, mut times: usize) -> Bits {
        let mut result = [0; 32];
        let mut bit = 0;
        while bit < 32 {
            result[bit] = 1 << bit;
            bit += 1;
        }
        while times > 0 {
            if times % 2 == 1 {
                result = behind(&base, &result);
            }
            base = behind(&base, &base);
            times /= 2;
        }
        result
    }

    /// First `first`, then `then`.
    const fn behind(then: &Bits, first: &Bits) -> Bits {
        let mut result = [0; 32];
        let mut bit = 0;
        while bit < 32 {
            result[bit] = apply(then, first[bit]);
            bit += 1;
        }
        result
    }

    const fn apply(bits: &Bits, sum: u32) -> u32 {
        let (mut result, mut bit) = (0, 0);
        while bit < 32 {
            if sum >> bit & 1 == 1 {
                result ^= bits[bit];
            }
            bit += 1;
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_the_crates_for_pages_of_all_sizes() {
        let mut random = 1_u32;
        for bytes in [512, 1024, 2048, 4096, 8192, 65536] {
            for zeros in [0, 1, 1359, 1360, 1361, 2720, 4079, 4080, 4095] {
                let page: Vec<u8> = (0..bytes)
                    .map(|at| {
                        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        if at < zeros { 0 } else { (random >> 24) as u8 }
                    })
                    .collect();
                assert_eq!(page_sum(&page), crc32c::crc32c(&page), "{bytes} bytes, {zeros} zeros");
            }
            for at in [0, 7, bytes / 3, bytes - 17, bytes - 1] {
                let mut page = vec![0; bytes];
                page[at] = 0x80;
                assert_eq!(page_sum(&page), crc32c::crc32c(&page), "{bytes} bytes, a bit at {at}");
            }
        }
    }
}
