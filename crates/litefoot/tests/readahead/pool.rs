//! A model of a buffer pool: the least recently used page goes first, reads take time.

use crate::database::Image;
use litefoot_vfs::readahead::{Config, FullFileMode, Memory, ReadAhead};
use std::collections::{BTreeMap, HashMap};

/// How long a read takes, in gets.
const READ: u64 = 50;

struct Frame {
    used: u64,
    /// Read ahead, and not used yet.
    is_fresh: bool,
    arrives: u64,
}

pub struct Pool<'a> {
    image: &'a Image,
    frames: HashMap<u32, Frame>,
    by_use: BTreeMap<u64, u32>,
    capacity: usize,
    clock: u64,
    now: u64,
    ahead: Option<ReadAhead>,
    pub sums: Sums,
}

/// The events of a pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// Pages read when they were wanted.
    pub demanded: u64,
    /// Pages read ahead.
    pub ahead: u64,
    /// Of these, used.
    pub used: u64,
    /// Requests of pages read ahead, adjacent ones merged.
    pub requests: u64,
    /// Pages reported, and the time that the decisions took.
    pub decisions: u64,
    pub decided_ns: u64,
    /// Time waited, in reads.
    pub waited: f64,
}

impl Sums {
    pub fn read(&self) -> u64 {
        self.demanded + self.ahead
    }
}

struct InMemory<'a, 'b>(&'b HashMap<u32, Frame>, u64, &'a Image);

impl Memory for InMemory<'_, '_> {
    fn with(&self, page: u32, look: &mut dyn FnMut(&[u8])) -> bool {
        let here = self.0.get(&page).is_some_and(|frame| frame.arrives <= self.1);
        if here {
            look(self.2.page(page));
        }
        here
    }

    fn holds(&self, page: u32) -> bool {
        self.0.contains_key(&page)
    }
}

impl<'a> Pool<'a> {
    pub fn new(image: &'a Image, capacity: usize, reads_ahead: bool) -> Pool<'a> {
        let (usable_bytes, memory_pages) = (image.page_bytes as u32, capacity as u32);
        let config = Config {
            usable_bytes,
            memory_pages,
            full_file_mode: FullFileMode::Never,
            system_reads_ahead: false,
        };
        let ahead = reads_ahead.then(|| ReadAhead::new(config));
        Pool {
            image,
            frames: HashMap::new(),
            by_use: BTreeMap::new(),
            capacity,
            clock: 0,
            now: 0,
            ahead,
            sums: Sums::default(),
        }
    }

    fn load(&mut self, page: u32, is_fresh: bool) {
        if self.frames.len() >= self.capacity
            && let Some((_, victim)) = self.by_use.pop_first()
        {
            self.frames.remove(&victim);
        }
        self.clock += 1;
        self.by_use.insert(self.clock, page);
        self.frames.insert(page, Frame { used: self.clock, is_fresh, arrives: self.now + READ });
    }

    fn wanted(&mut self, page: u32) -> Vec<u32> {
        let mut pages = vec![];
        if let Some(ahead) = &mut self.ahead {
            let memory = InMemory(&self.frames, self.now, self.image);
            let begin = std::time::Instant::now();
            ahead.plan(page, self.image.pages(), &memory, &mut pages);
            self.sums.decided_ns += begin.elapsed().as_nanos() as u64;
            self.sums.decisions += 1;
        }
        assert!(pages.len() <= 600, "{} pages", pages.len());
        assert!(pages.iter().all(|page| (2..=self.image.pages()).contains(page)));
        pages
    }

    /// SQLite gets a page.
    pub fn get(&mut self, page: u32) {
        self.now += 1;
        let resident = self.frames.get(&page).map(|frame| frame.is_fresh);
        if resident != Some(false) {
            let ahead = self.wanted(page);
            if resident.is_none() {
                self.sums.demanded += 1;
                self.load(page, false);
            }
            self.read_ahead(&ahead);
        }
        self.clock += 1;
        // A page may be gone if more was read ahead than there is room for.
        if let Some(frame) = self.frames.get_mut(&page) {
            self.by_use.remove(&frame.used);
            self.sums.used += u64::from(frame.is_fresh);
            self.by_use.insert(self.clock, page);
            (frame.used, frame.is_fresh) = (self.clock, false);
            let wait = frame.arrives.saturating_sub(self.now);
            self.now += wait;
            self.sums.waited += wait as f64 / READ as f64;
        }
        if let Some(ahead) = &mut self.ahead {
            ahead.note_passed(page, self.image.page(page)[0]);
        }
    }

    fn read_ahead(&mut self, pages: &[u32]) {
        let mut last = 0;
        for page in pages {
            if !self.frames.contains_key(page) {
                self.load(*page, true);
                self.sums.ahead += 1;
                self.sums.requests += u64::from(last + 1 != *page);
                last = *page;
            }
        }
    }
}
