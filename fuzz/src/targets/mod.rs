//! One file for each room of the parsers.

mod devices;
mod group;
mod logs;
mod ltx;
mod page_delta;
mod pages;
mod recovery;
mod rows;
mod texts;

use crate::Target;
use litefoot_sim::SimMedium;
use litefoot_storage::file::{FileKind, Medium};
use litefoot_storage::io::{IoConfig, IoQueue};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

pub const ALL: &[Target] = &[
    logs::REDO,
    logs::COMMIT_LOG,
    logs::RECORD,
    page_delta::PAGE_DELTA,
    recovery::RECOVERY,
    ltx::LTX,
    devices::TIER,
    devices::FIGURES,
    pages::NODE,
    pages::PAGEFILE,
    pages::STORE_TARGET,
    rows::ROWDIFF,
    rows::BATCH,
    group::MEMBER,
    group::OWNER,
    texts::OPTIONS,
    texts::GRAPH_TEXT,
];

/// A medium in memory with these files.
fn medium(files: &[(&str, FileKind, &[u8])]) -> Arc<dyn Medium> {
    let files = files.iter().map(|(path, kind, bytes)| (PathBuf::from(path), *kind, bytes.to_vec()));
    Arc::new(SimMedium::with_files(files))
}

/// The files of a medium by name, for seeds.
fn file(medium: &SimMedium, path: &str) -> Vec<u8> {
    let found = medium.files().into_iter().find(|(name, _, _)| name == &PathBuf::from(path));
    found.map_or_else(Vec::new, |(_, _, bytes)| bytes)
}

/// The one queue of the process.
fn io() -> Arc<IoQueue> {
    static QUEUE: LazyLock<Arc<IoQueue>> =
        LazyLock::new(|| Arc::new(IoQueue::start(&IoConfig::default()).expect("a queue can be started")));
    QUEUE.clone()
}

/// Two files in one input: the length of the first, and both.
fn join(first: &[u8], second: &[u8]) -> Vec<u8> {
    [&(first.len() as u32).to_le_bytes(), first, second].concat()
}

/// And back, for any bytes.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let Some((len, both)) = bytes.split_at_checked(4) else { return (&[], bytes) };
    let len = u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize;
    both.split_at(len.min(both.len()))
}

/// Writes a number where there is room for it.
fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

/// Puts the CRC-32C of `bytes[from..at]` at `at`.
fn put_crc(bytes: &mut [u8], from: usize, at: usize) {
    if let Some(covered) = bytes.get(from..at) {
        let crc = crc32c::crc32c(covered);
        put(bytes, at, &crc.to_le_bytes());
    }
}
