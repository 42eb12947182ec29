//! A writer whose turn it is finds commits whose sync takes long, and stands aside for it (`sync/writer_queue/aside`).
//!
//! # Why
//! `BEGIN IMMEDIATE` shows what it reads, so that the commits before it must be durable. Where it waits for that with its turn, nobody commits
//! meanwhile, and the sync makes one commit durable instead of many. Where a sync is over sooner than a commit of another process, it waits there.
//!
//! # Invariants
//! 1. Who stands aside has no lock and no turn. It is the first behind the sync.
//! 2. One that was refused before stands where it was first refused. Its wait is bounded, and comes in the call: no attempt of SQLite's busy
//!    handler is used for it.

use crate::error::Result;
use crate::files::durable_reads::Shows;
use crate::files::main_db::MainFile;
use crate::sync::writer_queue::UNUSED_TURN;
use std::time::{Duration, Instant};

/// How long a transaction waits for its turn before it has read.
const TURN_WAIT: Duration = Duration::from_millis(5);
/// Syncs for which one stands aside, at most.
const MOST_ROUNDS: usize = 4;

impl MainFile {
    /// Waits for the turn of a statement that is going to write; `false` where it has none. `BEGIN IMMEDIATE` stands aside where `long` answers a
    /// commit whose sync takes long, until `settle` says that it is durable.
    pub(super) fn await_turn(
        &self,
        shows: Shows,
        is_long: bool,
        long: impl Fn() -> Option<u64>,
        settle: impl Fn(u64) -> Result<()>,
    ) -> Result<bool> {
        let queue = self.database.writer_queue();
        if is_long {
            queue.come(shows == Shows::Begun);
        }
        // One that was refused has waited while SQLite let it sleep.
        let wait = if self.refused.is_some() { Duration::ZERO } else { TURN_WAIT };
        if !queue.await_turn(self.id, Instant::now(), wait, UNUSED_TURN) {
            return Ok(false);
        }
        let since = self.waits_since();
        for _ in 0..MOST_ROUNDS {
            let Some(number) = long().filter(|_| shows == Shows::Begun) else { break };
            let _aside = queue.stand_aside(self.id, since);
            settle(number)?;
            if !queue.await_turn(self.id, since, TURN_WAIT, UNUSED_TURN) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// When the first attempt of its transaction was refused.
    fn waits_since(&self) -> Instant {
        self.refused.map_or_else(Instant::now, |attempts| attempts.first())
    }
}
