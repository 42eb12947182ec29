//! Succession: this process is the next owner by the open file of one that has died (`sync/heirs`).
//!
//! # Why
//! The transactions of the dead owner's members are true as long as nobody writes. So this process gives them the locks that they had, before it gives
//! anybody the lock of a writer.
//!
//! In WAL mode a snapshot is true as long as nobody writes to the database file. The frames of its log are in memory of all (`sync/shared_frames`).
//! So this process gives its reader the slot of one that reads the file and no log: SQLite's rules keep every checkpoint from the file then.
//!
//! # Invariants
//! 1. The locks of the file were held all the time: by the dead owner, by its open file, by this process. Nobody else has read or written it.
//! 2. Recovery comes first. What a transaction finds behind it is what the dead owner would have shown. Until it has ended the others keep the open file: each of them
//!    may take it over in turn.
//! 3. From the succession on nobody gets RESERVED for [`NEW_WRITERS_WAIT`], and while another process is late, but transactions that had it. Whoever gets EXCLUSIVE afterwards ends the
//!    succession first. Then no transaction of the dead owner's goes on any more, but for those that have the lock of a reader by then.
//!    Strangers are not let in for as long.
//! 4. A snapshot goes on where the file is as the dead owner has left it, once its reader has the slot. No checkpoint begins for as long a time, either.
//! 5. For as long the database stays open, whether or not this process has a connection ([`stay_for_heirs`]). The end of the process closes it.

use crate::db::Companion;
use crate::error::{Error, Result};
use crate::open::{OpenDatabase, take_over};
use crate::sync::group_changes::Moment;
use crate::sync::heirs::{Estate, Fate, Heritage, LATEST, LooksAfter, Orphan, Place};
use crate::sync::unwritten_pages::Marks;
use litefoot_storage::file::FileKind;
use litefoot_storage::sync::{AcrossFork, Global, Mutex};
use litefoot_storage::{log_file, thread};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long others may not begin to write, so that members of the dead owner can come.
const NEW_WRITERS_WAIT: Duration = Duration::from_millis(100);
/// How long the logs of the dead owner may be open behind the end of its streams.
const LAST_CLOSES: Duration = Duration::from_millis(500);
const GLANCE: Duration = Duration::from_millis(1);

/// The databases that stay open for the transactions of others, whether or not this process has a connection.
#[derive(Default)]
struct Staying(Vec<Arc<OpenDatabase>>);

impl AcrossFork for Staying {
    fn inherit(parents: Staying) -> Staying {
        // They are the parent's to close.
        std::mem::forget(parents);
        Staying::default()
    }
}

static STAYING: Global<Staying> = Global::new(Staying(Vec::new()));

/// Keeps a database open until transactions of the dead owner's have had their time. Without a thread it is not kept.
pub(crate) fn stay_for_heirs(database: &Arc<OpenDatabase>) {
    let there = Arc::downgrade(database);
    // Nothing is kept by the thread itself, so that the end of the process can close the database.
    let stays = move || {
        while let Some(left) = there.upgrade().and_then(|database| database.heirs_may_come()) {
            std::thread::sleep(left);
        }
        drop(stay_no_longer(|other| std::ptr::eq(Arc::as_ptr(other), there.as_ptr())));
    };
    STAYING.lock().0.push(database.clone());
    if thread::spawn("litefoot-heir", stays).is_err() {
        drop(stay_no_longer(|other| Arc::ptr_eq(other, database)));
    }
}

/// Keeps those no longer for others. The caller closes them, unless a connection has them.
pub(super) fn stay_no_longer(are: impl Fn(&Arc<OpenDatabase>) -> bool) -> Vec<Arc<OpenDatabase>> {
    STAYING.lock().0.extract_if(.., |database| are(database)).collect()
}

/// The succession of one database.
#[derive(Default)]
pub(crate) struct Succession {
    /// True from the claim of the open file until this process has recovered the database by it, and the others know.
    begins: AtomicBool,
    /// True from then on until somebody has EXCLUSIVE.
    is_open: AtomicBool,
    /// Handles that are about to have it, and have waited for that.
    writing: AtomicU32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The dead owner's marks, and their number.
    from: Option<(u64, Arc<Marks>)>,
    /// Until when nobody gets RESERVED; and for [`LATEST`] while others look after their transactions, which this tells.
    until: Option<Instant>,
    others: Option<LooksAfter>,
    /// The moment behind recovery.
    begun: Moment,
    /// How often the file had been changed before recovery.
    file_changes: u64,
    /// The last commit of each of the dead owner's logs that is known to be here.
    known: BTreeMap<u64, u32>,
}

impl OpenDatabase {
    /// This process owns the database from now on, by the open file of an owner that has died, whose marks these are. Nobody has used it here yet.
    ///
    /// # Errors
    /// Recovery has failed. Others may try, which have the open file still.
    pub(crate) fn succeed(&self, number: u64, marks: Arc<Marks>) -> Result<()> {
        self.sharing().keep_owner_lock();
        self.succession.begins.store(true, Ordering::SeqCst);
        let file_changes = self.db.shared().file_changes();
        let recovered = self.recover_as_heir().and_then(|()| {
            // The others count on this process from now on. It has committed nothing yet.
            if marks.decide(Estate::TakenOver) { Ok(()) } else { Err(Error::Busy) }
        });
        if recovered.is_err() {
            // The lock is the open file's: it lasts until nobody has that any more.
            self.db.shared().set_owned(false);
        } else if self.is_owned() && marks.may_be_inherited() {
            let mut state = self.succession.state.lock();
            let (until, begun) = (Instant::now() + NEW_WRITERS_WAIT, self.db.shared().changes().now());
            *state = State {
                others: LooksAfter::of(&marks),
                from: Some((number, marks)),
                until: Some(until),
                begun,
                file_changes,
                known: BTreeMap::new(),
            };
            self.succession.is_open.store(true, Ordering::SeqCst);
        }
        self.succession.begins.store(false, Ordering::SeqCst);
        recovered
    }

    /// Owns the database, and ends its recovery.
    fn recover_as_heir(&self) -> Result<()> {
        let until = Instant::now() + LAST_CLOSES;
        // The system closes the files of a process one after the other: its logs may be in use still.
        while self.are_logs_in_use() && Instant::now() < until {
            std::thread::sleep(GLANCE);
        }
        let mut owned = self.own();
        while matches!(owned, Err(Error::Busy)) && Instant::now() < until {
            std::thread::sleep(GLANCE);
            owned = self.own();
        }
        owned.and_then(|()| take_over::complete_deltas(self))
    }

    /// True if somebody has a log of the database open.
    fn are_logs_in_use(&self) -> bool {
        let (db, wal) = (&self.db, self.db.companion_path(Companion::Wal));
        [(wal, FileKind::RedoLog), (db.commit_log_path(), FileKind::CommitLog)]
            .into_iter()
            .any(|(path, kind)| matches!(log_file::is_taken(&**db.medium(), &path, kind), Ok(true)))
    }

    /// True while this process has the lock of a dead owner's open file, and is not the owner yet.
    pub(super) fn succeeds(&self) -> bool {
        self.succession.begins.load(Ordering::SeqCst)
    }

    /// Waits until transactions of the dead owner's have had their time. A handle that has the lock of a reader, or none, is about to write.
    #[inline]
    pub(crate) fn await_heirs(&self) {
        if self.succession.is_open.load(Ordering::Relaxed) {
            self.succession.await_heirs();
        }
    }

    /// The same for one that is about to have EXCLUSIVE: then the succession has ended. Strangers are not let in before it has asked for the lock.
    #[inline]
    pub(crate) fn end_succession(&self) -> Option<BeforeStrangers<'_>> {
        let is_open = self.succession.is_open.load(Ordering::SeqCst);
        is_open.then(|| self.succession.end())
    }

    /// How much longer transactions of the dead owner's may come: strangers wait for that before they are let in.
    pub(crate) fn heirs_may_come(&self) -> Option<Duration> {
        if self.succeeds() {
            return Some(NEW_WRITERS_WAIT);
        }
        if self.succession.writing.load(Ordering::SeqCst) > 0 {
            return Some(GLANCE);
        }
        let is_open = self.succession.is_open.load(Ordering::Relaxed);
        is_open.then(|| self.succession.left()).flatten().filter(|left| !left.is_zero())
    }

    /// What is to be done with a transaction of the dead owner's. One that goes on has the lock of a reader here already.
    pub(crate) fn fate_of(&self, orphan: Orphan) -> Fate {
        let state = self.succession.state.lock();
        let from = state.from.as_ref().filter(|(number, _)| *number == orphan.since.marks);
        let Some((_, marks)) = from else { return Fate::Lost };
        let is_untouched = self.succession.is_open.load(Ordering::SeqCst)
            && self.is_owned()
            && self.db.shared().changes().now() == state.begun;
        match marks.fate_of(orphan) {
            Fate::GoesOn if !is_untouched => Fate::Lost,
            fate => fate,
        }
    }

    /// True if the file is as the owner with these marks has left it, and nobody has had EXCLUSIVE since. The caller has the lock of a reader, and the slot
    /// of one that reads the file.
    pub(crate) fn has_file_of(&self, marks: u64) -> bool {
        let state = self.succession.state.lock();
        state.from.as_ref().is_some_and(|(number, _)| *number == marks)
            && self.succession.is_open.load(Ordering::SeqCst)
            && self.is_owned()
            && self.db.shared().file_changes() == state.file_changes
    }
}

/// Commits of the dead owner's that this process has, in its log or in the file.
impl OpenDatabase {
    /// That one is here, and so are those before it.
    pub(crate) fn note_known(&self, place: Place) {
        let mut state = self.succession.state.lock();
        let last = state.known.entry(place.salts).or_default();
        *last = place.frame.max(*last);
    }

    /// True if that one is known to be here.
    pub(crate) fn is_known(&self, place: Place) -> bool {
        self.succession.state.lock().known.get(&place.salts).is_some_and(|last| *last >= place.frame)
    }
}

/// A handle that comes before strangers.
pub(crate) struct BeforeStrangers<'a>(&'a AtomicU32);

impl Drop for BeforeStrangers<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Succession {
    #[cold]
    fn end(&self) -> BeforeStrangers<'_> {
        self.writing.fetch_add(1, Ordering::SeqCst);
        let comes_first = BeforeStrangers(&self.writing);
        self.await_heirs();
        self.is_open.store(false, Ordering::SeqCst);
        comes_first
    }

    #[cold]
    fn await_heirs(&self) {
        while let Some(left) = self.left().filter(|left| !left.is_zero()) {
            std::thread::sleep(left);
        }
    }

    /// How much longer to wait at least.
    fn left(&self) -> Option<Duration> {
        let mut state = self.state.lock();
        let (until, now) = (state.until?, Instant::now());
        if now < until {
            return Some(until - now);
        }
        let latest = until + (LATEST - NEW_WRITERS_WAIT);
        if now < latest && state.others.as_ref().is_some_and(|others| !others.are_all_done()) {
            return Some(GLANCE);
        }
        state.others = None;
        Some(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::database::DatabaseSetup;
    use crate::sync::heirs::Since;
    use crate::sync::unwritten_pages::UnwrittenPages;
    use litefoot_sim::SimMedium;
    use litefoot_storage::file::{Medium, OpenMode, RangeLock};
    use std::path::Path;

    const NUMBER: u64 = 7;

    /// A database whose owner before has died, and had marks with that number.
    fn heir() -> OpenDatabase {
        heir_on(&SimMedium::new())
    }

    fn heir_on(medium: &SimMedium) -> OpenDatabase {
        let medium = Arc::new(medium.clone());
        let database = OpenDatabase::new(DatabaseSetup::of_test(medium, Path::new("/a.db")));
        database.succeed(NUMBER, UnwrittenPages::of_dead_owner().of_member()).unwrap();
        database
    }

    #[test]
    fn an_heir_waits_until_the_system_has_closed_the_logs_of_the_owner_before() {
        for (path, kind) in [("/a.db-wal", FileKind::RedoLog), ("/a.db-commits", FileKind::CommitLog)] {
            let medium = SimMedium::new();
            let log = medium.open(Path::new(path), kind, OpenMode::Create).unwrap();
            assert!(log.lock_range(0, 512, RangeLock::Exclusive).unwrap());
            std::thread::scope(|scope| {
                let begun = Instant::now();
                let heir = scope.spawn(|| heir_on(&medium).is_owned());
                std::thread::sleep(Duration::from_millis(30));
                let waits = !heir.is_finished();
                assert!(waits || begun.elapsed() > LAST_CLOSES, "{path} is in use");
                drop(log);
                assert!(heir.join().unwrap());
            });
        }
    }

    /// Both wait for the same moment.
    #[test]
    fn one_that_is_about_to_write_comes_before_strangers() {
        let database = heir();
        assert!(database.heirs_may_come().is_some());
        let first = database.end_succession();
        assert!(first.is_some() && database.heirs_may_come().is_some(), "it has not asked for the lock yet");
        drop(first);
        assert!(database.heirs_may_come().is_none() && database.end_succession().is_none());
    }

    #[test]
    fn writers_wait_for_a_process_that_is_late() {
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let database = OpenDatabase::new(DatabaseSetup::of_test(medium, Path::new("/a.db")));
        let owner = UnwrittenPages::of_dead_owner();
        let late = LooksAfter::of(owner.marks()).unwrap();
        assert!(late.begin());
        database.succeed(NUMBER, owner.of_member()).unwrap();
        database.succession.state.lock().until = Some(Instant::now());
        assert_eq!(database.heirs_may_come(), Some(GLANCE));
        late.end();
        database.await_heirs();
        assert!(database.heirs_may_come().is_none());
        assert!(late.begin() && database.heirs_may_come().is_none(), "once all have been done");
        // One that is stopped.
        database.succession.state.lock().others = LooksAfter::of(owner.marks());
        database.succession.state.lock().until = Instant::now().checked_sub(LATEST);
        assert!(database.heirs_may_come().is_none());
    }

    /// The owner had given the database up, or had just taken it back: nobody had told it of a transaction.
    #[test]
    fn transactions_go_on_only_where_the_owner_had_the_database_for_its_members() {
        for is_open in [true, false] {
            let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
            let database = OpenDatabase::new(DatabaseSetup::of_test(medium, Path::new("/a.db")));
            let owner = UnwrittenPages::of_dead_owner();
            if !is_open {
                owner.close();
            }
            database.succeed(NUMBER, owner.of_member()).unwrap();
            assert!(owner.marks().is_decided() && database.is_owned());
            let since = Since { marks: NUMBER, writings: 0 };
            let fate = database.fate_of(Orphan { since, token: 1, ends: false });
            assert_eq!(fate, if is_open { Fate::GoesOn } else { Fate::Lost });
        }
    }

    #[test]
    fn the_file_is_that_of_the_owner_before_until_somebody_changes_it_or_has_exclusive() {
        let database = heir();
        assert!(database.has_file_of(NUMBER) && !database.has_file_of(NUMBER + 1));
        database.db().write_unseen(&[1; 512], 0).unwrap();
        assert!(!database.has_file_of(NUMBER));
        let database = heir();
        database.end_succession();
        assert!(!database.has_file_of(NUMBER), "the database may have left WAL mode");
        let database = heir();
        database.db().shared().set_owned(false);
        database.db().shared().set_owned(true);
        assert!(!database.has_file_of(NUMBER), "others may have changed it");
    }
}
