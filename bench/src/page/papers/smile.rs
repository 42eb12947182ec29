//! SMILE: figures 4.1 to 4.11 of the thesis, and 5.1.5.

use crate::page::chart::{Chart, PLAIN, Section, Shape, point, printed, run};

const SMILE: Chart = Chart { experiment: "smile", shape: Shape::Lines, unit: "ms", ..PLAIN };

pub const SECTION: Section = Section {
    id: "smile",
    title: "SMILE: the page engine",
    source: "F. Olivera, SMILE: Towards a Data Analytics System for Low-Resource Edge Devices, master thesis, UPC Barcelona, 2018",
    about: "A sequential scan that counts 32-bit integers above a threshold. The thesis has a server (32 processors, 1 GB of pages) \
        and an ODROID-C2 board (4 processors, 256 MB); times of other machines do not compare, shapes do. Figure 4.5 \
        takes a machine with two NUMA nodes.",
    terms: &[],
    experiments: &["smile"],
    charts: &[
        Chart {
            id: "smile-iterations",
            title: "Scans one after the other, the first one cold",
            redraws: "Figures 4.1 and 4.7",
            points: &[
                point("1", "1st"),
                point("2", "2nd"),
                point("3", "3rd"),
                point("4", "4th"),
                point("5", "5th"),
            ],
            series: &[run("", "scan_ms.iteration.{}")],
            printed: &[
                printed("server: the first scan, and each further one", "6.5 s, 0.5 s"),
                printed("ODROID-C2: the same", "7.3 s, 0.5 s"),
            ],
            ..SMILE
        },
        Chart {
            id: "smile-page-size",
            title: "A scan by page size",
            redraws: "Figures 4.2 and 4.8",
            points: &[
                point("4k", "4 KiB"),
                point("8k", "8 KiB"),
                point("16k", "16 KiB"),
                point("32k", "32 KiB"),
                point("64k", "64 KiB"),
            ],
            series: &[run("cold", "scan_ms.cold.page_{}"), run("warm", "scan_ms.warm.page_{}")],
            printed: &[
                printed("server: best size, spread of all", "64 KB, ±0.028 s"),
                printed("ODROID-C2: best size, spread of all", "4 KB (7.29 s), ±0.011 s"),
            ],
            ..SMILE
        },
        Chart {
            id: "smile-threads-warm",
            title: "A warm scan by threads and partitions of the pool",
            redraws: "Figures 4.3, 4.4, 4.9 and 4.10",
            points: &[point("1", "1 thread"), point("2", "2 threads"), point("4", "4 threads")],
            series: &[
                run("1 partition", "scan_ms.warm.threads_{}_in_1"),
                run("4 partitions", "scan_ms.warm.threads_{}"),
            ],
            printed: &[
                printed("ODROID-C2: speed-up of 4 threads, 1 partition", "2.46 ×"),
                printed("ODROID-C2: 16 partitions over 1, 4 threads", "10 %"),
                printed("server: 4 partitions over 1, 4 threads", "5 %"),
                printed("server: 128 partitions over 1", "up to 13 %"),
            ],
            ..SMILE
        },
        Chart {
            id: "smile-threads-cold",
            title: "A cold scan by threads and partitions of the pool",
            redraws: "Figures 4.3 and 4.9, cold",
            points: &[point("1", "1 thread"), point("2", "2 threads"), point("4", "4 threads")],
            series: &[
                run("1 partition", "scan_ms.cold.threads_{}_in_1"),
                run("4 partitions", "scan_ms.cold.threads_{}"),
            ],
            ..SMILE
        },
        Chart {
            id: "smile-prefetch",
            even: true,
            title: "What reading ahead gains in a cold scan",
            redraws: "Figures 4.6 and 4.11",
            shape: Shape::Bars,
            unit: "speed with over without",
            points: &[
                point("ratio.cold_prefetch_speedup", "modelled SD card, two scans in turn"),
                point("ratio.cold_prefetch_speedup.disk", "this disk, the system reads ahead, too"),
                point("ratio.cold_prefetch_speedup.disk_without_readahead", "this disk, the system does not"),
            ],
            series: &[run("", "{}")],
            printed: &[printed("server and ODROID-C2", "slower with it")],
            ..SMILE
        },
        Chart {
            id: "smile-pins",
            title: "Holding a page that is in memory",
            shape: Shape::Bars,
            unit: "ns of processor time",
            points: &[
                point("hot", "one page"),
                point("random_4k", "random pages of 4 KiB"),
                point("random_64k", "random pages of 64 KiB"),
            ],
            series: &[run("one thread", "pin_unpin_ns.{}"), run("each of two threads", "pin_unpin_ns.{}_2t")],
            ..SMILE
        },
        Chart {
            id: "smile-graph",
            title: "Breadth-first search with memory for a tenth",
            redraws: "Section 5.1.5, there future work",
            shape: Shape::Table,
            unit: "",
            points: &[point("text", "stored as it came"), point("locality", "reordered")],
            series: &[run("ms", "bfs_ms.{}"), run("pages read", "bfs_reads.{}")],
            ..SMILE
        },
        Chart {
            id: "smile-rest",
            title: "What the pool keeps, and what it costs",
            shape: Shape::Table,
            unit: "",
            points: &[
                point("ratio.scan_warm_over_flat", "warm scan over the same loop on a flat buffer"),
                point("reads.second_scan", "pages read by a second scan"),
                point("hit_rate.engine", "hit rate of a mix of requests"),
                point("hit_rate.lru", "the same, LRU by the book"),
                point("ratio.random_prefetch_bytes", "bytes of random reads, with prefetch over without"),
            ],
            series: &[run("litefoot", "{}")],
            ..SMILE
        },
    ],
};
