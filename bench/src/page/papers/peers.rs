//! Litefoot beside other embedded stores: the experiment `peers`.

use crate::experiments::peers::stores::{Known, OTHERS, OURS};
use crate::page::chart::{Chart, PLAIN, Point, Printed, Section, Shape, point, printed, run};

/// All stores, in the order of the page.
const ORDER: [Known; 9] =
    [OURS[0], OURS[1], OTHERS[4], OTHERS[0], OTHERS[1], OTHERS[2], OTHERS[3], OURS[2], OURS[3]];
/// Those before litefoot.
const COMPARED: usize = 7;

const fn points() -> [Point; ORDER.len()] {
    let mut points = [point("", ""); ORDER.len()];
    let mut index = 0;
    while index < points.len() {
        points[index] = point(ORDER[index].name, ORDER[index].label);
        index += 1;
    }
    points
}

const fn settings() -> [Printed; ORDER.len()] {
    let mut settings = [printed("", ""); ORDER.len()];
    let mut index = 0;
    while index < settings.len() {
        settings[index] = printed(ORDER[index].label, ORDER[index].settings);
        index += 1;
    }
    settings
}

const fn compared() -> [Point; COMPARED + 1] {
    let mut compared = [point("floor", "a bare write and sync"); COMPARED + 1];
    let mut index = 0;
    while index < COMPARED {
        compared[index] = STORES[index];
        index += 1;
    }
    compared
}

const STORES: &[Point] = &points();
const COMPARED_AND_FLOOR: &[Point] = &compared();
const SETTINGS: &[Printed] = &settings();

const PEERS: Chart = Chart { experiment: "peers", points: STORES, ..PLAIN };

pub const SECTION: Section = Section {
    id: "peers",
    title: "Litefoot and other stores",
    source: "",
    about: "One row and one index entry, durable when the commit returns. SQLite, libSQL and litefoot do it in SQL; the others are \
        trees of keys and values, and a second tree stands for the index. All take turns in one run, with their ordinary \
        durable settings, which stand below, and their defaults otherwise. A store that was left out of the build has no figures.",
    terms: SETTINGS,
    experiments: &["peers"],
    charts: &[
        Chart {
            id: "peers-speed",
            title: "Durable commits of one row",
            unit: "commits a second",
            series: &[run("", "txn_per_s.{}")],
            note: "Closing belongs to the time, and is much of it in a short run. RocksDB and fjall leave their logs to the next opening.",
            ..PEERS
        },
        Chart {
            id: "peers-bytes",
            title: "Bytes written for a commit",
            unit: "bytes",
            series: &[run("", "bytes_per_txn.{}")],
            note: "Blocks of 4 KiB handed to the device, each once between two syncs of a file, closing included.",
            ..PEERS
        },
        Chart {
            id: "peers-syncs",
            title: "Syncs of a commit",
            unit: "syncs",
            series: &[run("", "syncs_per_txn.{}")],
            ..PEERS
        },
        Chart {
            id: "peers-ratio",
            even: true,
            title: "Durable commits: litefoot over each",
            unit: "litefoot (WAL, FULL) over the store",
            points: STORES.split_at(COMPARED).0,
            series: &[run("", "ratio.litefoot_over_{}")],
            ..PEERS
        },
        Chart {
            id: "peers-p50-ratio",
            even: true,
            title: "Median commit: litefoot over each",
            unit: "litefoot (WAL, FULL) over the store",
            points: COMPARED_AND_FLOOR,
            series: &[run("", "ratio.p50_over_{}")],
            ..PEERS
        },
        Chart {
            id: "peers-latency",
            title: "Latency of a commit",
            shape: Shape::Table,
            unit: "µs",
            series: &[run("median", "p50_us.{}"), run("99 %", "p99_us.{}")],
            ..PEERS
        },
        Chart {
            id: "peers-reads",
            title: "Warm reads",
            shape: Shape::Table,
            series: &[run("by id, µs", "point_us.{}"), run("scan, ns a row", "scan_ns_per_row.{}")],
            note: "A row by its id is a transaction of its own.",
            ..PEERS
        },
    ],
};
