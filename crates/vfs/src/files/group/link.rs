//! A member's connection, over all the owners that it meets.

use crate::db::{Companion, HEADER_BYTES};
use crate::error::Result;
use crate::ffi::api::Api;
use crate::ffi::codes::{SQLITE_ACCESS_EXISTS, SQLITE_OPEN_CREATE, SQLITE_OPEN_EXCLUSIVE};
use crate::ffi::connection::Connection;
use crate::files::connection_state::MembersStatement;
use crate::files::group::channel::{Channel, First};
use crate::files::group::file_orphan::FileTxn;
use crate::files::group::held_txn::HeldTxn;
use crate::files::group::index_recovery::IndexRecovery;
use crate::files::group::member_file::anew;
use crate::files::group::member_index::Commits;
use crate::files::group::protocol::{Call, ControlKind, FileOf, Operation};
use crate::files::group::wal_reads::WalReads;
use crate::files::vfs::Vfs;
use crate::options::Options;
use crate::sync::lock_table::Level;
use litefoot_storage::file::FileId;
use litefoot_storage::sync::{AcrossFork, Global, Mutex};
use std::ffi::{OsStr, c_int};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, ThreadId};

/// What a member's connection was opened with.
#[derive(Clone)]
pub(crate) struct Opening {
    /// The absolute path of the database.
    pub path: PathBuf,
    /// SQLite's flags of the open.
    pub flags: c_int,
    pub options: Options,
    pub api: &'static Api,
    pub read_only: bool,
    pub powersafe_overwrite: bool,
}

impl Opening {
    /// SQLite's flags for opening the database once more.
    pub fn flags_again(&self) -> c_int {
        self.flags & !(SQLITE_OPEN_CREATE | SQLITE_OPEN_EXCLUSIVE)
    }
}

/// The state that the files of a member's connection share.
pub(crate) struct Link {
    pub(in crate::files) opening: Opening,
    pub(super) vfs: Weak<Vfs>,
    channel: Mutex<Arc<Channel>>,
    /// The journal and the log that are open, with their flags.
    open: Mutex<[Option<c_int>; 2]>,
    pub(super) commits: Commits,
    /// Its rollback-journal transaction, and the pages that it keeps.
    pub(super) txn: Mutex<HeldTxn>,
    /// What it reads without a message in WAL mode.
    pub(super) wal_reads: Mutex<WalReads>,
    /// Its transaction beside strangers.
    pub(super) file_txn: Mutex<FileTxn>,
    /// True while that goes by files of its own, or was lost on the way there.
    pub(super) has_left_owner: AtomicBool,
    /// Its recovery of the index under way.
    pub(super) recovery: IndexRecovery,
    /// The lock that it has, as SQLite knows it, and the thread that has asked for it.
    level: Mutex<(Level, Option<ThreadId>)>,
    /// SQLite's handle of the connection; only for calls that SQLite makes for this connection.
    handle: OnceLock<Connection>,
    /// True once another connection shares its cache, and its file.
    is_shared: AtomicBool,
    /// What each owner is told of the connection first of all.
    pub(super) settings: Settings,
    /// The connection, among those of an owner (`sync/heirs`).
    pub(super) token: u64,
    /// The file, where that is known.
    pub(super) id: Option<FileId>,
    /// The header of the file when it was opened, where the owner has said it.
    header: Option<[u8; HEADER_BYTES]>,
}

/// File controls that an owner is told of before it is asked for anything.
#[derive(Default)]
pub(super) struct Settings {
    pub receives_file_controls: AtomicBool,
    pub persist_wal: AtomicBool,
    pub powersafe_overwrite: AtomicBool,
}

impl Settings {
    /// Tells an owner. It keeps no log in memory for a connection that does not tell of commits.
    pub(super) fn tell(&self, channel: &Channel) -> Result<()> {
        for (kind, is_set) in [
            (ControlKind::Connected, &self.receives_file_controls),
            (ControlKind::PersistWal, &self.persist_wal),
            (ControlKind::PowersafeOverwrite, &self.powersafe_overwrite),
        ] {
            if is_set.load(Ordering::Relaxed) {
                channel.tell(&Call::new(Operation::Control, FileOf::Main, kind as u64, 1))?;
            }
        }
        Ok(())
    }
}

impl Link {
    /// True if SQLite tells the connection of its commits: no VFS above keeps file controls to itself.
    pub(crate) fn is_heard(&self) -> bool {
        self.settings.receives_file_controls.load(Ordering::Relaxed)
    }

    pub(super) fn new(
        opening: Opening,
        vfs: Weak<Vfs>,
        channel: Arc<Channel>,
        id: Option<FileId>,
    ) -> Arc<Link> {
        let powersafe_overwrite = AtomicBool::new(opening.powersafe_overwrite);
        let First { txn, header } = channel.take_first().unwrap_or_default();
        Arc::new(Link {
            settings: Settings { powersafe_overwrite, ..Settings::default() },
            token: RandomState::new().hash_one(std::process::id()) | 1,
            opening,
            id,
            vfs,
            channel: Mutex::new(channel),
            open: Mutex::default(),
            commits: Commits::default(),
            txn: Mutex::new(txn),
            header,
            wal_reads: Mutex::default(),
            file_txn: Mutex::default(),
            has_left_owner: AtomicBool::new(false),
            recovery: IndexRecovery::default(),
            level: Mutex::default(),
            handle: OnceLock::new(),
            is_shared: AtomicBool::new(false),
        })
    }

    /// Copies bytes of the header, as the owner has said with its first reply; `false` where it has to be asked.
    pub(super) fn read_header(&self, buf: &mut [u8], offset: u64) -> bool {
        let part = usize::try_from(offset).ok().map(|offset| offset..offset + buf.len());
        let found = part.and_then(|part| self.header.as_ref()?.get(part));
        found.map(|found| buf.copy_from_slice(found)).is_some()
    }

    /// True if another file has the name of the database by now, or none; `None` where that is not known.
    pub(super) fn has_moved(&self) -> Option<bool> {
        let id = self.id?;
        let there = self.vfs.upgrade()?.medium.identity(&self.opening.path).ok()?;
        Some(there != Some(id))
    }

    /// SQLite has that lock from now on.
    pub(super) fn note_level(&self, level: Level) {
        *self.level.lock() = (level, Some(thread::current().id()));
    }

    /// The lock that SQLite has.
    pub(super) fn level(&self) -> Level {
        self.level.lock().0
    }

    /// True for a connection that may make its journal or open its log just now. SQLite opens a log in the call in which it has taken the lock of a reader.
    fn may_open(&self, file: FileOf) -> bool {
        let (level, thread) = *self.level.lock();
        let is_asking = match file {
            FileOf::Journal => level >= Level::Reserved,
            _ => level >= Level::Shared && thread == Some(thread::current().id()),
        };
        is_asking && self.open_flags(file).is_none()
    }

    /// The stream to the present owner.
    pub(super) fn channel(&self) -> Arc<Channel> {
        self.channel.lock().clone()
    }

    pub(super) fn set_channel(&self, channel: Arc<Channel>) {
        *self.channel.lock() = channel;
    }

    /// Notes that the journal or the log is open, by its flags, or is not.
    pub(super) fn note_open(&self, file: FileOf, flags: Option<c_int>) {
        if let Some(place) = self.open.lock().get_mut((file as usize).wrapping_sub(1)) {
            *place = flags;
        }
    }

    /// The flags of the journal or the log, where it is open.
    pub(super) fn open_flags(&self, file: FileOf) -> Option<c_int> {
        self.open.lock().get((file as usize).wrapping_sub(1)).copied().flatten()
    }

    /// Notes SQLite's handle of the connection, or that several share the file.
    pub(crate) fn set_handle(&self, handle: Connection) {
        if self.handle.set(handle).is_err() {
            self.is_shared.store(true, Ordering::Relaxed);
        }
    }

    /// The statement that a call of SQLite's is for.
    pub(super) fn statement(&self) -> MembersStatement {
        self.known_handle().map_or(MembersStatement::UNKNOWN, MembersStatement::of)
    }

    /// SQLite's handle of the connection that a call is for, where that is known.
    pub(super) fn known_handle(&self) -> Option<Connection> {
        self.handle.get().copied().filter(|_| !self.is_shared.load(Ordering::Relaxed))
    }

    /// Deletes the journal or the log.
    pub(crate) fn delete(&self, file: FileOf, sync_directory: bool) -> Result<()> {
        if self.delete_held(file) {
            return Ok(());
        }
        let told = self.channel().tell(&Call::new(Operation::Delete, file, u64::from(sync_directory), 0));
        self.or_by_itself(told, |own| own.delete(file, sync_directory))
    }

    /// True if the journal or the log is there, by SQLite's flags.
    pub(crate) fn access(&self, file: FileOf, flags: c_int) -> Result<bool> {
        if flags == SQLITE_ACCESS_EXISTS {
            let mut txn = self.txn.lock();
            let seen = match file {
                FileOf::Journal => txn.seen.journal.take(),
                FileOf::Wal => txn.seen.log.take(),
                FileOf::Main => None,
            };
            if let Some(is_there) = if txn.is_held() { Some(false) } else { seen } {
                return Ok(is_there);
            }
        }
        let call = Call::new(Operation::Access, file, flags as u64, 0);
        let channel = self.channel();
        // SQLite looks for both where a transaction begins.
        let asked = channel.ask(&call, |reply| Ok(reply.flag));
        anew(&channel, self.or_by_itself(asked, |own| own.is_there(file)))
    }
}

/// The members' connections of this process, by the paths of their databases.
#[derive(Default)]
pub(crate) struct Links {
    links: Global<Known>,
}

#[derive(Default)]
struct Known(Vec<Weak<Link>>);

impl AcrossFork for Known {
    fn inherit(parents: Known) -> Known {
        // The connections are inherited as well.
        parents
    }
}

impl Links {
    pub(super) fn add(&self, link: &Arc<Link>) {
        let mut links = self.links.lock();
        links.0.retain(|other| other.strong_count() > 0);
        links.0.push(Arc::downgrade(link));
    }

    /// The connections to the database at a path.
    pub(super) fn of(&self, path: &Path) -> Vec<Arc<Link>> {
        let links = self.links.lock();
        links.0.iter().filter_map(Weak::upgrade).filter(|link| link.opening.path == path).collect()
    }

    /// A connection to the database whose journal or log would have that path, and which of them it is.
    pub(crate) fn at(&self, path: &Path) -> Option<(Arc<Link>, FileOf)> {
        let links = self.links.lock();
        if links.0.is_empty() {
            return None;
        }
        companions_at(path).find_map(|(base, file)| {
            let mut found = links.0.iter().filter_map(Weak::upgrade).filter(|link| link.opening.path == base);
            let first = found.next()?;
            // One whose owner has ended has nobody to ask.
            let link = if first.channel().is_alive() {
                first
            } else {
                found.find(|link| link.channel().is_alive()).unwrap_or(first)
            };
            Some((link, file))
        })
    }

    /// The connection that makes its journal or opens its log, where a VFS above does not say which one it is, and one only can be it. Whoever opens a
    /// journal that is there may have any lock.
    pub(crate) fn asking(&self, path: &Path, file: FileOf, flags: c_int) -> Option<Arc<Link>> {
        if file == FileOf::Journal && flags & SQLITE_OPEN_CREATE == 0 {
            return None;
        }
        let links = self.links.lock();
        let there = links.0.iter().filter_map(Weak::upgrade);
        let mut asking = there.filter(|link| companion_of(link, path) == Some(file) && link.may_open(file));
        asking.next().filter(|_| asking.next().is_none())
    }

    /// True if this process has ever had a member's connection.
    pub(crate) fn are_there(&self) -> bool {
        !self.links.lock().0.is_empty()
    }
}

/// Which of its files that path would be.
pub(crate) fn companion_of(link: &Link, path: &Path) -> Option<FileOf> {
    companions_at(path).find_map(|(base, file)| (link.opening.path == base).then_some(file))
}

/// The databases whose journal or log would have that path, and which of them it would be.
fn companions_at(path: &Path) -> impl Iterator<Item = (&Path, FileOf)> {
    let name = path.as_os_str().as_bytes();
    [(Companion::Journal, FileOf::Journal), (Companion::Wal, FileOf::Wal)].into_iter().filter_map(
        move |(companion, file)| {
            let base = name.strip_suffix(companion.suffix().as_bytes())?;
            Some((Path::new(OsStr::from_bytes(base)), file))
        },
    )
}
