//! Two versions of a database, compared; and the batches that changes are sent in.

use super::{join, put_crc, split};
use crate::{MOST_BYTES, Target, outcome_of};
use litefoot_rowdiff::encode::batch::{Decoder, Encoder, Envelope};
use litefoot_rowdiff::encode::{changeset, json};
use litefoot_rowdiff::{Changed, Collect, Empty, Failure, Map, Pages};

pub const ROWDIFF: Target = Target {
    name: "rowdiff",
    does: "two versions of a database: the map of the first, and the rows that differ",
    parse: rowdiff,
    seal: |_| (),
    seeds: || vec![join(&[], &[])],
    most_bytes: MOST_BYTES,
};

/// A database whose page size is what its header says.
struct Image<'a> {
    page_bytes: usize,
    bytes: &'a [u8],
}

impl Image<'_> {
    fn new(bytes: &[u8]) -> Image<'_> {
        let field = bytes.get(16..18).map_or(0, |field| u16::from_be_bytes([field[0], field[1]]));
        let page_bytes = match usize::from(field) {
            1 => 65_536,
            size if size >= 512 => size,
            _ => 512,
        };
        Image { page_bytes, bytes }
    }

    fn page(&self, number: u32) -> Option<&[u8]> {
        self.bytes.chunks_exact(self.page_bytes).nth(number as usize - 1)
    }
}

impl Pages for Image<'_> {
    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn count(&self) -> u32 {
        (self.bytes.len() / self.page_bytes) as u32
    }

    fn read(&self, number: u32, page: &mut [u8]) -> Result<(), Failure> {
        page.copy_from_slice(self.page(number).ok_or("no such page")?);
        Ok(())
    }
}

fn rowdiff(bytes: &[u8]) -> u64 {
    let (before, after) = split(bytes);
    let (before, after) = (Image::new(before), Image::new(after));
    let mut map = match Map::of(&before) {
        Ok(map) => map,
        Err(error) => return outcome_of(&("map", error.to_string().len())),
    };
    let changed: Vec<u32> =
        (1..=after.count()).filter(|number| before.page(*number) != after.page(*number)).collect();
    let mut found = Collect::default();
    let outcome = match map.diff(&before, &after, &Changed::Pages(&changed), &mut found) {
        Ok(step) => {
            map.apply(step);
            // The same rows, or an error that only a look at all pages shows.
            let whole = Map::of(&after).and_then(|_| {
                let mut whole = Collect::default();
                Map::default().diff(&Empty, &after, &Changed::All, &mut whole).map(|_| whole.tables.len())
            });
            outcome_of(&whole.unwrap_or_default())
        }
        Err(error) => outcome_of(&error.to_string().len()),
    };
    // What was found can be told in every form.
    let envelope = Envelope { source: [0; 16], epoch: 0, first: 0, last: 0, time_ms: 0 };
    if let Ok(batch) = Encoder::default().batch(&envelope, &found.tables) {
        assert!(Decoder::default().decode(&batch).is_ok(), "a batch cannot be read back");
    }
    let lines = found
        .tables
        .iter()
        .flat_map(|table| table.changes.iter().map(|change| json::line(table.pair(), change)));
    outcome_of(&(outcome, lines.count(), changeset::encode(&found.tables).len().min(100)))
}

pub const BATCH: Target = Target {
    name: "batch",
    does: "a batch of changed rows, as a receiver reads it",
    parse: batch,
    seal: |bytes| {
        if let Some(at) = bytes.len().checked_sub(4) {
            put_crc(bytes, 0, at);
        }
    },
    seeds: batch_seeds,
    most_bytes: 256 << 20,
};

fn batch_seeds() -> Vec<Vec<u8>> {
    let corpus: [&[u8]; 2] = [
        include_bytes!("../../corpus/rowdiff/update-and-delete"),
        include_bytes!("../../corpus/rowdiff/without-rowid"),
    ];
    let envelope = Envelope { source: [7; 16], epoch: 1, first: 1, last: 3, time_ms: 1_700_000_000_000 };
    let seed = |bytes: &[u8]| {
        let (before, after) = split(bytes);
        let (before, after) = (Image::new(before), Image::new(after));
        let mut found = Collect::default();
        Map::of(&before).and_then(|map| map.diff(&before, &after, &Changed::All, &mut found)).ok()?;
        Encoder::default().batch(&envelope, &found.tables).ok()
    };
    corpus.into_iter().filter_map(seed).collect()
}

fn batch(bytes: &[u8]) -> u64 {
    let mut decoder = Decoder::default();
    match decoder.decode(bytes) {
        Ok(batch) => outcome_of(&(
            batch.definitions.len(),
            batch.tables.iter().map(|table| table.changes.len()).sum::<usize>(),
        )),
        Err(error) => outcome_of(&error.to_string()),
    }
}
