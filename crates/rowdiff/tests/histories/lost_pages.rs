//! Older pages that are lost: ranges of rows are forgotten, and what is there now is told.

use super::history::History;
use super::image::{Image, Rows, truth};
use litefoot_rowdiff::{
    Change, Changed, Collect, Error, Failure, Map, Pages, Side, TableChanges, TablePair, Value, Visitor,
};
use std::collections::{BTreeMap, HashSet};

/// An image some of whose pages are gone.
struct Holes<'a>(&'a Image, HashSet<u32>);

impl Pages for Holes<'_> {
    fn page_bytes(&self) -> usize {
        self.0.page_bytes()
    }

    fn count(&self) -> u32 {
        self.0.count()
    }

    fn read(&self, number: u32, page: &mut [u8]) -> Result<(), Failure> {
        if self.1.contains(&number) { Err("it is gone".into()) } else { self.0.read(number, page) }
    }
}

#[derive(Default)]
struct Forgetful(Collect);

impl Visitor for Forgetful {
    fn table(&mut self, pair: TablePair<'_>) -> Result<litefoot_rowdiff::Rows, Failure> {
        self.0.table(pair)
    }

    fn row(&mut self, pair: TablePair<'_>, change: Change) -> Result<(), Failure> {
        self.0.row(pair, change)
    }

    fn forget(&mut self, _: TablePair<'_>, range: (Option<i64>, Option<i64>)) -> Result<(), Failure> {
        self.0.tables.last_mut().unwrap().forgotten.push(range);
        Ok(())
    }
}

fn by_rowid(rows: &Rows) -> BTreeMap<i64, Vec<Value>> {
    let rowid = |key: &[u8]| {
        std::str::from_utf8(key).unwrap().trim_matches(|c: char| c != '-' && !c.is_ascii_digit()).parse()
    };
    rows.rows.iter().map(|(key, row)| (rowid(key).unwrap(), row.clone())).collect()
}

/// The rows as a receiver has them afterwards.
fn follow(rows: &mut BTreeMap<i64, Vec<Value>>, table: &TableChanges, place: &str) {
    for (above, through) in &table.forgotten {
        rows.retain(|rowid, _| {
            above.is_some_and(|low| *rowid <= low) || through.is_some_and(|high| *rowid > high)
        });
    }
    for change in &table.changes {
        match change {
            Change::Insert(row) => {
                assert!(
                    rows.insert(row.rowid.unwrap(), row.values.clone()).is_none(),
                    "{place}: it is there"
                );
            }
            Change::Delete(row) => {
                assert_eq!(rows.remove(&row.rowid.unwrap()).as_ref(), Some(&row.values), "{place}")
            }
            Change::Update { before, after } => {
                let old = rows.insert(after.rowid.unwrap(), after.values.clone());
                assert_eq!(old.as_ref(), Some(&before.values), "{place}");
            }
        }
    }
}

#[test]
fn lost_pages_are_ranges_that_are_forgotten() {
    let (mut ranges, mut refusals) = (0, 0);
    for seed in 0..40 {
        let mut history = History::new(seed, false);
        let mut before = Image::of(&mut history.database);
        let mut old = truth(&history.database);
        let mut map = Map::of(&before).unwrap();
        for step in 0..6 {
            let place = format!("{}, step {step}", history.settings);
            history.advance();
            let (after, new) = (Image::of(&mut history.database), truth(&history.database));
            let changed = before.changed(&after);
            let lost: HashSet<u32> = (2..=before.count())
                .filter(|page| {
                    (changed.contains(page) || *page > after.count()) && history.random.u8(..3) == 0
                })
                .collect();
            let mut found = Forgetful::default();
            let outcome = map.diff(&Holes(&before, lost), &after, &Changed::Pages(&changed), &mut found);
            let difference = match outcome {
                // A table without rowids has no ranges.
                Err(Error::Read { side: Side::Before, .. }) => {
                    refusals += 1;
                    map.diff(&before, &after, &Changed::Pages(&changed), &mut Collect::default()).unwrap()
                }
                outcome => {
                    for table in found.0.tables.iter().filter(|table| table.pair().table().has_rowid()) {
                        let name = table.pair().table().name.as_str();
                        let mut rows = by_rowid(&old[name]);
                        follow(&mut rows, table, &format!("{place}, table {name}"));
                        assert_eq!(rows, by_rowid(&new[name]), "{place}, table {name}");
                        ranges += table.forgotten.len();
                    }
                    outcome.unwrap_or_else(|error| panic!("{place}: {error}"))
                }
            };
            map.apply(difference);
            assert_eq!(map.verify(&after).unwrap(), None, "{place}");
            (before, old) = (after, new);
        }
    }
    assert!(ranges > 200 && refusals < 200, "{ranges} ranges, {refusals} refusals");
}
