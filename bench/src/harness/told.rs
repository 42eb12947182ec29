//! A process that does what it is told, line by line, and answers each line with one of its own.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// The process, as the one that tells it has it.
pub struct Told {
    pub child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

/// What was heard of a process.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// A line.
    Line(String),
    /// Nothing in the time.
    Nothing,
    /// It has ended.
    End,
}

impl Told {
    /// Starts it.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn start(mut command: Command) -> io::Result<Told> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(io::Result::ok);
            // Nobody listens any more when a run has failed.
            lines.map(|line| sender.send(line)).take_while(|sent| sent.is_ok()).for_each(drop);
        });
        Ok(Told { child, input, answers })
    }

    /// Tells it a line.
    ///
    /// # Errors
    /// It has ended.
    pub fn tell(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.input, "{line}")
    }

    /// Waits for an answer.
    pub fn hear(&self, patience: Duration) -> Heard {
        match self.answers.recv_timeout(patience) {
            Ok(line) => Heard::Line(line),
            Err(RecvTimeoutError::Timeout) => Heard::Nothing,
            Err(RecvTimeoutError::Disconnected) => Heard::End,
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        // One that was traced is gone, and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
