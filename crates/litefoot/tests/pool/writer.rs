//! One who changes a database in every way there is, and knows what must be in it.

use crate::model::{Rows, check_all, check_snapshot, put, put_total, unless_busy};
use litefoot::Vfs;
use litefoot::rusqlite::{Connection, ffi};
use litefoot_sim::Random;
use std::path::{Path, PathBuf};

pub struct Writer<'a> {
    vfs: &'a Vfs,
    db: Connection,
    directory: PathBuf,
    is_wal: bool,
    pub rows: Rows,
    /// Rows of the second database.
    others: i64,
    random: Random,
}

impl<'a> Writer<'a> {
    /// With a second database beside the first, for transactions over both.
    pub fn new(vfs: &'a Vfs, path: &Path, rows: Rows, mode: &str, seed: u64) -> Writer<'a> {
        let db = open(vfs, path);
        let directory = path.parent().unwrap().to_owned();
        let sql = format!(
            "ATTACH '{}' AS other; PRAGMA main.journal_mode={mode}; PRAGMA other.journal_mode={mode};
             CREATE TABLE other.u(id INTEGER PRIMARY KEY)",
            directory.join("other.db").display()
        );
        db.execute_batch(&sql).unwrap();
        let is_wal = mode == "wal";
        Writer { vfs, db, directory, is_wal, rows, others: 0, random: Random::new(seed) }
    }

    /// One change, of whatever kind.
    pub fn change(&mut self) {
        match self.random.below(100) {
            0..25 => self.transaction(|writer, rows| writer.update(rows, 30), true),
            25..45 => self.transaction(|writer, rows| writer.insert(rows, 30), true),
            45..55 => self.transaction(|writer, rows| writer.delete(rows, 60), true),
            55..60 => self.transaction(|writer, rows| writer.update(rows, 600), false),
            60..66 => self.savepoints(),
            66..72 => self.shrink(),
            72..76 => self.vacuum(),
            76..80 => self.vacuum_into(),
            80..83 => self.copy_out_and_in(),
            83..91 => self.checkpoint(),
            91..94 => self.both(),
            94..97 => self.switch(),
            _ => self.resize(),
        }
    }

    /// A transaction with these changes, which is taken back where it is not to be kept.
    fn transaction(&mut self, change: impl FnOnce(&mut Self, &mut Rows), keep: bool) {
        if unless_busy(self.db.execute_batch("BEGIN IMMEDIATE")).is_none() {
            return;
        }
        let mut rows = self.rows.clone();
        change(self, &mut rows);
        put_total(&self.db, &rows).unwrap();
        if keep && unless_busy(self.db.execute_batch("COMMIT")).is_some() {
            self.rows = rows;
        } else {
            self.db.execute_batch("ROLLBACK").unwrap();
        }
    }

    fn some_id(&mut self, rows: &Rows) -> i64 {
        let from = self.random.below(rows.keys().last().copied().unwrap_or(1) as u64 + 1) as i64;
        rows.range(from..).next().map_or(1, |(id, _)| *id)
    }

    fn put(&self, rows: &mut Rows, id: i64) {
        let version = rows.get(&id).copied().unwrap_or_default() + 1;
        put(&self.db, id, version).unwrap();
        rows.insert(id, version);
    }

    fn update(&mut self, rows: &mut Rows, most: u64) {
        for _ in 0..1 + self.random.below(most) {
            let id = self.some_id(rows);
            self.put(rows, id);
        }
    }

    fn insert(&mut self, rows: &mut Rows, most: u64) {
        let behind = rows.keys().last().copied().unwrap_or_default() + 1;
        for id in behind..=behind + self.random.below(most) as i64 {
            self.put(rows, id);
        }
        // And where rows were deleted.
        let id = 1 + self.random.below(behind as u64) as i64;
        self.put(rows, id);
    }

    fn delete(&mut self, rows: &mut Rows, most: i64) {
        let from = self.some_id(rows);
        self.db.execute("DELETE FROM t WHERE id BETWEEN ?1 AND ?2", (from, from + most)).unwrap();
        rows.retain(|id, _| !(from..=from + most).contains(id));
    }

    fn savepoints(&mut self) {
        let changes = |writer: &mut Writer<'_>, rows: &mut Rows| {
            writer.update(rows, 50);
            writer.db.execute_batch("SAVEPOINT s").unwrap();
            let mut lost = rows.clone();
            writer.insert(&mut lost, 100);
            writer.delete(&mut lost, 200);
            writer.db.execute_batch("ROLLBACK TO s; RELEASE s").unwrap();
            writer.update(rows, 50);
        };
        self.transaction(changes, true);
    }

    /// Half of the rows go, and then the file is cut; then they come again.
    fn shrink(&mut self) {
        let half = self.rows.len() as i64 / 2;
        self.transaction(|writer, rows| writer.delete(rows, half), true);
        let pages = self.random.below(200);
        unless_busy(self.db.execute_batch(&format!("PRAGMA incremental_vacuum({pages})")));
        if self.random.one_in(2) {
            self.checkpoint();
        }
        self.transaction(|writer, rows| writer.insert(rows, half as u64 + 1), true);
    }

    fn vacuum(&mut self) {
        unless_busy(self.db.execute_batch("VACUUM"));
    }

    fn resize(&mut self) {
        let bytes = 512 << self.random.below(8);
        if !self.is_wal {
            unless_busy(self.db.execute_batch(&format!("PRAGMA page_size={bytes}; VACUUM")));
        }
    }

    /// To another journal mode, and often to another family of them.
    fn switch(&mut self) {
        let mode = ["wal", "delete", "wal", "truncate", "persist"][self.random.below(5) as usize];
        self.db.busy_handler(Some(wait_shortly)).unwrap();
        let sql = format!("PRAGMA main.journal_mode={mode}");
        if let Some(mode) = unless_busy(self.db.query_row(&sql, [], |row| row.get::<_, String>(0))) {
            self.is_wal = mode == "wal";
        }
        self.db.busy_handler(Some(wait_long)).unwrap();
    }

    /// Keeps all others out from now on.
    pub fn exclude(&mut self) {
        let mode: String = self.db.query_row("PRAGMA locking_mode=exclusive", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "exclusive");
    }

    fn vacuum_into(&mut self) {
        let path = self.directory.join("copy.db");
        if unless_busy(self.db.execute("VACUUM INTO ?1", [path.to_str().unwrap()])).is_some() {
            check_all(&open(self.vfs, &path), &self.rows);
        }
        let _ = std::fs::remove_file(path);
    }

    fn copy_out_and_in(&mut self) {
        let mut copy = Connection::open_in_memory().unwrap();
        if !backup(&self.db, &copy) {
            return;
        }
        check_all(&copy, &self.rows);
        std::mem::swap(&mut self.db, &mut copy);
        self.transaction(|writer, rows| writer.update(rows, 200), true);
        std::mem::swap(&mut self.db, &mut copy);
        if !backup(&copy, &self.db) {
            // Nothing has come of it.
            self.rows = rows_of(&self.db);
        }
    }

    fn checkpoint(&mut self) {
        let mode = ["PASSIVE", "FULL", "RESTART", "TRUNCATE"][self.random.below(4) as usize];
        self.db.busy_handler(Some(wait_shortly)).unwrap();
        unless_busy(self.db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(())));
        self.db.busy_handler(Some(wait_long)).unwrap();
    }

    /// One transaction over two databases.
    fn both(&mut self) {
        let before = self.rows.clone();
        let both = |writer: &mut Writer<'_>, rows: &mut Rows| {
            writer.update(rows, 100);
            writer.others += 1;
            writer.db.execute("INSERT INTO other.u VALUES(?1)", [writer.others]).unwrap();
        };
        self.transaction(both, true);
        if self.rows == before {
            self.others -= 1;
        }
        let others =
            self.db.query_row("SELECT count(*) FROM other.u", [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(others, self.others);
    }

    /// The end: everything is as it must be.
    pub fn finish(self) -> Rows {
        check_all(&self.db, &self.rows);
        self.rows
    }
}

fn rows_of(db: &Connection) -> Rows {
    check_snapshot(db).unwrap();
    let mut statement = db.prepare("SELECT id, version FROM t").unwrap();
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
}

fn wait(times: i32, most: i32) -> bool {
    std::thread::sleep(std::time::Duration::from_micros(200));
    times < most
}

/// A minute at least: whoever is in the way must end first.
pub fn wait_long(times: i32) -> bool {
    wait(times, 300_000)
}

/// For those who have to find a moment without any readers, of which there may be none.
fn wait_shortly(times: i32) -> bool {
    wait(times, 100)
}

/// A connection that waits for others, and keeps little in its own cache.
pub fn open(vfs: &Vfs, path: &Path) -> Connection {
    let mut db = vfs.open(path).unwrap();
    db.busy_handler(Some(wait_long)).unwrap();
    db.execute_batch("PRAGMA cache_size=10; PRAGMA cache_spill=10").unwrap();
    db
}

/// Copies a whole database by SQLite's backup; `false` where somebody was in the way.
fn backup(from: &Connection, to: &Connection) -> bool {
    // SAFETY: both connections are open, and used by this thread alone; the backup ends before they do.
    let code = unsafe {
        let backup = ffi::sqlite3_backup_init(to.handle(), c"main".as_ptr(), from.handle(), c"main".as_ptr());
        assert!(!backup.is_null());
        let mut code = ffi::SQLITE_BUSY;
        for _ in 0..1000 {
            code = ffi::sqlite3_backup_step(backup, -1);
            if code != ffi::SQLITE_BUSY && code != ffi::SQLITE_LOCKED {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        match (code, ffi::sqlite3_backup_finish(backup)) {
            (ffi::SQLITE_DONE, code) => code,
            (code, _) => code,
        }
    };
    match code {
        ffi::SQLITE_OK => true,
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => false,
        // Pages of another size, in WAL mode.
        ffi::SQLITE_READONLY => false,
        code => panic!("the backup has failed: {code}, {:?}", litefoot::last_error()),
    }
}
