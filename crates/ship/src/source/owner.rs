//! Looking through the owner: a process on litefoot that has the database open tells what changed, and nobody opens the file.
//!
//! # Why
//! To the owner a visit is another process: it brings everything home, and goes on in SQLite's own protocol for a while. Its commits then
//! cost what they cost without litefoot.
//!
//! # Invariants
//! 1. The owner tells of a page until it was told, and not again before that page changes. So pages that were told are kept until their
//!    moment is accepted, or a visit has read everything.
//! 2. Pages are of one moment only when the owner has nothing left to tell.
//! 3. At most 64 MiB are kept. What is more is read by a visit.
//! 4. With a history the owner tells transactions, and each waits in order until the one before it is accepted. Pages that a later one has changed are
//!    not at hand meanwhile: a moment that wants one is left out, and its transaction counts with the next.

use super::scan::Found;
use super::steps::{Step, Steps};
use super::view::View;
use super::{Images, PageMap};
use crate::{Error, Result};
use litefoot_ltx::{Checksum, lock_page};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Most bytes of pages that are kept until their moment is complete.
const MOST_BYTES: usize = 64 << 20;
/// The time in which an owner that was visited is expected to be alone again.
const RETURN: Duration = Duration::from_millis(1500);
/// How long it is visited at once where it was not.
const IMPATIENCE: Duration = Duration::from_secs(10);
/// How long a transaction is waited for before the database is visited.
const LONGEST_BUSY: Duration = Duration::from_secs(5);

/// The owner of a database.
pub trait Owner: Send {
    /// True if it has answered. Without that, to look for it may open the file for a moment.
    fn is_connected(&self) -> bool;
    /// What has changed since the last question.
    fn changes(&mut self) -> Answer;
    /// The next part of the next transaction since then. Where that is not known it is what has changed.
    fn next_transaction(&mut self) -> Answer;
    /// Reads a page that has not changed since; `false` where it may have.
    fn page(&mut self, number: u32, to: &mut [u8]) -> bool;
}

/// What an owner answers.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Pages that may have changed.
    Told(Told),
    /// Others have the database open, or had it just now.
    Company,
    /// A transaction is in the way.
    Busy,
    /// There is none.
    Nobody,
}

/// Pages that may have changed, or some of them.
#[derive(Clone, Debug)]
pub struct Told {
    /// Bytes of a page.
    pub page_size: u32,
    /// The number of pages of the database.
    pub pages: u32,
    /// The pages, and their bytes one behind the other.
    pub numbers: Vec<u32>,
    /// Their bytes.
    pub data: Vec<u8>,
    /// True where these are all.
    pub is_last: bool,
    /// Of a transaction: when it was committed, in milliseconds since 1970.
    pub committed_ms: Option<u64>,
}

/// What is to be done.
pub enum Way {
    /// The owner has told everything of this moment.
    Through(Moment),
    /// Nothing now: the owner will answer soon.
    Wait,
    /// The database is to be visited.
    Visit,
}

/// The size of a database at a moment of which everything is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    page_size: u32,
    pages: u32,
}

/// An owner, and what it has told.
pub struct Looks {
    path: PathBuf,
    owner: RefCell<Box<dyn Owner>>,
    /// Pages that were told, and are not accepted yet.
    told: BTreeMap<u32, Box<[u8]>>,
    bytes: usize,
    /// Transactions behind them, where a history is wanted.
    steps: Option<Steps>,
    /// What was told may be older than what a visit has read: the owner is to tell what has changed, and not how.
    begins_anew: bool,
    /// When the transaction was committed that was told, where it is one.
    committed_ms: Option<u64>,
    /// True until a visit has read everything.
    wants_visit: bool,
    visited: Option<Instant>,
    /// When it was last found to have company longer than expected.
    in_vain: Option<Instant>,
    busy: Option<Instant>,
    /// True if a page was asked for that has changed behind the moment.
    is_past: Cell<bool>,
}

impl Looks {
    /// The looks of a database.
    pub fn new(path: &Path, owner: Box<dyn Owner>) -> Looks {
        Looks {
            path: path.to_owned(),
            owner: RefCell::new(owner),
            told: BTreeMap::new(),
            bytes: 0,
            steps: None,
            begins_anew: true,
            committed_ms: None,
            wants_visit: false,
            visited: None,
            in_vain: None,
            busy: None,
            is_past: Cell::new(false),
        }
    }

    /// True if the owner has answered before.
    pub fn is_connected(&self) -> bool {
        self.owner.borrow().is_connected()
    }

    /// The owner is asked for each transaction from now on.
    pub fn want_history(&mut self) {
        self.steps = Some(Steps::default());
    }

    /// When the transaction was committed that leads to the moment; `None` where it may be several.
    pub fn committed_ms(&self) -> Option<u64> {
        self.committed_ms
    }

    /// True if a transaction waits that the owner has told.
    pub fn has_next(&self) -> bool {
        self.steps.as_ref().is_some_and(Steps::have_next)
    }

    /// Takes the transactions that the owner keeps, so that it need not keep more. Nothing without a history, or without an owner.
    pub fn listen(&mut self) {
        if self.steps.is_some() && self.is_connected() && !self.wants_visit {
            // Whatever else it answers, it answers again.
            let _ = self.take_steps();
        }
    }

    /// Asks the owner until it has told everything, or one transaction of a history. `known` are the pages of the last moment.
    pub fn ask(&mut self, known: Option<&PageMap>, may_wait: bool) -> Way {
        if self.steps.is_none() {
            return loop {
                match self.next_answer(false) {
                    Answer::Told(told) if told.page_size > 0 && !self.wants_visit => {
                        if let Some(way) = self.keep(&told, known) {
                            break way;
                        }
                    }
                    answer => break self.without_moment(&answer, may_wait),
                }
            };
        }
        let answer = self.take_steps();
        if let Some(step) = self.steps.as_mut().and_then(Steps::next) {
            return self.begin(&step, known);
        }
        match answer {
            Answer::Told(told) if told.page_size > 0 && !self.wants_visit => {
                let end = Step { parts: vec![told], committed_ms: None, is_whole: true };
                self.begin(&end, known)
            }
            answer => self.without_moment(&answer, may_wait),
        }
    }

    /// The next transaction, or what has changed, is the way to a moment.
    fn begin(&mut self, step: &Step, known: Option<&PageMap>) -> Way {
        // Pages of a moment that was left out are still there.
        self.committed_ms = step.committed_ms.filter(|_| self.told.is_empty());
        let ways = step.parts.iter().filter_map(|part| self.keep(part, known));
        ways.last().unwrap_or(Way::Visit)
    }

    /// Takes all steps that the owner tells; answers what it says in the end: nothing has changed, or something else.
    fn take_steps(&mut self) -> Answer {
        loop {
            let begins_anew = self.begins_anew;
            match self.next_answer(!begins_anew) {
                Answer::Told(told) if told.page_size > 0 && !self.wants_visit => {
                    let is_end = told.is_last && told.committed_ms.is_none();
                    self.begins_anew &= !is_end;
                    let steps = self.steps.get_or_insert_default();
                    if is_end && told.numbers.is_empty() && !steps.is_told_in_part() {
                        if begins_anew {
                            continue;
                        }
                        return Answer::Told(told);
                    }
                    steps.add(told);
                    if steps.bytes() > MOST_BYTES {
                        self.give_up();
                        return Answer::Nobody;
                    }
                }
                answer => return answer,
            }
        }
    }

    fn next_answer(&mut self, is_of_history: bool) -> Answer {
        let owner = self.owner.get_mut();
        let answer = if is_of_history { owner.next_transaction() } else { owner.changes() };
        match answer {
            Answer::Busy => {}
            Answer::Told(_) => (self.busy, self.in_vain) = (None, None),
            _ => self.busy = None,
        }
        answer
    }

    /// The owner has told no moment.
    fn without_moment(&mut self, answer: &Answer, may_wait: bool) -> Way {
        match answer {
            Answer::Nobody | Answer::Told(_) => Way::Visit,
            _ if self.wants_visit => Way::Visit,
            Answer::Company => self.wait_for_company(may_wait),
            Answer::Busy => {
                let since = *self.busy.get_or_insert_with(Instant::now);
                let waits = may_wait && since.elapsed() < LONGEST_BUSY;
                if waits { Way::Wait } else { self.give_up() }
            }
        }
    }

    /// Whoever visits keeps an owner from being alone again. But others may be there anyway.
    fn wait_for_company(&mut self, may_wait: bool) -> Way {
        let is_recent =
            |since: Option<Instant>, time| since.is_some_and(|since: Instant| since.elapsed() < time);
        if may_wait && !is_recent(self.in_vain, IMPATIENCE) && is_recent(self.visited, RETURN) {
            return Way::Wait;
        }
        if !is_recent(self.in_vain, IMPATIENCE) {
            self.in_vain = Some(Instant::now());
        }
        Way::Visit
    }

    /// What was told is not enough.
    fn give_up(&mut self) -> Way {
        self.wants_visit = true;
        Way::Visit
    }

    /// Keeps pages that are not as they were. Behind the last of them answers a way.
    fn keep(&mut self, told: &Told, known: Option<&PageMap>) -> Option<Way> {
        let known = known.filter(|known| known.page_size() == told.page_size);
        let size = told.page_size as usize;
        for (number, data) in told.numbers.iter().zip(told.data.chunks_exact(size)) {
            self.forget(*number);
            let before = known.and_then(|known| known.get(*number));
            if before != Some(Checksum::of_page(*number, data)) {
                self.bytes += data.len();
                self.told.insert(*number, data.into());
            }
        }
        if self.bytes > MOST_BYTES {
            return Some(self.give_up());
        }
        told.is_last.then(|| {
            self.is_past.set(false);
            Way::Through(Moment { page_size: told.page_size, pages: told.pages })
        })
    }

    fn forget(&mut self, number: u32) {
        if let Some(page) = self.told.remove(&number) {
            self.bytes -= page.len();
        }
    }

    /// A visit has read everything, or what was told is accepted.
    pub fn clear(&mut self) {
        self.told.clear();
        self.bytes = 0;
    }

    /// A visit has read everything.
    pub fn note_visit(&mut self) {
        self.clear();
        self.steps.iter_mut().for_each(Steps::clear);
        (self.begins_anew, self.committed_ms) = (true, None);
        (self.wants_visit, self.visited) = (false, Some(Instant::now()));
    }

    /// True if a page was asked for that was not of the moment any more: the next moment has to be taken.
    pub fn is_past(&self) -> bool {
        self.is_past.get()
    }

    /// The pages of a moment, and which of them changed; `None` where the owner has not told enough.
    pub fn find(&self, moment: Moment, known: Option<&PageMap>) -> Option<Found> {
        let known = known.filter(|known| known.page_size() == moment.page_size).cloned();
        let mut found = Found::of(known.unwrap_or_else(|| PageMap::new(moment.page_size)));
        let old = found.map.len().min(moment.pages);
        found.map.resize(old);
        for (number, data) in self.told.range(..=moment.pages) {
            let is_page = *number != lock_page(moment.page_size);
            if is_page && found.map.set(*number, Checksum::of_page(*number, data)) {
                found.changed.push(*number);
            }
        }
        let is_there = |number| number == lock_page(moment.page_size) || self.told.contains_key(&number);
        if !(old + 1..=moment.pages).all(is_there) {
            return None;
        }
        found.map.resize(moment.pages);
        found.committed_ms = self.committed_ms;
        Some(found)
    }
}

/// A moment that an owner has told.
pub struct ToldView<'a> {
    /// Who has told it.
    pub looks: &'a Looks,
    /// The moment.
    pub moment: Moment,
    /// Pages of the moment before, of which those that are not told are those of this one.
    pub images: Option<&'a Images>,
}

impl<'a> View for ToldView<'a> {
    fn page_size(&self) -> u32 {
        self.moment.page_size
    }

    fn pages(&self) -> u32 {
        self.moment.pages
    }

    fn read(&self, first: u32, to: &mut [u8]) -> Result<()> {
        for (number, place) in (first..).zip(to.chunks_mut(self.moment.page_size as usize)) {
            let is_here = |images: &'a Images| images.get(number).filter(|data| data.len() == place.len());
            let is_changed_later = self.looks.steps.as_ref().is_some_and(|steps| steps.have(number));
            if let Some(data) = self.looks.told.get(&number) {
                place.copy_from_slice(data);
            } else if let Some(data) = self.images.and_then(is_here) {
                place.copy_from_slice(data);
            } else if is_changed_later || !self.looks.owner.borrow_mut().page(number, place) {
                self.looks.is_past.set(true);
                return Err(Error::local(&self.looks.path, "a page has changed meanwhile"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
