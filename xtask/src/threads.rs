//! Tests under the thread sanitizer.
//!
//! Every test whose name begins with `threads_` is built and run once more with the sanitizer. The sanitizer covers
//! litefoot's code, its crates and SQLite. First a program with a planted race must be reported: a sanitizer that is
//! not in the build would find nothing.
//!
//! The sanitizer takes a nightly compiler. Where there is none and none can be fetched, the step says
//! that it checked nothing.

use crate::process::{self, Result, Tally};
use std::path::Path;
use std::process::{Command, Stdio};

/// The standard library comes compiled, without the sanitizer, so three of its actions look like races. They are the
/// result of a thread at its end, messages of the test harness between threads, and the end of an `Arc`. `Arc` orders
/// that by a fence, which the sanitizer does not know. So do `OnceLock` and its like between threads: ours hand over by
/// atomics of their own instead, which the sanitizer sees. SQLite begins its log anew, and recovers its index, with plain
/// stores to marks that others read atomically.
const SUPPRESSIONS: &str = "race:^walRestartHdr$
race:^walIndexRecover$
race:^drop_glue<alloc::sync::Arc
race:^<alloc::sync::Arc
race:drop<std::thread
race:^<alloc::sync::Arc<std::thread
race:MaybeUninit<test::event
race:test::event::CompletedTest";

/// The packages with such tests.
const PACKAGES: [(&str, &str); 5] = [
    ("litefoot-storage", "crates/storage"),
    ("litefoot-pagestore", "crates/pagestore"),
    ("litefoot-tier", "crates/tier"),
    ("litefoot", "crates/litefoot"),
    ("litefoot-vfs", "crates/vfs"),
];

/// The program with a race, an example of the first of them.
const RACE: &str = "planted_race";

/// Runs the step.
pub fn check() -> Result<Tally> {
    let Some(target) = nightly_target() else {
        println!("threads: NOT CHECKED, the thread sanitizer takes a nightly compiler");
        println!("         (rustup toolchain install nightly --profile minimal)");
        return Ok(Tally { passed: 1, failed: 0 });
    };
    let directory = process::target_directory().join("thread-sanitizer");
    std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let suppressions = directory.join("suppressions");
    std::fs::write(&suppressions, SUPPRESSIONS)
        .map_err(|error| format!("{}: {error}", suppressions.display()))?;
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new("rustup");
        command.args(["run", "nightly", "cargo"]).args(arguments).args(["--locked", "--target", &target]);
        // To compile for speed takes longer than what these tests do.
        command.args([
            "--config",
            "profile.dev.opt-level=0",
            "--config",
            "profile.dev.package.\"*\".opt-level=0",
        ]);
        command.arg("--target-dir").arg(&directory);
        for inherited in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
            command.env_remove(inherited);
        }
        command
            .env("RUSTFLAGS", "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer")
            .env("CFLAGS", "-fsanitize=thread -g -fno-inline")
            .env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()));
        command
    };
    // Of the same packages as the tests, so that cargo gives what both use the same features, and builds it once.
    let packages: Vec<&str> = PACKAGES.iter().flat_map(|(package, _)| ["-p", package]).collect();
    process::tally(&mut cargo(&[&["build", "-q", "--example", RACE], &packages[..]].concat()))?;
    let mut race = Command::new(directory.join(&target).join("debug/examples").join(RACE));
    race.env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()));
    find_the_planted_race(race)?;
    let mut arguments = vec!["test".to_owned(), "--lib".to_owned()];
    for (package, directory) in PACKAGES {
        arguments.extend(["-p".to_owned(), package.to_owned()]);
        for test in tests_with_threads(directory)? {
            arguments.extend(["--test".to_owned(), test]);
        }
    }
    arguments.push("threads_".to_owned());
    process::tally_of_all_output(&mut cargo(&arguments.iter().map(String::as_str).collect::<Vec<_>>()))
}

/// The test programs of a package that have such tests; to build the others takes most of the time.
fn tests_with_threads(directory: &str) -> Result<Vec<String>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(directory).join("tests");
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut tests = Vec::new();
    if !directory.is_dir() {
        return Ok(tests);
    }
    for entry in std::fs::read_dir(&directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let source = path.extension().filter(|extension| *extension == "rs").and(path.file_stem());
        let Some(name) = source else { continue };
        if std::fs::read_to_string(&path).map_err(failed)?.contains("fn threads_") {
            tests.push(name.to_string_lossy().into_owned());
        }
    }
    tests.sort();
    Ok(tests)
}

fn find_the_planted_race(mut program: Command) -> Result<()> {
    let output =
        program.output().map_err(|error| format!("the program with a race cannot be started: {error}"))?;
    let report = String::from_utf8_lossy(&output.stderr);
    if report.contains("ThreadSanitizer: data race") {
        return Ok(());
    }
    Err(format!("the sanitizer did not report the planted race; it said:\n{report}"))
}

/// The target triple of a nightly compiler, fetched if need be.
fn nightly_target() -> Option<String> {
    host_of_nightly().or_else(|| {
        let fetched = Command::new("rustup")
            .args(["toolchain", "install", "nightly", "--profile", "minimal", "--no-self-update"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        fetched.is_ok_and(|status| status.success()).then(host_of_nightly).flatten()
    })
}

fn host_of_nightly() -> Option<String> {
    let output = Command::new("rustup")
        .args(["run", "nightly", "rustc", "-vV"])
        .env_remove("RUSTUP_TOOLCHAIN")
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned)
}
