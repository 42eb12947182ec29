//! Checks of the pool's invariants, for tests and for the check of a page database.

use super::guard::Pinned;
use super::{Mutex, Pool};
use crate::page_state::{Found, PageState};

impl Pool {
    /// Contradictions between frames and pages: the page, and the fault. No thread may write meanwhile.
    pub fn inconsistencies(&self) -> Vec<(u64, String)> {
        let mut wrong = Vec::new();
        let mut seen = std::collections::HashMap::new();
        // All at once: frames are borrowed. A thread with one of these locks waits for no other.
        let partitions: Vec<_> = self.shared.partitions.iter().map(Mutex::lock).collect();
        for partition in &partitions {
            for (frame, page) in partition.owned() {
                let found = self.shared.table.of(page).map(PageState::look);
                if found != Some(Found::Ready(frame)) && found != Some(Found::Reading) {
                    wrong.push((page, format!("frame {frame} is said to be its, and it says {found:?}")));
                }
                if let Some(other) = seen.insert(page, frame) {
                    wrong.push((page, format!("it has the frames {other} and {frame}")));
                }
            }
            wrong.extend(
                partition.wrong_free().map(|frame| (0, format!("frame {frame} is free, and is not"))),
            );
        }
        let in_memory = |page: &u64| {
            self.shared.table.of(*page).is_some_and(|state| state.look() != Found::Empty)
                && !seen.contains_key(page)
        };
        wrong.extend(
            (0..self.pages()).filter(in_memory).map(|page| (page, "its frame is another's".to_owned())),
        );
        wrong
    }

    /// The pages in memory that differ from `read`, and all other faults. No thread may change pages meanwhile; where a
    /// page cannot be read, it is passed over.
    #[doc(hidden)]
    pub fn differences(&self, read: impl Fn(u64, &mut [u8]) -> bool) -> Vec<(u64, String)> {
        let mut wrong = self.inconsistencies();
        let mut expected = vec![0; self.page_bytes()];
        for page in self.shared.in_frames() {
            let Some(state) = self.shared.table.of(page) else { continue };
            let Some(frame) = state.pin_ready() else { continue };
            let pinned = Pinned::of(self, frame, state);
            if page >= self.pages() {
                wrong.push((page, "it lies behind the end".to_owned()));
            } else if read(page, &mut expected) && *pinned != *expected {
                let at = pinned.iter().zip(&expected).position(|(one, other)| one != other);
                wrong.push((page, format!("it differs from the medium from byte {at:?} on")));
            }
        }
        wrong
    }

    /// Pinned pages.
    #[doc(hidden)]
    pub fn pins(&self) -> u64 {
        let pins = |page| self.shared.table.of(page).map_or(0, PageState::pins);
        self.shared.in_frames().into_iter().map(pins).sum()
    }

    /// True while a page is on its way into memory.
    #[doc(hidden)]
    pub fn is_reading(&self) -> bool {
        self.shared.partitions.iter().any(|partition| !partition.lock().reading.is_empty())
    }

    /// For tests of the check of a page database: gives a page the frame of another one.
    #[doc(hidden)]
    pub fn corrupt(&self, page: u64, frame: u32) {
        if let Some(state) = self.shared.table.of(page) {
            state.begin(frame, false);
            state.ready();
            state.unpin();
        }
    }
}
