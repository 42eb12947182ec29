//! Readahead as a whole, over pages built by hand, pages of random bytes, and pages with flipped bits.

use crate::readahead::btree_node::tests::{PAGE_BYTES, entry, index_leaf, page, table_interior};
use crate::readahead::planner::Planner;
use crate::readahead::stream::Stream;
use crate::readahead::*;
use litefoot_format::page::{INDEX_INTERIOR, INDEX_LEAF, TABLE_INTERIOR, TABLE_LEAF};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

/// Pages in memory.
#[derive(Default)]
struct Pages(HashMap<u32, Vec<u8>>);

impl Memory for Pages {
    fn with(&self, page: u32, look: &mut dyn FnMut(&[u8])) -> bool {
        self.0.get(&page).map(|bytes| look(bytes)).is_some()
    }
}

fn ahead_of(ahead: &mut ReadAhead, page: u32, memory: &dyn Memory) -> Vec<u32> {
    let mut pages = vec![];
    ahead.plan(page, 1000, memory, &mut pages);
    pages
}

fn new() -> ReadAhead {
    ReadAhead::new(Config {
        usable_bytes: PAGE_BYTES as u32,
        memory_pages: 10_000,
        full_file_mode: FullFileMode::Always,
        system_reads_ahead: false,
    })
}

/// Page 5 has the children 20, 31, 22, 33, …: neighbours in the tree are none in the file.
fn tree() -> Pages {
    let child = |slot: u32| if slot.is_multiple_of(2) { 20 + slot } else { 130 + slot };
    let children: Vec<_> = (0..60).map(|slot| (child(slot), u64::from(slot) * 10)).collect();
    let mut pages = Pages::default();
    pages.0.insert(5, table_interior(&children[..59], child(59)));
    pages
}

#[test]
fn two_neighbours_begin_a_stream() {
    let memory = tree();
    for (name, demanded, requests) in [
        ("forward", [20, 131, 22], [&[][..], &[22, 133, 24, 135], &[]]),
        ("backward", [133, 22, 131], [&[], &[131, 20], &[]]),
        ("not neighbours", [20, 133, 26], [&[], &[], &[]]),
        ("the same again", [20, 20, 20], [&[], &[], &[]]),
        ("no children", [500, 501, 502], [&[], &[], &[]]),
    ] {
        let mut ahead = new();
        ahead.note_passed(5, TABLE_INTERIOR);
        let asked = demanded.map(|page| ahead_of(&mut ahead, page, &memory));
        assert_eq!(asked.each_ref().map(Vec::as_slice), requests, "{name}");
    }
}

#[test]
fn windows_double_and_end_with_the_tree() {
    let memory = tree();
    let mut ahead = new();
    ahead.note_passed(5, TABLE_INTERIOR);
    let child = |slot: u32| if slot.is_multiple_of(2) { 20 + slot } else { 130 + slot };
    let mut asked = vec![];
    let mut sizes = vec![];
    for slot in 0..60 {
        let more = ahead_of(&mut ahead, child(slot), &memory);
        sizes.extend((!more.is_empty()).then_some((slot, more.len())));
        asked.extend(more);
    }
    assert_eq!(asked, (2..60).map(child).collect::<Vec<_>>());
    assert_eq!(sizes, [(1, 4), (3, 6), (7, 12), (15, 24), (31, 12)]);
}

#[test]
fn children_in_memory_are_neither_counted_nor_asked_for() {
    let mut memory = tree();
    for child in [131, 22, 24] {
        memory.0.insert(child, vec![0; PAGE_BYTES]);
    }
    let mut ahead = new();
    ahead.note_passed(5, TABLE_INTERIOR);
    assert!(ahead_of(&mut ahead, 20, &memory).is_empty());
    assert_eq!(ahead_of(&mut ahead, 133, &memory), [135, 26, 137, 28]);
}

#[test]
fn rows_of_neighbouring_entries_begin_a_stream() {
    let mut memory = tree();
    // Rowids 1 to 10 are on the second child, 11 to 20 on the third, and so on.
    memory.0.insert(7, index_leaf(&[5, 305, 105, 205, 505, 405, 405, 406, 15, 25]));
    let child = |slot: u32| if slot.is_multiple_of(2) { 20 + slot } else { 130 + slot };
    let mut ahead = new();
    ahead.note_passed(5, TABLE_INTERIOR);
    ahead.note_passed(7, INDEX_LEAF);
    assert!(ahead_of(&mut ahead, child(31), &memory).is_empty());
    assert_eq!(ahead_of(&mut ahead, child(11), &memory), [21, 51, 41, 2].map(child));
    assert!(ahead_of(&mut ahead, child(21), &memory).is_empty());
    assert_eq!(ahead_of(&mut ahead, child(51), &memory), [child(3)]);
    // Backward.
    let mut ahead = new();
    ahead.note_passed(5, TABLE_INTERIOR);
    ahead.note_passed(7, INDEX_LEAF);
    assert!(ahead_of(&mut ahead, child(51), &memory).is_empty());
    assert_eq!(ahead_of(&mut ahead, child(21), &memory), [11, 31, 1].map(child));
}

#[test]
fn a_connection_without_misses_is_small() {
    assert!(size_of::<ReadAhead>() <= 512, "{}", size_of::<ReadAhead>());
    assert!(size_of::<Planner>() <= 2048, "{}", size_of::<Planner>());
    assert!(size_of::<Stream>() <= 256, "{}", size_of::<Stream>());
}

/// Calls with a page number and a first byte: `true` passes, `false` is demanded.
type Calls = Vec<(bool, u32, u8)>;

fn calls() -> impl Strategy<Value = Calls> {
    let kind = prop::sample::select(vec![TABLE_INTERIOR, INDEX_INTERIOR, INDEX_LEAF, TABLE_LEAF, 0, 0xff]);
    prop::collection::vec((any::<bool>(), 0u32..40, kind), 1..300)
}

/// Checks that requested pages lie inside the file, and that windows keep their limit.
fn keep_the_limits(calls: Calls, memory: &Pages, usable_bytes: u32) -> Result<(), TestCaseError> {
    let mut ahead = ReadAhead::new(Config {
        usable_bytes,
        memory_pages: 10_000,
        full_file_mode: FullFileMode::Always,
        system_reads_ahead: false,
    });
    for (passes, page, kind) in calls {
        if passes {
            ahead.note_passed(page, kind);
            continue;
        }
        let mut pages = vec![];
        ahead.plan(page, 30, memory, &mut pages);
        prop_assert!(pages.iter().all(|asked| (2..=30).contains(asked) && *asked != page), "{:?}", pages);
        prop_assert!(pages.len() <= 600);
        while let Some(range) = ahead.next_full_file_range(30) {
            prop_assert!(range.start >= 1 && range.end <= 31, "{:?}", range);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn pages_of_random_bytes_do_no_harm(
        pages in prop::collection::hash_map(0u32..30, prop::collection::vec(any::<u8>(), 0..600), 0..30),
        kinds in prop::collection::vec(0usize..5, 30),
        calls in calls(),
        usable in 0u32..700,
    ) {
        let mut memory = Pages(pages);
        for (number, bytes) in &mut memory.0 {
            // Most pages look like nodes, with children among the others.
            let kind = [TABLE_INTERIOR, INDEX_INTERIOR, INDEX_LEAF, TABLE_LEAF].get(kinds[*number as usize]);
            if let (Some(first), Some(kind)) = (bytes.first_mut(), kind) {
                *first = *kind;
            }
            for four in bytes.chunks_exact_mut(4).skip(3) {
                if four[3] % 2 == 0 {
                    four.copy_from_slice(&(u32::from(four[3]) % 32).to_be_bytes());
                }
            }
        }
        keep_the_limits(calls, &memory, usable)?;
    }

    #[test]
    fn flipped_bits_do_no_harm(
        flips in prop::collection::vec((2u32..12, 0usize..PAGE_BYTES * 8), 0..40), calls in calls(),
    ) {
        let mut memory = Pages::default();
        let children = |from: u32| (from..from + 5).map(|child| (child, u64::from(child) * 10)).collect::<Vec<_>>();
        memory.0.insert(2, table_interior(&[(3, 150), (4, 220)], 5));
        memory.0.insert(3, table_interior(&children(10), 16));
        memory.0.insert(4, table_interior(&children(17), 23));
        memory.0.insert(6, page(INDEX_INTERIOR, &[[&7u32.to_be_bytes()[..], &entry(100)].concat()], 8));
        memory.0.insert(7, index_leaf(&[120, 200, 130, 210, 140, 220]));
        memory.0.insert(8, index_leaf(&[105, 215, 115, 225]));
        for (page, bit) in flips {
            if let Some(bytes) = memory.0.get_mut(&page) {
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
        keep_the_limits(calls, &memory, PAGE_BYTES as u32)?;
    }

    /// A scan of a tree of any shape, of any order in the file, waits for few pages and reads none twice.
    #[test]
    fn scans_of_any_tree_are_found(fanout in 8u32..60, parents in 2u32..20, seed in any::<u64>(), back in any::<bool>()) {
        let leaves = fanout * parents;
        let mut numbers: Vec<u32> = (100..100 + leaves).collect();
        let mut state = seed | 1;
        for last in (1..numbers.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            numbers.swap(last, (state >> 33) as usize % (last + 1));
        }
        let interior = |children: &[u32]| {
            let (last, others) = children.split_last().unwrap();
            table_interior(&others.iter().map(|child| (*child, 1)).collect::<Vec<_>>(), *last)
        };
        let tops: Vec<u32> = (10..10 + parents).collect();
        let mut file: HashMap<u32, Vec<u8>> = HashMap::from([(2, interior(&tops))]);
        let mut order = vec![];
        for (top, children) in tops.iter().zip(numbers.chunks(fanout as usize)) {
            file.insert(*top, interior(children));
            let mut walk = children.to_vec();
            if back { walk.reverse(); }
            order.push((*top, walk));
        }
        if back { order.reverse(); }
        let mut memory = Pages::default();
        let (mut ahead, mut fresh, mut waited, mut read) = (new(), HashSet::new(), 0, 0);
        let pages = order.iter().flat_map(|(top, children)| std::iter::once(top).chain(children));
        for page in std::iter::once(&2).chain(pages) {
            let is_fresh = fresh.remove(page);
            if is_fresh || !memory.0.contains_key(page) {
                let mut asked = vec![];
                ahead.plan(*page, 100 + leaves, &memory, &mut asked);
                waited += u32::from(!is_fresh);
                read += u32::from(!is_fresh);
                let load = |page: &u32| file.get(page).cloned().unwrap_or_else(|| vec![TABLE_LEAF; PAGE_BYTES]);
                memory.0.insert(*page, load(page));
                for page in asked {
                    if memory.holds(page) {
                        continue;
                    }
                    memory.0.insert(page, load(&page));
                    fresh.insert(page);
                    read += 1;
                }
            }
            ahead.note_passed(*page, memory.0[page][0]);
        }
        prop_assert!(waited <= 6, "{} waited for", waited);
        prop_assert_eq!(read, 1 + parents + leaves);
    }
}
