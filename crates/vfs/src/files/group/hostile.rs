//! Foreign bytes in the place of a member, and of an owner: for `fuzz/` only.
//!
//! A frame is as on a stream (`protocol`).

use super::batch::{Batch, News};
use super::owner::{ORPHAN_BYTES, Served};
use super::protocol::{Call, ControlKind, FileOf, Operation, Outcome, POWERSAFE, Reply};
use super::statement;
use crate::ffi::codes::{
    SQLITE_INTERNAL, SQLITE_OPEN_CREATE, SQLITE_OPEN_MAIN_JOURNAL, SQLITE_OPEN_READWRITE, SQLITE_OPEN_WAL,
};
use crate::files::connection_state::MembersStatement;
use crate::files::durable_reads::Shows;
use crate::files::vfs::{Vfs, VfsSetup};
use crate::open::OpenDatabase;
use crate::open::database::DatabaseSetup;
use crate::options::Options;
use crate::sync::group_changes::Moment;
use crate::sync::heirs::Since;
use crate::sync::lock_table::Level;
use litefoot_storage::file::{FileKind, Medium, OpenMode};
use std::path::Path;
use std::sync::Arc;

/// Most calls of one input.
const MOST_CALLS: usize = 200;
const MIX: u64 = 1009;

/// The frames that bytes begin with, without their lengths.
fn frames(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = bytes.split_first_chunk()?;
        let (frame, rest) = rest.split_at_checked(u32::from_ne_bytes(*len) as usize)?;
        bytes = rest;
        Some(frame)
    })
}

/// Has an owner on a medium make what bytes say, as calls of a member.
///
/// # Panics
/// A call has panicked.
pub(crate) fn member(medium: &Arc<dyn Medium>, path: &Path, bytes: &[u8]) -> Option<u64> {
    let vfs = Arc::new(Vfs::new(VfsSetup {
        name: "hostile".to_owned(),
        medium: medium.clone(),
        defaults: Options::default(),
        pass_through: false,
        keeps_logs: false,
    }));
    let file = medium.open(path, FileKind::Database, OpenMode::Create).ok()?;
    let database = vfs.databases.get_or_insert(file.id(), || {
        OpenDatabase::new(DatabaseSetup {
            host: None,
            medium: medium.clone(),
            file: file.clone(),
            path: path.to_owned(),
            options: Options::default(),
            writable: true,
            created: false,
            holds_back: true,
            pooled: false,
            kept_logs: None,
        })
    });
    database.db().shared().begin_board(database.wal_index().begin_group(file.id()).ok()?);
    let mut served = Served::new(vfs, database.clone(), POWERSAFE);
    let (mut outgoing, mut outcome) = (Vec::new(), 1_u64);
    for frame in frames(bytes).take(MOST_CALLS) {
        let Some((call, _)) = Call::decode(frame) else { break };
        if served.make(&call, true, &mut outgoing).is_none() {
            break;
        }
        let reply = frames(&outgoing).next().and_then(Reply::decode);
        assert!(reply.is_some(), "{:?} has no reply", call.operation);
        let Some(reply) = reply else { break };
        let has_panicked = reply.outcome == Outcome::Failed && reply.value == SQLITE_INTERNAL as u64;
        assert!(!has_panicked, "{:?} has panicked: {}", call.operation, String::from_utf8_lossy(reply.data));
        let step = call.operation as u64 * 8 + reply.outcome as u64 * 2 + u64::from(reply.flag);
        outcome = outcome.wrapping_mul(MIX).wrapping_add(step);
    }
    served.end();
    Some(outcome)
}

/// Reads bytes as replies of an owner, and as what comes with them.
pub(crate) fn owner(bytes: &[u8]) -> u64 {
    let mut outcome = 1_u64;
    for frame in frames(bytes).take(MOST_CALLS) {
        let Some(reply) = Reply::decode(frame) else { break };
        let (changed, pages) = News::decode(reply.data).map_or((0, 0), |news| {
            let changed = news.changed().map_or(1, |changed| 2 + changed.len());
            (changed, 1 + news.pages.iter().count())
        });
        let batch = Batch::decode(reply.data).map_or(0, |batch| 1 + batch.pages.iter().count());
        assert!(pages.max(batch) <= 1 + reply.data.len() / 512, "more pages than bytes");
        for part in [reply.outcome as u64, changed.min(9) as u64, pages as u64, batch as u64] {
            outcome = outcome.wrapping_mul(MIX).wrapping_add(part);
        }
    }
    outcome
}

/// Conversations as a member has them: with a rollback journal, with a transaction that is held back, and with a log.
pub(crate) fn conversations() -> Vec<Vec<u8>> {
    let call = |operation, file, a, b, data: &[u8]| {
        let mut bytes = Vec::new();
        Call::new(operation, file, a, b).with(data).encode(true, &mut bytes);
        bytes
    };
    let main = |operation, a, b| call(operation, FileOf::Main, a, b, &[]);
    let lock = |level: Level| main(Operation::Lock, level as u64, 0);
    let statement = MembersStatement { is_autocommit: true, shows: Shows::Outcome };
    let said = |exclusive| statement::encode(exclusive, statement);
    let connected = main(Operation::Control, ControlKind::Connected as u64, 0);
    let done = main(Operation::Control, ControlKind::CommitDone as u64, 0);
    let mut page = vec![0; 512];
    page[..16].copy_from_slice(crate::db::MAGIC);
    page[16..20].copy_from_slice(&[2, 0, 1, 1]);
    let flags = |kind| (kind | SQLITE_OPEN_CREATE | SQLITE_OPEN_READWRITE) as u64;
    let first_commit = [
        connected,
        lock(Level::Shared),
        lock(Level::Reserved),
        call(Operation::Open, FileOf::Journal, flags(SQLITE_OPEN_MAIN_JOURNAL), 0, &[]),
        call(Operation::Write, FileOf::Journal, 0, 0, &page),
        lock(Level::Exclusive),
        call(Operation::Write, FileOf::Main, 0, 0, &page),
        main(Operation::Sync, 0, 0),
        done.clone(),
        call(Operation::Close, FileOf::Journal, 0, 0, &[]),
        main(Operation::Unlock, 0, 0),
    ]
    .concat();
    let mut batch = Vec::new();
    Batch::encode(512, 512, 512, &mut batch);
    batch.extend_from_slice(&1_u32.to_ne_bytes());
    batch.extend_from_slice(&page);
    let held = [
        call(Operation::Begin, FileOf::Main, 0, 0, &[said(false), 0]),
        lock(Level::Exclusive),
        call(Operation::Commit, FileOf::Main, 15, 0, &batch),
        call(Operation::Commit, FileOf::Main, 7, 0, &batch),
        main(Operation::Read, 0, 512),
        call(Operation::GoOn, FileOf::Main, 1, 2, &[1; ORPHAN_BYTES]),
        main(Operation::Close, 0, 0),
    ]
    .concat();
    let in_wal_mode = [
        lock(Level::Shared),
        call(Operation::Access, FileOf::Wal, 0, 0, &[]),
        call(Operation::Open, FileOf::Wal, flags(SQLITE_OPEN_WAL), 0, &[]),
        call(Operation::ShmMap, FileOf::Main, 0, 32768, &[1]),
        call(Operation::TakeTurn, FileOf::Main, 0, 0, &[said(true)]),
        call(Operation::ShmLock, FileOf::Main, 4, 1, &[said(false)]),
        call(Operation::Write, FileOf::Wal, 0, 0, &page[..32]),
        call(Operation::Sync, FileOf::Wal, 0, 0, &[]),
        main(Operation::ShmUnlock, 0, 1),
        done,
        main(Operation::ShmUnlock, 4, 1),
        call(Operation::Pragma, FileOf::Main, 1, 0, b"synchronous\0FULL"),
        main(Operation::ShmUnmap, 0, 0),
        main(Operation::Close, 0, 0),
    ]
    .concat();
    vec![[first_commit.clone(), held].concat(), [first_commit, in_wal_mode].concat()]
}

/// Replies as an owner gives them.
pub(crate) fn replies() -> Vec<Vec<u8>> {
    let mut news = Vec::new();
    News::encode(
        (Moment { epoch: 1, commits: 2 }, Since { marks: 3, writings: 4 }),
        1024,
        512,
        Some(&[2]),
        &mut news,
    );
    news.extend_from_slice(&2_u32.to_ne_bytes());
    news.extend_from_slice(&[7; 512]);
    let mut bytes = Vec::new();
    Reply { value: 1, data: &news, ..Reply::DONE }.encode(&mut bytes);
    Reply { outcome: Outcome::Failed, flag: false, value: 10, data: b"disk" }.encode(&mut bytes);
    vec![bytes]
}
