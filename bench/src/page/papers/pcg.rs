//! PCG: figures 7, 8 and 9 of the paper.

use crate::page::chart::{Chart, PLAIN, Point, Section, Shape, point, printed, run};

const MODES: &[Point] = &[
    point("delete", "DELETE"),
    point("truncate", "TRUNCATE"),
    point("persist", "PERSIST"),
    point("wal", "WAL"),
];

const THRESHOLDS: &[Point] =
    &[point("20", "0.2"), point("40", "0.4"), point("60", "0.6"), point("80", "0.8"), point("100", "1.0")];

const PCG: Chart = Chart { experiment: "pcg", points: MODES, unit: "MB/s", ..PLAIN };

pub const SECTION: Section = Section {
    id: "pcg",
    title: "PCG: transactions larger than the cache",
    source: "E. Lee, Taming Performance Variability of Healthcare Data Service Frameworks with Proactive and Coarse-Grained Memory \
        Cleaning, 2019",
    about: "A table with a text key of 8 characters, a text of 100 and an integer; rows in random order of their keys; a page cache of \
        100 pages. SQLite-INF is SQLite with an unbounded cache. In a short run the transactions are smaller than their names.",
    terms: &[],
    experiments: &["pcg"],
    charts: &[
        Chart {
            id: "pcg-10k",
            title: "Transactions of 10 KB",
            redraws: "Figure 7",
            series: &[
                run("SQLite", "mb_per_s.{}_10k.stock"),
                run("SQLite-INF", "mb_per_s.{}_10k.inf"),
                run("litefoot", "mb_per_s.{}_10k.litefoot"),
            ],
            ..PCG
        },
        Chart {
            id: "pcg-1m",
            title: "Transactions of 1 MB",
            redraws: "Figure 8",
            series: &[
                run("SQLite", "mb_per_s.{}_1m.stock"),
                run("SQLite-INF", "mb_per_s.{}_1m.inf"),
                run("litefoot", "mb_per_s.{}_1m.litefoot"),
                run("litefoot, the caller cleans", "mb_per_s.{}_1m.litefoot_caller"),
                run("litefoot, a thread cleans", "mb_per_s.{}_1m.litefoot_background"),
            ],
            printed: &[
                printed("SQLite below SQLite-INF", "up to 19.4 %"),
                printed("PCG (a thread cleans) below SQLite-INF", "5.4 % (9 %)"),
                printed("PCG above SQLite", "6 to 17 %"),
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
                run("10 MB", "ratio.{}_10m_over_inf"),
                run("100 MB", "ratio.{}_100m_over_inf"),
                run("100 MB by one INSERT … SELECT", "ratio.{}_select100m_over_inf"),
            ],
            printed: &[printed("PCG, 1 MB", "0.946 or more")],
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
                run("10 MB", "ratio.{}_10m_over_stock"),
                run("100 MB", "ratio.{}_100m_over_stock"),
                run("100 MB by one INSERT … SELECT", "ratio.{}_select100m_over_stock"),
            ],
            printed: &[printed("PCG, 1 MB: mean, best", "1.13, 1.177")],
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
            shape: Shape::Lines,
            points: THRESHOLDS,
            series: &[run("", "threshold_mb_per_s.{}")],
            printed: &[
                printed("no more gain from; best", "0.6; 0.8"),
                printed("figure 5: 4 GB written by 4 KB, against by 512 KB", "3.5 × the time"),
            ],
            ..PCG
        },
        Chart {
            id: "pcg-latency",
            title: "Latency of an insert by the threshold of cleaning",
            redraws: "Figure 9b",
            shape: Shape::Table,
            unit: "µs",
            points: THRESHOLDS,
            series: &[
                run("median", "threshold_p50_us.{}"),
                run("90 %", "threshold_p90_us.{}"),
                run("99 %", "threshold_p99_us.{}"),
                run("99.9 %", "threshold_p999_us.{}"),
                run("longest", "threshold_max_us.{}"),
            ],
            ..PCG
        },
        Chart {
            id: "pcg-memory",
            title: "Most memory during a transaction of 100 MB",
            unit: "MB",
            times: 1e-6,
            points: &[point("inf", "SQLite-INF"), point("litefoot", "litefoot")],
            series: &[run("", "peak_bytes.{}")],
            note: "More than the process had before.",
            ..PCG
        },
        Chart {
            id: "pcg-amplification",
            title: "Bytes written for a byte of changed pages",
            unit: "write amplification, 10 MB",
            series: &[
                run("SQLite", "write_amplification_stock.{}"),
                run("litefoot", "write_amplification.{}"),
            ],
            ..PCG
        },
    ],
};
