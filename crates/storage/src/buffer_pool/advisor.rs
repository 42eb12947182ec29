//! Questions of a pool to the one that reads ahead, and its answers.

use super::Pool;
use crate::page_state::Found;

/// Says which pages will be wanted after one that is not in memory, or that was read ahead and is wanted now.
pub trait Advisor {
    /// Adds the pages, in the order in which they will be wanted.
    fn wanted(&mut self, page: u64, memory: &Resident<'_>, ahead: &mut Vec<u64>);
}

/// What an [`Advisor`] may ask about the pages in memory.
pub struct Resident<'a>(pub(crate) &'a Pool);

impl Resident<'_> {
    /// Pages of the file.
    pub fn pages(&self) -> u64 {
        self.0.pages()
    }

    /// Whether a page is in memory, or on its way there.
    pub fn has(&self, page: u64) -> bool {
        self.0.shared.table.of(page).is_some_and(|state| state.look() != Found::Empty)
    }

    /// Shows the bytes of a page to one who does not want it, if it is in memory. `look` must not come back to the
    /// pool.
    pub fn peek(&self, page: u64, look: &mut dyn FnMut(&[u8])) -> bool {
        // Under the lock nobody latches it: its bytes stay as they are.
        let _partition = self.0.shared.partition(page).lock();
        let Some(state) = self.0.shared.table.of(page) else { return false };
        let Some(frame) = state.pin_quietly() else { return false };
        look(&self.0.held(frame, state));
        true
    }
}

/// Nothing is read ahead.
impl Advisor for () {
    fn wanted(&mut self, _page: u64, _memory: &Resident<'_>, _ahead: &mut Vec<u64>) {}
}
