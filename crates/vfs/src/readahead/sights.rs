//! Where trees were entered lately: two children side by side begin a stream.
//!
//! One place is remembered for each parent. Children that are in memory are not reported, so the second child
//! may be a few places away, if those between are in memory.

use crate::readahead::Memory;
use crate::readahead::node::Node;
use crate::readahead::passed::Place;

/// Parents remembered.
const SIGHTS: usize = 16;
/// Places between two children that begin a stream, and one.
pub(super) const GAP: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Sight {
    place: Place,
    /// The children beside it; 0 where there is none.
    beside: [u32; 2],
}

/// Places, the most recently seen first.
#[derive(Debug, Default)]
pub(super) struct Sights {
    sights: Vec<Sight>,
}

/// Children of a parent, from slot `from` on, at most [`GAP`]; `None` if it is not in memory, or no parent.
fn children(parent: u32, from: usize, memory: &dyn Memory) -> Option<[u32; GAP]> {
    let mut found = None;
    memory.with(parent, &mut |bytes| {
        found = Node::interior(parent, bytes).map(|node| {
            let child = |place| node.child(from.saturating_add(place)).unwrap_or(0);
            std::array::from_fn(child)
        });
    });
    found
}

impl Sights {
    /// The page's place, if it is beside a child that was seen.
    pub fn beside(&self, page: u32) -> Option<Place> {
        self.sights.iter().find_map(|sight| {
            let Place { parent, slot } = sight.place;
            match sight.beside {
                [_, next] if next == page => Some(Place { parent, slot: slot.checked_add(1)? }),
                [previous, _] if previous == page => Some(Place { parent, slot: slot.checked_sub(1)? }),
                _ => None,
            }
        })
    }

    /// A child is wanted. Returns whether a stream begins there, and whether forward.
    pub fn see(&mut self, place: Place, memory: &dyn Memory) -> Option<bool> {
        let known = self.sights.iter().position(|sight| sight.place.parent == place.parent);
        let known = known.map(|known| self.sights.remove(known).place.slot);
        if let Some(slot) = known
            && slot != place.slot
            && is_step(place.parent, slot.min(place.slot), slot.max(place.slot), memory)
        {
            return Some(slot < place.slot);
        }
        let first = place.slot.saturating_sub(1);
        let around = children(place.parent, first, memory)?;
        let at = place.slot - first;
        let beside = [if at == 0 { 0 } else { around[0] }, around[at + 1]];
        self.sights.truncate(SIGHTS - 1);
        self.sights.insert(0, Sight { place, beside });
        None
    }
}

/// Whether all children between two slots are in memory, and few.
fn is_step(parent: u32, first: usize, last: usize, memory: &dyn Memory) -> bool {
    let between = last - first - 1;
    between == 0
        || between < GAP
            && children(parent, first + 1, memory)
                .is_some_and(|children| children[..between].iter().all(|child| memory.holds(*child)))
}
