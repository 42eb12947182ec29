//! Atomic Write: tables 1 and 2 and figure 4 of the paper.

use crate::page::chart::{Chart, PLAIN, Section, Shape, paper, point, printed, run};

const ATOMIC: Chart = Chart { experiment: "atomic", ..PLAIN };

pub const SECTION: Section = Section {
    id: "atomic",
    title: "Atomic Write: rollback journals without the journal",
    source: "H. Kim, SQLite Optimization with Atomic Write",
    about: "The paper builds SQLite with SQLITE_ENABLE_ATOMIC_WRITE for file systems that never tear a page; litefoot takes that for \
        granted nowhere and writes a transaction's pages to a log, in one write and one sync. An insert into a table without an \
        index, journal_mode=PERSIST, synchronous=FULL.",
    terms: &[],
    experiments: &["atomic"],
    charts: &[
        Chart {
            id: "atomic-calls",
            title: "Calls on files for one insert",
            redraws: "Table 1",
            shape: Shape::Table,
            unit: "calls",
            points: &[
                point("reads", "reads"),
                point("writes", "writes"),
                point("syncs", "syncs"),
                point("calls", "all calls"),
            ],
            series: &[
                run("SQLite", "{}.stock"),
                run("litefoot", "{}.litefoot"),
                paper("paper: PERSIST", &[Some(3.0), Some(11.0), Some(4.0), Some(54.0)]),
                paper("paper: atomic write", &[Some(2.0), Some(3.0), Some(1.0), Some(24.0)]),
            ],
            note: "The paper's total has calls that ours leaves out: seeks, locks, stat.",
            ..ATOMIC
        },
        Chart {
            id: "atomic-speed",
            title: "Durable transactions with a rollback journal",
            redraws: "Figure 4",
            unit: "transactions a second",
            points: &[
                point("delete_full", "SQLite, DELETE"),
                point("persist_full", "SQLite, PERSIST"),
                point("litefoot_delete", "litefoot, DELETE"),
                point("litefoot", "litefoot, PERSIST"),
                point("floor", "a bare write and sync"),
            ],
            series: &[run("", "txn_per_s.{}")],
            printed: &[printed("atomic write over PERSIST", "300 % better")],
            note: "Inserts and updates, with an index.",
            ..ATOMIC
        },
        Chart {
            id: "atomic-ratio",
            even: true,
            title: "Speed over SQLite's",
            redraws: "Figure 4",
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
            title: "Bytes written for one insert",
            unit: "bytes",
            points: &[point("stock", "SQLite"), point("litefoot", "litefoot")],
            series: &[run("", "insert_bytes.{}")],
            ..ATOMIC
        },
        Chart {
            id: "atomic-heap",
            title: "Memory",
            redraws: "Table 2, memory used",
            unit: "KB",
            times: 0.001,
            points: &[point("stock", "SQLite, PERSIST"), point("litefoot", "litefoot / atomic write")],
            series: &[run("this run", "heap_bytes.{}"), paper("paper", &[Some(502.848), Some(101.528)])],
            note: "Highwater of SQLite's heap, with the most that litefoot itself held. Most of the paper's saving is that of one \
                large allocation of its build.",
            ..ATOMIC
        },
    ],
};
