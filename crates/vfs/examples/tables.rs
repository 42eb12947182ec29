//! The tables of the documentation that list what the code knows, as `cargo xtask docs` reads them.
//!
//! Each table begins with a line `== NAME`, and goes on in the language of the file that shows the table.

use litefoot_storage::file::FileKind;
use litefoot_vfs::Options;
use litefoot_vfs::open::recovery::{CASES, Step};
use litefoot_vfs::stats::{FigureKind, described, described_causes};

fn main() {
    println!("== options\n| option | takes | meaning | change it when |\n|---|---|---|---|");
    for option in Options::described() {
        let (name, default) = (option.name, option.default);
        println!("| `{name}={default}` | {} | {} | {} |", option.takes, option.meaning, option.change_when);
    }
    println!("== option-names");
    for option in Options::described() {
        println!("    \"{}\",", option.name);
    }
    println!("== metrics\n| name | kind | meaning |\n|---|---|---|");
    for figure in described() {
        let kind = if figure.kind == FigureKind::Counter { "counter" } else { "gauge" };
        println!("| `{}` | {kind} | {} |", figure.name, figure.meaning);
    }
    println!("== files\n| FILE |\n|---|");
    for kind in FileKind::ALL {
        println!("| `{}` |", kind.name());
    }
    println!("== causes\n| CAUSE | meaning |\n|---|---|");
    for (name, meaning) in described_causes() {
        println!("| `{name}` | {meaning} |");
    }
    for step in Step::ALL {
        let columns = step.columns();
        println!("== {}\n| {} | meaning | what opening does |", step.name(), columns.join(" | "));
        println!("|{}", "---|".repeat(columns.len() + 2));
        for case in CASES.iter().filter(|case| case.step() == step) {
            println!("| {} | {} | {} |", case.found.join(" | "), case.meaning, case.action);
        }
    }
}
