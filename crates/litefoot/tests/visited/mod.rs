//! An application and another program, on one medium. The other program is another VFS, through which SQLite's calls are only passed
//! on. Each test includes this file, which is no test of its own.

#![allow(dead_code)]

use litefoot::rusqlite::Connection;
use litefoot::{Options, Vfs};
use litefoot_sim::SimMedium;
use std::path::Path;
use std::sync::Arc;

pub struct Application {
    pub medium: SimMedium,
    pub vfs: Vfs,
    /// Another program.
    pub stock: Vfs,
}

impl Application {
    /// The name is no other test's of the process.
    pub fn new(name: &str) -> Application {
        Application::on(name, SimMedium::new())
    }

    pub fn on(name: &str, medium: SimMedium) -> Application {
        let there = || Arc::new(medium.clone());
        let mut options = Options::default();
        options.set("sharing", "auto").unwrap();
        let vfs =
            Vfs::builder(format!("visited-{name}")).medium(there()).options(options).register().unwrap();
        let stock = Vfs::builder(format!("visited-{name}-stock")).medium(there()).pass_through(true);
        Application { stock: stock.register().unwrap(), medium, vfs }
    }

    pub fn open(&self, mode: &str) -> Connection {
        let db = self.vfs.open("/app.db").unwrap();
        db.pragma_update(None, "journal_mode", mode).unwrap();
        db
    }

    pub fn visit(&self) -> Connection {
        self.stock.open("/app.db").unwrap()
    }

    pub fn is_owned(&self) -> bool {
        self.vfs.databases()[0].is_owned()
    }

    pub fn file(&self, name: &str) -> Option<Vec<u8>> {
        let mut files = self.medium.files().into_iter();
        files.find(|(path, ..)| path == Path::new(name)).map(|(.., bytes)| bytes)
    }
}

/// The rows of the table `t`.
pub fn rows(db: &Connection) -> i64 {
    db.prepare_cached("SELECT count(*) FROM t").unwrap().query_row([], |row| row.get(0)).unwrap()
}

pub fn integrity(db: &Connection) -> String {
    db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap()
}
