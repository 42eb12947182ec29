//! SMILE: figures 4.1 to 4.11 of the thesis, and section 5.1.

use crate::page::chart::{Chart, PLAIN, Point, Question, Section, Shape, beside, point, printed, run};

const SMILE: Chart = Chart { experiment: "smile", shape: Shape::Lines, unit: "ms", ..PLAIN };

const THREADS: &[Point] =
    &[point("1", "1 thread"), point("2", "2 threads"), point("4", "4 threads"), point("8", "8 threads")];

const STEPS: &[Point] = &[
    point("store_alloc", "new pages, durable in the end"),
    point("store_change", "pages changed, four a transaction, durable in the end"),
    point("store_checkpoint", "of this, the checkpoint or commit"),
    point("store_roll_back", "a transaction of four pages rolled back"),
    point("store_release", "pages released, durable in the end"),
    point("store_recovery", "recovery of a quarter of the pages"),
];

/// The machines differ in all that a scan needs.
const OTHER_MACHINE: Question = Question::Near(
    "other machines and other amounts: 1 GB on a server, 256 MB on a board, there with hard disk and SD card; times do not compare, \
     ratios do",
);

/// A machine with two nodes has not been measured.
const TWO_NODES: Question = Question::Near(
    "the server has two NUMA nodes. A machine with one is taken for one with two, each with half of its processors: threads and pages are \
     spread as there, and all memory is equally near",
);

/// The thesis has the operators and no figures of them.
const NO_FIGURE: Question =
    Question::Near("the thesis describes it and prints no figure; SQLite stands in its place");

/// The thesis names the prefetcher as future work.
const NO_FIGURE_OF_PREFETCHER: Question = Question::Near(
    "the thesis names a correlation prefetcher as future work; the search without it stands beside it",
);

pub const SECTION: Section = Section {
    id: "smile",
    title: "SMILE: the page engine",
    source: "F. Olivera, SMILE: Towards a Data Analytics System for Low-Resource Edge Devices, master thesis, UPC Barcelona, 2018",
    about: "A sequential scan that counts 32-bit integers above a threshold. The thesis has a server (32 processors, 1 GB of pages) \
        and an ODROID-C2 board (4 processors, 256 MB).",
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
                beside(
                    "server: the first scan over a further one",
                    "6.5 s over 0.5 s: 13 ×",
                    &["ratio.scan_warm_over_first"],
                ),
                beside("ODROID-C2: the same", "7.3 s over 0.5 s: 14.6 ×", &["ratio.scan_warm_over_first"]),
            ],
            question: OTHER_MACHINE,
            differs: "the ratio is that of the disk to the memory; a scan here compares in vectors, a disk here reads faster.",
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
                point("128k", "128 KiB"),
                point("256k", "256 KiB"),
            ],
            series: &[run("cold", "scan_ms.cold.page_{}"), run("warm", "scan_ms.warm.page_{}")],
            printed: &[
                printed("server: best size, spread of all", "64 KB, ±0.028 s of 6.5 s"),
                printed("ODROID-C2: best size, spread of all", "4 KB (7.29 s), ±0.011 s"),
            ],
            question: OTHER_MACHINE,
            differs: "a cold scan of 0.1 s shows what each page costs; one of 7 s hides it behind the disk.",
            ..SMILE
        },
        Chart {
            id: "smile-threads-warm",
            title: "A warm scan by threads and partitions of the pool",
            redraws: "Figures 4.3 and 4.9",
            points: THREADS,
            series: &[
                run("1 partition", "scan_ms.warm.threads_{}_in_1"),
                run("2 partitions", "scan_ms.warm.threads_{}_in_2"),
                run("4 partitions", "scan_ms.warm.threads_{}_in_4"),
                run("8 partitions", "scan_ms.warm.threads_{}_in_8"),
                run("16 partitions", "scan_ms.warm.threads_{}_in_16"),
            ],
            printed: &[printed("server and ODROID-C2", "drawn, without numbers")],
            note: "The mean of ten scans, after one that is not counted, as in the thesis.",
            question: OTHER_MACHINE,
            differs: "more threads than processors gain nothing.",
            ..SMILE
        },
        Chart {
            id: "smile-threads-speedup",
            title: "The same, as speed over one thread",
            redraws: "Figures 4.3 and 4.9",
            even: true,
            unit: "speed over one thread",
            points: THREADS,
            series: &[
                run("1 partition", "ratio.scan_warm_speedup.threads_{}_in_1"),
                run("2 partitions", "ratio.scan_warm_speedup.threads_{}_in_2"),
                run("4 partitions", "ratio.scan_warm_speedup.threads_{}_in_4"),
                run("8 partitions", "ratio.scan_warm_speedup.threads_{}_in_8"),
                run("16 partitions", "ratio.scan_warm_speedup.threads_{}_in_16"),
            ],
            printed: &[
                beside(
                    "ODROID-C2: 4 threads of 4 processors, 1 partition",
                    "2.46",
                    &["ratio.scan_warm_speedup.threads_4_in_1"],
                ),
                beside(
                    "ODROID-C2: the same, 16 partitions",
                    "2.7",
                    &["ratio.scan_warm_speedup.threads_4_in_16"],
                ),
                printed("server: 32 threads, 1 partition", "7.68"),
            ],
            question: OTHER_MACHINE,
            differs: "the number of processors is that of the machine named below.",
            ..SMILE
        },
        Chart {
            id: "smile-partitions",
            title: "What partitions gain",
            redraws: "Figures 4.4 and 4.10",
            even: true,
            unit: "speed over one partition",
            points: THREADS,
            series: &[
                run("1 partition", "ratio.scan_warm_partitions.threads_{}_in_1"),
                run("2 partitions", "ratio.scan_warm_partitions.threads_{}_in_2"),
                run("4 partitions", "ratio.scan_warm_partitions.threads_{}_in_4"),
                run("8 partitions", "ratio.scan_warm_partitions.threads_{}_in_8"),
                run("16 partitions", "ratio.scan_warm_partitions.threads_{}_in_16"),
            ],
            printed: &[
                beside(
                    "ODROID-C2: 16 partitions, 4 threads",
                    "1.10",
                    &["ratio.scan_warm_partitions.threads_4_in_16"],
                ),
                beside(
                    "server: 4 partitions, 4 threads",
                    "1.05",
                    &["ratio.scan_warm_partitions.threads_4_in_4"],
                ),
                printed("server: 128 partitions", "up to 1.13"),
            ],
            question: OTHER_MACHINE,
            differs: "a hit takes no lock here, so partitions have no lock to divide; they matter when pages are missing.",
            ..SMILE
        },
        Chart {
            id: "smile-nodes",
            title: "A warm scan with threads that keep to memory nodes, and without",
            redraws: "Figure 4.5",
            points: THREADS,
            series: &[
                run("with nodes", "scan_ms.warm.nodes_on_threads_{}"),
                run("without", "scan_ms.warm.nodes_off_threads_{}"),
            ],
            printed: &[
                printed("server: two nodes with 16 processors each, 32 threads", "0.025 s for 1 GB"),
                printed("server: the same, speed over one thread", "20 ×"),
            ],
            question: TWO_NODES,
            differs: "where the second node is made up, the system refuses its memory, and no page is far away. Threads keep to their half of the processors and to its pages, which gains or costs with what else the machine does.",
            ..SMILE
        },
        Chart {
            id: "smile-nodes-ratio",
            title: "The same, as speed with nodes over without",
            redraws: "Figure 4.5",
            even: true,
            unit: "speed with over without",
            points: THREADS,
            series: &[run("", "ratio.scan_warm_nodes.threads_{}")],
            printed: &[beside(
                "nodes that the machine lacks and was taken to have",
                "none",
                &["nodes_made_up"],
            )],
            question: TWO_NODES,
            differs: "the same.",
            ..SMILE
        },
        Chart {
            id: "smile-threads-cold",
            title: "A cold scan by threads and partitions of the pool",
            points: THREADS,
            series: &[
                run("1 partition", "scan_ms.cold.threads_{}_in_1"),
                run("2 partitions", "scan_ms.cold.threads_{}_in_2"),
                run("4 partitions", "scan_ms.cold.threads_{}_in_4"),
                run("8 partitions", "scan_ms.cold.threads_{}_in_8"),
                run("16 partitions", "scan_ms.cold.threads_{}_in_16"),
            ],
            ..SMILE
        },
        Chart {
            id: "smile-prefetch-threads",
            title: "A cold scan by threads, with reading ahead and without",
            redraws: "Figures 4.6 and 4.11",
            points: THREADS,
            series: &[
                run("with", "scan_ms.cold.prefetch_on_threads_{}"),
                run("without", "scan_ms.cold.prefetch_off_threads_{}"),
            ],
            printed: &[printed("server and ODROID-C2", "drawn, without numbers")],
            question: OTHER_MACHINE,
            differs: "each thread here scans a run of pages of its own; in the thesis page n is thread n mod N's.",
            ..SMILE
        },
        Chart {
            id: "smile-prefetch-ratio",
            title: "The same, as time with reading ahead over without",
            redraws: "Figures 4.6 and 4.11",
            even: true,
            unit: "time with over without",
            points: THREADS,
            series: &[run("", "ratio.cold_prefetch_time.threads_{}")],
            printed: &[
                beside("server, 1 thread", "up to 1.018", &["ratio.cold_prefetch_time.threads_1"]),
                beside("ODROID-C2, 1 thread", "1.087", &["ratio.cold_prefetch_time.threads_1"]),
            ],
            question: OTHER_MACHINE,
            differs: "here whole windows are read ahead, merged into large reads; in the thesis one page, as a task of its own.",
            ..SMILE
        },
        Chart {
            id: "smile-prefetch",
            even: true,
            title: "What reading ahead gains a plain thread in a cold scan",
            shape: Shape::Bars,
            unit: "speed with over without",
            points: &[
                point("ratio.cold_prefetch_speedup", "modelled SD card, two scans in turn"),
                point("ratio.cold_prefetch_speedup.disk", "this disk, the system reads ahead, too"),
                point("ratio.cold_prefetch_speedup.disk_without_readahead", "this disk, the system does not"),
            ],
            series: &[run("", "{}")],
            ..SMILE
        },
        Chart {
            id: "smile-prefetch-ms",
            title: "The same on this disk",
            shape: Shape::Bars,
            points: &[point("on", "with reading ahead"), point("off", "without")],
            series: &[run("", "scan_ms.cold.prefetch_{}")],
            ..SMILE
        },
        Chart {
            id: "smile-store",
            title: "The page store itself, and SQLite with a row for each page",
            redraws: "Section 5.1.1",
            even: true,
            shape: Shape::Bars,
            unit: "speed over SQLite",
            points: STEPS,
            series: &[run("", "ratio.{}_over_sqlite")],
            printed: &[printed("the thesis", "no figure")],
            question: NO_FIGURE,
            differs: "a checkpoint of the store writes each page twice, to its log and home; a commit of SQLite writes it once, and again when \
                its own checkpoint comes, which is inside the commit where the log is long. A release of the store writes bits; SQLite's writes pages.",
            ..SMILE
        },
        Chart {
            id: "smile-store-us",
            title: "The same by the clock, for each page or transaction",
            shape: Shape::Table,
            unit: "µs",
            points: &[
                point("alloc", "a new page"),
                point("change", "a page changed"),
                point("roll_back", "a transaction of four pages rolled back"),
                point("release", "a page released"),
            ],
            series: &[run("litefoot", "store_{}_us.litefoot"), run("SQLite", "store_{}_us.sqlite")],
            ..SMILE
        },
        Chart {
            id: "smile-store-ms",
            title: "Making a quarter of the pages durable, and finding it again",
            shape: Shape::Table,
            points: &[
                point("checkpoint", "checkpoint, or commit"),
                point("recovery", "recovery after a crash, until all pages are home"),
            ],
            series: &[run("litefoot", "store_{}_ms.litefoot"), run("SQLite", "store_{}_ms.sqlite")],
            ..SMILE
        },
        Chart {
            id: "smile-operators",
            title: "Operators on values in memory",
            redraws: "Sections 5.1.2 and 5.1.3",
            shape: Shape::Table,
            points: &[
                point("filter", "filter of 32-bit integers"),
                point("group", "group by, of bytes"),
                point("join", "hash join of pairs of bytes"),
            ],
            series: &[
                run("1 thread", "operator_ms.{}.litefoot_1"),
                run("2 threads", "operator_ms.{}.litefoot_2"),
                run("SQLite", "operator_ms.{}.sqlite"),
            ],
            printed: &[printed("the thesis", "no figure")],
            question: NO_FIGURE,
            differs: "SQLite decodes a row for each value, the engine reads arrays: this is the price of rows, not of SQLite's code.",
            ..SMILE
        },
        Chart {
            id: "smile-operators-ratio",
            title: "The same, one thread's speed over SQLite's",
            even: true,
            shape: Shape::Bars,
            unit: "speed over SQLite",
            points: &[
                point("filter", "filter"),
                point("group", "group by"),
                point("join", "hash join"),
                point("bfs", "breadth-first search, cold, little memory"),
            ],
            series: &[run("", "ratio.{}_over_sqlite")],
            ..SMILE
        },
        Chart {
            id: "smile-graph",
            title: "Breadth-first search with memory for a tenth",
            redraws: "Sections 5.1.4 and 5.1.5",
            shape: Shape::Bars,
            points: &[
                point("text", "stored as it came"),
                point("locality", "reordered, after Gorder"),
                point("text_ahead", "as it came, with the correlation prefetcher"),
                point("locality_ahead", "reordered, with the correlation prefetcher"),
                point("sqlite", "SQLite, a recursive statement"),
            ],
            series: &[run("", "bfs_ms.{}")],
            printed: &[beside(
                "speed of reordered over as it came",
                "no figure",
                &["ratio.bfs_locality_over_text"],
            )],
            question: NO_FIGURE,
            differs: "a random graph (R-MAT) has little locality to be found; the thesis always reorders, its graphs are SNAP's.",
            ..SMILE
        },
        Chart {
            id: "smile-graph-reads",
            title: "Pages that the search reads",
            redraws: "Section 5.3",
            shape: Shape::Bars,
            unit: "pages",
            points: &[
                point("text", "stored as it came"),
                point("text_ahead", "the same, with the correlation prefetcher"),
                point("locality", "reordered, after Gorder"),
                point("locality_ahead", "the same, with the correlation prefetcher"),
            ],
            series: &[run("read", "bfs_reads.{}"), run("waited for from the beginning", "bfs_waits.{}")],
            printed: &[printed("the thesis", "future work, no figure")],
            question: NO_FIGURE_OF_PREFETCHER,
            differs: "the next pages are known from the level's nodes, and not learned from misses.",
            ..SMILE
        },
        Chart {
            id: "smile-graph-ahead",
            title: "What the correlation prefetcher gains a search",
            redraws: "Section 5.3",
            even: true,
            shape: Shape::Bars,
            unit: "speed with over without",
            points: &[
                point("text", "stored as it came, this disk"),
                point("locality", "reordered, this disk"),
                point("modelled", "stored as it came, modelled SD card"),
            ],
            series: &[run("", "ratio.bfs_ahead.{}")],
            printed: &[printed("the thesis", "future work, no figure")],
            question: NO_FIGURE_OF_PREFETCHER,
            differs: "large levels are searched by eight fibers a thread, whose reads overlap without it, and share the memory that reading ahead takes.",
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
            id: "smile-rest",
            title: "What the pool keeps, and what it costs",
            shape: Shape::Table,
            unit: "",
            points: &[
                point("ratio.scan_warm_over_flat", "warm scan over the same loop on a flat buffer"),
                point("reads.second_scan", "pages read by a second scan"),
                point("hit_rate.engine", "hit rate of a mix of requests"),
                point("hit_rate.lru", "the same, LRU by the book"),
                point("ratio.hit_rate_over_lru", "the one over the other"),
                point("ratio.random_prefetch_bytes", "bytes of random reads, with prefetch over without"),
            ],
            series: &[run("litefoot", "{}")],
            ..SMILE
        },
    ],
};
