//! The sections of the page, paper by paper; a new chart is an entry in one of these files and nothing else.
//!
//! Names of figures are those of the experiments' documentation. The numbers that the papers print were taken from
//! their text and tables; numbers that they only draw are not guessed.

mod apps;
mod atomic;
mod pcg;
mod peers;
mod psqlite;
mod read;
mod smile;
mod ssl;
mod stock;
mod sweep;

use super::chart::Section;

/// All sections, in the order of the page.
pub const ALL: &[Section] = &[
    stock::SECTION,
    sweep::SECTION,
    apps::SECTION,
    peers::SECTION,
    read::SECTION,
    smile::SECTION,
    ssl::SECTION,
    atomic::SECTION,
    pcg::SECTION,
    psqlite::SECTION,
];

/// Headline numbers at the top of the page: experiment, figure, unit, meaning.
pub const HEADLINES: &[(&str, &str, &str, &str)] = &[
    (
        "commit",
        "ratio.litefoot_over_delete_full",
        " ×",
        "small durable transactions, against SQLite's defaults",
    ),
    ("commit", "ratio.litefoot_over_wal_full", " ×", "the same, against SQLite in WAL mode"),
    ("commit", "bytes_per_txn.litefoot", " B", "written to the device for a transaction"),
    ("atomic", "ratio.litefoot_over_delete_full", " ×", "rollback journals, against SQLite with DELETE"),
    ("group", "ratio.litefoot_over_wal_full", " ×", "four threads that write, against SQLite in WAL mode"),
    ("sweep", "worst.rate", " ×", "the slowest size of transaction, against SQLite in the same journal mode"),
    ("crash", "cuts", "", "power cuts simulated"),
    ("crash", "lost", "", "of them lost or tore a transaction"),
    ("crash", "corrupt", "", "of them left a database that is not valid"),
];
