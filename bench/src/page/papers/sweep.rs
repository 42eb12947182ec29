//! Transactions of every size: the experiment `sweep`.

use crate::page::chart::{Chart, PLAIN, Point, Section, Shape, point, run};

const ROWS: &[Point] = &[
    point("1", "1"),
    point("3", "3"),
    point("10", "10"),
    point("30", "30"),
    point("100", "100"),
    point("300", "300"),
    point("1000", "1k"),
    point("3000", "3k"),
    point("10000", "10k"),
    point("30000", "30k"),
    point("100000", "100k"),
];

const SWEEP: Chart = Chart {
    experiment: "sweep",
    shape: Shape::Lines,
    unit: "litefoot over SQLite, by rows of a transaction",
    even: true,
    points: ROWS,
    ..PLAIN
};

/// The curves of one ratio in one journal mode, a line for each shape of rows.
macro_rules! curves {
    ($id:literal, $title:literal, $mode:literal, $ratio:literal) => {
        Chart {
            id: $id,
            title: $title,
            series: &[
                run("30 bytes, keys in order", concat!("ratio.", $mode, ".ordered_30.{}.", $ratio)),
                run("30 bytes, random keys", concat!("ratio.", $mode, ".random_30.{}.", $ratio)),
                run("300 bytes, keys in order", concat!("ratio.", $mode, ".ordered_300.{}.", $ratio)),
                run("300 bytes, random keys", concat!("ratio.", $mode, ".random_300.{}.", $ratio)),
            ],
            ..SWEEP
        }
    };
}

pub const SECTION: Section = Section {
    id: "sweep",
    title: "Transactions of every size",
    source: "",
    about: "Transactions of 1 to 100,000 rows in a table with an index, on SQLite and on litefoot in turns, in the same journal mode and \
        at the same synchronous. Closing the database belongs to speed, processor time and bytes. A short run has few of the points.",
    terms: &[],
    experiments: &["sweep"],
    charts: &[
        curves!("sweep-wal-full", "Speed: WAL, FULL", "wal_full", "rate"),
        curves!("sweep-wal-normal", "Speed: WAL, NORMAL", "wal_normal", "rate"),
        curves!("sweep-delete-full", "Speed: DELETE, FULL", "delete_full", "rate"),
        curves!("sweep-delete-normal", "Speed: DELETE, NORMAL", "delete_normal", "rate"),
        curves!("sweep-wal-full-cpu", "Processor time: WAL, FULL", "wal_full", "processor"),
        curves!("sweep-wal-normal-cpu", "Processor time: WAL, NORMAL", "wal_normal", "processor"),
        curves!("sweep-delete-full-cpu", "Processor time: DELETE, FULL", "delete_full", "processor"),
        curves!("sweep-delete-normal-cpu", "Processor time: DELETE, NORMAL", "delete_normal", "processor"),
        curves!("sweep-wal-full-bytes", "Bytes written: WAL, FULL", "wal_full", "bytes"),
        curves!("sweep-wal-normal-bytes", "Bytes written: WAL, NORMAL", "wal_normal", "bytes"),
        curves!("sweep-delete-full-bytes", "Bytes written: DELETE, FULL", "delete_full", "bytes"),
        curves!("sweep-delete-normal-bytes", "Bytes written: DELETE, NORMAL", "delete_normal", "bytes"),
        Chart {
            id: "sweep-worst",
            title: "The worst point of each journal mode",
            unit: "litefoot over SQLite",
            shape: Shape::Table,
            points: &[
                point("wal_full", "WAL, FULL"),
                point("wal_normal", "WAL, NORMAL"),
                point("delete_full", "DELETE, FULL"),
                point("delete_normal", "DELETE, NORMAL"),
            ],
            series: &[
                run("speed", "worst.{}.rate"),
                run("processor time", "worst.{}.processor"),
                run("bytes", "worst.{}.bytes"),
                run("syncs", "worst.{}.syncs"),
            ],
            even: false,
            ..SWEEP
        },
    ],
};
