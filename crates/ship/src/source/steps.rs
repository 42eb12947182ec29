//! Transactions that an owner has told, in order, until each is delivered.

use super::owner::Told;
use std::collections::VecDeque;

/// What leads from one moment to the next.
#[derive(Default)]
pub struct Step {
    /// Its pages; of a page that is in several parts the last one counts.
    pub parts: Vec<Told>,
    /// When it was committed, where it is one transaction.
    pub committed_ms: Option<u64>,
    /// True once its last part has come.
    pub is_whole: bool,
}

impl Step {
    fn has(&self, number: u32) -> bool {
        self.parts.iter().any(|part| part.numbers.binary_search(&number).is_ok())
    }

    fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.data.len()).sum()
    }
}

/// Steps that follow one another. The last one may be told in part.
#[derive(Default)]
pub struct Steps {
    list: VecDeque<Step>,
    bytes: usize,
}

impl Steps {
    /// Bytes of their pages.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A part is told: of the step that is told in part, or of a new one.
    pub fn add(&mut self, part: Told) {
        self.bytes += part.data.len();
        let step = match self.list.back_mut().filter(|step| !step.is_whole) {
            Some(step) => {
                // An owner has ended within a transaction, and the next one tells what has changed.
                step.committed_ms = step.committed_ms.filter(|_| part.committed_ms.is_some());
                step
            }
            None => {
                let step = Step { committed_ms: part.committed_ms, ..Step::default() };
                self.list.push_back(step);
                let last = self.list.len() - 1;
                &mut self.list[last]
            }
        };
        step.is_whole = part.is_last;
        step.parts.push(part);
    }

    /// True if there is more to come of the last step.
    pub fn is_told_in_part(&self) -> bool {
        self.list.back().is_some_and(|step| !step.is_whole)
    }

    /// Takes the first step, if all of it is told.
    pub fn next(&mut self) -> Option<Step> {
        self.list.front().filter(|step| step.is_whole)?;
        let step = self.list.pop_front()?;
        self.bytes -= step.bytes();
        Some(step)
    }

    /// True if a step waits.
    pub fn have_next(&self) -> bool {
        self.list.front().is_some_and(|step| step.is_whole)
    }

    /// True if a step changes a page: what it is now is not what it was.
    pub fn have(&self, number: u32) -> bool {
        self.list.iter().any(|step| step.has(number))
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Steps::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(numbers: &[u32], committed_ms: Option<u64>, is_last: bool) -> Told {
        let (numbers, data) = (numbers.to_vec(), vec![7; numbers.len() * 512]);
        Told { page_size: 512, pages: 9, numbers, data, is_last, committed_ms }
    }

    #[test]
    fn steps_come_in_order_and_whole() {
        let mut steps = Steps::default();
        steps.add(part(&[1, 2], Some(5), true));
        steps.add(part(&[3], Some(6), false));
        assert!(steps.have(2) && steps.have(3) && !steps.have(4) && steps.bytes() == 3 * 512);
        assert_eq!(steps.next().map(|step| (step.committed_ms, step.parts.len())), Some((Some(5), 1)));
        assert!(steps.next().is_none() && !steps.have_next(), "it is told in part");
        steps.add(part(&[4], Some(6), true));
        assert_eq!(steps.next().map(|step| (step.committed_ms, step.parts.len())), Some((Some(6), 2)));
        // Another owner goes on.
        steps.add(part(&[3], Some(6), false));
        steps.add(part(&[1, 3], None, true));
        assert_eq!(steps.next().map(|step| (step.committed_ms, step.parts.len())), Some((None, 2)));
        steps.add(part(&[3], Some(6), true));
        steps.clear();
        assert!(steps.bytes() == 0 && steps.next().is_none());
    }
}
