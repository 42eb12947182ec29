//! PCG: figures 5, 7, 8 and 9 of the paper.

use crate::page::chart::{Chart, PLAIN, Point, Question, Section, Shape, beside, point, printed, run};

const MODES: &[Point] = &[
    point("delete", "DELETE"),
    point("truncate", "TRUNCATE"),
    point("persist", "PERSIST"),
    point("wal", "WAL"),
];

const THRESHOLDS: &[Point] = &[
    point("stock", "SQLite"),
    point("20", "0.2"),
    point("40", "0.4"),
    point("60", "0.6"),
    point("80", "0.8"),
    point("100", "1.0"),
];

const LENGTHS: &[Point] = &[
    point("4k", "4"),
    point("8k", "8"),
    point("16k", "16"),
    point("32k", "32"),
    point("64k", "64"),
    point("128k", "128"),
    point("256k", "256"),
    point("512k", "512"),
];

const SHARES: &[Point] = &[
    point("p10", "10 %"),
    point("p25", "25 %"),
    point("p50", "50 %"),
    point("p75", "75 %"),
    point("p90", "90 %"),
    point("p95", "95 %"),
    point("p99", "99 %"),
    point("p100", "all"),
];

const SIZES: &[Point] = &[
    point("10k", "10 KB"),
    point("1m", "1 MB"),
    point("5m", "5 MB"),
    point("10m", "10 MB"),
    point("100m", "100 MB"),
];

const PCG: Chart = Chart { experiment: "pcg", points: MODES, unit: "MB/s", ..PLAIN };

/// The paper's patched SQLite is not public.
const OTHER_SIDE: Question = Question::Near(
    "the paper's sides are builds of SQLite with its cleaning; here litefoot's own cleaning stands in their place, beneath a \
     SQLite without a change",
);
const SCALED: Question = Question::Near(
    "the paper has 400 KB and transactions of 1 MB; litefoot's pool has at least 1 MiB, so all sides have 2 MiB and \
     transactions of 5 MB, the same two and a half times the memory. Litefoot's cleaning stands in the place of the paper's",
);

pub const SECTION: Section = Section {
    id: "pcg",
    title: "PCG: transactions larger than the cache",
    source: "E. Lee, Taming Performance Variability of Healthcare Data Service Frameworks with Proactive and Coarse-Grained Memory \
        Cleaning, 2019",
    about: "A table with a text key of 8 characters, a text of 100 and an integer; rows in random order of their keys. All sides but \
        SQLite-INF, whose cache is unbounded, have the same memory: SQLite as its page cache, litefoot as its pool and a page cache of \
        400 KB. In a short run the transactions are smaller than their names.",
    terms: &[],
    experiments: &["pcg"],
    charts: &[
        Chart {
            id: "pcg-granularity",
            title: "A file written by requests of one length",
            redraws: "Figure 5",
            shape: Shape::Lines,
            unit: "time over that by 512 KiB",
            even: true,
            points: LENGTHS,
            series: &[
                run("past the system's cache", "ratio.write_over_512k.direct.{}"),
                run("through it, synced at the end", "ratio.write_over_512k.cached.{}"),
            ],
            printed: &[
                beside(
                    "by 4 KiB (past the cache, through it)",
                    "3.5 × the time",
                    &["ratio.write_over_512k.direct.4k", "ratio.write_over_512k.cached.4k"],
                ),
                printed("no more gain from", "256 KiB"),
            ],
            question: Question::Near(
                "128 MiB of a file that is there, where the paper writes 4 GB; it does not say past which cache",
            ),
            differs: "a device behind a network or a hypervisor takes longer for each request than an SSD, so small ones cost more; \
                through the cache the system makes large requests of small ones.",
            ..PCG
        },
        Chart {
            id: "pcg-10k",
            title: "Transactions of 10 KB",
            redraws: "Figure 7",
            series: &[
                run("SQLite", "mb_per_s.{}_10k.stock"),
                run("SQLite-INF", "mb_per_s.{}_10k.inf"),
                run("litefoot", "mb_per_s.{}_10k.litefoot"),
                run("litefoot, the caller cleans", "mb_per_s.{}_10k.litefoot_caller"),
                run("litefoot, a thread cleans", "mb_per_s.{}_10k.litefoot_background"),
            ],
            printed: &[beside(
                "SQLite over SQLite-INF (DELETE, TRUNCATE, PERSIST, WAL)",
                "hardly a difference",
                &[
                    "ratio.stock_over_inf.delete_10k",
                    "ratio.stock_over_inf.truncate_10k",
                    "ratio.stock_over_inf.persist_10k",
                    "ratio.stock_over_inf.wal_10k",
                ],
            )],
            question: OTHER_SIDE,
            differs: "litefoot's transactions need fewer syncs than a rollback journal, which has nothing to do with cleaning: nothing is \
                cleaned here.",
            ..PCG
        },
        Chart {
            id: "pcg-5m",
            title: "Transactions of two and a half times the memory",
            redraws: "Figure 8",
            series: &[
                run("SQLite", "mb_per_s.{}_5m.stock"),
                run("SQLite-INF", "mb_per_s.{}_5m.inf"),
                run("litefoot", "mb_per_s.{}_5m.litefoot"),
                run("litefoot, the caller cleans", "mb_per_s.{}_5m.litefoot_caller"),
                run("litefoot, a thread cleans", "mb_per_s.{}_5m.litefoot_background"),
            ],
            printed: &[
                beside(
                    "SQLite over SQLite-INF (DELETE, TRUNCATE, PERSIST, WAL)",
                    "up to 19.4 % less: 0.806",
                    &[
                        "ratio.stock_over_inf.delete_5m",
                        "ratio.stock_over_inf.truncate_5m",
                        "ratio.stock_over_inf.persist_5m",
                        "ratio.stock_over_inf.wal_5m",
                    ],
                ),
                beside(
                    "cleaning by the caller, over SQLite-INF",
                    "within 5.4 %: 0.946",
                    &[
                        "ratio.delete_5m_caller_over_inf",
                        "ratio.truncate_5m_caller_over_inf",
                        "ratio.persist_5m_caller_over_inf",
                        "ratio.wal_5m_caller_over_inf",
                    ],
                ),
                beside(
                    "cleaning by a thread, over SQLite-INF",
                    "within 9 %: 0.91",
                    &[
                        "ratio.delete_5m_background_over_inf",
                        "ratio.truncate_5m_background_over_inf",
                        "ratio.persist_5m_background_over_inf",
                        "ratio.wal_5m_background_over_inf",
                    ],
                ),
                beside(
                    "cleaning by the caller, over SQLite",
                    "1.06 to 1.17; mean 1.13",
                    &[
                        "ratio.delete_5m_caller_over_stock",
                        "ratio.truncate_5m_caller_over_stock",
                        "ratio.persist_5m_caller_over_stock",
                        "ratio.wal_5m_caller_over_stock",
                    ],
                ),
            ],
            question: SCALED,
            differs: "SQLite spills one page at a time, each with a sync of its rollback journal where it has one; what that costs depends on \
                the device's syncs. The paper's cleaning writes more pages by the same way, litefoot's goes another way.",
            ..PCG
        },
        Chart {
            id: "pcg-cleanings",
            title: "Cleanings in a round of four such transactions",
            shape: Shape::Table,
            unit: "batches; of SQLite, pages",
            series: &[
                run("SQLite", "cleanings.{}_5m.stock"),
                run("litefoot", "cleanings.{}_5m.litefoot"),
                run("litefoot, the caller cleans", "cleanings.{}_5m.litefoot_caller"),
                run("litefoot, a thread cleans", "cleanings.{}_5m.litefoot_background"),
            ],
            ..PCG
        },
        Chart {
            id: "pcg-over-inf",
            even: true,
            title: "Speed over SQLite with an unbounded cache",
            redraws: "Figures 7 and 8, as ratios",
            unit: "litefoot over SQLite-INF",
            series: &[
                run("10 KB", "ratio.{}_10k_over_inf"),
                run("1 MB", "ratio.{}_1m_over_inf"),
                run("5 MB", "ratio.{}_5m_over_inf"),
                run("10 MB", "ratio.{}_10m_over_inf"),
                run("100 MB", "ratio.{}_100m_over_inf"),
                run("100 MB by one INSERT … SELECT", "ratio.{}_select100m_over_inf"),
            ],
            printed: &[printed("PCG, 2.5 times the memory", "0.946 or more")],
            question: SCALED,
            differs: "1 MB fits into memory here; 100 MB have 64 MB. Litefoot needs fewer syncs, and reads pages that it has cleaned again.",
            ..PCG
        },
        Chart {
            id: "pcg-ordered-over-inf",
            even: true,
            title: "Speed over an unbounded cache, rows in the order of their keys",
            unit: "litefoot over SQLite-INF",
            series: &[
                run("10 KB", "ratio.{}_10k_ordered_over_inf"),
                run("1 MB", "ratio.{}_1m_ordered_over_inf"),
                run("5 MB", "ratio.{}_5m_ordered_over_inf"),
                run("10 MB", "ratio.{}_10m_ordered_over_inf"),
                run("100 MB", "ratio.{}_100m_ordered_over_inf"),
                run("100 MB by one INSERT … SELECT", "ratio.{}_select100m_ordered_over_inf"),
            ],
            ..PCG
        },
        Chart {
            id: "pcg-over-stock",
            even: true,
            title: "Speed over SQLite",
            redraws: "Figures 7 and 8, as ratios",
            unit: "litefoot over SQLite",
            series: &[
                run("10 KB", "ratio.{}_10k_over_stock"),
                run("1 MB", "ratio.{}_1m_over_stock"),
                run("5 MB", "ratio.{}_5m_over_stock"),
                run("10 MB", "ratio.{}_10m_over_stock"),
                run("100 MB", "ratio.{}_100m_over_stock"),
                run("100 MB by one INSERT … SELECT", "ratio.{}_select100m_over_stock"),
            ],
            printed: &[printed("PCG, 2.5 times the memory: mean, best", "1.13, 1.177")],
            question: SCALED,
            differs: "SQLite with a rollback journal syncs it whenever it spills.",
            ..PCG
        },
        Chart {
            id: "pcg-ordered-over-stock",
            even: true,
            title: "Speed over SQLite, rows in the order of their keys",
            unit: "litefoot over SQLite",
            series: &[
                run("10 KB", "ratio.{}_10k_ordered_over_stock"),
                run("1 MB", "ratio.{}_1m_ordered_over_stock"),
                run("5 MB", "ratio.{}_5m_ordered_over_stock"),
                run("10 MB", "ratio.{}_10m_ordered_over_stock"),
                run("100 MB", "ratio.{}_100m_ordered_over_stock"),
                run("100 MB by one INSERT … SELECT", "ratio.{}_select100m_ordered_over_stock"),
            ],
            ..PCG
        },
        Chart {
            id: "pcg-threshold",
            title: "Speed by the threshold of cleaning",
            redraws: "Figure 9a",
            points: THRESHOLDS,
            series: &[run("", "threshold_mb_per_s.{}")],
            printed: &[
                printed("0.2", "below SQLite"),
                printed("no more gain from; best", "0.6; 0.8"),
                printed("1.0", "as SQLite: it never cleans"),
            ],
            question: SCALED,
            differs: "litefoot's batches have a least size of their own, so a low threshold costs less; at 1.0 it still cleans, when memory is \
                full. WAL mode, the thread of the statement cleans, as in the paper.",
            ..PCG
        },
        Chart {
            id: "pcg-latency",
            title: "Latency of a transaction: what share takes no longer",
            redraws: "Figure 9b",
            shape: Shape::Lines,
            unit: "ms",
            points: SHARES,
            series: &[
                run("SQLite", "threshold_txn_ms.{}.stock"),
                run("0.2", "threshold_txn_ms.{}.20"),
                run("0.4", "threshold_txn_ms.{}.40"),
                run("0.6", "threshold_txn_ms.{}.60"),
                run("0.8", "threshold_txn_ms.{}.80"),
                run("1.0", "threshold_txn_ms.{}.100"),
            ],
            printed: &[printed("0.2; 0.4 and more", "slower than SQLite; faster")],
            question: SCALED,
            differs: "the axes are exchanged; each round has 20 transactions for a threshold, in a table that grows.",
            ..PCG
        },
        Chart {
            id: "pcg-threshold-inserts",
            title: "Cleanings of a transaction, and its slowest inserts",
            shape: Shape::Table,
            points: THRESHOLDS,
            series: &[
                run("cleanings (of SQLite, pages)", "threshold_cleanings.{}"),
                run("99.9 % of the inserts, µs", "threshold_insert_p999_us.{}"),
            ],
            unit: "",
            ..PCG
        },
        Chart {
            id: "pcg-memory",
            title: "Most memory during a transaction",
            unit: "MB",
            times: 1e-6,
            points: &[
                point("5m.stock", "5 MB: SQLite"),
                point("5m.inf", "5 MB: SQLite-INF"),
                point("5m.litefoot", "litefoot, 5 MB"),
                point("100m.stock", "100 MB: SQLite"),
                point("100m.inf", "100 MB: SQLite-INF"),
                point("100m.litefoot", "litefoot, 100 MB"),
            ],
            series: &[run("", "peak_bytes.{}")],
            note: "More than the process had before; the most of all journal modes.",
            ..PCG
        },
        Chart {
            id: "pcg-memory-given",
            title: "Memory that each side but SQLite-INF is given",
            shape: Shape::Table,
            unit: "MB",
            times: 1e-6,
            points: SIZES,
            series: &[run("", "memory_bytes.{}")],
            ..PCG
        },
        Chart {
            id: "pcg-amplification",
            title: "Bytes written for a byte of changed pages, in bulk",
            unit: "write amplification, 10 MB",
            series: &[
                run("SQLite", "write_amplification_stock.{}"),
                run("litefoot", "write_amplification.{}"),
            ],
            ..PCG
        },
        Chart {
            id: "pcg-amplification-scattered",
            title: "The same of single rows updated all over a database",
            unit: "write amplification",
            series: &[
                run("SQLite", "write_amplification_scattered_stock.{}"),
                run("litefoot", "write_amplification_scattered.{}"),
            ],
            note: "Litefoot writes such pages to its log and to the database file, as WAL mode does; it may write more than SQLite.",
            ..PCG
        },
    ],
};
