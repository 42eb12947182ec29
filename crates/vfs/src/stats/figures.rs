//! The figures of a database: each has its name, kind and meaning in one list.
//!
//! Counters only grow, and in practice never wrap. They are relaxed: each is exact, but two of them read together may
//! belong to slightly different moments. A gauge holds the value of its last change.

use crate::stats::fallback::FallbackCause;
use litefoot_storage::file::FileKind;
use std::sync::atomic::{AtomicU64, Ordering};

/// The kind of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// It only grows while the database is open.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// The struct of all figures, and the table of their names, from one list.
macro_rules! figures {
    ($($(#[doc = $help:literal])+ $field:ident $(as $shown:literal)?: $kind:ident,)*) => {
        /// The figures, and nothing else: they are also seen as one slice.
        #[derive(Debug, Default)]
        #[repr(C)]
        pub(crate) struct Stats {
            $($(#[doc = $help])+ pub $field: AtomicU64,)*
            /// Writes and syncs, by kind of file.
            files: [Written; FileKind::ALL.len()],
            /// Fallbacks from statements to pages, by cause.
            fallbacks: [AtomicU64; FallbackCause::ALL.len()],
        }

        /// Name, kind and meaning of those that have a field of their own, in its order.
        const OWN: &[(&str, FigureKind, &str)] =
            &[$((figures!(@name $field $($shown)?), FigureKind::$kind, concat!($($help),+))),*];
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $shown:literal) => { $shown };
}

figures! {
    /// Commits that wrote deltas of their pages.
    commits_deltas: Counter,
    /// Commits whose deltas fit into one block.
    commits_one_block: Counter,
    /// Commits that wrote statements.
    commits_statements: Counter,
    /// Commits that wrote pages.
    commits_pages: Counter,
    /// Commits of one page, written in place; they count as commits of pages, too.
    commits_in_place: Counter,
    /// Commits, or readers, that waited for a checkpoint in the background.
    checkpoint_waits: Counter,
    /// Changes between owned and multi-process, in both directions.
    sharing_changes: Counter,
    /// When the database was last shared with other processes, in milliseconds since 1970; 0 while it is not.
    shared_since_ms: Gauge,
    /// The process because of which it was last shared; 0 where that is not known.
    shared_because_pid: Gauge,
    /// 1 if it is multi-process until it is closed, since the system grants no lease on the file.
    lease_refused: Gauge,
    /// Milliseconds in the multi-process state; the present ones are added when it ends.
    shared_ms: Counter,
    /// Connections of other processes that this process serves, as the owner of a group.
    members: Gauge,
    /// Calls of these connections that were answered.
    member_calls: Counter,
    /// Connections that wait for their turn to write, those of other processes included.
    writers_waiting: Gauge,
    /// Directories that were synced.
    directory_syncs: Counter,
    /// Bytes of the commit log that are in use.
    commit_log_bytes: Gauge,
    /// Most bytes of the commit log; option commit_log_size.
    commit_log_limit_bytes: Gauge,
    /// Bytes of the redo log of rollback-journal transactions.
    redo_log_bytes: Gauge,
    /// Bytes at which the redo log is written to the database file; option max_wal_size.
    redo_log_limit_bytes: Gauge,
    /// Bytes of SQLite's write-ahead log.
    wal_bytes: Gauge,
    /// Most bytes of SQLite's write-ahead log in memory; option write_buffer_size.
    wal_limit_bytes: Gauge,
    /// Bytes of dirty pages of transactions, in memory.
    txn_dirty_bytes: Gauge,
    /// Spills: batches of a transaction's pages that were written before its commit.
    spills: Counter,
    /// Bytes of pages that spills wrote.
    spilled_bytes: Counter,
    /// Waits of a transaction for a spill.
    spill_waits: Counter,
    /// Microseconds that transactions waited for spills.
    spill_wait_us: Counter,
    /// Requests for a page that found it in the pool.
    pool_hits as "pool.hits": Counter,
    /// Pages that had to be read, and waited for.
    pool_misses as "pool.misses": Counter,
    /// Pages that were evicted.
    pool_evictions as "pool.evictions": Counter,
    /// Pages read ahead.
    pool_prefetched as "pool.prefetched": Counter,
    /// Pages read ahead that were requested later.
    pool_prefetched_used as "pool.prefetched_used": Counter,
    /// Pages in memory that SQLite has pinned.
    pool_pinned as "pool.pinned": Gauge,
    /// Bytes of memory for pages.
    pool_bytes as "pool.bytes": Gauge,
    /// Most bytes of memory for pages; option buffer_pool_size.
    pool_limit_bytes as "pool.limit_bytes": Gauge,
    /// Bytes of memory that all databases of the process have for pages and what shares it with them.
    pool_process_bytes as "pool.process_bytes": Gauge,
    /// 1 where pages are read past the system's cache; option direct_io.
    pool_direct as "pool.direct": Gauge,
    /// Slots of the tier device; option tier_size.
    tier_slots as "tier.slots": Gauge,
    /// Chunks of the database that live on the tier device.
    tier_away as "tier.away": Gauge,
    /// Chunks moved to the tier device.
    tier_moved_in as "tier.moved_in": Counter,
    /// Chunks moved from the tier device to the database file.
    tier_moved_home as "tier.moved_home": Counter,
    /// Chunks that changed slots to spread wear.
    tier_changed_slot as "tier.changed_slot": Counter,
    /// Times that all chunks were moved to the database file.
    tier_drains as "tier.drains": Counter,
    /// Writes of the slot that was written least, since the device was made.
    tier_least_slot_writes as "tier.slot_writes_min": Gauge,
    /// Writes of the slot in the middle.
    tier_median_slot_writes as "tier.slot_writes_median": Gauge,
    /// Writes of the slot that was written most.
    tier_most_slot_writes as "tier.slot_writes_max": Gauge,
}

/// Writes and syncs of files of one kind.
#[derive(Debug, Default)]
#[repr(C)]
struct Written {
    writes: AtomicU64,
    bytes: AtomicU64,
    block_bytes: AtomicU64,
    syncs: AtomicU64,
}

/// The names of the fields of [`Written`], behind the kind of file, and their meanings.
const WRITTEN: [(&str, &str); 4] = [
    ("writes", "Writes to files of this kind."),
    ("written_bytes", "Bytes written to files of this kind."),
    ("block_bytes", "Bytes of the 4 KiB blocks that these writes touched, each write by itself."),
    ("syncs", "Syncs of files of this kind, durable writes among them."),
];

/// Bytes of a block of a file system.
const BLOCK_BYTES: u64 = 4096;

const FALLBACK: &str = "Commits that wrote pages although statements are allowed, for this cause.";

/// The number of figures.
pub(super) const COUNT: usize = size_of::<Stats>() / size_of::<AtomicU64>();
const _: () = assert!(COUNT == OWN.len() + FileKind::ALL.len() * WRITTEN.len() + FallbackCause::ALL.len());

/// Name, kind and meaning of each figure, in the order of their values.
pub fn figures() -> impl Iterator<Item = (String, FigureKind, &'static str)> {
    let own = OWN.iter().map(|(name, kind, help)| ((*name).to_owned(), *kind, help.trim()));
    let written = FileKind::ALL.iter().flat_map(|file| {
        WRITTEN.iter().map(|(name, help)| (format!("{}_{name}", file.name()), FigureKind::Counter, *help))
    });
    let fallbacks = FallbackCause::ALL
        .iter()
        .map(|(_, name, _)| (format!("fallback.{name}"), FigureKind::Counter, FALLBACK));
    own.chain(written).chain(fallbacks)
}

/// A row of the documentation's table of figures: figures of files and of causes are one row for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The name in `litefoot_stats`.
    pub name: String,
    /// The kind: counter or gauge.
    pub kind: FigureKind,
    /// The meaning, a sentence.
    pub meaning: &'static str,
}

/// The documentation's table of figures (`docs/metrics.md`, by `cargo xtask docs`).
pub fn described() -> impl Iterator<Item = Described> {
    let own = OWN.iter().map(|(name, kind, help)| ((*name).to_owned(), *kind, help.trim()));
    let written = WRITTEN.iter().map(|(name, help)| (format!("FILE_{name}"), FigureKind::Counter, *help));
    let fallback = [("fallback.CAUSE".to_owned(), FigureKind::Counter, FALLBACK)];
    let rows = own.chain(written).chain(fallback);
    rows.map(|(name, kind, meaning)| Described { name, kind, meaning })
}

/// Name and meaning of each cause for which a commit writes pages although statements are allowed.
pub fn described_causes() -> impl Iterator<Item = (&'static str, &'static str)> {
    FallbackCause::ALL.iter().map(|(_, name, meaning)| (*name, meaning.trim()))
}

impl Stats {
    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// Sets a gauge.
    pub fn set(gauge: &AtomicU64, value: u64) {
        gauge.store(value, Ordering::Relaxed);
    }

    /// Counts a commit that was written as pages.
    pub fn add_fallback(&self, cause: FallbackCause) {
        Stats::add(&self.fallbacks[cause as usize], 1);
    }

    /// Counts a write.
    pub fn add_write(&self, kind: FileKind, offset: u64, bytes: u64) {
        let file = &self.files[kind as usize];
        Stats::add(&file.writes, 1);
        Stats::add(&file.bytes, bytes);
        if bytes > 0 {
            let blocks = (offset + bytes).div_ceil(BLOCK_BYTES) - offset / BLOCK_BYTES;
            Stats::add(&file.block_bytes, blocks * BLOCK_BYTES);
        }
    }

    /// Counts a sync.
    pub fn add_sync(&self, kind: FileKind) {
        Stats::add(&self.files[kind as usize].syncs, 1);
    }

    /// All figures, one behind the other.
    fn values(&self) -> &[AtomicU64] {
        // SAFETY: `Stats` is `repr(C)` and has fields of `AtomicU64` only, so it is `COUNT` of them without gaps.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast::<AtomicU64>(), COUNT) }
    }

    /// Name and value of each figure. Files other than the database and causes are left out that never came up:
    /// they would only hide the others.
    pub fn rows(&self) -> Vec<(String, i64)> {
        const ALWAYS: usize = OWN.len() + WRITTEN.len();
        let values = self.values().iter().map(|value| value.load(Ordering::Relaxed));
        let rows =
            figures().zip(values).enumerate().filter(|(place, (_, value))| *place < ALWAYS || *value > 0);
        rows.map(|(_, ((name, _, _), value))| (name, i64::try_from(value).unwrap_or(i64::MAX))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(stats: &Stats) -> Vec<(String, i64)> {
        stats.rows().into_iter().filter(|(_, value)| *value != 0).collect()
    }

    #[test]
    fn names_and_values_are_in_the_same_order() {
        let stats = Stats::default();
        Stats::add(&stats.commits_statements, 1);
        Stats::set(&stats.txn_dirty_bytes, 2);
        Stats::add(&stats.files[0].writes, 3);
        Stats::add(&stats.files[FileKind::Tier as usize].syncs, 4);
        stats.add_fallback(FallbackCause::Untracked);
        stats.add_fallback(FallbackCause::Unavailable);
        let expected = [
            ("commits_statements", 1),
            ("txn_dirty_bytes", 2),
            ("database_writes", 3),
            ("tier_syncs", 4),
            ("fallback.untracked", 1),
            ("fallback.unavailable", 1),
        ];
        assert_eq!(rows(&stats), expected.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn names_are_unique_and_every_figure_is_explained() {
        let names: std::collections::HashSet<String> = figures().map(|(name, _, _)| name).collect();
        assert_eq!(names.len(), COUNT);
        for (name, _, help) in figures() {
            assert!(help.ends_with('.') && help.len() > 10, "{name}: {help}");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || b"_.0123456789".contains(&byte)));
        }
    }

    #[test]
    fn blocks_are_those_that_a_write_touches() {
        for (offset, bytes, blocks) in
            [(0, 0, 0), (0, 1, 1), (0, 4096, 1), (4095, 2, 2), (4096, 4097, 2), (100, 3 * 4096, 4)]
        {
            let stats = Stats::default();
            stats.add_write(FileKind::RedoLog, offset, bytes);
            let written = &stats.files[FileKind::RedoLog as usize];
            assert_eq!(written.block_bytes.load(Ordering::Relaxed), blocks * BLOCK_BYTES, "{offset} {bytes}");
            assert_eq!(written.bytes.load(Ordering::Relaxed), bytes);
        }
    }
}
