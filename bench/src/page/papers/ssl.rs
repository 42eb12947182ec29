//! SSL: the paper's charts of speed and recovery, and its table of mobile workloads.

use crate::page::chart::{Chart, PLAIN, Point, Question, Section, Shape, beside, paper, point, printed, run};

const TRACES: &[Point] = &[
    point("androbench", "Androbench"),
    point("gmail", "Gmail"),
    point("kakaotalk", "KakaoTalk"),
    point("facebook", "Facebook"),
    point("browser", "Browser"),
    point("twitter", "Twitter"),
];

const SSL: Chart = Chart { experiment: "ssl", points: TRACES, ..PLAIN };

const NOT_ITS_TRACES: Question = Question::Near(
    "the paper's traces are not public; these transactions have the numbers of its table. Its log is of statements; litefoot's \
     default is deltas of pages",
);
const ANOTHER_DISK: Question = Question::Near(
    "the paper has an SD card beneath its board; this is the disk of the machine named below. Its traces are not public; these \
     transactions have the numbers of its table",
);
const MODELLED: Question = Question::Near(
    "modelled: the requests of each side, charged by a table of latencies and bandwidths, without processor time. All files are on \
     the device; the paper has only its log on phase-change memory",
);

pub const SECTION: Section = Section {
    id: "ssl",
    title: "SSL: statements instead of pages",
    source: "J.-H. Park, G. Oh, S.-W. Lee, SQL Statement Logging for Making SQLite Truly Lite, 2018",
    about: "Transactions with the numbers of the paper's table (files, transactions, statements, bytes of SQL), all sides at \
        synchronous=FULL. Preparing the databases does not count, closing them does. Numbers of other devices are modelled.",
    terms: &[],
    experiments: &["ssl"],
    charts: &[
        Chart {
            id: "ssl-ratio",
            even: true,
            title: "Speed over SQLite in WAL mode",
            redraws: "Performance evaluation (2), SD card",
            unit: "times as fast",
            series: &[
                run("SQLite, DELETE", "ratio.{}.delete_full_over_wal_full"),
                run("litefoot, deltas", "ratio.{}.deltas_over_wal_full"),
                run("litefoot, statements", "ratio.{}.statements_over_wal_full"),
            ],
            printed: &[beside(
                "all traces, log on an SD card",
                "2 to 6 times",
                &[
                    "ratio.androbench.statements_over_wal_full",
                    "ratio.gmail.statements_over_wal_full",
                    "ratio.kakaotalk.statements_over_wal_full",
                    "ratio.facebook.statements_over_wal_full",
                    "ratio.browser.statements_over_wal_full",
                    "ratio.twitter.statements_over_wal_full",
                ],
            )],
            question: ANOTHER_DISK,
            differs: "the paper's card takes milliseconds for each block. Where a block costs little beside its sync, fewer blocks save \
                little: each side syncs once for a commit. Capture also takes processor time.",
            ..SSL
        },
        Chart {
            id: "ssl-model-sd",
            even: true,
            title: "Modelled SD card: device time of SQLite in WAL mode over that of others",
            redraws: "Performance evaluation (2), SD card",
            unit: "times as fast, modelled",
            series: &[
                run("SQLite, DELETE", "model_ratio.sd_a1.{}.delete_full_over_wal_full"),
                run("litefoot, deltas", "model_ratio.sd_a1.{}.deltas_over_wal_full"),
                run("litefoot, statements", "model_ratio.sd_a1.{}.statements_over_wal_full"),
            ],
            printed: &[printed("all traces, log on an SD card", "2 to 6 times")],
            question: MODELLED,
            differs: "a commit of the model costs its first block and its flush on every side; only the blocks behind the first, and the \
                checkpoints, are saved.",
            ..SSL
        },
        Chart {
            id: "ssl-model",
            title: "Modelled devices: device time of SQLite in WAL mode over litefoot's",
            redraws: "Performance evaluation (1), (2)",
            shape: Shape::Table,
            unit: "times as fast, modelled",
            series: &[
                run("eMMC 5.1, deltas", "model_ratio.emmc_5_1.{}.deltas_over_wal_full"),
                run("statements", "model_ratio.emmc_5_1.{}.statements_over_wal_full"),
                run("UFS 3.1, deltas", "model_ratio.ufs_3_1.{}.deltas_over_wal_full"),
                run("statements", "model_ratio.ufs_3_1.{}.statements_over_wal_full"),
                run("phase-change memory, deltas", "model_ratio.pcm.{}.deltas_over_wal_full"),
                run("statements", "model_ratio.pcm.{}.statements_over_wal_full"),
            ],
            printed: &[printed("all traces", "drawn, without numbers")],
            question: MODELLED,
            differs: "the paper draws its bars of this without numbers.",
            ..SSL
        },
        Chart {
            id: "ssl-model-us",
            title: "Modelled devices: device time of a transaction",
            shape: Shape::Table,
            unit: "µs, modelled",
            series: &[
                run("SD card: SQLite, WAL", "model_us.sd_a1.{}.wal_full"),
                run("deltas", "model_us.sd_a1.{}.deltas"),
                run("statements", "model_us.sd_a1.{}.statements"),
                run("eMMC: SQLite, WAL", "model_us.emmc_5_1.{}.wal_full"),
                run("statements", "model_us.emmc_5_1.{}.statements"),
                run("UFS: SQLite, WAL", "model_us.ufs_3_1.{}.wal_full"),
                run("statements", "model_us.ufs_3_1.{}.statements"),
                run("PCM: SQLite, WAL", "model_us.pcm.{}.wal_full"),
                run("statements", "model_us.pcm.{}.statements"),
            ],
            ..SSL
        },
        Chart {
            id: "ssl-speed",
            title: "Durable transactions",
            redraws: "Performance evaluation (2)",
            unit: "transactions a second",
            series: &[
                run("SQLite, WAL", "txn_per_s.{}.wal_full"),
                run("SQLite, DELETE", "txn_per_s.{}.delete_full"),
                run("litefoot, deltas", "txn_per_s.{}.deltas"),
                run("litefoot, statements", "txn_per_s.{}.statements"),
            ],
            printed: &[printed("all traces", "drawn, without numbers")],
            question: ANOTHER_DISK,
            differs: "transactions a second are those of the disk; the ratios above are what compares.",
            ..SSL
        },
        Chart {
            id: "ssl-share",
            title: "What litefoot's commits were logged as",
            shape: Shape::Table,
            unit: "share of the commits",
            series: &[
                run("commit_log=statements: captured", "share.statements.{}.statements"),
                run("deltas", "share.deltas.{}.statements"),
                run("pages", "share.pages.{}.statements"),
                run("by default: deltas", "share.deltas.{}.deltas"),
                run("pages", "share.pages.{}.deltas"),
            ],
            note: "With commit_log=statements a commit is logged as deltas where these are smaller.",
            ..SSL
        },
        Chart {
            id: "ssl-pages",
            title: "Pages written for a transaction",
            redraws: "Table “Mobile Workloads”, page writes / TX",
            unit: "blocks of 4 KiB",
            series: &[
                run("SQLite, WAL", "page_writes.{}.wal_full"),
                run("SQLite, DELETE", "page_writes.{}.delete_full"),
                run("litefoot, deltas", "page_writes.{}.deltas"),
                run("litefoot, statements", "page_writes.{}.statements"),
                paper(
                    "paper: its traces on SQLite",
                    &[Some(3.38), Some(8.58), Some(3.58), Some(3.11), Some(3.88), Some(1.40)],
                ),
            ],
            question: NOT_ITS_TRACES,
            differs: "ours count checkpoints, closing and the log's own blocks.",
            ..SSL
        },
        Chart {
            id: "ssl-bytes",
            even: true,
            title: "Bytes written, over those of SQLite in WAL mode",
            redraws: "Performance evaluation (1): number of writes",
            unit: "of SQLite's",
            series: &[
                run("SQLite, DELETE", "bytes.{}.delete_full_over_wal_full"),
                run("litefoot, deltas", "bytes.{}.deltas_over_wal_full"),
                run("litefoot, statements", "bytes.{}.statements_over_wal_full"),
            ],
            printed: &[printed("all traces", "drawn, without numbers")],
            question: NOT_ITS_TRACES,
            differs: "the paper draws its bars of this without numbers.",
            ..SSL
        },
        Chart {
            id: "ssl-device-bytes",
            even: true,
            title: "Bytes at a device with ext4, over those of SQLite in WAL mode",
            unit: "of SQLite's",
            series: &[
                run("SQLite, DELETE", "device_bytes.{}.delete_full_over_wal_full"),
                run("litefoot, deltas", "device_bytes.{}.deltas_over_wal_full"),
                run("litefoot, statements", "device_bytes.{}.statements_over_wal_full"),
            ],
            ..SSL
        },
        Chart {
            id: "ssl-syncs",
            title: "Syncs of a transaction",
            shape: Shape::Table,
            unit: "syncs of files and directories",
            series: &[
                run("SQLite, WAL", "syncs_per_txn.{}.wal_full"),
                run("SQLite, DELETE", "syncs_per_txn.{}.delete_full"),
                run("litefoot, deltas", "syncs_per_txn.{}.deltas"),
                run("litefoot, statements", "syncs_per_txn.{}.statements"),
            ],
            ..SSL
        },
        Chart {
            id: "ssl-checkpoints",
            title: "Syncs of the database files in the whole trace",
            redraws: "Performance evaluation (1): number of checkpoints",
            unit: "syncs",
            series: &[
                run("SQLite, WAL", "checkpoints.{}.wal_full"),
                run("litefoot, deltas", "checkpoints.{}.deltas"),
                run("litefoot, statements", "checkpoints.{}.statements"),
            ],
            printed: &[printed("all traces", "drawn, without numbers")],
            question: NOT_ITS_TRACES,
            differs: "the paper draws its bars of this without numbers. Closing is a checkpoint of every file.",
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
                point("100_percent", "full, 4 MiB"),
            ],
            series: &[
                run("litefoot, deltas", "recovery_s.deltas.{}"),
                run("litefoot, statements", "recovery_s.statements.{}"),
            ],
            printed: &[beside(
                "full log, worst trace",
                "less than 1 s",
                &["recovery_s.statements.100_percent", "recovery_s.deltas.100_percent"],
            )],
            question: Question::Near(
                "the paper names neither the length of its log nor what was in memory; here nothing of the files is",
            ),
            differs: "a board of two cores at 1 GHz with an SD card takes longer to run and to read the same.",
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
