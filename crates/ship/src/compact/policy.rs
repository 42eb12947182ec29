//! Which files are merged, and which may go: pure policies.

use crate::store::Listed;
use litefoot_ltx::Level;
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
pub fn wants_snapshot(snapshots: &[Timed], newest_ms: u64, every: Duration) -> bool {
    let last = snapshots.last().map(|last| last.timestamp_ms);
    last.is_none_or(|last| newest_ms.saturating_sub(last) >= every.as_millis() as u64)
}

/// Chooses the files that nobody needs any more.
///
/// - Whole databases older than the history go, but for the last one before it: the first moment of the history begins there.
/// - Other files go where that whole database has them.
/// - Single deliveries go where a file of level 1 has them that is older than their time, and files of level 1 so where one of level 2 is
///   seven times older: together with their neighbours, so that none of them is missing between others.
pub fn superfluous(levels: &[Vec<Timed>], retention: &Retention, now_ms: u64) -> Vec<Listed> {
    let before = |duration: Duration| now_ms.saturating_sub(duration.as_millis() as u64);
    let of = |level: u8| levels.get(level as usize).map_or(&[][..], Vec::as_slice);
    let first =
        of(Level::SNAPSHOTS.get()).iter().rfind(|file| file.timestamp_ms <= before(retention.history));
    let goes = |timed: &Timed| {
        let name = timed.file.name;
        let is_in_first =
            first.is_some_and(|first| name.max <= first.file.name.max && timed.file != first.file);
        let limit = match name.level.get() {
            0 => before(retention.deliveries),
            1 => before(retention.deliveries * 7),
            _ => 0,
        };
        let has = |above: &Timed| above.file.name.min <= name.min && above.file.name.max >= name.max;
        let is_merged = of(name.level.get() + 1).iter().any(|above| above.timestamp_ms < limit && has(above));
        is_in_first || (limit > 0 && is_merged)
    };
    levels.iter().flatten().filter(|file| goes(file)).map(|timed| timed.file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::FileName;
    use litefoot_ltx::TxId;

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
        let last = timed(9, 1, 5, 100 * HOUR);
        for (snapshots, newest, wants) in
            [(&[][..], 0, true), (&[last][..], 123 * HOUR, false), (&[last][..], 124 * HOUR, true)]
        {
            assert_eq!(wants_snapshot(snapshots, newest, every), wants, "{newest}");
        }
    }

    #[test]
    fn only_what_nobody_needs_goes() {
        let now = 1000 * HOUR;
        let retention = Retention {
            history: Duration::from_millis(48 * HOUR),
            deliveries: Duration::from_millis(2 * HOUR),
            snapshots: Duration::from_millis(24 * HOUR),
        };
        let mut levels = vec![Vec::new(); 10];
        levels[0] = [(6, 985), (7, 985), (8, 997), (9, 999), (10, 999)]
            .map(|(at, hour)| timed(0, at, at, hour * HOUR))
            .to_vec();
        levels[1] = [(1, 3, 900), (4, 5, 945), (6, 7, 985), (8, 9, 999)]
            .map(|(min, max, hour)| timed(1, min, max, hour * HOUR))
            .to_vec();
        levels[2] = vec![timed(2, 6, 7, 985 * HOUR)];
        levels[9] = vec![timed(9, 1, 3, 900 * HOUR), timed(9, 1, 5, 945 * HOUR), timed(9, 1, 6, 985 * HOUR)];
        let gone = |levels: &[Vec<Timed>]| -> Vec<(u8, u64, u64)> {
            let gone = superfluous(levels, &retention, now).into_iter();
            gone.map(|file| (file.name.level.get(), file.name.min.get(), file.name.max.get())).collect()
        };
        // Delivery 8 is older than its time, and its neighbour in the same file of level 1 is not.
        assert_eq!(gone(&levels), [(0, 6, 6), (0, 7, 7), (1, 1, 3), (1, 4, 5), (1, 6, 7), (9, 1, 3)]);
        levels[9].clear();
        assert_eq!(
            gone(&levels),
            [(0, 6, 6), (0, 7, 7), (1, 6, 7)],
            "without a whole database what made it stays"
        );
        levels[1].clear();
        assert_eq!(gone(&levels), []);
    }
}
