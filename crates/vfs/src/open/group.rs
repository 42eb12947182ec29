//! The name by which other processes find the owner of a database (`files/group`).

use crate::open::OpenDatabase;
use crate::sync::group_board::Board;
use litefoot_storage::os::LocalListener;
use litefoot_storage::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The name of a database whose owner serves members; it is free again when this is dropped.
pub(crate) struct Group {
    listener: Arc<LocalListener>,
}

impl Group {
    /// Members come to that listener.
    pub(crate) fn new(listener: LocalListener) -> Group {
        Group { listener: Arc::new(listener) }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.listener.close();
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
        self.serves_group.store(true, Ordering::Relaxed);
        *own = Some(group);
        Some(listener)
    }

    /// True if other processes' connections may be this process's.
    pub(crate) fn serves_group(&self) -> bool {
        self.serves_group.load(Ordering::Relaxed)
    }

    /// The board of the group, where somebody may look at it.
    pub(crate) fn board(&self) -> Option<&Arc<Board>> {
        self.db.shared().board()
    }

    /// No further member is served.
    pub(crate) fn end_group(&self) {
        drop(self.group.lock().take());
    }
}
