//! Reading: the experiments `read` and `scan`.

use crate::page::chart::{Chart, PLAIN, Point, Section, Shape, point, run};

const WARM: &[Point] = &[
    point("point_auto", "rows, each a transaction of its own"),
    point("point", "rows in one transaction"),
    point("index", "rows by an index"),
    point("range", "ranges of 50 rows"),
    point("scan", "full scan"),
    point("join", "join"),
];

const COLD: &[Point] = &[
    point("scan_ordered", "full scan, ordered file"),
    point("scan_fragmented", "full scan, fragmented file"),
    point("index_fragmented", "by an index, fragmented"),
    point("point", "rows, fragmented"),
    point("range50", "ranges of 50 rows, fragmented"),
    point("range50_ordered", "ranges of 50 rows, ordered"),
];

const SCANS: &[Point] = &[
    point("total", "the whole table"),
    point("filter", "what a filter leaves of it"),
    point("group", "500 groups"),
];

const READ: Chart = Chart { experiment: "read", ..PLAIN };

pub const SECTION: Section = Section {
    id: "read",
    title: "Reading",
    source: "",
    about: "A table of rows of 200 to 350 bytes and an index. Warm: all of it in memory. Cold: nothing in memory, and memory for \
        a third of the file. SQLite's own cache has its default size. Above 1 litefoot is faster.",
    terms: &[],
    experiments: &["read", "scan"],
    charts: &[
        Chart {
            id: "read-scan",
            experiment: "scan",
            even: true,
            title: "Aggregates over 1 GB by all cores: speed of litefoot_scan",
            unit: "litefoot_scan over others",
            points: SCANS,
            series: &[
                run("SQLite, warm", "ratio.{}_over_stock"),
                run("SQLite, cold", "ratio.{}_cold_over_stock"),
                run("DuckDB's reader, warm", "ratio.{}_over_duckdb"),
                run("DuckDB's reader, cold", "ratio.{}_cold_over_duckdb"),
            ],
            ..PLAIN
        },
        Chart {
            id: "read-warm",
            even: true,
            title: "Warm reads: speed over SQLite's",
            unit: "litefoot over SQLite",
            points: WARM,
            series: &[
                run("one thread", "ratio.{}_over_stock"),
                run("two threads", "ratio.{}_over_stock_2t"),
                run("against mapped files", "ratio.{}_over_mmap"),
                run("one thread, WAL mode", "ratio.{}_over_stock_wal"),
            ],
            ..READ
        },
        Chart {
            id: "read-cold",
            even: true,
            title: "Cold reads: speed over SQLite's",
            unit: "litefoot over SQLite",
            points: COLD,
            series: &[
                run("this disk", "ratio.cold_{}_over_stock"),
                run("modelled SD card", "ratio.cold_{}_sd_over_stock"),
                run("modelled eMMC", "ratio.cold_{}_emmc_over_stock"),
            ],
            ..READ
        },
        Chart {
            id: "read-warm-us",
            title: "Warm reads: a query",
            unit: "µs",
            shape: Shape::Table,
            points: WARM,
            series: &[
                run("SQLite", "{}_us.stock"),
                run("mapped files", "{}_us.mmap"),
                run("litefoot", "{}_us.litefoot"),
            ],
            ..READ
        },
        Chart {
            id: "read-many",
            title: "Sixteen connections, and a skewed load",
            shape: Shape::Table,
            points: &[
                point("ratio.sixteen_connections_over_stock", "sixteen connections: speed over SQLite's"),
                point("ratio.sixteen_connections_over_stock_wal", "the same in WAL mode"),
                point("ratio.sixteen_connections_memory", "their memory over that of the pool"),
                point("ratio.zipf_over_stock", "Zipf, memory for a tenth: speed over SQLite's"),
                point("ratio.zipf_over_stock_2t", "the same with two threads"),
                point("ratio.zipf_reads_after_scan", "pages read after a full scan over before"),
            ],
            series: &[run("litefoot", "{}")],
            ..READ
        },
    ],
};
