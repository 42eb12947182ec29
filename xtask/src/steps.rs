//! The steps of the checks, and what else can be run: each is one thing that passes or fails.

use crate::process::{self, Result, Tally};
use crate::{boards, fuzz, licences, miri, publish, sqlite, sqlite_suite, tables, threads};

/// One thing that can be run.
pub struct Step {
    /// The name by which users ask for the step.
    pub name: &'static str,
    /// The meaning of a pass, in half a line.
    pub does: &'static str,
    /// Runs the step.
    pub run: fn() -> Result<Tally>,
}

/// The steps that fail quickly, and the build that all others use.
pub const FIRST: &[Step] = &[
    Step {
        name: "format",
        does: "the source is formatted",
        run: || process::cargo(&["fmt", "--all", "--check"]),
    },
    Step {
        name: "licences",
        does: "dependencies may be used, and none has a known hole",
        run: licences::check,
    },
    Step {
        name: "build",
        does: "the programs, the libraries, and their tests",
        run: || process::build(&["--tests"]),
    },
    Step {
        name: "tables",
        does: "the tables of options, metrics and recovery are what the code says",
        run: tables::check,
    },
];

/// The first lane: the tests of the workspace, what runs the programs that it has built, and what takes least on a fresh machine.
pub const FRONT: &[Step] = &[
    Step {
        name: "tests",
        does: "unit, property, integration and documentation tests",
        run: || process::cargo(&["test", "--workspace", "--locked"]),
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
                "visitors",
                "--test",
                "short_openings",
                "--test",
                "rewritten_frames",
                "--test",
                "whose_log",
                "--test",
                "renamed",
                "--test",
                "reach",
                "--test",
                "try_out",
                "--test",
                "apps",
                "--test",
                "amalgamation",
            ];
            let arguments = [&["test", "--locked", "--workspace"], &tests[..], &["--", "--ignored"]];
            process::cargo(&arguments.concat())
        },
    },
    Step {
        name: "examples",
        does: "the examples whose toolchains and packages are there; nothing is downloaded",
        run: || process::unittest(&["examples/test.py"], &[("LITEFOOT_EXAMPLES_OFFLINE", "1")]),
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
        name: "documents",
        does: "every block of code in README.md and docs/ runs",
        run: || {
            let tests = ["--test", "documentation", "--", "--ignored", "--nocapture"];
            process::cargo(&[&["test", "--locked", "--workspace"], &tests[..]].concat())
        },
    },
    Step {
        name: "rustdoc",
        does: "the documentation builds without warnings",
        run: || {
            process::cargo_with(
                &["doc", "--workspace", "--no-deps", "--locked"],
                &[("RUSTDOCFLAGS", "-D warnings")],
            )
        },
    },
];

/// The second lane: what compiles for itself, or keeps one processor busy. The suite is first, since it compiles for
/// minutes without cargo. Clippy needs the build directory for as long on a fresh machine, and the first lane only runs what it has
/// built meanwhile.
pub const BESIDE: &[Step] = &[
    Step {
        name: "sqlite-suite",
        does: "files of SQLite's own tests, on SQLite as it is and on litefoot",
        run: || sqlite_suite::run(&["--short"]),
    },
    Step {
        name: "lint",
        does: "clippy has nothing to say",
        run: || {
            process::cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
        },
    },
    Step {
        name: "power-cuts",
        does: "20,000 simulated power cuts over both journal families lose nothing",
        run: || process::laboratory(&["crash", "--cuts", "20000", "--seed", "1"]),
    },
    Step { name: "threads", does: "the tests of threads under the thread sanitizer", run: threads::check },
    Step { name: "fuzz", does: "hostile bytes for each parser, some seconds each", run: fuzz::check },
    Step {
        name: "faults",
        does: "calls that fail, killed processes, files that others handle, random statements: nothing is lost, all is as by SQLite",
        run: || {
            for experiment in ["faults", "kill", "histories", "random"] {
                process::laboratory(&[experiment, "--quick"])?;
            }
            process::laboratory(&["visitors", "--kill-at-calls", "--quick"])?;
            Ok(Tally { passed: 5, failed: 0 })
        },
    },
];

/// The check of two minutes: with `format`, `lint` and `tables`. The laboratory and power cuts are left to `tests`.
pub const UNIT: Step = Step {
    name: "unit",
    does: "unit and documentation tests; those of the laboratory and of power cuts are left out",
    run: || {
        let all =
            ["test", "--locked", "--workspace", "--exclude", "litefoot-bench", "--exclude", "litefoot-peers"];
        let mut tally =
            process::cargo(&[&all[..], &["--lib", "--bins", "--", "--skip", "power::"]].concat())?;
        if tally.failed == 0 {
            tally.add(process::cargo(&[&all[..], &["--doc"]].concat())?);
        }
        Ok(tally)
    },
};

/// Runs that are no steps of the checks: they take longer, or need tools that few machines have.
pub const APART: &[Step] = &[
    Step { name: "sqlite", does: "the pool and the tier under other builds of SQLite", run: sqlite::check },
    Step {
        name: "miri",
        does: "what works in memory, interpreted, where Miri is installed",
        run: miri::check,
    },
    Step {
        name: "publish",
        does: "the library crates could be published: packed, and built from their packages",
        run: publish::check,
    },
    Step {
        name: "members",
        does: "processes of a group (sharing=group) that die, and strangers beside them",
        run: || {
            process::cargo(&[
                "test",
                "--locked",
                "-p",
                "litefoot",
                "--test",
                "group_members",
                "--",
                "--include-ignored",
            ])
        },
    },
    Step {
        name: "ship",
        does: "the tests of rows and backups alone, then once more without TLS, NATS and buckets",
        run: || {
            let packages =
                ["test", "--locked", "-p", "litefoot-cli", "-p", "litefoot-rowsink", "-p", "litefoot-ship"];
            let tests = ["--lib", "--test", "ship", "--test", "postgres"];
            let mut tally = process::cargo(&[&packages[..], &tests, &["--test", "nats"]].concat())?;
            if tally.failed == 0 {
                tally.add(process::cargo(&[&packages[..], &["--no-default-features"], &tests].concat())?);
            }
            Ok(tally)
        },
    },
    Step {
        name: "boards",
        does: "built for small boards as released, tried under emulation, and measured",
        run: boards::check,
    },
];

/// Writes what `tables` compares.
pub const DOCS: Step = Step {
    name: "write-tables",
    does: "writes the tables of options, metrics and recovery from the code into the documents",
    run: tables::write,
};

/// All steps of the checks.
pub fn all() -> impl Iterator<Item = &'static Step> {
    FIRST.iter().chain(FRONT).chain(BESIDE)
}

/// The steps of these names; the first name that is none of a step's, where there is one.
pub fn named<'a>(names: &[&'a str]) -> std::result::Result<Vec<&'static Step>, &'a str> {
    names.iter().map(|name| all().chain([&UNIT]).find(|step| step.name == *name).ok_or(*name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let names: Vec<_> = all().chain(APART).chain([&UNIT]).map(|step| step.name).collect();
        assert_eq!(names.len(), names.iter().collect::<std::collections::HashSet<_>>().len(), "{names:?}");
    }

    #[test]
    fn steps_are_found_by_their_names() {
        assert_eq!(
            named(&["fuzz", "unit"]).unwrap().iter().map(|step| step.name).collect::<Vec<_>>(),
            ["fuzz", "unit"]
        );
        assert_eq!(named(&["format", "formats"]).err(), Some("formats"));
    }
}
