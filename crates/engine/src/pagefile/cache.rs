//! Reading a page file: pages in memory, pages on their way, and the clock that decides which to forget.
//!
//! # Invariants
//! 1. A page has an entry while it is in memory or on its way, and there is one read for each entry.
//! 2. Every entry is in the clock's queue once.
//! 3. An entry whose read failed is taken out by that read's completion; whoever waits on it holds it by itself.
//! 4. Bytes that somebody holds outlive their entry: they are forgotten, not freed.

use super::header::Header;
use super::{Error, FEWEST_PAGES, Options, Result};
use crate::device::{DeviceError, File, FileKind, Medium, OpenMode};
use crate::ops::{self, Extents, Pages};
use crate::prefetch::{self, Detector};
use crate::sync::Mutex;
use crate::task::Watched;
use crate::task::io::{Completion, Direction, IoQueue, Request};
use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A page's bytes, once they are there, or why they never will be.
type Slot = Watched<Option<std::result::Result<Arc<[u8]>, String>>>;

struct Entry {
    slot: Arc<Slot>,
    /// Goes round once more when the clock's hand comes by: it was used again after its first use, or was read
    /// ahead and is still to be used. A scan, which uses each page once, does not push out what is used often.
    spared: bool,
    /// Read ahead, and wanted by nobody yet.
    ahead: bool,
}

/// What is in memory.
struct Cache {
    entries: HashMap<u64, Entry>,
    /// The hand points to the front.
    clock: VecDeque<u64>,
    most: usize,
    detector: Option<Detector>,
}

/// What a page file has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Pages asked for.
    pub wanted: u64,
    /// Those among them that had to be read, and waited for.
    pub missed: u64,
    /// Pages read ahead.
    pub ahead: u64,
}

#[derive(Default)]
struct Counters {
    wanted: AtomicU64,
    missed: AtomicU64,
    ahead: AtomicU64,
}

/// A page file that is read. Threads and fibers share it.
pub struct PageFile {
    file: Arc<dyn File>,
    io: Arc<IoQueue>,
    header: Header,
    cache: Arc<Mutex<Cache>>,
    counters: Counters,
}

/// A page in memory, for as long as this lives.
pub struct Held(Arc<[u8]>);

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl PageFile {
    /// Opens a page file.
    ///
    /// # Errors
    /// [`Error::NotAPageFile`], [`Error::PageSize`]; those of the medium.
    pub fn open(medium: &dyn Medium, path: &Path, io: Arc<IoQueue>, options: &Options) -> Result<PageFile> {
        let file = medium.open(path, FileKind::Database, OpenMode::ReadOnly)?;
        let header = Header::read(&*file)?;
        let detector =
            options.prefetch.then(|| Detector::new(prefetch::Config::for_page_bytes(header.page_bytes)));
        let cache = Cache {
            entries: HashMap::new(),
            clock: VecDeque::new(),
            most: (options.cache_bytes / header.page_bytes).max(FEWEST_PAGES),
            detector,
        };
        let (cache, counters) = (Arc::new(Mutex::new(cache)), Counters::default());
        Ok(PageFile { file, io, header, cache, counters })
    }

    /// The pages behind page 0.
    pub fn extents(&self) -> Extents {
        Extents::from(1..self.header.pages)
    }

    /// What has been done so far.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            wanted: self.counters.wanted.load(Ordering::Relaxed),
            missed: self.counters.missed.load(Ordering::Relaxed),
            ahead: self.counters.ahead.load(Ordering::Relaxed),
        }
    }

    /// Holds a page.
    ///
    /// # Errors
    /// [`Error::NoSuchPage`], [`Error::Read`].
    pub fn hold(&self, page: u64) -> Result<Held> {
        let pages = self.header.pages;
        if page == 0 || page >= pages {
            return Err(Error::NoSuchPage { path: self.file.path().to_owned(), page, pages });
        }
        self.counters.wanted.fetch_add(1, Ordering::Relaxed);
        let (slot, reads) = self.look_up(page);
        if !reads.is_empty() {
            self.io.submit_all(reads);
        }
        slot.wait(|result| result.clone()).map(Held).map_err(|why| Error::Read {
            path: self.file.path().to_owned(),
            page,
            why,
        })
    }

    /// The page's slot, and what has to be read: the page itself, if it is not there, and what is read ahead.
    fn look_up(&self, page: u64) -> (Arc<Slot>, Vec<Request>) {
        let mut cache = self.cache.lock();
        let mut reads = Vec::new();
        let (slot, is_news) = match cache.entries.get_mut(&page) {
            Some(entry) => {
                let first_use = std::mem::take(&mut entry.ahead);
                entry.spared = !first_use;
                (entry.slot.clone(), first_use)
            }
            None => {
                self.counters.missed.fetch_add(1, Ordering::Relaxed);
                let slot = cache.insert(page, false);
                reads.push(self.request(page, slot.clone()));
                (slot, true)
            }
        };
        let pages = self.header.pages;
        let run =
            cache.detector.as_mut().filter(|_| is_news).and_then(|detector| detector.wanted(page, pages));
        // More than half of the memory read ahead would push out what is in use.
        let room = cache.most / 2;
        for page in run.into_iter().flat_map(prefetch::Run::pages).take(room) {
            if page > 0 && !cache.entries.contains_key(&page) {
                let slot = cache.insert(page, true);
                self.counters.ahead.fetch_add(1, Ordering::Relaxed);
                reads.push(self.request(page, slot));
            }
        }
        (slot, reads)
    }

    fn request(&self, page: u64, slot: Arc<Slot>) -> Request {
        let page_bytes = self.header.page_bytes;
        let cache = self.cache.clone();
        let done = move |completion: Completion| {
            let result = bytes_of(completion, page_bytes);
            if result.is_err() {
                cache.lock().forget(page, &slot);
            }
            slot.change(|place| *place = Some(result));
        };
        Request {
            file: self.file.clone(),
            direction: Direction::Read,
            offset: page * page_bytes as u64,
            buffer: Box::new(vec![0; page_bytes]),
            done: Box::new(done),
        }
    }
}

fn bytes_of(mut completion: Completion, page_bytes: usize) -> std::result::Result<Arc<[u8]>, String> {
    match completion.result {
        Ok(bytes) if bytes == page_bytes => Ok(completion.buffer.bytes().into()),
        Ok(bytes) => Err(format!("the file has been cut: {bytes} of {page_bytes} bytes")),
        Err(DeviceError { source, .. }) => Err(source.to_string()),
    }
}

impl Cache {
    /// An entry for a page that is about to be read; forgets others where there are too many.
    fn insert(&mut self, page: u64, ahead: bool) -> Arc<Slot> {
        self.make_room();
        let slot = Arc::new(Slot::default());
        self.entries.insert(page, Entry { slot: slot.clone(), spared: ahead, ahead });
        self.clock.push_back(page);
        slot
    }

    /// Clock: forgets the first page that is not spared.
    fn make_room(&mut self) {
        for _ in 0..2 * self.clock.len() {
            if self.entries.len() < self.most {
                return;
            }
            let Some(page) = self.clock.pop_front() else { return };
            match self.entries.get_mut(&page) {
                Some(entry) if entry.spared => {
                    entry.spared = false;
                    self.clock.push_back(page);
                }
                _ => drop(self.entries.remove(&page)),
            }
        }
    }

    /// Takes a page out whose read has failed, unless another read of it has begun.
    fn forget(&mut self, page: u64, slot: &Arc<Slot>) {
        if self.entries.get(&page).is_some_and(|entry| Arc::ptr_eq(&entry.slot, slot)) {
            self.entries.remove(&page);
            self.clock.retain(|other| *other != page);
        }
    }
}

impl Pages for PageFile {
    type Guard<'a> = Held;

    fn page_bytes(&self) -> usize {
        self.header.page_bytes
    }

    fn page(&self, page: u64) -> ops::Result<Held> {
        self.hold(page).map_err(ops::Error::pages)
    }
}
