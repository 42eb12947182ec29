//! Which files make a database of that moment?

use crate::store::{Listed, Store};
use crate::{Error, Result};
use litefoot_ltx::{HEADER_BYTES, Header, Level, TxId};

/// The moment that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The newest one.
    Latest,
    /// The last transaction up to a time, in milliseconds since 1970.
    Time(u64),
    /// A transaction.
    Transaction(TxId),
}

/// Files that follow one another, and make a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The files, oldest first.
    pub files: Vec<Listed>,
    /// The last transaction.
    pub last: TxId,
}

/// Finds the files. With `after`, those that lead from that transaction on; without, a whole database.
pub fn plan(store: &dyn Store, until: Until, after: Option<u64>) -> Result<Plan> {
    let mut levels = Level::all().map(|level| store.list(level)).collect::<Result<Vec<_>>>()?;
    if levels.iter().all(Vec::is_empty) {
        let why = "there is no backup at this place; check the URL".into();
        return Err(Error::Refused { place: store.place().to_owned(), why });
    }
    let all = levels.concat();
    match until {
        Until::Latest => {}
        Until::Transaction(last) => {
            levels.iter_mut().for_each(|files| files.retain(|file| file.name.max <= last))
        }
        Until::Time(time_ms) => {
            for files in &mut levels {
                let keep = older(store, files, time_ms)?;
                files.truncate(keep);
            }
        }
    }
    let after = after.map(TxId::new);
    let (files, gap) = choose(&levels.concat(), after);
    // Of files that were merged some may be left, and the merged one be too young: then an older moment is the right one.
    let is_merged = matches!(until, Until::Time(_)) && choose(&all, after).1.is_none();
    if let Some(why) = gap.filter(|_| !is_merged) {
        return Err(Error::Damaged { place: store.place().to_owned(), why });
    }
    let refused = |why: String| Error::Refused { place: store.place().to_owned(), why };
    match (files.last().map(|file| file.name.max).or(after), until) {
        (None, _) => Err(refused("nothing at this place is as old as that".into())),
        (Some(last), Until::Transaction(wanted)) if last != wanted => Err(refused(format!(
            "no files end with transaction {wanted}: compaction has merged it, or it was never there"
        ))),
        (Some(last), _) => Ok(Plan { files, last }),
    }
}

/// The number of files whose last transaction is not younger than a time. Times ascend with transactions.
pub fn older(store: &dyn Store, files: &[Listed], time_ms: u64) -> Result<usize> {
    let (mut low, mut high) = (0, files.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let is_older = header(store, files[middle])?.is_none_or(|header| header.timestamp_ms <= time_ms);
        if is_older { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}

/// The header of a file; `None` where it is gone.
pub fn header(store: &dyn Store, file: Listed) -> Result<Option<Header>> {
    let damaged = |why: String| Error::Damaged { place: format!("{}/{}", store.place(), file.name), why };
    let Some(bytes) = store.get(file.name, 0..HEADER_BYTES as u64)? else { return Ok(None) };
    let bytes = bytes.as_slice().try_into().map_err(|_| damaged("is cut short".into()))?;
    Header::decode(bytes).map(Some).map_err(|error| damaged(error.to_string()))
}

/// Chooses as few files as possible: the last whole database, and behind it always the file that leads furthest, as Litestream
/// does. Says also where a file is missing: there is one that nothing leads to.
fn choose(files: &[Listed], after: Option<TxId>) -> (Vec<Listed>, Option<String>) {
    let snapshot =
        files.iter().filter(|file| file.name.level == Level::SNAPSHOTS).max_by_key(|file| file.name.max);
    let mut chosen: Vec<Listed> = match after {
        None => snapshot.copied().into_iter().collect(),
        Some(_) => Vec::new(),
    };
    let mut at = after.or(chosen.last().map(|file| file.name.max)).unwrap_or_default();
    loop {
        let next = files
            .iter()
            .filter(|file| file.name.min <= at.next() && file.name.max > at)
            .filter(|file| file.name.level != Level::SNAPSHOTS || after.is_some())
            .max_by_key(|file| (file.name.max, std::cmp::Reverse(file.name.min), file.name.level));
        let Some(next) = next else { break };
        at = next.name.max;
        chosen.push(*next);
    }
    let behind = files.iter().map(|file| file.name.min).filter(|min| *min > at.next()).min();
    let gap = behind.map(|min| {
        format!("a file is missing: transactions up to {at} are there, and then those from {min} on")
    });
    (chosen, gap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::FileName;

    fn files(names: &[(u8, u64, u64)]) -> Vec<Listed> {
        let listed = |(level, min, max): &(u8, u64, u64)| Listed {
            name: FileName { level: Level::new(*level).unwrap(), min: TxId::new(*min), max: TxId::new(*max) },
            bytes: 1,
        };
        names.iter().map(listed).collect()
    }

    #[test]
    fn as_few_files_as_possible_and_none_is_missing() {
        type Case<'a> = (&'a str, &'a [(u8, u64, u64)], Option<u64>, Option<&'a [(u8, u64, u64)]>);
        let cases: &[Case<'_>] = &[
            ("deliveries", &[(0, 1, 1), (0, 2, 2)], None, Some(&[(0, 1, 1), (0, 2, 2)])),
            ("compacted", &[(0, 1, 1), (0, 2, 2), (0, 3, 3), (1, 1, 2)], None, Some(&[(1, 1, 2), (0, 3, 3)])),
            (
                "a whole one",
                &[(0, 1, 1), (0, 2, 2), (0, 3, 3), (9, 1, 2)],
                None,
                Some(&[(9, 1, 2), (0, 3, 3)]),
            ),
            (
                "two whole ones",
                &[(9, 1, 2), (9, 1, 5), (1, 3, 5), (0, 6, 6)],
                None,
                Some(&[(9, 1, 5), (0, 6, 6)]),
            ),
            (
                "they overlap",
                &[(9, 1, 4), (2, 3, 8), (1, 5, 6), (1, 7, 9)],
                None,
                Some(&[(9, 1, 4), (2, 3, 8), (1, 7, 9)]),
            ),
            ("one is missing", &[(0, 1, 1), (0, 3, 3)], None, None),
            ("the first one is missing", &[(0, 2, 2)], None, None),
            ("nothing is left", &[], None, Some(&[])),
            ("from one on", &[(0, 1, 1), (0, 2, 2), (0, 3, 3)], Some(1), Some(&[(0, 2, 2), (0, 3, 3)])),
            ("from a merged one on", &[(1, 1, 3), (0, 4, 4)], Some(2), Some(&[(1, 1, 3), (0, 4, 4)])),
            ("from the last one on", &[(1, 1, 3)], Some(3), Some(&[])),
            ("what led there is gone", &[(9, 1, 8), (0, 9, 9)], Some(3), Some(&[(9, 1, 8), (0, 9, 9)])),
        ];
        for (what, names, after, expected) in cases {
            let (chosen, gap) = choose(&files(names), after.map(TxId::new));
            let chosen = gap.is_none().then_some(chosen);
            assert_eq!(chosen, expected.map(files), "{what}");
        }
    }
}
