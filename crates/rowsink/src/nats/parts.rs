//! How a batch is cut into messages, and where its delivery goes on. Decisions without a server.

use crate::{Batch, Position};
use std::ops::Range;

/// What a message says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The batch that it is of.
    pub batch: Position,
    /// The batch that was whole before.
    pub before: Option<Position>,
    /// Its number, from 1 on.
    pub number: usize,
    /// How many the batch has.
    pub count: usize,
}

/// The last message of a subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Last {
    /// Its number in the stream; 0 for none.
    pub sequence: u64,
    /// What it says.
    pub label: Option<Label>,
}

impl Last {
    /// The last batch that is whole.
    pub fn position(&self) -> Option<Position> {
        let label = self.label?;
        if label.number == label.count { Some(label.batch) } else { label.before }
    }
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The parts from this index on. The batch before them.
    From(usize, Option<Position>),
    /// Nothing: the batch is not the next one, or it has arrived.
    NotNext(Option<Position>),
}

/// Decides where the delivery of a batch of so many parts goes on.
pub fn step(last: &Last, batch: &Batch, count: usize) -> Step {
    let at = last.position();
    if at == Some(batch.position()) || !is_next(at, batch) {
        return Step::NotNext(at);
    }
    match last.label {
        Some(label) if label.batch == batch.position() && label.count == count => {
            Step::From(label.number, at)
        }
        _ => Step::From(0, at),
    }
}

fn is_next(at: Option<Position>, batch: &Batch) -> bool {
    match at {
        Some(at) if at.epoch == batch.origin.epoch => at.sequence + 1 == batch.sequence,
        Some(at) if at.epoch > batch.origin.epoch => false,
        _ => batch.sequence == 1,
    }
}

/// Cuts lines into parts of at most so many bytes.
///
/// # Errors
/// A line is longer than that.
pub fn cut(bytes: &[u8], most: usize) -> Result<Vec<Range<usize>>, String> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let end = at + line.len();
        if line.len() > most {
            return Err(format!(
                "a row takes {} bytes, and the server takes messages of {most}: raise max_payload there",
                line.len()
            ));
        }
        match parts.last_mut() {
            Some(part) if end - part.start <= most => part.end = end,
            _ => parts.push(at..end),
        }
        at = end;
    }
    if parts.is_empty() {
        // A batch counts with its message, also without a line.
        parts.push(0..0);
    }
    Ok(parts)
}

/// A position as a header has it.
pub fn position_text(position: Option<Position>) -> String {
    position.map_or_else(|| "none".to_owned(), |at| format!("{}.{}.{:016x}", at.epoch, at.sequence, at.token))
}

/// A position, of a header.
pub fn parse_position(text: &str) -> Option<Position> {
    let mut parts = text.split('.');
    let position = Position {
        epoch: parts.next()?.parse().ok()?,
        sequence: parts.next()?.parse().ok()?,
        token: u64::from_str_radix(parts.next()?, 16).ok()?,
    };
    parts.next().is_none().then_some(position)
}

/// Number and count of a part, of a header.
pub fn parse_part(text: &str) -> Option<(usize, usize)> {
    let (number, count) = text.split_once('/')?;
    let (number, count) = (number.parse().ok()?, count.parse().ok()?);
    (1 <= number && number <= count).then_some((number, count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;

    fn batch(epoch: u64, sequence: u64, token: u64) -> Batch {
        let origin = Origin { source: [1; 16], epoch };
        Batch { origin, sequence, token, time_ms: 0, is_whole: false, history: None, tables: Vec::new() }
    }

    fn last(batch: &Batch, before: Option<Position>, number: usize, count: usize) -> Last {
        Last { sequence: 9, label: Some(Label { batch: batch.position(), before, number, count }) }
    }

    #[test]
    fn a_batch_is_delivered_behind_the_one_before() {
        let (one, two) = (batch(1, 1, 5), batch(1, 2, 6));
        let at = Some(one.position());
        let whole = last(&one, None, 2, 2);
        for (last, of, expected) in [
            (Last::default(), &one, Step::From(0, None)),
            (Last::default(), &two, Step::NotNext(None)),
            (whole, &two, Step::From(0, at)),
            (whole, &one, Step::NotNext(at)),
            // Another shipper's batch of that number.
            (whole, &batch(1, 1, 7), Step::NotNext(at)),
            (whole, &batch(2, 1, 7), Step::From(0, at)),
            (last(&batch(2, 4, 1), None, 1, 1), &two, Step::NotNext(Some(batch(2, 4, 1).position()))),
            // The delivery was broken off, and goes on.
            (last(&two, at, 2, 3), &two, Step::From(2, at)),
            // It was broken off by a death, or cut otherwise: it begins anew.
            (last(&batch(1, 2, 8), at, 2, 3), &two, Step::From(0, at)),
            (last(&two, at, 2, 4), &two, Step::From(0, at)),
            (last(&batch(1, 1, 8), None, 1, 3), &two, Step::NotNext(None)),
        ] {
            assert_eq!(step(&last, of, 3), expected, "{last:?}, {:?}", of.position());
        }
    }

    #[test]
    fn lines_are_not_cut() {
        let text = b"one\ntwo\nthree\n4\n";
        assert_eq!(cut(text, 100).unwrap().as_slice(), std::slice::from_ref(&(0..16)));
        assert_eq!(cut(text, 8).unwrap(), [0..8, 8..16]);
        assert_eq!(cut(text, 6).unwrap(), [0..4, 4..8, 8..14, 14..16]);
        assert!(cut(text, 5).unwrap_err().contains("max_payload"));
    }

    #[test]
    fn headers_are_read_as_they_were_written() {
        for position in [None, Some(batch(3, 4, u64::MAX).position())] {
            assert_eq!(parse_position(&position_text(position)), position);
        }
        assert_eq!((parse_part("2/3"), parse_part("4/3"), parse_part("0/1")), (Some((2, 3)), None, None));
    }
}
