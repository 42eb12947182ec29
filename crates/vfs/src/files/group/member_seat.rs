//! A member's rollback-journal transactions that only read: their lock is one of the seat, and costs no message (`sync/file_seats`).
//!
//! # When
//! The member has been told the moment that the owner shows: it knows which of its pages are those of that moment, how long the database is, and that
//! neither a journal nor a log is there. It only reads, as far as SQLite says. In any other case it asks, as before.
//!
//! # Invariants
//! 1. Without a message nothing tells that the owner has ended. So the member looks at the stream first.
//! 2. Pages that it does not keep come from the owner as ever: while the seat is taken they are those of the same moment.
//! 3. A transaction that goes on to write has its lock in the owner first, while the seat still has it.

use crate::error::{Error, Result};
use crate::ffi::connection::Connection;
use crate::files::connection_state::MembersStatement;
use crate::files::durable_reads::Shows;
use crate::files::group::batch::News;
use crate::files::group::held_txn::{HeldPages, most_held};
use crate::files::group::member_file::MemberFile;
use crate::files::group::member_rollback::unexpected;
use crate::files::group::protocol::{HOLDS, Operation};
use crate::files::group::statement;
use crate::sync::file_seats::SeatLock;
use crate::sync::lock_table::Level;

impl MemberFile {
    /// Takes the lock of a reader by the seat; `false` where the owner has to be asked.
    pub(super) fn begins_read_by_seat(&mut self) -> Result<bool> {
        if !self.may_read_by_seat() {
            return Ok(false);
        }
        // The next owner has told nothing yet.
        self.begin(|this| this.channel.look())?;
        let link = self.link.clone();
        let mut txn = link.txn.lock();
        let Some((len, page_bytes)) = txn.kept.told() else { return Ok(false) };
        let Some((board, seat)) = self.channel.board() else { return Ok(false) };
        match board.read(seat, txn.kept.moment()) {
            SeatLock::Shared => {}
            SeatLock::Refused => return Ok(false),
            SeatLock::IsOwed => {
                self.give_back(&Self::call(Operation::Unlock, Level::None as u64, 0))?;
                return Ok(false);
            }
        }
        txn.end();
        txn.pages = Some(HeldPages::new(page_bytes, len, most_held(&self.link.opening.options)));
        self.reads_by_seat = true;
        Ok(true)
    }

    fn may_read_by_seat(&self) -> bool {
        let is_shown = || {
            let txn = self.link.txn.lock();
            // Else the owner's heirs would not know it.
            txn.since.marks == self.channel.borrowing.marks()
                && self.channel.board().is_some_and(|(board, _)| board.may_show(txn.kept.moment()))
        };
        // It holds transactions back, and one that writes waits for its turn before it reads.
        self.link.is_heard()
            && is_shown()
            && self.link.known_handle().is_some_and(Connection::only_reads_or_prepares)
    }

    /// Gives up what the seat has; `false` where the owner has to be told.
    pub(super) fn ends_read_by_seat(&mut self, to: Level) -> bool {
        if !self.reads_by_seat {
            return false;
        }
        if to >= Level::Shared {
            return true;
        }
        self.reads_by_seat = false;
        // With its owner all is gone.
        self.channel.board().is_none_or(|(board, seat)| board.unread(seat))
    }

    /// The transaction goes on to write: what the seat has becomes a lock in the owner.
    pub(super) fn bring_lock_to_owner(&mut self) -> Result<()> {
        if !self.reads_by_seat {
            return Ok(());
        }
        let brought = self.bring_lock();
        // The next owner has given it, or this process has it by itself.
        let has_it = brought.is_err() && (self.goes_on() || self.link.goes_by_itself());
        if has_it {
            self.reads_by_seat = false;
            return Ok(());
        }
        brought
    }

    fn bring_lock(&mut self) -> Result<()> {
        let link = self.link.clone();
        let mut txn = link.txn.lock();
        let moment = txn.kept.moment();
        // It is not one that waits for its turn before it has read.
        let statement = MembersStatement { shows: Shows::Always, ..link.statement() };
        let data = [statement::encode(false, statement), u8::from(txn.kept.has_first())];
        let call = Self::call(Operation::Begin, moment.epoch, moment.commits).with(&data);
        let told = self.channel.ask(&call, |reply| match reply.value & HOLDS {
            0 => Ok(None),
            _ => News::decode(reply.data).map(|news| Some(news.moment)).ok_or_else(unexpected),
        })?;
        self.reads_by_seat = false;
        match told {
            Some(now) if now == moment => Ok(()),
            // Strangers are there by now, or a journal is. Nothing was written: it goes on there.
            None => {
                txn.pages = None;
                Ok(())
            }
            // Somebody has committed beside a reader.
            Some(_) => {
                txn.end();
                Err(Error::Io(format!(
                    "{}: the owner of a group has let a commit pass beside a reader",
                    link.opening.path.display()
                )))
            }
        }
    }
}
