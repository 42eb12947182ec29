//! Applications: the experiment `apps`.

use crate::page::chart::{Chart, PLAIN, Point, Section, Shape, point, run};

const PATTERNS: &[Point] = &[
    point("python_kept", "Python's sqlite3, one row, one index"),
    point("python_per_connection", "the same, a connection for each commit"),
    point("django_kept", "Django, an order, then a session"),
    point("django_per_request", "Django, a connection for each request"),
    point("sqlalchemy", "SQLAlchemy, an order and two items"),
    point("peewee", "peewee, an order and two items"),
    point("better_sqlite3", "Node, better-sqlite3, an order and a balance"),
    point("node_sqlite3", "Node, sqlite3, a message"),
    point("mattn_go", "Go, mattn/go-sqlite3, an entry and two balances"),
    point("rails", "SQL of Rails, an order and a counter"),
    point("recorder", "Home Assistant, five states"),
    point("fts5", "FTS5, a document of twenty words"),
    point("json", "a JSON document of 1.5 KB"),
    point("queue", "a queue of jobs"),
    point("ten_rows", "ten rows, one index"),
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
        Chart {
            id: "apps-svn",
            title: "Subversion: a commit of 300 files, with its own settings",
            shape: Shape::Table,
            points: &[
                point("bytes", "bytes of a commit"),
                point("flushes", "flushes of a commit"),
                point("life_bytes", "bytes of a commit, creation and closing included"),
            ],
            series: &[run("SQLite", "svn.own.stock_{}"), run("litefoot", "svn.own.litefoot_{}")],
            ..APPS
        },
    ],
};
