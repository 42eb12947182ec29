//! The owner's end of a transaction that a member holds back: its beginning, and its commit.
//!
//! # Invariants
//! 1. A member holds a transaction back only where this process owns the database, and no journal, no log of SQLite's and no index takes part:
//!    what it answers by itself is what the owner would answer.
//! 2. A commit that has failed in any step leaves nothing behind for the next one.
//! 3. Nobody is given the lock of a writer beside a journal. SQLite rolls a hot journal back unless somebody has that lock: it takes the journal for that
//!    one's then.

use super::{Answer, Served, place, unexpected};
use crate::db::{HEADER_BYTES, VERSIONS_AT, page_bytes_in};
use crate::error::Result;
use crate::ffi::codes::{
    SQLITE_ACCESS_EXISTS, SQLITE_OPEN_CREATE, SQLITE_OPEN_MAIN_JOURNAL, SQLITE_OPEN_READWRITE,
};
use crate::files::durable_reads::Shows;
use crate::files::group::batch::{Batch, MOST_NEWS_BYTES, News, encode_page};
use crate::files::group::protocol::{
    Call, FileOf, HAS_JOURNAL, HOLDS, MORE, MOST_BYTES, RELEASES, RESERVED, STRANGERS, SYNC_WANTED, Seen,
};
use crate::files::group::statement;
use crate::files::handle::{Control, Handle};
use crate::files::main_db::MainFile;
use crate::sync::group_changes::Moment;
use crate::sync::heirs::Since;
use crate::sync::lock_table::Level;
use crate::sync::unwritten_pages::UnwrittenPages;

impl Served {
    /// Takes the locks of a transaction that begins, and says what has changed.
    pub(super) fn begin(&mut self, call: &Call<'_>) -> Result<Answer> {
        let (Some(said), Some(has_first)) = (call.data.first(), call.data.get(1)) else {
            return Err(unexpected());
        };
        let (_, statement) = statement::decode(*said);
        let shows = match statement.shows {
            shows if shows == Shows::Always || !self.is_there(FileOf::Journal)? => shows,
            // It asks for the lock once SQLite has looked at what is there.
            _ => Shows::Always,
        };
        let main = self.main()?;
        main.note_statement(statement);
        let is_reserved = main.begin_in_turn(shows)?;
        let reserved = if is_reserved { RESERVED } else { 0 };
        let moment = Moment { epoch: call.a, commits: call.b };
        let mut message = std::mem::take(&mut self.buffer);
        message.clear();
        let told = self.tell_news((moment, None), *has_first != 0, &mut message);
        let bytes = message.len();
        self.buffer = message;
        match told {
            Ok(true) => {
                self.end_read_by_seat();
                Ok(Answer { bytes, ..Answer::value(HOLDS | reserved) })
            }
            Ok(false) => {
                self.end_read_by_seat();
                // SQLite asks for what it wants: in WAL mode it keeps the lock.
                if is_reserved {
                    self.main()?.unlock(Level::Shared)?;
                }
                let are_strangers_there = self.database.is_multi_process();
                let strangers = if are_strangers_there { STRANGERS } else { 0 };
                Ok(Answer { bytes: self.look_around(), ..Answer::value(strangers) })
            }
            Err(error) => {
                self.main()?.unlock(Level::None)?;
                Err(error)
            }
        }
    }

    /// Says what has changed since a moment; `false` where the member does not hold its transaction back, or counts on pages of another size.
    pub(super) fn tell_news(
        &mut self,
        since: (Moment, Option<u32>),
        has_first: bool,
        message: &mut Vec<u8>,
    ) -> Result<bool> {
        if !self.main()?.may_be_held() {
            return Ok(false);
        }
        self.tell_news_to_any(since, has_first, message)
    }

    /// The same for one that need not have said that it tells of its commits.
    pub(super) fn tell_news_to_any(
        &mut self,
        (since, counts_on): (Moment, Option<u32>),
        has_first: bool,
        message: &mut Vec<u8>,
    ) -> Result<bool> {
        if !self.main()?.may_be_held_once_heard() || !self.has_no_companions()? {
            return Ok(false);
        }
        let main = self.main()?;
        let (len, mut header) = (main.size()?, [0; HEADER_BYTES]);
        if len < HEADER_BYTES as u64 {
            return Ok(false);
        }
        main.read(&mut header, 0)?;
        let page_bytes = page_bytes_in(&header) as usize;
        let is_wal = header.get(VERSIONS_AT..VERSIONS_AT + 2).is_none_or(|versions| versions.contains(&2));
        let is_other = counts_on.is_some_and(|bytes| bytes as usize != page_bytes);
        if is_wal || is_other || page_bytes == 0 || !len.is_multiple_of(page_bytes as u64) {
            return Ok(false);
        }
        self.open_marks()?;
        let shared = self.database.db().shared();
        let (now, changed) = shared.changes().since(since);
        let present = shared.unwritten().map_or(Since::default(), UnwrittenPages::now);
        let changed: Option<Vec<u32>> = changed.map(|changed| changed.into_iter().collect());
        News::encode((now, present), len, page_bytes, changed.as_deref(), message);
        let has_first = has_first && changed.as_ref().is_some_and(|changed| !changed.contains(&1));
        let others = changed.iter().flatten().copied().filter(|number| *number != 1);
        let first = (!has_first).then_some(1);
        let pages = len / page_bytes as u64;
        let most = (MOST_NEWS_BYTES / page_bytes).max(1);
        let main = self.main()?;
        for number in first.into_iter().chain(others).filter(|number| u64::from(*number) <= pages).take(most)
        {
            encode_page(number, page_bytes, message, |page| {
                main.read(page, u64::from(number - 1) * page_bytes as u64)
            })?;
        }
        self.show(now);
        Ok(message.len() < MOST_BYTES / 2)
    }

    /// Puts what SQLite looks at next into the buffer; answers its bytes. What is in the way is said once SQLite asks.
    fn look_around(&mut self) -> usize {
        let mut message = std::mem::take(&mut self.buffer);
        message.clear();
        let len = self.main().and_then(|main| main.size());
        let [journal, log] = [FileOf::Journal, FileOf::Wal].map(|file| self.is_there(file));
        if let (Ok(len), Ok(journal), Ok(log)) = (len, journal, log) {
            Seen::encode(journal, log, len, &mut message);
        }
        let bytes = message.len();
        self.buffer = message;
        bytes
    }

    pub(super) fn is_there(&self, file: FileOf) -> Result<bool> {
        self.vfs.access(&self.path(file)?, SQLITE_ACCESS_EXISTS, None)
    }

    /// True if SQLite would find neither a journal nor a log, and the file where it was.
    fn has_no_companions(&self) -> Result<bool> {
        if !self.database.db().has_its_name() {
            return Ok(false);
        }
        for file in [FileOf::Journal, FileOf::Wal] {
            if self.is_there(file)? {
                return Ok(false);
            }
        }
        Ok(self.companions.iter().all(Option::is_none))
    }

    /// Commits what a member has held.
    pub(super) fn commit(&mut self, call: &Call<'_>) -> Result<Answer> {
        let (answer, owed) = self.commit_and_release(call)?;
        // The next one has begun meanwhile.
        self.main()?.await_owed_sync(owed)?;
        Ok(answer)
    }

    /// Opens a journal for a commit, where SQLite has had one; answers whether it did.
    fn open_for_commit(&mut self, has_journal: bool) -> Result<bool> {
        let opens = has_journal && self.companions.first().is_some_and(Option::is_none);
        if opens {
            let flags = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_CREATE | SQLITE_OPEN_READWRITE;
            self.open(FileOf::Journal, flags)?;
        }
        Ok(opens)
    }

    /// The same up to the sync that it may share. A message that is not the last one of its commit writes pages only.
    pub(super) fn commit_and_release(&mut self, call: &Call<'_>) -> Result<(Answer, Option<u64>)> {
        let batch = Batch::decode(call.data).ok_or_else(unexpected)?;
        place(batch.len.max(batch.least), 0)?;
        let begun = self.commit_under_way.take();
        let opened = match begun {
            Some(opened) => opened,
            None => self.open_for_commit(call.a & HAS_JOURNAL != 0)?,
        };
        let mut done = self.main()?.write_batch(&batch, begun.is_some());
        if done.is_ok() && call.a & MORE != 0 {
            self.commit_under_way = Some(opened);
            return Ok((Answer::default(), None));
        }
        let releases = call.a & RELEASES != 0;
        if done.is_ok() {
            done = self.main()?.commit_written(batch.len, call.a & SYNC_WANTED != 0, releases);
        }
        if opened {
            done = done.and(self.close(FileOf::Journal));
        }
        done?;
        if self.main()?.writes_alone() {
            // Before anybody else can write.
            self.database.db().shared().unwritten().into_iter().for_each(UnwrittenPages::note_committed);
        }
        let now = self.database.db().shared().changes().now();
        let main = self.main()?;
        let owed = main.take_owed_sync();
        if releases {
            main.unlock(Level::None)?;
        }
        Ok((Answer::value(now.commits), owed))
    }
}

impl MainFile {
    /// Makes writes of a transaction that its member has held, behind others of it where it `goes_on`.
    fn write_batch(&mut self, batch: &Batch<'_>, goes_on: bool) -> Result<()> {
        let size = self.size()?;
        let changes = batch.pages.iter().next().is_some() || batch.len != size || batch.least < size;
        if self.has_transaction() && !goes_on || changes && !self.writes_alone() {
            return Err(unexpected());
        }
        self.write_pages(batch, goes_on).inspect_err(|_| self.drop_transaction())
    }

    fn write_pages(&mut self, batch: &Batch<'_>, goes_on: bool) -> Result<()> {
        if !goes_on && batch.least < self.size()? {
            self.truncate(batch.least)?;
        }
        for (number, page) in batch.pages.iter() {
            if number == 1 && self.is_inherited {
                let page = self.page_one_to_commit(page)?;
                self.write(&page, 0)?;
                continue;
            }
            self.write(page, u64::from(number - 1) * batch.page_bytes as u64)?;
        }
        Ok(())
    }

    /// Commits the writes that were made. Where it gives its lock up at once, it may owe a sync.
    fn commit_written(&mut self, len: u64, sync_wanted: bool, releases: bool) -> Result<()> {
        let written = self.end_writes(len, sync_wanted);
        if releases {
            self.rollback_txn.share_sync();
        }
        let done = written.and_then(|()| self.control(Control::CommitDone).map(drop));
        if done.is_ok() && releases {
            self.owe_shared_sync();
        }
        self.is_inherited &= done.is_err();
        done.inspect_err(|_| self.drop_transaction())
    }

    fn end_writes(&mut self, len: u64, sync_wanted: bool) -> Result<()> {
        if self.size()? != len {
            self.truncate(len)?;
        }
        if sync_wanted { self.sync() } else { Ok(()) }
    }
}
