//! Joiners: processes that want to be members of the group of a database that this process has alone.
//!
//! # Why
//! An owner that is alone has no name by which others could find it, no socket and no thread. Its lease tells of everybody who comes. So a process that would
//! join takes the name of the group itself, and knocks: it opens the file in a way that the lease refuses at once. The owner finds it at the
//! name, begins the group, and goes on with the listener of the other.
//!
//! ```text
//! joiner (files/group/knocking)             owner
//! binds litefoot-<file>
//! open, O_NONBLOCK: refused        ------>  lease: somebody is at the door
//!                                  <------  connects: "wait"
//!                                           while nobody writes: the wal-index becomes memory that members can map
//!                                  <------  "come"
//! its listener                     ------>  listens there from now on, and takes its lease again
//! connects, as any member          ------>  a thread serves it
//! ```
//!
//! # Promises
//! 1. Without a joiner an application pays an attempt to connect for each visitor.
//! 2. A joiner hears soon what it is to do. Where it hears nothing, it opens the file as a stranger, which is always correct.
//! 3. The name is free at no time: whoever comes meanwhile waits at it, and comes to the owner.
//! 4. Without having been told to, an owner serves newcomers outside of WAL mode, and in WAL mode where commits wait for syncs that take long. The device is asked for that
//!    behind a knock or a newcomer only, and never by a thread of the application's.
//!
//! # Invariants
//! 1. One process at a time knocks: the one that has the name. The others wait there, and do not open the file.
//! 2. Where the wal-index is used, a group begins while no handle holds a slot of it exclusively: readers inside go on with what they see.
//! 3. The lease is taken again only behind an answer to the joiner. So one that has heard nothing may knock again and again.

use crate::cache::read_committed;
use crate::commit::sync_time;
use crate::db::{HEADER_BYTES, is_wal_mode};
use crate::open::OpenDatabase;
use crate::open::sharing;
use crate::options::{GroupSocket, Sharing};
use crate::sync::forks::InSqlite;
use litefoot_storage::file::{FileId, parent_directory};
use litefoot_storage::os::{LocalListener, LocalSocket};
use litefoot_storage::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What an owner says to a joiner.
pub(crate) type Word = [u8; 8];
/// It will say more.
pub(crate) const WAIT: Word = *b"LFWAIT01";
/// The joiner is to send its listener, with one byte, and to connect to the name then.
pub(crate) const COME: Word = *b"LFCOME01";
/// The joiner is to open the file as a stranger.
pub(crate) const STAY: Word = *b"LFSTAY01";

/// How long a joiner may take to send its listener.
const HANDOVER_MS: u32 = 250;

/// Serves members that come to a listener.
type Serve = Box<dyn Fn(&Arc<OpenDatabase>, LocalListener) + Send + Sync>;

/// The joiners of one database.
#[derive(Default)]
pub(crate) struct Joiners {
    /// How members are served; absent where none may be.
    serve: OnceLock<Serve>,
    /// The one who waits for an answer.
    at_the_door: Mutex<Option<LocalSocket>>,
    /// True if the last commit in WAL mode was one that SQLite does not sync, or the last setting of a connection says that its commits are such.
    are_unsynced: AtomicBool,
}

/// The name of the group of a file.
pub(crate) fn name_of(id: FileId) -> String {
    format!("litefoot-{:x}-{:x}", id.device, id.inode)
}

/// What has come of the one at the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// No joiner, or none that is served.
    Nobody,
    /// It has to wait.
    Waits,
    /// It is a member, or will be.
    Served,
}

/// How a thread may find out whether syncs are long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LongSyncs {
    /// By what is known already.
    Known,
    /// By some syncs of its own, where nothing is known.
    Asked,
}

/// What is to be said.
enum Decision {
    Wait,
    Stay,
    Come,
}

impl OpenDatabase {
    /// Members may be served, by `serve`.
    pub(crate) fn may_serve_by(
        &self,
        serve: impl Fn(&Arc<OpenDatabase>, LocalListener) + Send + Sync + 'static,
    ) {
        if self.joiners.serve.set(Box::new(serve)).is_ok() {
            self.wal_index.expect_members();
        }
    }

    /// The file was opened by a process that has the name of its group, which waits for joiners from now on: by its lease, where this process has that.
    /// Otherwise, and where one waits already, the name is kept.
    pub(crate) fn await_joiners(self: &Arc<OpenDatabase>, listener: LocalListener) {
        let Some(serve) = self.joiners.serve.get() else { return };
        let is_kept = self.db.options().group_socket == GroupSocket::File
            || if sharing::takes_lease_at_open(self) {
                // Whoever is not served so knocks.
                listener.is_awaited(Duration::ZERO).unwrap_or(false) && self.serves_now(LongSyncs::Known)
            } else {
                self.serves_beside_others()
            };
        if is_kept {
            serve(self, listener);
        }
    }

    /// Members are served at a listener from now on.
    pub(crate) fn serve_at(self: &Arc<OpenDatabase>, listener: LocalListener) {
        if let Some(serve) = self.joiners.serve.get() {
            serve(self, listener);
        }
    }

    /// True if newcomers are served: by the word of the application, or by themselves.
    fn serves_now(&self, long_syncs: LongSyncs) -> bool {
        self.db.options().sharing == Sharing::Group || self.gains_by_newcomers(long_syncs)
    }

    fn serves_beside_others(&self) -> bool {
        self.db.options().sharing == Sharing::Group
            || !self.sharing().is_blind() && self.gains_by_newcomers(LongSyncs::Known)
    }

    /// True if newcomers are served that have not been told to come, or come to one that has not been told to serve. It may sync a file: not for a thread of the
    /// application's.
    pub(crate) fn serves_by_itself(&self) -> bool {
        self.gains_by_newcomers(LongSyncs::Asked)
    }

    fn gains_by_newcomers(&self, long_syncs: LongSyncs) -> bool {
        !self.is_in_wal_mode() || self.waits_for_syncs() && self.has_long_syncs(long_syncs)
    }

    /// True if commits in WAL mode wait for syncs, or members are there already: these and strangers at a time would be slowest.
    fn waits_for_syncs(&self) -> bool {
        !self.joiners.are_unsynced.load(Ordering::Relaxed)
            || self.db.counters().members.load(Ordering::Relaxed) > 0
    }

    /// A connection has said whether its commits are synced, or has made one.
    #[inline]
    pub(crate) fn note_unsynced(&self, are_unsynced: bool) {
        if self.joiners.are_unsynced.load(Ordering::Relaxed) != are_unsynced {
            self.joiners.are_unsynced.store(are_unsynced, Ordering::Relaxed);
        }
    }

    /// True if syncs of commits are known to take long. Where its logs are elsewhere only its own commits tell.
    fn has_long_syncs(&self, by: LongSyncs) -> bool {
        if self.note_long_syncs() {
            return true;
        }
        let device = self.db.file().id().device;
        let answer = match by {
            _ if !self.has_logs_beside() => None,
            LongSyncs::Known => sync_time::known(device),
            LongSyncs::Asked => sync_time::ask(&**self.db.medium(), parent_directory(self.db.path()), device),
        };
        answer.unwrap_or(false)
    }

    /// Notes for the device what its own commits tell; `true` where syncs are long.
    fn note_long_syncs(&self) -> bool {
        let are_long = self.wal().is_some_and(|wal| wal.is_long());
        if are_long && self.has_logs_beside() {
            sync_time::note_long(self.db.file().id().device);
        }
        are_long
    }

    /// True if the logs of commits are on the device of the database.
    fn has_logs_beside(&self) -> bool {
        let options = self.db.options();
        options.commit_log_path.is_none() && options.tier.is_none()
    }

    /// True if the database is in WAL mode, or that is not known.
    pub(crate) fn is_in_wal_mode(&self) -> bool {
        if self.wal().is_some() || self.wal_index.is_used() {
            return true;
        }
        let mut header = [0; HEADER_BYTES];
        let read = match self.is_owned() {
            true => match self.db.file_len() {
                Ok(0) => return false,
                Ok(_) => read_committed(&self.db, &**self.rollback_log(), &mut header, 0),
                Err(error) => Err(error),
            },
            false => self.db.data().read_at(&mut header, 0).map(drop).map_err(Into::into),
        };
        read.is_err() || is_wal_mode(&header)
    }

    /// Members can be served from now on. Where the wal-index is used, the group begins at a moment at which nobody writes; `false` where there was none, or
    /// no memory.
    pub(crate) fn prepare_group(&self) -> bool {
        let _no_fork = InSqlite::enter();
        let _one = self.ownership.becoming.lock();
        let begin_board = |board| self.db.shared().begin_board(board);
        let id = self.db.file().id();
        if let Some(begun) = self.wal_index.begin_unused_group(id, begin_board) {
            return begun.is_ok();
        }
        self.sharing().note_attempt();
        let begun = self.locks.while_unwritten(|_| {
            self.wal_index.while_nobody_writes(|_| self.wal_index.begin_group(id).map(begin_board).is_ok())
        });
        self.sharing().note_attempt();
        begun.flatten().unwrap_or(false)
    }
}

/// Somebody has been at the door for so long. Where it is a joiner, it is served, or told that it will not be.
pub(super) fn meet(database: &Arc<OpenDatabase>, waited: Duration) -> Met {
    let mut door = database.joiners.at_the_door.lock();
    if door.is_none() {
        if !database.sharing().has_lease() || database.has_name() {
            return Met::Nobody;
        }
        // With the log in memory goes what its commits have told.
        database.note_long_syncs();
        // Mostly nobody has the name.
        let Ok(Some(socket)) = LocalSocket::connect(&name_of(database.db.file().id())) else {
            return Met::Nobody;
        };
        let is_trusted = socket.peer().is_ok_and(|peer| peer.is_trusted());
        if socket.send(if is_trusted { &WAIT } else { &STAY }, None).is_err() || !is_trusted {
            return Met::Nobody;
        }
        *door = Some(socket);
    }
    let decision = decide(database, waited);
    if matches!(decision, Decision::Wait) {
        return Met::Waits;
    }
    let Some(joiner) = door.take() else { return Met::Nobody };
    drop(door);
    let serve = database.joiners.serve.get().filter(|_| matches!(decision, Decision::Come));
    let Some(serve) = serve else {
        let _ = joiner.send(&STAY, None);
        return Met::Nobody;
    };
    match take_listener(&joiner) {
        Some(listener) => {
            serve(database, listener);
            if database.has_name() { Met::Served } else { Met::Nobody }
        }
        // It has gone.
        None => Met::Nobody,
    }
}

fn decide(database: &OpenDatabase, waited: Duration) -> Decision {
    let may_serve = database.joiners.serve.get().is_some()
        && !database.is_multi_process()
        && database.serves_now(LongSyncs::Asked);
    if !may_serve {
        Decision::Stay
    } else if database.succeeds() || sharing::is_being_made(database) {
        // What a member commits before would not be known to the succession.
        Decision::Wait
    } else if database.prepare_group() {
        Decision::Come
    } else if waited < sharing::YIELD_AFTER {
        Decision::Wait
    } else {
        Decision::Stay
    }
}

fn take_listener(joiner: &LocalSocket) -> Option<LocalListener> {
    joiner.set_timeout(HANDOVER_MS).ok()?;
    joiner.send(&COME, None).ok()?;
    let (_, descriptor) = joiner.receive(&mut [0]).ok()?;
    LocalListener::taken_over(descriptor?).ok()
}

/// Other processes have the database open. Those that come later find no lease, but the name.
pub(super) fn serve_beside_others(database: &Arc<OpenDatabase>) {
    let Some(serve) = database.joiners.serve.get() else { return };
    if database.has_name() || !database.serves_beside_others() {
        return;
    }
    if let Ok(Some(listener)) = LocalListener::bind(&name_of(database.db.file().id())) {
        serve(database, listener);
    }
}
