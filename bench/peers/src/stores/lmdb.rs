//! LMDB, by heed: a mapped tree whose pages are never written in place; no flag that weakens a sync.

use super::bytes::{found, index_key, key, value};
use crate::round::{Found, Outcome, Row, Store};
use heed::types::Bytes;
use heed::{Database, Env, EnvOpenOptions};
use std::path::Path;

/// Addresses that are kept for the file, which grows as it needs.
const MAP_BYTES: usize = 1 << 30;

type Tree = Database<Bytes, Bytes>;

struct Lmdb {
    environment: Env,
    items: Tree,
    index: Tree,
}

pub fn open(directory: &Path) -> Outcome<Box<dyn Store>> {
    // SAFETY: nobody else has this directory, and in this process it is opened once at a time.
    let environment = unsafe { EnvOpenOptions::new().map_size(MAP_BYTES).max_dbs(2).open(directory)? };
    let mut transaction = environment.write_txn()?;
    let items = environment.create_database(&mut transaction, Some("item"))?;
    let index = environment.create_database(&mut transaction, Some("item_number"))?;
    transaction.commit()?;
    Ok(Box::new(Lmdb { environment, items, index }))
}

impl Store for Lmdb {
    fn commit(&mut self, rows: &[Row]) -> Outcome<()> {
        let mut transaction = self.environment.write_txn()?;
        for row in rows {
            self.items.put(&mut transaction, &key(row.id), &value(row))?;
            self.index.put(&mut transaction, &index_key(row), &[])?;
        }
        Ok(transaction.commit()?)
    }

    fn get(&mut self, id: i64, show: &mut dyn FnMut(Found<'_>)) -> Outcome<()> {
        let transaction = self.environment.read_txn()?;
        if let Some(bytes) = self.items.get(&transaction, &key(id))? {
            show(found(&key(id), bytes)?);
        }
        Ok(())
    }

    fn scan(&mut self, show: &mut dyn FnMut(Found<'_>)) -> Outcome<()> {
        let transaction = self.environment.read_txn()?;
        for entry in self.items.iter(&transaction)? {
            let (key, bytes) = entry?;
            show(found(key, bytes)?);
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.environment.prepare_for_closing().wait();
        Ok(())
    }
}
