//! The way into a database beside the application that uses it: as `litefoot backup` goes.

use crate::commands::backup::source::{Source, is_complete};
use litefoot::looks::{self, Asker};
use litefoot_ship::source::Door;
use litefoot_ship::source::owner::{Answer, Owner, Told};
use litefoot_ship::{Error, Result};
use litefoot_terminal::Failure;
use rusqlite::Connection;
use std::fs::File;
use std::path::PathBuf;

/// A database, by its path.
pub struct Beside(pub PathBuf);

impl Beside {
    fn error(&self, failure: &Failure) -> Error {
        let text = failure.what();
        let named = format!("{}: ", self.0.display());
        Error::local(&self.0, text.strip_prefix(&named).unwrap_or(text))
    }
}

impl Door for Beside {
    fn enter(&self) -> Result<(File, Connection)> {
        let name = self.0.to_str().ok_or_else(|| Error::local(&self.0, "its name is not UTF-8"))?;
        let source = Source::open(name).map_err(|failure| self.error(&failure))?;
        if source.is_through_litefoot() {
            let why = "parts of it live on a tier device; it is shipped while a program has it open, or after `litefoot tier drain`";
            return Err(Error::local(&self.0, why));
        }
        Ok(source.into_parts())
    }

    fn is_complete(&self, is_wal: bool) -> Result<bool> {
        is_complete(&self.0, is_wal).map_err(|failure| self.error(&failure))
    }

    fn owner(&self) -> Option<Box<dyn Owner>> {
        Some(Box::new(Litefoot(Asker::new(&self.0))))
    }
}

/// An application on litefoot.
struct Litefoot(Asker);

impl Owner for Litefoot {
    fn changes(&mut self) -> Answer {
        answer(self.0.changes())
    }

    fn next_transaction(&mut self) -> Answer {
        answer(self.0.next_transaction())
    }

    fn is_connected(&self) -> bool {
        self.0.is_connected()
    }

    fn page(&mut self, number: u32, to: &mut [u8]) -> bool {
        self.0.page(number, to)
    }
}

fn answer(answer: looks::Answer) -> Answer {
    match answer {
        looks::Answer::Part(part) => Answer::Told(Told {
            page_size: part.page_bytes,
            pages: part.pages,
            numbers: part.numbers,
            data: part.data,
            is_last: part.is_last,
            committed_ms: part.committed_ms,
        }),
        looks::Answer::Company => Answer::Company,
        looks::Answer::Busy => Answer::Busy,
        looks::Answer::Nobody => Answer::Nobody,
    }
}
