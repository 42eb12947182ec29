//! A process that commits when it is told, and answers each line: with the number of its newest commit, or with an error.

use super::told::{Heard, Told};
use std::io;
use std::process::Command;
use std::time::Duration;

/// After this a process counts as hung.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The process, and what it has said.
pub struct Committer {
    /// The process.
    pub told: Told,
    /// The newest commit that was acknowledged.
    pub acknowledged: u64,
    /// How many it was told to make.
    pub asked: u64,
    /// The last error that it has said.
    pub error: Option<String>,
}

impl Committer {
    /// Starts it, and waits for its first line.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn start(command: Command) -> io::Result<Committer> {
        let mut committer = Committer { told: Told::start(command)?, acknowledged: 0, asked: 0, error: None };
        committer.hear(PATIENCE);
        Ok(committer)
    }

    /// Tells it a line: `commit` and `large` are commits.
    ///
    /// # Errors
    /// It has ended.
    pub fn tell(&mut self, line: &str) -> io::Result<()> {
        self.asked += u64::from(matches!(line, "commit" | "large"));
        self.told.tell(line)
    }

    /// Waits for an answer; true if there is one, or will be none.
    pub fn hear(&mut self, patience: Duration) -> bool {
        match self.told.hear(patience) {
            Heard::Line(line) => {
                self.note(line);
                true
            }
            Heard::Nothing => {
                if !patience.is_zero() {
                    self.error = Some("it does not answer".to_owned());
                }
                false
            }
            Heard::End => true,
        }
    }

    fn note(&mut self, line: String) {
        if let Ok(number) = line.parse() {
            self.acknowledged = number;
        } else if line.starts_with("error") {
            self.error = Some(line);
        }
    }

    /// Notes the last lines of a process that has ended.
    pub fn hear_the_rest(&mut self) {
        while let Heard::Line(line) = self.told.hear(PATIENCE) {
            self.note(line);
        }
    }

    /// Tells it a line, and waits for the answer.
    ///
    /// # Errors
    /// It has ended.
    pub fn ask(&mut self, line: &str) -> io::Result<()> {
        self.tell(line)?;
        self.hear(PATIENCE);
        Ok(())
    }
}
