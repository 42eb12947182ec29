//! The process that is traced, and those beside it.

use super::super::process::{DATABASE, GROUP, open};
use rusqlite::Connection;
use std::io::{self, BufRead, Write};
use std::path::Path;

/// The name of the process for [`crate::child`].
pub(crate) const CHILD: &str = "member-calls";

/// The process: it does what it is told, and answers with the number of its last commit.
///
/// | line | what |
/// |---|---|
/// | `open`, `close` | the connection |
/// | `commit` | a row, and its number in another table |
/// | `large` | the same, and more than a member holds |
/// | `read` | a transaction that reads, and another one |
/// | `roll back` | a transaction that is rolled back |
/// | `checkpoint` | SQLite's own: all of the log, which is empty then |
/// | `checkpoint in part` | as much of the log as readers let |
/// | `hold`, `look`, `let go` | a transaction that reads everything; once more, which must be the same; its end |
pub(crate) fn be_killed(arguments: &[String]) -> std::result::Result<(), String> {
    let [directory, writer] = arguments else { return Err("two arguments".to_owned()) };
    let path = Path::new(directory).join(DATABASE);
    let writer: i64 = writer.parse().map_err(|_| "a number".to_owned())?;
    let (mut connection, mut held) = (None, None);
    let mut number = 0;
    let say = |line: String| {
        let mut output = io::stdout().lock();
        output.write_all(line.as_bytes()).and_then(|()| output.flush()).map_err(|error| error.to_string())
    };
    say("ready\n".to_owned())?;
    for line in io::stdin().lock().lines().map_while(io::Result::ok) {
        let done = match line.as_str() {
            "open" if connection.is_some() => Ok(()),
            "open" => open(&path, GROUP).map(|opened| connection = Some(opened)),
            "close" => {
                close(connection.take());
                Ok(())
            }
            line => match &connection {
                Some((_, db)) if matches!(line, "hold" | "look" | "let go") => look(db, line, &mut held),
                Some((_, db)) => {
                    work(db, line, writer, number + 1).map(|commits| number += i64::from(commits))
                }
                None => Err("there is no connection".to_owned()),
            },
        };
        match done {
            Ok(()) => say(format!("{number}\n"))?,
            Err(error) => {
                // A commit that has failed may be there all the same.
                if let Some((_, db)) = &connection {
                    let sql = "SELECT coalesce(max(n), 0) FROM r WHERE writer = ?1";
                    number = db.query_row(sql, [writer], |row| row.get(0)).unwrap_or(number);
                }
                say(format!("error {}\n", error.replace('\n', " ")))?;
            }
        }
    }
    close(connection);
    Ok(())
}

/// The connection goes first.
fn close(opened: Option<(Option<litefoot::Vfs>, Connection)>) {
    if let Some((vfs, db)) = opened {
        drop(db);
        drop(vfs);
    }
}

/// Begins to hold a snapshot, looks at it, or ends it.
fn look(db: &Connection, line: &str, held: &mut Option<Vec<i64>>) -> std::result::Result<(), String> {
    let failed = |error: rusqlite::Error| error.to_string();
    if line == "let go" {
        *held = None;
        let sql = if db.is_autocommit() { "" } else { "COMMIT" };
        return db.execute_batch(sql).map_err(failed);
    }
    if line == "hold" {
        db.execute_batch("BEGIN").map_err(failed)?;
    }
    // SQLite keeps no page of the last look.
    db.execute_batch("PRAGMA shrink_memory").map_err(failed)?;
    let verdict: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(failed)?;
    // The check goes on behind a page that cannot be read, and says so in its text.
    if verdict.contains(&format!("error code={}", rusqlite::ffi::SQLITE_IOERR)) {
        return Err(format!("a page was refused: {verdict}"));
    }
    if verdict != "ok" {
        return Err(format!("the snapshot is damaged: {verdict}"));
    }
    let sql = "SELECT (SELECT count(*) FROM r), (SELECT sum(n * writer) FROM r), (SELECT sum(length(text)) FROM r), (SELECT sum(n * writer) FROM w)";
    let read = db.query_row(sql, [], |row| (0..4).map(|column| row.get(column)).collect::<Result<_, _>>());
    let found: Vec<i64> = read.map_err(failed)?;
    match held {
        Some(before) if *before != found => Err(format!("the snapshot was {before:?}, and is {found:?}")),
        Some(_) => Ok(()),
        None => {
            *held = Some(found);
            Ok(())
        }
    }
}

/// Does one thing; true where that is a commit.
fn work(db: &Connection, line: &str, writer: i64, n: i64) -> std::result::Result<bool, String> {
    let failed = |error: rusqlite::Error| error.to_string();
    match line {
        // The second one has heard of all commits.
        "read" => {
            let sql = "SELECT count(*) FROM r; SELECT count(*) FROM w";
            return db.execute_batch(sql).map(|()| false).map_err(failed);
        }
        "checkpoint in part" => {
            let sql = "PRAGMA wal_checkpoint(PASSIVE)";
            return db.query_row(sql, [], |_| Ok(false)).map_err(failed);
        }
        "checkpoint" => {
            let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
            return match db.query_row(sql, [], |row| row.get(0)).map_err(failed)? {
                0 => Ok(false),
                _ => Err("a checkpoint meets somebody".to_owned()),
            };
        }
        _ => {}
    }
    let more = match line {
        "large" => format!("INSERT INTO r VALUES({writer}, {}, zeroblob(900000));", -n),
        _ => String::new(),
    };
    let commits = matches!(line, "commit" | "large");
    let end = if commits { "COMMIT" } else { "ROLLBACK" };
    let done = db.execute_batch(&format!(
        "BEGIN IMMEDIATE; INSERT INTO r VALUES({writer}, {n}, 'a row'); INSERT OR REPLACE INTO w VALUES({writer}, {n}); {more} {end}"
    ));
    if done.is_err() && !db.is_autocommit() {
        let _ = db.execute_batch("ROLLBACK");
    }
    done.map(|()| commits).map_err(failed)
}
