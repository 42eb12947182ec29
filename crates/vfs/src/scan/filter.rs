//! The condition of WHERE: true, false or unknown for each row.

use super::query::Operator;
use super::record::Row;
use super::value::{Collation, compare};
use crate::ffi::statement::Owned;
use crate::ffi::statement::Value;
use std::cmp::Ordering;

/// A condition over the columns of a row, which are known by their slots.
#[derive(Debug)]
pub(super) enum Filter {
    Compare { slot: usize, operator: Operator, with: Owned, collation: Collation },
    In { slot: usize, values: Vec<Owned>, has_null: bool, collation: Collation },
    Not(Box<Filter>),
    And(Vec<Filter>),
    Or(Vec<Filter>),
}

impl Filter {
    /// True where the condition holds for certain.
    #[inline(always)]
    pub(super) fn passes(&self, row: &Row<'_>) -> bool {
        if let Filter::Compare { slot, operator, with, .. } = self
            && let Some(order) = numbers(row.value(*slot), with)
        {
            return agrees(order, *operator);
        }
        self.holds(row) == Some(true)
    }

    /// The parts that all have to pass.
    pub(super) fn parts(self) -> Vec<Filter> {
        match self {
            Filter::And(parts) => parts.into_iter().flat_map(Filter::parts).collect(),
            one => vec![one],
        }
    }

    /// The condition's value; `None` for NULL.
    pub(super) fn holds(&self, row: &Row<'_>) -> Option<bool> {
        match self {
            Filter::Compare { slot, operator, with, collation } => {
                test(row.value(*slot), *operator, with.as_value(), *collation)
            }
            Filter::In { slot, values, has_null, collation } => {
                is_in(row.value(*slot), values, *has_null, *collation)
            }
            Filter::Not(inner) => inner.holds(row).map(|holds| !holds),
            Filter::And(parts) => all(parts, row, false),
            Filter::Or(parts) => all(parts, row, true),
        }
    }
}

/// The order of two numbers of one kind, which most comparisons are about.
#[inline(always)]
fn numbers(value: Value<'_>, with: &Owned) -> Option<Ordering> {
    match (value, with) {
        (Value::Integer(value), Owned::Integer(with)) => Some(value.cmp(with)),
        (Value::Real(value), Owned::Real(with)) => value.partial_cmp(with),
        (Value::Real(value), Owned::Integer(with)) if with.unsigned_abs() < 1 << 53 => {
            value.partial_cmp(&(*with as f64))
        }
        _ => None,
    }
}

/// Tells whether values of this order satisfy an operator; none is NULL.
#[inline(always)]
fn agrees(order: Ordering, operator: Operator) -> bool {
    match operator {
        Operator::Equal | Operator::Is => order == Ordering::Equal,
        Operator::NotEqual | Operator::IsNot => order != Ordering::Equal,
        Operator::Less => order == Ordering::Less,
        Operator::LessOrEqual => order != Ordering::Greater,
        Operator::Greater => order == Ordering::Greater,
        Operator::GreaterOrEqual => order != Ordering::Less,
    }
}

/// AND where `decisive` is false, OR where it is true: one decisive part decides, and else one unknown part does.
fn all(parts: &[Filter], row: &Row<'_>, decisive: bool) -> Option<bool> {
    let mut known = true;
    for part in parts {
        match part.holds(row) {
            Some(holds) if holds == decisive => return Some(decisive),
            Some(_) => {}
            None => known = false,
        }
    }
    known.then_some(!decisive)
}

fn test(value: Value<'_>, operator: Operator, with: Value<'_>, collation: Collation) -> Option<bool> {
    let sees_nulls = matches!(operator, Operator::Is | Operator::IsNot);
    if !sees_nulls && (value == Value::Null || with == Value::Null) {
        return None;
    }
    Some(agrees(compare(value, with, collation), operator))
}

fn is_in(value: Value<'_>, values: &[Owned], has_null: bool, collation: Collation) -> Option<bool> {
    if value == Value::Null {
        return None;
    }
    let found = values.iter().any(|other| compare(value, other.as_value(), collation) == Ordering::Equal);
    if !found && has_null { None } else { Some(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_unknown_but_for_is() {
        let (null, one) = (Value::Null, Value::Integer(1));
        for (value, operator, with, expected) in [
            (null, Operator::Equal, one, None),
            (one, Operator::NotEqual, null, None),
            (null, Operator::Is, null, Some(true)),
            (one, Operator::Is, null, Some(false)),
            (one, Operator::IsNot, null, Some(true)),
            (one, Operator::Is, Value::Real(1.0), Some(true)),
            (one, Operator::LessOrEqual, Value::Text(b"0"), Some(true)),
            (one, Operator::Greater, Value::Real(0.5), Some(true)),
        ] {
            assert_eq!(
                test(value, operator, with, Collation::Binary),
                expected,
                "{value:?} {operator:?} {with:?}"
            );
        }
        let list = [Owned::Integer(1), Owned::Integer(2)];
        for (value, has_null, expected) in [
            (one, true, Some(true)),
            (Value::Integer(3), true, None),
            (Value::Integer(3), false, Some(false)),
            (null, false, None),
        ] {
            assert_eq!(is_in(value, &list, has_null, Collation::Binary), expected);
        }
    }
}
