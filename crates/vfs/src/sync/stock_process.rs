//! Tests: another process that uses a database with the system's own SQLite.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A process with connections `a` and `b` to one database, without busy timeouts.
pub(crate) struct StockProcess {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

const PROGRAM: &str = "
import sqlite3, sys
a, b = (sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None) for _ in 'ab')
for line in sys.stdin:
    name, sql = line.strip().split(' ', 1)
    try:
        answer = str({'a': a, 'b': b}[name].execute(sql).fetchone())
    except Exception as error:
        answer = 'error: ' + str(error)
    print(answer, flush=True)
";

impl StockProcess {
    /// Starts it; it has not looked at the database yet.
    pub fn start(path: &std::path::Path) -> StockProcess {
        let mut command = Command::new("python3");
        let piped = command.arg("-c").arg(PROGRAM).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let commands = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        StockProcess { child, commands, answers }
    }

    /// The first row that a connection answers, or its error, as Python prints them.
    pub fn ask(&mut self, connection: &str, sql: &str) -> String {
        writeln!(self.commands, "{connection} {sql}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }

    /// The same of a statement that is refused only where somebody is in the way; `false` where that is so.
    pub fn may(&mut self, connection: &str, sql: &str) -> bool {
        let answer = self.ask(connection, sql);
        assert!(!answer.starts_with("error") || answer == "error: database is locked", "{sql}: {answer}");
        !answer.starts_with("error")
    }
}

impl Drop for StockProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
