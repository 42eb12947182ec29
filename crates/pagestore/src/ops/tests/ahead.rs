//! Searches that read ahead.

use super::*;

/// Pages that note what is asked for ahead, and what is wanted, in order.
struct Noting<'m> {
    memory: &'m Memory,
    notes: Mutex<Vec<Note>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Note {
    Ahead(u64),
    Wanted(u64),
}

impl Pages for Noting<'_> {
    type Guard<'a>
        = Pinned<'a>
    where
        Self: 'a;

    fn page_bytes(&self) -> usize {
        self.memory.page_bytes()
    }

    fn page(&self, page: u64) -> Result<Pinned<'_>> {
        self.notes.lock().unwrap().push(Note::Wanted(page));
        self.memory.page(page)
    }

    fn room_ahead(&self) -> usize {
        16
    }

    fn read_ahead(&self, pages: &[u64]) {
        self.notes.lock().unwrap().extend(pages.iter().map(|page| Note::Ahead(*page)));
    }
}

/// The nodes of each level, and the notes.
fn search(memory: &Memory, metadata: u64, ahead: bool) -> (Vec<Vec<u64>>, Vec<Note>) {
    let pages = Noting { memory, notes: Mutex::default() };
    let graph = Graph::open(&pages, metadata).unwrap();
    pages.notes.lock().unwrap().clear();
    let search = Search::from(&graph, 0).unwrap();
    let (workers, mut search) = (workers(1), if ahead { search.reading_ahead() } else { search });
    let mut levels = Vec::new();
    while let Some(level) = search.next_level(&workers, &graph).unwrap() {
        levels.push(level.nodes.to_vec());
    }
    drop(graph);
    (levels, pages.notes.into_inner().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The plain model is the search that does not read ahead.
    #[test]
    fn a_search_finds_the_same_and_asks_ahead_for_nothing_that_it_does_not_want(
        seed in any::<u64>(),
        edges in 1usize..6000,
        locality in any::<bool>(),
    ) {
        let edges = rmat(10, edges, seed);
        let memory = Memory::new(4096);
        let order = if locality { Order::Locality } else { Order::Text };
        let metadata = load_text(&memory, &text_of(&edges, 1 << 10), order).unwrap();
        let (found, notes) = search(&memory, metadata, true);
        let (expected, plain) = search(&memory, metadata, false);
        prop_assert_eq!(found, expected);
        prop_assert!(plain.iter().all(|note| matches!(note, Note::Wanted(_))));
        for (at, note) in notes.iter().enumerate() {
            if let Note::Ahead(page) = note {
                prop_assert!(notes[at..].contains(&Note::Wanted(*page)), "page {} was not wanted", page);
            }
        }
    }
}
