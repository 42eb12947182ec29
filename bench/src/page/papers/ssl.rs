//! SSL: the paper's charts of speed and recovery, and its table of mobile workloads.

use crate::page::chart::{Chart, PLAIN, Point, Section, Shape, paper, point, printed, run};

const TRACES: &[Point] = &[
    point("androbench", "Androbench"),
    point("gmail", "Gmail"),
    point("kakaotalk", "KakaoTalk"),
    point("facebook", "Facebook"),
    point("browser", "Browser"),
    point("twitter", "Twitter"),
];

const SSL: Chart = Chart { experiment: "ssl", points: TRACES, ..PLAIN };

pub const SECTION: Section = Section {
    id: "ssl",
    title: "SSL: statements instead of pages",
    source: "J.-H. Park, G. Oh, S.-W. Lee, SQL Statement Logging for Making SQLite Truly Lite, 2018",
    about: "The paper's traces are not public: these transactions have the numbers of its table (files, transactions, statements, \
        bytes of SQL). Both sides in WAL mode at synchronous=FULL, closing included.",
    terms: &[],
    experiments: &["ssl"],
    charts: &[
        Chart {
            id: "ssl-ratio",
            even: true,
            title: "Speed over SQLite in WAL mode",
            redraws: "Performance evaluation (2), SD card",
            unit: "litefoot over SQLite",
            series: &[run("", "ratio.{}_over_wal_full")],
            printed: &[printed("all traces, log on an SD card", "2 to 6 times")],
            note: "The paper's card takes milliseconds for each block; on a device with fast syncs there is less to gain.",
            ..SSL
        },
        Chart {
            id: "ssl-speed",
            title: "Durable transactions",
            redraws: "Performance evaluation (2)",
            unit: "transactions a second",
            series: &[run("SQLite, WAL", "txn_per_s.{}.wal_full"), run("litefoot", "txn_per_s.{}.litefoot")],
            ..SSL
        },
        Chart {
            id: "ssl-pages",
            title: "Pages written for a transaction",
            redraws: "Table “Mobile Workloads”, page writes / TX",
            unit: "blocks of 4 KiB",
            series: &[
                run("SQLite, WAL", "page_writes.{}.wal_full"),
                run("litefoot", "page_writes.{}.litefoot"),
                paper(
                    "paper: its traces on SQLite",
                    &[Some(3.38), Some(8.58), Some(3.58), Some(3.11), Some(3.88), Some(1.40)],
                ),
            ],
            note: "Ours count checkpoints and the log's own blocks.",
            ..SSL
        },
        Chart {
            id: "ssl-checkpoints",
            title: "Syncs of the database files in the whole trace",
            redraws: "Performance evaluation: number of checkpoints",
            unit: "syncs",
            series: &[
                run("SQLite, WAL", "checkpoints.{}.wal_full"),
                run("litefoot", "checkpoints.{}.litefoot"),
            ],
            ..SSL
        },
        Chart {
            id: "ssl-recovery",
            title: "Opening after a crash, by how full the commit log is",
            redraws: "Performance evaluation (3)",
            shape: Shape::Lines,
            unit: "seconds",
            points: &[
                point("25_percent", "25 %"),
                point("50_percent", "50 %"),
                point("75_percent", "75 %"),
                point("full_log", "full, 4 MiB"),
            ],
            series: &[run("", "recovery_s.{}")],
            printed: &[printed("full log, worst trace", "less than 1 s")],
            ..SSL
        },
        Chart {
            id: "ssl-capture",
            title: "What watching a statement costs",
            shape: Shape::Table,
            unit: "ns of processor time",
            points: &[point("capture_ns", "a statement with three values")],
            series: &[run("litefoot", "{}")],
            ..SSL
        },
    ],
};
