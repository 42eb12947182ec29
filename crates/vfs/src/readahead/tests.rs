//! Pages built by hand, pages of random bytes, and pages with flipped bits.

use crate::readahead::node::{INDEX_INTERIOR, INDEX_LEAF, Node, TABLE_INTERIOR, TABLE_LEAF};
use crate::readahead::record::{last_integer, local_bytes, varint};
use crate::readahead::*;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

const PAGE_BYTES: usize = 1024;

/// A b-tree page with those cells.
fn page(kind: u8, cells: &[Vec<u8>], right: u32) -> Vec<u8> {
    let mut bytes = vec![0; PAGE_BYTES];
    bytes[0] = kind;
    bytes[3..5].copy_from_slice(&(cells.len() as u16).to_be_bytes());
    let mut pointers = 8;
    if matches!(kind, TABLE_INTERIOR | INDEX_INTERIOR) {
        bytes[8..12].copy_from_slice(&right.to_be_bytes());
        pointers = 12;
    }
    let mut end = PAGE_BYTES;
    for (slot, cell) in cells.iter().enumerate() {
        end -= cell.len();
        bytes[end..end + cell.len()].copy_from_slice(cell);
        bytes[pointers + 2 * slot..][..2].copy_from_slice(&(end as u16).to_be_bytes());
    }
    bytes
}

fn as_varint(value: u64) -> Vec<u8> {
    let mut bytes = vec![(value & 0x7f) as u8];
    let mut rest = value >> 7;
    while rest > 0 {
        bytes.insert(0, (rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    bytes
}

/// A table's interior page: children with the largest rowid of each, and the right-most child.
fn table_interior(children: &[(u32, u64)], right: u32) -> Vec<u8> {
    let cell = |(child, key): &(u32, u64)| [&child.to_be_bytes()[..], &as_varint(*key)].concat();
    page(TABLE_INTERIOR, &children.iter().map(cell).collect::<Vec<_>>(), right)
}

/// An index entry: a text of four bytes, and a rowid of two.
fn entry(rowid: i16) -> Vec<u8> {
    [&[9, 3, 21, 2][..], b"text", &rowid.to_be_bytes()].concat()
}

fn index_leaf(rowids: &[i16]) -> Vec<u8> {
    let cells: Vec<_> = rowids.iter().map(|rowid| [&[9][..], &entry(*rowid)[1..]].concat()).collect();
    page(INDEX_LEAF, &cells, 0)
}

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
    ahead.wanted(page, 1000, memory, &mut pages);
    pages
}

fn new() -> ReadAhead {
    ReadAhead::new(Config {
        usable_bytes: PAGE_BYTES as u32,
        memory_pages: 10_000,
        sweeps: Sweeps::Always,
        system_leads: false,
    })
}

#[test]
fn varints_are_read_as_sqlite_reads_them() {
    for (bytes, value) in [
        (&[0][..], Some((0, 1))),
        (&[0x7f, 9], Some((127, 1))),
        (&[0x81, 0], Some((128, 2))),
        (&[0x81, 0x80, 1], Some((16385, 3))),
        (&[0xff; 9], Some((u64::MAX, 9))),
        (&[0xff; 8], None),
        (&[0x80], None),
        (&[], None),
    ] {
        assert_eq!(varint(bytes), value, "{bytes:?}");
    }
}

#[test]
fn records_end_with_integers_or_not() {
    for (record, value) in [
        (&[2, 1, 5][..], Some(5)),
        (&[2, 1, 0xff], Some(-1)),
        (&[2, 8], Some(0)),
        (&[2, 9], Some(1)),
        (&[2, 0], None),
        (&[3, 13, 2, 0x80, 0], Some(-32768)),
        (&[3, 15, 3, b'a', 1, 0, 0], Some(65536)),
        (&[2, 4, 0x7f, 0xff, 0xff, 0xff], Some(0x7fff_ffff)),
        (&[2, 5, 0, 1, 0, 0, 0, 0], Some(1 << 32)),
        (&[2, 6, 0x80, 0, 0, 0, 0, 0, 0, 0], Some(i64::MIN)),
        (&[2, 7, 0, 0, 0, 0, 0, 0, 0, 0], None),
        (&[2, 15, b'x'], None),
        (&[2, 2, 1], None),
        (&[3, 10, 1, 5], None),
        (&[9, 1, 5], None),
        (&[0], None),
        (&[1], None),
        (&[], None),
    ] {
        assert_eq!(last_integer(record), value, "{record:?}");
    }
}

#[test]
fn payloads_leave_their_page_where_the_format_says() {
    for (payload, usable, table, local) in [
        (4061, 4096, true, 4061),
        (4062, 4096, true, 489),
        (4096 + 489 - 4, 4096, true, 489),
        (4096 + 489 + 100 - 4, 4096, true, 589),
        (1002, 4096, false, 1002),
        (1003, 4096, false, 489 + 514 - 514),
        (u64::MAX, 512, true, 39 + ((u64::MAX - 39) % 508) as usize),
    ] {
        assert_eq!(local_bytes(payload, usable, table), local, "{payload} of {usable}");
    }
}

#[test]
fn nodes_name_their_children() {
    let bytes = table_interior(&[(10, 100), (11, 200), (12, 300)], 13);
    let node = Node::interior(5, &bytes).unwrap();
    let children: Vec<_> = (0..5).map(|slot| node.child(slot)).collect();
    assert_eq!(children, [Some(10), Some(11), Some(12), Some(13), None]);
    assert_eq!([10, 13, 14].map(|child| node.slot_of(child)), [Some(0), Some(3), None]);
    for (rowid, child) in [(-5, 10), (100, 10), (101, 11), (300, 12), (301, 13)] {
        assert_eq!(node.child_for(rowid), Some(child), "{rowid}");
    }
    let rowids = [(None, Some(100)), (Some(100), Some(200)), (Some(200), Some(300)), (Some(300), None)];
    assert_eq!([0, 1, 2, 3].map(|slot| node.rowids(slot)), rowids);

    let bytes = index_leaf(&[7, -8]);
    let node = Node::new(6, &bytes).unwrap();
    assert_eq!([0, 1, 2].map(|slot| node.rowid(slot, PAGE_BYTES)), [Some(7), Some(-8), None]);
    assert!(Node::interior(6, &bytes).is_none());

    // Page 1 has its header behind the file's.
    let mut first = vec![0; 100];
    first.extend(&table_interior(&[(3, 1)], 4)[..PAGE_BYTES - 100]);
    assert!(Node::interior(1, &first).is_some_and(|node| node.child(1) == Some(4)));
}

#[test]
fn overflow_pages_belong_to_a_cell() {
    let cell = [&[0x8f, 0x50, 1][..], &[0; 489], &77u32.to_be_bytes()].concat();
    let mut bytes = vec![0; 4096];
    bytes[0] = TABLE_LEAF;
    bytes[4] = 1;
    bytes[8..10].copy_from_slice(&1000u16.to_be_bytes());
    // 2000 bytes fit on a page of 4096, and not on one of 1024.
    bytes[1000..1000 + cell.len()].copy_from_slice(&cell);
    let node = Node::new(9, &bytes).unwrap();
    assert_eq!(node.overflow_at(77, 4096), None);
    let least = (1024 - 12) * 32 / 255 - 23;
    let local = least + (2000 - least) % 1020;
    assert_eq!(local_bytes(2000, 1024, true), if local <= 989 { local } else { least });
    bytes[1003 + local..][..4].copy_from_slice(&78u32.to_be_bytes());
    let node = Node::new(9, &bytes).unwrap();
    assert_eq!(node.overflow_at(78, 1024), Some(2000 - local as u64));
    assert_eq!(node.overflow_at(79, 1024), None);
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
    for (name, wanted, expected) in [
        ("forward", [20, 131, 22], [&[][..], &[22, 133, 24, 135], &[]]),
        ("backward", [133, 22, 131], [&[], &[131, 20], &[]]),
        ("not neighbours", [20, 133, 26], [&[], &[], &[]]),
        ("the same again", [20, 20, 20], [&[], &[], &[]]),
        ("no children", [500, 501, 502], [&[], &[], &[]]),
    ] {
        let mut ahead = new();
        ahead.passed(5, TABLE_INTERIOR);
        let asked = wanted.map(|page| ahead_of(&mut ahead, page, &memory));
        assert_eq!(asked.each_ref().map(Vec::as_slice), expected, "{name}");
    }
}

#[test]
fn windows_double_and_end_with_the_tree() {
    let memory = tree();
    let mut ahead = new();
    ahead.passed(5, TABLE_INTERIOR);
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
    ahead.passed(5, TABLE_INTERIOR);
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
    ahead.passed(5, TABLE_INTERIOR);
    ahead.passed(7, INDEX_LEAF);
    assert!(ahead_of(&mut ahead, child(31), &memory).is_empty());
    assert_eq!(ahead_of(&mut ahead, child(11), &memory), [21, 51, 41, 2].map(child));
    assert!(ahead_of(&mut ahead, child(21), &memory).is_empty());
    assert_eq!(ahead_of(&mut ahead, child(51), &memory), [child(3)]);
    // Backward.
    let mut ahead = new();
    ahead.passed(5, TABLE_INTERIOR);
    ahead.passed(7, INDEX_LEAF);
    assert!(ahead_of(&mut ahead, child(51), &memory).is_empty());
    assert_eq!(ahead_of(&mut ahead, child(21), &memory), [11, 31, 1].map(child));
}

#[test]
fn a_connection_without_misses_is_small() {
    assert!(size_of::<ReadAhead>() <= 512, "{}", size_of::<ReadAhead>());
    assert!(size_of::<Mind>() <= 2048, "{}", size_of::<Mind>());
    assert!(size_of::<stream::Stream>() <= 256, "{}", size_of::<stream::Stream>());
}

/// What goes in, for a page number and a first byte: `true` passes, `false` is wanted.
type Calls = Vec<(bool, u32, u8)>;

fn calls() -> impl Strategy<Value = Calls> {
    let kind = prop::sample::select(vec![TABLE_INTERIOR, INDEX_INTERIOR, INDEX_LEAF, TABLE_LEAF, 0, 0xff]);
    prop::collection::vec((any::<bool>(), 0u32..40, kind), 1..300)
}

/// Whatever happens, pages lie inside the file and windows have a limit.
fn keep_the_limits(calls: Calls, memory: &Pages, usable_bytes: u32) -> Result<(), TestCaseError> {
    let mut ahead = ReadAhead::new(Config {
        usable_bytes,
        memory_pages: 10_000,
        sweeps: Sweeps::Always,
        system_leads: false,
    });
    for (passes, page, kind) in calls {
        if passes {
            ahead.passed(page, kind);
            continue;
        }
        let mut pages = vec![];
        ahead.wanted(page, 30, memory, &mut pages);
        prop_assert!(pages.iter().all(|asked| (2..=30).contains(asked) && *asked != page), "{:?}", pages);
        prop_assert!(pages.len() <= 600);
        while let Some(swept) = ahead.sweep(30) {
            prop_assert!(swept.start >= 1 && swept.end <= 31, "{:?}", swept);
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
                ahead.wanted(*page, 100 + leaves, &memory, &mut asked);
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
            ahead.passed(*page, memory.0[page][0]);
        }
        prop_assert!(waited <= 6, "{} waited for", waited);
        prop_assert_eq!(read, 1 + parents + leaves);
    }
}
