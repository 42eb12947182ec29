//! Applications: the experiment `apps`.

use crate::page::chart::{Chart, PLAIN, Point, Section, Shape, point, run};

const PATTERNS: &[Point] = &[
    point("python_kept", "Python's sqlite3, one row, one index"),
    point("python_per_connection", "the same, a connection for each commit"),
];

const APPS: Chart = Chart { experiment: "apps", points: PATTERNS, ..PLAIN };

pub const SECTION: Section = Section {
    id: "apps",
    title: "Commits of applications",
    source: "",
    about: "Small programs on libraries that applications use, unchanged on either side. The kernel counts what reaches a loop \
        device with an ext4 of its own: the database's files, and the file system's metadata and journal.",
    terms: &[],
    experiments: &["apps"],
    charts: &[
        Chart {
            id: "apps-bytes-wal",
            title: "Bytes at the device for a commit, WAL, FULL",
            unit: "bytes",
            series: &[
                run("SQLite", "{}.wal_full.stock_bytes"),
                run("litefoot", "{}.wal_full.litefoot_bytes"),
            ],
            ..APPS
        },
        Chart {
            id: "apps-bytes-delete",
            title: "Bytes at the device for a commit, DELETE, FULL",
            unit: "bytes",
            series: &[
                run("SQLite", "{}.delete_full.stock_bytes"),
                run("litefoot", "{}.delete_full.litefoot_bytes"),
            ],
            ..APPS
        },
        Chart {
            id: "apps-life",
            title: "Bytes from the creation of the database until it is closed",
            unit: "litefoot over SQLite",
            even: true,
            series: &[
                run("WAL, FULL", "{}.wal_full.life_ratio"),
                run("WAL, NORMAL", "{}.wal_normal.life_ratio"),
                run("DELETE, FULL", "{}.delete_full.life_ratio"),
            ],
            ..APPS
        },
        Chart {
            id: "apps-flushes",
            title: "Flushes of the device for a commit",
            shape: Shape::Table,
            unit: "flushes",
            series: &[
                run("SQLite, WAL", "{}.wal_full.stock_flushes"),
                run("litefoot, WAL", "{}.wal_full.litefoot_flushes"),
                run("SQLite, DELETE", "{}.delete_full.stock_flushes"),
                run("litefoot, DELETE", "{}.delete_full.litefoot_flushes"),
            ],
            ..APPS
        },
        Chart {
            id: "apps-rate",
            title: "Commits a second",
            unit: "litefoot over SQLite",
            even: true,
            series: &[
                run("WAL, FULL", "{}.wal_full.rate_ratio"),
                run("WAL, NORMAL", "{}.wal_normal.rate_ratio"),
                run("DELETE, FULL", "{}.delete_full.rate_ratio"),
            ],
            ..APPS
        },
        Chart {
            id: "apps-blocks",
            title: "Litefoot's commits of one block, and those that are deltas",
            shape: Shape::Table,
            unit: "% of commits, WAL, FULL",
            times: 100.0,
            series: &[run("one block", "{}.wal_full.one_block"), run("deltas", "{}.wal_full.deltas")],
            ..APPS
        },
    ],
};
