//! The JSON form of what `litefoot stat` says.

use super::Seen;
use super::sharing::Sharing;
use crate::inspect::{Content, Files, Owner};
use serde_json::{Map, Value, json};

/// One object. Keys are stable; those of files that do not exist are null, and so are the figures where no
/// process shows any. The header is null, too, where the owner is alone with the database, which is not opened then.
pub fn as_json(files: &Files, seen: Option<&Seen>) -> Value {
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
        let checkpoints = wal.header.as_ref().map(|header| header.generation);
        json!({
            "bytes": wal.bytes,
            "foreign": wal.foreign,
            "committed_frames": wal.committed_frames,
            "pages": wal.pages,
            "checkpoint_sequence": checkpoints,
        })
    });
    let (state, process) = match files.owner {
        Owner::Nobody => ("nobody", None),
        Owner::Shared(process) => ("shared", process),
        Owner::Exclusive(process) => ("exclusive", process),
    };
    let stats = seen.map(|seen| -> Map<String, Value> {
        seen.reading.figures.iter().map(|(name, _, value)| (name.clone(), Value::from(*value))).collect()
    });
    let tier = files.away.as_ref().map(|away| {
        let overview = away.overview.as_ref().ok();
        let wear = overview.map(litefoot_tier::Overview::wear);
        json!({
            "device": away.device.to_string_lossy(),
            "slots": overview.map(|overview| overview.slot_writes.len()),
            "away": overview.map(|overview| overview.away),
            "writes": overview.map(litefoot_tier::Overview::writes),
            "slot_writes": wear.map(|(min, median, max)| json!({"min": min, "median": median, "max": max})),
        })
    });
    json!({
        "database": files.path.to_string_lossy(),
        "bytes": files.bytes,
        "header": header,
        "journal": journal,
        "wal": wal,
        "commit_log": files.commit_log_bytes.map(|bytes| json!({"bytes": bytes})),
        "tier": tier,
        "atomic_write_bytes": files.atomic_write_bytes,
        "owner": {
            "state": state,
            "process": process,
            "program": process.and_then(crate::inspect::program),
            "open_seconds": seen.map(Seen::open_seconds),
        },
        "sharing": seen.map(|seen| Sharing::with_members(seen, files.id).as_json()),
        "litefoot_stats": stats,
    })
}
