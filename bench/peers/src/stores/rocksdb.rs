//! RocksDB: a log and sorted tables; `WriteOptions::sync` with every commit.

use super::Shared;
use super::bytes::{found, index_key, key, value};
use crate::round::{Found, Outcome, Row, Store};
use rocksdb::{ColumnFamily, DB, IteratorMode, Options, WriteBatch, WriteOptions};
use std::path::Path;

const INDEX: &str = "item_number";

struct Rocks(DB);

pub fn open(directory: &Path) -> Outcome<Box<dyn Store>> {
    Ok(Box::new(create(directory)?))
}

pub fn share(directory: &Path) -> Outcome<Box<dyn Shared>> {
    Ok(Box::new(create(directory)?))
}

fn create(directory: &Path) -> Outcome<Rocks> {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    Ok(Rocks(DB::open_cf(&options, directory, [INDEX])?))
}

impl Rocks {
    fn index(&self) -> Outcome<&ColumnFamily> {
        Ok(self.0.cf_handle(INDEX).ok_or("RocksDB has no index")?)
    }
}

impl Shared for Rocks {
    fn write(&self, rows: &[Row]) -> Outcome<()> {
        let index = self.index()?;
        let mut batch = WriteBatch::default();
        for row in rows {
            batch.put(key(row.id), value(row));
            batch.put_cf(index, index_key(row), []);
        }
        let mut options = WriteOptions::default();
        options.set_sync(true);
        Ok(self.0.write_opt(batch, &options)?)
    }
}

impl Store for Rocks {
    fn commit(&mut self, rows: &[Row]) -> Outcome<()> {
        self.write(rows)
    }

    fn get(&mut self, id: i64, show: &mut dyn FnMut(Found<'_>)) -> Outcome<()> {
        if let Some(bytes) = self.0.get_pinned(key(id))? {
            show(found(&key(id), &bytes)?);
        }
        Ok(())
    }

    fn scan(&mut self, show: &mut dyn FnMut(Found<'_>)) -> Outcome<()> {
        for entry in self.0.iterator(IteratorMode::Start) {
            let (key, bytes) = entry?;
            show(found(&key, &bytes)?);
        }
        Ok(())
    }
}
