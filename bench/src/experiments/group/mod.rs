//! `group`: several threads that write one database.
//!
//! # Four threads
//! [`four`] describes them: inserts and longer transactions by turns, fairness, syncs. Their figures end in the side alone.
//!
//! # One to 64 threads
//! Each thread commits one row and its index entry at a time, durably, through a connection of its own, as fast as it
//! can. SQLite in WAL mode at FULL, litefoot, the *floor* (one thread that writes 300 bytes in place and syncs them), and
//! redb, RocksDB and fjall where `litefoot-peers` was built with them, take turns.
//!
//! # Fixed rates of arrivals
//! Four threads commit at a fixed rate; latencies count from when each commit was due ([`load`]). The rates are half and
//! four fifths of what four threads of the side made as fast as they could, and half of what SQLite's made.
//!
//! Commits a second are those that returned within the round's time.
//!
//! After each round every acknowledged commit must be there.
//!
//! # Figures
//! `LOAD` is `threads_N`, or `arrivals_half_of_own`, `arrivals_most_of_own`, `arrivals_half_of_sqlite`; `N` is 1, 2, 4, 8, 16, 32 or
//! 64, of the short form 1, 4 or 16. The last part is the side: `wal_full`, `litefoot`, `litefoot_statements` of the four threads, `floor`, a store's name.
//!
//! | name | meaning |
//! |---|---|
//! | `txn_per_s.SIDE` | durable transactions a second, all four threads together; median of the rounds |
//! | `p50_us.SIDE`, `p99_us.SIDE`, `p999_us.SIDE` | latency of a transaction, waiting for the lock included; median |
//! | `worst_p999_us.SIDE` | the same as the thread sees it that is served worst; median |
//! | `least_share.SIDE` | transactions of the thread that made fewest, over the mean; median |
//! | `syncs_per_txn.SIDE` | syncs of a transaction, closing included, on a counting medium |
//! | `ratio.SIDE_over_wal_full` | `txn_per_s` of a side of litefoot's; median of the rounds |
//! | `ratio.p999_wal_full_over_litefoot` | `worst_p999_us`; median of the rounds |
//! | `ratio.pooled_p999_wal_full_over_litefoot` | `p999_us`; median of the rounds |
//! | `txn_per_s.LOAD.SIDE` | durable commits a second, all threads together; median of the rounds |
//! | `p50_us.LOAD.SIDE`, `p99_us.LOAD.SIDE`, `p999_us.LOAD.SIDE` | latency of a commit; median |
//! | `ratio.litefoot_over_SIDE.threads_N` | `txn_per_s` of litefoot over that of a side; median of the rounds |
//! | `ratio.litefoot_over_best_peer.threads_N` | the same over the fastest store of each round |
//! | `ratio.p50_over_floor.threads_N` | `p50_us` of litefoot over that of the floor; median of the rounds |
//!
//! Why the thread that is served worst: with stock SQLite one thread makes nearly all transactions while the others
//! sleep and try again. Of all transactions together theirs are too few to show in a percentile, however long they
//! take. The more a thread starves, the better the pooled figure looks (*coordinated omission*).

mod four;
pub(crate) mod load;
mod side;
#[cfg(test)]
mod tests;
mod threads;

use super::commit::side::{Kind, LITEFOOT, Side, WAL_FULL, settings};
use super::commit::{values, work_directory};
use super::peers::program::Program;
use super::peers::round;
use crate::Result;
use crate::harness::Progress;
use crate::options::Options;
use crate::report::Figures;
use side::Loaded;
use std::time::Duration;

const SIDES: [Side; 3] = [
    Side { name: WAL_FULL, kind: Kind::Stock(settings("wal", "full")) },
    Side { name: LITEFOOT, kind: Kind::Litefoot(settings("wal", "full")) },
    Side { name: "litefoot_statements", kind: Kind::Statements(settings("wal", "full")) },
];

/// Threads of the mixed load, and of fixed rates.
const WRITERS: usize = 4;
/// The busy timeout that drivers commonly set.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let directory = work_directory(&options.directory)?;
    let mut figures = four::run(options.quick, directory.path(), progress)?;
    let program = Program::find();
    let mut sides = vec![Loaded::Floor, Loaded::Sqlite(&SIDES[0]), Loaded::Sqlite(&SIDES[1])];
    match &program {
        Ok(program) => sides.extend(program.concurrent().map(|name| Loaded::Peer(program, name))),
        Err(why) => figures.note(format!("without redb, RocksDB and fjall: {why}")),
    }
    let extent = threads::Extent::new(options.quick, options.seed);
    threads::run(&sides, extent, directory.path(), &mut figures, progress)?;
    Ok(figures)
}
