//! Questions of a pool to the one that reads ahead, and its answers.

use super::Pool;
use super::guard::Pinned;
use crate::page_state::Found;

/// Planner of readahead: asked at each miss, and at the first use of a page that was read ahead.
pub trait Advisor {
    /// Adds the pages that will be wanted after `page`, in order.
    fn wanted(&mut self, page: u64, memory: &Resident<'_>, ahead: &mut Vec<u64>);
}

/// The questions of an [`Advisor`] about the pages in memory.
pub struct Resident<'a>(pub(crate) &'a Pool);

impl Resident<'_> {
    /// Pages of the file.
    pub fn pages(&self) -> u64 {
        self.0.pages()
    }

    /// True if a page is in memory, or on its way there.
    pub fn has(&self, page: u64) -> bool {
        self.0.shared.table.of(page).is_some_and(|state| state.look() != Found::Empty)
    }

    /// Shows the bytes of a page in memory without counting as a use of it. `look` must not come back to the pool.
    pub fn peek(&self, page: u64, look: &mut dyn FnMut(&[u8])) -> bool {
        // Under the lock the page is not latched: its bytes stay as they are.
        let _partition = self.0.shared.partition(page).lock();
        let Some(state) = self.0.shared.table.of(page) else { return false };
        let Some(frame) = state.pin_quietly() else { return false };
        look(&Pinned::of(self.0, frame, state));
        true
    }
}

/// Nothing is read ahead.
impl Advisor for () {
    fn wanted(&mut self, _page: u64, _memory: &Resident<'_>, _ahead: &mut Vec<u64>) {}
}
