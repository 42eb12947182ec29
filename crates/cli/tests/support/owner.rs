//! A program that has a database open, and takes statements as they come.

use litefoot_testkit::process::Watchdog;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub struct Owner {
    child: Child,
    input: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _watchdog: Watchdog,
}

impl Owner {
    /// Starts a program that reads statements of SQL, and tells it the first ones.
    pub fn start(mut command: Command, sql: &str) -> Owner {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let watchdog = Watchdog::over(&child);
        let input = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut owner = Owner { child, input, answers, _watchdog: watchdog };
        owner.tell(sql);
        owner
    }

    /// Has statements run, and waits until they were.
    pub fn tell(&mut self, sql: &str) {
        writeln!(self.input, "{sql}; SELECT 'told';").unwrap();
        assert!(self.answers.by_ref().any(|line| line.unwrap() == "told"));
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends its input. The program must succeed.
    pub fn end(mut self) {
        drop(self.input);
        assert!(self.child.wait().unwrap().success());
    }

    /// Kills it.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
