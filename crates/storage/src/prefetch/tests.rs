use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

/// A memory that keeps everything, or only the last few pages, with a detector in front of it.
struct Simulation {
    detector: Detector,
    pages: u64,
    keeps: usize,
    resident: Vec<u64>,
    /// Read ahead and not used yet.
    unused: HashSet<u64>,
    demanded: u64,
    ahead: u64,
}

impl Simulation {
    fn new(pages: u64, keeps: usize) -> Simulation {
        let detector = Detector::new(Config::for_page_bytes(4096));
        Simulation { detector, pages, keeps, resident: vec![], unused: HashSet::new(), demanded: 0, ahead: 0 }
    }

    fn load(&mut self, page: u64) {
        self.resident.push(page);
        if self.resident.len() > self.keeps {
            self.resident.remove(0);
        }
    }

    fn touch(&mut self, page: u64) {
        let resident = self.resident.contains(&page);
        let first_use = self.unused.remove(&page);
        if resident && !first_use {
            return;
        }
        if !resident {
            self.demanded += 1;
            self.load(page);
        }
        if let Some(run) = self.detector.wanted(page, self.pages) {
            for page in run.pages() {
                assert!(page < self.pages, "{run:?} of {}", self.pages);
                if !self.resident.contains(&page) {
                    self.ahead += 1;
                    self.unused.insert(page);
                    self.load(page);
                }
            }
        }
    }
}

fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

#[test]
fn regular_patterns_are_read_ahead_without_waste() {
    let up: Vec<u64> = (0..1000).collect();
    let down: Vec<u64> = (0..1000).rev().collect();
    let every_7th: Vec<u64> = (0..1000).map(|step| step * 7).collect();
    let every_5th_down: Vec<u64> = (0..1000).rev().map(|step| 100 + step * 5).collect();
    let interleaved: Vec<u64> =
        (0..1000).flat_map(|step| [step, 3000 + step, 9000 - step, 2_000_000 / 200 + step * 3]).collect();
    for (name, accesses, streams, waste) in [
        ("up", up, 1, 0),
        ("down", down, 1, 0),
        ("every 7th", every_7th, 1, 0),
        ("every 5th, down", every_5th_down, 1, 20),
        ("four streams", interleaved, 4, 4 * 128),
    ] {
        let pages = accesses.iter().max().map_or(0, |last| last + 1);
        let mut simulation = Simulation::new(pages, usize::MAX);
        let distinct = accesses.iter().collect::<HashSet<_>>().len() as u64;
        for page in &accesses {
            simulation.touch(*page);
        }
        assert!(simulation.demanded <= streams * 5, "{name}: {} waited for", simulation.demanded);
        let read = simulation.demanded + simulation.ahead;
        assert!(read <= distinct + waste, "{name}: {read} read for {distinct}");
    }
}

#[test]
fn windows_grow_and_come_in_time() {
    let mut detector = Detector::new(Config::for_page_bytes(4096));
    let mut runs = Vec::new();
    for page in 0..400 {
        runs.extend(detector.wanted(page, 10_000).map(|run| (page, run.first, run.count)));
    }
    assert_eq!(runs[..5], [(2, 3, 4), (4, 7, 8), (10, 15, 16), (22, 31, 32), (46, 63, 64)]);
    assert_eq!(runs[5..7], [(94, 127, 128), (190, 255, 128)]);
}

#[test]
fn random_access_reads_at_most_two_percent_more() {
    for pages in [200, 1000, 100_000] {
        for seed in 1..20u64 {
            let reads = |free_waste, streams| {
                let mut simulation = Simulation::new(pages, 20);
                simulation.detector.config.streams = streams;
                simulation.detector.config.free_waste = free_waste;
                let mut state = seed;
                for _ in 0..4000 {
                    simulation.touch(random(&mut state) % pages);
                }
                (simulation.demanded + simulation.ahead, simulation.ahead)
            };
            let with = reads(16, 16).0;
            // A single stream is never believed among random pages: as good as off.
            let (without, ahead) = reads(0, 1);
            assert!(ahead <= 8, "{ahead}");
            assert!(with * 50 <= without * 51, "seed {seed}, {pages} pages: {with}, without {without}");
        }
    }
}

#[test]
fn a_scan_that_turns_random_stops_within_a_few_requests() {
    let mut simulation = Simulation::new(1_000_000, usize::MAX);
    (0..1000).for_each(|page| simulation.touch(page));
    let before = simulation.ahead;
    let mut state = 7;
    for _ in 0..2000 {
        simulation.touch(random(&mut state) % 1_000_000);
    }
    assert!(simulation.ahead <= before + 8, "{} pages", simulation.ahead - before);
}

#[test]
fn short_runs_are_given_up_once_they_waste() {
    // Three pages in a row, then somewhere else: each promises a stream and breaks the promise.
    let mut simulation = Simulation::new(10_000_000, usize::MAX);
    let mut state = 11;
    for _ in 0..2000 {
        let first = random(&mut state) % 9_000_000;
        (first..first + 3).for_each(|page| simulation.touch(page));
    }
    let (ahead, demanded) = (simulation.ahead, simulation.demanded);
    let free = Config::for_page_bytes(4096).free_waste;
    // Streams not given up yet are not counted as waste yet.
    assert!(ahead <= demanded / DEMAND_PER_WASTE + free + 17 * 4, "{ahead} more than {demanded}");
}

#[test]
fn the_same_page_again_and_again_asks_for_nothing() {
    let mut detector = Detector::new(Config::for_page_bytes(65_536));
    assert!((0..100).all(|_| detector.wanted(5, 100).is_none()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// For any pattern, runs lie inside the file, and none is longer than the window. No stream asks again for a page
    /// that it has not passed since.
    #[test]
    fn any_pattern_keeps_the_promises(
        accesses in prop::collection::vec((0u64..4, -3i64..4, 1usize..30), 1..60),
        pages in 1u64..5000,
    ) {
        let config = Config::for_page_bytes(8192);
        let mut detector = Detector::new(config.clone());
        let mut asked = 0u64;
        for (start, stride, length) in accesses {
            let mut page = start * pages / 4;
            for _ in 0..length {
                if let Some(run) = detector.wanted(page.min(pages - 1), pages) {
                    asked += u64::from(run.count);
                    prop_assert!(run.count > 0 && run.count <= config.longest_window);
                    prop_assert!(run.pages().all(|page| page < pages), "{:?} of {}", run, pages);
                    prop_assert_eq!(run.pages().collect::<HashSet<_>>().len(), run.count as usize);
                }
                page = page.saturating_add_signed(stride);
            }
        }
        prop_assert!(detector.wasted() <= asked);
    }

    /// A scan with any stride is found, wherever it begins.
    #[test]
    fn any_stride_is_found(first in 0u64..1_000_000, stride in 1i64..=64, down in any::<bool>()) {
        let stride = if down { -stride } else { stride };
        let first = first + 64 * 200;
        let mut simulation = Simulation::new(u64::from(u32::MAX), usize::MAX);
        for step in 0..200 {
            simulation.touch(first.wrapping_add_signed(step * stride));
        }
        prop_assert!(simulation.demanded <= 4, "{}", simulation.demanded);
    }
}
