//! fjall: a log and sorted tables; `PersistMode::SyncData` with every commit.

use super::Shared;
use super::bytes::{found, index_key, key, value};
use crate::round::{Found, Outcome, Row, Store};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;

struct Fjall {
    database: Database,
    items: Keyspace,
    index: Keyspace,
}

pub fn open(directory: &Path) -> Outcome<Box<dyn Store>> {
    Ok(Box::new(create(directory)?))
}

pub fn share(directory: &Path) -> Outcome<Box<dyn Shared>> {
    Ok(Box::new(create(directory)?))
}

fn create(directory: &Path) -> Outcome<Fjall> {
    let database = Database::builder(directory).open()?;
    let items = database.keyspace("item", KeyspaceCreateOptions::default)?;
    let index = database.keyspace("item_number", KeyspaceCreateOptions::default)?;
    Ok(Fjall { database, items, index })
}

impl Shared for Fjall {
    fn write(&self, rows: &[Row]) -> Outcome<()> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for row in rows {
            batch.insert(&self.items, key(row.id), value(row));
            batch.insert(&self.index, index_key(row), []);
        }
        Ok(batch.commit()?)
    }
}

impl Store for Fjall {
    fn commit(&mut self, rows: &[Row]) -> Outcome<()> {
        self.write(rows)
    }

    fn get(&mut self, id: i64, show: &mut dyn FnMut(Found<'_>)) -> Outcome<()> {
        if let Some(bytes) = self.items.get(key(id))? {
            show(found(&key(id), &bytes)?);
        }
        Ok(())
    }

    fn scan(&mut self, show: &mut dyn FnMut(Found<'_>)) -> Outcome<()> {
        for entry in self.items.iter() {
            let (key, bytes) = entry.into_inner()?;
            show(found(&key, &bytes)?);
        }
        Ok(())
    }
}
