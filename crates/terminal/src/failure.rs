//! How a failed command reads, and which exit code it has.
//!
//! A failure says **what** went wrong with **which file**, and, where there is one, **what to do** about
//! it, on a line of its own. It is printed in one place, at the end of `main`.

use crate::text::harmless;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Why a command stopped.
#[derive(Debug)]
pub struct Failure {
    what: String,
    advice: Option<String>,
    code: u8,
}

impl Failure {
    /// Something failed; exit code 1.
    pub fn new(what: impl Into<String>) -> Failure {
        Failure { what: what.into(), advice: None, code: 1 }
    }

    /// Something failed that concerns a file; the message begins with its name.
    pub fn file(path: &Path, what: impl Display) -> Failure {
        Failure::new(format!("{}: {what}", path.display()))
    }

    /// Adds what the user can do about it.
    pub fn advice(mut self, advice: impl Into<String>) -> Failure {
        self.advice = Some(advice.into());
        self
    }

    /// Sets an exit code other than 1.
    pub fn code(mut self, code: u8) -> Failure {
        self.code = code;
        self
    }

    /// The user, or the system, asked us to stop; exit code 128 + signal, as shells expect.
    pub fn interrupted(signal: i32) -> Failure {
        let code = u8::try_from(128 + signal).unwrap_or(130);
        Failure::new("interrupted; what was unfinished has been undone").code(code)
    }

    /// What went wrong, without the advice.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Says something else, with the same exit code.
    pub fn saying(mut self, what: impl Into<String>) -> Failure {
        self.what = what.into();
        self
    }

    /// Standard output cannot be written.
    pub fn output(error: &io::Error) -> Failure {
        match error.kind() {
            // The reader had enough; that is no error to talk about.
            io::ErrorKind::BrokenPipe => Failure::new("").code(141),
            _ => Failure::new(format!("standard output: cannot be written: {error}")),
        }
    }

    /// Says where in a longer piece of work it happened.
    pub fn within(mut self, place: &str) -> Failure {
        if !self.what.is_empty() {
            self.what = format!("{place}: {}", self.what);
        }
        self
    }

    /// Prints the failure and gives its exit code.
    pub fn report(&self) -> ExitCode {
        self.print();
        ExitCode::from(self.code)
    }

    /// Prints the failure to standard error; where that is gone too, there is nobody to tell.
    pub fn print(&self) {
        if self.what.is_empty() {
            return;
        }
        let mut stderr = io::stderr().lock();
        // File names and statements are others' words.
        let _ = writeln!(stderr, "litefoot: {}", harmless(&self.what));
        if let Some(advice) = &self.advice {
            let _ = writeln!(stderr, "  {}", harmless(advice));
        }
    }
}
