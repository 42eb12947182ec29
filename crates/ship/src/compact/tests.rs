//! Compaction leaves a place from which everything that it promises can be restored.

use super::*;
use crate::restore::{Restored, restore_to};
use crate::store::Directory;
use litefoot_ltx::{Checksum, Encoder, Header, TxId};
use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

const PAGE: usize = 512;
const MINUTE: u64 = 60_000;

/// A place with deliveries at times, and the database behind each of them.
fn place(directory: &Path, deliveries: u64, every_ms: u64) -> (Directory, Vec<Vec<u8>>) {
    let store = Directory::new(directory);
    let mut random = fastrand::Rng::with_seed(deliveries);
    let (mut pages, mut states, mut sum) = (BTreeMap::new(), Vec::new(), Checksum::NONE);
    for number in 1..=deliveries {
        let count = random.u32(1..12);
        let old = pages.len() as u32;
        let before = sum;
        pages.retain(|page, _| *page <= count);
        let changed: Vec<u32> =
            (1..=count).filter(|page| number == 1 || *page > old || random.bool()).collect();
        let data: Vec<Vec<u8>> = changed.iter().map(|_| vec![random.u8(..); PAGE]).collect();
        pages.extend(changed.iter().copied().zip(data.iter().cloned()));
        sum = pages
            .iter()
            .fold(Checksum::EMPTY, |sum, (page, data)| sum.toggle(Checksum::of_page(*page, data)));
        let header = Header {
            tracked: true,
            page_size: PAGE as u32,
            pages: count,
            min: TxId::new(number),
            max: TxId::new(number),
            timestamp_ms: number * every_ms,
            before,
            after: sum,
            wal: Default::default(),
            node: 5,
        };
        let mut encoder = Encoder::new(Body::new(directory), header).unwrap();
        for (page, data) in changed.iter().zip(&data) {
            encoder.page(*page, data).unwrap();
        }
        let (body, _) = encoder.finish(sum).unwrap();
        let name = FileName { level: Level::SHIPMENTS, min: TxId::new(number), max: TxId::new(number) };
        store.put_new(name, &body, number * every_ms).unwrap();
        states.push(pages.values().flatten().copied().collect());
    }
    (store, states)
}

fn restored(store: &dyn Store, until: Until) -> Result<(Vec<u8>, Restored)> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let restored = restore_to(store, until, file.as_file(), &|_, _| Ok(()))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    Ok((bytes, restored))
}

#[test]
fn everything_of_the_history_can_be_had_again() {
    let directory = tempfile::tempdir().unwrap();
    let every = MINUTE / 4;
    let (store, states) = place(directory.path(), 600, every);
    let retention = Retention {
        history: Duration::from_millis(90 * MINUTE),
        deliveries: Duration::from_millis(10 * MINUTE),
        snapshots: Duration::from_millis(30 * MINUTE),
    };
    let mut now = 0;
    for round in 0..6 {
        now = (round + 1) * 25 * MINUTE;
        compact(&store, &retention, now, directory.path(), &|| Ok(())).unwrap();
        let (bytes, found) = restored(&store, Until::Latest).unwrap();
        assert!(bytes == states[599], "{round}");
        assert_eq!(found.last.get(), 600);
    }
    let files = |level| store.list(Level::new(level).unwrap()).unwrap();
    assert!(files(0).len() < 50 && !files(1).is_empty() && !files(3).is_empty() && !files(9).is_empty());
    let (_, found) = restored(&store, Until::Latest).unwrap();
    assert!(found.files < 10, "{}", found.files);
    // Fine times lead to their delivery, and older ones at least into their window.
    for (number, state) in (1..).zip(&states).filter(|(number, _)| number * every + 90 * MINUTE > now) {
        let at = number * every;
        let (bytes, found) = restored(&store, Until::Time(at)).unwrap();
        let window = if at + 70 * MINUTE > now { MINUTE } else { 10 * MINUTE };
        assert!(
            found.timestamp_ms <= at && at - found.timestamp_ms <= window,
            "{number}: {}",
            found.timestamp_ms
        );
        if at + 10 * MINUTE > now {
            assert!(bytes == *state, "{number}");
        }
    }
}

#[test]
fn a_compaction_that_ends_anywhere_or_runs_twice_does_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let (store, states) = place(directory.path(), 40, MINUTE / 4);
    let now = 3 * 60 * MINUTE;
    let retention = Retention { deliveries: Duration::from_millis(MINUTE), ..Retention::default() };
    for steps in 0..40 {
        let left = std::cell::Cell::new(steps);
        let go_on = || match left.get() {
            0 => Err(Error::Interrupted),
            more => {
                left.set(more - 1);
                Ok(())
            }
        };
        let ended = compact(&store, &retention, now, directory.path(), &go_on);
        assert!(restored(&store, Until::Latest).unwrap().0 == states[39], "{steps}: {ended:?}");
    }
    let again = compact(&store, &retention, now, directory.path(), &|| Ok(())).unwrap();
    assert_eq!(again, Compacted::default(), "there is nothing left to do");
}

#[test]
fn the_shipper_of_a_place_is_known_where_its_deliveries_were_merged() {
    let directory = tempfile::tempdir().unwrap();
    let (store, _) = place(directory.path(), 40, MINUTE / 4);
    let retention = Retention { deliveries: Duration::from_millis(MINUTE), ..Retention::default() };
    compact(&store, &retention, 5 * 60 * MINUTE, directory.path(), &|| Ok(())).unwrap();
    assert_eq!(store.list(Level::SHIPMENTS).unwrap(), []);
    assert_eq!(crate::backup::last_writer(&store).unwrap(), Some(5));
}
