use super::round::{Found, Row};
use super::*;
use crate::harness::Silent;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Mutex;

const PLAN: Plan = Plan { commits: 20, rows: 300, reads: 100, seed: 5 };

#[test]
fn sqlite_and_litefoot_run_and_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let mut sides: Vec<Side<'_>> = OURS.iter().map(Side::ours).collect();
    sides.push(Side { known: &BARE, place: StoreProcess::Floor });
    let figures = measure(&sides, &PLAN, directory.path(), &mut Silent).unwrap();
    figures.check().unwrap();
    let get = |name: &str| figures.get(name).unwrap();
    for side in OURS {
        for figure in ["txn_per_s", "p50_us", "p99_us", "point_us", "scan_ns_per_row"] {
            assert!(get(&format!("{figure}.{}", side.name)) > 0.0, "{figure} {}", side.name);
        }
        assert!(get(&format!("bytes_per_txn.{}", side.name)) >= 4096.0, "{}", side.name);
        assert!(get(&format!("syncs_per_txn.{}", side.name)) >= 1.0, "{}", side.name);
    }
    for ratio in ["p50_over_floor", "p50_over_wal_full", "litefoot_over_wal_full"] {
        assert!(get(&format!("ratio.{ratio}")) > 0.0, "{ratio}");
    }
    // A write-ahead log has a sync for each commit, a rollback journal at least three.
    assert!((1.0..2.0).contains(&get("syncs_per_txn.wal_full")));
    assert!(get("syncs_per_txn.delete_full") >= 3.0);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// Keeps what it is given, but for the harm that it does.
struct Model {
    rows: Rc<Mutex<BTreeMap<i64, Row>>>,
    harm: fn(&mut BTreeMap<i64, Row>),
}

fn found(row: &Row) -> Found<'_> {
    Found { id: row.id, text: row.text.as_bytes(), number: row.number, value: row.value }
}

impl Store for Model {
    fn commit(&mut self, rows: &[Row]) -> Outcome<()> {
        self.rows.lock().unwrap().extend(rows.iter().map(|row| (row.id, row.clone())));
        Ok(())
    }

    fn get(&mut self, id: i64, show: &mut dyn FnMut(Found<'_>)) -> Outcome<()> {
        self.rows.lock().unwrap().get(&id).map(found).into_iter().for_each(show);
        Ok(())
    }

    fn scan(&mut self, show: &mut dyn FnMut(Found<'_>)) -> Outcome<()> {
        self.rows.lock().unwrap().values().map(found).for_each(show);
        Ok(())
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        (self.harm)(&mut self.rows.lock().unwrap());
        Ok(())
    }
}

#[test]
fn a_store_that_loses_or_changes_a_row_is_found_out() {
    type Harm = fn(&mut BTreeMap<i64, Row>);
    let harms: [(Harm, Option<&str>); 5] = [
        (|_| {}, None),
        (|rows| drop(rows.remove(&7)), Some("the row 8 is not as it was stored")),
        (|rows| drop(rows.pop_last()), Some("19 rows of 20")),
        (|rows| rows.get_mut(&3).unwrap().value += 1e-9, Some("the row 3 is not")),
        (|rows| drop(rows.insert(99, rows[&1].clone())), Some("the row 1 is not")),
    ];
    for (harm, said) in harms {
        let directory = tempfile::tempdir().unwrap();
        let rows = Rc::new(Mutex::new(BTreeMap::new()));
        let open = |_: &Path| Ok(Box::new(Model { rows: rows.clone(), harm }) as Box<dyn Store>);
        let result = round::write(&PLAN, &directory.path().join("store"), &open, &Spent::default);
        match said {
            None => assert_eq!(result.unwrap().commit_ns.len() as u64, PLAN.commits),
            Some(said) => assert!(result.unwrap_err().to_string().contains(said), "{said}"),
        }
    }
}
