//! Aggregates in parts: each thread has states of its own, and their merger is the aggregate over all rows.
//!
//! # What is equal to SQLite, and what nearly
//! - `count`, `min`, `max`, and sums of integers are SQLite's to the bit.
//! - Sums of reals are compensated (Kahan and Babuska, as in SQLite since 3.43), in each part and in the merger. SQLite adds
//!   in the order of the rows, this code in another one. Both end within a unit in the last place of the exact sum, as long
//!   as the sum is not far smaller than its terms.
//! - Where the order of the rows decides, SQLite runs the statement: integers that could overflow on the way, sums of texts,
//!   reals without end, and extremes that compare equal but differ (1 and 1.0, or 'a' and 'A' by NOCASE).

use super::query::Function;
use super::record::Odd;
use super::value::{Collation, compare, is_same};
use crate::ffi::statement::Owned;
use crate::ffi::statement::Value;
use std::cmp::Ordering;

const OVERFLOW: Odd = "a sum of integers may overflow on the way";
const NOT_A_NUMBER: Odd = "a sum has something that is no number";
const NOT_FINITE: Odd = "a sum of reals is not finite";
const AMBIGUOUS: Odd = "values that differ compare equal";

/// A sum of reals with the error that it has made.
#[derive(Clone, Copy, Debug, Default)]
struct Compensated {
    sum: f64,
    error: f64,
}

impl Compensated {
    #[inline]
    fn add(&mut self, number: f64) {
        let sum = self.sum + number;
        self.error +=
            if self.sum.abs() > number.abs() { (self.sum - sum) + number } else { (number - sum) + self.sum };
        self.sum = sum;
    }

    /// Adds an integer that a real may have no bits for.
    fn add_integer(&mut self, number: i64) {
        let low = number % 16384;
        self.add((number - low) as f64);
        self.add(low as f64);
    }
}

/// The state of one aggregate over some of the rows.
#[derive(Clone, Debug)]
pub(super) enum State {
    Count(i64),
    Sum(Sum),
    /// The extreme so far, and the order in which another value is to be found to it.
    Extreme(Owned, Ordering, Collation),
}

#[derive(Clone, Debug)]
pub(super) struct Sum {
    function: Function,
    count: i64,
    integers: i64,
    /// The sum of the integers without their signs; the sum above has not wrapped while this is in its range.
    magnitude: u64,
    reals: Compensated,
    has_reals: bool,
}

impl State {
    pub(super) fn new(function: Function, collation: Collation) -> State {
        match function {
            Function::Count => State::Count(0),
            Function::Min => State::Extreme(Owned::Null, Ordering::Less, collation),
            Function::Max => State::Extreme(Owned::Null, Ordering::Greater, collation),
            Function::Sum | Function::Total | Function::Avg => State::Sum(Sum {
                function,
                count: 0,
                integers: 0,
                magnitude: 0,
                reals: Compensated::default(),
                has_reals: false,
            }),
        }
    }

    /// Counts rows, whatever is in them.
    pub(super) fn add_rows(&mut self, rows: i64) {
        if let State::Count(count) = self {
            *count += rows;
        }
    }

    /// Takes a value of the aggregate's column.
    #[inline(always)]
    pub(super) fn add(&mut self, value: Value<'_>) -> Result<(), Odd> {
        match self {
            State::Count(count) => *count += i64::from(value != Value::Null),
            State::Sum(sum) => return sum.add(value),
            State::Extreme(best, wanted, collation) => return extreme(best, value, *wanted, *collation),
        }
        Ok(())
    }

    /// Takes over what another thread has found.
    pub(super) fn merge(&mut self, other: &State) -> Result<(), Odd> {
        match (self, other) {
            (State::Count(count), State::Count(more)) => *count += more,
            (State::Sum(sum), State::Sum(more)) => sum.merge(more),
            (State::Extreme(best, wanted, collation), State::Extreme(other, ..)) => {
                return extreme(best, other.as_value(), *wanted, *collation);
            }
            _ => {}
        }
        Ok(())
    }

    /// The aggregate.
    pub(super) fn finish(self) -> Result<Owned, Odd> {
        match self {
            State::Count(count) => Ok(Owned::Integer(count)),
            State::Extreme(best, ..) => Ok(best),
            State::Sum(sum) => sum.finish(),
        }
    }

    /// Bytes of memory, about.
    pub(super) fn bytes(&self) -> usize {
        let own = match self {
            State::Extreme(best, ..) => best.bytes(),
            _ => 0,
        };
        size_of::<State>() + own
    }
}

impl Sum {
    #[inline(always)]
    fn add(&mut self, value: Value<'_>) -> Result<(), Odd> {
        match value {
            Value::Null => return Ok(()),
            Value::Integer(number) => {
                self.integers = self.integers.wrapping_add(number);
                self.magnitude = self.magnitude.saturating_add(number.unsigned_abs());
            }
            Value::Real(number) => {
                self.has_reals = true;
                self.reals.add(number);
            }
            Value::Text(_) | Value::Blob(_) => return Err(NOT_A_NUMBER),
        }
        self.count += 1;
        Ok(())
    }

    fn merge(&mut self, other: &Sum) {
        self.count += other.count;
        self.integers = self.integers.wrapping_add(other.integers);
        self.magnitude = self.magnitude.saturating_add(other.magnitude);
        self.has_reals |= other.has_reals;
        self.reals.add(other.reals.sum);
        self.reals.error += other.reals.error;
    }

    fn finish(self) -> Result<Owned, Odd> {
        if self.magnitude > i64::MAX as u64 {
            return Err(OVERFLOW);
        }
        if self.count == 0 {
            return Ok(if self.function == Function::Total { Owned::Real(0.0) } else { Owned::Null });
        }
        if self.function == Function::Sum && !self.has_reals {
            return Ok(Owned::Integer(self.integers));
        }
        let mut total = self.integers as f64;
        if self.has_reals {
            let mut reals = self.reals;
            reals.add_integer(self.integers);
            total = reals.sum + reals.error;
        }
        if !total.is_finite() {
            return Err(NOT_FINITE);
        }
        Ok(Owned::Real(if self.function == Function::Avg { total / self.count as f64 } else { total }))
    }
}

#[inline(always)]
fn extreme(best: &mut Owned, value: Value<'_>, wanted: Ordering, collation: Collation) -> Result<(), Odd> {
    // Most values are numbers that are no new extreme.
    let order = match (value, &*best) {
        (Value::Integer(value), Owned::Integer(best)) => Some(value.cmp(best)),
        (Value::Real(value), Owned::Real(best)) => value.partial_cmp(best),
        _ => None,
    };
    if order == Some(wanted.reverse()) {
        return Ok(());
    }
    new_extreme(best, value, wanted, collation)
}

#[inline(never)]
fn new_extreme(
    best: &mut Owned,
    value: Value<'_>,
    wanted: Ordering,
    collation: Collation,
) -> Result<(), Odd> {
    if value == Value::Null {
        return Ok(());
    }
    let order = match best.as_value() {
        Value::Null => wanted,
        best => compare(value, best, collation),
    };
    if order == wanted {
        replace(best, value);
    } else if order == Ordering::Equal && !is_same(value, best.as_value()) {
        return Err(AMBIGUOUS);
    }
    Ok(())
}

/// Takes the place of the best value, in its memory where that does.
fn replace(best: &mut Owned, value: Value<'_>) {
    match (best, value) {
        (Owned::Text(bytes), Value::Text(new)) | (Owned::Blob(bytes), Value::Blob(new)) => {
            bytes.clear();
            bytes.extend_from_slice(new);
        }
        (best, value) => *best = value.into(),
    }
}

/// Tells whether two keys of a group, which compare equal, are the same.
pub(super) fn same_key(one: Value<'_>, other: Value<'_>) -> Result<bool, Odd> {
    match compare(one, other, Collation::Binary) {
        Ordering::Equal if is_same(one, other) => Ok(true),
        Ordering::Equal => Err(AMBIGUOUS),
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Value::*;

    fn of(function: Function, values: &[Value<'_>], parts: usize) -> Result<Owned, Odd> {
        let mut whole = State::new(function, Collation::NoCase);
        for part in values.chunks(values.len().div_ceil(parts).max(1)) {
            let mut state = State::new(function, Collation::NoCase);
            part.iter().try_for_each(|value| state.add(*value))?;
            whole.merge(&state)?;
        }
        whole.finish()
    }

    #[test]
    fn parts_make_the_whole() {
        let numbers = [Integer(1), Null, Integer(-5), Integer(3), Null];
        let reals = [Real(0.1), Integer(1 << 60), Real(-0.1), Integer(1)];
        let most = [Integer(i64::MAX), Integer(1), Integer(-5)];
        for parts in 1..4 {
            for (function, values, expected) in [
                (Function::Count, &numbers[..], Ok(Owned::Integer(3))),
                (Function::Sum, &numbers, Ok(Owned::Integer(-1))),
                (Function::Total, &numbers, Ok(Owned::Real(-1.0))),
                (Function::Avg, &numbers, Ok(Owned::Real(-1.0 / 3.0))),
                (Function::Min, &numbers, Ok(Owned::Integer(-5))),
                (Function::Max, &numbers, Ok(Owned::Integer(3))),
                (Function::Sum, &[], Ok(Owned::Null)),
                (Function::Total, &[Null], Ok(Owned::Real(0.0))),
                (Function::Avg, &[Null], Ok(Owned::Null)),
                (Function::Max, &[Null], Ok(Owned::Null)),
                (Function::Sum, &reals, Ok(Owned::Real((1u64 << 60) as f64 + 1.0))),
                (Function::Sum, &most, Err(OVERFLOW)),
                (Function::Sum, &[Text(b"1")], Err(NOT_A_NUMBER)),
                (Function::Total, &[Real(f64::INFINITY)], Err(NOT_FINITE)),
                (Function::Min, &[Integer(1), Real(1.0)], Err(AMBIGUOUS)),
                (Function::Max, &[Text(b"a"), Text(b"A")], Err(AMBIGUOUS)),
                (Function::Max, &[Text(b"a"), Text(b"a"), Blob(b"\0"), Integer(7)], Ok(Owned::Blob(vec![0]))),
            ] {
                assert_eq!(of(function, values, parts), expected, "{function:?} {values:?} {parts}");
            }
        }
    }
}
