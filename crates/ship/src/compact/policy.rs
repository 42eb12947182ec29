//! Which files are merged, and which may go: pure policies.

use crate::store::Listed;
use litefoot_ltx::TxId;
use std::time::Duration;

/// The windows of the levels 1 to 3, as Litestream has them.
pub const WINDOWS: [(u8, Duration); 3] =
    [(1, Duration::from_secs(30)), (2, Duration::from_secs(300)), (3, Duration::from_secs(3600))];

/// How long what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Every moment of this time can be restored, as finely as its level tells.
    pub history: Duration,
    /// Single deliveries are kept for this time; behind it, what they were merged to.
    pub deliveries: Duration,
    /// The time between two whole databases.
    pub snapshots: Duration,
}

impl Default for Retention {
    fn default() -> Retention {
        let day = Duration::from_secs(86_400);
        Retention { history: day * 30, deliveries: day, snapshots: day }
    }
}

/// A file with the time of its last transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// The file.
    pub file: Listed,
    /// Milliseconds since 1970.
    pub timestamp_ms: u64,
}

/// Groups the files of a level by windows, of which each one is over. A group of one file is one, too: the level above goes on without gaps.
pub fn windows(files: &[Timed], window: Duration, now_ms: u64) -> Vec<Vec<Timed>> {
    let window_ms = window.as_millis() as u64;
    let mut groups: Vec<Vec<Timed>> = Vec::new();
    for file in files.iter().filter(|file| file.timestamp_ms / window_ms < now_ms / window_ms) {
        match groups.last_mut() {
            Some(group) if group[0].timestamp_ms / window_ms == file.timestamp_ms / window_ms => {
                group.push(*file)
            }
            _ => groups.push(vec![*file]),
        }
    }
    groups
}

/// True where the last whole database is old enough for another one.
pub fn wants_snapshot(last_ms: Option<u64>, newest_ms: u64, every: Duration) -> bool {
    last_ms.is_none_or(|last| newest_ms.saturating_sub(last) >= every.as_millis() as u64)
}

/// What is old enough to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Old {
    /// The last whole database before the history: the first moment of the history begins there.
    pub first: Option<Listed>,
    /// The last transactions of levels 1 and 2 whose files make those of the level below superfluous.
    pub merged: [TxId; 2],
}

/// Ages behind which files of levels 0 and 1 go, where the level above has them.
pub fn ages(retention: &Retention) -> [Duration; 2] {
    [retention.deliveries, retention.deliveries * 7]
}

/// Chooses the files that nobody needs any more.
///
/// - Whole databases before the first one go, and all files that it has.
/// - Files of levels 0 and 1 go where an old file of the level above has them: together with their neighbours, so that none of them is
///   missing between others.
pub fn superfluous(levels: &[Vec<Listed>], old: &Old) -> Vec<Listed> {
    let of = |level: usize| levels.get(level).map_or(&[][..], Vec::as_slice);
    let goes = |file: &Listed| {
        let level = usize::from(file.name.level.get());
        let is_in_first = old.first.is_some_and(|first| file.name.max <= first.name.max && *file != first);
        let is_merged = old.merged.get(level).is_some_and(|until| {
            let has = |above: &Listed| {
                above.name.min <= file.name.min && above.name.max >= file.name.max && above.name.max <= *until
            };
            // The first file, of all pages, becomes a whole database, and is on no other level.
            let is_whole = |whole: &Listed| {
                whole.name.min == file.name.min && whole.name.max == file.name.max && whole.name.max <= *until
            };
            of(level + 1).iter().any(has) || of(9).iter().any(is_whole)
        });
        is_in_first || is_merged
    };
    levels.iter().flatten().filter(|file| goes(file)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::FileName;
    use litefoot_ltx::Level;

    const HOUR: u64 = 3_600_000;

    fn timed(level: u8, min: u64, max: u64, timestamp_ms: u64) -> Timed {
        let name = FileName { level: Level::new(level).unwrap(), min: TxId::new(min), max: TxId::new(max) };
        Timed { file: Listed { name, bytes: 1 }, timestamp_ms }
    }

    #[test]
    fn a_window_is_merged_when_it_is_over() {
        let files: Vec<_> = (1..=7).map(|number| timed(0, number, number, number * 10_000)).collect();
        let groups = windows(&files, Duration::from_secs(30), 65_000);
        let ranges: Vec<_> = groups
            .iter()
            .map(|group| (group[0].file.name.min.get(), group.last().unwrap().file.name.max.get()))
            .collect();
        assert_eq!(ranges, [(1, 2), (3, 5)]);
        assert!(windows(&files, Duration::from_secs(30), 20_000).is_empty());
    }

    #[test]
    fn a_whole_database_is_made_when_the_last_one_is_old() {
        let every = Duration::from_secs(86_400);
        for (last, newest, wants) in
            [(None, 0, true), (Some(100 * HOUR), 123 * HOUR, false), (Some(100 * HOUR), 124 * HOUR, true)]
        {
            assert_eq!(wants_snapshot(last, newest, every), wants, "{newest}");
        }
    }

    #[test]
    fn only_what_nobody_needs_goes() {
        let file = |level, min, max| timed(level, min, max, 0).file;
        let mut levels = vec![Vec::new(); 10];
        levels[0] = [1].into_iter().chain(6..=10).map(|number| file(0, number, number)).collect();
        levels[1] = vec![file(1, 2, 3), file(1, 4, 5), file(1, 6, 7), file(1, 8, 9)];
        levels[2] = vec![file(2, 6, 7)];
        levels[9] = vec![file(9, 1, 1), file(9, 1, 5), file(9, 1, 6)];
        let gone = |old: Old| -> Vec<(u8, u64, u64)> {
            let gone = superfluous(&levels, &old).into_iter();
            gone.map(|file| (file.name.level.get(), file.name.min.get(), file.name.max.get())).collect()
        };
        let old = |first, merged: [u64; 2]| Old { first, merged: merged.map(TxId::new) };
        let first = Some(file(9, 1, 5));
        // Delivery 8 is old enough by itself, and its neighbour in the same file of level 1 is not.
        assert_eq!(
            gone(old(first, [8, 0])),
            [(0, 1, 1), (0, 6, 6), (0, 7, 7), (1, 2, 3), (1, 4, 5), (9, 1, 1)]
        );
        assert_eq!(
            gone(old(None, [7, 7])),
            [(0, 1, 1), (0, 6, 6), (0, 7, 7), (1, 6, 7)],
            "nothing is the first one yet"
        );
        assert_eq!(gone(old(None, [0, 0])), []);
    }
}
