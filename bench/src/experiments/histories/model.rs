//! What a database must hold: pure.
//!
//! # Rules
//! 1. Each acknowledged commit is there, or a line has told that a log was kept or set aside; then the database is as
//!    its files without that log say.
//! 2. Nothing is there that nobody committed.
//! 3. After processes that were killed and stock readers, and nothing else, nothing is refused and no log is kept.

use std::collections::BTreeSet;

/// The knowledge about one database: its file, and the logs beside it.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// Commits that must be there, or told of.
    pub acknowledged: BTreeSet<u64>,
    /// Commits that may be there: each was on its way when its process was killed.
    pub perhaps: BTreeSet<u64>,
    /// True since something else than litefoot and stock readers has had the files in its hands.
    pub disturbed: bool,
    /// True if a process was killed that had set a log aside, perhaps before it could say so. A copy of the files lacks that log, too.
    pub set_aside_unsaid: bool,
}

/// What an application has met.
#[derive(Debug)]
pub struct Met<'a> {
    /// The commits that it has seen.
    pub seen: &'a [u64],
    /// What the files hold without litefoot: with the logs that stock SQLite reads, and the data file alone. `None`
    /// where they hold nothing sound.
    pub without: [Option<&'a [u64]>; 2],
    /// True if a line has told that a log was kept or set aside.
    pub told: bool,
}

/// The judgement of what an application has met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything is there.
    Whole,
    /// So many commits are not, and a line has said so.
    Told(usize),
    /// It must not be.
    Wrong(String),
}

impl Model {
    /// Judges what an application has met when it has opened the database.
    pub fn judge(&self, met: &Met<'_>) -> Verdict {
        let seen: BTreeSet<u64> = met.seen.iter().copied().collect();
        let known = |token: &&u64| !self.acknowledged.contains(*token) && !self.perhaps.contains(*token);
        if let Some(unknown) = seen.iter().find(known) {
            return Verdict::Wrong(format!("there, and nobody committed it: {unknown}"));
        }
        let missing: Vec<u64> = self.acknowledged.difference(&seen).copied().collect();
        // The first commit of a new database may have been on its way.
        let told_once_more = met.told && !self.disturbed && !seen.is_empty();
        match missing.first() {
            None if told_once_more => {
                Verdict::Wrong("a log was kept or set aside after readers only".to_owned())
            }
            None => Verdict::Whole,
            Some(first) if !met.told => {
                Verdict::Wrong(format!("lost in silence: {} commits, {first} first", missing.len()))
            }
            Some(first) if !self.disturbed => {
                Verdict::Wrong(format!("lost after readers only: {} commits, {first} first", missing.len()))
            }
            Some(_) if met.without.contains(&Some(met.seen)) => Verdict::Told(missing.len()),
            Some(first) => Verdict::Wrong(format!(
                "told, and neither whole nor as without the log: {} commits are missing, {first} first",
                missing.len()
            )),
        }
    }

    /// Judges what stock SQLite has read. `newest` where it must see the newest state.
    pub fn judge_stock(&self, seen: &[u64], newest: bool) -> Verdict {
        let missing = self.acknowledged.iter().find(|token| !seen.contains(token));
        let unknown =
            seen.iter().find(|token| !self.acknowledged.contains(token) && !self.perhaps.contains(token));
        match (unknown, missing) {
            (Some(unknown), _) => Verdict::Wrong(format!("there, and nobody committed it: {unknown}")),
            (None, Some(missing)) if newest => Verdict::Wrong(format!("stock SQLite does not see {missing}")),
            (None, Some(_)) => Verdict::Told(1),
            (None, None) => Verdict::Whole,
        }
    }

    /// What was seen is the state from now on.
    pub fn settle(&mut self, seen: &[u64]) {
        self.acknowledged = seen.iter().copied().collect();
        self.perhaps.clear();
        self.disturbed = false;
    }

    /// Another data file lies there now, with these commits, beside logs of which stock SQLite saw `visible` before.
    pub fn replace_file(&mut self, file: &[u64], visible: &[u64]) {
        self.acknowledged.retain(|token| !visible.contains(token));
        self.perhaps.extend(visible);
        self.acknowledged.extend(file);
        self.disturbed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_must_be_told_and_nothing_comes_from_nowhere() {
        let model = |disturbed| Model {
            acknowledged: [1, 2, 3].into(),
            perhaps: [4].into(),
            disturbed,
            ..Model::default()
        };
        let wrong = |what: &str| Err(what.to_owned());
        // What is seen, told, disturbed; and the verdict.
        type Case<'a> = (&'a [u64], bool, bool, Result<Verdict, String>);
        let cases: [Case<'_>; 11] = [
            (&[1, 2, 3], false, false, Ok(Verdict::Whole)),
            (&[1, 2, 3, 4], false, false, Ok(Verdict::Whole)),
            (&[1, 2, 3], false, true, Ok(Verdict::Whole)),
            (&[1, 2, 3], true, true, Ok(Verdict::Whole)),
            (&[1, 2, 3], true, false, wrong("after readers only")),
            (&[1, 2], false, false, wrong("in silence")),
            (&[1, 2], false, true, wrong("in silence")),
            (&[1, 2], true, false, wrong("lost after readers only")),
            (&[1, 2], true, true, Ok(Verdict::Told(1))),
            (&[1], true, true, wrong("neither whole nor")),
            (&[1, 2, 3, 5], true, true, wrong("nobody committed it: 5")),
        ];
        for (seen, told, disturbed, expected) in cases {
            let met = Met { seen, without: [Some(&[1, 2]), None], told };
            match (model(disturbed).judge(&met), expected) {
                (Verdict::Wrong(what), Err(part)) => assert!(what.contains(&part), "{met:?}: {what}"),
                (verdict, Ok(expected)) => assert_eq!(verdict, expected, "{met:?}"),
                (verdict, expected) => panic!("{met:?}: {verdict:?}, {expected:?}"),
            }
        }
    }

    #[test]
    fn stock_sees_a_state_and_with_pages_the_newest() {
        let model = Model { acknowledged: [1, 2].into(), perhaps: [3].into(), ..Model::default() };
        assert_eq!(model.judge_stock(&[1, 2, 3], true), Verdict::Whole);
        assert_eq!(model.judge_stock(&[1], false), Verdict::Told(1));
        assert!(matches!(model.judge_stock(&[1], true), Verdict::Wrong(_)));
        assert!(matches!(model.judge_stock(&[1, 2, 9], false), Verdict::Wrong(_)));
    }

    #[test]
    fn with_another_file_what_only_a_log_has_must_still_be_told() {
        let mut model = Model { acknowledged: [1, 2, 3, 4].into(), ..Model::default() };
        model.replace_file(&[1], &[1, 2, 3]);
        assert_eq!(model.acknowledged, [1, 4].into());
        let met = |seen, told| Met { seen, without: [Some(&[1]), None], told };
        assert_eq!(model.judge(&met(&[1], true)), Verdict::Told(1));
        assert!(matches!(model.judge(&met(&[1], false)), Verdict::Wrong(_)));
        // The log of exactly this file.
        assert_eq!(model.judge(&met(&[1, 2, 3, 4], false)), Verdict::Whole);
        model.settle(&[1]);
        assert_eq!((model.acknowledged, model.disturbed), ([1].into(), false));
    }
}
