//! Reading ahead on database files that SQLite made: what is read, and what is waited for.
//!
//! `cargo test -p litefoot --test readahead -- --nocapture` prints the figures.

#![allow(clippy::unwrap_used)]

mod database;
mod loads;
mod pool;

use database::{Cursor, Image, build, random, root};
use loads::{index_range, points, ranges, scan, whole_rows};
use pool::{Pool, Sums};

const TABLE: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, k INT, v)";
const INDEX: &str = "CREATE INDEX i ON t(k)";

/// The same gets without and with reading ahead, with a third of the file in memory.
fn compare(name: &str, image: &Image, gets: &[u32]) -> (Sums, Sums) {
    let run = |reads_ahead| {
        let mut pool = Pool::new(image, (image.pages() / 3) as usize, reads_ahead);
        gets.iter().for_each(|page| pool.get(*page));
        pool.sums
    };
    let (without, with) = (run(false), run(true));
    let ratio = |with: u64, without: u64| with as f64 / without as f64;
    println!(
        "{name:42} {:6} pages: bytes {:5.3}  waited for {:5.3}  time {:5.3}  ahead {:6}, used {:5.3}, in {:6}; {:5} ns each",
        without.demanded,
        ratio(with.read(), without.read()),
        ratio(with.demanded, without.demanded),
        with.waited / without.waited,
        with.ahead,
        ratio(with.used, with.ahead),
        with.requests,
        with.decided_ns / with.decisions.max(1),
    );
    (without, with)
}

/// Bytes read and pages waited for, at most so many times as without reading ahead.
fn check(name: &str, image: &Image, gets: &[u32], bytes: f64, waits: f64) {
    let (without, with) = compare(name, image, gets);
    assert!(with.read() as f64 <= without.read() as f64 * bytes, "{name}: {with:?}, without {without:?}");
    assert!(with.demanded as f64 <= without.demanded as f64 * waits, "{name}: {with:?}, without {without:?}");
}

#[test]
fn tables_in_and_out_of_order() {
    let directory = tempfile::tempdir().unwrap();
    for (rows_per_page, rows, row_bytes) in [(20, 100_000, 180), (3, 20_000, 1300), (1, 6000, 3500)] {
        for ordered in [true, false] {
            let (db, image) = build(directory.path(), 4096, rows, row_bytes, ordered, TABLE, "");
            let tree = image.tree(root(&db, "t"));
            let order = if ordered { "ordered" } else { "random" };
            let name = |what: &str| format!("{what}, {order}, {rows_per_page} a page");
            check(&name("scan"), &image, &scan(&tree, false), 1.02, 0.02);
            check(&name("scan backward"), &image, &scan(&tree, true), 1.02, 0.02);
            check(&name("points"), &image, &points(&tree, rows, 20_000), 1.02, 1.01);
            check(&name("ranges of 50"), &image, &ranges(&tree, rows, 50, 600, false), 1.3, 0.8);
            check(&name("ranges of 50 backward"), &image, &ranges(&tree, rows, 50, 600, true), 1.3, 0.8);
            check(&name("ranges of 5"), &image, &ranges(&tree, rows, 5, 2000, false), 1.3, 1.01);
            check(&name("ranges of 1000"), &image, &ranges(&tree, rows, 1000, 100, false), 1.5, 0.2);
        }
    }
}

#[test]
fn ranges_over_an_index() {
    let directory = tempfile::tempdir().unwrap();
    for (rows, row_bytes) in [(100_000, 180), (20_000, 1300)] {
        let (db, image) = build(directory.path(), 4096, rows, row_bytes, false, TABLE, INDEX);
        let (table, index) = (image.tree(root(&db, "t")), image.tree(root(&db, "i")));
        let range = |from, count, backward| index_range(&db, &index, &table, from, count, backward);
        let name = |what: &str| format!("{what}, rows of {row_bytes}");
        check(&name("index range"), &image, &range(1000, 10_000, false), 1.08, 0.05);
        check(&name("index range backward"), &image, &range(1000, 10_000, true), 1.08, 0.05);
        check(&name("index only"), &image, &scan(&index, false), 1.05, 0.2);
        let mut seed = 5;
        let mut short = vec![];
        for _ in 0..200 {
            short.extend(range((random(&mut seed) % (rows as u64 - 50)) as usize, 50, false));
        }
        check(&name("index ranges of 50"), &image, &short, 1.3, 0.8);
        let mut points = vec![];
        for _ in 0..2000 {
            points.extend(range((random(&mut seed) % rows as u64) as usize, 1, false));
        }
        check(&name("index points"), &image, &points, 1.02, 1.0);
    }
}

#[test]
fn tables_without_rowids() {
    let directory = tempfile::tempdir().unwrap();
    let table = "CREATE TABLE t(id, k INT, v, PRIMARY KEY(k, id)) WITHOUT ROWID";
    let (db, image) = build(directory.path(), 4096, 60_000, 180, false, table, "");
    let tree = image.tree(root(&db, "t"));
    check("scan without rowids", &image, &scan(&tree, false), 1.02, 0.02);
    check("scan without rowids, backward", &image, &scan(&tree, true), 1.02, 0.02);
}

#[test]
fn overflow_pages() {
    let directory = tempfile::tempdir().unwrap();
    for row_bytes in [6000, 40_000, 400_000] {
        for ordered in [true, false] {
            let rows = 40_000_000 / row_bytes;
            let (db, image) = build(directory.path(), 4096, rows, row_bytes, ordered, TABLE, "");
            let tree = image.tree(root(&db, "t"));
            let order = if ordered { "ordered" } else { "random" };
            check(&format!("rows of {row_bytes}, {order}"), &image, &whole_rows(&tree), 1.02, 0.7);
        }
    }
}

#[test]
fn scattered_overflow_pages() {
    let directory = tempfile::tempdir().unwrap();
    let (db, _) = build(directory.path(), 4096, 8000, 3000, false, TABLE, "");
    // The free pages are those of every third row, in the order in which the rows came.
    db.execute_batch("DELETE FROM t WHERE k % 3 = 0").unwrap();
    let rows = "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)";
    db.execute_batch(&format!("{rows} INSERT INTO t SELECT 100000 + i, i, zeroblob(160000) FROM n")).unwrap();
    let image = database::image(&db);
    let mut gets = whole_rows(&image.tree(root(&db, "t")));
    check("scattered chains and leaves", &image, &gets, 1.05, 0.4);
    gets.drain(..gets.len() / 2);
    check("scattered chains", &image, &gets, 1.05, 0.8);
}

#[test]
fn all_page_sizes_and_low_fanouts() {
    let directory = tempfile::tempdir().unwrap();
    for page_bytes in [512, 1024, 8192, 65536] {
        let (db, image) = build(directory.path(), page_bytes, 60_000, 60, false, TABLE, INDEX);
        let tree = image.tree(root(&db, "t"));
        let name = |what: &str| format!("{what}, pages of {page_bytes}");
        check(&name("scan"), &image, &scan(&tree, false), 1.05, 0.1);
        check(&name("points"), &image, &points(&tree, 60_000, 5000), 1.02, 1.01);
        check(&name("index only"), &image, &scan(&image.tree(root(&db, "i")), false), 1.05, 0.2);
    }
    // Keys of 700 bytes: an interior page has four or five children.
    let table = "CREATE TABLE t(id, k, v, PRIMARY KEY(v, k)) WITHOUT ROWID";
    let (db, image) = build(directory.path(), 4096, 12_000, 700, false, table, "");
    let tree = image.tree(root(&db, "t"));
    check("scan of long keys", &image, &scan(&tree, false), 1.05, 0.3);
    check("scan of long keys backward", &image, &scan(&tree, true), 1.05, 0.3);
}

/// Cursors at work at the same time.
#[test]
fn mixed_loads() {
    let directory = tempfile::tempdir().unwrap();
    let (db, _) = build(directory.path(), 4096, 60_000, 180, false, TABLE, INDEX);
    db.execute_batch("CREATE TABLE u(id INTEGER PRIMARY KEY, k INT, v)").unwrap();
    db.execute_batch("INSERT INTO u SELECT id, k, v FROM t ORDER BY k * 7919 % 65537").unwrap();
    let image = database::image(&db);
    let (t, u, i) = (image.tree(root(&db, "t")), image.tree(root(&db, "u")), image.tree(root(&db, "i")));
    let mut seed = 31;

    let (mut gets, mut outer, mut inner) = (vec![], Cursor::new(&t), Cursor::new(&u));
    for leaf in 0..t.leaves.len() / 4 {
        outer.step(leaf, &mut gets);
        for _ in 0..t.leaves[leaf].cells {
            inner.seek(random(&mut seed) as usize % u.leaves.len(), &mut gets);
        }
    }
    check("a scan that looks up another table", &image, &gets, 1.05, 0.95);

    let (mut gets, mut one, mut other) = (vec![], Cursor::new(&t), Cursor::new(&u));
    for leaf in 0..t.leaves.len().min(u.leaves.len()) {
        one.step(leaf, &mut gets);
        other.step(u.leaves.len() - 1 - leaf, &mut gets);
    }
    check("two scans at once", &image, &gets, 1.02, 0.02);

    let mut gets = index_range(&db, &i, &t, 30_000, 3000, false);
    let second = index_range(&db, &i, &t, 5000, 3000, true);
    gets = gets.chunks(7).zip(second.chunks(7)).flat_map(|(one, other)| [one, other].concat()).collect();
    check("two index ranges at once", &image, &gets, 1.15, 0.2);

    let mut gets = points(&t, 60_000, 5000);
    gets.extend(scan(&u, false));
    gets.extend(ranges(&t, 60_000, 50, 500, false));
    gets.extend(scan(&u, true));
    check("points, scan, ranges, scan", &image, &gets, 1.05, 0.7);
}

/// A corrupt file costs useless reads, not more.
#[test]
fn corrupt_files_do_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let (db, image) = build(directory.path(), 1024, 6000, 300, false, TABLE, INDEX);
    let (table, index) = (image.tree(root(&db, "t")), image.tree(root(&db, "i")));
    let mut gets = scan(&table, false);
    gets.extend(index_range(&db, &index, &table, 100, 1500, false));
    let mut seed = 17;
    for flips in [10, 1000, 100_000, 2_000_000] {
        for _ in 0..5 {
            let mut corrupt = database::image(&db);
            corrupt.corrupt(flips, &mut seed);
            compare(&format!("{flips} bits flipped"), &corrupt, &gets);
        }
    }
}
