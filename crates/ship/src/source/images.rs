//! Pages as they were at the last delivery, for a sink that compares both sides.
//!
//! The database has only the newest pages. A sink says of each page, by a rule, how much it wants the page back at the next delivery; what
//! has no room is gone, and the sink has to do without.

use std::collections::{HashMap, VecDeque};

/// How much a page is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Always, without a limit: pages by which others are found.
    Always,
    /// While there is room.
    WithRoom,
    /// Never.
    No,
}

/// The rule of a sink: a page by its number and its bytes.
pub type KeepRule = fn(page: u32, data: &[u8]) -> Keep;

/// Pages of the last delivery, in bounded memory.
pub struct Images {
    rule: KeepRule,
    room_bytes: usize,
    always: HashMap<u32, Box<[u8]>>,
    others: HashMap<u32, Box<[u8]>>,
    /// The order in which pages were noted, oldest first. A page that was noted again stands here several times.
    order: VecDeque<u32>,
    used_bytes: usize,
}

impl Images {
    /// Keeps pages by a rule, and so many bytes of those that need room.
    pub fn new(rule: KeepRule, room_bytes: usize) -> Images {
        let [always, others] = [HashMap::new(), HashMap::new()];
        Images { rule, room_bytes, always, others, order: VecDeque::new(), used_bytes: 0 }
    }

    /// The same rule and room, and no page.
    pub fn emptied(&self) -> Images {
        Images::new(self.rule, self.room_bytes)
    }

    /// A page as it was, where it was kept.
    pub fn get(&self, page: u32) -> Option<&[u8]> {
        self.always.get(&page).or_else(|| self.others.get(&page)).map(|data| &**data)
    }

    /// Notes a page of this delivery.
    pub fn note(&mut self, page: u32, data: &[u8]) {
        self.forget(page);
        match (self.rule)(page, data) {
            Keep::No => {}
            Keep::Always => {
                self.always.insert(page, data.into());
            }
            Keep::WithRoom => {
                self.others.insert(page, data.into());
                self.order.push_back(page);
                self.used_bytes += data.len();
                self.make_room();
            }
        }
    }

    /// Forgets the pages behind a new end of the database.
    pub fn truncate(&mut self, pages: u32) {
        self.always.retain(|page, _| *page <= pages);
        self.others.retain(|page, _| *page <= pages);
        self.used_bytes = self.others.values().map(|data| data.len()).sum();
        self.order.retain(|page| *page <= pages);
    }

    fn forget(&mut self, page: u32) {
        self.always.remove(&page);
        if let Some(data) = self.others.remove(&page) {
            self.used_bytes -= data.len();
            self.order.retain(|other| *other != page);
        }
    }

    fn make_room(&mut self) {
        while self.used_bytes > self.room_bytes {
            let Some(oldest) = self.order.pop_front() else { break };
            if let Some(data) = self.others.remove(&oldest) {
                self.used_bytes -= data.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(_: u32, data: &[u8]) -> Keep {
        match data[0] {
            0 => Keep::No,
            1 => Keep::Always,
            _ => Keep::WithRoom,
        }
    }

    #[test]
    fn what_is_wanted_always_stays_and_the_oldest_of_the_others_goes() {
        let mut images = Images::new(rule, 300);
        images.note(1, &[1; 100]);
        (2..=5).for_each(|page| images.note(page, &[9; 100]));
        images.note(6, &[0; 100]);
        let kept = |images: &Images| (1..=6).filter(|page| images.get(*page).is_some()).collect::<Vec<_>>();
        assert_eq!(kept(&images), [1, 3, 4, 5]);
        images.note(3, &[8; 100]);
        images.note(2, &[9; 100]);
        assert_eq!((kept(&images), images.get(3)), (vec![1, 2, 3, 5], Some([8; 100].as_slice())));
        images.note(1, &[0; 100]);
        images.truncate(2);
        assert_eq!((kept(&images), images.used_bytes), (vec![2], 100));
    }
}
