//! A scan of a file whose pages lie anywhere has the system read the file in its own order.

use crate::support::parse;
use litefoot::Vfs;
use litefoot::rusqlite::Connection;
use litefoot_sim::CountingMedium;
use litefoot_storage::file::FileKind;
use litefoot_storage::os::OsMedium;
use std::path::Path;
use std::sync::Arc;

/// Rows, three to a page.
const ROWS: i64 = 12_000;

/// A database of rows that came in another order than their keys.
fn database(path: &Path) {
    let db = Connection::open(path).unwrap();
    db.execute_batch("PRAGMA page_size=1024; CREATE TABLE t(id INTEGER PRIMARY KEY, k, body); BEGIN")
        .unwrap();
    let mut insert = db.prepare("INSERT INTO t VALUES(?1, ?2, zeroblob(250))").unwrap();
    for number in 0..ROWS {
        insert.execute((number * 7919 % ROWS, number)).unwrap();
    }
    drop(insert);
    db.execute_batch("CREATE INDEX t_k ON t(k); COMMIT").unwrap();
}

/// The bytes that the system was asked for while a query was answered, and the answer.
fn swept(path: &Path, name: &str, options: &str, sql: &str) -> (u64, i64) {
    let medium = CountingMedium::new(Arc::new(OsMedium::new()));
    let options = parse(options);
    let vfs = Vfs::builder(name).medium(Arc::new(medium.clone())).options(options).register().unwrap();
    let db = vfs.open(path).unwrap();
    let answer = db.query_row(sql, [], |row| row.get(0)).unwrap();
    (medium.snapshot().of(FileKind::Database).bytes_read_ahead, answer)
}

#[test]
fn a_scan_reads_the_whole_file_ahead_once_and_what_reads_less_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    database(&path);
    let len = std::fs::metadata(&path).unwrap().len();
    for (name, options, sql, answer, least, most) in [
        ("scan", "buffer_pool_size=1M", "SELECT sum(k) FROM t NOT INDEXED", ROWS * (ROWS - 1) / 2, len, len),
        ("range", "buffer_pool_size=1M", "SELECT count(*) FROM t NOT INDEXED WHERE id < 200", 200, 0, 0),
        (
            "rows of an index",
            "buffer_pool_size=1M",
            "SELECT sum(length(body)) FROM t WHERE k < 200",
            50_000,
            0,
            0,
        ),
        ("no pool", "buffer_pool_size=0", "SELECT sum(k) FROM t NOT INDEXED", ROWS * (ROWS - 1) / 2, 0, 0),
    ] {
        let (bytes, found) = swept(&path, &name.replace(' ', "-"), options, sql);
        assert_eq!(found, answer, "{name}");
        assert!((least..=most).contains(&bytes), "{name}: {bytes} of {len}");
    }
}
