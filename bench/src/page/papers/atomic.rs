//! Atomic Write: tables 1 and 2 and figures 1 and 4 of the paper.

use crate::page::chart::{Chart, PLAIN, Point, Question, Section, Shape, beside, paper, point, printed, run};

const ROWS: &[Point] = &[
    point("read", "reads"),
    point("write", "writes"),
    point("open", "open"),
    point("close", "close"),
    point("unlink", "unlink"),
    point("lseek", "lseek"),
    point("fdatasync", "fdatasync, fsync"),
    point("stat", "stat"),
    point("fstat", "fstat"),
    point("getuid", "getuid"),
    point("fchown", "fchown"),
    point("fcntl", "fcntl"),
    point("durable_write", "durable writes (pwritev2)"),
    point("futex", "futex"),
    point("other", "others"),
    point("all", "all calls"),
];

/// Parts of a run, each of as many inserts.
const PARTS: &[Point] = &[
    point("1", "1"),
    point("2", "2"),
    point("3", "3"),
    point("4", "4"),
    point("5", "5"),
    point("6", "6"),
    point("7", "7"),
    point("8", "8"),
    point("9", "9"),
    point("10", "10"),
    point("11", "11"),
    point("12", "12"),
    point("13", "13"),
    point("14", "14"),
    point("15", "15"),
    point("16", "16"),
    point("17", "17"),
    point("18", "18"),
    point("19", "19"),
    point("20", "20"),
    point("21", "21"),
    point("22", "22"),
    point("23", "23"),
    point("24", "24"),
];

const INSERTS: &[Point] = &[
    point("persist", "SQLite, PERSIST"),
    point("atomic_write", "SQLite, ATOMIC_WRITE"),
    point("batch_atomic_write", "SQLite, BATCH_ATOMIC_WRITE, F2FS"),
    point("litefoot", "litefoot"),
    point("litefoot_assume4k", "litefoot, atomic=assume4k"),
];

const ATOMIC: Chart = Chart { experiment: "atomic", ..PLAIN };

const ITS_SIDE: Question = Question::Near(
    "the paper's build is a side; litefoot goes another way. The paper does not print its table; here a row is a text of 100 bytes",
);

pub const SECTION: Section = Section {
    id: "atomic",
    title: "Atomic Write: rollback journals without the journal",
    source: "H. Kim, SQLite Optimization with Atomic Write",
    about: "The paper builds SQLite with SQLITE_ENABLE_ATOMIC_WRITE and claims that the file system never tears a page; that build is a \
        side here, on a VFS that claims the same. Litefoot takes that for granted only with atomic=assume4k, and else writes a \
        transaction's pages to a log, in one write and one sync. An insert into a table without an index, journal_mode=PERSIST, \
        synchronous=FULL. SQLITE_ENABLE_BATCH_ATOMIC_WRITE needs F2FS: its side is there only where the directory is on F2FS.",
    terms: &[],
    experiments: &["atomic"],
    charts: &[
        Chart {
            id: "atomic-spikes",
            title: "The worst insert of each part of a run: checkpoints",
            redraws: "Figure 1",
            shape: Shape::Lines,
            unit: "ms; the run in 24 parts",
            points: PARTS,
            series: &[
                run("SQLite, WAL", "worst_insert_ms.{}.wal_full"),
                run("SQLite, DELETE", "worst_insert_ms.{}.delete_full"),
                run("litefoot, WAL", "worst_insert_ms.{}.litefoot"),
                run("litefoot, DELETE", "worst_insert_ms.{}.litefoot_delete"),
            ],
            printed: &[printed("SQLite's WAL mode", "drawn, without numbers")],
            question: Question::Near("the paper draws SQLite's WAL mode alone, without numbers on its axes"),
            differs: "litefoot checkpoints in a thread of its own, so its inserts wait for the disk and not for the work.",
            ..ATOMIC
        },
        Chart {
            id: "atomic-spike-table",
            title: "The worst insert of a run, and the middle one",
            shape: Shape::Table,
            points: &[
                point("wal_full", "SQLite, WAL"),
                point("delete_full", "SQLite, DELETE"),
                point("litefoot", "litefoot, WAL"),
                point("litefoot_delete", "litefoot, DELETE"),
            ],
            series: &[
                run("middle, ms", "insert_ms.middle.{}"),
                run("worst, ms", "insert_ms.worst.{}"),
                run("worst over middle", "ratio.worst_over_middle_insert.{}"),
            ],
            ..ATOMIC
        },
        Chart {
            id: "atomic-calls",
            title: "System calls of one insert",
            redraws: "Table 1",
            shape: Shape::Table,
            unit: "calls",
            points: ROWS,
            series: &[
                run("SQLite", "calls.{}.persist"),
                run("ATOMIC_WRITE", "calls.{}.atomic_write"),
                run("litefoot", "calls.{}.litefoot"),
                run("litefoot, assume4k", "calls.{}.litefoot_assume4k"),
                paper(
                    "paper: PERSIST",
                    &[
                        Some(3.0),
                        Some(11.0),
                        Some(2.0),
                        Some(2.0),
                        Some(1.0),
                        Some(12.0),
                        Some(4.0),
                        Some(4.0),
                        Some(4.0),
                        Some(1.0),
                        Some(1.0),
                        Some(9.0),
                        None,
                        None,
                        None,
                        Some(54.0),
                    ],
                ),
                paper(
                    "paper: atomic write",
                    &[
                        Some(2.0),
                        Some(3.0),
                        Some(0.0),
                        Some(0.0),
                        Some(0.0),
                        Some(3.0),
                        Some(1.0),
                        Some(3.0),
                        Some(3.0),
                        Some(0.0),
                        Some(0.0),
                        Some(9.0),
                        None,
                        None,
                        None,
                        Some(24.0),
                    ],
                ),
            ],
            question: Question::Same,
            differs: "SQLite has changed since: it reads and writes at an offset, without lseek. All threads and closing the database count \
                here; a durable write is a write and a sync in one call.",
            ..ATOMIC
        },
        Chart {
            id: "atomic-inserts",
            title: "Inserts, each durable",
            redraws: "Figure 4",
            unit: "inserts a second",
            points: INSERTS,
            series: &[run("", "inserts_per_s.{}")],
            printed: &[beside(
                "atomic write over PERSIST",
                "300 % better",
                &["ratio.atomic_write_over_persist"],
            )],
            question: ITS_SIDE,
            differs: "how much a sync costs beside the rest of an insert depends on the device.",
            ..ATOMIC
        },
        Chart {
            id: "atomic-inserts-ratio",
            even: true,
            title: "Inserts over those of SQLite",
            redraws: "Figure 4, as ratios",
            unit: "times as many",
            points: &[
                point("ratio.atomic_write_over_persist", "SQLite, ATOMIC_WRITE"),
                point("ratio.batch_atomic_write_over_persist", "SQLite, BATCH_ATOMIC_WRITE, F2FS"),
                point("ratio.litefoot_over_persist", "litefoot"),
                point("ratio.litefoot_assume4k_over_persist", "litefoot, atomic=assume4k"),
            ],
            series: &[run("", "{}")],
            printed: &[printed("atomic write over PERSIST", "300 % better")],
            question: ITS_SIDE,
            differs: "the paper's build writes the page and the counter of page 1 in place, litefoot a frame of its log: both sync once. \
                Litefoot's next insert finds its page in the log, and assume4k does not help it.",
            ..ATOMIC
        },
        Chart {
            id: "atomic-speed",
            title: "Durable transactions with a rollback journal",
            unit: "transactions a second",
            points: &[
                point("delete_full", "SQLite, DELETE"),
                point("persist_full", "SQLite, PERSIST"),
                point("litefoot_delete", "litefoot, DELETE"),
                point("litefoot", "litefoot, PERSIST"),
                point("floor", "a bare write and sync"),
            ],
            series: &[run("", "txn_per_s.{}")],
            note: "Inserts and updates, with an index.",
            ..ATOMIC
        },
        Chart {
            id: "atomic-ratio",
            even: true,
            title: "Speed of these over SQLite's",
            unit: "litefoot over SQLite",
            points: &[
                point("ratio.litefoot_over_persist_full", "PERSIST"),
                point("ratio.litefoot_over_delete_full", "DELETE"),
            ],
            series: &[run("", "{}")],
            ..ATOMIC
        },
        Chart {
            id: "atomic-bytes",
            title: "Written for one insert, and for one update of a row anywhere",
            shape: Shape::Table,
            points: &[
                point("persist_full", "SQLite, PERSIST"),
                point("litefoot", "litefoot"),
                point("litefoot_assume4k", "litefoot, atomic=assume4k"),
            ],
            series: &[
                run("insert: bytes", "insert_bytes.{}"),
                run("of logs", "insert_log_bytes.{}"),
                run("in place", "insert_in_place.{}"),
                run("update: bytes", "update_bytes.{}"),
                run("of logs", "update_log_bytes.{}"),
                run("in place", "update_in_place.{}"),
            ],
            note: "Bytes are those of blocks of 4 KiB; “in place” is a share of the commits. Litefoot writes a page in place only where \
                no log has it. The next insert goes to the page of the last one, so it does not.",
            ..ATOMIC
        },
        Chart {
            id: "atomic-memory",
            title: "The most memory of a process that inserts",
            redraws: "Table 2",
            unit: "KB",
            times: 0.001,
            points: INSERTS,
            series: &[
                run("all: program, heap, pool, caches, logs", "process_bytes.{}"),
                run("more than before it opened anything", "process_more_bytes.{}"),
                run("SQLite's heap alone", "heap_bytes.{}"),
            ],
            printed: &[printed(
                "memory used, PERSIST and atomic write (SQLite's heap)",
                "502,848 and 101,528 bytes",
            )],
            question: Question::Near("the paper has SQLite's heap alone; ours has all of a process"),
            differs: "the paper's saving is one allocation of 425,600 bytes, which is 64,000 in its build with atomic writes. In this SQLite \
                the largest allocation is the same in both builds. Litefoot needs more memory than SQLite, not less: its library's code, its \
                threads and its pool.",
            ..ATOMIC
        },
        Chart {
            id: "atomic-heap",
            title: "SQLite's account of its heap",
            redraws: "Table 2",
            shape: Shape::Table,
            unit: "bytes; lookaside: count",
            points: &[
                point("heap_bytes", "memory used, most"),
                point("largest_allocation_bytes", "largest allocation"),
                point("lookaside_hits", "successful lookaside attempts"),
                point("pager_bytes", "pager heap usage"),
                point("schema_bytes", "schema heap usage"),
            ],
            series: &[
                run("SQLite", "{}.persist"),
                run("ATOMIC_WRITE", "{}.atomic_write"),
                run("litefoot", "{}.litefoot"),
                run("litefoot, assume4k", "{}.litefoot_assume4k"),
                paper(
                    "paper: PERSIST",
                    &[Some(502_848.0), Some(425_600.0), Some(99.0), Some(13_176.0), Some(904.0)],
                ),
                paper(
                    "paper: atomic write",
                    &[Some(101_528.0), Some(64_000.0), Some(231.0), Some(26_408.0), Some(1_128.0)],
                ),
            ],
            question: Question::Same,
            differs: "the paper's numbers follow its builds of SQLite and their defaults, of which it names none.",
            ..ATOMIC
        },
    ],
};
