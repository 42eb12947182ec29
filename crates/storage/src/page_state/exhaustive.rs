//! Every interleaving of two or three threads, as far as the C11 memory model allows it.

use super::*;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64 as Checked;
use loom::thread;

word!(Checked);

/// A page in frame 0, and the frame: the checker finds every access to it that is not ordered.
struct Page {
    state: PageState<Checked>,
    frame: UnsafeCell<u64>,
}

// SAFETY: who may look at the frame is what the checker is asked.
unsafe impl Sync for Page {}
// SAFETY: as above.
unsafe impl Send for Page {}

impl Page {
    fn look(&self) -> u64 {
        // SAFETY: the checker fails the test where a thread writes meanwhile.
        self.frame.with(|value| unsafe { *value })
    }

    fn put(&self, value: u64) {
        // SAFETY: the checker fails the test where a thread looks or writes meanwhile.
        self.frame.with_mut(|place| unsafe { *place = value });
    }
}

fn page() -> Arc<Page> {
    let page = Page { state: PageState::default(), frame: UnsafeCell::new(1) };
    page.state.begin(0, false);
    page.state.ready();
    page.state.unpin();
    Arc::new(page)
}

fn read(page: &Page) -> Option<u64> {
    page.state.pin()?;
    let value = page.look();
    page.state.unpin();
    Some(value)
}

fn write(page: &Page, value: u64) -> bool {
    let taken = page.state.write().is_some();
    if taken {
        page.put(value);
        page.state.written();
    }
    taken
}

#[test]
fn a_frame_that_was_taken_is_read_by_nobody() {
    loom::model(|| {
        let page = page();
        let other = page.clone();
        let reader = thread::spawn(move || read(&other));
        // The thread that evicts gives the frame to another page, whose bytes are then written.
        if page.state.evict(0) {
            page.put(2);
        }
        assert_ne!(reader.join().unwrap(), Some(2));
    });
}

#[test]
fn a_read_is_seen_whole() {
    loom::model(|| {
        let page = Arc::new(Page { state: PageState::default(), frame: UnsafeCell::new(0) });
        page.state.begin(0, true);
        let other = page.clone();
        let reader = thread::spawn(move || {
            other.state.pin_ready().map(|_| {
                let value = other.look();
                other.state.unpin();
                value
            })
        });
        page.put(7);
        page.state.ready();
        assert!(matches!(reader.join().unwrap(), None | Some(7)));
    });
}

#[test]
fn a_writer_a_reader_and_the_clock_never_meet() {
    loom::model(|| {
        let page = page();
        let (first, second) = (page.clone(), page.clone());
        let writer = thread::spawn(move || write(&first, 3));
        let reader = thread::spawn(move || read(&second));
        let evicted = page.state.evict(0);
        if evicted {
            page.put(9);
        }
        let (written, seen) = (writer.join().unwrap(), reader.join().unwrap());
        assert!(!(written && evicted), "a page that was written was evicted");
        assert!(matches!(seen, None | Some(1 | 3)));
    });
}

#[test]
fn what_is_being_cleaned_does_not_change() {
    loom::model(|| {
        let page = page();
        assert!(write(&page, 3));
        let other = page.clone();
        let writer = thread::spawn(move || write(&other, 4));
        let cleaned = page.state.clean().map(|_| {
            let before = page.look();
            let after = page.look();
            assert_eq!(before, after);
            page.state.cleaned(true);
            after
        });
        let written = writer.join().unwrap();
        let last = page.look();
        assert_eq!(last, if written { 4 } else { 3 });
        assert!(page.state.is_dirty() || cleaned == Some(last), "what was written is lost");
    });
}

#[test]
fn what_is_written_under_a_latch_is_seen_whole() {
    loom::model(|| {
        let page = page();
        let (first, second) = (page.clone(), page.clone());
        let reader = thread::spawn(move || read(&first));
        let rival = thread::spawn(move || second.state.evict(0));
        let written = match page.state.latch() {
            Latched::Frame(0, 0) => {
                page.put(4);
                page.state.unlatch();
                true
            }
            Latched::Busy => false,
            _ => {
                page.state.unlatch();
                false
            }
        };
        let (evicted, seen) = (rival.join().unwrap(), reader.join().unwrap());
        assert!(seen.is_none_or(|value| value == 1 || (value == 4 && written)));
        assert!(!evicted || page.state.look() == Found::Empty);
    });
}

#[test]
fn a_page_is_evicted_by_one_and_pinned_by_none() {
    loom::model(|| {
        let page = page();
        let (first, second) = (page.clone(), page.clone());
        let reader = thread::spawn(move || read(&first));
        let rival = thread::spawn(move || matches!(second.state.forget(), Forgotten::Frame(0, _)));
        let mine = matches!(page.state.forget(), Forgotten::Frame(0, _));
        if mine {
            page.put(5);
        }
        assert!(!(mine && rival.join().unwrap()));
        assert_ne!(reader.join().unwrap(), Some(5));
    });
}
