//! SQLite's automatic checkpoints, which are left to the checkpointer.
//!
//! # Why
//! Each connection checkpoints in the application's thread once the log has 1,000 frames (`wal_autocheckpoint`), although
//! the log in memory, and the logs on the medium, have room for many more commits. `open/checkpointer.rs` does it when it
//! pays, beside the application. Nothing of litefoot's may run on the application's connection, so the default stays
//! set, and such a checkpoint is told that another one is in its way.
//!
//! # How
//! A checkpoint is taken for an automatic one if it comes right behind the connection's own commit, at 1,000 frames or
//! more, and nothing says that the application wants it. `PRAGMA wal_checkpoint` and `PRAGMA wal_autocheckpoint` say so,
//! and so do the lock on the database file of a close, and the writers' slot of FULL, RESTART and TRUNCATE.
//! - The first ones go as far as the exclusive lock of read slot 0. SQLite answers OK, and has copied nothing.
//! - A connection that does so after each commit has SQLite's default hook. From then on the checkpointer's slot is
//!   refused, before SQLite sorts the log. The hook ignores that answer. A checkpoint that the application asks for
//!   comes behind the hook's, and is let through.
//!
//! # Invariants
//! 1. Of two checkpoints in a row at most the first is refused.
//! 2. A commit at 1,000 frames or more without a checkpoint behind it ends the habit.

/// Frames at which SQLite checkpoints, unless told otherwise (`SQLITE_DEFAULT_WAL_AUTOCHECKPOINT`).
const DEFAULT_FRAMES: usize = 1000;
/// Commits in a row with a checkpoint behind each that show SQLite's default hook.
const HABIT: u8 = 3;

/// What is known of a connection's checkpoints.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AutoCheckpoint {
    /// The application has set an interval.
    has_interval: bool,
    /// The application has asked for the next checkpoint.
    is_asked_for: bool,
    /// The connection has committed, at `DEFAULT_FRAMES` or more, and has taken no slot since.
    has_committed: bool,
    /// The checkpoint under way is taken for an automatic one.
    is_automatic: bool,
    /// Commits in a row that had an automatic checkpoint behind them.
    habit: u8,
}

impl AutoCheckpoint {
    /// A PRAGMA of SQLite's is compiled.
    pub fn note_pragma(&mut self, name: &str, value: Option<&str>) {
        self.has_interval |= value.is_some() && name.eq_ignore_ascii_case("wal_autocheckpoint");
        self.is_asked_for |= name.eq_ignore_ascii_case("wal_checkpoint");
    }

    /// The connection has committed; the log has so many frames.
    pub fn committed(&mut self, frames: usize) {
        self.has_committed = frames >= DEFAULT_FRAMES;
    }

    /// The connection begins something else.
    #[inline]
    pub fn begins_otherwise(&mut self) {
        if self.has_committed {
            (self.has_committed, self.habit) = (false, 0);
        }
    }

    /// A checkpoint wants its slot; answers `false` where it is refused. `may_wait` says that the checkpointer can do it
    /// later.
    pub fn begins(&mut self, may_wait: impl FnOnce() -> bool) -> bool {
        let is_behind_commit = std::mem::take(&mut self.has_committed);
        self.is_automatic = is_behind_commit && !self.has_interval && !self.is_asked_for && may_wait();
        !self.is_automatic || self.habit < HABIT
    }

    /// The checkpoint wants read slot 0; answers `false` where it is refused. `stops_writers` says that it has their slot.
    pub fn copies(&mut self, stops_writers: bool) -> bool {
        let is_automatic = std::mem::take(&mut self.is_automatic) && !stops_writers;
        self.habit = if is_automatic { self.habit + 1 } else { 0 };
        !is_automatic
    }

    /// The checkpoint is over.
    pub fn ends(&mut self) {
        (self.is_asked_for, self.is_automatic) = (false, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Act {
        /// At so many frames.
        Commit(usize),
        Read,
        Pragma(&'static str, Option<&'static str>),
        /// A checkpoint: whether it may wait, whether it stops writers, and how far it is to come: `None` for not at all,
        /// else whether it copies.
        Checkpoint(bool, bool, Option<bool>),
    }
    use Act::*;

    const DEFERRED: Act = Checkpoint(true, false, Some(false));
    const REFUSED: Act = Checkpoint(true, false, None);
    const DONE: Act = Checkpoint(true, false, Some(true));
    const STOPS_WRITERS: Act = Checkpoint(true, true, Some(true));
    const AT_CLOSE: Act = Checkpoint(false, false, Some(true));

    #[test]
    fn only_the_checkpoint_behind_a_commit_is_left_to_the_checkpointer() {
        let (small, large) = (Commit(999), Commit(1000));
        let asked = Pragma("wal_checkpoint", None);
        let interval = Pragma("WAL_AutoCheckpoint", Some("2000"));
        let cases: &[(&[Act], &str)] = &[
            (&[DONE], "nothing was committed"),
            (&[small, DONE], "few frames: an interval of the application's"),
            (&[large, DEFERRED], "an automatic one"),
            (&[large, DEFERRED, DONE], "a call right behind it"),
            (&[large, Read, DONE], "a call later on"),
            (&[large, asked, DONE], "a PRAGMA"),
            (
                &[large, asked, Read, DONE, large, DEFERRED],
                "a PRAGMA that reads the schema, and the next commit",
            ),
            (&[interval, large, DONE, large, DONE], "an interval"),
            (&[Pragma("wal_autocheckpoint", None), large, DEFERRED], "the interval is asked for"),
            (&[large, STOPS_WRITERS], "a call that stops writers"),
            (&[large, AT_CLOSE], "a close"),
            (
                &[
                    large, DEFERRED, Read, large, DEFERRED, large, DEFERRED, Read, large, REFUSED, large,
                    REFUSED,
                ],
                "a habit",
            ),
            (
                &[
                    large,
                    DEFERRED,
                    large,
                    DEFERRED,
                    large,
                    DEFERRED,
                    large,
                    REFUSED,
                    STOPS_WRITERS,
                    large,
                    DEFERRED,
                ],
                "a call behind the hook's",
            ),
            (
                &[large, DEFERRED, large, DEFERRED, large, DEFERRED, large, REFUSED, DONE],
                "a passive call behind the hook's",
            ),
            (
                &[
                    large, DEFERRED, large, DEFERRED, large, DEFERRED, large, REFUSED, large, Read, large,
                    DEFERRED,
                ],
                "a hook that is gone",
            ),
            (
                &[large, DEFERRED, large, STOPS_WRITERS, large, DEFERRED, large, DEFERRED, large, DEFERRED],
                "no habit",
            ),
        ];
        for (acts, what) in cases {
            let mut state = AutoCheckpoint::default();
            for (index, act) in acts.iter().enumerate() {
                match *act {
                    Commit(frames) => {
                        state.begins_otherwise();
                        state.committed(frames);
                    }
                    Read => state.begins_otherwise(),
                    Pragma(name, value) => state.note_pragma(name, value),
                    Checkpoint(may_wait, stops_writers, expected) => {
                        let copies = state.begins(|| may_wait).then(|| state.copies(stops_writers));
                        state.ends();
                        assert_eq!(copies, expected, "{what}: step {index}");
                    }
                }
            }
        }
    }
}
