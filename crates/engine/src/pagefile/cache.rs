//! Reading a page file: pages in memory, pages on their way, and the clock that decides which to forget.
//!
//! A hit is one compare-and-swap on the page's [`State`], without a lock; letting go is one subtraction.
//! Everything else, the *slow path*, happens under one lock that is never held while anybody waits.
//!
//! # Invariants
//! 1. A frame is free, or named by the state of exactly the page that `owner` says.
//! 2. A page has a slot in `reading` exactly while its state says that it is being read.
//! 3. At most half of the frames are for pages read ahead and on their way: what is demanded finds a frame.
//! 4. Where every frame is held, and none is on its way, a demand is an error at once. A demand waits for a
//!    frame at most [`MOST_WAITS`] times.

use super::frames::Frames;
use super::header::Header;
use super::state::{Found, State};
use super::{Error, FEWEST_PAGES, Options, Result};
use crate::device::{DeviceError, File, FileKind, Medium, OpenMode};
use crate::ops::{self, Extents, Pages};
use crate::prefetch::{self, Detector};
use crate::sync::Mutex;
use crate::task::io::{Buffer, Completion, Direction, IoQueue, Request};
use crate::task::{Watched, in_fiber};
use std::collections::HashMap;
use std::ops::Deref;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often a demand waits for a frame before it gives up.
const MOST_WAITS: usize = 1000;

/// How a read ended; waited on by those who want the page.
type Slot = Watched<Option<std::result::Result<(), String>>>;

/// What a page file has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Pages that had to be read, and waited for.
    pub missed: u64,
    /// Pages read ahead.
    pub ahead: u64,
}

/// A page file that is read. Threads and fibers share it.
pub struct PageFile {
    file: Arc<dyn File>,
    io: Arc<IoQueue>,
    header: Header,
    shared: Arc<Shared>,
}

/// What reads under way hold on to.
struct Shared {
    page_bytes: usize,
    frames: Frames,
    states: States,
    slow: Mutex<Slow>,
    missed: AtomicU64,
    ahead: AtomicU64,
}

/// A word for each page of the file. Neighbours in the file are not neighbours here: threads that hold adjacent
/// pages, as those of a parallel scan do, would otherwise take the cache line from each other.
struct States(Box<[State]>);

impl States {
    /// Words whose order is changed among themselves: a page of memory full.
    const BLOCK: usize = 512;
    /// Adjacent pages' words lie so many words apart: eight cache lines.
    const APART: usize = 64;

    fn new(pages: usize) -> States {
        States((0..pages.next_multiple_of(States::BLOCK)).map(|_| State::default()).collect())
    }

    /// The state of a page; there are some behind the file's last page that nobody uses.
    #[inline]
    fn of(&self, page: u64) -> Option<&State> {
        let page = page as usize;
        let (block, inside) = (page & !(States::BLOCK - 1), page & (States::BLOCK - 1));
        let rows = States::BLOCK / States::APART;
        self.0.get(block | (inside % rows * States::APART) | (inside / rows))
    }
}

/// What the lock guards.
struct Slow {
    /// The page in each frame.
    owner: Vec<u64>,
    free: Vec<u32>,
    hand: usize,
    reading: HashMap<u64, Arc<Slot>>,
    ahead_on_their_way: usize,
    detector: Option<Detector>,
}

/// A page in memory, for as long as this lives.
pub struct Held<'a> {
    bytes: NonNull<u8>,
    page_bytes: usize,
    state: &'a State,
}

// SAFETY: it only reads bytes that nobody writes while the page is held, and lets go through an atomic.
unsafe impl Send for Held<'_> {}
// SAFETY: as above.
unsafe impl Sync for Held<'_> {}

impl Deref for Held<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the page is held, so the frame is its own and not written (invariants 2 and 3 of the state);
        // the frames live as long as the page file, which is borrowed.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr(), self.page_bytes) }
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.state.let_go();
    }
}

/// What the slow path found.
enum Step {
    /// Held, in that frame.
    Held(u32),
    /// Held once the read has ended well.
    Wait(Arc<Slot>),
    /// Look again once the read has ended somehow: there was no frame.
    Again(Arc<Slot>),
    /// Nobody can have the page now.
    Full,
}

impl PageFile {
    /// Opens a page file.
    ///
    /// # Errors
    /// [`Error::NotAPageFile`], [`Error::PageSize`], [`Error::Memory`]; those of the medium.
    pub fn open(medium: &dyn Medium, path: &Path, io: Arc<IoQueue>, options: &Options) -> Result<PageFile> {
        let file = medium.open(path, FileKind::Database, OpenMode::ReadOnly)?;
        let header = Header::read(&*file)?;
        let (page_bytes, pages) = (header.page_bytes, usize::try_from(header.pages).unwrap_or(usize::MAX));
        let count = (options.cache_bytes / page_bytes).min(pages).clamp(FEWEST_PAGES, 1 << 31);
        let detector = options.prefetch.then(|| Detector::new(prefetch::Config::for_page_bytes(page_bytes)));
        let slow = Slow {
            owner: vec![0; count],
            free: (0..count as u32).rev().collect(),
            hand: 0,
            reading: HashMap::new(),
            ahead_on_their_way: 0,
            detector,
        };
        let shared = Shared {
            page_bytes,
            frames: Frames::new(count, page_bytes)?,
            states: States::new(pages),
            slow: Mutex::new(slow),
            missed: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
        };
        Ok(PageFile { file, io, header, shared: Arc::new(shared) })
    }

    /// The pages behind page 0.
    pub fn extents(&self) -> Extents {
        Extents::from(1..self.header.pages)
    }

    /// What has been done so far.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            missed: self.shared.missed.load(Ordering::Relaxed),
            ahead: self.shared.ahead.load(Ordering::Relaxed),
        }
    }

    /// Holds a page.
    ///
    /// # Errors
    /// [`Error::NoSuchPage`], [`Error::Read`], [`Error::AllHeld`].
    #[inline]
    pub fn hold(&self, page: u64) -> Result<Held<'_>> {
        match self.shared.states.of(page) {
            Some(state) if page > 0 && page < self.header.pages => match state.hold() {
                Some(frame) => Ok(self.held(frame, state)),
                None => self.hold_slowly(page, state),
            },
            _ => Err(Error::NoSuchPage { path: self.file.path().to_owned(), page, pages: self.header.pages }),
        }
    }

    #[inline]
    fn held<'a>(&'a self, frame: u32, state: &'a State) -> Held<'a> {
        Held { bytes: self.shared.frames.frame(frame), page_bytes: self.header.page_bytes, state }
    }

    #[cold]
    fn hold_slowly<'a>(&'a self, page: u64, state: &'a State) -> Result<Held<'a>> {
        for _ in 0..MOST_WAITS {
            let (step, mut reads) = self.step(page, state);
            // One page for a plain thread: handing it to another thread would only cost two switches.
            match (reads.len(), in_fiber()) {
                (0, _) => {}
                (1, false) => reads.drain(..).for_each(|read| self.io.perform(read)),
                _ => self.io.submit_all(reads),
            }
            match step {
                Step::Held(frame) => return Ok(self.held(frame, state)),
                Step::Wait(slot) => {
                    slot.wait(|result| result.clone()).map_err(|why| Error::Read {
                        path: self.file.path().to_owned(),
                        page,
                        why,
                    })?;
                    if let Found::Ready(frame) = state.look() {
                        return Ok(self.held(frame, state));
                    }
                }
                Step::Again(slot) => slot.wait(|result| result.is_some().then_some(())),
                Step::Full => break,
            }
        }
        Err(Error::AllHeld { path: self.file.path().to_owned() })
    }

    /// One look under the lock, and what has to be read after it.
    fn step(&self, page: u64, state: &State) -> (Step, Vec<Request>) {
        let mut slow = self.shared.slow.lock();
        let mut reads = Vec::new();
        let (step, is_news) = match (state.look(), slow.reading.get(&page).cloned()) {
            (Found::Ready(_), _) => {
                let is_news = state.first_use();
                (state.hold_ready().map_or(Step::Full, Step::Held), is_news)
            }
            (Found::Reading, Some(slot)) => {
                let step = if state.join() { Step::Wait(slot) } else { Step::Full };
                (step, state.first_use())
            }
            _ => match self.begin(&mut slow, page, state, false) {
                Some((slot, request)) => {
                    self.shared.missed.fetch_add(1, Ordering::Relaxed);
                    reads.push(request);
                    (Step::Wait(slot), true)
                }
                // Some frame comes free when a read that is under way ends and is used.
                None => match slow.reading.values().next() {
                    Some(slot) => (Step::Again(slot.clone()), false),
                    None => (Step::Full, false),
                },
            },
        };
        if is_news {
            self.read_ahead(&mut slow, page, &mut reads);
        }
        (step, reads)
    }

    fn read_ahead(&self, slow: &mut Slow, page: u64, reads: &mut Vec<Request>) {
        let pages = self.header.pages;
        let Some(run) = slow.detector.as_mut().and_then(|detector| detector.wanted(page, pages)) else {
            return;
        };
        for page in run.pages().filter(|page| *page > 0) {
            let Some(state) = self.shared.states.of(page) else { return };
            if slow.ahead_on_their_way >= slow.owner.len() / 2 {
                return;
            }
            if state.look() != Found::Empty {
                continue;
            }
            let Some((_, request)) = self.begin(slow, page, state, true) else { return };
            slow.ahead_on_their_way += 1;
            self.shared.ahead.fetch_add(1, Ordering::Relaxed);
            reads.push(request);
        }
    }

    /// Gives a page a frame and makes the request that fills it; `None` where no frame can be had.
    fn begin(&self, slow: &mut Slow, page: u64, state: &State, ahead: bool) -> Option<(Arc<Slot>, Request)> {
        let frame = slow.frame(&self.shared.states)?;
        slow.owner[frame as usize] = page;
        state.begin(frame, ahead);
        let slot = Arc::new(Slot::default());
        slow.reading.insert(page, slot.clone());
        let shared = self.shared.clone();
        let request = Request {
            file: self.file.clone(),
            direction: Direction::Read,
            offset: page * self.header.page_bytes as u64,
            buffer: Box::new(FrameBuffer { shared: shared.clone(), frame }),
            done: Box::new(move |completion| shared.ended(page, frame, ahead, completion)),
        };
        Some((slot, request))
    }
}

impl Slow {
    /// A frame for a page: a free one, or that of the first page the clock's hand does not spare. Two rounds
    /// suffice: the first takes away what spares.
    fn frame(&mut self, states: &States) -> Option<u32> {
        if let Some(frame) = self.free.pop() {
            return Some(frame);
        }
        for _ in 0..2 * self.owner.len() {
            let frame = self.hand;
            self.hand = (self.hand + 1) % self.owner.len();
            let state = states.of(self.owner[frame]);
            if state.is_some_and(|state| state.evict(frame as u32)) {
                return Some(frame as u32);
            }
        }
        None
    }
}

impl Shared {
    /// The read of a page has ended.
    fn ended(&self, page: u64, frame: u32, ahead: bool, completion: Completion) {
        let result = match completion.result {
            Ok(bytes) if bytes == self.page_bytes => Ok(()),
            Ok(bytes) => Err(format!("the file has been cut: {bytes} of {} bytes", self.page_bytes)),
            Err(DeviceError { source, .. }) => Err(source.to_string()),
        };
        let mut slow = self.slow.lock();
        let slot = slow.reading.remove(&page);
        slow.ahead_on_their_way -= usize::from(ahead);
        if let Some(state) = self.states.of(page) {
            match &result {
                Ok(()) => state.ready(),
                Err(_) => {
                    state.failed();
                    slow.free.push(frame);
                }
            }
        }
        drop(slow);
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
        // SAFETY: the page's state says that it is being read, so nobody else looks at the frame until the
        // request is answered; there is one buffer for each read, and it is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(start, self.shared.page_bytes) }
    }
}

impl Pages for PageFile {
    type Guard<'a> = Held<'a>;

    fn page_bytes(&self) -> usize {
        self.header.page_bytes
    }

    #[inline]
    fn page(&self, page: u64) -> ops::Result<Held<'_>> {
        self.hold(page).map_err(ops::Error::pages)
    }
}
