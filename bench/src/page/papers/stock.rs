//! Litefoot and SQLite as it is: the experiments `commit`, `group` and `crash`.

use crate::page::chart::{Chart, PLAIN, Point, Section, Shape, point, run};

const SIDES: &[Point] = &[
    point("delete_full", "SQLite, its defaults (DELETE, FULL)"),
    point("persist_full", "SQLite, PERSIST, FULL"),
    point("wal_full", "SQLite, WAL, FULL"),
    point("wal_normal", "SQLite, WAL, NORMAL (not durable)"),
    point("litefoot", "litefoot, WAL, FULL"),
    point("litefoot_statements", "litefoot, WAL, FULL, commit_log=statements"),
    point("litefoot_delete", "litefoot, DELETE, FULL"),
    point("floor", "a bare write and sync"),
];

const DEVICES: &[Point] = &[
    point("sd_a1", "SD card, A1"),
    point("emmc_5_1", "eMMC 5.1"),
    point("ufs_3_1", "UFS 3.1"),
    point("nvme_consumer", "NVMe, consumer"),
    point("nvme_plp", "NVMe, power-loss protected"),
    point("pcm", "phase-change memory"),
];

const THREADS: &[Point] = &[
    point("threads_1", "1"),
    point("threads_2", "2"),
    point("threads_4", "4"),
    point("threads_8", "8"),
    point("threads_16", "16"),
    point("threads_32", "32"),
    point("threads_64", "64"),
];

const LOADED: &[Point] = &[
    point("wal_full", "SQLite, WAL, FULL"),
    point("litefoot", "litefoot, WAL, FULL"),
    point("redb", "redb"),
    point("rocksdb", "RocksDB"),
    point("fjall", "fjall"),
    point("floor", "a bare write and sync, one thread"),
];

const COMMIT: Chart = Chart { experiment: "commit", points: SIDES, ..PLAIN };
const GROUP: Chart = Chart { experiment: "group", ..PLAIN };

pub const SECTION: Section = Section {
    id: "stock",
    title: "Litefoot and SQLite as it is",
    source: "",
    about: "Transactions of one row, inserts and updates, each durable when it returns (but for NORMAL). Closing the \
        database belongs to the time. Bytes are those of the blocks of 4 KiB handed to the device.",
    terms: &[],
    experiments: &["commit", "group", "crash"],
    charts: &[
        Chart {
            id: "commit-speed",
            title: "Small durable transactions",
            unit: "transactions a second",
            series: &[run("", "txn_per_s.{}")],
            note: "NORMAL does not wait for the device: a power cut costs its last transactions.",
            ..COMMIT
        },
        Chart {
            id: "commit-bytes",
            title: "Bytes written for a transaction",
            unit: "bytes",
            series: &[run("", "bytes_per_txn.{}")],
            ..COMMIT
        },
        Chart {
            id: "commit-syncs",
            title: "Syncs of a transaction",
            unit: "syncs",
            series: &[run("", "syncs_per_txn.{}")],
            ..COMMIT
        },
        Chart {
            id: "commit-model",
            title: "Device time of a transaction, on modelled devices",
            unit: "µs",
            shape: Shape::Table,
            points: DEVICES,
            series: &[
                run("SQLite, defaults", "model_us.{}.delete_full"),
                run("SQLite, WAL", "model_us.{}.wal_full"),
                run("litefoot", "model_us.{}.litefoot"),
                run("bare write", "model_us.{}.floor"),
            ],
            note: "From the requests that each side made, without processor time.",
            ..COMMIT
        },
        Chart {
            id: "commit-latency",
            title: "Latency of a transaction",
            unit: "µs",
            shape: Shape::Table,
            series: &[run("median", "p50_us.{}"), run("99 %", "p99_us.{}"), run("99.9 %", "p999_us.{}")],
            ..COMMIT
        },
        Chart {
            id: "group-speed",
            title: "Four threads that write one database",
            unit: "transactions a second",
            points: &[point("wal_full", "SQLite, WAL, FULL"), point("litefoot", "litefoot, WAL, FULL")],
            series: &[run("", "txn_per_s.{}")],
            ..GROUP
        },
        Chart {
            id: "group-fairness",
            title: "Four threads: who waits, who gets a share",
            shape: Shape::Table,
            points: &[
                point("p50_us", "median latency, µs"),
                point("p999_us", "99.9 %, all threads, µs"),
                point("worst_p999_us", "99.9 %, the thread served worst, µs"),
                point("least_share", "its transactions over the mean"),
                point("syncs_per_txn", "syncs of a transaction"),
            ],
            series: &[run("SQLite, WAL", "{}.wal_full"), run("litefoot", "{}.litefoot")],
            ..GROUP
        },
        Chart {
            id: "group-threads",
            title: "Durable commits of one row, by threads that write",
            shape: Shape::Lines,
            unit: "commits a second",
            points: THREADS,
            series: &[
                run("SQLite, WAL", "txn_per_s.{}.wal_full"),
                run("litefoot", "txn_per_s.{}.litefoot"),
                run("redb", "txn_per_s.{}.redb"),
                run("RocksDB", "txn_per_s.{}.rocksdb"),
                run("fjall", "txn_per_s.{}.fjall"),
                run("a bare write and sync, one thread", "txn_per_s.{}.floor"),
            ],
            ..GROUP
        },
        Chart {
            id: "group-threads-latency",
            title: "Median commit, by threads that write",
            shape: Shape::Table,
            unit: "µs",
            points: THREADS,
            series: &[
                run("SQLite, WAL", "p50_us.{}.wal_full"),
                run("litefoot", "p50_us.{}.litefoot"),
                run("redb", "p50_us.{}.redb"),
                run("RocksDB", "p50_us.{}.rocksdb"),
                run("fjall", "p50_us.{}.fjall"),
                run("bare write and sync", "p50_us.{}.floor"),
            ],
            note: "The bare write and sync is always that of one thread.",
            ..GROUP
        },
        Chart {
            id: "group-threads-ratio",
            title: "Litefoot over others, by threads that write",
            shape: Shape::Table,
            points: THREADS,
            series: &[
                run("commits, over SQLite", "ratio.litefoot_over_wal_full.{}"),
                run("commits, over the best store", "ratio.litefoot_over_best_peer.{}"),
                run("median, over a bare sync", "ratio.p50_over_floor.{}"),
            ],
            ..GROUP
        },
        Chart {
            id: "group-arrivals",
            title: "Latency at a fixed rate of arrivals: half of what SQLite can do",
            shape: Shape::Table,
            unit: "µs",
            points: LOADED,
            series: &[
                run("median", "p50_us.arrivals_half_of_sqlite.{}"),
                run("99 %", "p99_us.arrivals_half_of_sqlite.{}"),
                run("99.9 %", "p999_us.arrivals_half_of_sqlite.{}"),
            ],
            note: "Four threads. A latency counts from when the commit was due.",
            ..GROUP
        },
        Chart {
            id: "group-arrivals-own",
            title: "Latency at a fixed rate of arrivals: four fifths of what each can do",
            shape: Shape::Table,
            points: LOADED,
            series: &[
                run("commits a second", "txn_per_s.arrivals_most_of_own.{}"),
                run("median, µs", "p50_us.arrivals_most_of_own.{}"),
                run("99 %, µs", "p99_us.arrivals_most_of_own.{}"),
                run("99.9 %, µs", "p999_us.arrivals_most_of_own.{}"),
            ],
            note: "Four threads. A latency counts from when the commit was due.",
            ..GROUP
        },
        Chart {
            id: "crash-cuts",
            title: "Power cuts on a simulated medium",
            experiment: "crash",
            shape: Shape::Table,
            points: &[
                point("cuts", "power cuts"),
                point("transactions", "transactions acknowledged"),
                point("lost", "cuts that lost or tore one"),
                point("corrupt", "cuts that left no valid database"),
            ],
            series: &[run("litefoot", "{}")],
            ..PLAIN
        },
    ],
};
