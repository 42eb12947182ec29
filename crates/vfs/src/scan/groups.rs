//! The groups that one thread has met: a hash table of keys, with the states of the aggregates beside them.

use super::aggregate::{State, same_key};
use super::plan::Aggregation;
use super::record::{Odd, Row};
use super::value::{Collation, compare, hash};
use crate::ffi::statement::Owned;
use crate::ffi::statement::Value;

/// Most bytes that the groups of one thread take.
const MOST_BYTES: usize = 64 << 20;
const TOO_MANY: Odd = "the groups take too much memory";

/// No group, in the table of places.
const NONE: u32 = u32::MAX;

/// The keys of a group, and its aggregates.
type Group = (Vec<Owned>, Vec<Owned>);

pub(super) struct Groups {
    /// By the low bits of the hash: the number of a group.
    places: Vec<u32>,
    hashes: Vec<u64>,
    /// The keys of all groups, one group after the other; so are the states.
    keys: Vec<Owned>,
    states: Vec<State>,
    /// States of a group that no row is in.
    empty: Vec<State>,
    key_count: usize,
    bytes: usize,
}

impl Groups {
    pub(super) fn new(aggregation: &Aggregation) -> Groups {
        Groups {
            places: vec![NONE; 64],
            hashes: Vec::new(),
            keys: Vec::new(),
            states: Vec::new(),
            empty: aggregation.states(),
            key_count: aggregation.keys.len(),
            bytes: 0,
        }
    }

    /// The states of the group that a row belongs to.
    #[inline]
    pub(super) fn of_row(&mut self, row: &Row<'_>, keys: &[usize]) -> Result<&mut [State], Odd> {
        let hash = keys.iter().fold(0, |so_far, slot| hash(so_far, row.value(*slot)));
        self.group(hash, |key| row.value(keys[key]))
    }

    fn group<'v>(&mut self, hash: u64, key: impl Fn(usize) -> Value<'v>) -> Result<&mut [State], Odd> {
        let mask = self.places.len() - 1;
        let mut place = hash as usize & mask;
        let number = loop {
            let number = self.places[place];
            if number == NONE {
                break self.add(place, hash, key)?;
            }
            let number = number as usize;
            if self.hashes[number] == hash && self.is_group(number, &key)? {
                break number;
            }
            place = (place + 1) & mask;
        };
        let width = self.empty.len();
        Ok(&mut self.states[number * width..(number + 1) * width])
    }

    fn is_group<'v>(&self, number: usize, key: impl Fn(usize) -> Value<'v>) -> Result<bool, Odd> {
        let keys = &self.keys[number * self.key_count..(number + 1) * self.key_count];
        for (place, own) in keys.iter().enumerate() {
            if !same_key(own.as_value(), key(place))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    #[cold]
    fn add<'v>(&mut self, place: usize, hash: u64, key: impl Fn(usize) -> Value<'v>) -> Result<usize, Odd> {
        let number = self.hashes.len();
        self.hashes.push(hash);
        self.keys.extend((0..self.key_count).map(|place| Owned::from(key(place))));
        self.states.extend_from_slice(&self.empty);
        let keys = self.keys[number * self.key_count..].iter().map(Owned::bytes).sum::<usize>();
        self.bytes += keys + self.empty.iter().map(State::bytes).sum::<usize>() + 2 * size_of::<u64>();
        if self.bytes > MOST_BYTES {
            return Err(TOO_MANY);
        }
        self.places[place] = number as u32;
        if self.hashes.len() * 2 > self.places.len() {
            self.grow();
        }
        Ok(number)
    }

    fn grow(&mut self) {
        let mask = self.places.len() * 2 - 1;
        self.places.clear();
        self.places.resize(mask + 1, NONE);
        for (number, hash) in self.hashes.iter().enumerate() {
            let mut place = *hash as usize & mask;
            while self.places[place] != NONE {
                place = (place + 1) & mask;
            }
            self.places[place] = number as u32;
        }
    }

    /// Takes over the groups of another thread.
    pub(super) fn merge(&mut self, other: &Groups) -> Result<(), Odd> {
        let width = self.empty.len();
        for (number, hash) in other.hashes.iter().enumerate() {
            let keys = &other.keys[number * self.key_count..(number + 1) * self.key_count];
            let own = self.group(*hash, |key| keys[key].as_value())?;
            for (own, more) in own.iter_mut().zip(&other.states[number * width..]) {
                own.merge(more)?;
            }
        }
        Ok(())
    }

    /// The groups in the order of their keys: keys and aggregates.
    pub(super) fn finish(self) -> Result<Vec<Group>, Odd> {
        let width = self.empty.len();
        let (mut keys, mut states) = (self.keys.into_iter(), self.states.into_iter());
        let mut groups = Vec::with_capacity(self.hashes.len());
        for _ in 0..self.hashes.len() {
            let keys: Vec<Owned> = keys.by_ref().take(self.key_count).collect();
            let values = states.by_ref().take(width).map(State::finish).collect::<Result<_, _>>()?;
            groups.push((keys, values));
        }
        groups.sort_unstable_by(|(one, _), (other, _)| {
            let orders = one.iter().zip(other);
            orders
                .map(|(one, other)| compare(one.as_value(), other.as_value(), Collation::Binary))
                .find(|order| order.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        Ok(groups)
    }
}
