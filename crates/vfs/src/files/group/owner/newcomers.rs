//! What an owner says with its first reply: a newcomer's first transaction may begin with that, without a message.
//!
//! # Why
//! A connection that is opened for one request reads the header, and the schema, before its statement. Each was a message, and a lock.
//!
//! # Invariants
//! 1. It is said under the lock of a reader, which is given back at once: the pages are those of the moment. Whether that is still the present one the
//!    member sees on the board when it takes its lock.
//! 2. Pages that a process has kept count where this owner has told it their moment: its marks have a number of their own.
//! 3. A newcomer waits for no recovery.

use super::{Served, caught};
use crate::db::HEADER_BYTES;
use crate::error::Result;
use crate::files::group::protocol::Keeps;
use crate::files::handle::Handle;
use crate::sync::group_changes::Moment;
use crate::sync::lock_table::Level;
use crate::sync::unwritten_pages::UnwrittenPages;

impl Served {
    /// Says the header of the file, behind what is in the message, and what a newcomer's first transaction may begin with; nothing where that has to wait, or
    /// to be asked for.
    pub(in crate::files::group) fn tell_newcomer(&mut self, keeps: Keeps, message: &mut Vec<u8>) {
        let mut header = [0; HEADER_BYTES];
        // As SQLite reads it where it opens a file, without a lock.
        let read = caught(|| self.main().and_then(|main| main.read(&mut header, 0)));
        self.latch_after_panic(&read);
        if read.is_err() {
            return;
        }
        message.extend_from_slice(&header);
        let begin = message.len();
        let own = self.database.db().shared().unwritten().map(UnwrittenPages::id);
        let since = if own == Some(keeps.marks) { keeps.moment } else { Moment::default() };
        let told = caught(|| self.tell_for_a_moment((since, keeps.has_first), message));
        self.latch_after_panic(&told);
        if !matches!(told, Ok(true)) {
            message.truncate(begin);
        }
    }

    fn tell_for_a_moment(
        &mut self,
        (since, has_first): (Moment, bool),
        message: &mut Vec<u8>,
    ) -> Result<bool> {
        // What the last owner has left may take longer than a newcomer waits.
        if !self.database.is_recovered() || !self.main()?.may_be_held_once_heard() {
            return Ok(false);
        }
        self.main()?.lock(Level::Shared)?;
        let told = self.tell_news_to_any((since, None), has_first, message);
        self.main()?.unlock(Level::None)?;
        told
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Told, begin, commit, held_group, member};
    use super::*;
    use crate::files::durable_reads::Shows;
    use crate::files::group::batch::News;
    use crate::files::group::protocol::{HAS_JOURNAL, Operation, RELEASES, SYNC_WANTED};

    const LEN: u64 = 1024;

    /// What a newcomer is told that keeps pages: the moment, the pages that have changed since, and those that come with it.
    fn told(served: &mut Served, keeps: Keeps) -> Option<Told> {
        let mut message = vec![7; 8];
        served.tell_newcomer(keeps, &mut message);
        assert_eq!(message[..8], [7; 8], "what is in the message already");
        assert!(!served.is_in_transaction(), "the lock is given back");
        let news = News::decode(&message[8 + HEADER_BYTES..]);
        news.map(|news| (news.moment, news.changed(), news.pages.iter().map(|(number, _)| number).collect()))
    }

    #[test]
    fn a_newcomer_hears_what_has_changed_since_its_process_was_told_by_this_owner() {
        let (vfs, database, mut one) = held_group();
        let mut newcomer = member(&vfs, &database).0;
        let (first, changed, pages) = told(&mut newcomer, Keeps::default()).unwrap();
        assert_eq!((changed, pages), (None, vec![1]));
        // The marks have a number once a member has begun to read.
        let marks = database.db().shared().unwritten_or_new().unwrap().id();
        begin(&mut one, Moment::default(), Shows::Outcome);
        one.main(Operation::Lock, Level::Exclusive as u64, 0);
        commit(&mut one, LEN, &[(2, 7)], SYNC_WANTED | HAS_JOURNAL | RELEASES).unwrap();
        for (marks, has_first, expected) in [
            (marks, true, (Some(vec![2]), vec![2])),
            (marks, false, (Some(vec![2]), vec![1, 2])),
            (marks + 1, true, (None, vec![1])),
            (0, true, (None, vec![1])),
        ] {
            let (now, changed, pages) =
                told(&mut newcomer, Keeps { marks, moment: first, has_first }).unwrap();
            assert_eq!((changed, pages), expected, "{marks} {has_first}");
            assert_eq!(now, Moment { commits: first.commits + 1, ..first });
        }
    }

    #[test]
    fn a_newcomer_hears_nothing_of_a_commit_that_is_under_way() {
        let (vfs, database, mut one) = held_group();
        let mut newcomer = member(&vfs, &database).0;
        begin(&mut one, Moment::default(), Shows::Outcome);
        assert!(told(&mut newcomer, Keeps::default()).is_some(), "nothing is written yet");
        one.main(Operation::Lock, Level::Exclusive as u64, 0);
        assert_eq!(told(&mut newcomer, Keeps::default()), None);
        one.main(Operation::Unlock, Level::None as u64, 0);
        assert!(told(&mut newcomer, Keeps::default()).is_some());
    }

    #[test]
    fn a_newcomer_hears_the_header_in_any_case() {
        let (vfs, database, mut one) = held_group();
        let mut newcomer = member(&vfs, &database).0;
        one.main(Operation::Lock, Level::Shared as u64, 0);
        one.main(Operation::Lock, Level::Exclusive as u64, 0);
        let mut message = Vec::new();
        newcomer.tell_newcomer(Keeps::default(), &mut message);
        let mut header = [0; HEADER_BYTES];
        newcomer.main().unwrap().read(&mut header, 0).unwrap();
        assert_eq!(message, header);
        assert_eq!(message[..16], *crate::db::MAGIC);
    }

    #[test]
    fn a_newcomer_waits_for_no_recovery() {
        let (vfs, database, _one) = held_group();
        let mut newcomer = member(&vfs, &database).0;
        database.replay_waits_in_test();
        assert_eq!(told(&mut newcomer, Keeps::default()), None);
    }
}
