//! One side: stock SQLite on real files, or litefoot on simulated or real ones.

use super::raw::Db;
use super::statements::{Action, CONNECTIONS, SequenceStep};
use crate::harness::vfs_name;
use litefoot::{Options, Vfs};
use litefoot_sim::SimMedium;
use litefoot_storage::file::FileKind;
use std::path::Path;
use std::sync::Arc;

/// Name of the database in the directory of a side.
pub const DATABASE: &str = "app.db";
/// The other one, which sequences attach.
const OTHER: &str = "other.db";

/// The files of a database, and who serves them.
pub struct Side {
    directory: String,
    /// Closed before their VFS goes.
    connections: Vec<Db>,
    vfs: Option<Vfs>,
}

/// Everything a database holds, a line each.
pub type Content = Vec<String>;

impl Side {
    /// Stock SQLite, on files in a directory.
    pub fn stock(directory: &Path) -> Result<Side, String> {
        Side::open(directory, None)
    }

    /// litefoot, on a simulated medium or on the system's.
    pub fn litefoot(directory: &Path, medium: Option<&SimMedium>, options: &Options) -> Result<Side, String> {
        let builder = Vfs::builder(vfs_name()).options(options.clone());
        let builder = match medium {
            Some(medium) => builder.medium(Arc::new(medium.clone())),
            None => builder,
        };
        Side::open(directory, Some(builder.register().map_err(|error| error.to_string())?))
    }

    fn open(directory: &Path, vfs: Option<Vfs>) -> Result<Side, String> {
        let directory = directory.to_str().ok_or("a directory whose name is no text")?.to_owned();
        let mut side = Side { directory, vfs, connections: Vec::new() };
        for _ in 0..CONNECTIONS {
            side.connections.push(side.connect()?);
        }
        Ok(side)
    }

    fn connect(&self) -> Result<Db, String> {
        let vfs = self.vfs.as_ref().map_or("unix", Vfs::name);
        Db::open(&format!("{}/{DATABASE}", self.directory), vfs)
    }

    /// Runs the first statements; those that need another that is not there fail, on each side.
    pub fn begin(&mut self, statements: &[String]) {
        if let Some(db) = self.connections.first_mut() {
            statements.iter().for_each(|sql| drop(db.run(sql, &[])));
        }
    }

    /// Does a step; what came of it as text.
    pub fn step(&mut self, step: &SequenceStep) -> String {
        if matches!(step.action, Action::Reopen) {
            // Closed first, opened then: it may be the last one.
            let index = step.connection;
            drop(self.connections.remove(index));
            return match self.connect() {
                Ok(db) => {
                    self.connections.insert(index, db);
                    "opened".to_owned()
                }
                Err(error) => error,
            };
        }
        let Some(db) = self.connections.get_mut(step.connection) else { return "no connection".to_owned() };
        let said = match &step.action {
            Action::Run(sql, values) => {
                if self.vfs.is_none() && sql.starts_with("PRAGMA journal_mode=") {
                    // A connection of stock SQLite that leaves WAL mode may keep pages from before the newest commits.
                    db.forget_pages();
                }
                if sql == "PRAGMA integrity_check" {
                    // SQLite checks an FTS5 table by what the connection knows of it, which another one may have changed; a
                    // query looks anew.
                    drop(db.run("SELECT rowid FROM words LIMIT 1", &[]));
                }
                let said = db.run(&sql.replace("{dir}", &self.directory), values);
                // How far a checkpoint came is each side's own.
                if sql.starts_with("PRAGMA wal_checkpoint") { "checkpoint".to_owned() } else { said }
            }
            Action::Begin(sql) => db.begin(sql),
            Action::End => db.end(),
            Action::WriteBlob(id, bytes) => db.write_blob(c"item", c"b", *id, bytes),
            Action::Reopen => String::new(),
        };
        said.replace(&self.directory, "")
    }

    /// Ends without closing anything: only a process that is killed next may do so.
    pub fn abandon(self) {
        std::mem::forget(self.connections);
        std::mem::forget(self.vfs);
    }

    /// The contents of both databases, and the result of their integrity checks.
    pub fn contents(&self) -> Result<[Content; 2], String> {
        let vfs = self.vfs.as_ref().map_or("unix", Vfs::name);
        let of = |name: &str| content(&mut Db::open(&format!("{}/{name}", self.directory), vfs)?);
        Ok([of(DATABASE)?, of(OTHER)?])
    }
}

fn content(db: &mut Db) -> Result<Content, String> {
    let mut content = Content::new();
    for pragma in [
        "integrity_check",
        "encoding",
        "page_size",
        "auto_vacuum",
        "user_version",
        "application_id",
        "page_count",
    ] {
        let rows = db.rows(&format!("PRAGMA main.{pragma}"))?;
        content.push(format!("{pragma}: {}", rows.join(" ")));
    }
    let tables = "SELECT name, type, sql FROM main.sqlite_schema ORDER BY name, type";
    content.extend(db.rows(tables)?);
    let names = "SELECT name, coalesce(sql, '') LIKE '%without rowid%' FROM main.sqlite_schema \
                 WHERE type = 'table' ORDER BY name";
    for row in db.rows(names)? {
        // The name stands in quotes, as it must in a statement.
        let (name, without) = row.rsplit_once('|').unwrap_or((&row, "0"));
        let columns = if without == "1" { "*" } else { "rowid, *" };
        let rows = db.rows(&format!("SELECT {columns} FROM main.{name}"))?;
        content.extend(rows.into_iter().map(|row| format!("{name}: {row}")));
    }
    Ok(content)
}

/// Copies what is in a directory, as a kill would leave it.
pub fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", to.display());
    std::fs::create_dir(to).map_err(failed)?;
    for entry in std::fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // The shared memory of processes that are gone means nothing.
        if !entry.file_name().to_string_lossy().ends_with("-shm") {
            std::fs::copy(entry.path(), to.join(entry.file_name())).map_err(failed)?;
        }
    }
    Ok(())
}

/// Writes the files of a simulated medium into a directory.
pub fn export(medium: &SimMedium, to: &Path) -> Result<(), String> {
    std::fs::create_dir(to).map_err(|error| format!("{}: {error}", to.display()))?;
    for (path, kind, bytes) in medium.files() {
        if let Some(name) = path.file_name().filter(|_| kind != FileKind::Temporary) {
            std::fs::write(to.join(name), bytes).map_err(|error| format!("{}: {error}", to.display()))?;
        }
    }
    Ok(())
}

/// The first difference.
pub fn difference(stock: &[String], litefoot: &[String]) -> Option<String> {
    let place = stock.iter().zip(litefoot).position(|(stock, litefoot)| stock != litefoot);
    let place = place.or_else(|| (stock.len() != litefoot.len()).then(|| stock.len().min(litefoot.len())))?;
    let line = |lines: &[String]| {
        let line = lines.get(place).map_or("nothing", String::as_str);
        line.chars().take(300).collect::<String>()
    };
    Some(format!("stock has {}, litefoot {}", line(stock), line(litefoot)))
}
