//! Files against a plain model: a list of pages.

#![allow(clippy::unwrap_used)]

use litefoot_ltx::{
    Checksum, Decoder, Encoder, Error, Header, Trailer, TxId, compact, decode_frame, index_bytes, lock_page,
    parse_index,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

const PAGE: usize = 512;

/// The plain model: all pages of a database.
#[derive(Clone, Debug, Default)]
struct Model {
    pages: BTreeMap<u32, Vec<u8>>,
}

impl Model {
    fn checksum(&self) -> Checksum {
        self.pages
            .iter()
            .fold(Checksum::EMPTY, |sum, (page, data)| sum.toggle(Checksum::of_page(*page, data)))
    }
}

/// A header; the checksum after it comes with its pages.
fn header(min: u64, max: u64, pages: u32, before: Checksum, tracked: bool) -> Header {
    Header {
        tracked,
        page_size: PAGE as u32,
        pages,
        min: TxId::new(min),
        max: TxId::new(max),
        timestamp_ms: 1000 * max,
        before: if tracked && min > 1 { before } else { Checksum::NONE },
        after: Checksum::NONE,
        wal: Default::default(),
        node: 42,
    }
}

fn encode(header: Header, pages: &[(u32, Vec<u8>)], after: Checksum) -> Result<Vec<u8>, Error> {
    let after = if header.tracked { after } else { Checksum::NONE };
    let mut encoder = Encoder::new(Vec::new(), Header { after, ..header })?;
    for (page, data) in pages {
        encoder.page(*page, data)?;
    }
    Ok(encoder.finish(after)?.0)
}

type Pages = Vec<(u32, Vec<u8>)>;

fn decode(bytes: &[u8]) -> Result<(Header, Pages, Trailer), Error> {
    let mut decoder = Decoder::new(bytes)?;
    let mut pages = Vec::new();
    let mut data = vec![0; decoder.header().page_size as usize];
    while let Some(page) = decoder.page(&mut data)? {
        pages.push((page, data.clone()));
    }
    let header = decoder.header().clone();
    Ok((header, pages, decoder.finish()?))
}

/// A history: each step writes some pages, and ends with so many.
fn history(seed: u64, tracked: bool) -> (Vec<Vec<u8>>, Vec<Model>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut files, mut models) = (Vec::new(), Vec::new());
    let mut model = Model::default();
    for step in 1..=random.u64(1..8) {
        let before = model.checksum();
        let pages = random.u32(1..20);
        let old = model.pages.len() as u32;
        model.pages.retain(|page, _| *page <= pages);
        let mut changed = Vec::new();
        for page in 1..=pages {
            if step == 1 || page > old || random.u8(..4) == 0 {
                let fill = random.u8(..);
                let noise = random.usize(..PAGE);
                let data: Vec<u8> =
                    (0..PAGE).map(|at| if at < noise { random.u8(..) } else { fill }).collect();
                model.pages.insert(page, data.clone());
                changed.push((page, data));
            }
        }
        files.push(encode(header(step, step, pages, before, tracked), &changed, model.checksum()).unwrap());
        models.push(model.clone());
    }
    (files, models)
}

#[test]
fn any_byte_that_changes_is_noticed() {
    let (files, _) = history(3, true);
    let file = &files[0];
    for at in 0..file.len() {
        for bit in [1, 0x80] {
            let mut damaged = file.clone();
            damaged[at] ^= bit;
            let Ok((header, pages, _)) = decode(&damaged) else { continue };
            // A block may say the same in another way: then nothing is lost.
            let (sound_header, sound, _) = decode(file).unwrap();
            assert!(header == sound_header && pages == sound, "byte {at}");
        }
    }
    for len in 0..file.len() {
        assert!(decode(&file[..len]).is_err(), "{len}");
    }
    assert!(decode(&[file.as_slice(), b"x"].concat()).is_err());
}

#[test]
fn what_no_file_may_hold_is_refused() {
    let page = |number| (number, vec![0; PAGE]);
    let change = |pages| header(2, 2, pages, Checksum::EMPTY, true);
    let whole = |pages| header(1, 1, pages, Checksum::NONE, true);
    for (header, pages) in [
        (change(5), vec![page(6)]),
        (change(5), vec![page(3), page(3)]),
        (change(5), vec![page(3), page(2)]),
        (change(5), vec![(1, vec![0; PAGE + 1])]),
        (change(lock_page(512)), vec![page(lock_page(512))]),
        (whole(3), vec![page(2)]),
        (whole(3), vec![page(1), page(3)]),
        (whole(3), vec![page(1), page(2)]),
        (whole(3), vec![]),
    ] {
        assert!(
            matches!(encode(header, &pages, Checksum::EMPTY), Err(Error::Refused(_))),
            "{:?}",
            pages.len()
        );
    }
    assert!(encode(change(5), &[], Checksum::EMPTY).is_ok(), "a commit may leave all pages as they were");
    let mut decoder = Decoder::new(history(3, true).0.remove(0).leak() as &[u8]).unwrap();
    decoder.page(&mut [0; PAGE]).unwrap();
    assert!(matches!(decoder.finish(), Err(Error::Refused(_))));
}

#[test]
fn a_whole_database_with_another_checksum_is_refused() {
    let pages = [(1, vec![1; PAGE])];
    let file = encode(header(1, 1, 1, Checksum::NONE, true), &pages, Checksum::EMPTY).unwrap();
    assert!(matches!(decode(&file), Err(Error::Checksum("the checksum of the database"))));
}

#[test]
fn files_that_do_not_follow_one_another_do_not_become_one() {
    let file = |min, max| encode(header(min, max, 1, Checksum::EMPTY, true), &[], Checksum::EMPTY).unwrap();
    let merge = |files: &[Vec<u8>]| {
        compact(files.iter().map(Vec::as_slice).collect(), Vec::new())
            .map(|(_, header, _)| (header.min.get(), header.max.get()))
    };
    assert_eq!(merge(&[file(2, 3), file(4, 4)]).unwrap(), (2, 4));
    assert_eq!(merge(&[file(2, 5), file(4, 7)]).unwrap(), (2, 7));
    assert!(merge(&[file(2, 3), file(5, 5)]).is_err());
    assert!(merge(&[file(2, 5), file(4, 5)]).is_err());
    assert!(merge(&[]).is_err());
}

proptest! {
    #[test]
    fn a_file_comes_back(seed in any::<u64>(), tracked in any::<bool>()) {
        let (files, models) = history(seed, tracked);
        for (file, model) in files.iter().zip(&models) {
            let (header, pages, trailer) = decode(file).unwrap();
            prop_assert_eq!(header.node, 42);
            prop_assert_eq!(trailer.after, if tracked { model.checksum() } else { Checksum::NONE });
            prop_assert!(pages.iter().all(|(page, data)| &model.pages[page] == data));

            // The index finds each page by itself.
            let tail = file.last_chunk().unwrap();
            let from = file.len() - index_bytes(tail) as usize;
            let entries = parse_index(&file[from..file.len() - 16]).unwrap();
            prop_assert_eq!(entries.len(), pages.len());
            for (entry, (page, data)) in entries.iter().zip(&pages) {
                let mut alone = vec![0; PAGE];
                let frame = &file[entry.offset as usize..(entry.offset + entry.bytes) as usize];
                prop_assert_eq!(decode_frame(frame, &mut alone).unwrap(), *page);
                prop_assert_eq!(&alone, data);
            }
        }
    }

    #[test]
    fn many_files_become_one(seed in any::<u64>(), tracked in any::<bool>(), cut in any::<prop::sample::Index>()) {
        let (files, models) = history(seed, tracked);
        let slices: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
        let (whole, header, _) = compact(slices.clone(), Vec::new()).unwrap();
        prop_assert_eq!((header.min.get(), header.max.get() as usize), (1, files.len()));
        let pages: BTreeMap<_, _> = decode(&whole).unwrap().1.into_iter().collect();
        prop_assert_eq!(&pages, &models.last().unwrap().pages);
        // In two steps the same.
        let cut = cut.index(files.len());
        if cut > 0 {
            let [head, tail] = [&slices[..cut], &slices[cut..]].map(|part| compact(part.to_vec(), Vec::new()).unwrap().0);
            prop_assert_eq!(compact(vec![head.as_slice(), &tail], Vec::new()).unwrap().0, whole);
        }
    }

    #[test]
    fn hostile_bytes_are_refused_or_read(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), seed in any::<u64>()) {
        let _ = decode(&bytes);
        let (files, _) = history(seed, true);
        bytes.splice(0..0, files[0][..files[0].len() / 2].iter().copied());
        let _ = decode(&bytes);
    }
}
