//! The project's one entry point for checks: `cargo xtask test`.
//!
//! Runs the steps of [`STEPS`] one behind the other, says how long each took, stops at the first that
//! fails, and ends with one line: how many checks passed and failed. A check is a test that `cargo test`
//! counts, or a step that has no tests of its own.
//!
//! `cargo xtask boards` takes longer, needs cross compilers, and is no step: see [`boards`]; nor is `cargo xtask sqlite`. Of SQLite's own
//! tests (`cargo xtask sqlite-suite`) a few files are one.

mod boards;
mod fuzz;
mod licences;
mod miri;
mod process;
mod sqlite;
mod sqlite_suite;
mod tables;
mod threads;

use process::Tally;
use std::process::ExitCode;
use std::time::Instant;

/// Why a step failed, in one line.
type Result<T> = std::result::Result<T, String>;

struct Step {
    name: &'static str,
    does: &'static str,
    run: fn() -> Result<Tally>,
}

const STEPS: &[Step] = &[
    Step {
        name: "format",
        does: "the source is formatted",
        run: || process::cargo(&["fmt", "--all", "--check"]),
    },
    Step {
        name: "lint",
        does: "clippy has nothing to say",
        run: || {
            process::cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
        },
    },
    Step {
        name: "licences",
        does: "dependencies may be used, and none has a known hole",
        run: licences::check,
    },
    Step {
        name: "tables",
        does: "the tables of options and metrics are what the code says",
        run: tables::check,
    },
    Step {
        name: "build",
        does: "the program, the loadable extension and the laboratory",
        run: || process::cargo(&["build", "--locked"]),
    },
    Step {
        name: "tests",
        does: "unit, property, integration and documentation tests",
        run: || process::cargo(&["test", "--workspace", "--locked"]),
    },
    Step {
        name: "power-cuts",
        does: "20,000 simulated power cuts over both journal families lose nothing",
        run: || {
            let arguments = ["run", "-q", "--locked", "-p", "litefoot-bench", "--", "crash"];
            process::cargo(&[&arguments[..], &["--cuts", "20000", "--seed", "1"]].concat())
        },
    },
    Step { name: "threads", does: "the tests of threads under the thread sanitizer", run: threads::check },
    Step { name: "fuzz", does: "hostile bytes for each parser, some seconds each", run: fuzz::check },
    Step {
        name: "faults",
        does: "calls that fail, processes that are killed, random statements: nothing is lost, all is as by SQLite",
        run: || {
            for experiment in ["faults", "kill", "random"] {
                let arguments = ["run", "-q", "--locked", "-p", "litefoot-bench", "--", experiment];
                process::cargo(&[&arguments[..], &["--quick"]].concat())?;
            }
            Ok(Tally { passed: 3, failed: 0 })
        },
    },
    Step {
        name: "end-to-end",
        does: "unmodified programs on litefoot: sqlite3, python3",
        run: || {
            let tests = [
                "--test",
                "end_to_end",
                "--test",
                "forks",
                "--test",
                "footprint",
                "--test",
                "rewritten_frames",
                "--test",
                "whose_log",
            ];
            let arguments = [&["test", "--locked", "-p", "litefoot-cli"], &tests[..], &["--", "--ignored"]];
            process::cargo(&arguments.concat())
        },
    },
    Step {
        name: "python",
        does: "the Python package",
        run: || {
            let arguments = ["-m", "unittest", "discover", "-s", "python/tests", "-t", "python"];
            process::unittest(&arguments, &[])
        },
    },
    Step {
        name: "examples",
        does: "the examples whose toolchains and packages are there; nothing is downloaded",
        run: || process::unittest(&["examples/test.py"], &[("LITEFOOT_EXAMPLES_OFFLINE", "1")]),
    },
    Step {
        name: "documents",
        does: "every block of code in README.md and docs/ runs",
        run: || {
            let tests = ["--test", "documentation", "--", "--ignored", "--nocapture"];
            process::cargo(&[&["test", "--locked", "-p", "litefoot-cli"], &tests[..]].concat())
        },
    },
    Step {
        name: "sqlite-suite",
        does: "files of SQLite's own tests, on SQLite as it is and on litefoot",
        run: || sqlite_suite::run(&["--short"]),
    },
    Step {
        name: "docs",
        does: "the documentation builds without warnings",
        run: || {
            process::cargo_with(
                &["doc", "--workspace", "--no-deps", "--locked"],
                &[("RUSTDOCFLAGS", "-D warnings")],
            )
        },
    },
];

/// Builds SQLite twice more: no step of the checks.
const SQLITE: Step =
    Step { name: "sqlite", does: "the pool and the tier under other builds of SQLite", run: sqlite::check };

/// Interpreting takes longer than all other checks together: no step of them.
const MIRI: Step = Step {
    name: "miri",
    does: "what works in memory, interpreted, where Miri is installed",
    run: miri::check,
};

const DOCS: Step = Step {
    name: "docs",
    does: "writes the tables of options and metrics from the code into the documents",
    run: tables::write,
};

const BOARDS: Step = Step {
    name: "boards",
    does: "built for small boards as released, tried under emulation, and measured",
    run: boards::check,
};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["boards"] => test(vec![&BOARDS]),
        ["sqlite"] => test(vec![&SQLITE]),
        ["miri"] => test(vec![&MIRI]),
        ["docs"] => test(vec![&DOCS]),
        ["docs", "--check"] => test(STEPS.iter().filter(|step| step.name == "tables").collect()),
        ["fuzz", arguments @ ..] => match fuzz::drive(arguments) {
            Ok(_) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        ["sqlite-suite", options @ ..] => suite(options),
        ["test"] => test(STEPS.iter().collect()),
        ["test", names @ ..] => match names.iter().map(|name| find(name)).collect() {
            Ok(steps) => test(steps),
            Err(unknown) => usage(&format!("unknown step {unknown:?}")),
        },
        _ => usage("what shall I do?"),
    }
}

/// SQLite's own tests, with options.
fn suite(options: &[&str]) -> ExitCode {
    match sqlite_suite::run(options) {
        Ok(tally) => {
            println!("{} passed, {} failed", tally.passed, tally.failed);
            if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why) => {
            println!("sqlite-suite: {why}");
            ExitCode::FAILURE
        }
    }
}

fn find(name: &str) -> std::result::Result<&'static Step, &str> {
    STEPS.iter().find(|step| step.name == name).ok_or(name)
}

fn usage(complaint: &str) -> ExitCode {
    eprintln!(
        "xtask: {complaint}\n\nUsage: cargo xtask test [STEP…]\n       cargo xtask boards\n       cargo xtask sqlite\n       cargo xtask miri\n       cargo xtask docs [--check]\n       cargo xtask fuzz [TARGET…] [--seconds N] [--seed N]\n       cargo xtask sqlite-suite [OPTION…] [FILE…]\n\nSteps:"
    );
    for step in STEPS {
        eprintln!("  {:<12} {}", step.name, step.does);
    }
    ExitCode::from(2)
}

fn test(steps: Vec<&Step>) -> ExitCode {
    let begun = Instant::now();
    let mut total = Tally::default();
    for (index, step) in steps.iter().enumerate() {
        println!("\n== {}/{} {}: {}", index + 1, steps.len(), step.name, step.does);
        let step_begun = Instant::now();
        let tally = (step.run)().map(Tally::or_one_passed).unwrap_or_else(|why| {
            println!("{}: {why}", step.name);
            Tally { passed: 0, failed: 1 }
        });
        total.add(tally);
        let outcome = if tally.failed == 0 { "passed" } else { "FAILED" };
        println!("== {} {outcome} in {:.1} s", step.name, step_begun.elapsed().as_secs_f64());
        if tally.failed > 0 {
            break;
        }
    }
    println!("\n{:.0} s in all", begun.elapsed().as_secs_f64());
    println!("{} passed, {} failed", total.passed, total.failed);
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
