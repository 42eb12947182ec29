//! Files of a backup, as a bucket may hand them out.

use crate::{MOST_BYTES, Target, outcome_of};
use litefoot_ltx::{
    Checksum, Decoder, Digest, Encoder, Header, TRAILER_BYTES, TxId, compact, index_bytes, parse_index,
};

pub const LTX: Target = Target {
    name: "ltx",
    does: "a file of a backup: page after page, by its index, and merged with another one",
    parse,
    seal: |bytes| seal(bytes),
    seeds,
    most_bytes: MOST_BYTES,
};

/// Most bytes of pages that one input may unpack to: each may say that it has 64 KiB in few bytes.
const UNPACKED_MAX: usize = 16 << 20;

fn parse(bytes: &[u8]) -> u64 {
    let read = read(bytes);
    let index = bytes.last_chunk().map(index_bytes).and_then(|len| {
        let from = bytes.len().checked_sub(usize::try_from(len).ok()?)?;
        parse_index(&bytes[from..bytes.len() - TRAILER_BYTES]).ok()
    });
    if let Some((pages, _)) = &read {
        let index = index.as_ref().expect("a file that is whole has an index");
        assert!(index.iter().map(|entry| entry.page).eq(pages.iter().copied()), "the index has other pages");
        let (again, ..) = compact(vec![bytes], Vec::new()).expect("a whole file can be written again");
        assert_eq!(self::read(&again), read, "it was written otherwise");
    }
    outcome_of(&(read.map(|(pages, _)| pages.len()), index.map(|index| index.len().min(8))))
}

/// The pages of a whole file, and a checksum of their bytes.
fn read(bytes: &[u8]) -> Option<(Vec<u32>, u64)> {
    let mut decoder = Decoder::new(bytes).ok()?;
    let mut data = vec![0; decoder.header().page_size as usize];
    let (mut pages, mut digest) = (Vec::new(), Digest::default());
    while let Some(page) = decoder.page(&mut data).ok()? {
        assert!(pages.last().is_none_or(|last| *last < page), "pages are not in order");
        pages.push(page);
        digest.update(&data);
        if pages.len() * data.len() > UNPACKED_MAX {
            return None;
        }
    }
    decoder.finish().ok()?;
    Some((pages, digest.checksum().bits()))
}

/// Makes the checksum of the file fit, as far as its pages can be read, and that of the database of a snapshot.
fn seal(bytes: &mut [u8]) {
    let Some(end) = bytes.len().checked_sub(TRAILER_BYTES) else { return };
    let Ok(mut decoder) = Decoder::new(&bytes[..]) else { return };
    let header = decoder.header().clone();
    let mut data = vec![0; header.page_size as usize];
    let (mut pages, mut sum) = (Digest::default(), Checksum::EMPTY);
    let mut at = litefoot_ltx::HEADER_BYTES;
    let mut unpacked = 0;
    while let Ok(Some(page)) = decoder.page(&mut data) {
        unpacked += data.len();
        let Some(size) = bytes.get(at + 6..at + 10).filter(|_| unpacked <= UNPACKED_MAX) else { return };
        let size = u32::from_be_bytes([size[0], size[1], size[2], size[3]]) as usize;
        pages.update(&bytes[at..at + 10]);
        pages.update(&data);
        sum = sum.toggle(Checksum::of_page(page, &data));
        at += 10 + size;
    }
    let Some(rest) = bytes.get(at..end) else { return };
    pages.update(rest);
    if header.is_snapshot() && header.tracked {
        bytes[AFTER..AFTER + 8].copy_from_slice(&sum.bits().to_be_bytes());
    }
    let mut digest = Digest::default();
    digest.update(&bytes[..litefoot_ltx::HEADER_BYTES]);
    digest.append(&pages);
    digest.update(&bytes[end..end + 8]);
    let file = digest.checksum().bits();
    bytes[end + 8..].copy_from_slice(&file.to_be_bytes());
}

/// Where the header has the checksum of the database after it.
const AFTER: usize = 88;

fn seeds() -> Vec<Vec<u8>> {
    let file = |min: u64, tracked: bool, pages: &[u32]| {
        let data = |page: u32| (0..512).map(|at| (at * page as usize / 7) as u8).collect::<Vec<u8>>();
        let sum = pages
            .iter()
            .fold(Checksum::EMPTY, |sum, page| sum.toggle(Checksum::of_page(*page, &data(*page))));
        let after = if tracked { sum } else { Checksum::NONE };
        let header = Header {
            tracked,
            page_size: 512,
            pages: 4,
            min: TxId::new(min),
            max: TxId::new(min + 2),
            timestamp_ms: 1_772_366_400_000,
            before: if tracked && min > 1 { Checksum::EMPTY } else { Checksum::NONE },
            after,
            wal: Default::default(),
            node: 7,
        };
        let mut encoder = Encoder::new(Vec::new(), header).expect("a sound header");
        for page in pages {
            encoder.page(*page, &data(*page)).expect("a sound page");
        }
        encoder.finish(after).expect("a sound end").0
    };
    vec![
        file(1, true, &[1, 2, 3, 4]),
        file(1, false, &[1, 2, 3, 4]),
        file(5, true, &[2, 4]),
        file(5, false, &[]),
    ]
}
