//! One run of one program: what it is told, and what it says.
//!
//! The program's side is in `bench/apps/protocol.py`. It waits twice for a line, and the driver reads the counters of
//! the device meanwhile.

use crate::harness::Progress;
use crate::harness::device::{Counters, Device};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// After this without a line a program counts as hung: far beyond what any needs.
pub const PATIENCE: Duration = Duration::from_secs(300);
/// How often somebody is asked whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a run was found to need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Seconds of the commits after those that warm up.
    pub seconds: f64,
    /// What these brought to the device; nothing where it is not counted.
    pub steady: Option<Counters>,
    /// All, from the creation of the database until it is closed.
    pub life: Option<Counters>,
    /// What litefoot says of them.
    pub figures: BTreeMap<String, f64>,
}

/// A line that a program says.
#[derive(Clone, Debug, PartialEq)]
enum Said {
    Ready,
    Done(f64),
    Figure(String, f64),
    End,
}

impl Said {
    fn parse(line: &str) -> Option<Said> {
        let mut words = line.split_ascii_whitespace();
        let said = match words.next()? {
            "ready" => Said::Ready,
            "done" => Said::Done(words.next()?.parse().ok()?),
            "figure" => Said::Figure(words.next()?.to_owned(), words.next()?.parse().ok()?),
            "end" => Said::End,
            _ => return None,
        };
        words.next().is_none().then_some(said)
    }
}

/// Runs a program to its end; `name` is what a message calls it.
pub fn run(
    name: &str,
    command: Command,
    device: Option<&Device>,
    progress: &mut dyn Progress,
) -> Result<Outcome> {
    let synced = || device.map(Device::synced).transpose();
    let begin = synced()?;
    let mut program = Running::start(name, command)?;
    program.expect(progress, |said| *said == Said::Ready)?;
    let ready = synced()?;
    program.go_on()?;
    let mut outcome = Outcome::default();
    program.expect(progress, |said| match said {
        Said::Done(seconds) => {
            outcome.seconds = *seconds;
            true
        }
        _ => false,
    })?;
    outcome.steady = synced()?.zip(ready).map(|(after, before)| after.since(before));
    program.expect(progress, |said| match said {
        Said::Figure(figure, value) => {
            outcome.figures.insert(figure.clone(), *value);
            false
        }
        said => *said == Said::End,
    })?;
    program.go_on()?;
    program.end(progress)?;
    outcome.life = synced()?.zip(begin).map(|(after, before)| after.since(before));
    Ok(outcome)
}

/// A program that runs, and is killed should it be dropped before its end.
struct Running {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    complaints: Receiver<String>,
}

impl Running {
    fn start(name: &str, mut command: Command) -> Result<Running> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A Ctrl-C is the driver's alone.
        command.process_group(0);
        let failed = |what: String| Error::Peer { name: name.to_owned(), what };
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let (sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                let mut lines = BufReader::new(output).lines().map_while(std::io::Result::ok);
                lines.all(|line| sender.send(line).is_ok())
            });
        }
        let (sender, complaints) = channel();
        if let Some(mut errors) = child.stderr.take() {
            std::thread::spawn(move || {
                let mut text = Vec::new();
                // What is read before an error is what there is to show.
                let _ = errors.read_to_end(&mut text);
                sender.send(String::from_utf8_lossy(&text).trim().to_owned())
            });
        }
        Ok(Running { name: name.to_owned(), input: child.stdin.take(), child, lines, complaints })
    }

    /// Reads on until a line is the one that is waited for.
    fn expect(&mut self, progress: &mut dyn Progress, mut is_it: impl FnMut(&Said) -> bool) -> Result<()> {
        let begun = Instant::now();
        loop {
            match self.lines.recv_timeout(LOOK_EVERY) {
                Ok(line) => match Said::parse(&line) {
                    Some(said) if is_it(&said) => return Ok(()),
                    Some(Said::Figure(..)) => {}
                    _ => return Err(self.failure(format!("it said {line:?}"))),
                },
                Err(RecvTimeoutError::Timeout) if begun.elapsed() < PATIENCE => progress.advance(0)?,
                Err(RecvTimeoutError::Timeout) => return Err(self.failure("it hangs".to_owned())),
                Err(RecvTimeoutError::Disconnected) => return Err(self.complaint(progress)),
            }
        }
    }

    /// Lets the program go on.
    fn go_on(&mut self) -> Result<()> {
        let Some(input) = &mut self.input else { return Ok(()) };
        input.write_all(b"\n").map_err(|error| self.failure(error.to_string()))
    }

    /// Waits until it has ended.
    fn end(mut self, progress: &mut dyn Progress) -> Result<()> {
        match self.waited(progress)? {
            true => Ok(()),
            false => Err(self.complaint(progress)),
        }
    }

    /// True if it has ended as it should.
    fn waited(&mut self, progress: &mut dyn Progress) -> Result<bool> {
        self.input = None;
        let begun = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status.success()),
                Ok(None) if begun.elapsed() < PATIENCE => {
                    progress.advance(0)?;
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(None) => return Err(self.failure("it does not end".to_owned())),
                Err(error) => return Err(self.failure(error.to_string())),
            }
        }
    }

    /// Why it has ended before its time.
    fn complaint(&mut self, progress: &mut dyn Progress) -> Error {
        if let Err(error) = self.waited(progress) {
            return error;
        }
        let said = self.complaints.recv_timeout(PATIENCE).unwrap_or_default();
        let last = said.lines().last().unwrap_or("it ended too early, without a word").to_owned();
        self.failure(last)
    }

    fn failure(&self, what: String) -> Error {
        Error::Peer { name: self.name.clone(), what }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail where it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Silent;

    #[test]
    fn lines_of_programs() {
        for (line, said) in [
            ("ready", Some(Said::Ready)),
            ("done 0.25", Some(Said::Done(0.25))),
            ("done 1e-3\r", Some(Said::Done(0.001))),
            ("figure commits_pages 12", Some(Said::Figure("commits_pages".to_owned(), 12.0))),
            ("end", Some(Said::End)),
            ("done", None),
            ("done soon", None),
            ("figure commits_pages", None),
            ("ready 1", None),
            ("DeprecationWarning: no", None),
            ("", None),
        ] {
            assert_eq!(Said::parse(line), said, "{line}");
        }
    }

    fn script(text: &str) -> Result<Outcome> {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        run("script", command, None, &mut Silent)
    }

    #[test]
    fn a_program_is_heard_to_its_end() {
        let outcome =
            script("echo ready; read a; echo done 0.5; echo figure commits_pages 7; echo end; read b");
        let figures = BTreeMap::from([("commits_pages".to_owned(), 7.0)]);
        assert_eq!(outcome.unwrap(), Outcome { seconds: 0.5, steady: None, life: None, figures });
    }

    #[test]
    fn a_program_that_fails_is_quoted() {
        for (text, expected) in [
            ("echo ready; read a; echo no room >&2; exit 1", "script: no room"),
            ("echo hello", "script: it said \"hello\""),
            ("exit 0", "script: it ended too early, without a word"),
            (
                "echo ready; read a; echo done 1; echo end; read b; echo cannot close >&2; exit 3",
                "script: cannot close",
            ),
        ] {
            assert_eq!(script(text).unwrap_err().to_string(), expected, "{text}");
        }
    }

    /// Somebody who wants it to stop.
    struct Stops;

    impl Progress for Stops {
        fn begin(&mut self, _stage: &str, _total: u64) {}

        fn advance(&mut self, _steps: u64) -> Result<()> {
            Err(Error::Stopped)
        }
    }

    #[test]
    fn a_program_ends_with_its_experiment() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo ready; read a; exec sleep 1000"]);
        assert!(matches!(run("script", command, None, &mut Stops), Err(Error::Stopped)));
    }
}
