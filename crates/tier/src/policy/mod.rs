//! The policies: the choice of chunks for the tier. Policies are pure: told what happened, they answer what to do; they
//! read and write nothing.
//!
//! | file | holds |
//! |---|---|
//! | `small_float` | a number in 10 bits |
//! | `section` | the section table, 2 bytes a chunk |
//! | `chunk_table` | the sections with what keeps their use cheap: those that count, those on the tier |
//! | `decision` | expected writes, gain, the number of hot chunks |
//! | `hot` | the paper's policy: hot chunks by EWMA, moved when they are next written |
//! | `logged` | the same under a log: hot chunks by commits, moved by checkpoints |
//! | `lru` | a plain write cache |
//!
//! # When which
//! The paper's policy keeps a chunk out until it was hot for a period. So chunks written once (new rows, new index
//! entries all over the file) do not evict those written always. That is better where the tier is smaller than the
//! chunks written within some periods. A write cache takes every chunk at its second write, a period earlier. That is a
//! little better where all of them fit (`litefoot bench psqlite`: 64 chunks against 256).
//!
//! The paper's policy counts the syncs of the file: each ends a transaction. Under a log they are checkpoints. There the
//! policy is told of commits ([`Transactions::Told`]).
//!
//! # What callers do
//! [`Policy::write`] for every chunk written. If the answer is [`Advice::Move`] and there is no room, move the
//! [`Policy::victim`] home and say [`Policy::left`]. Then move the chunk and say [`Policy::arrived`]. At the end of a
//! transaction, and of a checkpoint, [`Policy::end_transaction`]. Of commits that go to a log, [`Policy::note_commit`] tells. Chunk 0 is never a victim: it is away while any other is.

mod chunk_table;
mod decision;
mod hot;
mod logged;
mod lru;
mod section;
mod small_float;

pub use decision::{Candidate, Latencies, Room, alpha, expected, hot_chunks, pays_to_replace};
pub use hot::{HotChunks, Period};
pub use logged::{LoggedChunks, PERIODS};
pub use lru::Lru;
pub use section::{MOST_WRITES, Place, Section, SectionTable};
pub use small_float::SmallFloat;

/// The kind of policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyKind {
    /// Hot chunks by their expected writes.
    #[default]
    Ewma,
    /// Chunks written last.
    Lru,
    /// None but the first, which is away while anything is.
    None,
}

/// The end of a write transaction, as the policy learns of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transactions {
    /// Each sync of the file ends one.
    #[default]
    Synced,
    /// The caller tells of commits in a log; a sync of the file ends a checkpoint.
    Told,
}

/// The advice for a chunk that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Leave it where it is.
    Stay,
    /// Move it to the tier.
    Move,
}

/// A policy with its state.
#[derive(Clone, Debug)]
pub enum Policy {
    /// The paper's.
    Ewma(HotChunks),
    /// The same under a log.
    Logged(LoggedChunks),
    /// A write cache.
    Lru(Lru),
    /// No chunk moves by itself.
    None,
}

impl Policy {
    /// A policy for a tier of `capacity` chunks.
    pub fn new(
        (kind, transactions): (PolicyKind, Transactions),
        capacity: usize,
        period: Period,
        latencies: Latencies,
    ) -> Policy {
        match (kind, transactions) {
            (PolicyKind::Ewma, Transactions::Synced) => {
                Policy::Ewma(HotChunks::new(capacity, period, latencies))
            }
            (PolicyKind::Ewma, Transactions::Told) => Policy::Logged(LoggedChunks::new(capacity, latencies)),
            (PolicyKind::Lru, _) => Policy::Lru(Lru::new()),
            (PolicyKind::None, _) => Policy::None,
        }
    }

    /// A chunk is written.
    pub fn write(&mut self, chunk: u32) -> Advice {
        match self {
            Policy::Ewma(hot) => hot.write(chunk),
            Policy::Logged(logged) => logged.write(chunk),
            Policy::Lru(lru) => lru.write(chunk),
            Policy::None => Advice::Stay,
        }
    }

    /// The chunk of the tier that should go home first.
    pub fn victim(&self) -> Option<u32> {
        match self {
            Policy::Ewma(hot) => hot.victim(),
            Policy::Logged(logged) => logged.victim(),
            Policy::Lru(lru) => lru.victim(),
            Policy::None => None,
        }
    }

    /// A chunk is on the tier now.
    pub fn arrived(&mut self, chunk: u32) {
        match self {
            Policy::Ewma(hot) => hot.arrived(chunk),
            Policy::Logged(logged) => logged.arrived(chunk),
            Policy::Lru(lru) => lru.arrived(chunk),
            Policy::None => {}
        }
    }

    /// A chunk is no longer on the tier.
    pub fn left(&mut self, chunk: u32) {
        match self {
            Policy::Ewma(hot) => hot.left(chunk),
            Policy::Logged(logged) => logged.left(chunk),
            Policy::Lru(lru) => lru.left(chunk),
            Policy::None => {}
        }
    }

    /// A commit that goes to a log has changed these chunks, in order. The answer to it comes with the checkpoint.
    pub fn note_commit(&mut self, chunks: impl Iterator<Item = u32>) {
        if let Policy::Logged(logged) = self {
            logged.note_commit(chunks);
        }
    }

    /// What was written has been synced: a transaction has ended, or a checkpoint.
    pub fn end_transaction(&mut self) {
        match self {
            Policy::Ewma(hot) => hot.end_transaction(),
            Policy::Logged(logged) => logged.end_checkpoint(),
            Policy::Lru(_) | Policy::None => {}
        }
    }

    /// The file was cut: there are no chunks from `first` on, and none of them is on the tier any more.
    pub fn cut(&mut self, first: u32) {
        match self {
            Policy::Ewma(hot) => hot.cut(first),
            Policy::Logged(logged) => logged.cut(first),
            Policy::Lru(_) | Policy::None => {}
        }
    }
}
