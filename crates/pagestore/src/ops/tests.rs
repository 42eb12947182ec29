mod ahead;
mod edge_lists;

use super::graph::{Graph, Order, Search, Text, load, rmat};
use super::*;
use crate::task::{Config, Workers};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::io::BufReader;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Pages in memory, with gaps between their numbers, that count how many are held at once.
struct Memory {
    page_bytes: usize,
    pages: Mutex<BTreeMap<u64, Box<[u8]>>>,
    held: AtomicUsize,
    most_held: AtomicUsize,
}

struct Pinned<'a> {
    bytes: Box<[u8]>,
    held: &'a AtomicUsize,
}

impl Deref for Pinned<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, thiserror::Error)]
#[error("page {0} does not exist")]
struct Missing(u64);

impl Memory {
    fn new(page_bytes: usize) -> Memory {
        let pages = Mutex::default();
        Memory { page_bytes, pages, held: AtomicUsize::new(0), most_held: AtomicUsize::new(0) }
    }

    fn pages(&self) -> MutexGuard<'_, BTreeMap<u64, Box<[u8]>>> {
        self.pages.lock().unwrap()
    }

    fn extents(&self) -> Extents {
        self.pages().keys().copied().collect()
    }

    fn bytes(&self) -> Vec<u8> {
        self.pages().values().flat_map(|page| page.to_vec()).collect()
    }
}

impl Pages for Memory {
    type Guard<'a> = Pinned<'a>;

    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn page(&self, page: u64) -> Result<Pinned<'_>> {
        let bytes = self.pages().get(&page).ok_or_else(|| Error::pages(Missing(page)))?.clone();
        let held = self.held.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_held.fetch_max(held, Ordering::Relaxed);
        Ok(Pinned { bytes, held: &self.held })
    }
}

impl PagesMut for Memory {
    fn allocate(&self, count: u64) -> Result<Extents> {
        let mut pages = self.pages();
        // Every ninth number is nobody's, as the allocation table's pages are.
        let last = pages.last_key_value().map_or(0, |(page, _)| *page);
        let new: Extents = (last + 1..).filter(|page| !page.is_multiple_of(9)).take(count as usize).collect();
        for page in new.ranges().iter().cloned().flatten() {
            pages.insert(page, vec![0; self.page_bytes].into());
        }
        Ok(new)
    }

    fn update(&self, page: u64, change: &mut dyn FnMut(&mut [u8])) -> Result<()> {
        change(self.pages().get_mut(&page).ok_or_else(|| Error::pages(Missing(page)))?);
        Ok(())
    }
}

fn workers(threads: usize) -> Workers {
    Workers::start(Config::with_threads(threads)).unwrap()
}

fn random_pages(count: u64) -> Memory {
    let memory = Memory::new(4096);
    let mut state = 88_172_645_463_325_252u64;
    for page in memory.allocate(count).unwrap().ranges().iter().cloned().flatten() {
        memory
            .update(page, &mut |bytes| {
                for byte in bytes {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    *byte = (state >> 32) as u8;
                }
            })
            .unwrap();
    }
    memory
}

#[test]
fn scans_count_what_a_plain_loop_counts() {
    for (pages, threads) in [(0, 1), (1, 2), (100, 1), (100, 3)] {
        let (memory, workers) = (random_pages(pages), workers(threads));
        let extents = memory.extents();
        let values: Vec<u32> = memory
            .bytes()
            .chunks_exact(4)
            .map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()))
            .collect();
        for threshold in [0, 1 << 31, u32::MAX - 1, u32::MAX] {
            let expected = values.iter().filter(|value| **value > threshold).count() as u64;
            assert_eq!(scan(&workers, &memory, &extents, threshold).unwrap(), expected);
        }
        let range = 1_000_000..=3_000_000_000u32;
        let matching: Vec<u32> = values.iter().copied().filter(|value| range.contains(value)).collect();
        let expected = Filtered {
            count: matching.len() as u64,
            sum: matching.iter().copied().map(u64::from).sum(),
            min: matching.iter().copied().min(),
            max: matching.iter().copied().max(),
        };
        assert_eq!(filter(&workers, &memory, &extents, range).unwrap(), expected);
    }
}

#[test]
fn groups_have_64_bit_counts() {
    let (memory, workers) = (random_pages(80), workers(2));
    let mut expected = [0u64; 256];
    memory.bytes().iter().for_each(|byte| expected[usize::from(*byte)] += 1);
    // More than the eight bits that the original counted in.
    assert!(expected.iter().all(|count| *count > 255));
    assert_eq!(group_by(&workers, &memory, &memory.extents()).unwrap(), expected);
}

#[test]
fn the_join_builds_on_the_first_sixteenth_only() {
    for pages in [1u64, 16, 17, 90] {
        let (memory, workers) = (random_pages(pages), workers(3));
        let bytes = memory.bytes();
        let rows: Vec<(u8, u8)> = bytes.chunks_exact(2).map(|row| (row[0], row[1])).collect();
        let (build, probe) = rows.split_at(pages.div_ceil(16) as usize * 2048);
        let mut expected: BTreeMap<u8, Join> = BTreeMap::new();
        for key in (0..=255u8).filter(|key| key % 2 == 0) {
            let built = build.iter().filter(|row| row.0 == key).count() as u64;
            let matching: Vec<u128> =
                probe.iter().filter(|row| row.0 == key).map(|row| u128::from(row.1)).collect();
            if built > 0 && !matching.is_empty() {
                let pairs = built * matching.len() as u64;
                let sum = u128::from(built) * matching.iter().sum::<u128>();
                expected.insert(key, Join { pairs, sum });
            }
        }
        assert_eq!(hash_join(&workers, &memory, &memory.extents()).unwrap(), expected, "{pages} pages");
    }
}

#[test]
fn an_unreadable_page_is_an_error_and_not_a_result() {
    let (memory, workers) = (random_pages(50), workers(2));
    let extents = memory.extents();
    memory.pages().remove(&22);
    let error = scan(&workers, &memory, &extents, 0).unwrap_err();
    assert_eq!(error.to_string(), "page 22 does not exist");
}

/// A graph as plain lists.
struct Plain {
    neighbors: Vec<Vec<u64>>,
}

impl Plain {
    fn of(text: &str) -> Plain {
        let mut pairs = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
            .map(|line| line.split_whitespace().map(|word| word.parse::<u64>().unwrap()).collect::<Vec<_>>());
        let nodes = pairs.next().unwrap()[0];
        let mut neighbors = vec![Vec::new(); nodes as usize];
        pairs.for_each(|pair| neighbors[pair[0] as usize].push(pair[1]));
        Plain { neighbors }
    }

    /// The plainest search there is: a queue.
    fn depths(&self, start: u64) -> BTreeMap<u64, u64> {
        let mut depths = BTreeMap::from([(start, 0)]);
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for neighbor in &self.neighbors[node as usize] {
                if !depths.contains_key(neighbor) {
                    depths.insert(*neighbor, depths[&node] + 1);
                    queue.push_back(*neighbor);
                }
            }
        }
        depths
    }
}

fn text_of(edges: &[(u64, u64)], nodes: u64) -> String {
    let lines = edges.iter().map(|(source, target)| format!("{source} {target}\n"));
    format!("{nodes} {}\n{}", edges.len(), lines.collect::<String>())
}

fn load_text(memory: &Memory, text: &str, order: Order) -> Result<u64> {
    let mut text = Text::new(BufReader::new(text.as_bytes()), Path::new("g.txt"))?;
    Ok(load(memory, &mut text, order, &mut |_| Ok(()))?.metadata_page)
}

/// Depths by the operator.
fn found_depths(workers: &Workers, graph: &Graph<'_, Memory>, start: u64) -> BTreeMap<u64, u64> {
    let mut depths = BTreeMap::new();
    let mut search = Search::from(graph, start).unwrap();
    while let Some(level) = search.next_level(workers, graph).unwrap() {
        assert!(level.nodes.is_sorted() && !level.nodes.is_empty());
        for node in level.nodes {
            assert_eq!(depths.insert(*node, level.depth), None, "node {node} twice");
        }
    }
    assert!(search.next_level(workers, graph).unwrap().is_none());
    depths
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/graph").join(name)
}

/// The stored graph is that of the text, and searches from every so many nodes find the same depths.
fn check_graph(name: &str, text: &str, page_bytes: usize, starts: usize) {
    let plain = Plain::of(text);
    for order in [Order::Text, Order::Locality] {
        let memory = Memory::new(page_bytes);
        let metadata_page = load_text(&memory, text, order).unwrap();
        let graph = Graph::open(&memory, metadata_page).unwrap();
        assert_eq!(graph.nodes(), plain.neighbors.len() as u64, "{name}");
        assert_eq!(graph.is_reordered(), order == Order::Locality);
        assert_eq!(graph.pages(), memory.extents().len());
        graph.verify(&mut |_| Ok(())).unwrap();
        for (node, neighbors) in plain.neighbors.iter().enumerate() {
            assert_eq!(&graph.neighbors(node as u64).unwrap(), neighbors, "{name}, {order:?}: {node}");
        }
        for threads in [1, 3] {
            memory.most_held.store(0, Ordering::Relaxed);
            let workers = workers(threads);
            for start in (0..plain.neighbors.len()).step_by(plain.neighbors.len().div_ceil(starts)) {
                let start = start as u64;
                let depths = found_depths(&workers, &graph, start);
                assert_eq!(depths, plain.depths(start), "{name}, {order:?} from {start}");
            }
            assert!(memory.most_held.load(Ordering::Relaxed) <= 2 * threads);
        }
    }
}

#[test]
fn real_graphs_are_stored_and_searched_exactly() {
    for (name, starts) in [
        ("karate.txt", 34),
        ("les_miserables.txt", 77),
        ("davis_women.txt", 32),
        ("florentine.txt", 15),
        ("openflights.txt", 12),
    ] {
        let text = std::fs::read_to_string(data(name)).unwrap();
        check_graph(name, &text, 4096, starts);
    }
}

#[test]
fn random_graphs_are_stored_and_searched_exactly() {
    for (scale, edges, seed) in [(8, 1000, 1), (13, 60_000, 42)] {
        let found = rmat(scale, edges, seed);
        assert_eq!(found.len(), edges);
        assert!(found.is_sorted() && found.iter().all(|(source, target)| source != target));
        check_graph("rmat", &text_of(&found, 1 << scale), 4096, 4);
    }
    // Fewer distinct edges than asked for.
    assert_eq!(rmat(2, 1000, 7).len(), 12);
    assert_eq!(rmat(10, 500, 9), rmat(10, 500, 9));
    assert_ne!(rmat(10, 500, 9), rmat(10, 500, 10));
}

#[test]
fn the_last_edge_is_not_lost() {
    let memory = Memory::new(4096);
    let page = load_text(&memory, "4 3\n0 1\n1 2\n2 3\n", Order::Text).unwrap();
    let graph = Graph::open(&memory, page).unwrap();
    let depths = found_depths(&workers(1), &graph, 0);
    assert_eq!(depths, BTreeMap::from([(0, 0), (1, 1), (2, 2), (3, 3)]));
}

#[test]
fn edge_cases_of_the_text() {
    for (text, nodes, edges) in [
        ("0 0\n", 0, 0),
        ("1 0\n", 1, 0),
        ("3 0", 3, 0),
        ("# a comment\n\n  2   1  \r\n# another\n0\t1\r\n\n", 2, 1),
        ("2 2\n0 0\n0 0\n", 2, 2),
    ] {
        let memory = Memory::new(4096);
        let page = load_text(&memory, text, Order::Text).unwrap();
        let graph = Graph::open(&memory, page).unwrap();
        assert_eq!((graph.nodes(), graph.edges()), (nodes, edges), "{text:?}");
        let error = graph.neighbors(nodes).unwrap_err();
        assert!(matches!(error, Error::NoSuchNode { .. }), "{error}");
        let reordered = load_text(&Memory::new(4096), text, Order::Locality);
        assert!(reordered.is_ok(), "{text:?}");
    }
}

#[test]
fn malformed_lines_are_named() {
    let long = format!("2 1\n{}0 1\n", " ".repeat(2000));
    for (text, line, words) in [
        ("", 1, "empty"),
        ("# only a comment\n", 1, "empty"),
        ("3\n", 1, "two whole numbers"),
        ("3 2 1\n", 1, "two whole numbers"),
        ("3 -1\n", 1, "two whole numbers"),
        ("+3 1\n0 1\n", 1, "two whole numbers"),
        ("18446744073709551615 0\n", 1, "too many nodes"),
        ("3 1\n0 18446744073709551616\n", 2, "two whole numbers"),
        ("3 2\n0 1\n0 3\n", 3, "node 3"),
        ("3 2\n0 1\nx y\n", 3, "found \"x y\""),
        ("3 2\n0 1\n1 2\n2 0\n", 4, "more edges than the 2"),
        ("3 2\n1 2\n\n0 1\n", 4, "sort"),
        ("3 2\n0 1\n", 2, "ends after 1 edges"),
        ("3 1\n0 \u{fe}\n", 2, "two whole numbers"),
        (long.as_str(), 2, "longer than"),
    ] {
        for order in [Order::Text, Order::Locality] {
            let memory = Memory::new(4096);
            match load_text(&memory, text, order).unwrap_err() {
                error @ Error::Line { line: found, .. } => {
                    assert_eq!(found, line, "{text:?}: {error}");
                    assert!(error.to_string().starts_with(&format!("g.txt, line {line}: ")), "{error}");
                    assert!(error.to_string().contains(words), "{error}");
                }
                other => panic!("{text:?}: {other}"),
            }
            // None of the pages is a graph.
            for page in memory.extents().ranges().iter().cloned().flatten() {
                assert!(matches!(Graph::open(&memory, page).err(), Some(Error::NotAGraph(_))));
            }
        }
    }
}

#[test]
fn damaged_metadata_is_refused() {
    let memory = Memory::new(4096);
    let page = load_text(&memory, "4 3\n0 1\n1 2\n2 3\n", Order::Text).unwrap();
    for byte in 0..72 {
        for bit in [0, 7] {
            memory.update(page, &mut |bytes| bytes[byte] ^= 1 << bit).unwrap();
            let error = Graph::open(&memory, page).err();
            assert!(matches!(error, Some(Error::NotAGraph(_))), "byte {byte}, bit {bit}: {error:?}");
            memory.update(page, &mut |bytes| bytes[byte] ^= 1 << bit).unwrap();
        }
    }
    assert!(Graph::open(&memory, page).is_ok());
}

#[test]
fn indices_that_point_outside_are_refused() {
    for (page, entry) in [(2, 1u32 << 31), (3, 5)] {
        let memory = Memory::new(4096);
        let metadata = load_text(&memory, "4 3\n0 1\n1 2\n2 3\n", Order::Text).unwrap();
        memory.update(page, &mut |bytes| bytes[4..8].copy_from_slice(&entry.to_le_bytes())).unwrap();
        let graph = Graph::open(&memory, metadata).unwrap();
        let (workers, mut search) = (workers(1), Search::from(&graph, 0).unwrap());
        let error = (0..4).find_map(|_| search.next_level(&workers, &graph).err()).unwrap();
        assert!(matches!(error, Error::NotAGraph(_)), "{error}");
        assert!(matches!(graph.verify(&mut |_| Ok(())).err(), Some(Error::NotAGraph(_))));
    }
}

#[test]
fn numberings_that_contradict_each_other_are_found() {
    let memory = Memory::new(4096);
    let metadata = load_text(&memory, "4 3\n0 1\n1 2\n2 3\n", Order::Locality).unwrap();
    for page in [4, 5] {
        memory.update(page, &mut |bytes| bytes.swap(0, 4)).unwrap();
        let graph = Graph::open(&memory, metadata).unwrap();
        assert!(matches!(graph.verify(&mut |_| Ok(())).err(), Some(Error::NotAGraph(_))), "page {page}");
        memory.update(page, &mut |bytes| bytes.swap(0, 4)).unwrap();
        assert!(graph.verify(&mut |_| Ok(())).is_ok());
    }
}

#[test]
fn whoever_watches_can_stop() {
    let text = text_of(&rmat(10, 9000, 3), 1 << 10);
    for order in [Order::Text, Order::Locality] {
        let mut text = Text::new(BufReader::new(text.as_bytes()), Path::new("g.txt")).unwrap();
        let mut stop = |edges| if edges > 4000 { Err(Error::Stopped) } else { Ok(()) };
        let result = load(&Memory::new(4096), &mut text, order, &mut stop);
        assert!(matches!(result, Err(Error::Stopped)));
    }
}

#[test]
fn locality_order_brings_neighbors_closer() {
    // Two rings whose nodes alternate: neighbours are two apart in the text's order, and next to each other in
    // a good one. The last nodes of each are far from the first either way.
    let nodes = 2000u64;
    let mut edges: Vec<(u64, u64)> =
        (0..nodes).flat_map(|node| [(node, (node + 500) % nodes), ((node + 500) % nodes, node)]).collect();
    edges.sort_unstable();
    edges.dedup();
    let text = text_of(&edges, nodes);
    let distance = |order| {
        let memory = Memory::new(4096);
        let page = load_text(&memory, &text, order).unwrap();
        let graph = Graph::open(&memory, page).unwrap();
        let place = |node| graph.stored(node).unwrap();
        edges.iter().map(|(source, target)| place(*source).abs_diff(place(*target))).sum::<u64>()
    };
    let (before, after) = (distance(Order::Text), distance(Order::Locality));
    assert!(after * 10 < before, "{after}, before {before}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn extents_are_the_list_they_were_made_of(
        mut pages in prop::collection::vec(0u64..200, 0..80), split in 0u64..90,
    ) {
        pages.sort_unstable();
        pages.dedup();
        let extents: Extents = pages.iter().copied().collect();
        prop_assert_eq!(extents.len() as usize, pages.len());
        let list = |extents: &Extents| (0..extents.len() + 3).map_while(|at| extents.get(at)).collect::<Vec<_>>();
        prop_assert_eq!(&list(&extents), &pages);
        let (first, rest) = extents.split_at(split);
        let split = pages.len().min(split as usize);
        prop_assert_eq!(list(&first), &pages[..split]);
        prop_assert_eq!(list(&rest), &pages[split..]);
    }

    #[test]
    fn any_graph_is_searched_exactly(
        nodes in 1u64..60,
        mut edges in prop::collection::vec((0u64..60, 0u64..60), 0..150),
        start in 0u64..60,
    ) {
        edges.retain(|(source, target)| *source < nodes && *target < nodes);
        edges.sort_unstable();
        let text = text_of(&edges, nodes);
        let (plain, start) = (Plain::of(&text), start % nodes);
        let workers = workers(2);
        for order in [Order::Text, Order::Locality] {
            let memory = Memory::new(256);
            let page = load_text(&memory, &text, order).unwrap();
            let graph = Graph::open(&memory, page).unwrap();
            prop_assert_eq!(found_depths(&workers, &graph, start), plain.depths(start));
            for (node, neighbors) in plain.neighbors.iter().enumerate() {
                prop_assert_eq!(&graph.neighbors(node as u64).unwrap(), neighbors);
            }
        }
    }
}
