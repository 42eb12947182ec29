//! P-SQLITE: figures 2, 3, 7 and 8 of the paper, and the sides that a user can configure.

use crate::page::chart::{Chart, PLAIN, Point, Question, Section, Shape, beside, paper, point, printed, run};

const SYSTEMS: &[Point] = &[
    point("pffs2", "PFFS2"),
    point("journal", "Journal"),
    point("journal_pffs2", "Journal and PFFS2"),
    point("psqlite_k64", "P-SQLITE, 64 chunks"),
    point("psqlite_k256", "P-SQLITE, 256 chunks"),
    point("all_k256", "all three, 256 chunks"),
    point("litefoot_pages", "litefoot, redo log on flash"),
    point("litefoot_statements", "litefoot, commit log on flash"),
    point("litefoot_pram", "litefoot, commit log on PRAM"),
];

const SIDES: &[Point] = &[
    point("logs_rollback", "logs alone, rollback journal"),
    point("chunks_rollback_k256", "256 chunks alone, rollback journal"),
    point("tier_rollback_k64", "logs and 64 chunks, rollback journal"),
    point("tier_rollback_k256", "logs and 256 chunks, rollback journal"),
    point("tier_rollback", "logs and 8 MB, rollback journal"),
    point("logs_wal", "logs alone, WAL"),
    point("chunks_wal_k256", "256 chunks alone, WAL"),
    point("tier_wal_k64", "logs and 64 chunks, WAL"),
    point("tier_wal_k256", "logs and 256 chunks, WAL"),
    point("tier_wal", "logs and 8 MB, WAL"),
];

const TIERS: &[Point] = &[
    point("tier_rollback_k64", "64 chunks, rollback journal"),
    point("tier_rollback_k256", "256 chunks, rollback journal"),
    point("tier_rollback", "8 MB, rollback journal"),
    point("tier_wal_k64", "64 chunks, WAL"),
    point("tier_wal_k256", "256 chunks, WAL"),
    point("tier_wal", "8 MB, WAL"),
];

const DATABASES: &[Point] = &[
    point("webview", "browser: passwords, cookies"),
    point("webview_cache", "browser: cache"),
    point("webview_icons", "browser: icons"),
    point("mmssms", "messages"),
    point("contacts2", "phone book"),
    point("alarms", "alarms"),
    point("ycsb_a", "YCSB A: Zipfian updates"),
    point("ycsb_d", "YCSB D: inserts"),
];

const PERIODS: &[Point] = &[
    point("1", "1"),
    point("2", "2"),
    point("3", "3"),
    point("5", "5"),
    point("7", "7"),
    point("10", "10"),
    point("15", "15"),
    point("20", "20"),
    point("30", "30"),
];

const PSQLITE: Chart =
    Chart { experiment: "psqlite", points: SYSTEMS, unit: "% of NAND alone", times: 100.0, ..PLAIN };

/// What all figures of the paper's have in common.
const MODELLED: Question = Question::Near(
    "the paper ran the applications on a board, with a PRAM that other databases had filled; here both devices are a model, the \
     mixes of statements are guesses, and the number of chunks says how much PRAM there is",
);

pub const SECTION: Section = Section {
    id: "psqlite",
    title: "P-SQLITE: hot chunks on fast memory",
    source: "W. Choi et al., P-SQLITE: PRAM-Based Mobile DBMS for Write Performance Enhancement, 2013",
    about: "The databases of Android's browser, messages, phone book and alarms, driven through real SQLite on modelled devices with \
        the paper's parameters (its table II): 256 MiB of NAND, filled to 90 %, and a PRAM. Beside them stand the writes of two \
        published mixes, YCSB's workloads A and D (Cooper et al., 2010): phones use SQLite mostly as a key-value store (Kennedy et \
        al., Pocket Data, 2015). PFFS2, Journal and P-SQLITE are the paper's design, beneath SQLite as it is. The sides with a tier \
        are litefoot's, as a user configures them (option tier). All sides commit with synchronous=FULL.",
    terms: &[],
    experiments: &["psqlite"],
    charts: &[
        Chart {
            id: "psqlite-period",
            title: "Time of the database's writes by the length of a period",
            redraws: "Figure 2",
            shape: Shape::Lines,
            points: PERIODS,
            series: &[
                run("4 chunks", "period_time.k4.p{}"),
                run("8 chunks", "period_time.k8.p{}"),
                run("16 chunks", "period_time.k16.p{}"),
                run("64 chunks", "period_time.k64.p{}"),
            ],
            printed: &[
                beside(
                    "best length of a period, in transactions (4, 8, 16, 64 chunks)",
                    "5",
                    &["period_best.k4", "period_best.k8", "period_best.k16", "period_best.k64"],
                ),
                beside("chunks that a database's transactions write", "not said", &["period_chunks"]),
            ],
            note: "The x axis has transactions of a period.",
            question: MODELLED,
            differs: "a period keeps chunks out that are written once, and makes hot ones wait. Where most of what is written fits, \
                nothing has to leave, and waiting is all that a longer period does: one transaction is best. With less room the chunks \
                of one transaction push out those of the last, and a longer period pays; between 2 and 7 transactions little \
                differs then. The paper's PRAM was full.",
            ..PSQLITE
        },
        Chart {
            id: "psqlite-predictor",
            title: "Error of a prediction by the periods it looks back",
            redraws: "Figure 3",
            shape: Shape::Lines,
            unit: "% of a period",
            points: &[point("1", "1"), point("2", "2"), point("3", "3"), point("4", "4"), point("5", "5")],
            series: &[
                run("moving average", "predictor_error.ma.h{}"),
                run("weighted", "predictor_error.wma.h{}"),
                run("EWMA", "predictor_error.ewma.h{}"),
                paper("paper: EWMA", &[None, Some(9.0), None, None, None]),
            ],
            printed: &[printed("EWMA over two periods: mean, worst", "9 %, 15 %")],
            question: MODELLED,
            differs: "the mixes of statements are others.",
            ..PSQLITE
        },
        Chart {
            id: "psqlite-saved",
            title: "Write time saved",
            redraws: "Figure 7, mean of the applications",
            unit: "% less than NAND alone",
            series: &[
                run("this run", "reduction.time_{}"),
                paper("paper", &[Some(7.0), Some(50.0), None, None, None, Some(77.0), None, None, None]),
            ],
            printed: &[printed("P-SQLITE over Journal and PFFS2 together", "47 %")],
            question: MODELLED,
            differs: "the databases are small against 256 chunks, so that nearly all of what is written fits.",
            ..PSQLITE
        },
        Chart {
            id: "psqlite-time",
            title: "Write time of each application",
            redraws: "Figure 7",
            shape: Shape::Table,
            series: &[
                run("browser", "write_time.browser.{}"),
                run("messages", "write_time.messages.{}"),
                run("phone book", "write_time.phone_book.{}"),
                run("alarm", "write_time.alarm.{}"),
            ],
            printed: &[printed("each application", "drawn, without numbers")],
            question: MODELLED,
            differs: "what an application writes depends on its mix of statements.",
            ..PSQLITE
        },
        Chart {
            id: "psqlite-writes",
            title: "Writes and erases of the NAND, phone book",
            redraws: "Figure 8",
            series: &[
                run("page writes", "nand_writes.{}"),
                run("erases", "erases.{}"),
                paper("paper: writes", &[None, None, None, None, Some(54.0), None, None, None, None]),
                paper("paper: erases", &[None, None, None, None, Some(49.0), None, None, None, None]),
            ],
            note: "The paper prints savings of 46 % and 51 %, for a tier whose size it does not say.",
            question: MODELLED,
            differs: "garbage collection depends on how full the flash is, which the paper does not say.",
            ..PSQLITE
        },
        Chart {
            id: "psqlite-amplification",
            title: "Pages written for each of the host's, phone book",
            unit: "write amplification",
            times: 1.0,
            series: &[run("", "write_amplification.{}")],
            ..PSQLITE
        },
        Chart {
            id: "psqlite-sides",
            title: "Litefoot's tier: the paper's databases together",
            unit: "% of SQLite in the same journal mode",
            points: SIDES,
            series: &[
                run("page writes", "over_stock.writes.paper.{}"),
                run("erases", "over_stock.erases.paper.{}"),
                run("time", "over_stock.time.paper.{}"),
            ],
            note: "\"Chunks alone\" has the device in one place and its logs on flash, as by a bind mount of the device alone. \
                Each commit then writes whole pages to a log on flash, which the chunks do not help.",
            ..PSQLITE
        },
        Chart {
            id: "psqlite-over-logs",
            title: "Litefoot's tier: what chunks add to logs on the device, phone book",
            redraws: "Figure 8",
            unit: "% of logs alone",
            points: TIERS,
            series: &[
                run("page writes", "over_logs.writes.contacts2.{}"),
                run("erases", "over_logs.erases.contacts2.{}"),
                run("time", "over_logs.time.contacts2.{}"),
                paper("paper: writes", &[None, Some(54.0), None, None, Some(54.0), None]),
                paper("paper: erases", &[None, Some(49.0), None, None, Some(49.0), None]),
            ],
            question: Question::Near(
                "the paper's savings are those over NAND alone; here the logs are on the fast device already, and have saved most \
                 writes. A checkpoint writes a chunk once for hundreds of commits",
            ),
            differs: "a chunk on the device saves one write for each checkpoint, and costs one when it comes home. A short run has one \
                or two checkpoints. In WAL mode a checkpoint covers so many commits that it writes most of the database, of which 256 \
                chunks are a part. 8 MB have room for every chunk: what is left there is each chunk's one way home, and no choice of \
                chunks can save that.",
            ..PSQLITE
        },
        Chart {
            id: "psqlite-databases",
            title: "Litefoot's tier of 256 chunks, by database",
            shape: Shape::Table,
            unit: "% of logs alone",
            points: DATABASES,
            series: &[
                run("rollback journal: page writes", "over_logs.writes.{}.tier_rollback_k256"),
                run("time", "over_logs.time.{}.tier_rollback_k256"),
                run("WAL: page writes", "over_logs.writes.{}.tier_wal_k256"),
                run("time", "over_logs.time.{}.tier_wal_k256"),
            ],
            note: "Where few chunks are written again between the first and the last checkpoint there is nothing to save.",
            ..PSQLITE
        },
        Chart {
            id: "psqlite-wear",
            title: "Wear of the fast device: the slot written most over the mean, phone book",
            unit: "times the mean",
            times: 1.0,
            points: TIERS,
            series: &[run("", "wear.contacts2.{}")],
            printed: &[beside(
                "the paper's design, 256 chunks (wear is its future work)",
                "not measured",
                &["wear.contacts2.psqlite_k256"],
            )],
            note: "A chunk changes to a slot that was written less as soon as its own is 32 writes ahead. So no slot is ever far ahead \
                in writes, and the ratio falls to 1 as they add up. A large device that was hardly written has a mean below 1.",
            ..PSQLITE
        },
    ],
};
