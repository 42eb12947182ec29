//! Which pages stay: a mix of requests against LRU.

use super::files::{Files, open};
use crate::Result;
use crate::harness::Progress;
use crate::report::Figures;
use litefoot_storage::os::OsMedium;
use std::collections::{BTreeMap, HashMap};

const PAGE_BYTES: usize = 4096;
/// Memory as a share of the file.
const MEMORY_SHARE: u64 = 10;
/// Requests for each page of the file.
const REQUESTS_PER_PAGE: u64 = 8;
/// Pages of a sequential run.
const RUN_PAGES: u64 = 64;
/// Steps between two reports of progress.
const REPORT_EVERY: u64 = 1024;

/// Requests: of 100 decisions 70 are for the hot tenth of the pages, 29 for any page, and 1 is for a run.
fn requests(pages: u64, seed: u64) -> impl Iterator<Item = u64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut run = 0..0;
    std::iter::repeat_with(move || {
        if let Some(page) = run.next() {
            return page;
        }
        match random.u64(0..100) {
            0..70 => 1 + random.u64(0..pages.div_ceil(10)) * 9 % pages,
            70..99 => random.u64(1..=pages),
            _ => {
                let first = random.u64(1..=pages);
                run = first + 1..(first + RUN_PAGES).min(pages + 1);
                first
            }
        }
    })
    .take((pages * REQUESTS_PER_PAGE) as usize)
}

pub fn run(files: &Files<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    let path = files.random(PAGE_BYTES, files.sizes.cold_bytes, progress)?;
    let memory = files.sizes.cold_bytes / MEMORY_SHARE;
    // Read-ahead would count as hits what LRU has to read.
    let file = open(&OsMedium::new(), &path, memory, false)?;
    let pages = file.extents().len();
    let mut lru = Lru::new((memory / PAGE_BYTES as u64) as usize);
    let (mut requested, mut lru_hits) = (0u64, 0u64);
    progress.begin("a mix of requests", pages * REQUESTS_PER_PAGE);
    for page in requests(pages, files.seed) {
        file.pin(page)?;
        lru_hits += u64::from(lru.request(page));
        requested += 1;
        if requested.is_multiple_of(REPORT_EVERY) {
            progress.advance(REPORT_EVERY)?;
        }
    }
    let missed = file.statistics().missed;
    let (engine, lru) = (1.0 - missed as f64 / requested as f64, lru_hits as f64 / requested as f64);
    figures.set("hit_rate.engine", engine);
    figures.set("hit_rate.lru", lru);
    figures.set("ratio.hit_rate_over_lru", engine / lru);
    Ok(())
}

/// Least recently used, by the book.
pub struct Lru {
    most: usize,
    clock: u64,
    last_use: HashMap<u64, u64>,
    by_use: BTreeMap<u64, u64>,
}

impl Lru {
    /// Room for so many pages.
    pub fn new(most: usize) -> Lru {
        Lru { most, clock: 0, last_use: HashMap::new(), by_use: BTreeMap::new() }
    }

    /// Requests a page; true if it was there before.
    pub fn request(&mut self, page: u64) -> bool {
        self.clock += 1;
        let before = self.last_use.insert(page, self.clock);
        if let Some(before) = before {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.clock, page);
        if self.last_use.len() > self.most
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.last_use.remove(&oldest);
        }
        before.is_some()
    }
}
