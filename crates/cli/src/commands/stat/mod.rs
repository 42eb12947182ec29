//! `litefoot stat`: what a database consists of, and who has it.
//!
//! Reads the files' bytes; nothing is locked for longer than a question, recovered or changed.

use crate::failure::Failure;
use crate::inspect::{self, Content, Files, Owner};
use crate::open::{Access, Database, path_of};
use crate::output::{Columns, Output, grouped, left};
use serde_json::{Map, Value, json};
use std::process::ExitCode;

/// Show a database's files, their state, and who has it open.
///
/// Nothing is changed: logs that wait for recovery are reported and left alone.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot stat app.db
  litefoot stat --json app.db | jq .owner")]
pub struct Args {
    /// The database
    database: String,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let files = inspect::look(&path_of(&args.database))?;
    let stats = litefoot_stats(&args.database, &files)?;
    let mut output = Output::new();
    if args.json {
        output.line(format!("{:#}", as_json(&files, stats)))?;
    } else {
        let mut rows = describe(&files);
        rows.extend(stats.into_iter().map(|(name, value)| (format!("litefoot {name}"), value)));
        let cells: Vec<_> = rows.into_iter().map(|(name, value)| vec![left(name), left(value)]).collect();
        let columns = Columns::fit(cells.iter().map(Vec::as_slice));
        for row in &cells {
            output.line(columns.row(row))?;
        }
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The counters of the storage layer: those of this process, so mostly a list of what there is.
fn litefoot_stats(name: &str, files: &Files) -> Result<Vec<(String, String)>, Failure> {
    if files.bytes == 0 {
        return Ok(Vec::new());
    }
    let database = Database::open_unread(name, Access::Read)?;
    let explain = |error| database.explain(&error);
    let mut statement = database.connection.prepare("PRAGMA litefoot_stats").map_err(explain)?;
    let mut rows = statement.raw_query();
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(explain)? {
        // A VFS answers a PRAGMA with one text: a line for each row, `|` between the columns.
        let text: String = row.get(0).map_err(explain)?;
        found.extend(
            text.lines()
                .filter_map(|line| line.split_once('|'))
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
    }
    Ok(found)
}

fn describe(files: &Files) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let mut add = |name: &str, value: String| rows.push((name.to_owned(), value));
    add("database", format!("{}, {} bytes", files.path.display(), grouped(files.bytes)));
    if let Some(header) = &files.header {
        add("page size", format!("{} bytes", grouped(u64::from(header.page_bytes))));
        add("pages", format!("{}, {} of them free", grouped(u64::from(header.pages)), header.free_pages));
        add("journal mode", header.journal_mode().to_owned());
        add("change counter", header.change_counter.to_string());
        add("schema cookie", header.schema_cookie.to_string());
        add("written by", format!("SQLite {}", header.sqlite_version_text()));
    } else {
        add("pages", "0: an empty database".to_owned());
    }
    add("rollback journal", journal(files));
    add("write-ahead log", wal(files));
    add(
        "statement log",
        match files.statement_log_bytes {
            None => "none".to_owned(),
            Some(bytes) => format!("{} bytes", grouped(bytes)),
        },
    );
    add(
        "atomic writes",
        match files.atomic_write_bytes {
            0 => "none that this device and file system guarantee; option atomic".to_owned(),
            bytes => format!("up to {} bytes, guaranteed by the device", grouped(u64::from(bytes))),
        },
    );
    add("owner", owner(files.owner));
    rows
}

fn journal(files: &Files) -> String {
    let Some(journal) = &files.journal else { return "none".to_owned() };
    let state = match &journal.content {
        Content::Finished => "finished, nothing to roll back".to_owned(),
        Content::InUse { initial_pages, .. } if files.owner == Owner::Nobody => {
            format!("hot: the next open rolls a transaction back, to {initial_pages} pages")
        }
        Content::InUse { .. } => "in use by a transaction".to_owned(),
        Content::Foreign => "not a rollback journal".to_owned(),
    };
    format!("{} bytes, {state}", grouped(journal.bytes))
}

fn wal(files: &Files) -> String {
    let Some(wal) = &files.wal else { return "none".to_owned() };
    let state = if wal.foreign {
        "not a write-ahead log".to_owned()
    } else if wal.committed_frames == 0 {
        "nothing committed in it".to_owned()
    } else {
        format!(
            "{} committed frames, for a database of {} pages",
            grouped(wal.committed_frames),
            grouped(u64::from(wal.pages))
        )
    };
    format!("{} bytes, {state}", grouped(wal.bytes))
}

fn owner(owner: Owner) -> String {
    let process = |pid: Option<u32>| pid.map(|pid| format!(" {pid}")).unwrap_or_default();
    match owner {
        Owner::Nobody => "nobody".to_owned(),
        Owner::Shared(pid) => format!("shared: process{} reads or waits", process(pid)),
        Owner::Exclusive(pid) => format!("process{} keeps others out", process(pid)),
    }
}

/// The JSON form. Keys are stable; those of files that do not exist are null.
fn as_json(files: &Files, stats: Vec<(String, String)>) -> Value {
    let header = files.header.as_ref().map(|header| {
        json!({
            "page_bytes": header.page_bytes,
            "pages": header.pages,
            "free_pages": header.free_pages,
            "journal_mode": header.journal_mode(),
            "reserved_bytes": header.reserved_bytes,
            "change_counter": header.change_counter,
            "schema_cookie": header.schema_cookie,
            "user_version": header.user_version,
            "application_id": header.application_id,
            "sqlite_version": header.sqlite_version_text(),
        })
    });
    let journal = files.journal.as_ref().map(|journal| {
        let state = match journal.content {
            Content::Finished => "finished",
            Content::InUse { .. } => "in_use",
            Content::Foreign => "foreign",
        };
        json!({"bytes": journal.bytes, "state": state})
    });
    let wal = files.wal.as_ref().map(|wal| {
        let checkpoints = wal.header.as_ref().map(|header| header.checkpoint_sequence);
        json!({
            "bytes": wal.bytes,
            "foreign": wal.foreign,
            "committed_frames": wal.committed_frames,
            "pages": wal.pages,
            "checkpoint_sequence": checkpoints,
        })
    });
    let (state, pid) = match files.owner {
        Owner::Nobody => ("nobody", None),
        Owner::Shared(pid) => ("shared", pid),
        Owner::Exclusive(pid) => ("exclusive", pid),
    };
    let stats: Map<String, Value> = stats
        .into_iter()
        .map(|(name, value)| {
            let number = value.parse::<i64>().map(Value::from);
            (name, number.unwrap_or(Value::String(value)))
        })
        .collect();
    json!({
        "database": files.path.to_string_lossy(),
        "bytes": files.bytes,
        "header": header,
        "journal": journal,
        "wal": wal,
        "statement_log": files.statement_log_bytes.map(|bytes| json!({"bytes": bytes})),
        "atomic_write_bytes": files.atomic_write_bytes,
        "owner": {"state": state, "process": pid},
        "litefoot_stats": stats,
    })
}
