//! The interactive prompt.
//!
//! History lives in the state directory of the XDG base directory specification and is readable by its
//! owner only. Where it cannot be kept, the prompt works without it.

use super::source::Pending;
use super::{Session, dot};
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt;
use rusqlite::Connection;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use std::path::{Path, PathBuf};

const PROMPT: &str = "litefoot> ";
const CONTINUATION: &str = "     ...> ";

/// Reads and runs until the user leaves.
pub fn run(session: &mut Session) -> Result<(), Failure> {
    let mut editor = DefaultEditor::new()
        .map_err(|error| Failure::new(format!("the terminal cannot be used for a prompt: {error}")))?;
    let history = history_file();
    if let Some(path) = &history {
        // The first session has no history yet.
        let _ = editor.load_history(path);
    }
    greet(&session.database.connection, &session.database.name)?;
    let outcome = converse(session, &mut editor);
    if let Some(path) = &history {
        save_history(&mut editor, path);
    }
    outcome
}

fn greet(connection: &Connection, name: &str) -> Result<(), Failure> {
    let mode: String = connection
        .pragma_query_value(None, "journal_mode", |row| row.get(0))
        .unwrap_or_else(|_| "unknown".to_owned());
    let mut output = litefoot_terminal::output::Output::lock();
    output.line(format!(
        "{name} on SQLite {}, journal mode {mode}. SQL ends with a semicolon; .help for more.",
        rusqlite::version()
    ))?;
    output.flush()
}

fn converse(session: &mut Session, editor: &mut DefaultEditor) -> Result<(), Failure> {
    let mut pending = Pending::default();
    loop {
        let prompt = if pending.is_empty() { PROMPT } else { CONTINUATION };
        let line = match editor.readline(prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                pending.take();
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(Failure::new(format!("the terminal cannot be read: {error}"))),
        };
        let outcome = if pending.is_empty() && line.starts_with('.') {
            // Losing a line of history is no reason to stop.
            let _ = editor.add_history_entry(line.as_str());
            match dot::run(session, &line) {
                Ok(flow) if flow.is_break() => return Ok(()),
                other => other.map(|_| ()),
            }
        } else if let Some(sql) = pending.add(&line) {
            let _ = editor.add_history_entry(sql.trim_end());
            session.execute(&sql)
        } else {
            continue;
        };
        if let Err(failure) = outcome {
            failure.print();
        }
        interrupt::forget_ctrl_c()?;
    }
}

fn history_file() -> Option<PathBuf> {
    let state = match std::env::var_os("XDG_STATE_HOME") {
        Some(directory) if Path::new(&directory).is_absolute() => PathBuf::from(directory),
        _ => PathBuf::from(std::env::var_os("HOME")?).join(".local/state"),
    };
    Some(state.join("litefoot").join("sql_history"))
}

fn save_history(editor: &mut DefaultEditor, path: &Path) {
    let made = path.parent().map(std::fs::create_dir_all);
    if let Some(Ok(())) = made {
        // rustyline creates the file with mode 0600. A full disk costs the history, not the session.
        let _ = editor.append_history(path);
    }
}
