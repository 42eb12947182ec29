//! From a file beside its application to a destination that is a plain map of rows.

use super::*;
use crate::source::{PlainDoor, Source};
use litefoot_rowdiff::{Row, Value};
use litefoot_rowsink::{Applied, Position};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

const ORIGIN: Origin = Origin { source: [7; 16], epoch: 1 };

/// The rows of all tables by their rowids, and how they came.
#[derive(Default)]
struct Model {
    position: Option<Position>,
    rows: BTreeMap<(String, i64), Vec<Value>>,
    whole: u32,
    batches: u32,
    forgotten: u32,
    /// So many answers are lost.
    losses: u32,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Model>>);

impl Model {
    fn take(&mut self, batch: &Batch) {
        self.batches += 1;
        if batch.is_whole {
            self.whole += 1;
            self.rows.clear();
        }
        for table in &batch.tables {
            let name = &table.pair().table().name;
            let key = |row: &Row| (name.clone(), row.rowid.unwrap());
            for (above, through) in &table.forgotten {
                self.forgotten += 1;
                let is_in = |rowid: i64| {
                    above.is_none_or(|low| rowid > low) && through.is_none_or(|high| rowid <= high)
                };
                self.rows.retain(|(of, rowid), _| of != name || !is_in(*rowid));
            }
            for change in &table.changes {
                match change {
                    Change::Insert(row) => assert!(self.rows.insert(key(row), row.values.clone()).is_none()),
                    Change::Delete(row) => assert_eq!(self.rows.remove(&key(row)), Some(row.values.clone())),
                    Change::Update { before, after } => {
                        assert_eq!(
                            self.rows.insert(key(after), after.values.clone()),
                            Some(before.values.clone())
                        );
                    }
                }
            }
        }
    }
}

impl Destination for Shared {
    fn place(&self) -> &str {
        "a model"
    }

    fn position(&mut self, _: &Origin) -> litefoot_rowsink::Result<Option<Position>> {
        Ok(self.0.lock().unwrap().position)
    }

    fn apply(&mut self, batch: &Batch) -> litefoot_rowsink::Result<Applied> {
        let mut model = self.0.lock().unwrap();
        if model.position.map_or(0, |at| at.sequence) + 1 != batch.sequence {
            return Ok(Applied::NotNext(model.position));
        }
        model.take(batch);
        model.position = Some(batch.position());
        if model.losses > 0 {
            model.losses -= 1;
            return Err(litefoot_rowsink::Error::Unreachable { place: "a model".into(), why: "lost".into() });
        }
        Ok(Applied::Done { bytes: 1, parked: Vec::new() })
    }
}

fn source(path: &Path, sink: &mut RowShipper) -> Source {
    let map = sink.resume(None).unwrap();
    Source::new(path, Box::new(PlainDoor(path.to_owned())), map).with_images(sink.images())
}

fn sql_rows(database: &Connection) -> BTreeMap<(String, i64), Vec<Value>> {
    let mut rows = BTreeMap::new();
    for table in ["t", "n"] {
        let mut select = database.prepare(&format!("SELECT rowid, * FROM {table}")).unwrap();
        let width = select.column_count();
        let mut found = select.query([]).unwrap();
        while let Some(row) = found.next().unwrap() {
            let value = |at| match row.get_unwrap(at) {
                rusqlite::types::Value::Null => Value::Null,
                rusqlite::types::Value::Integer(number) => Value::Integer(number),
                rusqlite::types::Value::Real(number) => Value::Real(number),
                rusqlite::types::Value::Text(text) => Value::from(text.as_str()),
                rusqlite::types::Value::Blob(blob) => Value::Blob(blob),
            };
            rows.insert((table.to_owned(), row.get_unwrap(0)), (1..width).map(value).collect());
        }
    }
    rows
}

fn step(database: &Connection, random: &mut fastrand::Rng) {
    let (id, len) = (random.u32(..200), random.u32(..3000));
    let statement = match random.u8(..10) {
        0 => format!("DELETE FROM t WHERE id BETWEEN {id} AND {}", id + 40),
        1 => "VACUUM".into(),
        2 => "PRAGMA wal_checkpoint(TRUNCATE)".into(),
        3 => format!("DELETE FROM n WHERE a < {id}"),
        4 => format!("UPDATE t SET v = zeroblob(length(v)) WHERE id = {id}"),
        5 => format!("INSERT INTO n VALUES ({id}, 'x')"),
        _ => format!("REPLACE INTO t VALUES ({id}, randomblob({len}))"),
    };
    database.execute_batch(&statement).unwrap();
}

fn run(journal: &str, seed: u64, images_bytes: usize) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let database = Connection::open(&path).unwrap();
    database
        .execute_batch(&format!(
            "PRAGMA journal_mode = {journal}; CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB); CREATE TABLE n(a INT, b TEXT)"
        ))
        .unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    let model = Shared::default();
    let new = || {
        let mut sink = RowShipper::new(Box::new(model.clone()), ORIGIN, Selection::default());
        sink.images_bytes = images_bytes;
        sink
    };
    let mut sink = new();
    let mut reader = source(&path, &mut sink);
    let mut starts = 1;
    for round in 0..60 {
        (0..random.u8(1..4)).for_each(|_| step(&database, &mut random));
        model.0.lock().unwrap().losses = u32::from(random.u8(..4) == 0);
        if !reader.visit(|changes| sink.gather(changes)).unwrap() {
            sink.discard();
        }
        while sink.is_pending() {
            match sink.deliver() {
                Ok(_) => (),
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
        }
        assert_eq!(
            model.0.lock().unwrap().rows,
            sql_rows(&database),
            "{journal}, seed {seed}, round {round}"
        );
        if random.u8(..20) == 0 {
            sink = new();
            reader = source(&path, &mut sink);
            starts += 1;
        }
    }
    let model = model.0.lock().unwrap();
    assert!(model.batches > 40 && model.whole <= starts, "{} batches, {} whole", model.batches, model.whole);
    assert_eq!(model.forgotten > 0, images_bytes < IMAGES_BYTES, "{}", model.forgotten);
}

#[test]
fn rows_arrive_once_beside_an_application() {
    for seed in 0..3 {
        run("WAL", seed, IMAGES_BYTES);
        run("DELETE", seed, IMAGES_BYTES);
        // Less memory than pages.
        run("WAL", seed, 40 << 10);
    }
}

#[test]
fn a_copy_of_the_device_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let database = Connection::open(&path).unwrap();
    database.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY)").unwrap();
    let model = Shared::default();
    let mut sinks = [1, 2].map(|_| RowShipper::new(Box::new(model.clone()), ORIGIN, Selection::default()));
    let mut readers: Vec<Source> = sinks.iter_mut().map(|sink| source(&path, sink)).collect();
    let mut tick = |which: usize| {
        readers[which].visit(|changes| sinks[which].gather(changes)).unwrap();
        sinks[which].deliver()
    };
    assert!(tick(0).is_ok());
    // It stands where the first one stood: at nothing.
    assert!(matches!(tick(1), Err(Error::Fenced { .. })));
}
