//! Processes of the application: started, killed, and what they have said.

use super::CHILD;
use super::application::{End, Plan};
use crate::harness;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

/// After this a process counts as hung: far beyond what any needs.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_micros(300);
/// Words of the advice that a message gives.
const ADVICE: [&str; 6] =
    ["remove it", "litefoot recover", "move it away", "make room", "pen the database", "close it"];

/// The moment at which a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// So long after its start.
    AtOpening(Duration),
    /// So long after it may write.
    AtWork(Duration),
    /// Not at all.
    Never,
}

/// A process that runs.
pub struct Running {
    child: Child,
    said: PathBuf,
    complaints: PathBuf,
    first: u64,
}

/// What a process has met.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The commits that it found, where it came so far.
    pub state: Option<Vec<u64>>,
    pub acknowledged: Vec<u64>,
    /// A commit that may have been on its way.
    pub perhaps: Option<u64>,
    /// Refusals: what, and the message.
    pub refused: Vec<String>,
    /// Lines on standard error.
    pub lines: Vec<String>,
    /// What must not be.
    pub wrong: Option<String>,
    /// True if it has closed its connection.
    pub closed: bool,
}

impl Outcome {
    /// True if a line or a refusal has named a log, and said that it is kept or what to do.
    pub fn told(&self) -> bool {
        let tells = |text: &&String| {
            let names = text.contains("-wal") || text.contains("-commits");
            names && (text.contains("kept") || advises(text))
        };
        self.lines.iter().chain(&self.refused).any(|text| tells(&text))
    }

    /// True if it was told that it can only read.
    pub fn is_read_only(&self) -> bool {
        self.lines.iter().any(|line| line.contains("can only be read"))
    }

    /// The first refusal that does not say what to do.
    pub fn unadvised(&self) -> Option<&String> {
        let advised = self.lines.iter().any(|line| advises(line));
        self.refused.iter().find(|text| !advised && !advises(text))
    }
}

fn advises(text: &str) -> bool {
    ADVICE.iter().any(|advice| text.contains(advice))
}

impl Running {
    /// Starts a process.
    pub fn start(plan: &Plan) -> io::Result<Running> {
        fs::write(&plan.said, "")?;
        let complaints = plan.said.with_extension("complaints");
        let mut command = harness::child::command(CHILD)?;
        let child = command.args(plan.arguments()).stderr(fs::File::create(&complaints)?).spawn()?;
        Ok(Running { child, said: plan.said.clone(), complaints, first: plan.first })
    }

    /// Waits until it may write, or has ended.
    pub fn wait_until_ready(&mut self) -> io::Result<()> {
        self.wait_for(|said| said.lines().any(|line| line == "ready"))
    }

    fn wait_for(&mut self, is_there: impl Fn(&str) -> bool) -> io::Result<()> {
        let begun = Instant::now();
        while !is_there(&read(&self.said)) && self.child.try_wait()?.is_none() {
            if begun.elapsed() > PATIENCE {
                return Ok(());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Brings it to its end, and tells what it has met.
    pub fn end(mut self, kill: Kill, end: End) -> io::Result<Outcome> {
        match kill {
            Kill::AtOpening(after) => std::thread::sleep(after),
            Kill::AtWork(after) => {
                self.wait_until_ready()?;
                std::thread::sleep(after);
            }
            Kill::Never => self.wait_for(|_| false)?,
        }
        let status = self.child.try_wait()?;
        if status.is_none() {
            self.child.kill()?;
        }
        let hung = status.is_none() && kill == Kill::Never;
        let status = self.child.wait()?;
        let mut outcome = outcome(&read(&self.said), &read(&self.complaints), self.first);
        if hung {
            outcome.wrong.get_or_insert("a process hangs".to_owned());
        }
        let killed = std::os::unix::process::ExitStatusExt::signal(&status) == Some(libc::SIGKILL);
        if !killed && !status.success() {
            outcome.wrong.get_or_insert(format!("a process ended by itself: {status}"));
        }
        outcome.closed = status.success() && end == End::Close && outcome.refused.is_empty();
        Ok(outcome)
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

fn outcome(said: &str, complaints: &str, first: u64) -> Outcome {
    let mut outcome =
        Outcome { lines: complaints.lines().map(str::to_owned).collect(), ..Outcome::default() };
    let mut commits = false;
    for line in said.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let numbers = || rest.split(' ').filter_map(|number| number.parse().ok());
        match word {
            "state" => outcome.state = Some(numbers().collect()),
            "ready" => commits = true,
            "acknowledged" => outcome.acknowledged.extend(numbers()),
            "done" => commits = false,
            "refused" => outcome.refused.push(rest.to_owned()),
            _ => outcome.wrong = Some(line.to_owned()),
        }
    }
    // One that has reported an error has committed nothing: unless the error was of what follows the commit.
    let next = outcome.acknowledged.last().map_or(first, |last| last + 1);
    outcome.perhaps = commits.then_some(next);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_says_is_understood() {
        let said = "state 3 5\nready\nacknowledged 7\nacknowledged 8\n";
        let killed = outcome(said, "", 7);
        assert_eq!(
            (killed.state, killed.acknowledged, killed.perhaps),
            (Some(vec![3, 5]), vec![7, 8], Some(9))
        );
        let done = outcome(&format!("{said}done\n"), "", 7);
        assert_eq!((done.perhaps, done.wrong), (None, None));
        let line =
            "litefoot: /app.db: the log /app.db-wal is …, and it is kept as x; remove it if it is not needed";
        let told = outcome("state \nrefused write: attempt to write a readonly database; \n", line, 1);
        assert_eq!((told.state.as_deref(), told.told(), told.unadvised()), (Some(&[][..]), true, None));
        let silent = outcome("refused open: disk I/O error; \n", "", 1);
        assert_eq!((silent.told(), silent.unadvised().is_some()), (false, true));
        assert!(!told.is_read_only());
        let waits =
            "litefoot: /app.db: 1 committed transactions wait; the database can only be read, as it was";
        assert!(outcome("state 3\n", waits, 1).is_read_only());
        assert_eq!(outcome("wrong: torn\n", "", 1).wrong.as_deref(), Some("wrong: torn"));
    }
}
