//! One case: one fault in one run of the workload, and what the database holds afterwards.

use super::kinds::{CountFrom, FaultKind, Setting, Times};
use super::programs::Programs;
use crate::{Error, Result};
use std::fmt;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Transactions of a run, and of one that begins with a recovery.
const TRANSACTIONS: u32 = 30;
const AFTER_RECOVERY: u32 = 4;
/// After this a program counts as hung: far beyond what any needs.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_micros(300);
/// The file in which the library counts: three numbers of 64 bits.
const CONTROL_BYTES: usize = 24;
/// Exit codes of the workload's check.
const CHECKED: [(i32, Violation); 4] =
    [(3, Violation::Lost), (4, Violation::Lost), (5, Violation::Lost), (6, Violation::Torn)];
const RETURNED: i32 = 7;

/// The state of the database at the run's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStage {
    /// No database.
    Run,
    /// The files that a killed process left.
    Recovery,
}

/// How the run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The last connection is closed.
    Close,
    /// SIGKILL, nothing closed.
    Kill,
}

/// One case; its text is what `--case` takes.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub kind: &'static FaultKind,
    pub setting: &'static Setting,
    pub stage: RunStage,
    pub times: Times,
    pub end: End,
    /// The number of the first call that fails; 0 for none.
    pub first: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = if self.stage == RunStage::Run { "run" } else { "recovery" };
        let times = match self.times {
            Times::Once => "once".to_owned(),
            Times::InARow(many) => format!("{many}_in_a_row"),
            Times::Always => "always".to_owned(),
        };
        let end = if self.end == End::Close { "close" } else { "kill" };
        let (kind, setting, first) = (self.kind.name, self.setting.name, self.first);
        write!(f, "{kind}.{setting}.{stage}.{times}.{end}.{first}")
    }
}

/// A promise that a case broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Something acknowledged is missing, or the database does not open.
    Lost,
    /// A transaction is there in part, or one that has failed is there although the database went on.
    Torn,
    /// A program did not come to its end.
    Hang,
    /// A program was ended by a signal.
    Abort,
}

/// The outcome of a case.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Calls of the kind that the run made.
    pub calls: u64,
    /// How many of them failed.
    pub failed: u64,
    /// Errors that SQLite returned to the program.
    pub errors: u64,
    /// Violations, and the programs' messages.
    pub wrong: Vec<(Violation, String)>,
    /// The run's output.
    pub said: String,
}

/// How a program ended, and what it said.
struct Ended {
    /// `None`: not at all, in the time it had.
    status: Option<ExitStatus>,
    output: String,
    complaints: String,
}

/// A directory in which cases run one after the other.
pub struct Workplace<'a> {
    programs: &'a Programs,
    directory: PathBuf,
}

impl Workplace<'_> {
    /// A directory that is made.
    pub fn new<'a>(programs: &'a Programs, directory: &Path) -> Result<Workplace<'a>> {
        let place = Workplace { programs, directory: directory.to_owned() };
        place.empty()?;
        Ok(place)
    }

    /// Runs a case.
    pub fn run(&self, case: &Case) -> Result<Outcome> {
        self.empty()?;
        let mut outcome = Outcome::default();
        let mut first_transaction = 0;
        if case.stage == RunStage::Recovery {
            // The state to recover was written without faults.
            let whole = Case { first: 0, stage: RunStage::Run, end: End::Kill, ..*case };
            let ended = self.workload(&whole, 0, TRANSACTIONS - 1)?;
            if ended.status.and_then(|status| status.signal()) != Some(libc::SIGKILL) {
                return Err(Error::Wrong(format!("{case}: without a fault: {}", ended.describe())));
            }
            first_transaction = TRANSACTIONS;
        }
        let last =
            first_transaction + if case.stage == RunStage::Run { TRANSACTIONS } else { AFTER_RECOVERY } - 1;
        let ended = self.workload(case, first_transaction, last)?;
        let counted = self.counted()?;
        (outcome.calls, outcome.failed) = (counted[1], counted[2]);
        ended.judge(case.end, &mut outcome);
        // Stock SQLite reads what rollback journals leave at every moment; a write-ahead log is litefoot's to recover first.
        let stock_first = case.setting.family == "rollback" && case.first % 3 == 2;
        for litefoot in [!stock_first, stock_first] {
            let who = if litefoot { "litefoot" } else { "stock SQLite" };
            self.check(case, litefoot)?.judge_check(who, &mut outcome);
        }
        outcome.said = ended.output.trim().to_owned();
        Ok(outcome)
    }

    fn empty(&self) -> Result<()> {
        let failed = |source| Error::Directory { path: self.directory.clone(), source };
        match std::fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        std::fs::create_dir(&self.directory).map_err(failed)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn counted(&self) -> Result<[u64; 3]> {
        let path = self.file("control");
        let bytes = std::fs::read(&path).map_err(|source| Error::Directory { path, source })?;
        let (words, _) = bytes.as_chunks();
        let mut numbers = [0; 3];
        numbers.iter_mut().zip(words).for_each(|(number, word)| *number = u64::from_ne_bytes(*word));
        Ok(numbers)
    }

    /// Runs transactions with the case's fault.
    fn workload(&self, case: &Case, first: u32, last: u32) -> Result<Ended> {
        let control = self.file("control");
        std::fs::write(&control, [0; CONTROL_BYTES])
            .map_err(|source| Error::Directory { path: control.clone(), source })?;
        let begin = match (case.kind.begin, case.stage) {
            (CountFrom::Open, RunStage::Run) => "open",
            // The first thing that is done with the database is its recovery.
            (CountFrom::Open, RunStage::Recovery) => "ready",
            (CountFrom::Start, _) => "start",
        };
        let end = if case.end == End::Close { "close" } else { "kill" };
        let mut command = self.command(case, true);
        let preload = format!("{}:{}", self.programs.shim.display(), self.programs.library.display());
        command.env("LD_PRELOAD", preload);
        command.arg("run").arg(self.file("app.db")).arg(self.file("acknowledged"));
        command.args([case.setting.journal, case.setting.pragmas, &first.to_string(), &last.to_string()]);
        command.args([begin, end]);
        command.env("FAULT_CALL", case.kind.call).env("FAULT_FIRST", case.first.to_string());
        let count = match case.times {
            Times::Once => "1".to_owned(),
            Times::InARow(many) => many.to_string(),
            Times::Always => "-1".to_owned(),
        };
        command.env("FAULT_COUNT", count).env("FAULT_ERROR", case.kind.error.to_string());
        command.env("FAULT_FILE", "app.db").env("FAULT_CONTROL", &control);
        if !case.kind.of_anyone {
            command.env("FAULT_CODE", &self.programs.library);
        }
        if !case.setting.ring && !matches!(case.kind.call, "ring" | "enter") {
            command.env("FAULT_NO_RING", "1");
        }
        self.finish(command)
    }

    fn check(&self, case: &Case, litefoot: bool) -> Result<Ended> {
        let mut command = self.command(case, litefoot);
        command.arg("check").arg(self.file("app.db")).arg(self.file("acknowledged"));
        self.finish(command)
    }

    fn command(&self, case: &Case, litefoot: bool) -> Command {
        let mut command = Command::new(&self.programs.workload);
        command.env_clear().env("WORKLOAD_TELLS", "1");
        if litefoot {
            command.env("LD_PRELOAD", &self.programs.library);
            command.env("LITEFOOT_OPTIONS", case.setting.options);
        }
        command
    }

    fn finish(&self, mut command: Command) -> Result<Ended> {
        let create = |name: &str| {
            let path = self.file(name);
            File::create(&path).map_err(|source| Error::Directory { path, source })
        };
        let read = |name: &str| std::fs::read(self.file(name)).unwrap_or_default();
        let failed = |source| Error::Directory { path: self.programs.workload.clone(), source };
        command.stdin(Stdio::null()).stdout(create("output")?).stderr(create("complaints")?);
        let mut child = command.spawn().map_err(failed)?;
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                break Some(status);
            }
            if begun.elapsed() > PATIENCE {
                child.kill().map_err(failed)?;
                child.wait().map_err(failed)?;
                break None;
            }
            std::thread::sleep(LOOK_EVERY);
        };
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Ended { status, output: text(read("output")), complaints: text(read("complaints")) })
    }
}

impl Ended {
    /// How it ended, and the end of what it said.
    fn describe(&self) -> String {
        let how = self.status.map_or_else(|| "no end".to_owned(), |status| status.to_string());
        let lines: Vec<&str> = self.output.lines().chain(self.complaints.lines()).collect();
        format!("{how}; {}", lines[lines.len().saturating_sub(4)..].join("; "))
    }

    /// Looks at the end of a run.
    fn judge(&self, end: End, outcome: &mut Outcome) {
        let wrong = match self.status {
            None => Some(Violation::Hang),
            Some(status) => match (status.code(), status.signal(), end) {
                (Some(0), ..) | (_, Some(libc::SIGKILL), End::Kill) => None,
                _ => Some(Violation::Abort),
            },
        };
        if let Some(wrong) = wrong {
            outcome.wrong.push((wrong, self.describe()));
        }
        for line in self.output.lines() {
            if let Some(number) = line.strip_prefix("errors ") {
                outcome.errors = number.parse().unwrap_or_default();
            }
            if line.starts_with("went back") {
                outcome.wrong.push((Violation::Lost, line.to_owned()));
            }
        }
    }

    /// Looks at the end of a check.
    fn judge_check(&self, who: &str, outcome: &mut Outcome) {
        let wrong = match self.status {
            None => Violation::Hang,
            Some(status) => match status.code() {
                Some(0) => return,
                Some(RETURNED) => Violation::Torn,
                Some(code) => CHECKED
                    .iter()
                    .find_map(|(known, wrong)| (*known == code).then_some(*wrong))
                    .unwrap_or(Violation::Abort),
                None => Violation::Abort,
            },
        };
        outcome.wrong.push((wrong, format!("{who} afterwards: {}", self.describe())));
    }
}
