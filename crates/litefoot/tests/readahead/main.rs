//! Reading ahead on database files that SQLite made: what is read, and what is waited for.
//!
//! `cargo test -p litefoot --test readahead -- --nocapture` prints the figures.

#![allow(clippy::unwrap_used)]

mod database;
mod pool;

use database::{Cursor, Image, Tree, build, random, root};
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
    if std::env::var("X").is_ok() { if with.read() as f64 > without.read() as f64 * bytes || with.demanded as f64 > without.demanded as f64 * waits { println!("^^^^^^^^^ BAD"); } return; }
    assert!(with.read() as f64 <= without.read() as f64 * bytes, "{name}: {with:?}, without {without:?}");
    assert!(with.demanded as f64 <= without.demanded as f64 * waits, "{name}: {with:?}, without {without:?}");
}

fn scan(tree: &Tree, backward: bool) -> Vec<u32> {
    let mut gets = vec![];
    let mut cursor = Cursor::new(tree);
    let leaves = 0..tree.leaves.len();
    let order: Vec<usize> = if backward { leaves.rev().collect() } else { leaves.collect() };
    order.into_iter().for_each(|leaf| cursor.step(leaf, &mut gets));
    gets
}

/// Lookups by rowid, each a statement of its own.
fn points(tree: &Tree, rows: usize, count: usize) -> Vec<u32> {
    let (mut gets, mut seed) = (vec![], 77);
    for _ in 0..count {
        let rowid = (random(&mut seed) % rows as u64) as i64;
        Cursor::new(tree).seek(tree.leaf_of(rowid), &mut gets);
    }
    gets
}

/// Ranges of rowids, each a statement of its own.
fn ranges(tree: &Tree, rows: usize, length: i64, count: usize, backward: bool) -> Vec<u32> {
    let (mut gets, mut seed) = (vec![], 78);
    for _ in 0..count {
        let first = (random(&mut seed) % (rows as u64 - length as u64)) as i64;
        let (begin, end) = (tree.leaf_of(first), tree.leaf_of(first + length - 1));
        let mut cursor = Cursor::new(tree);
        if backward {
            (begin..=end).rev().for_each(|leaf| cursor.step(leaf, &mut gets));
        } else {
            (begin..=end).for_each(|leaf| cursor.step(leaf, &mut gets));
        }
    }
    gets
}

/// The entries of an index in order: the leaf that the cursor is on (between two leaves, the one before).
fn entries(index: &Tree) -> Vec<usize> {
    let last = index.leaves.len() - 1;
    let on = |(place, leaf): (usize, &database::Leaf)| vec![place; leaf.cells + usize::from(place < last)];
    index.leaves.iter().enumerate().flat_map(on).collect()
}

/// A range over an index that looks up each row in the table.
fn index_range(
    db: &rusqlite::Connection, index: &Tree, table: &Tree, from: usize, count: usize, backward: bool,
) -> Vec<u32> {
    let sql = "SELECT id FROM t INDEXED BY i ORDER BY k, id";
    let mut statement = db.prepare_cached(sql).unwrap();
    let rowids: Vec<i64> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let leaves = entries(index);
    assert_eq!(leaves.len(), rowids.len());
    let mut order: Vec<usize> = (from..(from + count).min(rowids.len())).collect();
    if backward {
        order.reverse();
    }
    let mut gets = vec![];
    let (mut on_index, mut on_table) = (Cursor::new(index), Cursor::new(table));
    for entry in order {
        on_index.step(leaves[entry], &mut gets);
        on_table.seek(table.leaf_of(rowids[entry]), &mut gets);
    }
    gets
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
            check(&name("points"), &image, &points(&tree, rows, 20_000), 1.02, 1.0);
            check(&name("ranges of 50"), &image, &ranges(&tree, rows, 50, 600, false), 1.3, 0.8);
            check(&name("ranges of 50 backward"), &image, &ranges(&tree, rows, 50, 600, true), 1.3, 0.8);
            check(&name("ranges of 5"), &image, &ranges(&tree, rows, 5, 2000, false), 1.3, 1.0);
            check(&name("ranges of 1000"), &image, &ranges(&tree, rows, 1000, 100, false), 1.3, 0.35);
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
        check(&name("index range"), &image, &range(1000, 10_000, false), 1.03, 0.05);
        check(&name("index range backward"), &image, &range(1000, 10_000, true), 1.03, 0.05);
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
            let mut cursor = Cursor::new(&tree);
            let mut gets = vec![];
            for leaf in 0..tree.leaves.len() {
                cursor.step(leaf, &mut gets);
                tree.leaves[leaf].chains.iter().for_each(|chain| gets.extend(chain));
            }
            let order = if ordered { "ordered" } else { "random" };
            check(&format!("rows of {row_bytes}, {order}"), &image, &gets, 1.1, 1.0);
        }
    }
}
