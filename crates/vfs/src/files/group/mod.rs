//! The group: processes that use a database together, of which the first commits for all (`sharing=group`).
//!
//! # Why
//! Stock SQLite with several processes that write does not scale, and starves some of them. One process that owns the database
//! commits faster than that for all its connections. So the other processes' connections become its own: each call of SQLite's on their
//! files goes to the owner over a stream, and only the owner touches the files.
//!
//! ```text
//! member                                                owner
//! SQLite -> MemberFile, MemberCompanion -> Channel  ==>  Served -> MainFile, JournalFile, WalFile
//!           wal-index: memory of both, at addresses of each
//! ```
//!
//! # How they find one another
//! A group has an abstract name, which says which file it is (`local_socket` of the storage crate). A process binds the name before it opens the
//! file; one that finds it taken connects, and never opens the file: to the lease of the owner it is nobody. An owner that is alone gives the name up
//! as soon as its lease tells of others. Who finds the name free then knocks (`knocking`), and the owner has the name again.
//!
//! # Promises
//! 1. Strangers, which are all other programs, meet the group as one owner.
//! 2. The death of a member at any point costs its transaction, and nothing else.
//! 3. The death of the owner costs no transaction that its member holds back: it goes on with the next owner, which takes the open file over (`orphan`).
//!    In WAL mode it goes on with its snapshot (`wal_orphan`), and with what it has written (`wal_commits`). Beside strangers it goes on by itself
//!    (`file_orphan`). Any other one fails, unless it has not read yet. Each member's next one begins with the next owner, the first member to come. What was
//!    acknowledged is recovered, as after any crash.
//! 4. Nobody trusts another user: both ends check whose process the other is.
//! 5. Processes with different protocols do not join: the one that comes later is a stranger to the other.
//!
//! | file | holds |
//! |---|---|
//! | `protocol` | calls and replies as bytes |
//! | `channel` | a member's stream to its owner |
//! | `link` | a member's connection, over all its owners |
//! | `member_file` | the database file of a member's connection |
//! | `member_companion` | its journal and its log |
//! | `member_index` | its wal-index, and what goes without a message |
//! | `held_txn` | its rollback-journal transaction, which the owner hears of when it commits |
//! | `wal_reads` | what it reads without a message in WAL mode |
//! | `left_behind` | its snapshots in WAL mode while strangers are there |
//! | `kept_pages` | the pages that it keeps between transactions |
//! | `read_ahead` | how many pages it asks for at once |
//! | `borrowed_file` | the owner's open file, and what becomes of it behind the death of the owner |
//! | `lent_pages` | the pages that it reads from the owner's open file |
//! | `retained` | what a process keeps of its owner between connections |
//! | `member_rollback` | its file while a transaction is held |
//! | `orphan` | its transactions whose owner has died |
//! | `file_orphan` | its transactions beside strangers whose owner has died |
//! | `file_slots` | its slots of the wal-index beside strangers |
//! | `index_recovery` | its recovery of the wal-index, whose owner ends meanwhile |
//! | `wal_orphan` | its snapshots in WAL mode whose owner has died |
//! | `wal_commits`, `wal_state`, `own_frames` | its transactions in WAL mode that write, and whose owner has died; what they have written |
//! | `member_spills` | its pages that SQLite writes before the commit, and readers in the way |
//! | `member_seat` | its transactions without a log that read, and need no message |
//! | `batch` | what has changed, and what is committed, as bytes |
//! | `owner` | the owner's end of a member's connection |
//! | `joining` | finding the owner, or becoming it |
//! | `knocking` | telling an owner that is alone, and has no name |
//! | `statement` | what a member tells of its statement |
//! | `hostile` | foreign bytes in the place of either, for `fuzz/` |

mod batch;
mod borrowed_file;
mod channel;
mod file_orphan;
mod file_slots;
mod held_txn;
pub(crate) mod hostile;
mod index_recovery;
mod joining;
mod kept_pages;
mod knocking;
mod left_behind;
mod lent_pages;
pub(crate) mod link;
pub(crate) mod member_companion;
pub(crate) mod member_file;
mod member_index;
mod member_rollback;
mod member_seat;
mod member_spills;
#[cfg(test)]
mod of_test;
mod orphan;
mod own_frames;
mod owner;
pub(crate) mod protocol;
mod read_ahead;
mod retained;
mod statement;
#[cfg(test)]
mod tests;
mod wal_commits;
mod wal_orphan;
mod wal_reads;
mod wal_state;

pub(super) use borrowed_file::Claim;
use channel::Channel;
use joining::join_again;
pub(super) use joining::{Joined, Met, Vacancy, may_join};
use protocol::{Call, FileOf, Operation};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::db::VERSIONS_AT;
use crate::error::{Error, Result};

/// Refuses a connection in WAL mode whose database has left that while the connection had no owner.
fn check_wal_mode(channel: &Arc<Channel>, path: &Path) -> Result<()> {
    let call = Call::new(Operation::Read, FileOf::Main, VERSIONS_AT as u64, 2);
    let is_wal = channel.ask(&call, |reply| Ok(reply.data == [2, 2]))?;
    if is_wal {
        return Ok(());
    }
    Err(Error::Io(format!(
        "{}: another process has changed the journal mode; open the database again",
        path.display()
    )))
}

/// Sleeps by waiting in the line of the owner that has refused this thread's last attempt to write; `false` where there is none, and
/// nothing was done.
pub(crate) fn sleeps_at_owner(time: Duration) -> bool {
    let Some(channel) = channel::refused() else { return false };
    let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    channel.ask(&Call::new(Operation::Sleep, FileOf::Main, us, 0), |reply| Ok(reply.flag)).unwrap_or(false)
}
