//! The indexes of the files of a plan, and which file wins each page.

use super::Plan;
use crate::store::{Listed, Store};
use crate::{Error, Result};
use litefoot_ltx::{
    Entry, HEADER_BYTES, Header, TRAILER_BYTES, Trailer, index_bytes, lock_page, parse_index,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Files up to this size are fetched whole, with one request.
const WHOLE_BYTES: u64 = 256 << 10;
/// Bytes that are fetched of the end of a larger one: the index of some ten thousand pages.
const TAIL_BYTES: u64 = 128 << 10;
/// Most bytes of files that are kept whole.
const KEPT_BYTES: usize = 64 << 20;

/// A file of a plan.
pub struct Indexed {
    /// Its name and its length.
    pub listed: Listed,
    /// Its beginning.
    pub header: Header,
    /// Its end.
    pub trailer: Trailer,
    /// Its pages.
    pub entries: Vec<Entry>,
    /// The bytes from the index to the checksum, which that covers.
    pub end: Vec<u8>,
    /// The whole file, where it is small.
    pub whole: Option<Vec<u8>>,
    /// Bytes that were fetched.
    pub fetched_bytes: u64,
}

/// The file that has the newest version of each page.
pub struct Winners<'a> {
    /// The number of the file, by pages.
    pub file: Vec<u32>,
    /// The last file.
    pub last: &'a Indexed,
}

/// The mark of a page that no file has.
pub const NONE: u32 = u32::MAX;

/// Fetches the indexes of all files, several at a time; `None` where a file has gone.
pub fn fetch_all(store: &dyn Store, plan: &Plan) -> Result<Option<Vec<Indexed>>> {
    let (next, kept) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let done = Mutex::new(Vec::new());
    let work = || -> Result<()> {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(listed) = plan.files.get(at) else { return Ok(()) };
            let fetched = fetch(store, *listed)?.map(|mut file| {
                let bytes = file.whole.as_ref().map_or(0, Vec::len);
                if kept.fetch_add(bytes, Ordering::Relaxed) + bytes > KEPT_BYTES {
                    file.whole = None;
                }
                file
            });
            done.lock().unwrap_or_else(PoisonError::into_inner).push((at, fetched));
        }
    };
    super::pieces::at_once(store.parallel().min(plan.files.len()), work)?;
    let mut files = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    files.sort_unstable_by_key(|(at, _)| *at);
    Ok(files.into_iter().map(|(_, file)| file).collect())
}

/// Fetches the beginning and the end of a file.
fn fetch(store: &dyn Store, listed: Listed) -> Result<Option<Indexed>> {
    let damaged = |why: String| Error::Damaged { place: format!("{}/{}", store.place(), listed.name), why };
    let format = |error: litefoot_ltx::Error| damaged(error.to_string());
    let short = || damaged("is cut short".into());
    let mut fetched_bytes = 0;
    let mut get = |range: std::ops::Range<u64>| -> Result<Option<Vec<u8>>> {
        let wanted = range.end - range.start;
        let Some(bytes) = store.get(listed.name, range)? else { return Ok(None) };
        fetched_bytes += bytes.len() as u64;
        if bytes.len() as u64 != wanted { Err(short()) } else { Ok(Some(bytes)) }
    };
    let is_small = listed.bytes <= WHOLE_BYTES;
    let first = if is_small { listed.bytes } else { HEADER_BYTES as u64 };
    let Some(head) = get(0..first)? else { return Ok(None) };
    let header = Header::decode(head.first_chunk().ok_or_else(short)?).map_err(format)?;
    if (header.min, header.max) != (listed.name.min, listed.name.max) {
        return Err(damaged("has other transactions than its name says".into()));
    }
    let mut tail = if is_small {
        head.clone()
    } else {
        let Some(tail) = get(listed.bytes - TAIL_BYTES.min(listed.bytes)..listed.bytes)? else {
            return Ok(None);
        };
        tail
    };
    let needed = index_bytes(tail.last_chunk().ok_or_else(short)?);
    if needed > listed.bytes {
        return Err(damaged("its index is longer than the file".into()));
    }
    if needed > tail.len() as u64 {
        let Some(rest) = get(listed.bytes - needed..listed.bytes - tail.len() as u64)? else {
            return Ok(None);
        };
        tail.splice(0..0, rest);
    }
    let mut end = tail.split_off(tail.len() - needed as usize);
    let trailer = Trailer::decode(end.last_chunk().ok_or_else(short)?, &header);
    trailer.validate(&header).map_err(|why| damaged(why.to_owned()))?;
    end.truncate(end.len() - TRAILER_BYTES);
    let entries = parse_index(&end).map_err(format)?;
    check(&header, &entries, listed.bytes - needed).map_err(|why| damaged(why.to_owned()))?;
    Ok(Some(Indexed {
        listed,
        header,
        trailer,
        entries,
        end,
        whole: is_small.then_some(head),
        fetched_bytes,
    }))
}

/// An index must lead from the header to the mark of the end, through pages that the database has.
fn check(header: &Header, entries: &[Entry], index_at: u64) -> std::result::Result<(), &'static str> {
    let first = entries.first().map_or(HEADER_BYTES as u64, |first| first.offset);
    let end = entries.last().map_or(first, |last| last.offset.saturating_add(last.bytes));
    let last = entries.last().map_or(0, |last| last.page);
    match () {
        () if first != HEADER_BYTES as u64 || end.saturating_add(6) != index_at => {
            Err("its index leads elsewhere")
        }
        () if last > header.pages => Err("it has a page behind the end of its database"),
        () => Ok(()),
    }
}

/// Finds out which file wins each page. Each page of the database must have one.
pub fn winners<'a>(store: &dyn Store, files: &'a [Indexed]) -> Result<Winners<'a>> {
    let damaged = |why: String| Error::Damaged { place: store.place().to_owned(), why };
    let last = files.last().ok_or_else(|| damaged("there is no file".into()))?;
    let (pages, page_size) = (last.header.pages, last.header.page_size);
    let mut file = vec![NONE; pages as usize];
    // Pages behind a smaller end are gone, also where the database grew again.
    let mut end = pages;
    for (number, indexed) in files.iter().enumerate().rev() {
        if indexed.header.page_size != page_size {
            return Err(damaged("its files have pages of several sizes".into()));
        }
        end = end.min(indexed.header.pages);
        for entry in indexed.entries.iter().take_while(|entry| entry.page <= end) {
            let place = &mut file[entry.page as usize - 1];
            if *place == NONE {
                *place = number as u32;
            }
        }
    }
    let missing = (1..).zip(&file).find(|(page, file)| **file == NONE && *page != lock_page(page_size));
    match missing {
        Some((page, _)) => {
            Err(damaged(format!("no file has page {page}: the first whole database is missing")))
        }
        None => Ok(Winners { file, last }),
    }
}
