//! R-MAT: random graphs with the skew of real ones (Chakrabarti, Zhan, Faloutsos: R-MAT, 2004).

use std::collections::BTreeSet;

/// Chances of the four quadrants, in percent: those of Graph500.
const QUADRANTS: [u64; 3] = [57, 19, 19];

/// Fruitless draws after which no more distinct edges are sought.
const FRUITLESS_DRAWS: u64 = 1 << 20;

/// `edges` distinct edges, without loops, among `2^scale` nodes, sorted; fewer where there are not so many.
/// Equal seeds give equal graphs on every machine.
pub fn rmat(scale: u32, edges: usize, seed: u64) -> Vec<(u64, u64)> {
    let mut state = seed;
    let mut found = BTreeSet::new();
    let mut fruitless = 0;
    while found.len() < edges && fruitless < FRUITLESS_DRAWS {
        let edge = draw(scale, &mut state);
        let is_new = edge.0 != edge.1 && found.insert(edge);
        fruitless = if is_new { 0 } else { fruitless + 1 };
    }
    found.into_iter().collect()
}

fn draw(scale: u32, state: &mut u64) -> (u64, u64) {
    (0..scale).fold((0, 0), |(source, target), _| {
        let chance = split_mix(state) % 100;
        let quadrant = QUADRANTS
            .iter()
            .scan(0, |sum, share| {
                *sum += share;
                Some(*sum)
            })
            .take_while(|bound| chance >= *bound)
            .count() as u64;
        (source << 1 | quadrant >> 1, target << 1 | quadrant & 1)
    })
}

/// SplitMix64 (Steele, Lea, Flood 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut value = *state;
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
