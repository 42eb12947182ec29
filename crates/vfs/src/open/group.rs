//! The name by which other processes find the owner of a database (`files/group`).

use crate::open::OpenDatabase;
use crate::options::GroupSocket;
use crate::sync::forks::InSqlite;
use crate::sync::group_board::Board;
use crate::sync::unwritten_pages::UnwrittenPages;
use litefoot_storage::os::LocalListener;
use litefoot_storage::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long the end of a process waits for the transactions of its members.
const LAST_WAIT: Duration = Duration::from_secs(2);
/// The time between two looks whether they have ended.
const GLANCE: Duration = Duration::from_millis(1);

/// The name of a database whose owner serves members; it is free again when this is dropped.
pub(crate) struct Group {
    listener: Arc<LocalListener>,
    /// Streams of members that were accepted, and have not ended.
    guests: usize,
}

impl Group {
    /// Members come to that listener.
    pub(crate) fn new(listener: LocalListener) -> Group {
        Group { listener: Arc::new(listener), guests: 0 }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.listener.close();
    }
}

/// The end of a group whose owner's process ends: transactions that are under way go on for a while, and none begins.
#[derive(Default)]
pub(crate) struct GroupEnd {
    has_begun: AtomicBool,
    /// Members' connections that are in a transaction, and their calls under way.
    busy: AtomicUsize,
}

/// A call of a member's, from before it is looked at until it is answered.
pub(crate) struct CallUnderWay<'a>(&'a GroupEnd);

impl Drop for CallUnderWay<'_> {
    fn drop(&mut self) {
        self.0.count(false);
    }
}

impl GroupEnd {
    /// True if no transaction of a member's begins any more: it begins with the next owner.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::SeqCst)
    }

    /// A call has come. Who asks afterwards whether the end has begun, and finds that it has not, is waited for: whatever the call
    /// begins is counted by then, and whatever it ends is told to the member.
    pub(crate) fn begin_call(&self) -> CallUnderWay<'_> {
        self.count(true);
        CallUnderWay(self)
    }

    /// A member's connection is in a transaction from now on, or is not.
    pub(crate) fn count(&self, is_busy: bool) {
        if is_busy {
            self.busy.fetch_add(1, Ordering::SeqCst);
        } else {
            self.busy.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// The group of a database, where it has one.
pub(super) type OwnGroup = Mutex<Option<Group>>;

impl OpenDatabase {
    /// Members are served from now on; answers where they come. `None` where they are already.
    pub(crate) fn begin_group(&self, group: Group) -> Option<Arc<LocalListener>> {
        let mut own = self.group.lock();
        if own.is_some() {
            return None;
        }
        let listener = group.listener.clone();
        // Before a member can be there: commits note what they change from now on.
        self.serves_group.store(true, Ordering::Relaxed);
        *own = Some(group);
        Some(listener)
    }

    /// Members are served, without a listener.
    #[cfg(test)]
    pub(crate) fn serves_group_in_test(&self) {
        self.serves_group.store(true, Ordering::Relaxed);
    }

    /// True if other processes' connections may be this process's.
    pub(crate) fn serves_group(&self) -> bool {
        self.serves_group.load(Ordering::Relaxed)
    }

    /// The board of the group, where somebody may look at it.
    pub(crate) fn board(&self) -> Option<&Arc<Board>> {
        self.db.shared().board()
    }

    /// How the group ends.
    pub(crate) fn group_end(&self) -> &GroupEnd {
        &self.group_end
    }

    /// The process ends: waits for the transactions of members that are under way, at most [`LAST_WAIT`]. Those of an owner that has just died come first.
    pub(super) fn end_group_in_order(&self) {
        if !self.serves_group() || !self.db.is_of_this_process() {
            return;
        }
        self.await_heirs();
        self.group_end.has_begun.store(true, Ordering::SeqCst);
        // Members that begin without a message find so, too.
        if let Some(board) = self.board() {
            board.set_open(false);
        }
        let begun = Instant::now();
        let is_busy = || {
            self.group_end.busy.load(Ordering::SeqCst) > 0
                || self.wal_index.is_shared_by_members()
                || self.locks.is_read_by_members()
        };
        while is_busy() && begun.elapsed() < LAST_WAIT {
            std::thread::sleep(GLANCE);
        }
        if !is_busy() {
            // There are none for an heir (`succession`).
            self.db.shared().unwritten().into_iter().for_each(UnwrittenPages::close);
        }
    }

    /// No further member is served.
    pub(crate) fn end_group(&self) {
        self.end_group_where(|_| true);
    }

    fn end_group_where(&self, may_end: impl FnOnce(&Group) -> bool) {
        let mut own = self.group.lock();
        let former = own.take_if(|group| may_end(group));
        if former.is_some() {
            self.serves_group.store(false, Ordering::Relaxed);
        }
        drop(own);
        if let Some(wal) = self.wal().filter(|_| former.is_some()) {
            wal.unshare_frames();
        }
        drop(former);
    }

    /// True while members come to the name of this database.
    pub(crate) fn has_name(&self) -> bool {
        self.group.lock().is_some()
    }

    /// A stream of a member's was accepted; `false` where the group has ended, and it is to come again.
    pub(crate) fn admit(&self) -> bool {
        let mut own = self.group.lock();
        let Some(group) = own.as_mut() else { return false };
        group.guests += 1;
        true
    }

    /// True if whoever opens the file waits until this process has made way.
    pub(crate) fn has_lease(&self) -> bool {
        self.sharing().has_lease()
    }

    /// It has ended. True if no other is there.
    pub(crate) fn dismiss(&self) -> bool {
        let mut own = self.group.lock();
        let Some(group) = own.as_mut() else { return false };
        group.guests = group.guests.saturating_sub(1);
        group.guests == 0
    }

    /// Ends the group where no member is there, and the next one that comes is told of by the lease (`joiners`). No handle is in a transaction: who waits
    /// in line has no lock.
    pub(super) fn end_empty_group(&self) {
        self.end_group_where(|group| {
            group.guests == 0
                && self.db.options().group_socket != GroupSocket::File
                && self.sharing().has_lease()
        });
    }

    /// The same at a moment at which no handle is in a transaction; `false` where there was none.
    pub(crate) fn end_group_if_alone(&self) -> bool {
        let _no_fork = InSqlite::enter();
        let _one = self.ownership.becoming.lock();
        if self.is_multi_process() {
            // It ends once the others have left.
            return true;
        }
        self.sharing().note_attempt();
        let ended = self.locks.while_idle(|| self.wal_index.while_idle(|| self.end_empty_group()));
        self.sharing().note_attempt();
        ended.flatten().is_some()
    }
}
