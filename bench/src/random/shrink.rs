//! From a sequence that shows a difference to a short one that does.

use super::comparison::{Comparison, Mismatch, STOCK_FAILS, is_real};
use super::statements::Sequence;
use std::fmt::Write as _;
use std::path::Path;

/// Most runs that are spent on it.
const RUNS: u32 = 150;

/// Says what is wrong with the sequence of a seed, in as few steps as were found to be enough.
pub fn describe(seed: u64, what: &str, directory: &Path) -> String {
    let mut runs = 0;
    let mut sequence = Sequence::new(seed);
    let mut what = what.to_owned();
    let mut fails = |sequence: &Sequence| {
        runs += 1;
        if runs > RUNS || sequence.steps.is_empty() {
            return None;
        }
        // Without some of its first statements a sequence may mean nothing.
        match (Comparison { seed, sequence, directory }).outcome().found {
            Some(Mismatch::Different(what)) if !what.starts_with(STOCK_FAILS) => Some(what),
            _ => None,
        }
    };
    // A sequence that needs a process of its own is not tried again and again, but its failure mostly shows here, too.
    if is_real(seed) && fails(&sequence).is_none() {
        return format!("seed {seed}: {what}");
    }
    let parts: [fn(&mut Sequence, usize, usize); 3] = [
        |sequence, from, to| drop(sequence.after.drain(from..to.min(sequence.after.len()))),
        |sequence, from, to| drop(sequence.steps.drain(from..to.min(sequence.steps.len()))),
        |sequence, from, to| drop(sequence.beginning.drain(from..to.min(sequence.beginning.len()))),
    ];
    let lengths: [fn(&Sequence) -> usize; 3] = [
        |sequence| sequence.after.len(),
        |sequence| sequence.steps.len(),
        |sequence| sequence.beginning.len(),
    ];
    for (remove, len) in parts.into_iter().zip(lengths) {
        let mut size = len(&sequence).next_power_of_two();
        while size > 0 {
            let mut from = 0;
            while from < len(&sequence) {
                let mut shorter = sequence.clone();
                remove(&mut shorter, from, from + size);
                match fails(&shorter) {
                    Some(difference) => (sequence, what) = (shorter, difference),
                    None => from += size,
                }
            }
            size /= 2;
        }
    }
    let mut text = format!("seed {seed}: {what}");
    for sql in &sequence.beginning {
        let _ = write!(text, "\n    {sql}");
    }
    for (title, steps) in [("steps", &sequence.steps), ("after the crash", &sequence.after)] {
        let _ = write!(text, "\n  {title}:");
        for step in steps {
            let _ = write!(text, "\n    {}: {:?}", step.connection, step.action);
        }
    }
    text
}
