//! The case table of recovery.

use super::{
    BeginningFacts, Case, CommitLogFacts, DeltaFacts, Facts, FoundDataFile, FoundPages, FoundRedoLog,
    KeepReason, RecoveryDecision, RedoLogFacts, TierFacts,
};

const TIER: TierFacts =
    TierFacts { option: true, marked: false, anothers_device: false, misplaced_log: false };
const REDO_LOG: RedoLogFacts =
    RedoLogFacts { ours: true, wal_mode: false, too_large: false, hot_journal: false };
pub(super) const COMMIT_LOG: CommitLogFacts = CommitLogFacts {
    understood: true,
    in_use: true,
    redo_log: FoundRedoLog::AsBuiltUpon,
    other_build: false,
    strangers: false,
};
pub(super) const DELTAS: DeltaFacts = DeltaFacts {
    data_file: FoundDataFile::AsBegun,
    pages: FoundPages::Before,
    redo_log: false,
    strangers: false,
};
const KEEPS: &str = "keeps it; the database can only be read";

/// THE table of cases: all that opening may find, and what it does.
pub const CASES: &[Case] = &[
    Case {
        found: &["no", "plain", "any beside the database"],
        meaning: "no tier",
        action: "nothing",
        facts: Facts::Tier(TierFacts { option: false, ..TIER }),
        decision: RecoveryDecision::GoOn,
    },
    Case {
        found: &["no", "marked", "any"],
        meaning: "chunks of the file are away",
        action: "refuses, names the device",
        facts: Facts::Tier(TierFacts { option: false, marked: true, ..TIER }),
        decision: RecoveryDecision::NameTheTier,
    },
    Case {
        found: &["yes", "plain", "none beside the device; any beside the database"],
        meaning: "the first open with a tier, or one after everything came home",
        action: "takes the device; once the logs beside the database are done with, a commit marks the file",
        facts: Facts::Tier(TIER),
        decision: RecoveryDecision::OpenTier,
    },
    Case {
        found: &["yes", "plain", "a log beside the device, which holds chunks of another database"],
        meaning: "the option names another database's device",
        action: "leaves the refusal to the device, which names that database",
        facts: Facts::Tier(TierFacts { anothers_device: true, misplaced_log: true, ..TIER }),
        decision: RecoveryDecision::OpenTier,
    },
    Case {
        found: &["yes", "plain", "a log beside the device"],
        meaning: "the file was copied or restored without its log",
        action: "refuses: one is of another time",
        facts: Facts::Tier(TierFacts { misplaced_log: true, ..TIER }),
        decision: RecoveryDecision::RefuseOtherTime,
    },
    Case {
        found: &["yes", "marked", "any beside the device; none beside the database"],
        meaning: "chunks of the file are away",
        action: "finds the chunks; the logs beside the device are recovered",
        facts: Facts::Tier(TierFacts { marked: true, ..TIER }),
        decision: RecoveryDecision::OpenTier,
    },
    Case {
        found: &["yes", "marked", "a log or a hot journal beside the database"],
        meaning: "the log was copied or restored without its file",
        action: "refuses: one is of another time",
        facts: Facts::Tier(TierFacts { marked: true, misplaced_log: true, ..TIER }),
        decision: RecoveryDecision::RefuseOtherTime,
    },
    Case {
        found: &["none, or another database's, or in use by another program", "any"],
        meaning: "nothing of it is in question",
        action: "nothing; another database's log was set aside, or left alone, before",
        facts: Facts::RedoLog(RedoLogFacts { ours: false, ..REDO_LOG }),
        decision: RecoveryDecision::GoOn,
    },
    Case {
        found: &["this database's", "WAL mode"],
        meaning: "closed or crashed in WAL mode",
        action: "leaves it to SQLite, after the commit log",
        facts: Facts::RedoLog(RedoLogFacts { wal_mode: true, ..REDO_LOG }),
        decision: RecoveryDecision::LeaveToSqlite,
    },
    Case {
        found: &["this database's", "WAL mode, and the log is larger than it may be in memory"],
        meaning: "used by SQLite's own protocol, whose checkpoints had no time",
        action: "copies its pages to the database, syncs that, and removes the log, where no commit log builds upon it",
        facts: Facts::RedoLog(RedoLogFacts { wal_mode: true, too_large: true, ..REDO_LOG }),
        decision: RecoveryDecision::CopyHome,
    },
    Case {
        found: &["this database's", "rollback mode, a hot journal"],
        meaning: "crashed in a transaction by SQLite's own protocol, before which the log was emptied",
        action: "leaves it; SQLite rolls the journal back",
        facts: Facts::RedoLog(RedoLogFacts { hot_journal: true, ..REDO_LOG }),
        decision: RecoveryDecision::LeaveToSqlite,
    },
    Case {
        found: &["this database's", "rollback mode, none"],
        meaning: "crashed; the newest pages may be in the log only",
        action: "copies its pages to the database, syncs that, and removes the log",
        facts: Facts::RedoLog(REDO_LOG),
        decision: RecoveryDecision::CopyHome,
    },
    Case {
        found: &["none", "any"],
        meaning: "no transaction waits",
        action: "nothing",
        facts: Facts::Beginning(BeginningFacts { commit_log: false, empty_database: false }),
        decision: RecoveryDecision::GoOn,
    },
    Case {
        found: &["there", "empty or new"],
        meaning: "the log is of an earlier database of that name",
        action: "sets it aside, where something waits in it and no option names its place",
        facts: Facts::Beginning(BeginningFacts { commit_log: true, empty_database: true }),
        decision: RecoveryDecision::SetAside,
    },
    Case {
        found: &["there", "not empty"],
        meaning: "transactions may wait",
        action: "goes by the next table, before the first read",
        facts: Facts::Beginning(BeginningFacts { commit_log: true, empty_database: false }),
        decision: RecoveryDecision::LookInto,
    },
    Case {
        found: &["as when the log began", "no frame", "as before the first delta"],
        meaning: "crashed, perhaps behind stock SQLite that only read since; copied with its time of change",
        action: "applies the deltas, appends the pages to the redo log, removes the log",
        facts: Facts::Deltas(DELTAS),
        decision: RecoveryDecision::Apply,
    },
    Case {
        found: &["any", "any", "as after the last delta"],
        meaning: "crashed after a materialization, or during recovery; stock SQLite may have checkpointed since",
        action: "removes the log",
        facts: Facts::Deltas(DeltaFacts {
            data_file: FoundDataFile::Changed,
            pages: FoundPages::After,
            redo_log: true,
            ..DELTAS
        }),
        decision: RecoveryDecision::Remove,
    },
    Case {
        found: &["as when the log began", "no frame", "as before, and somebody else may write the log"],
        meaning: "perhaps made by somebody who may not write the database",
        action: KEEPS,
        facts: Facts::Deltas(DeltaFacts { strangers: true, ..DELTAS }),
        decision: RecoveryDecision::Keep(KeepReason::Strangers),
    },
    Case {
        found: &["as when the log began", "frames", "not as after the last delta"],
        meaning: "stock SQLite has written since, and was killed",
        action: KEEPS,
        facts: Facts::Deltas(DeltaFacts { redo_log: true, ..DELTAS }),
        decision: RecoveryDecision::Keep(KeepReason::Written),
    },
    Case {
        found: &["another length or time of change", "any", "not as after the last delta"],
        meaning: "another program has written the database since, or it was copied without its time of change",
        action: KEEPS,
        facts: Facts::Deltas(DeltaFacts { data_file: FoundDataFile::Changed, ..DELTAS }),
        decision: RecoveryDecision::Keep(KeepReason::Written),
    },
    Case {
        found: &["another file, beside the same log", "any", "not as after the last delta"],
        meaning: "a file was put in the place of the database",
        action: "sets the log aside",
        facts: Facts::Deltas(DeltaFacts { data_file: FoundDataFile::Another, ..DELTAS }),
        decision: RecoveryDecision::SetAside,
    },
    Case {
        found: &["as when the log began", "no frame", "neither as before nor as after"],
        meaning: "the data file or the log is damaged",
        action: KEEPS,
        facts: Facts::Deltas(DeltaFacts { pages: FoundPages::Others, ..DELTAS }),
        decision: RecoveryDecision::Keep(KeepReason::Damaged),
    },
    Case {
        found: &["none, retired, or without a whole transaction", "any"],
        meaning: "nothing waits",
        action: "removes it; SQLite recovers the redo log",
        facts: Facts::CommitLog(CommitLogFacts {
            in_use: false,
            redo_log: FoundRedoLog::Changed,
            ..COMMIT_LOG
        }),
        decision: RecoveryDecision::Remove,
    },
    Case {
        found: &["in use", "exactly what it builds upon"],
        meaning: "crashed before a materialization, or during one",
        action: "replays it, materializes it",
        facts: Facts::CommitLog(COMMIT_LOG),
        decision: RecoveryDecision::Replay,
    },
    Case {
        found: &["in use, by another build of SQLite", "exactly what it builds upon"],
        meaning: "the same, under another program",
        action: KEEPS,
        facts: Facts::CommitLog(CommitLogFacts { other_build: true, ..COMMIT_LOG }),
        decision: RecoveryDecision::Keep(KeepReason::OtherBuild),
    },
    Case {
        found: &[
            "in use, and somebody else owns it, or may write it who may not write the database",
            "exactly what it builds upon",
        ],
        meaning: "perhaps made for this program to run",
        action: KEEPS,
        facts: Facts::CommitLog(CommitLogFacts { strangers: true, ..COMMIT_LOG }),
        decision: RecoveryDecision::Keep(KeepReason::Strangers),
    },
    Case {
        found: &["in use, with a materialization announced", "begins with the announced frames"],
        meaning: "crashed after the materialization",
        action: "removes it",
        facts: Facts::CommitLog(CommitLogFacts { redo_log: FoundRedoLog::Materialized, ..COMMIT_LOG }),
        decision: RecoveryDecision::Remove,
    },
    Case {
        found: &["in use", "anything else"],
        meaning: "somebody else changed the database",
        action: KEEPS,
        facts: Facts::CommitLog(CommitLogFacts { redo_log: FoundRedoLog::Changed, ..COMMIT_LOG }),
        decision: RecoveryDecision::Keep(KeepReason::Foreign),
    },
    Case {
        found: &["not understood", "any"],
        meaning: "of another version, damaged, or no commit log",
        action: KEEPS,
        facts: Facts::CommitLog(CommitLogFacts { understood: false, ..COMMIT_LOG }),
        decision: RecoveryDecision::Keep(KeepReason::Unknown),
    },
];
