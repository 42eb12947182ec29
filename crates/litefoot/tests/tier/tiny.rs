//! Databases about as long as a chunk, where the mark covers all of page 1, or a part of it, and pages behind it share
//! its chunk; they grow beyond it and are cut below it. The power is cut at every moment.

use crate::{DEVICE, MODES, PLAIN, TIERED, bytes, count, is_marked, killed, stock, there, vfs, without};
use litefoot::rusqlite::Connection;
use litefoot_sim::Random;
use litefoot_sim::SimMedium;
use litefoot_storage::file::{FileKind, Medium};
use litefoot_tier::CHUNK_BYTES;
use std::path::Path;

const CREATE: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, v)";

/// How many rows there are without the table.
const NO_TABLE: i64 = -1;

/// The SQL of each transaction, and the number of rows after it.
const STEPS: [(&str, i64); 11] = [
    ("INSERT INTO t VALUES(1, zeroblob(300))", 1),
    ("INSERT INTO t SELECT value, zeroblob(300) FROM json_each('[2,3,4,5,6,7,8,9]')", 9),
    ("UPDATE t SET v=randomblob(300) WHERE id=3", 9),
    ("DELETE FROM t WHERE id > 1", 1),
    ("VACUUM", 1),
    ("INSERT INTO t SELECT value, randomblob(300) FROM json_each('[2,3,4,5]')", 5),
    ("DELETE FROM t", 0),
    ("VACUUM", 0),
    ("DROP TABLE t", NO_TABLE),
    ("VACUUM", NO_TABLE),
    (CREATE, 0),
];

/// A recorded run.
struct Run {
    medium: SimMedium,
    /// After how many operations the database had how many rows.
    history: Vec<(usize, i64)>,
    was_marked: bool,
    was_short: bool,
}

impl Run {
    /// A connection for all transactions, or one for each.
    fn make(page_bytes: usize, mode: &str, auto_vacuum: &str, closes: bool) -> Run {
        let medium = SimMedium::new();
        let vfs = vfs(&medium);
        let mut db = vfs.open(TIERED).unwrap();
        db.execute_batch(&format!("PRAGMA page_size={page_bytes}; PRAGMA auto_vacuum={auto_vacuum}"))
            .unwrap();
        db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
        db.execute_batch(CREATE).unwrap();
        let history = vec![(medium.operations(), 0)];
        let mut run = Run { medium, history, was_marked: false, was_short: false };
        for (number, (sql, rows)) in STEPS.iter().cycle().take(2 * STEPS.len()).enumerate() {
            db.execute_batch(sql).unwrap();
            run.history.push((run.medium.operations(), *rows));
            run.was_marked |= is_marked(&run.medium);
            if closes {
                drop(db);
                let len = run.medium.info(Path::new(PLAIN)).unwrap().unwrap().len;
                run.was_short |= len < CHUNK_BYTES as u64;
                db = vfs.open(TIERED).unwrap();
            } else if mode == "wal" && number % 2 == 1 {
                db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
            }
        }
        run
    }

    /// The fault in the remains of a power cut once `point` operations had happened.
    fn cut(&self, point: usize, image: &SimMedium) -> Option<String> {
        let done = self.history.partition_point(|(operations, _)| *operations <= point);
        let rows = |at: usize| self.history.get(at).map(|(_, rows)| *rows);
        let newest = [rows(done - 1), rows(done)];
        let statements =
            ["/db/app.db-commits", "/fast/app.tier-commits"].iter().any(|path| there(image, path));
        match (stock_rows(image), is_marked(image)) {
            (Err(error), true) if error.contains("not a database") => {}
            (found, true) => return Some(format!("stock SQLite reads what is marked: {found:?}")),
            // It knows nothing of statements.
            (Ok(_), false) if statements => {}
            (Ok(found), false) if newest.contains(&Some(found)) => {}
            (found, false) => return Some(format!("stock SQLite: {found:?}, not one of {newest:?}")),
        }
        let vfs = vfs(image);
        let db = match vfs.open(TIERED) {
            Ok(db) => db,
            Err(error) => return Some(error.to_string()),
        };
        let found = rows_of(&db);
        if !newest.contains(&Some(found)) {
            return Some(format!("{found} rows, not one of {newest:?}"));
        }
        // The next statement finds everything in its place.
        db.execute_batch("CREATE TABLE IF NOT EXISTS other(v); INSERT INTO other VALUES(zeroblob(300))")
            .unwrap();
        let again = rows_of(&db);
        drop(db);
        let plain = stock_rows(image);
        (again != found || plain != Ok(found)).then(|| format!("{found} rows, then {again}, then {plain:?}"))
    }
}

fn rows_of(db: &Connection) -> i64 {
    let there: bool =
        db.query_row("SELECT count(*) FROM sqlite_schema WHERE name='t'", [], |row| row.get(0)).unwrap();
    if there { count(db) } else { NO_TABLE }
}

fn stock_rows(image: &SimMedium) -> Result<i64, String> {
    match stock(image).map_err(|error| error.to_string()) {
        Err(error) if error.contains("no such table") => Ok(NO_TABLE),
        found => found,
    }
}

fn check(page_bytes: usize) {
    let (mut was_marked, mut was_short) = (false, false);
    let mut random = Random::new(page_bytes as u64);
    for (mode, auto_vacuum, closes) in
        MODES.iter().flat_map(|mode| [(*mode, "NONE", false), (*mode, "FULL", false), (*mode, "FULL", true)])
    {
        let run = Run::make(page_bytes, mode, auto_vacuum, closes);
        let mut replay = run.medium.replay();
        for point in run.history[0].0..=replay.len() {
            replay.advance(point);
            let wrong = run.cut(point, &replay.cut(&mut random));
            let around = replay.describe(point.saturating_sub(12)..point);
            assert_eq!(wrong, None, "{page_bytes}, {mode}, {auto_vacuum}, {closes}, {point}:\n{around}");
        }
        was_marked |= run.was_marked;
        was_short |= run.was_short;
    }
    assert!(was_marked && was_short, "{was_marked}, {was_short}");
}

#[test]
fn pages_of_512_bytes() {
    check(512);
}

#[test]
fn pages_of_1024_bytes() {
    check(1024);
}

/// A checkpoint writes the chunk of page 1, and the power goes when some of its sectors are new.
#[test]
fn any_half_of_the_first_chunk_is_made_whole_from_the_log() {
    for page_bytes in [512, 2048] {
        let medium = SimMedium::new();
        let vfs = vfs(&medium);
        let db = vfs.open(format!("{TIERED}&commit_log=pages")).unwrap();
        db.execute_batch(&format!("PRAGMA page_size={page_bytes}; PRAGMA journal_mode=wal; {CREATE}"))
            .unwrap();
        let write = |from: i64| {
            for id in from..from + 5 {
                db.execute("INSERT INTO t VALUES(?1, randomblob(300))", [id]).unwrap();
            }
            // The schema's new bytes lie far from the head of page 1.
            db.execute_batch(&format!("CREATE TABLE u{from}('{}')", "x".repeat(400))).unwrap();
        };
        write(1);
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        write(6);
        let before = killed(&medium).files();
        db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        let after = bytes(&killed(&medium).files(), DEVICE);
        let old = bytes(&before, DEVICE);
        let first = old.chunks(CHUNK_BYTES).position(|slot| slot.starts_with(b"SQLite format 3\0")).unwrap();
        let at = |sector: usize| first * CHUNK_BYTES + sector * 512..first * CHUNK_BYTES + (sector + 1) * 512;
        let differ = (0..4).filter(|sector| old[at(*sector)] != after[at(*sector)]).count();
        assert!(differ >= 2, "{differ}");
        for mask in 0..16 {
            let mut device = old.clone();
            for sector in (0..4).filter(|sector| mask >> sector & 1 == 1) {
                device[at(sector)].copy_from_slice(&after[at(sector)]);
            }
            let mut files = without(before.clone(), DEVICE);
            files.push((DEVICE.into(), FileKind::Tier, device));
            let image = SimMedium::with_files(files);
            let vfs = self::vfs(&image);
            let db = vfs.open(TIERED).unwrap();
            assert_eq!(count(&db), 10, "{page_bytes}, {mask}");
            drop(db);
            assert_eq!(stock(&image).unwrap(), 10, "{page_bytes}, {mask}");
        }
    }
}

/// A database that begins with less than a chunk cannot be marked yet. Once it is longer, its next commit goes to the log
/// beside the device, and nothing waits in a log on flash until that is full.
#[test]
fn the_redo_log_of_a_database_that_has_grown_is_beside_the_device() {
    for (page_bytes, first) in
        [(512, "PRAGMA user_version=1"), (1024, "PRAGMA user_version=1"), (1024, CREATE), (4096, CREATE)]
    {
        let medium = SimMedium::new();
        let vfs = vfs(&medium);
        let db = vfs.open(TIERED).unwrap();
        db.execute_batch(&format!("PRAGMA page_size={page_bytes}; {first}")).unwrap();
        db.execute_batch("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v)").unwrap();
        let mut rows = 0;
        while medium.info(Path::new(PLAIN)).unwrap().unwrap().len < CHUNK_BYTES as u64 {
            db.execute("INSERT INTO t(v) VALUES(zeroblob(300))", []).unwrap();
            rows += 1;
            assert!(rows < 100, "{page_bytes}, {first}");
        }
        db.execute("INSERT INTO t(v) VALUES(zeroblob(300))", []).unwrap();
        let logs = ["/db/app.db-wal", "/fast/app.tier-redo"].map(|path| there(&medium, path));
        assert_eq!((is_marked(&medium), logs), (true, [false, true]), "{page_bytes}, {first}, {rows}");
        assert_eq!(count(&db), rows + 1);
    }
}
