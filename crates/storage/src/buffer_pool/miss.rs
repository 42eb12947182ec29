//! The slow path: a page that is not in memory, on its way, or read ahead and not yet wanted.

use super::shared::Shared;
use super::{Advisor, Error, Pinned, Pool, Resident, Result};
use crate::file::DeviceError;
use crate::frames::partition::{Partition, PendingRead};
use crate::io::Backoff;
use crate::io::scheduler::in_task;
use crate::io::{Buffer, Completion, Direction, Request};
use crate::page_state::{Found, PageState};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Waits of a demand for a frame before it gives up.
const MOST_WAITS: usize = 1000;

/// Looks in a row that must find no frame: one may have come free during a look.
pub(crate) const LOOKS_FOR_A_FRAME: u32 = 3;

/// The outcome of one look under the lock.
enum FetchStep {
    /// The page is pinned, in that frame.
    Pinned(u32),
    /// The file has been cut before it.
    Gone,
    /// The page is pinned once the read has ended well.
    Wait(Arc<PendingRead>),
    /// Look again once the read has ended somehow: there was no frame.
    Again(Arc<PendingRead>),
    /// Look again soon: another thread is at what is needed.
    Soon,
    /// No frame can be had; true if pages were dirty before that was found out.
    Full(bool),
}

/// The outcome of a search for a frame.
enum FrameSearch {
    Found(u32),
    /// Another partition's lock was taken.
    Contended,
    None,
}

impl Pool {
    #[cold]
    pub(crate) fn pin_slowly<'a>(&'a self, page: u64, state: &'a PageState) -> Result<Pinned<'a>> {
        let frame = self.frame_slowly(page, state, &mut Detected)?;
        Ok(Pinned::of(self, frame, state))
    }

    /// Pins a page; answers its frame.
    pub(crate) fn frame_slowly(
        &self,
        page: u64,
        state: &PageState,
        advisor: &mut dyn Advisor,
    ) -> Result<u32> {
        let mut backoff = Backoff::default();
        let (mut waits, mut full) = (0, 0);
        while waits < MOST_WAITS {
            let (step, reads) = self.step(page, state, advisor);
            // The reads start, however this page fares: the words of their pages already say so.
            self.start(reads);
            match step {
                FetchStep::Pinned(frame) => return Ok(frame),
                FetchStep::Gone => return Err(Error::NoSuchPage { page }),
                FetchStep::Wait(slot) => {
                    slot.wait(|result| result.clone()).map_err(|why| Error::Read { page, why })?;
                    // The page is pinned since before its read: no thread has written or evicted it.
                    if let Found::Ready(frame) = state.look() {
                        return Ok(frame);
                    }
                    waits += 1;
                }
                FetchStep::Again(slot) => {
                    slot.wait(|result| result.is_some().then_some(()));
                    waits += 1;
                }
                FetchStep::Soon => self.pause(page, &mut backoff)?,
                FetchStep::Full(_) if full + 1 < LOOKS_FOR_A_FRAME => {
                    full += 1;
                    self.pause(page, &mut backoff)?;
                }
                FetchStep::Full(dirty) => return Err(self.full(dirty)),
            }
        }
        Err(self.full(self.shared.has_dirty()))
    }

    /// A frame for a page that is not in memory, for a writer of all its bytes; `None`: look again.
    pub(crate) fn begin_new(&self, page: u64, state: &PageState) -> Result<Option<u32>> {
        let mut partition = self.shared.partition(page).lock();
        if state.look() != Found::Empty {
            return Ok(None);
        }
        let dirty = self.shared.has_dirty();
        match self.shared.frame(&mut partition, page) {
            FrameSearch::Found(frame) => {
                state.begin_new(frame);
                self.shared.dirty.fetch_add(1, Ordering::Relaxed);
                Ok(Some(frame))
            }
            FrameSearch::Contended => Ok(None),
            FrameSearch::None => match self.shared.comes_free(&partition, dirty) {
                FetchStep::Full(dirty) => Err(self.full(dirty)),
                _ => Ok(None),
            },
        }
    }

    fn full(&self, dirty: bool) -> Error {
        let frames = self.frames();
        if dirty { Error::AllDirty { frames } } else { Error::AllPinned { frames } }
    }

    fn start(&self, mut reads: Vec<Request>) {
        // One page for a plain thread: handing it to another thread would only cost two switches.
        match (reads.len(), in_task()) {
            (0, _) => {}
            (1, false) => reads.drain(..).for_each(|read| self.io.perform(read)),
            _ => self.io.submit_all(reads),
        }
    }

    /// One look under the lock, and what has to be read after it.
    fn step(&self, page: u64, state: &PageState, advisor: &mut dyn Advisor) -> (FetchStep, Vec<Request>) {
        let mut reads = Vec::new();
        let dirty = self.shared.has_dirty();
        let (step, is_news) = {
            let mut partition = self.shared.partition(page).lock();
            match (state.look(), partition.reading.get(&page).cloned()) {
                (Found::Ready(_), _) => {
                    let is_news = self.first_use(state);
                    (state.pin_ready().map_or(FetchStep::Soon, FetchStep::Pinned), is_news)
                }
                (Found::Writing | Found::Latched, _) => (FetchStep::Soon, false),
                (Found::Empty, _) if page >= self.pages() => (FetchStep::Gone, false),
                (Found::Reading, Some(slot)) => {
                    let step = if state.join() { FetchStep::Wait(slot) } else { FetchStep::Soon };
                    (step, self.first_use(state))
                }
                // Its read has just ended.
                (Found::Reading, None) => (FetchStep::Soon, false),
                (Found::Empty, _) => match self.shared.frame(&mut partition, page) {
                    FrameSearch::Found(frame) => {
                        let (slot, request) = self.begin(&mut partition, page, state, frame, false);
                        self.shared.missed.fetch_add(1, Ordering::Relaxed);
                        reads.push(request);
                        (FetchStep::Wait(slot), true)
                    }
                    FrameSearch::Contended => (FetchStep::Soon, false),
                    FrameSearch::None => (self.shared.comes_free(&partition, dirty), false),
                },
            }
        };
        if is_news {
            let mut ahead = Vec::new();
            advisor.wanted(page, &Resident(self), &mut ahead);
            self.begin_ahead(&ahead, &mut reads);
        }
        (step, reads)
    }

    fn first_use(&self, state: &PageState) -> bool {
        let first = state.first_use();
        self.shared.ahead_used.fetch_add(u64::from(first), Ordering::Relaxed);
        first
    }

    /// Reads pages ahead, as far as there are frames for them.
    pub fn read_ahead(&self, pages: &[u64]) {
        let mut reads = Vec::new();
        self.begin_ahead(pages, &mut reads);
        self.io.submit_all(reads);
    }

    /// Makes the requests that read pages ahead.
    fn begin_ahead(&self, pages: &[u64], reads: &mut Vec<Request>) {
        let most = self.frames() / 2;
        for &page in pages {
            if self.shared.ahead_on_their_way.load(Ordering::Relaxed) >= most {
                return;
            }
            let Some(state) = self.shared.table.of(page) else { return };
            if state.look() != Found::Empty || !(self.readable)(page) {
                continue;
            }
            let mut partition = self.shared.partition(page).lock();
            if state.look() != Found::Empty || page >= self.pages() {
                continue;
            }
            let FrameSearch::Found(frame) = self.shared.frame(&mut partition, page) else { return };
            reads.push(self.begin(&mut partition, page, state, frame, true).1);
            self.shared.ahead_on_their_way.fetch_add(1, Ordering::Relaxed);
            self.shared.ahead.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives a page a frame and makes the request that fills it.
    fn begin(
        &self,
        partition: &mut Partition,
        page: u64,
        state: &PageState,
        frame: u32,
        ahead: bool,
    ) -> (Arc<PendingRead>, Request) {
        state.begin(frame, ahead);
        let slot = Arc::new(PendingRead::default());
        partition.reading.insert(page, slot.clone());
        let shared = self.shared.clone();
        let request = Request {
            file: self.source.as_ref().and_then(|source| source(page)).unwrap_or_else(|| self.file.clone()),
            direction: Direction::Read,
            offset: page * self.shared.page_bytes as u64,
            buffer: Box::new(FrameBuffer { shared: shared.clone(), frame }),
            done: Box::new(move |completion| shared.ended(page, frame, ahead, completion)),
        };
        (slot, request)
    }
}

/// The pool's own detector of streams.
struct Detected;

impl Advisor for Detected {
    fn wanted(&mut self, page: u64, memory: &Resident<'_>, ahead: &mut Vec<u64>) {
        let pool = memory.0;
        let mut detector = pool.shared.detector.lock();
        let run = detector.as_mut().and_then(|detector| detector.wanted(page, pool.pages()));
        ahead.extend(run.into_iter().flat_map(crate::prefetch::Run::pages));
    }
}

impl Shared {
    /// A frame for a page of this partition: free, or borrowed, or taken from another page. Under its lock.
    fn frame(&self, home: &mut Partition, page: u64) -> FrameSearch {
        if let Some(frame) = home.take_free(page) {
            return FrameSearch::Found(frame);
        }
        let others = || self.partitions.iter().filter_map(|part| part.try_lock());
        if let Some(frame) = others().find_map(|mut other| other.take_free(page)) {
            return FrameSearch::Found(frame);
        }
        if self.grow(home)
            && let Some(frame) = home.take_free(page)
        {
            return FrameSearch::Found(frame);
        }
        if let Some(frame) = home.evict(&self.table, page) {
            self.evicted.fetch_add(1, Ordering::Relaxed);
            return FrameSearch::Found(frame);
        }
        let mut tried = 0;
        for mut other in others() {
            tried += 1;
            if let Some(frame) = other.evict(&self.table, page) {
                self.evicted.fetch_add(1, Ordering::Relaxed);
                return FrameSearch::Found(frame);
            }
        }
        // All but the partition whose lock is taken.
        if tried + 1 < self.partitions.len() { FrameSearch::Contended } else { FrameSearch::None }
    }

    /// True if pages are dirty, or were until now. Asked before a frame is looked for: they may be clean after it.
    fn has_dirty(&self) -> bool {
        self.dirty.load(Ordering::Acquire) > 0 || self.cleaning.load(Ordering::Relaxed) > 0
    }

    /// The step for a full pool: a frame comes free by itself when a read under way, or a cleaning, has ended.
    fn comes_free(&self, home: &Partition, dirty: bool) -> FetchStep {
        if self.cleaning.load(Ordering::Relaxed) > 0 {
            return FetchStep::Soon;
        }
        let mut tried = 0;
        let slot = home.reading.values().next().cloned().or_else(|| {
            let others = self.partitions.iter().filter_map(|part| part.try_lock());
            let mut others = others.inspect(|_| tried += 1);
            others.find_map(|other| other.reading.values().next().cloned())
        });
        match slot {
            Some(slot) => FetchStep::Again(slot),
            // One that could not be looked at may be reading.
            None if tried + 1 < self.partitions.len() => FetchStep::Soon,
            None => FetchStep::Full(dirty),
        }
    }

    /// The read of a page has ended.
    fn ended(&self, page: u64, frame: u32, ahead: bool, completion: Completion) {
        let result = match completion.result {
            Ok(bytes) if bytes == self.page_bytes => Ok(()),
            Ok(bytes) => Err(format!("the file has been cut: {bytes} of {} bytes", self.page_bytes)),
            Err(DeviceError { source, .. }) => Err(source.to_string()),
        };
        let mut partition = self.partition(page).lock();
        let slot = partition.reading.remove(&page);
        if let Some(state) = self.table.of(page) {
            match &result {
                Ok(()) => state.ready(),
                Err(_) => state.failed(),
            }
        }
        drop(partition);
        if ahead {
            self.ahead_on_their_way.fetch_sub(1, Ordering::Relaxed);
        }
        if result.is_err() {
            self.give_back(frame);
        }
        if let Some(slot) = slot {
            slot.change(|place| *place = Some(result));
        }
    }
}

/// A frame that is being read into.
struct FrameBuffer {
    shared: Arc<Shared>,
    frame: u32,
}

impl Buffer for FrameBuffer {
    fn bytes(&mut self) -> &mut [u8] {
        let start = self.shared.frames.frame(self.frame).as_ptr();
        // SAFETY: the page is in state READING, so no thread looks at the frame until the request is answered. Each
        // read has one buffer, which is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(start, self.shared.page_bytes) }
    }
}
