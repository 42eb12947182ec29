//! redb: a tree of pages that are never written in place; `Durability::Immediate`.

use super::Shared;
use crate::round::{Found, Outcome, Row, Store};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use std::path::Path;

const ITEMS: TableDefinition<'_, i64, (i64, f64, &[u8])> = TableDefinition::new("item");
const INDEX: TableDefinition<'_, (i64, i64), ()> = TableDefinition::new("item_number");

struct Redb(Database);

pub fn open(directory: &Path) -> Outcome<Box<dyn Store>> {
    Ok(Box::new(create(directory)?))
}

pub fn share(directory: &Path) -> Outcome<Box<dyn Shared>> {
    Ok(Box::new(create(directory)?))
}

fn create(directory: &Path) -> Outcome<Redb> {
    Ok(Redb(Database::create(directory.join("data.redb"))?))
}

impl Shared for Redb {
    fn write(&self, rows: &[Row]) -> Outcome<()> {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        {
            let mut items = transaction.open_table(ITEMS)?;
            let mut index = transaction.open_table(INDEX)?;
            for row in rows {
                items.insert(row.id, (row.number, row.value, row.text.as_bytes()))?;
                index.insert((row.number, row.id), ())?;
            }
        }
        Ok(transaction.commit()?)
    }
}

impl Store for Redb {
    fn commit(&mut self, rows: &[Row]) -> Outcome<()> {
        self.write(rows)
    }

    fn get(&mut self, id: i64, show: &mut dyn FnMut(Found<'_>)) -> Outcome<()> {
        if let Some(found) = self.0.begin_read()?.open_table(ITEMS)?.get(id)? {
            let (number, value, text) = found.value();
            show(Found { id, text, number, value });
        }
        Ok(())
    }

    fn scan(&mut self, show: &mut dyn FnMut(Found<'_>)) -> Outcome<()> {
        for entry in self.0.begin_read()?.open_table(ITEMS)?.iter()? {
            let (id, found) = entry?;
            let (number, value, text) = found.value();
            show(Found { id: id.value(), text, number, value });
        }
        Ok(())
    }
}
