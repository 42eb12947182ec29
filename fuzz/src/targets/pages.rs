//! B-tree pages as reading ahead looks at them, page files with a graph, and the page store.

use super::{file, io, join, medium, put_crc, split};
use crate::{MOST_BYTES, Target, outcome_of};
use litefoot_pagestore::ops::Error;
use litefoot_pagestore::ops::graph::{self, GRAPH_PAGE, Graph, Order, Search, Text};
use litefoot_pagestore::pagefile::{Builder, Options, PageFile};
use litefoot_pagestore::store::{self, Database};
use litefoot_sim::SimMedium;
use litefoot_storage::file::{FileKind, Medium};
use std::path::Path;
use std::sync::Arc;

const FILE: &str = "/a.pages";
const STORE: &str = "/a.store";

pub const NODE: Target = Target {
    name: "node",
    does: "a page of a b-tree, as reading ahead looks at it; the first byte chooses page number and usable size",
    parse: litefoot_vfs::fuzzing::node,
    seal: |_| (),
    seeds: node_seeds,
    most_bytes: MOST_BYTES,
};

fn node_seeds() -> Vec<Vec<u8>> {
    // Kind, free block, cells, content, fragments, right child, cell pointers; then cells from the end.
    let mut interior = vec![0; 512];
    interior[..16].copy_from_slice(&[5, 0, 0, 0, 2, 1, 0xf0, 0, 0, 0, 0, 9, 1, 0xf0, 1, 0xf8]);
    interior[0x1f0..0x1f6].copy_from_slice(&[0, 0, 0, 4, 0x81, 0]);
    interior[0x1f8..0x1fe].copy_from_slice(&[0, 0, 0, 5, 0x82, 0]);
    let mut index = vec![0; 512];
    index[..12].copy_from_slice(&[10, 0, 0, 0, 2, 1, 0xf0, 0, 1, 0xf0, 1, 0xf8]);
    index[0x1f0..0x1f6].copy_from_slice(&[5, 3, 1, 1, 7, 8]);
    index[0x1f8..0x1fe].copy_from_slice(&[5, 3, 1, 2, 7, 8]);
    let mut leaf = vec![0; 512];
    leaf[..10].copy_from_slice(&[13, 0, 0, 0, 1, 1, 0xe0, 0, 1, 0xe0]);
    leaf[0x1e0..0x1e8].copy_from_slice(&[0x9f, 0x00, 1, 2, 0x3e, 0, 0, 0]);
    [interior, index, leaf]
        .into_iter()
        .flat_map(|page| [0, 1].map(|first| [&[first], &page[..]].concat()))
        .collect()
}

pub const PAGEFILE: Target = Target {
    name: "pagefile",
    does: "a page file, and the graph in it: opening, checking, searching",
    parse: pagefile,
    seal: seal_pagefile,
    seeds: pagefile_seeds,
    most_bytes: MOST_BYTES,
};

/// Nodes that are looked at: a file may say that it has any number.
const MOST_NODES: u64 = 2000;

fn pagefile(bytes: &[u8]) -> u64 {
    let medium = medium(&[(FILE, FileKind::Database, bytes)]);
    let options = Options { cache_bytes: 64 << 10, partitions: 1, ..Options::default() };
    let pages = match PageFile::open(&*medium, Path::new(FILE), io(), &options) {
        Ok(pages) => pages,
        Err(error) => return outcome_of(&format!("{error:?}").split(' ').next()),
    };
    let graph = match Graph::open(&pages, GRAPH_PAGE) {
        Ok(graph) => graph,
        Err(error) => return outcome_of(&format!("{error}")),
    };
    let mut progress = |nodes: u64| {
        if nodes > MOST_NODES { Err(Error::NotAGraph("enough".to_owned())) } else { Ok(()) }
    };
    let verified = graph.verify(&mut progress).map_err(|error| format!("{error}").len());
    let searched = Search::from(&graph, 0).map(drop).is_ok();
    let neighbors = graph.neighbors(1).map(|found| found.len()).ok();
    outcome_of(&(verified, searched, neighbors, graph.is_reordered()))
}

/// Where the header of a page file has its checksum; what it says of its pages.
const FILE_CRC_AT: usize = 24;
const GRAPH_CRC_AT: usize = 20;
const GRAPH_COUNTS_AT: usize = 40;
const GRAPH_RANGES_AT: usize = 56;

fn le32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

fn seal_pagefile(bytes: &mut Vec<u8>) {
    let page_bytes = le32(bytes, 12) as usize;
    if page_bytes.is_power_of_two() && (512..=1 << 16).contains(&page_bytes) {
        bytes.resize(bytes.len().next_multiple_of(page_bytes).max(2 * page_bytes), 0);
        let pages = (bytes.len() / page_bytes) as u64;
        bytes[16..24].copy_from_slice(&pages.to_le_bytes());
        let graph = &mut bytes[page_bytes * GRAPH_PAGE as usize..];
        let pieces: u64 = (0..4).map(|vector| u64::from(le32(graph, GRAPH_COUNTS_AT + vector * 4))).sum();
        let end = pieces.saturating_mul(16).saturating_add(GRAPH_RANGES_AT as u64);
        if let Some(covered) = usize::try_from(end).ok().and_then(|end| graph.get(GRAPH_CRC_AT + 4..end)) {
            let crc = crc32c::crc32c_append(crc32c::crc32c(&graph[..GRAPH_CRC_AT]), covered);
            graph[GRAPH_CRC_AT..GRAPH_CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        }
    }
    put_crc(bytes, 0, FILE_CRC_AT);
}

fn pagefile_seeds() -> Vec<Vec<u8>> {
    let orders = [Order::Text, Order::Locality];
    orders
        .into_iter()
        .map(|order| {
            let medium = SimMedium::new();
            let builder =
                Builder::create(Arc::new(medium.clone()), Path::new(FILE), 4096).expect("it can be made");
            let text = b"5 6\n0 1\n0 2\n1 3\n2 3\n3 4\n4 0\n";
            let mut text = Text::new(&text[..], Path::new("text")).expect("it is right");
            graph::load(&builder, &mut text, order, &mut |_| Ok(())).expect("it can be loaded");
            builder.finish().expect("it can be finished");
            file(&medium, FILE)
        })
        .collect()
}

pub const STORE_TARGET: Target = Target {
    name: "store",
    does: "a page store: its metadata, its allocation table, its check",
    parse: store,
    seal: |bytes| {
        let (meta, data) = split(bytes);
        let mut meta = meta.to_vec();
        put_crc(&mut meta, 0, 20);
        *bytes = join(&meta, data);
    },
    seeds: store_seeds,
    most_bytes: MOST_BYTES,
};

fn store(bytes: &[u8]) -> u64 {
    let (meta, data) = split(bytes);
    let beside = format!("{STORE}-meta");
    let medium = medium(&[(STORE, FileKind::Database, data), (&beside, FileKind::Metadata, meta)]);
    let options = store::Options { pool_bytes: 1 << 20, ..store::Options::default() };
    match Database::open(&medium, Path::new(STORE), io(), &options) {
        Ok(store) => {
            let found = store.inconsistencies().map(|found| found.len()).map_err(|_| ());
            outcome_of(&(found, store.page_bytes(), store.dump().len()))
        }
        Err(error) => outcome_of(&format!("{error:?}").split([' ', '{', '(']).next()),
    }
}

fn store_seeds() -> Vec<Vec<u8>> {
    let medium = SimMedium::new();
    let shared: Arc<dyn Medium> = Arc::new(medium.clone());
    Database::create(&shared, Path::new(STORE), 4096).expect("it can be made");
    let empty = join(&file(&medium, &format!("{STORE}-meta")), &file(&medium, STORE));
    let options = store::Options { pool_bytes: 1 << 20, ..store::Options::default() };
    let store = Database::open(&shared, Path::new(STORE), io(), &options).expect("it can be opened");
    {
        let unit = store.unit().expect("it can be written");
        let (first, page) = unit.alloc().expect("there is room");
        drop(page);
        drop(unit.alloc().expect("there is room").1);
        unit.release(first).expect("it was taken");
    }
    store.close().expect("it can be closed");
    let used = join(&file(&medium, &format!("{STORE}-meta")), &file(&medium, STORE));
    vec![empty, used]
}
