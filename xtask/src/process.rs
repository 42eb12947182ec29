//! Running cargo, and counting the tests it ran.

use crate::{failures, timing};
use serde_json::Value;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why a step failed, in one line.
pub type Result<T> = std::result::Result<T, String>;

/// How many checks passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Checks that passed.
    pub passed: u64,
    /// Checks that failed.
    pub failed: u64,
}

impl Tally {
    /// Adds another tally to this one.
    pub fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
    }

    /// A step that counted nothing and did not fail is one check that passed.
    pub fn or_one_passed(self) -> Tally {
        if self == Tally::default() { Tally { passed: 1, failed: 0 } } else { self }
    }

    /// Reads the line with which a test binary ends.
    fn from_line(line: &str) -> Tally {
        let number_before = |word: &str| {
            let (before, _) = line.split_once(word)?;
            before.trim_end().rsplit(' ').next()?.parse().ok()
        };
        if !line.starts_with("test result:") {
            return Tally::default();
        }
        Tally { passed: number_before(" passed").unwrap_or(0), failed: number_before(" failed").unwrap_or(0) }
    }
}

/// Runs cargo with its output shown.
pub fn cargo(arguments: &[&str]) -> Result<Tally> {
    cargo_with(arguments, &[])
}

/// Runs cargo with environment variables; a test that fails is counted, anything else that fails is an
/// error.
pub fn cargo_with(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Tally> {
    let mut command = cargo_command(arguments);
    tally(command.envs(environment.iter().copied()))
}

/// Runs a command that ends up in cargo, as above.
pub fn tally(command: &mut Command) -> Result<Tally> {
    let (output, input) = pipe()?;
    count(command.stdout(input), output)
}

/// Runs a command whose reasons may stand on its standard error, which is read as its output is.
pub fn tally_of_all_output(command: &mut Command) -> Result<Tally> {
    let (output, input) = pipe()?;
    let errors = input.try_clone().map_err(|error| format!("a pipe cannot be copied: {error}"))?;
    count(command.stdout(input).stderr(errors), output)
}

/// A pipe: its end to read, and its end to write.
fn pipe() -> Result<(PipeReader, PipeWriter)> {
    std::io::pipe().map_err(|error| format!("a pipe cannot be made: {error}"))
}

/// Runs a command that writes into `output`, shows what it says, and counts its tests.
fn count(command: &mut Command, output: PipeReader) -> Result<Tally> {
    let child = command.spawn();
    // The ends to write that this process has go away, so that the output ends with the child.
    let told = format!("{command:?}");
    command.stdout(Stdio::null()).stderr(Stdio::inherit());
    let mut child = child.map_err(|error| format!("{told} cannot be started: {error}"))?;
    let (mut tally, mut watch) = (Tally::default(), timing::Watch::start());
    let mut failed = failures::Watch::default();
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|error| format!("the output of {told} cannot be read: {error}"))?;
        println!("{line}");
        watch.see(&line);
        failed.see(&line);
        tally.add(Tally::from_line(&line));
    }
    let status = child.wait().map_err(|error| format!("{told} cannot be waited for: {error}"))?;
    if status.success() {
        return Ok(tally);
    }
    println!("the command was: {told}");
    if tally.failed > 0 {
        return Ok(tally);
    }
    failed.ended_badly(&told);
    Err(format!("{:?} ended with {status}", command.get_program()))
}

/// The cargo that runs us.
pub fn cargo_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Tests panic on purpose, and a trace of each buries what failed.
    command.args(arguments).env("RUST_BACKTRACE", "0");
    command
}

/// Runs a command that has to succeed; what it prints is shown.
pub fn succeed(command: &mut Command) -> Result<()> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?} ended with {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

/// Standard output of a command that has to succeed.
pub fn printed(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(printed);
    }
    Err(format!("{command:?}: {}\n{printed}{}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// Answers whether a tool can be run.
pub fn answers(tool: &str) -> bool {
    let mut command = Command::new(tool);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Answers whether Rust's library for a target is installed.
pub fn has_target(target: &str) -> bool {
    let output = Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
    output.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

/// What `cargo metadata` says, for one target where one is given.
pub fn metadata(target: Option<&str>) -> Result<Value> {
    let mut command = cargo_command(&["metadata", "--format-version", "1", "--locked"]);
    command.args(target.iter().flat_map(|target| ["--filter-platform", target]));
    let printed = printed(&mut command)?;
    serde_json::from_str(&printed).map_err(|error| format!("cargo metadata: {error}"))
}

/// The folder with the source of the SQLite that the Rust front bundles.
pub fn sqlite_source(metadata: &Value) -> Result<PathBuf> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let manifest = packages
        .filter(|package| package["name"] == "libsqlite3-sys")
        .find_map(|package| package["manifest_path"].as_str())
        .ok_or("the source of SQLite is not there")?;
    Ok(Path::new(manifest).with_file_name("sqlite3"))
}

/// Where cargo puts what it builds.
pub fn target_directory() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    own.parent().unwrap_or(own).join(directory)
}

/// The extension and the program that the step `build` has made.
pub fn built() -> Result<[PathBuf; 2]> {
    let debug = target_directory().join("debug");
    let files = ["liblitefoot.so", "litefoot"].map(|name| debug.join(name));
    match files.iter().find(|file| !file.exists()) {
        Some(missing) => Err(format!("{} is missing: cargo xtask test build", missing.display())),
        None => Ok(files),
    }
}

/// Builds the programs and the libraries, and more: with the features of the whole workspace and its tests. Whatever is built
/// with others is built a second time, and takes the place of the programs that tests run.
pub fn build(more: &[&str]) -> Result<Tally> {
    cargo(&[&["build", "--locked", "--workspace", "--lib", "--bins", "--examples"], more].concat())
}

/// Runs an experiment of the laboratory, which is built first.
pub fn laboratory(arguments: &[&str]) -> Result<Tally> {
    build(&["-q"])?;
    tally_of_all_output(Command::new(target_directory().join("debug/litefoot-bench")).args(arguments))
}

/// Runs Python's `unittest` with an environment, and counts its tests; those that were skipped did not fail.
pub fn unittest(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Tally> {
    let [library, program] = built()?;
    let output = Command::new("python3")
        .args(arguments)
        .envs([("LITEFOOT_LIBRARY", library), ("LITEFOOT_PROGRAM", program)])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .envs(environment.iter().copied())
        .output()
        .map_err(|error| format!("python3 cannot be started: {error}"))?;
    let report = String::from_utf8_lossy(&output.stderr);
    print!("{report}");
    let ran = ran(&report).ok_or("python3 has run no tests")?;
    let failed = u64::from(!output.status.success());
    Ok(Tally { passed: ran.saturating_sub(failed), failed })
}

/// The number in `Ran 33 tests in 9.1s`.
fn ran(report: &str) -> Option<u64> {
    report.lines().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_results_are_counted() {
        for (line, passed, failed) in [
            ("test result: ok. 14 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out", 14, 0),
            ("test result: FAILED. 3 passed; 2 failed; 0 ignored", 3, 2),
            ("test a_test_result ... ok", 0, 0),
            ("9 passed", 0, 0),
        ] {
            assert_eq!(Tally::from_line(line), Tally { passed, failed }, "{line}");
        }
    }

    #[test]
    fn tests_of_python_are_counted() {
        assert_eq!(ran("..s.\n-----\nRan 33 tests in 9.1s\n\nOK (skipped=1)\n"), Some(33));
        assert_eq!(ran("ModuleNotFoundError"), None);
    }

    #[test]
    fn the_last_words_of_a_command_that_fails_are_kept() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo counted; echo 'the reason' >&2; exit 3"]);
        let told = tally_of_all_output(&mut command).unwrap_err();
        assert!(told.contains("exit status: 3"), "{told}");
        let kept = failures::take();
        assert!(kept[0].contains("exit 3"), "the command comes first: {kept:?}");
        assert_eq!(kept[1..], ["counted", "the reason"]);
    }

    #[test]
    fn a_step_without_tests_counts_as_one() {
        assert_eq!(Tally::default().or_one_passed(), Tally { passed: 1, failed: 0 });
        assert_eq!(Tally { passed: 0, failed: 1 }.or_one_passed(), Tally { passed: 0, failed: 1 });
    }
}
