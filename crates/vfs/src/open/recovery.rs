//! Recovery: what opening does with what a crash, or another program, has left.
//!
//! # Why
//! The cases are one table, [`CASES`]. The unit test decides each row, and `docs/durability.md` shows the same rows.
//! `take_over` gathers the facts and carries the decisions out, in the order of the steps.
//!
//! # What it promises
//! 1. Deciding reads and writes nothing.
//! 2. No decision removes a commit log that may hold transactions which are not in the database.
//! 3. Two builds of SQLite may make something different of the same statement: how a double becomes text, or whether
//!    LIKE looks at blobs. So only the build that wrote a log replays it.
//!
//! # Invariants
//! Replaying writes nothing to the medium before its end; then one materialization takes over everything. A crash
//! meanwhile leaves things as they were.

mod cases;

pub use cases::CASES;
#[cfg(test)]
use cases::{COMMIT_LOG, DELTAS};

/// A step of opening, in order; each has a table of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Finding the chunks of the file, with the first lock.
    Tier,
    /// Finishing the redo log of a rollback-journal database, or leaving a log to SQLite.
    RedoLog,
    /// Finding a commit log.
    Beginning,
    /// Recovering a commit log of deltas, before the first read.
    Deltas,
    /// Replaying a commit log of statements, before the first read.
    CommitLog,
}

/// The facts that a step of opening has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Facts {
    /// Of the tier.
    Tier(TierFacts),
    /// Of the redo log.
    RedoLog(RedoLogFacts),
    /// Of the commit log, before it is opened.
    Beginning(BeginningFacts),
    /// Of a commit log of deltas, the redo log and the data file.
    Deltas(DeltaFacts),
    /// Of a commit log of statements, or of none that counts, and the redo log beside it.
    CommitLog(CommitLogFacts),
}

/// The facts about a tier: the option, the mark of the file, the device, and misplaced logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierFacts {
    /// True if the option names a device.
    pub option: bool,
    /// True if the file is marked: chunks of it are away.
    pub marked: bool,
    /// True if the device has chunks of another database.
    pub anothers_device: bool,
    /// True if a log or a hot journal lies beside the database while the file is marked, or beside the device while it
    /// is not.
    pub misplaced_log: bool,
}

/// The facts about a redo log and the rollback journal beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedoLogFacts {
    /// True if a log was found, and is not another database's.
    pub ours: bool,
    /// True if the newest page 1 says that the database is in WAL mode.
    pub wal_mode: bool,
    /// True if it is larger than a log may be in memory, and neither a commit log nor a snapshot builds upon it.
    pub too_large: bool,
    /// True if a rollback journal is on the medium that may be hot.
    pub hot_journal: bool,
}

/// The facts about a commit log that are known before it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeginningFacts {
    /// True if a commit log is there.
    pub commit_log: bool,
    /// True if the database file is empty.
    pub empty_database: bool,
}

/// The facts about a commit log of deltas, in which transactions wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaFacts {
    /// The data file beside it.
    pub data_file: FoundDataFile,
    /// The pages that the records change, as the redo log and the data file have them.
    pub pages: FoundPages,
    /// True if frames wait in the redo log.
    pub redo_log: bool,
    /// True if another user owns the log, or may write it without a right to write the database.
    pub strangers: bool,
}

/// The data file beside a commit log of deltas, compared with the one that the log began upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundDataFile {
    /// The same, with the same stamp.
    AsBegun,
    /// Written since, or copied without its time of change.
    Changed,
    /// Another file, beside the same log.
    Another,
}

/// The pages that the records of a commit log of deltas change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundPages {
    /// As before the first record.
    Before,
    /// As after the last record.
    After,
    /// Anything else.
    Others,
}

/// The facts about a commit log and the redo log that it builds upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitLogFacts {
    /// True if this version understands the log.
    pub understood: bool,
    /// True if transactions wait in it.
    pub in_use: bool,
    /// The redo log beside it.
    pub redo_log: FoundRedoLog,
    /// True if another build of SQLite wrote it.
    pub other_build: bool,
    /// True if another user owns it, or may write it without a right to write the database.
    pub strangers: bool,
}

/// The redo log that lies beside a commit log, compared with the one that the commit log builds upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundRedoLog {
    /// The redo log that the commit log builds upon.
    AsBuiltUpon,
    /// It begins with the frames of the materialization that the commit log announces.
    Materialized,
    /// Anything else.
    Changed,
}

/// A decision: what opening does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryDecision {
    /// It goes on: there is nothing to be done.
    GoOn,
    /// It refuses: the option `tier` must name the recorded device.
    NameTheTier,
    /// It refuses: a log is of another time than the file.
    RefuseOtherTime,
    /// It takes the tier device, or finds the chunks there.
    OpenTier,
    /// It leaves the redo log, and a hot journal, to SQLite.
    LeaveToSqlite,
    /// It copies the pages of the redo log to the database, durably, and removes the log.
    CopyHome,
    /// It gives the commit log another name.
    SetAside,
    /// It looks into the commit log before the first read.
    LookInto,
    /// It removes the commit log.
    Remove,
    /// It applies the deltas, and appends the pages to the redo log.
    Apply,
    /// It replays the commit log, and materializes it.
    Replay,
    /// It keeps the commit log, for this reason; the database can only be read.
    Keep(KeepReason),
}

/// Why a commit log is neither replayed nor removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepReason {
    /// It does not belong to the database as it is.
    Foreign,
    /// Somebody else may have written the data file since the log of deltas began.
    Written,
    /// Pages that its deltas change are neither as before nor as after them.
    Damaged,
    /// Another build of SQLite wrote it.
    OtherBuild,
    /// Another user may have made it for this program to run.
    Strangers,
    /// This version does not understand it.
    Unknown,
}

/// Decides what opening does with what it has found.
pub fn decide(facts: &Facts) -> RecoveryDecision {
    match facts {
        Facts::Tier(facts) => tier(facts),
        Facts::RedoLog(facts) => redo_log(facts),
        Facts::Beginning(BeginningFacts { commit_log: false, .. }) => RecoveryDecision::GoOn,
        Facts::Beginning(BeginningFacts { empty_database: true, .. }) => RecoveryDecision::SetAside,
        Facts::Beginning(_) => RecoveryDecision::LookInto,
        Facts::Deltas(facts) => deltas(facts),
        Facts::CommitLog(facts) => commit_log(facts),
    }
}

fn tier(facts: &TierFacts) -> RecoveryDecision {
    match (facts.option, facts.marked) {
        (false, false) => RecoveryDecision::GoOn,
        (false, true) => RecoveryDecision::NameTheTier,
        // The logs of another database: its device says so better, when it is opened.
        (true, false) if facts.anothers_device => RecoveryDecision::OpenTier,
        (true, _) if facts.misplaced_log => RecoveryDecision::RefuseOtherTime,
        (true, _) => RecoveryDecision::OpenTier,
    }
}

fn redo_log(facts: &RedoLogFacts) -> RecoveryDecision {
    if !facts.ours {
        RecoveryDecision::GoOn
    } else if facts.wal_mode && !facts.too_large || facts.hot_journal {
        RecoveryDecision::LeaveToSqlite
    } else {
        RecoveryDecision::CopyHome
    }
}

fn deltas(facts: &DeltaFacts) -> RecoveryDecision {
    match (facts.data_file, facts.pages) {
        (_, FoundPages::After) => RecoveryDecision::Remove,
        (FoundDataFile::Another, _) => RecoveryDecision::SetAside,
        (FoundDataFile::Changed, _) => RecoveryDecision::Keep(KeepReason::Written),
        (FoundDataFile::AsBegun, _) if facts.redo_log => RecoveryDecision::Keep(KeepReason::Written),
        (FoundDataFile::AsBegun, FoundPages::Others) => RecoveryDecision::Keep(KeepReason::Damaged),
        (FoundDataFile::AsBegun, FoundPages::Before) if facts.strangers => {
            RecoveryDecision::Keep(KeepReason::Strangers)
        }
        (FoundDataFile::AsBegun, FoundPages::Before) => RecoveryDecision::Apply,
    }
}

fn commit_log(facts: &CommitLogFacts) -> RecoveryDecision {
    match facts {
        CommitLogFacts { understood: false, .. } => RecoveryDecision::Keep(KeepReason::Unknown),
        CommitLogFacts { in_use: false, .. } => RecoveryDecision::Remove,
        CommitLogFacts { redo_log: FoundRedoLog::Materialized, .. } => RecoveryDecision::Remove,
        CommitLogFacts { redo_log: FoundRedoLog::Changed, .. } => RecoveryDecision::Keep(KeepReason::Foreign),
        CommitLogFacts { other_build: true, .. } => RecoveryDecision::Keep(KeepReason::OtherBuild),
        CommitLogFacts { strangers: true, .. } => RecoveryDecision::Keep(KeepReason::Strangers),
        CommitLogFacts { redo_log: FoundRedoLog::AsBuiltUpon, .. } => RecoveryDecision::Replay,
    }
}

/// A row of the case table.
pub struct Case {
    /// The facts, in words: a cell for each column of the step's table.
    pub found: &'static [&'static str],
    /// The events that leave these facts.
    pub meaning: &'static str,
    /// The decision, in words.
    pub action: &'static str,
    /// The facts.
    pub facts: Facts,
    /// The decision.
    pub decision: RecoveryDecision,
}

impl Case {
    /// The step that the case is of.
    pub fn step(&self) -> Step {
        match self.facts {
            Facts::Tier(_) => Step::Tier,
            Facts::RedoLog(_) => Step::RedoLog,
            Facts::Beginning(_) => Step::Beginning,
            Facts::Deltas(_) => Step::Deltas,
            Facts::CommitLog(_) => Step::CommitLog,
        }
    }
}

impl Step {
    /// All steps, in order.
    pub const ALL: [Step; 5] = [Step::Tier, Step::RedoLog, Step::Beginning, Step::Deltas, Step::CommitLog];

    /// The name of its table.
    pub fn name(self) -> &'static str {
        match self {
            Step::Tier => "recovery-tier",
            Step::RedoLog => "recovery-redo-log",
            Step::Beginning => "recovery-beginning",
            Step::Deltas => "recovery-deltas",
            Step::CommitLog => "recovery-commit-log",
        }
    }

    /// The heads of the columns with the facts.
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            Step::Tier => &["option `tier`", "file", "logs"],
            Step::RedoLog => &["redo log", "journal mode, hot journal"],
            Step::Beginning => &["commit log", "database file"],
            Step::Deltas => &["data file", "redo log", "pages that the deltas change"],
            Step::CommitLog => &["commit log", "redo log"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_decided_as_the_table_says() {
        for case in CASES {
            assert_eq!(decide(&case.facts), case.decision, "{:?}", case.found);
            assert_eq!(case.found.len(), case.step().columns().len(), "{:?}", case.found);
        }
    }

    #[test]
    fn no_two_cases_of_a_step_have_the_same_facts() {
        for (number, case) in CASES.iter().enumerate() {
            assert!(CASES[..number].iter().all(|other| other.facts != case.facts), "{:?}", case.found);
        }
        for step in Step::ALL {
            assert!(CASES.iter().any(|case| case.step() == step), "{step:?}");
        }
    }

    /// All commit logs that there can be.
    fn commit_logs() -> impl Iterator<Item = CommitLogFacts> {
        let found = [FoundRedoLog::AsBuiltUpon, FoundRedoLog::Materialized, FoundRedoLog::Changed];
        found.into_iter().flat_map(|redo_log| {
            (0..16).map(move |bits: u32| CommitLogFacts {
                understood: bits & 1 > 0,
                in_use: bits & 2 > 0,
                redo_log,
                other_build: bits & 4 > 0,
                strangers: bits & 8 > 0,
            })
        })
    }

    #[test]
    fn a_log_is_removed_only_where_nothing_waits_in_it() {
        for facts in commit_logs() {
            let removed = decide(&Facts::CommitLog(facts)) == RecoveryDecision::Remove;
            let nothing_waits = !facts.in_use || facts.redo_log == FoundRedoLog::Materialized;
            assert_eq!(removed, facts.understood && nothing_waits, "{facts:?}");
        }
    }

    #[test]
    fn deltas_are_applied_only_to_what_they_were_made_from_and_removed_only_where_their_pages_are() {
        use FoundDataFile::{Another, AsBegun, Changed};
        let files = [AsBegun, Changed, Another];
        for (data_file, bits) in files.into_iter().flat_map(|file| (0..4).map(move |bits| (file, bits))) {
            for pages in [FoundPages::Before, FoundPages::After, FoundPages::Others] {
                let facts = DeltaFacts { data_file, pages, redo_log: bits & 1 > 0, strangers: bits & 2 > 0 };
                let decision = decide(&Facts::Deltas(facts));
                assert_eq!(decision == RecoveryDecision::Apply, facts == DELTAS, "{facts:?}");
                assert_eq!(decision == RecoveryDecision::Remove, pages == FoundPages::After, "{facts:?}");
            }
        }
    }

    #[test]
    fn a_log_is_replayed_only_by_its_build_for_its_user_upon_what_it_builds_upon() {
        for facts in commit_logs() {
            let replayed = decide(&Facts::CommitLog(facts)) == RecoveryDecision::Replay;
            assert_eq!(replayed, facts == COMMIT_LOG, "{facts:?}");
        }
    }
}
