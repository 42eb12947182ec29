//! Where does a backup go on? The place says what it has, and this machine what it remembers.

use super::{Position, fenced};
use crate::restore::{Plan, Until, plan};
use crate::source::PageMap;
use crate::store::{FileName, Listed, Store};
use crate::{Error, Result};
use litefoot_ltx::{Checksum, Decoder, HEADER_BYTES, Header, Level, TRAILER_BYTES, Trailer};

/// Finds the last file, refuses another shipper's, and brings the pages that were known up to that file.
pub fn resume(
    store: &dyn Store,
    node: u64,
    known: Option<(u64, PageMap)>,
) -> Result<(Position, Option<PageMap>)> {
    let Some(last) = newest(store)? else { return Ok((Position::default(), None)) };
    let (header, trailer) = ends(store, last)?;
    if header.node != node {
        return Err(fenced(
            store,
            &format!("{} is another shipper's, number {:016x}", last.name, header.node),
        ));
    }
    let position = Position {
        sequence: header.max.get(),
        sum: trailer.after,
        timestamp_ms: header.timestamp_ms,
        page_size: Some(header.page_size),
        pages: header.pages,
    };
    let known =
        known.filter(|(sequence, map)| *sequence <= position.sequence && map.page_size() == header.page_size);
    let map = match known {
        Some((sequence, map)) => catch_up(store, sequence, map)?,
        None => None,
    };
    // A checksum that does not match says that the pages are not those of the place. Nothing is known then, and all are sent.
    let map = map
        .filter(|map| map.len() == position.pages && (map.sum() == position.sum || !position.sum.is_some()));
    Ok((position, map))
}

/// The number of the shipper that wrote the last file of a store.
pub fn last_writer(store: &dyn Store) -> Result<Option<u64>> {
    newest(store)?.map(|last| ends(store, last).map(|(header, _)| header.node)).transpose()
}

/// The file with the last transaction, of the lowest level that has it.
fn newest(store: &dyn Store) -> Result<Option<Listed>> {
    let mut newest: Option<Listed> = None;
    for level in Level::all() {
        for file in store.list(level)? {
            if newest.is_none_or(|newest| file.name.max > newest.name.max) {
                newest = Some(file);
            }
        }
    }
    Ok(newest)
}

/// The header and the trailer of a file.
fn ends(store: &dyn Store, file: Listed) -> Result<(Header, Trailer)> {
    let damaged = |why: String| Error::Damaged { place: format!("{}/{}", store.place(), file.name), why };
    let gone = || damaged("it was there, and is gone".into());
    let head = store.get(file.name, 0..HEADER_BYTES as u64)?.ok_or_else(gone)?;
    let tail_at = file.bytes.saturating_sub(TRAILER_BYTES as u64);
    let tail = store.get(file.name, tail_at..file.bytes)?.ok_or_else(gone)?;
    let (Ok(head), Ok(tail)) = (head.as_slice().try_into(), tail.as_slice().try_into()) else {
        return Err(damaged("is cut short".into()));
    };
    let header = Header::decode(head).map_err(|error| damaged(error.to_string()))?;
    let trailer = Trailer::decode(tail, &header);
    trailer.validate(&header).map_err(|why| damaged(why.to_owned()))?;
    Ok((header, trailer))
}

/// Applies the files behind a known delivery to the checksums of its pages; `None` where some of them are gone.
fn catch_up(store: &dyn Store, sequence: u64, mut map: PageMap) -> Result<Option<PageMap>> {
    let Some(Plan { files, .. }) = plan(store, Until::Latest, Some(sequence)).ok() else { return Ok(None) };
    for file in files {
        let Some(bytes) = store.get(file.name, 0..file.bytes)? else { return Ok(None) };
        if apply(file.name, &bytes, &mut map).is_none() {
            return Ok(None);
        }
    }
    Ok(Some(map))
}

fn apply(name: FileName, bytes: &[u8], map: &mut PageMap) -> Option<()> {
    let mut decoder = Decoder::new(bytes).ok()?;
    let header = decoder.header().clone();
    if header.page_size != map.page_size() || header.max != name.max {
        return None;
    }
    map.resize(map.len().min(header.pages));
    let mut data = vec![0; header.page_size as usize];
    while let Some(page) = decoder.page(&mut data).ok()? {
        map.set(page, Checksum::of_page(page, &data));
    }
    map.resize(header.pages);
    decoder.finish().ok().map(|_| ())
}
