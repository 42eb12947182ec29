//! Files that are damaged: SQLite says so, whoever reads them.

use crate::model::fill;
use crate::support::vfs;
use litefoot::rusqlite::types::Value;
use litefoot::rusqlite::{Connection, Result};
use litefoot_sim::Random;
use litefoot_testkit::sqlite::stock;
use std::path::Path;

/// The queries on each file.
const QUESTIONS: &[&str] = &[
    "SELECT * FROM sqlite_schema",
    "SELECT count(*), sum(length(body)), sum(version) FROM t",
    "SELECT id, hex(body) FROM t ORDER BY id DESC",
    "SELECT * FROM t INDEXED BY i WHERE k BETWEEN 100 AND 400 ORDER BY k",
    "SELECT * FROM t WHERE id IN (1, 17, 333, 40000)",
    "SELECT count(*) FROM w WHERE b > 'a'",
    "PRAGMA quick_check(50)",
    "PRAGMA integrity_check(50)",
    "BEGIN; UPDATE t SET version = version + 1 WHERE id < 50; ROLLBACK",
];

/// An answer: rows, or the code of the error.
type Answer = std::result::Result<Vec<Vec<Value>>, i32>;

fn ask(db: &Connection, sql: &str) -> Result<Vec<Vec<Value>>> {
    if sql.starts_with("BEGIN") {
        let done = db.execute_batch(sql);
        if !db.is_autocommit() {
            db.execute_batch("ROLLBACK")?;
        }
        return done.map(|()| Vec::new());
    }
    let mut statement = db.prepare(sql)?;
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|column| row.get(column)).collect())?;
    rows.collect()
}

fn answers(db: &Connection) -> Vec<Answer> {
    let code =
        |error: litefoot::rusqlite::Error| error.sqlite_error().map_or(0, |error| error.extended_code & 0xff);
    QUESTIONS.iter().map(|sql| ask(db, sql).map_err(code)).collect()
}

fn build(path: &Path, page_bytes: u32) -> Vec<u8> {
    let db = stock(path);
    db.execute_batch(&format!("PRAGMA page_size={page_bytes}; PRAGMA auto_vacuum=INCREMENTAL")).unwrap();
    fill(&db, 600);
    db.execute_batch(
        "CREATE TABLE w(a INT, b TEXT, c, PRIMARY KEY(b, a)) WITHOUT ROWID;
         INSERT INTO w SELECT id, hex(substr(body, 1, 60)), version FROM t;
         DELETE FROM t WHERE id % 7 = 3",
    )
    .unwrap();
    drop(db);
    std::fs::read(path).unwrap()
}

/// Damages some bytes; where b-trees have their headers and cells more than elsewhere.
fn damage(bytes: &mut Vec<u8>, page_bytes: usize, random: &mut Random) {
    let pages = bytes.len() / page_bytes;
    for _ in 0..1 + random.below(30) {
        let page = random.below(pages as u64) as usize;
        let inside = match random.below(4) {
            0 => random.below(page_bytes as u64),
            1 => random.below(12),
            _ => random.below(page_bytes.min(100) as u64),
        };
        bytes[page * page_bytes + inside as usize] = random.bits() as u8;
    }
    match random.below(6) {
        0 => bytes.truncate(random.below(bytes.len() as u64) as usize),
        1 => bytes.extend(std::iter::repeat_n(0xa5, random.below(5000) as usize)),
        2 => bytes[random.below(100) as usize] = random.bits() as u8,
        _ => {}
    }
}

#[test]
fn a_damaged_file_is_answered_as_stock_sqlite_does() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (directory.path().join("ours.db"), directory.path().join("theirs.db"));
    let vfs = vfs("corrupt", "buffer_pool_size=1M");
    let mut damaged = 0;
    for page_bytes in [512, 4096, 65536] {
        let whole = build(&directory.path().join(format!("{page_bytes}.db")), page_bytes as u32);
        for seed in 0..40 {
            let mut bytes = whole.clone();
            damage(&mut bytes, page_bytes, &mut Random::new(seed + page_bytes as u64));
            std::fs::write(&ours, &bytes).unwrap();
            std::fs::write(&theirs, &bytes).unwrap();
            // SQLite's answer to some damage depends on the file being mapped.
            let mapped = stock(&theirs);
            mapped.query_row("PRAGMA mmap_size=100000000", [], |_| Ok(())).unwrap_or_default();
            let expected = [answers(&stock(&theirs)), answers(&mapped)];
            drop(mapped);
            // Twice: from the medium, and with pages in memory.
            let (first, second) = (vfs.open(&ours).unwrap(), vfs.open(&ours).unwrap());
            for db in [first, second] {
                for (question, found) in answers(&db).iter().enumerate() {
                    let sql = QUESTIONS[question];
                    let expected = expected.each_ref().map(|answers| &answers[question]);
                    let short = |answer: &Answer| answer.as_ref().map(Vec::len).map_err(|code| *code);
                    assert!(
                        expected.contains(&found),
                        "{page_bytes} {seed} {sql}: {:?}, but stock SQLite {:?}",
                        short(found),
                        expected.map(short)
                    );
                }
            }
            damaged += usize::from(expected[0].iter().any(Result::is_err));
            for path in [&ours, &theirs] {
                for suffix in ["", "-wal", "-shm", "-journal"] {
                    let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
                }
            }
        }
    }
    assert!(damaged > 40, "{damaged}");
}
