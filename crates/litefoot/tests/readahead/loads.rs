//! The pages that SQLite gets for a statement, in order.

use crate::database::{Cursor, Leaf, Tree, random};
use rusqlite::Connection;

/// All leaves of a tree.
pub fn scan(tree: &Tree, backward: bool) -> Vec<u32> {
    let mut gets = vec![];
    let mut cursor = Cursor::new(tree);
    let leaves = 0..tree.leaves.len();
    let order: Vec<usize> = if backward { leaves.rev().collect() } else { leaves.collect() };
    order.into_iter().for_each(|leaf| cursor.step(leaf, &mut gets));
    gets
}

/// Lookups by rowid, each a statement of its own.
pub fn points(tree: &Tree, rows: usize, count: usize) -> Vec<u32> {
    let (mut gets, mut seed) = (vec![], 77);
    for _ in 0..count {
        let rowid = (random(&mut seed) % rows as u64) as i64;
        Cursor::new(tree).seek(tree.leaf_of(rowid), &mut gets);
    }
    gets
}

/// Ranges of rowids, each a statement of its own.
pub fn ranges(tree: &Tree, rows: usize, length: i64, count: usize, backward: bool) -> Vec<u32> {
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
    let on = |(place, leaf): (usize, &Leaf)| vec![place; leaf.cells + usize::from(place < last)];
    index.leaves.iter().enumerate().flat_map(on).collect()
}

/// A range over an index that looks up each row in the table.
pub fn index_range(
    db: &Connection,
    index: &Tree,
    table: &Tree,
    from: usize,
    count: usize,
    backward: bool,
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

/// The pages of a scan that reads each row whole.
pub fn whole_rows(tree: &Tree) -> Vec<u32> {
    let mut cursor = Cursor::new(tree);
    let mut gets = vec![];
    for leaf in 0..tree.leaves.len() {
        cursor.step(leaf, &mut gets);
        tree.leaves[leaf].chains.iter().for_each(|chain| gets.extend(chain));
    }
    gets
}
