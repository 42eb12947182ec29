//! The measured stores and their settings, for the report and the page.

/// A store.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its name in figures.
    pub name: &'static str,
    /// The label that people read.
    pub label: &'static str,
    /// The setting that makes a commit durable, and other differences from the defaults.
    pub settings: &'static str,
}

const fn known(name: &'static str, label: &'static str, settings: &'static str) -> Known {
    Known { name, label, settings }
}

/// SQLite and litefoot, in this process; the names are those of `commit`'s sides.
pub const OURS: [Known; 4] = [
    known("delete_full", "SQLite, its defaults", "journal_mode=delete, synchronous=full"),
    known("wal_full", "SQLite, WAL, FULL", "journal_mode=wal, synchronous=full"),
    known("litefoot", "litefoot, WAL, FULL", "journal_mode=wal, synchronous=full, litefoot's defaults"),
    known(
        "litefoot_delete",
        "litefoot, DELETE, FULL",
        "journal_mode=delete, synchronous=full, litefoot's defaults",
    ),
];

/// The others, in `litefoot-peers`; a second tree stands for the index.
pub const OTHERS: [Known; 5] = [
    known(
        "redb",
        "redb",
        "Durability::Immediate: one fdatasync for each commit; one transaction over both tables",
    ),
    known(
        "lmdb",
        "LMDB",
        "by heed, no flag that weakens a sync: fdatasync, then the meta page through O_DSYNC; one transaction over both databases",
    ),
    known(
        "fjall",
        "fjall",
        "PersistMode::SyncData for each commit; one batch over both keyspaces; no compression",
    ),
    known(
        "rocksdb",
        "RocksDB",
        "WriteOptions::sync=true for each commit; one batch over both column families; no compression",
    ),
    known("libsql", "libSQL", "a local file, journal_mode=wal, synchronous=full"),
];
