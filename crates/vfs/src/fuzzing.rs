//! The private parsers, for `fuzz/` only. Each function sums up the parsed bytes in one number.

use crate::Result;
use crate::capture::encoding::{Logged, MATERIALIZATION, TEXT, TRANSACTION, Text, decode_materialization};
use crate::db::{Access, Db, DbSetup};
use crate::files::group::hostile;
use crate::open::log_inspect::waiting;
use crate::open::recovery::RecoveryDecision;
use crate::open::take_over::{Recovery, delta_decision, finish_redo_log, recover_deltas, recovery_decision};
use crate::options::Options;
use crate::readahead::btree_node::{Node, among};
use crate::stats::{DatabaseState, PAGE_BYTES, Reading, image};
use litefoot_storage::commit_log::CommitLog;
use litefoot_storage::file::{FileKind, Medium, OpenMode};
use litefoot_storage::wal_file::RedoLog;
use std::path::Path;
use std::sync::Arc;

/// A page of a b-tree; the first byte chooses its number and what is reserved at its end.
pub fn node(bytes: &[u8]) -> u64 {
    let Some((choice, page)) = bytes.split_first() else { return 0 };
    let number = 1 + u32::from(choice & 1);
    let usable = page.len().saturating_sub(usize::from(choice >> 1));
    let Some(node) = Node::new(number, page) else { return 0 };
    let mut found = [u64::from(node.is_table_interior()), u64::from(node.is_index_leaf()), 0, 0, 0];
    for slot in 0..=node.cells() {
        found[2] += u64::from(node.child(slot).is_some_and(|child| node.slot_of(child).is_some()));
        found[3] += u64::from(node.rowid(slot, usable).is_some_and(|rowid| among(node.rowids(slot), rowid)));
        found[4] += u64::from(node.child_for(slot as i64).is_some());
    }
    found[3] += node.overflow_at(7, usable).unwrap_or_default().min(99);
    found.into_iter().fold(1, |all, part| all.wrapping_mul(1009).wrapping_add(part))
}

/// The payload of a record of the commit log; the first byte is its kind.
pub fn record(bytes: &[u8]) -> u64 {
    let Some((kind, payload)) = bytes.split_first() else { return 0 };
    match u32::from(*kind) {
        TEXT => Text::decode(payload).map_or(1, |(_, text)| 2 + text.sql.len().min(64) as u64),
        TRANSACTION => Logged::decode(payload).map_or(100, |logged| {
            let values: usize = logged.statements.iter().map(|(_, values)| values.len()).sum();
            assert!(values + logged.statements.len() <= payload.len(), "more than the bytes can hold");
            101 + logged.statements.len().min(64) as u64 * 65 + values.min(64) as u64
        }),
        MATERIALIZATION => {
            decode_materialization(payload).map_or(90, |(frames, _)| 91 + u64::from(frames > 0))
        }
        _ => 0,
    }
}

/// The statistics page of another process.
pub fn figures(bytes: &[u8]) -> u64 {
    let mut page = [0; PAGE_BYTES];
    let len = bytes.len().min(PAGE_BYTES);
    page[..len].copy_from_slice(&bytes[..len]);
    let Some(reading) = Reading::parse(&page) else { return 0 };
    let harmless = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    assert!(reading.figures.iter().all(|(name, _, _)| harmless(name)), "a name could reach a terminal");
    1 + reading.figures.len() as u64 * 2 + u64::from(reading.state == DatabaseState::Owned)
}

/// A statistics page, as it begins.
pub fn figures_page() -> Vec<u8> {
    image(1)
}

/// The calls of a member of a group, as the owner of the database at `path` gets them, frame after frame.
///
/// # Panics
/// A call has panicked: that is a finding.
pub fn member(medium: &Arc<dyn Medium>, path: &Path, bytes: &[u8]) -> u64 {
    hostile::member(medium, path, bytes).unwrap_or_default()
}

/// Such calls as members make them.
pub fn conversations() -> Vec<Vec<u8>> {
    hostile::conversations()
}

/// The replies of an owner, as a member gets them.
pub fn owner(bytes: &[u8]) -> u64 {
    hostile::owner(bytes)
}

/// Such replies as owners give them.
pub fn replies() -> Vec<Vec<u8>> {
    hostile::replies()
}

/// Memory that a recovery has for pages.
const RECOVERY_BYTES: usize = 1024;

/// The end of a recovery without SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// No commit log waits any more: there was none, or its pages were there, or it was set aside.
    Nothing,
    /// Deltas were applied.
    Applied,
    /// Statements wait: SQLite would replay them.
    Replayed,
    /// The commit log is kept.
    Kept,
}

/// Recovers the database at `path`, as opening does before SQLite has a part in it.
///
/// # Errors
/// Those of recovery.
pub fn recovery(medium: &Arc<dyn Medium>, path: &Path) -> Result<Recovered> {
    // Looking changes nothing.
    let _ = waiting(medium, path, None);
    let db = Db::new(DbSetup {
        medium: medium.clone(),
        file: medium.open(path, FileKind::Database, OpenMode::ReadWrite)?,
        path: path.to_owned(),
        // Most pages of an input must not fit into memory.
        options: Options { write_buffer_size: Some(RECOVERY_BYTES), ..Options::default() },
        access: Access { writable: true, created: false, holds_back: true, pooled: false },
        build: None,
        redo_log: Arc::default(),
        kept_logs: None,
    });
    finish_redo_log(&db, &Arc::default(), false)?;
    if medium.info(&db.commit_log_path())?.is_none() {
        return Ok(Recovered::Nothing);
    }
    let [redo, commit_log] = [db.companion_path(crate::db::Companion::Wal), db.commit_log_path()];
    let mut redo = RedoLog::open_of(medium.clone(), &redo, db.latch().clone(), db.data_file())?;
    let log = CommitLog::open(medium.clone(), &commit_log, db.latch().clone())?;
    let Some(base) = log.waiting_deltas() else {
        return Ok(match recovery_decision(&redo, &log, None)? {
            RecoveryDecision::Replay => Recovered::Replayed,
            RecoveryDecision::Keep(_) => Recovered::Kept,
            _ => {
                drop(log);
                medium.delete(&commit_log)?;
                Recovered::Nothing
            }
        });
    };
    let (_, decision) = delta_decision(&log, &base, &redo, &db.data_file())?;
    recover_deltas(&Recovery::default(), &db, &mut redo, log, &base)?;
    Ok(match decision {
        RecoveryDecision::Apply => Recovered::Applied,
        RecoveryDecision::Keep(_) => Recovered::Kept,
        _ => Recovered::Nothing,
    })
}
