//! The statement as it is run: names have become slots, constants values, and comparisons have SQLite's conversions in them.

use super::aggregate::State;
use super::filter::Filter;
use super::query::{Condition, Function, Item, Query};
use super::record::Layout;
use super::value::Collation;
use crate::ffi::statement::Owned;

/// A column that the statement looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slot {
    pub(super) place: Place,
    pub(super) affinity: Affinity,
    pub(super) collation: Collation,
}

/// Where a column lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place {
    Rowid,
    /// In the record; integers there are reals where the column is one for reals.
    Record {
        index: usize,
        is_real: bool,
        has_default: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Affinity {
    Text,
    Numeric,
    Blob,
}

impl Affinity {
    /// The affinity of a declared type (<https://www.sqlite.org/datatype3.html>, section 3.1); `None` where that depends on
    /// the table.
    pub(super) fn of(declared: &str) -> Option<Affinity> {
        use litefoot_format::affinity::Affinity as Declared;
        if declared.eq_ignore_ascii_case("ANY") {
            return None;
        }
        Some(match Declared::of(declared) {
            Declared::Text => Affinity::Text,
            Declared::Blob => Affinity::Blob,
            Declared::Integer | Declared::Real | Declared::Numeric => Affinity::Numeric,
        })
    }
}

/// The statement as it is run.
#[derive(Debug)]
pub(super) struct Plan {
    /// The page of the table's root.
    pub(super) root: u32,
    pub(super) slots: Vec<Slot>,
    pub(super) layout: Layout,
    /// Conditions that all have to hold.
    pub(super) filters: Vec<Filter>,
    pub(super) shape: Shape,
}

#[derive(Debug)]
pub(super) enum Shape {
    /// The slots of rows that pass the filter.
    Rows(Vec<usize>),
    Aggregation(Aggregation),
}

#[derive(Debug)]
pub(super) struct Aggregation {
    pub(super) keys: Vec<usize>,
    /// In the order of their slots.
    pub(super) aggregates: Vec<(Function, Option<usize>, Collation)>,
    pub(super) outputs: Vec<Output>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Output {
    Key(usize),
    Aggregate(usize),
}

impl Aggregation {
    /// The states of no rows.
    pub(super) fn states(&self) -> Vec<State> {
        self.aggregates.iter().map(|(function, _, collation)| State::new(*function, *collation)).collect()
    }

    /// A row of the answer.
    pub(super) fn row(&self, keys: &[Owned], aggregates: &[Owned]) -> Vec<Owned> {
        let of = |output: &Output| match output {
            Output::Key(number) => keys[*number].clone(),
            Output::Aggregate(number) => aggregates[*number].clone(),
        };
        self.outputs.iter().map(of).collect()
    }
}

/// Tells whether two names are the same to SQLite.
pub(super) fn is_name(one: &str, other: &str) -> bool {
    unquoted(one).eq_ignore_ascii_case(&unquoted(other))
}

/// A name without its quotes.
pub(super) fn unquoted(name: &str) -> String {
    let Some(quote) = name.chars().next().filter(|quote| "\"`[".contains(*quote)) else {
        return name.to_owned();
    };
    let inner = &name[1..name.len() - 1];
    match quote {
        '[' => inner.to_owned(),
        _ => inner.replace(&format!("{quote}{quote}"), &quote.to_string()),
    }
}

/// The names of the columns, each once; their slots are their places here.
pub(super) fn columns<'q>(query: &Query<'q>) -> Vec<&'q str> {
    let mut columns: Vec<&str> = Vec::new();
    let mut add = |column: &'q str| {
        if !columns.iter().any(|other| is_name(other, column)) {
            columns.push(column);
        }
    };
    for item in &query.items {
        match item {
            Item::Column(column) | Item::Aggregate(_, Some(column)) => add(column),
            Item::Aggregate(_, None) => {}
        }
    }
    query.keys.iter().for_each(|column| add(column));
    if let Some(condition) = &query.condition {
        each_column(condition, &mut add);
    }
    columns
}

fn each_column<'q>(condition: &Condition<'q>, add: &mut impl FnMut(&'q str)) {
    match condition {
        Condition::Compare(column, ..) | Condition::In(column, _) => add(column),
        Condition::Not(inner) => each_column(inner, add),
        Condition::And(parts) | Condition::Or(parts) => {
            parts.iter().for_each(|part| each_column(part, add));
        }
    }
}

/// The constants of a condition in their order, as they were written.
pub(super) fn constants(condition: Option<&Condition<'_>>) -> Vec<String> {
    match condition {
        None => Vec::new(),
        Some(Condition::Compare(_, _, constant)) => vec![constant.clone()],
        Some(Condition::In(_, constants)) => constants.clone(),
        Some(Condition::Not(inner)) => constants(Some(inner)),
        Some(Condition::And(parts) | Condition::Or(parts)) => {
            parts.iter().flat_map(|part| constants(Some(part))).collect()
        }
    }
}

/// Refuses a column beside aggregates that no group fixes.
///
/// # Errors
/// The column.
pub(super) fn check(query: &Query<'_>) -> Result<(), String> {
    let aggregates = query.items.iter().any(|item| matches!(item, Item::Aggregate(..)));
    if !aggregates && query.keys.is_empty() {
        return Ok(());
    }
    for item in &query.items {
        if let Item::Column(column) = item
            && !query.keys.iter().any(|key| is_name(key, column))
        {
            return Err(format!(
                "{column} beside an aggregate or a group, and not in GROUP BY, is not supported"
            ));
        }
    }
    Ok(())
}

/// Makes the plan. `slots` are those of [`columns`], `constants` the values of [`constants`].
///
/// # Errors
/// The reason that SQLite has to run the statement.
pub(super) fn plan(
    query: &Query<'_>,
    root: u32,
    slots: Vec<Slot>,
    constants: Vec<Owned>,
) -> Result<Plan, String> {
    let names = columns(query);
    let slot = |column: &str| names.iter().position(|name| is_name(name, column)).unwrap_or(usize::MAX);
    let mut planner = Planner { slots: &slots, slot: &slot, constants: constants.into_iter() };
    let filter = query.condition.as_ref().map(|condition| planner.filter(condition)).transpose()?;
    let is_aggregate = |item: &Item<'_>| matches!(item, Item::Aggregate(..));
    let shape = if query.keys.is_empty() && !query.items.iter().any(is_aggregate) {
        let of = |item: &Item<'_>| match item {
            Item::Column(column) => slot(column),
            Item::Aggregate(..) => usize::MAX,
        };
        Shape::Rows(query.items.iter().map(of).collect())
    } else {
        Shape::Aggregation(aggregation(query, &slots, &slot)?)
    };
    let layout = Layout::new(&slots);
    Ok(Plan { root, slots, layout, filters: filter.map_or(Vec::new(), Filter::parts), shape })
}

fn aggregation(
    query: &Query<'_>,
    slots: &[Slot],
    slot: &impl Fn(&str) -> usize,
) -> Result<Aggregation, String> {
    let keys: Vec<usize> = query.keys.iter().map(|key| slot(key)).collect();
    if let Some(key) = keys.iter().find(|key| slots[**key].collation != Collation::Binary) {
        return Err(format!("a group by the collation {:?}", slots[*key].collation));
    }
    let (mut aggregates, mut outputs) = (Vec::new(), Vec::new());
    for item in &query.items {
        outputs.push(match item {
            Item::Column(column) => {
                let wanted = slot(column);
                Output::Key(keys.iter().position(|key| *key == wanted).ok_or("a column of no group")?)
            }
            Item::Aggregate(function, column) => {
                let of = column.map(slot);
                let collation = of.map_or(Collation::Binary, |of| slots[of].collation);
                aggregates.push((*function, of, collation));
                Output::Aggregate(aggregates.len() - 1)
            }
        });
    }
    // Those of one column follow each other: its value is looked up once.
    let mut order: Vec<usize> = (0..aggregates.len()).collect();
    order.sort_unstable_by_key(|number| (aggregates[*number].1, *number));
    for output in &mut outputs {
        if let Output::Aggregate(number) = output {
            *number = order.iter().position(|other| other == number).unwrap_or(*number);
        }
    }
    let aggregates = order.into_iter().map(|number| aggregates[number]).collect();
    Ok(Aggregation { keys, aggregates, outputs })
}

struct Planner<'p, F> {
    slots: &'p [Slot],
    slot: &'p F,
    constants: std::vec::IntoIter<Owned>,
}

impl<F: Fn(&str) -> usize> Planner<'_, F> {
    fn filter(&mut self, condition: &Condition<'_>) -> Result<Filter, String> {
        Ok(match condition {
            Condition::Compare(column, operator, _) => {
                let slot = (self.slot)(column);
                let with = self.constant(slot)?;
                Filter::Compare { slot, operator: *operator, with, collation: self.slots[slot].collation }
            }
            Condition::In(column, list) => {
                let slot = (self.slot)(column);
                let all = list.iter().map(|_| self.constant(slot)).collect::<Result<Vec<_>, _>>()?;
                let (nulls, values): (Vec<_>, Vec<_>) =
                    all.into_iter().partition(|value| *value == Owned::Null);
                let collation = self.slots[slot].collation;
                Filter::In { slot, values, has_null: !nulls.is_empty(), collation }
            }
            Condition::Not(inner) => Filter::Not(Box::new(self.filter(inner)?)),
            Condition::And(parts) => Filter::And(self.filters(parts)?),
            Condition::Or(parts) => Filter::Or(self.filters(parts)?),
        })
    }

    fn filters(&mut self, parts: &[Condition<'_>]) -> Result<Vec<Filter>, String> {
        parts.iter().map(|part| self.filter(part)).collect()
    }

    fn constant(&mut self, slot: usize) -> Result<Owned, String> {
        let value = self.constants.next().ok_or("a constant is missing")?;
        convert(value, self.slots[slot].affinity)
    }
}

/// A constant as SQLite compares it with a column: the column's affinity is applied.
///
/// # Errors
/// The conversions of which only SQLite knows the result.
fn convert(value: Owned, affinity: Affinity) -> Result<Owned, String> {
    match (value, affinity) {
        (Owned::Integer(number), Affinity::Text) => Ok(Owned::Text(number.to_string().into_bytes())),
        (Owned::Real(_), Affinity::Text) => Err("a real that is compared as text".to_owned()),
        (Owned::Text(text), Affinity::Numeric) => {
            let begins_number = |byte: &u8| byte.is_ascii_digit() || b"+-. \t\n\x0b\x0c\r".contains(byte);
            if text.first().is_some_and(begins_number) {
                return Err("a text that may be compared as a number".to_owned());
            }
            Ok(Owned::Text(text))
        }
        (value, _) => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::query::{Operator, parse};

    fn slot(affinity: Affinity, collation: Collation) -> Slot {
        Slot { place: Place::Rowid, affinity, collation }
    }

    #[test]
    fn types_have_sqlites_affinities() {
        for (declared, expected) in [
            ("INTEGER", Some(Affinity::Numeric)),
            ("charint", Some(Affinity::Numeric)),
            ("VARCHAR(20)", Some(Affinity::Text)),
            ("clob", Some(Affinity::Text)),
            ("BLOB", Some(Affinity::Blob)),
            ("", Some(Affinity::Blob)),
            ("DOUBLE", Some(Affinity::Numeric)),
            ("DECIMAL(10,5)", Some(Affinity::Numeric)),
            ("ANY", None),
        ] {
            assert_eq!(Affinity::of(declared), expected, "{declared}");
        }
    }

    #[test]
    fn constants_are_converted_as_sqlite_does_or_left_to_it() {
        let text = |text: &str| Owned::Text(text.as_bytes().to_vec());
        for (value, affinity, expected) in [
            (Owned::Integer(-7), Affinity::Text, Some(text("-7"))),
            (Owned::Real(0.1), Affinity::Text, None),
            (text("10"), Affinity::Numeric, None),
            (text(" 1"), Affinity::Numeric, None),
            (text("abc"), Affinity::Numeric, Some(text("abc"))),
            (text("10"), Affinity::Blob, Some(text("10"))),
            (Owned::Blob(vec![1]), Affinity::Numeric, Some(Owned::Blob(vec![1]))),
            (Owned::Null, Affinity::Text, Some(Owned::Null)),
        ] {
            assert_eq!(convert(value.clone(), affinity).ok(), expected, "{value:?} {affinity:?}");
        }
    }

    #[test]
    fn a_plan_has_each_column_once() {
        let query =
            parse("SELECT \"City\", sum(x) FROM t WHERE X > 1 AND y IN (2, NULL) GROUP BY city").unwrap();
        assert_eq!(columns(&query), ["\"City\"", "x", "y"]);
        assert_eq!(constants(query.condition.as_ref()), ["1", "2", "NULL"]);
        let slots = vec![slot(Affinity::Text, Collation::Binary); 3];
        let values = vec![Owned::Integer(1), Owned::Integer(2), Owned::Null];
        let plan = plan(&query, 2, slots, values).unwrap();
        let Shape::Aggregation(aggregation) = plan.shape else { panic!() };
        assert_eq!(
            (aggregation.keys, aggregation.outputs),
            (vec![0], vec![Output::Key(0), Output::Aggregate(0)])
        );
        let parts = plan.filters;
        assert!(
            matches!(&parts[0], Filter::Compare { slot: 1, operator: Operator::Greater, with: Owned::Text(text), .. } if text == b"1")
        );
        assert!(matches!(&parts[1], Filter::In { slot: 2, values, has_null: true, .. } if values.len() == 1));
    }

    #[test]
    fn what_no_group_fixes_is_refused() {
        assert!(
            check(&parse("SELECT a, count(*) FROM t").unwrap())
                .unwrap_err()
                .starts_with("a beside an aggregate")
        );
        assert!(check(&parse("SELECT a, b FROM t GROUP BY a").unwrap()).is_err());
        assert!(check(&parse("SELECT [a], count(*) FROM t GROUP BY A").unwrap()).is_ok());
        let query = parse("SELECT a FROM t GROUP BY a").unwrap();
        assert!(plan(&query, 2, vec![slot(Affinity::Text, Collation::NoCase)], Vec::new()).is_err());
    }
}
