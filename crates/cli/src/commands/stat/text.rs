//! The output of `litefoot stat` for people.

use super::super::tier::{living, spread};
use super::Seen;
use super::sharing::Sharing;
use crate::inspect::{Content, Files, Owner, process};
use litefoot_storage::file::FileId;
use litefoot_terminal::text::{duration, grouped};

/// A row: what, and what of it.
pub type Row = (String, String);

/// The files, their state, and who has them.
pub fn describe(files: &Files) -> Vec<Row> {
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
    } else if files.unread {
        let why = if files.shared_on_demand {
            "not read: opening the file would make its owner share it"
        } else {
            "not read: its owner keeps others out"
        };
        add("header", why.to_owned());
    } else if files.away.is_none() {
        add("pages", "0: an empty database".to_owned());
    }
    if let Some(away) = &files.away {
        let device = away.device.display();
        match &away.overview {
            Ok(overview) => {
                let (least, median, most) = overview.wear();
                add("tier", format!("{} on {device}", living(overview.away)));
                add("writes of the tier", grouped(overview.writes()));
                add("writes of a tier slot", spread(least, median, most));
            }
            Err(why) => add("tier", format!("parts live on {device}, which cannot be read: {why}")),
        }
    }
    add("rollback journal", journal(files));
    add("write-ahead log", wal(files));
    add(
        "commit log",
        match files.commit_log_bytes {
            None => "none".to_owned(),
            Some(bytes) => format!("{} bytes", grouped(bytes)),
        },
    );
    match files.atomic_write_bytes {
        0 if files.unread => {}
        0 => {
            add("atomic writes", "none that this device and file system guarantee; option atomic".to_owned())
        }
        bytes => {
            add(
                "atomic writes",
                format!("up to {} bytes, guaranteed by the device", grouped(u64::from(bytes))),
            );
        }
    }
    add("owner", owner(files));
    if files.owner != Owner::Nobody && files.published.is_none() {
        add("figures", "none are shown: it is another user's process, or does not use litefoot".to_owned());
    }
    rows
}

/// The figures of the process that has the database open. Of what never happened, only what stands on its own
/// is shown.
pub fn figures(seen: &Seen, database: FileId) -> Vec<Row> {
    let mut rows = vec![("open for".to_owned(), duration(seen.open_seconds()))];
    rows.extend(Sharing::with_members(seen, database).rows());
    let shown = seen.reading.figures.iter().filter(|(name, _, value)| *value > 0 && !Sharing::has(name));
    rows.extend(shown.map(|(name, _, value)| (format!("litefoot {name}"), grouped(*value))));
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

fn owner(files: &Files) -> String {
    match files.owner {
        Owner::Nobody => "nobody".to_owned(),
        Owner::Shared(id) => format!("shared: {} has it open", process(id)),
        Owner::Exclusive(id) if files.shared_on_demand => {
            format!("{}, which shares it with whoever opens it", process(id))
        }
        Owner::Exclusive(id) => format!("{} keeps others out", process(id)),
    }
}
