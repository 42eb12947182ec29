//! A plain write cache: every chunk that is written moves in, the one written longest ago moves out.

use super::Advice;
use std::collections::{BTreeMap, HashMap};

/// The chunks on the tier in the order of their last writes.
#[derive(Clone, Debug, Default)]
pub struct Lru {
    clock: u64,
    last_write: HashMap<u32, u64>,
    order: BTreeMap<u64, u32>,
}

impl Lru {
    /// An empty tier.
    pub fn new() -> Lru {
        Lru::default()
    }

    /// A chunk is written.
    pub fn write(&mut self, chunk: u32) -> Advice {
        if self.last_write.contains_key(&chunk) {
            self.arrived(chunk);
        }
        Advice::Move
    }

    /// The chunk written longest ago.
    pub fn victim(&self) -> Option<u32> {
        self.order.values().copied().find(|chunk| *chunk != 0)
    }

    /// A chunk is on the tier now, and was written last.
    pub fn arrived(&mut self, chunk: u32) {
        self.clock += 1;
        if let Some(before) = self.last_write.insert(chunk, self.clock) {
            self.order.remove(&before);
        }
        self.order.insert(self.clock, chunk);
    }

    /// A chunk is no longer on the tier.
    pub fn left(&mut self, chunk: u32) {
        if let Some(at) = self.last_write.remove(&chunk) {
            self.order.remove(&at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a list in order.
        #[test]
        fn it_evicts_what_was_written_longest_ago(writes in prop::collection::vec(0..12_u32, 1..200)) {
            let (mut lru, mut plain) = (Lru::new(), Vec::new());
            for chunk in writes {
                prop_assert_eq!(lru.write(chunk), Advice::Move);
                if let Some(place) = plain.iter().position(|held| *held == chunk) {
                    plain.remove(place);
                } else {
                    if plain.len() == 5 {
                        let place = plain.iter().position(|held| *held != 0).unwrap();
                        let victim = plain.remove(place);
                        prop_assert_eq!(lru.victim(), Some(victim));
                        lru.left(victim);
                    }
                    lru.arrived(chunk);
                }
                plain.push(chunk);
            }
        }
    }
}
