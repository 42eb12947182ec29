//! P-SQLITE: figures 2, 3, 7 and 8 of the paper.

use crate::page::chart::{Chart, PLAIN, Point, Section, Shape, paper, point, printed, run};

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
    point("litefoot_all_k256", "litefoot, logs and 256 chunks on PRAM"),
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

pub const SECTION: Section = Section {
    id: "psqlite",
    title: "P-SQLITE: hot chunks on fast memory",
    source: "W. Choi et al., P-SQLITE: PRAM-Based Mobile DBMS for Write Performance Enhancement, 2013",
    about: "The databases of Android's browser, messages, phone book and alarms, driven through real SQLite on modelled devices with \
        the paper's parameters (its table II): 256 MiB of NAND, filled to 90 %, and a PRAM. The paper's PRAM is full of other \
        databases; here the number of chunks says how much there is.",
    terms: &[],
    experiments: &["psqlite"],
    charts: &[
        Chart {
            id: "psqlite-period",
            title: "Time of the database's writes by the length of a period",
            redraws: "Figure 2",
            shape: Shape::Lines,
            points: PERIODS,
            series: &[run("", "period_time.p{}")],
            printed: &[printed("best length of a period, in transactions", "5")],
            note: "The x axis has transactions of a period.",
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
            ..PSQLITE
        },
        Chart {
            id: "psqlite-saved",
            title: "Write time saved",
            redraws: "Figure 7, mean of the applications",
            unit: "% less than NAND alone",
            series: &[
                run("this run", "reduction.time_{}"),
                paper(
                    "paper",
                    &[Some(7.0), Some(50.0), None, None, None, Some(77.0), None, None, None, None],
                ),
            ],
            printed: &[printed("P-SQLITE over Journal and PFFS2 together", "47 %")],
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
            ..PSQLITE
        },
        Chart {
            id: "psqlite-writes",
            title: "Writes and erases of the NAND, phone book",
            redraws: "Figure 8",
            series: &[
                run("page writes", "nand_writes.{}"),
                run("erases", "erases.{}"),
                paper("paper: writes", &[None, None, None, None, Some(54.0), None, None, None, None, None]),
                paper("paper: erases", &[None, None, None, None, Some(49.0), None, None, None, None, None]),
            ],
            note: "The paper prints savings of 46 % and 51 %, for a tier whose size it does not say.",
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
    ],
};
