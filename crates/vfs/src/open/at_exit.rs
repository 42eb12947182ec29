//! Exit without closing: what waits as deltas goes to the redo log when the process exits.
//!
//! # Why
//! Scripts, and programs that just return, do not close their databases. Nothing is lost then. But stock SQLite, which does
//! not know the commit log, would see the last checkpoint until litefoot opens the database again. And void logs and
//! journals that closes have kept ([`KeptLogs`]) are of no use any more.
//!
//! # Promises
//! 1. Nothing is waited for: where another thread is at work on a database, its deltas are left to the next open. But the transactions of other
//!    processes, for which this one commits (`sharing=group`), may end first, and so may what is done for them: some seconds are left for that. So they
//!    are for the recovery of what the owner of such a group has left that was killed just before.
//! 2. A forked child does nothing: what waits is its parent's.

use crate::db::KeptLogs;
use crate::open::{OpenDatabase, sharing, succession};
use litefoot_storage::file::FileId;
use litefoot_storage::sync::{AcrossFork, Global};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// So long the threads that serve members may keep the logs of a database.
const WAIT_FOR_LOGS: Duration = Duration::from_secs(1);
const GLANCE: Duration = Duration::from_millis(1);

/// The databases that are open in this process.
#[derive(Default)]
struct Open(Vec<Weak<OpenDatabase>>);

impl AcrossFork for Open {
    fn inherit(_parents: Open) -> Open {
        Open::default()
    }
}

static OPEN: Global<Open> = Global::new(Open(Vec::new()));

/// What is done first, where there is anything.
static FIRST: OnceLock<fn()> = OnceLock::new();

/// Has that done before all else, once the process ends.
pub(crate) fn first(duty: fn()) {
    let _ = FIRST.set(duty);
}

/// Notes a database that was opened.
pub(super) fn note_opened(database: &Arc<OpenDatabase>) {
    let mut open = OPEN.lock();
    open.0.retain(|other| other.strong_count() > 0);
    open.0.push(Arc::downgrade(database));
}

/// Leaves all databases as another program expects them. For the end of the process.
pub fn leave() {
    if let Some(first) = FIRST.get() {
        first();
    }
    let staying = succession::stay_no_longer(|_| true);
    let mut open: Vec<Arc<OpenDatabase>> = OPEN.lock().0.iter().filter_map(Weak::upgrade).collect();
    open.iter().for_each(|database| database.end_group_in_order());
    let is_owned = |database: &&Arc<OpenDatabase>| database.db().shared().was_owned();
    let owned: Vec<FileId> = open.iter().filter(is_owned).map(|database| database.db().file().id()).collect();
    // One that was open for others only is closed, as behind its last connection.
    open.retain(|database| {
        database.handles().any() || !staying.iter().any(|other| Arc::ptr_eq(other, database))
    });
    drop(staying);
    bring_home(&open);
    // Closing is the application's.
    std::mem::forget(open);
    KeptLogs::remove_all(&owned);
}

/// Materializes the deltas of all databases that are open, and removes the journals that they would keep. The file of a group outside of WAL mode is
/// complete then.
fn bring_home(open: &[Arc<OpenDatabase>]) {
    for database in open {
        let begun = Instant::now();
        // The threads that serve members may be at work on the logs for a moment.
        while !database.fold_at_exit() && database.group_end().has_begun() && begun.elapsed() < WAIT_FOR_LOGS
        {
            std::thread::sleep(GLANCE);
        }
        if database.db().is_of_this_process() && database.db().shared().was_owned() {
            if database.group_end().has_begun() {
                // Its members may have no more transaction, and none of them is an owner then.
                database.locks().while_free(|| database.rollback_log().retire_at_exit(database.db()));
            }
            database.rollback_log().fold_at_exit(database.db());
            database.rollback_log().remove_kept_journal_at_exit(database.db());
        }
        sharing::clear_up_at_exit(database);
    }
}
