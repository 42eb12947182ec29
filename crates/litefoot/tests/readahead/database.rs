//! Database files that SQLite made, and the order of their pages as SQLite walks them.
//!
//! The parser is the tests' own: what the tested code misunderstands, it must not misunderstand as well.

use rusqlite::Connection;
use std::path::Path;

/// A leaf of a tree, with the pages from the root down to it.
pub struct Leaf {
    pub page: u32,
    pub path: Vec<u32>,
    pub cells: usize,
    /// Of tables only.
    pub rowids: Vec<i64>,
    /// The overflow pages of each cell.
    pub chains: Vec<Vec<u32>>,
}

/// The leaves of a tree, in the order of their keys.
pub struct Tree {
    pub leaves: Vec<Leaf>,
}

/// The bytes of a database file.
pub struct Image {
    bytes: Vec<u8>,
    pub page_bytes: usize,
}

pub fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// The numbers below `count` in random order.
pub fn shuffled(count: usize) -> Vec<i64> {
    let mut numbers: Vec<i64> = (0..count as i64).collect();
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    for last in (1..count).rev() {
        numbers.swap(last, (random(&mut seed) % (last as u64 + 1)) as usize);
    }
    numbers
}

/// A file with the table `t`, which has the columns `id`, a random `k`, and a `v` of that many bytes; the rows
/// are inserted in or out of order.
pub fn build(
    directory: &Path,
    page_bytes: u32,
    rows: usize,
    row_bytes: usize,
    ordered: bool,
    table: &str,
    index: &str,
) -> (Connection, Image) {
    let path = directory.join("test.db");
    let _ = std::fs::remove_file(&path);
    let mut db = Connection::open(&path).unwrap();
    let setup = format!("PRAGMA page_size={page_bytes}; PRAGMA journal_mode=off; PRAGMA synchronous=off;");
    db.execute_batch(&format!("{setup} {table}; {index}")).unwrap();
    let order = if ordered { (0..rows as i64).collect() } else { shuffled(rows) };
    let mut seed = 88_172_645_463_325_252;
    let all = db.transaction().unwrap();
    {
        let mut insert = all.prepare("INSERT INTO t VALUES(?1, ?2, zeroblob(?3))").unwrap();
        for id in order {
            let k = random(&mut seed) >> 20;
            insert.execute((id, k as i64, row_bytes as i64)).unwrap();
        }
    }
    all.commit().unwrap();
    let image = image(&db);
    (db, image)
}

/// The file as it is now.
pub fn image(db: &Connection) -> Image {
    let page_bytes: u32 = db.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
    Image { bytes: std::fs::read(db.path().unwrap()).unwrap(), page_bytes: page_bytes as usize }
}

pub fn root(db: &Connection, name: &str) -> u32 {
    db.query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?1", [name], |row| row.get(0)).unwrap()
}

impl Image {
    /// Flips so many bits, anywhere.
    pub fn corrupt(&mut self, flips: usize, seed: &mut u64) {
        for _ in 0..flips {
            let bit = random(seed) as usize % (self.bytes.len() * 8);
            self.bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    pub fn page(&self, page: u32) -> &[u8] {
        let begin = (page as usize - 1) * self.page_bytes;
        &self.bytes[begin..begin + self.page_bytes]
    }

    pub fn pages(&self) -> u32 {
        (self.bytes.len() / self.page_bytes) as u32
    }

    fn u16(&self, page: u32, at: usize) -> usize {
        usize::from(u16::from_be_bytes(self.page(page)[at..at + 2].try_into().unwrap()))
    }

    fn u32(&self, page: u32, at: usize) -> u32 {
        u32::from_be_bytes(self.page(page)[at..at + 4].try_into().unwrap())
    }

    fn varint(&self, page: u32, at: &mut usize) -> i64 {
        let mut value = 0u64;
        for place in 0..9 {
            let byte = u64::from(self.page(page)[*at]);
            *at += 1;
            value = if place == 8 { value << 8 | byte } else { value << 7 | byte & 0x7f };
            if byte < 0x80 {
                break;
            }
        }
        value as i64
    }

    pub fn tree(&self, root: u32) -> Tree {
        let mut tree = Tree { leaves: vec![] };
        self.collect(root, &mut vec![], &mut tree.leaves);
        tree
    }

    fn collect(&self, page: u32, path: &mut Vec<u32>, leaves: &mut Vec<Leaf>) {
        let kind = self.page(page)[0];
        let cells = self.u16(page, 3);
        if matches!(kind, 0x0a | 0x0d) {
            return leaves.push(self.leaf(page, path, cells, kind == 0x0d));
        }
        path.push(page);
        for cell in 0..cells {
            self.collect(self.u32(page, self.u16(page, 12 + 2 * cell)), path, leaves);
        }
        self.collect(self.u32(page, 8), path, leaves);
        path.pop();
    }

    fn leaf(&self, page: u32, path: &[u32], cells: usize, table: bool) -> Leaf {
        let mut leaf = Leaf { page, path: path.to_vec(), cells, rowids: vec![], chains: vec![] };
        for cell in 0..cells * usize::from(table) {
            let mut at = self.u16(page, 8 + 2 * cell);
            let payload = self.varint(page, &mut at) as usize;
            leaf.rowids.push(self.varint(page, &mut at));
            let mut chain = vec![];
            if payload > self.page_bytes - 35 {
                let least = (self.page_bytes - 12) * 32 / 255 - 23;
                let even = least + (payload - least) % (self.page_bytes - 4);
                let local = if even <= self.page_bytes - 35 { even } else { least };
                let mut next = self.u32(page, at + local);
                while next != 0 {
                    chain.push(next);
                    next = self.u32(next, 0);
                }
            }
            leaf.chains.push(chain);
        }
        leaf
    }
}

impl Tree {
    /// The leaf of a rowid.
    pub fn leaf_of(&self, rowid: i64) -> usize {
        self.leaves.partition_point(|leaf| leaf.rowids.last().is_some_and(|last| *last < rowid))
    }
}

/// A cursor of SQLite: keeps the pages of its path, and gets those that it does not have.
pub struct Cursor<'a> {
    tree: &'a Tree,
    path: Vec<u32>,
}

impl<'a> Cursor<'a> {
    pub fn new(tree: &'a Tree) -> Cursor<'a> {
        Cursor { tree, path: vec![] }
    }

    /// From the root: each page below is got again.
    pub fn seek(&mut self, leaf: usize, gets: &mut Vec<u32>) {
        self.path.truncate(1);
        self.step(leaf, gets);
    }

    /// To a leaf beside the last.
    pub fn step(&mut self, leaf: usize, gets: &mut Vec<u32>) {
        let leaf = &self.tree.leaves[leaf];
        let path: Vec<u32> = leaf.path.iter().copied().chain([leaf.page]).collect();
        let same = self.path.iter().zip(&path).take_while(|(held, wanted)| held == wanted).count();
        gets.extend(&path[same..]);
        self.path = path;
    }
}
