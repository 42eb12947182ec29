//! The shortcut past the recorder: one word that says which statements need not be noted, and which one runs unnoted.
//!
//! The word is a copy of what the recorder knows, so that frequent statements take no lock. Every use of the recorder takes
//! a query out of it that runs unnoted, and writes it anew. An id is the address of a statement and a multiple of four; its
//! two lowest bits say the lane. A statement with another address takes no shortcut.

use crate::capture::transition::{RecorderState, WriteLock};
use std::sync::atomic::{AtomicUsize, Ordering};

const QUERIES: usize = 1;
const WRITERS: usize = 2;
const LANES: usize = 3;

/// State of the shortcut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shortcut {
    /// Every statement is noted.
    Closed,
    /// Nothing runs and nothing is recorded: a query need not be noted.
    Queries,
    /// The open transaction writes, and will be written as pages: a statement that writes need not be noted.
    Writers,
    /// This query runs, and is not noted.
    Query(usize),
    /// This statement of a lost transaction runs, and is not noted.
    Writer(usize),
}

impl Shortcut {
    /// The shortcut that a recorder leaves open. `is_blank` says that nothing runs, nothing is recorded, and nothing is known
    /// of the last statement that a query could make stale.
    pub fn of(state: RecorderState, is_blank: bool) -> Shortcut {
        match state {
            _ if is_blank => Shortcut::Queries,
            RecorderState::Lost(_, WriteLock::Held) => Shortcut::Writers,
            _ => Shortcut::Closed,
        }
    }

    /// True if a statement of a lost transaction may start unnoted.
    #[inline]
    pub fn takes_writers(self) -> bool {
        matches!(self, Shortcut::Writers | Shortcut::Writer(_))
    }

    /// The shortcut after the end of a statement that ran unnoted; `None` where it did not.
    #[inline]
    pub fn after_end(self, id: usize) -> Option<Shortcut> {
        match self {
            Shortcut::Query(query) if query == id => Some(Shortcut::Queries),
            Shortcut::Writer(writer) if writer == id => Some(Shortcut::Writers),
            _ => None,
        }
    }

    /// The shortcut when a statement starts that is noted. A writer that ran unnoted may have ended untold, and its address
    /// may now be another's.
    pub fn after_noted_start(self) -> Shortcut {
        if let Shortcut::Writer(_) = self { Shortcut::Writers } else { self }
    }

    #[inline]
    fn encode(self) -> usize {
        match self {
            Shortcut::Closed => 0,
            Shortcut::Queries => QUERIES,
            Shortcut::Writers => WRITERS,
            Shortcut::Query(id) => id | QUERIES,
            Shortcut::Writer(id) => id | WRITERS,
        }
    }

    #[inline]
    fn decode(word: usize) -> Shortcut {
        let id = word & !LANES;
        match word & LANES {
            QUERIES if id == 0 => Shortcut::Queries,
            QUERIES => Shortcut::Query(id),
            WRITERS if id == 0 => Shortcut::Writers,
            WRITERS => Shortcut::Writer(id),
            _ => Shortcut::Closed,
        }
    }
}

/// True if a statement can be told from others by the word.
#[inline]
pub(super) fn fits(id: usize) -> bool {
    id & LANES == 0 && id != 0
}

/// The shortcut of one connection. Only the thread that uses the connection changes it.
#[derive(Default)]
pub(super) struct ShortcutWord(AtomicUsize);

impl ShortcutWord {
    #[inline]
    pub fn get(&self) -> Shortcut {
        Shortcut::decode(self.0.load(Ordering::Relaxed))
    }

    #[inline]
    pub fn set(&self, shortcut: Shortcut) {
        self.0.store(shortcut.encode(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::FallbackCause;
    use Shortcut::*;

    #[test]
    fn the_word_keeps_every_state() {
        let word = ShortcutWord::default();
        assert_eq!(word.get(), Closed);
        for shortcut in [Closed, Queries, Writers, Query(4), Query(usize::MAX & !3), Writer(8)] {
            word.set(shortcut);
            assert_eq!(word.get(), shortcut);
        }
        for (id, expected) in [(0, false), (1, false), (2, false), (3, false), (4, true), (4096, true)] {
            assert_eq!(fits(id), expected, "{id}");
        }
    }

    #[test]
    fn every_state_answers_every_event() {
        // State; whether it takes writers; after the end of 4, of 8; after a noted start.
        for (shortcut, writers, end_of_4, end_of_8, noted) in [
            (Closed, false, None, None, Closed),
            (Queries, false, None, None, Queries),
            (Writers, true, None, None, Writers),
            (Query(4), false, Some(Queries), None, Query(4)),
            (Writer(8), true, None, Some(Writers), Writers),
        ] {
            assert_eq!(shortcut.takes_writers(), writers, "{shortcut:?}");
            assert_eq!(shortcut.after_end(4), end_of_4, "{shortcut:?}");
            assert_eq!(shortcut.after_end(8), end_of_8, "{shortcut:?}");
            assert_eq!(shortcut.after_noted_start(), noted, "{shortcut:?}");
        }
    }

    #[test]
    fn the_recorder_opens_what_it_need_not_note() {
        let cause = FallbackCause::Schema;
        for (state, blank, busy) in [
            (RecorderState::Recording(WriteLock::NotHeld), Queries, Closed),
            (RecorderState::Recording(WriteLock::Held), Queries, Closed),
            (RecorderState::Lost(cause, WriteLock::NotHeld), Queries, Closed),
            (RecorderState::Lost(cause, WriteLock::Held), Queries, Writers),
        ] {
            assert_eq!(Shortcut::of(state, true), blank, "{state:?}");
            assert_eq!(Shortcut::of(state, false), busy, "{state:?}");
        }
    }
}
