//! Changing an input at random, from a seed.

/// Numbers at which lengths, counts and sums turn over.
const EDGES: [u64; 14] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffe,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];
/// Most changes of one input.
const MOST_CHANGES: u64 = 6;

/// A generator of numbers (splitmix64).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// One of two.
    pub fn toss(&mut self) -> bool {
        self.next() & 1 == 0
    }

    /// A number below `end`; 0 where that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.next() % end as u64) as usize }
    }
}

/// Changes `bytes`, and takes parts of `other`; at most `most` bytes are left.
pub fn mutate(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8], most: usize) {
    for _ in 0..=random.next() % MOST_CHANGES {
        change(random, bytes, other);
    }
    bytes.truncate(most);
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    // Headers are at the beginning: half of the changes are there.
    let near = if random.toss() { bytes.len().min(128) } else { bytes.len() };
    let at = random.below(near);
    match random.next() % 9 {
        0 => flip(random, bytes, at),
        1 => set(bytes, at, &[random.next() as u8]),
        2 | 3 => {
            let edge = EDGES[random.below(EDGES.len())];
            let width = [1, 2, 4, 8][random.below(4)];
            let little = &edge.to_le_bytes()[..width];
            let big = &edge.to_be_bytes()[8 - width..];
            set(bytes, at, if random.toss() { little } else { big });
        }
        4 => {
            let end = at + random.below((bytes.len() - at).min(64));
            bytes.drain(at..end);
        }
        5 => {
            let from = random.below(bytes.len());
            let copied = bytes[from..from + random.below((bytes.len() - from).min(64))].to_vec();
            bytes.splice(at..at, copied);
        }
        6 => bytes.truncate(at),
        7 => {
            let from = random.below(other.len());
            let taken = &other[from..from + random.below((other.len() - from).min(512))];
            set(bytes, at, taken);
        }
        _ => {
            let count = random.below(600);
            bytes.resize(bytes.len() + count, if random.toss() { 0 } else { 0xff });
        }
    }
}

fn flip(random: &mut Random, bytes: &mut [u8], at: usize) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << (random.next() % 8);
    }
}

/// Overwrites, as far as there is room.
fn set(bytes: &mut [u8], at: usize, value: &[u8]) {
    for (place, byte) in bytes.iter_mut().skip(at).zip(value) {
        *place = *byte;
    }
}
