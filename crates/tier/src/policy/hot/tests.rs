use super::*;
use crate::policy::section::Section;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn hot_chunks_of(capacity: usize) -> HotChunks {
    HotChunks::new(capacity, Period::default(), Latencies::default())
}

/// A period in which each chunk is written by as many transactions as is said.
fn period(hot: &mut HotChunks, writes: &[(u32, u32)]) {
    for transaction in 0..hot.period.transactions {
        for (chunk, count) in writes {
            if transaction < *count {
                hot.write(*chunk);
            }
        }
        hot.end_transaction();
    }
}

#[test]
fn a_hot_chunk_moves_when_it_is_next_written_and_not_before() {
    let mut hot = hot_chunks_of(4);
    period(&mut hot, &[(7, 5), (9, 1)]);
    assert_eq!(hot.table().get(7).place, Place::Change);
    assert_eq!((hot.write(7), hot.write(8)), (Advice::Move, Advice::Stay));
    hot.arrived(7);
    assert_eq!((hot.table().get(7).place, hot.write(7)), (Place::Tier, Advice::Stay));
}

#[test]
fn old_marks_are_cleared() {
    let mut hot = hot_chunks_of(1);
    period(&mut hot, &[(7, 5)]);
    assert_eq!(hot.table().get(7).place, Place::Change);
    period(&mut hot, &[(8, 5)]);
    assert_eq!((hot.table().get(7).place, hot.table().get(8).place), (Place::Flash, Place::Change));
}

#[test]
fn a_transaction_counts_once() {
    let mut hot = hot_chunks_of(4);
    (0..9).for_each(|_| _ = hot.write(3));
    assert_eq!(hot.table().get(3).writes, 1);
    hot.end_transaction();
    hot.write(3);
    assert_eq!(hot.table().get(3).writes, 2);
}

#[test]
fn victims_have_the_least_count_then_the_least_ewma_then_the_lowest_number() {
    let mut hot = hot_chunks_of(8);
    period(&mut hot, &[(0, 5), (1, 3), (2, 3), (3, 4), (4, 2)]);
    (0..=4).for_each(|chunk| hot.arrived(chunk));
    // Chunk 0 is none, whatever its count.
    let mut order = Vec::new();
    hot.write(4);
    while let Some(victim) = hot.victim() {
        order.push(victim);
        hot.left(victim);
    }
    assert_eq!(order, [1, 2, 3, 4]);
}

#[test]
fn the_end_of_a_period_costs_what_was_touched() {
    let mut hot = hot_chunks_of(8);
    hot.write(1_000_000);
    hot.end_transaction();
    for _ in 0..22 {
        period(&mut hot, &[(5, 1)]);
    }
    assert_eq!(hot.chunks.active(), [5]);
    assert_eq!(hot.table().get(1_000_000).ewma, SmallFloat::ZERO);
}

#[test]
fn what_is_cut_off_is_forgotten() {
    let mut hot = hot_chunks_of(8);
    period(&mut hot, &[(1, 5), (2, 5), (3, 5)]);
    hot.arrived(1);
    hot.arrived(3);
    hot.write(3);
    hot.cut(2);
    assert_eq!((hot.victim(), hot.chunks.active(), hot.marked.len()), (Some(1), &[1][..], 0));
    assert_eq!(hot.write(3), Advice::Stay);
    hot.left(1);
    assert_eq!(hot.victim(), None);
}

/// The policy as the paper tells it: a table that is walked as a whole.
struct Naive {
    sections: BTreeMap<u32, Section>,
    capacity: usize,
    transactions: u32,
    written: HashSet<u32>,
}

impl Naive {
    fn write(&mut self, chunk: u32) -> Advice {
        let section = self.sections.entry(chunk).or_insert(Section {
            place: Place::Flash,
            writes: 0,
            ewma: SmallFloat::ZERO,
        });
        section.writes += u8::from(self.written.insert(chunk));
        if section.place == Place::Change { Advice::Move } else { Advice::Stay }
    }

    fn victim(&self) -> Option<u32> {
        let residents = self.sections.iter().filter(|(chunk, s)| s.place == Place::Tier && **chunk != 0);
        residents.min_by_key(|(chunk, s)| (s.writes, s.ewma, **chunk)).map(|(chunk, _)| *chunk)
    }

    fn used(&self) -> usize {
        self.sections.values().filter(|section| section.place == Place::Tier).count()
    }

    fn end_transaction(&mut self) {
        self.written.clear();
        self.transactions += 1;
        if !self.transactions.is_multiple_of(5) {
            return;
        }
        for section in self.sections.values_mut() {
            section.ewma = SmallFloat::new(expected(2.0 / 3.0, section.writes, section.ewma.value()));
            section.writes = 0;
            if section.place == Place::Change {
                section.place = Place::Flash;
            }
        }
        let mut order: Vec<u32> = self.sections.keys().copied().collect();
        order.sort_by(|a, b| self.sections[b].ewma.cmp(&self.sections[a].ewma).then(a.cmp(b)));
        let latencies = Latencies::default();
        let free = self.capacity - self.used();
        let gain = |tau: usize| {
            let writes: f64 = order[..tau].iter().map(|chunk| self.sections[chunk].ewma.value()).sum();
            let arriving =
                order[..tau].iter().filter(|chunk| self.sections[chunk].place != Place::Tier).count();
            (latencies.flash_write_us - latencies.tier_write_us) * writes
                - (latencies.tier_read_us + latencies.flash_write_us) * arriving.saturating_sub(free) as f64
        };
        let mut tau = 0;
        for other in 1..=order.len().min(self.capacity) {
            if gain(other) > gain(tau) {
                tau = other;
            }
        }
        for chunk in &order[..tau] {
            if let Some(section) =
                self.sections.get_mut(chunk).filter(|section| section.place == Place::Flash)
            {
                section.place = Place::Change;
            }
        }
    }
}

proptest! {
    #[test]
    fn it_agrees_with_a_table_that_is_walked_as_a_whole(
        transactions in prop::collection::vec(prop::collection::vec((0..20_u32, 0..4_u32), 0..8), 1..120),
        capacity in 1..8_usize,
    ) {
        let mut hot = hot_chunks_of(capacity);
        let mut naive =
            Naive { sections: BTreeMap::new(), capacity, transactions: 0, written: HashSet::new() };
        for transaction in transactions {
            for (chunk, skew) in transaction {
                let chunk = chunk >> skew;
                let advice = hot.write(chunk);
                prop_assert_eq!(advice, naive.write(chunk));
                if advice == Advice::Move {
                    if naive.used() == capacity {
                        prop_assert_eq!(hot.victim(), naive.victim());
                        let Some(victim) = hot.victim() else { continue };
                        hot.left(victim);
                        naive.sections.get_mut(&victim).unwrap().place = Place::Flash;
                    }
                    hot.arrived(chunk);
                    naive.sections.get_mut(&chunk).unwrap().place = Place::Tier;
                }
            }
            hot.end_transaction();
            naive.end_transaction();
            hot.chunks.check();
            for (chunk, section) in &naive.sections {
                prop_assert_eq!(hot.table().get(*chunk), *section, "chunk {}", chunk);
            }
        }
    }
}
