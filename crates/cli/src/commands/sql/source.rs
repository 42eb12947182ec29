//! Where one statement ends and the next begins.

use super::{Session, dot};
use litefoot_terminal::Failure;
use std::ffi::CString;
use std::io::BufRead;

/// Longest statement collected from lines: SQLite's own limit (`SQLITE_MAX_SQL_LENGTH`).
const STATEMENT_BYTES_MAX: usize = 1_000_000_000;

/// Lines that do not make a whole statement yet.
#[derive(Default)]
pub struct Pending {
    sql: String,
}

impl Pending {
    /// Adds a line; gives back the SQL when it ends a statement.
    pub fn add(&mut self, line: &str) -> Option<String> {
        self.sql.push_str(line);
        if !line.ends_with('\n') {
            self.sql.push('\n');
        }
        // Only a line with a semicolon can end a statement; the look at the whole text is not cheap.
        (line.contains(';') && is_complete(&self.sql)).then(|| std::mem::take(&mut self.sql))
    }

    /// True if nothing has been collected but blanks.
    pub fn is_empty(&self) -> bool {
        self.sql.trim_ascii().is_empty()
    }

    /// Gives back, or throws away, what there is.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.sql)
    }
}

/// True if the text ends with a whole statement, in SQLite's own judgement: semicolons in strings,
/// comments and trigger bodies do not count.
fn is_complete(sql: &str) -> bool {
    // A NUL ends the text for SQLite too.
    let Ok(text) = CString::new(sql) else { return true };
    // SAFETY: `text` is a NUL-terminated string that outlives the call.
    unsafe { rusqlite::ffi::sqlite3_complete(text.as_ptr()) != 0 }
}

/// Runs a script, holding no more of it than one statement.
pub fn run_script(session: &mut Session, input: &mut dyn BufRead) -> Result<(), Failure> {
    let mut pending = Pending::default();
    let mut line = String::new();
    let mut number = 0_u64;
    let mut begun_at = 1;
    loop {
        line.clear();
        let read = input.read_line(&mut line).map_err(|error| {
            Failure::new(format!("standard input, line {}: cannot be read as text: {error}", number + 1))
        })?;
        let at_end = read == 0;
        number += u64::from(!at_end);
        if pending.is_empty() {
            begun_at = number;
            if line.starts_with('.') {
                if dot::run(session, &line)?.is_break() {
                    return Ok(());
                }
                continue;
            }
        }
        let sql = if at_end { Some(pending.take()) } else { pending.add(&line) };
        if let Some(sql) = sql {
            session.execute(&sql).map_err(|failure| failure.within(&format!("line {begun_at}")))?;
        }
        if at_end {
            return Ok(());
        }
        if pending.sql.len() > STATEMENT_BYTES_MAX {
            return Err(Failure::new(format!("standard input, line {begun_at}: the statement is too long"))
                .advice("Is a semicolon or a closing quote missing?"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(text: &str) -> Vec<String> {
        let mut pending = Pending::default();
        let mut found: Vec<String> = text.lines().filter_map(|line| pending.add(line)).collect();
        if !pending.is_empty() {
            found.push(format!("rest: {}", pending.take().trim_end()));
        }
        found
    }

    #[test]
    fn statements_end_where_sqlite_says() {
        for (text, count) in [
            ("SELECT 1;", 1),
            ("SELECT 1;\nSELECT 2;", 2),
            ("SELECT\n1\n;\n", 1),
            ("SELECT 'a;\nb';", 1),
            ("SELECT 1; -- one\nSELECT 2;", 2),
            ("CREATE TRIGGER t AFTER INSERT ON a BEGIN\nDELETE FROM b;\nDELETE FROM c;\nEND;", 1),
        ] {
            assert_eq!(statements(text).len(), count, "{text}");
        }
        assert_eq!(statements("SELECT 1;\nSELECT 2"), ["SELECT 1;\n", "rest: SELECT 2"]);
    }
}
