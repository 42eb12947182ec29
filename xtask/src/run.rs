//! Running steps, and the table that they end in.
//!
//! Steps run one behind the other. Those of the second lane run at the same time as the others, in a process of their
//! own. Their output goes to a file, and is shown when they have ended. They use the processor that compiling and
//! waiting for a disk leave idle.

use crate::failures;
use crate::process::{self, Tally};
use crate::steps::Step;
use crate::timing::{self, Slow};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The first argument of the second lane's process; the names of its steps follow.
pub const LANE: &str = "--lane";

/// Begins a line of the second lane that says what failed.
const FAILURE: &str = "== failure: ";

/// A step that has run.
#[derive(Debug, PartialEq)]
struct Ran {
    name: String,
    took: Duration,
    tally: Tally,
}

/// All that has run so far.
#[derive(Debug, Default, PartialEq)]
struct Ledger {
    steps: Vec<Ran>,
    slow: Vec<Slow>,
    /// What failed, and why.
    failures: Vec<String>,
}

/// Runs steps one behind the other, up to the first that fails, and prints their table.
pub fn in_order(steps: &[&Step]) -> ExitCode {
    let begun = Instant::now();
    let mut ledger = Ledger::default();
    ledger.run(steps, || false);
    ledger.end(begun)
}

/// Runs `first`, then `front` and, at the same time, `beside`; then prints the table of all.
pub fn in_two_lanes(first: &[&Step], front: &[&Step], beside: &[&Step]) -> ExitCode {
    let begun = Instant::now();
    let mut ledger = Ledger::default();
    if ledger.run(first, || false) {
        match Lane::start(beside) {
            Ok(mut lane) => {
                let passed = ledger.run(front, || lane.has_failed());
                ledger.add(lane.end(passed));
            }
            Err(why) => {
                println!("the second lane cannot be started ({why}): its steps run behind the others");
                let _ = ledger.run(front, || false) && ledger.run(beside, || false);
            }
        }
    }
    ledger.end(begun)
}

/// The second lane's process: runs steps until one fails, or until nobody waits for them any more.
pub fn as_second_lane(steps: &[&Step]) -> ExitCode {
    let mut ledger = Ledger::default();
    let told = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let gone = told.clone();
    // Standard input ends with the process that has started this one, or when that one gives up.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        gone.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let passed = ledger.run(steps, || told.load(std::sync::atomic::Ordering::Relaxed));
    ledger.slow.iter().for_each(|slow| println!("{}", slow_line(slow)));
    ledger.failures.iter().for_each(|line| println!("{FAILURE}{line}"));
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Ledger {
    /// Runs steps up to the first that fails, or until `stop` says so; answers whether none has failed.
    fn run(&mut self, steps: &[&Step], mut stop: impl FnMut() -> bool) -> bool {
        for step in steps {
            if stop() {
                return false;
            }
            println!("\n== {}: {}", step.name, step.does);
            let begun = Instant::now();
            let tally = (step.run)().map(Tally::or_one_passed).unwrap_or_else(|why| {
                println!("{}: {why}", step.name);
                self.failures.push(format!("{}: {why}", step.name));
                Tally { passed: 0, failed: 1 }
            });
            let ran = Ran { name: step.name.to_owned(), took: begun.elapsed(), tally };
            println!("{}", step_line(&ran));
            self.steps.push(ran);
            self.slow.extend(timing::take());
            self.failures.extend(failures::take());
            if tally.failed > 0 {
                return false;
            }
        }
        true
    }

    fn add(&mut self, other: Ledger) {
        self.steps.extend(other.steps);
        self.slow.extend(other.slow);
        self.failures.extend(other.failures);
    }

    /// Prints the table.
    fn end(mut self, begun: Instant) -> ExitCode {
        self.slow.sort_by_key(|slow| std::cmp::Reverse(slow.took));
        let (text, total) = self.table(begun.elapsed());
        println!("\n{text}");
        self.failures.iter().for_each(|line| println!("{line}"));
        println!("{} passed, {} failed", total.passed, total.failed);
        if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn table(&self, took: Duration) -> (String, Tally) {
        let mut text = format!("{:<14}{:>8}{:>8}{:>8}\n", "step", "seconds", "passed", "failed");
        let mut total = Tally::default();
        for Ran { name, took, tally } in &self.steps {
            total.add(*tally);
            text += &format!("{name:<14}{:>8.1}{:>8}{:>8}\n", took.as_secs_f64(), tally.passed, tally.failed);
        }
        text += &format!(
            "{:<14}{:>8.1}{:>8}{:>8}\n",
            "from begin",
            took.as_secs_f64(),
            total.passed,
            total.failed
        );
        if !self.slow.is_empty() {
            text += &format!("\n{} tests took {} s and more:\n", self.slow.len(), timing::SLOW.as_secs());
            self.slow.iter().for_each(|slow| {
                text += &format!("{:>8.1}  {}\n", slow.took.as_secs_f64(), slow.name);
            });
        }
        (text, total)
    }

    /// Reads what a second lane has printed.
    fn read(printed: &str) -> Ledger {
        let mut ledger = Ledger::default();
        for line in printed.lines() {
            ledger.steps.extend(step_of(line));
            ledger.slow.extend(slow_of(line));
            ledger.failures.extend(line.strip_prefix(FAILURE).map(str::to_owned));
        }
        ledger
    }
}

/// How a step ended, in a line that [`step_of`] reads.
fn step_line(ran: &Ran) -> String {
    let outcome = if ran.tally.failed == 0 { "passed" } else { "FAILED" };
    let (seconds, Tally { passed, failed }) = (ran.took.as_secs_f64(), ran.tally);
    format!("== {} {outcome} in {seconds:.1} s: {passed} passed, {failed} failed", ran.name)
}

fn step_of(line: &str) -> Option<Ran> {
    let (head, counts) = line.strip_prefix("== ")?.split_once(" s: ")?;
    let (name, seconds) = head.split_once(" passed in ").or_else(|| head.split_once(" FAILED in "))?;
    let (passed, failed) = counts.strip_suffix(" failed")?.split_once(" passed, ")?;
    let tally = Tally { passed: passed.parse().ok()?, failed: failed.parse().ok()? };
    Some(Ran { name: name.to_owned(), took: Duration::from_secs_f64(seconds.parse().ok()?), tally })
}

/// A slow test, in a line that [`slow_of`] reads.
fn slow_line(slow: &Slow) -> String {
    format!("== slow test: {:.1} s {}", slow.took.as_secs_f64(), slow.name)
}

fn slow_of(line: &str) -> Option<Slow> {
    let (seconds, name) = line.strip_prefix("== slow test: ")?.split_once(" s ")?;
    Some(Slow { name: name.to_owned(), took: Duration::from_secs_f64(seconds.parse().ok()?) })
}

/// The second lane, seen by the process that has started it.
struct Lane {
    child: Child,
    log: PathBuf,
}

impl Lane {
    fn start(steps: &[&Step]) -> std::io::Result<Lane> {
        let log = process::target_directory().join("second-lane.log");
        let to = File::create(&log)?;
        // The step `build` may have replaced the file that this process was started from; its name would be another program's.
        let child = Command::new("/proc/self/exe")
            .arg(LANE)
            .args(steps.iter().map(|step| step.name))
            .stdin(Stdio::piped())
            .stderr(to.try_clone()?)
            .stdout(to)
            .spawn()?;
        let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
        println!("\nat the same time, into {}: {}", log.display(), names.join(", "));
        Ok(Lane { child, log })
    }

    fn has_failed(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_some_and(|status| !status.success()))
    }

    /// Waits for the lane, for its current step alone if `all` is false; shows its output and answers what has run.
    fn end(mut self, all: bool) -> Ledger {
        println!("\nwaiting for the second lane");
        // At the end of its input the lane begins no further step, and to wait would close the input.
        let input = self.child.stdin.take().filter(|_| all);
        let status = self.child.wait();
        drop(input);
        let printed = fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let printed = printed.unwrap_or_default();
        println!("{printed}");
        let mut ledger = Ledger::read(&printed);
        let said = ledger.steps.iter().any(|ran| ran.tally.failed > 0);
        if all && !status.is_ok_and(|status| status.success()) && !said {
            let tally = Tally { passed: 0, failed: 1 };
            ledger.steps.push(Ran { name: "second lane".to_owned(), took: Duration::ZERO, tally });
        }
        ledger
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_second_lane_prints_is_read_back() {
        let ran = |name: &str, tenths: u64, passed, failed| Ran {
            name: name.to_owned(),
            took: Duration::from_millis(100 * tenths),
            tally: Tally { passed, failed },
        };
        let slow = Slow { name: "a::b (line 3)".to_owned(), took: Duration::from_millis(7500) };
        let ledger = Ledger {
            steps: vec![ran("fuzz", 905, 10, 0), ran("threads", 12, 3, 1)],
            slow: vec![slow],
            failures: vec!["1 is not 2".to_owned()],
        };
        let mut printed = "== fuzz: hostile bytes\ntest a ... ok\n".to_owned();
        ledger.steps.iter().for_each(|ran| printed += &format!("{}\n", step_line(ran)));
        ledger.slow.iter().for_each(|slow| printed += &format!("{}\n", slow_line(slow)));
        ledger.failures.iter().for_each(|line| printed += &format!("{FAILURE}{line}\n"));
        assert_eq!(Ledger::read(&printed), ledger);
    }

    #[test]
    fn the_table_adds_up_and_names_slow_tests() {
        let step = |name: &str, passed, failed| Ran {
            name: name.to_owned(),
            took: Duration::from_secs(2),
            tally: Tally { passed, failed },
        };
        let slow = vec![Slow { name: "long".to_owned(), took: Duration::from_secs(6) }];
        let ledger =
            Ledger { steps: vec![step("format", 1, 0), step("tests", 20, 2)], slow, failures: Vec::new() };
        let (text, total) = ledger.table(Duration::from_secs(5));
        assert_eq!(total, Tally { passed: 21, failed: 2 });
        for part in ["format             2.0       1       0", "5.0      21       2", "6.0  long"] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
