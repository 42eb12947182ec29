//! A member's file where it holds rollback-journal transactions back: locks, reads, writes and commits (`held_txn`).
//!
//! # Invariants
//! 1. What is answered here is what the owner would answer: with the lock it has said that no journal and no log is there, how long the
//!    database is, and which pages have changed.
//! 2. Locks are given back with a commit only where SQLite is sure to give them back next: it has deleted its journal, which it keeps in
//!    exclusive mode, and no other statement of the connection runs. Should it go on all the same, it gets them again if nobody has committed,
//!    and an error if somebody has.

use crate::error::{Error, Result};
use crate::ffi::connection::Connection;
use crate::files::durable_reads::Shows;
use crate::files::early_release::committed_meanwhile;
use crate::files::group::batch::News;
use crate::files::group::held_txn::{HeldJournal, HeldPages, HeldTxn, most_held};
use crate::files::group::lent_pages::Reading;
use crate::files::group::link::Link;
use crate::files::group::member_file::{MemberFile, anew};
use crate::files::group::member_spills::Wanted;
use crate::files::group::orphan::Orphaned;
use crate::files::group::protocol::{
    Call, FileOf, HAS_JOURNAL, HOLDS, Operation, RELEASES, RESERVED, SPILLS, STRANGERS, SYNC_WANTED, Seen,
};
use crate::files::group::read_ahead::read_pages;
use crate::files::group::statement;
use crate::files::group::wal_reads::WalReads;
use crate::sync::group_changes::Moment;
use crate::sync::lock_table::Level;
use std::ffi::c_int;
use std::time::Instant;

/// Bytes of a journal that go to the owner at a time.
const PART_BYTES: usize = 64 << 10;

/// What a read, a write or a question has come to.
pub(super) enum Held<T> {
    /// It is answered.
    Done(T),
    /// The owner has to be asked.
    Asks,
}

impl MemberFile {
    /// Takes the lock of a reader, and hears what has changed.
    pub(super) fn begin_transaction(&mut self) -> Result<()> {
        // While the connection had no lock another one may have changed the journal mode.
        *self.link.wal_reads.lock() = WalReads::default();
        self.channel.borrowing.note_beginning((&self.link, &self.channel), || {
            let statement = self.link.statement();
            !statement.is_autocommit
                || statement.shows == Shows::Begun
                || self.link.opening.options.logs_rollback_deltas()
        });
        if self.begins_read_by_seat()? { Ok(()) } else { self.ask_to_begin() }
    }

    fn ask_to_begin(&mut self) -> Result<()> {
        let said = statement::encode(false, self.link.statement());
        let most = most_held(&self.link.opening.options);
        let begun = self.begin(|this| {
            let mut txn = this.link.txn.lock();
            let Moment { epoch, commits } = txn.kept.moment();
            let data = [said, u8::from(txn.kept.has_first())];
            let call = MemberFile::call(Operation::Begin, epoch, commits).with(&data);
            this.channel.ask(&call, |reply| {
                txn.end();
                txn.is_reserved = reply.value & RESERVED != 0;
                let is_told = this.link.is_heard();
                if reply.value & HOLDS == 0 {
                    txn.seen = Seen::decode(reply.data);
                }
                if reply.value & HOLDS == 0 || !is_told {
                    return Ok(reply.value & STRANGERS != 0);
                }
                let news = News::decode(reply.data).ok_or_else(unexpected)?;
                txn.hear(&news);
                txn.pages = Some(HeldPages::new(news.page_bytes, news.len, most));
                Ok(false)
            })
        });
        match begun {
            // By the files alone it outlives its owner.
            Ok(true) => self.channel.borrowing.note_beginning((&self.link, &self.channel), || true),
            Ok(false) => {}
            Err(_) => self.link.txn.lock().end(),
        }
        begun.map(drop)
    }

    /// Takes the lock of a writer, which the owner may have given already.
    pub(super) fn reserve(&mut self) -> Result<()> {
        self.take_back_locks()?;
        self.bring_lock_to_owner()?;
        self.spills.begin(self.link.spills());
        if self.link.txn.lock().is_reserved {
            return Ok(());
        }
        let locked =
            self.in_transaction(|this| this.tell(&Self::call(Operation::Lock, Level::Reserved as u64, 0)));
        let locked = self.link.or_by_itself(locked, |own| own.lock(Level::Reserved));
        if self.link.statement().is_autocommit {
            self.before_first_page(locked)?
        } else {
            locked?
        };
        self.link.txn.lock().is_reserved = true;
        Ok(())
    }

    /// Takes the lock of a writer that is alone. Where strangers are there by now, they must see the journal.
    pub(super) fn lock_alone(&mut self) -> Result<()> {
        let wanted = self.spills.want(self.link.spills(), || self.link.is_commit(), Instant::now());
        if wanted == Wanted::InVain {
            return Err(Error::Busy);
        }
        self.take_back_locks()?;
        self.bring_lock_to_owner()?;
        let data: &[u8] = if wanted == Wanted::ToSpill { &SPILLS } else { &[] };
        let call = Self::call(Operation::Lock, Level::Exclusive as u64, self.link.token).with(data);
        let asked = self.in_transaction(|this| this.channel.ask(&call, |reply| Ok(reply.flag)));
        let asked = self.link.or_by_itself(asked, |own| own.lock(Level::Exclusive).map(|()| true));
        if matches!(asked, Err(Error::Busy)) {
            self.spills.note_refusal(Instant::now());
        }
        if asked.is_ok() {
            self.link.txn.lock().note_alone();
        }
        // A connection that closes its log asks for it as well: it has nothing to lose.
        let is_beside_others =
            if self.is_between_transactions() { anew(&self.channel, asked)? } else { asked? };
        if is_beside_others { self.link.carry() } else { Ok(()) }
    }

    /// Gives locks up. Answers whether the owner has to be told.
    pub(super) fn end_transaction(&mut self, to: Level) -> bool {
        if to < Level::Reserved {
            self.spills.end();
        }
        let mut txn = self.link.txn.lock();
        let is_told = !txn.is_released;
        if to < Level::Exclusive {
            txn.is_alone = false;
        }
        if to < Level::Reserved {
            txn.is_reserved = false;
            txn.pages.iter_mut().for_each(|pages| pages.end(false));
        }
        if to == Level::None {
            txn.end();
        }
        is_told
    }

    /// SQLite goes on behind a commit with which all locks were given back.
    #[cold]
    fn take_back_locks(&mut self) -> Result<()> {
        let moment = {
            let txn = self.link.txn.lock();
            if !txn.is_released {
                return Ok(());
            }
            txn.kept.moment()
        };
        self.ask_to_begin()?;
        let mut txn = self.link.txn.lock();
        if txn.is_held() && txn.kept.moment() == moment {
            return Ok(());
        }
        txn.end();
        drop(txn);
        let _ = self.give_back(&Self::call(Operation::Unlock, Level::None as u64, 0));
        Err(committed_meanwhile(&self.link.opening.path))
    }

    /// Reads bytes of the database as the transaction sees them.
    pub(super) fn read_held(&mut self, buf: &mut [u8], offset: u64) -> Result<Held<()>> {
        if self.link.txn.lock().is_released {
            self.take_back_locks()?;
        }
        let link = self.link.clone();
        let mut txn = link.txn.lock();
        let HeldTxn { kept, pages: Some(pages), .. } = &mut *txn else { return Ok(Held::Asks) };
        let place = pages.page_of(offset, buf.len());
        let Some((number, inside)) = place.filter(|_| offset + buf.len() as u64 <= pages.len) else {
            if offset >= pages.len {
                buf.fill(0);
                return Err(Error::ShortRead);
            }
            drop(txn);
            link.carry()?;
            return Ok(Held::Asks);
        };
        let part = inside..inside + buf.len();
        if let Some(page) = pages.pages.get(&number).map(|page| &**page).or_else(|| kept.get(number)) {
            buf.copy_from_slice(page.get(part).ok_or_else(unexpected)?);
            return Ok(Held::Done(()));
        }
        if pages.is_new(number) {
            buf.fill(0);
            return Ok(Held::Done(()));
        }
        if self.channel.borrowing.read((&link, &self.channel), Reading::Held, number, buf, offset) {
            return Ok(Held::Done(()));
        }
        let page_bytes = pages.page_bytes;
        let last = u32::try_from(pages.least / page_bytes as u64).unwrap_or(u32::MAX);
        let count = kept.ahead.count(number, last, page_bytes);
        let mut is_there = false;
        read_pages(&self.channel, number, count, page_bytes, |read, page| {
            if read == number
                && let Some(part) = page.get(part.clone())
            {
                buf.copy_from_slice(part);
                is_there = true;
            }
            kept.keep(read, page.into());
        })?;
        if is_there { Ok(Held::Done(())) } else { Err(unexpected()) }
    }

    /// Holds a write.
    pub(super) fn write_held(&mut self, buf: &[u8], offset: u64) -> Result<Held<()>> {
        self.hold(|pages| pages.write(buf, offset))
    }

    /// Holds a change of the length.
    pub(super) fn truncate_held(&mut self, len: u64) -> Result<Held<()>> {
        self.hold(|pages| pages.set_len(len))
    }

    fn hold(&mut self, change: impl FnOnce(&mut HeldPages) -> bool) -> Result<Held<()>> {
        {
            let mut txn = self.link.txn.lock();
            let Some(pages) = &mut txn.pages else { return Ok(Held::Asks) };
            if change(pages) {
                return Ok(Held::Done(()));
            }
        }
        self.look_for_owner();
        self.link.carry()?;
        Ok(Held::Asks)
    }

    /// SQLite asks for a sync of the database, which comes with the commit.
    pub(super) fn sync_held(&mut self) -> Held<()> {
        match &mut self.link.txn.lock().pages {
            Some(pages) => {
                pages.sync_wanted = true;
                Held::Done(())
            }
            None => Held::Asks,
        }
    }

    /// Bytes of the database, where that is known.
    pub(super) fn size_held(&self) -> Held<u64> {
        let mut txn = self.link.txn.lock();
        let known = txn.pages.as_ref().map(|pages| pages.len).or_else(|| txn.seen.len.take());
        known.map_or(Held::Asks, Held::Done)
    }

    /// Commits what is held.
    pub(super) fn commit_held(&mut self) -> Result<Held<()>> {
        let link = self.link.clone();
        let mut txn = link.txn.lock();
        let releases = txn.journal_deleted && txn.journal.is_none() && link.ends_with_statement();
        // Only a transaction that has written has deleted a journal.
        let has_journal = txn.journal.is_some() || txn.journal_deleted;
        let Some(pages) = &txn.pages else { return Ok(Held::Asks) };
        let flags = [(pages.sync_wanted, SYNC_WANTED), (has_journal, HAS_JOURNAL), (releases, RELEASES)];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set).fold(0, |flags, (_, flag)| flags | flag);
        let mut committed = pages.commit(&self.channel, flags);
        while committed.is_err() && !self.channel.is_alive() {
            match link.find_next_owner(&mut txn, releases) {
                None if link.was_committed_before_strangers(&txn, releases) => {
                    txn.note_committed_elsewhere();
                    return Ok(Held::Done(()));
                }
                None => break,
                Some(Orphaned::Committed(channel)) => {
                    self.move_to(channel);
                    txn.note_committed_elsewhere();
                    return Ok(Held::Done(()));
                }
                Some(Orphaned::GoesOn(channel)) => {
                    if self.go_on_with(channel, &mut txn)
                        && let Some(pages) = &txn.pages
                    {
                        committed = pages.commit(&self.channel, flags);
                    }
                }
            }
        }
        let HeldTxn { kept, pages: Some(pages), .. } = &mut *txn else { return Ok(Held::Asks) };
        let Ok(commits) = committed else {
            // Nobody knows what others will see.
            kept.forget_all();
            pages.end(false);
            return committed.map(|_| Held::Done(()));
        };
        let moment = Moment { commits, ..kept.moment() };
        let page_bytes = pages.page_bytes;
        kept.go_on(moment, page_bytes, Some(&[]));
        kept.note_len(pages.len);
        // The owner makes page 1 anew.
        for (number, page) in std::mem::take(&mut pages.pages) {
            kept.forget(number);
            if number != 1 {
                kept.keep(number, page);
            }
        }
        pages.end(true);
        txn.is_reserved &= !releases;
        txn.is_released = releases;
        txn.has_committed = true;
        txn.journal_deleted = false;
        Ok(Held::Done(()))
    }
}

impl Link {
    /// Gives the owner what is held of a transaction: it goes on there. SQLite's order of writes is kept.
    pub(super) fn carry(&self) -> Result<()> {
        let mut txn = self.txn.lock();
        let Some(pages) = txn.pages.take() else { return Ok(()) };
        let journal = txn.journal.take();
        drop(txn);
        if let Some(journal) = journal {
            self.carry_journal(&journal)?;
        }
        let channel = self.channel();
        if !pages.has_changes() && !pages.sync_wanted {
            return Ok(());
        }
        if pages.least < pages.base_len() {
            channel.tell(&Call::new(Operation::Truncate, FileOf::Main, pages.least, 0))?;
        }
        for (number, page) in &pages.pages {
            let offset = u64::from(number - 1) * pages.page_bytes as u64;
            self.note_write(FileOf::Main, page, offset)?;
            channel.defer(&Call::new(Operation::Write, FileOf::Main, offset, 0).with(page))?;
        }
        channel.tell(&Call::new(Operation::Truncate, FileOf::Main, pages.len, 0))?;
        if pages.sync_wanted {
            channel.tell(&Call::new(Operation::Sync, FileOf::Main, 0, 0))?;
        }
        Ok(())
    }

    /// Where it must be durable before the pages, SQLite syncs it next, or the owner does.
    fn carry_journal(&self, journal: &HeldJournal) -> Result<()> {
        let channel = self.channel();
        let opened =
            channel.ask(&Call::new(Operation::Open, FileOf::Journal, journal.flags as u64, 0), |_| Ok(0));
        self.open_own_journal(opened, journal.flags)?;
        self.note_open(FileOf::Journal, Some(journal.flags));
        for (number, part) in journal.bytes.chunks(PART_BYTES).enumerate() {
            let offset = (number * PART_BYTES) as u64;
            if self.note_write(FileOf::Journal, part, offset)? {
                continue;
            }
            let told = channel.defer(&Call::new(Operation::Write, FileOf::Journal, offset, 0).with(part));
            self.or_by_itself(told, |own| own.write(FileOf::Journal, part, offset))?;
        }
        Ok(())
    }

    /// Opens the journal in memory, where the transaction is held; `false` where the owner has to be asked.
    pub(super) fn open_journal(&self, flags: c_int) -> bool {
        let mut txn = self.txn.lock();
        let Some(most) = txn.pages.as_ref().map(|pages| pages.most).filter(|_| txn.is_reserved) else {
            return false;
        };
        txn.journal = Some(HeldJournal::new(flags, most));
        txn.journal_deleted = false;
        true
    }

    /// Does something with the journal in memory; `None` where the owner has it. `change` answers `None` where it becomes too large.
    pub(super) fn with_journal<T>(
        &self,
        change: impl FnOnce(&mut HeldJournal) -> Option<T>,
    ) -> Result<Option<T>> {
        let mut txn = self.txn.lock();
        let is_held = txn.is_held();
        let Some(journal) = &mut txn.journal else { return Ok(None) };
        if is_held && let Some(done) = change(journal) {
            return Ok(Some(done));
        }
        drop(txn);
        self.carry()?;
        // One that was left open behind its transaction.
        let left = self.txn.lock().journal.take();
        left.map_or(Ok(()), |journal| self.carry_journal(&journal)).map(|()| None)
    }

    /// Closes the journal in memory; `false` where the owner has it.
    pub(super) fn close_journal(&self) -> bool {
        self.txn.lock().journal.take().is_some()
    }

    /// SQLite deletes its journal; `false` where the owner has it.
    pub(super) fn delete_held(&self, file: FileOf) -> bool {
        let mut txn = self.txn.lock();
        let is_held = txn.is_held() && file == FileOf::Journal;
        txn.journal_deleted |= is_held;
        is_held
    }

    /// True where it is known that neither a journal nor a log is there.
    pub(super) fn has_no_companions(&self) -> bool {
        self.txn.lock().is_held()
    }

    /// True if a commit ends all that the connection does.
    fn ends_with_statement(&self) -> bool {
        self.known_handle().is_some_and(Connection::ends_with_statement)
    }
}

/// What an owner of this build does not send.
pub(super) fn unexpected() -> Error {
    Error::Io("the owner of a group has sent what its member does not understand".to_owned())
}
