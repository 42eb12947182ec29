//! Access to a database: processes, connections, readers and writers.
//!
//! ```text
//! relatives      processes related by fork ask each other for a database
//! forks          SQLite's locks of the whole process, around a fork
//! owner_lock     one process owns a database
//! lock_table     SQLite's file locks, between the connections of the owner
//! file_locks     SQLite's file locks on the file, while a database is multi-process
//! wal_index      the shared memory of WAL mode, in the memory of the owner; its regions, readers' marks, and members of a group
//! shm_file       the same memory as a file, while a database is multi-process
//! writer_queue   writers in WAL mode wait in order
//! waiting        what waiting in line needs of the system
//! refused_writer a writer that was refused waits there where SQLite lets it sleep
//! reader_gate    readers and an exclusive holder see each other
//! group_board    memory in which members of a group and their owner see each other
//! file_seats     the lock of a member that reads without a message, where there is no write-ahead log
//! shared_frames  the frames of the log, in memory that members map
//! slot_gates     the gates of the wal-index's slots, and the seats of members
//! promises       how many commits were promised to be durable
//! word           the atomic words of all of these, so that a model checker can put its own in their place
//! kept_transactions  each transaction, for those that look at a database
//! page_marks     which pages may have changed since somebody looked
//! group_changes  which pages the last commits have changed, for members that keep pages
//! unwritten_pages  which pages are not in the database file yet, for members that read it themselves
//! heirs          what an owner that dies leaves behind: its open file, and which transactions of its members are still true
//! ```

#[cfg(test)]
#[cfg(target_pointer_width = "64")]
mod exhaustive;
#[cfg_attr(not(test), expect(dead_code, reason = "called by the multi-process state"))]
pub(crate) mod file_locks;
pub(crate) mod file_seats;
pub(crate) mod forks;
pub(crate) mod group_board;
pub(crate) mod group_changes;
pub(crate) mod heirs;
pub(crate) mod kept_transactions;
pub(crate) mod lock_table;
pub(crate) mod owner_lock;
pub(crate) mod page_marks;
pub(crate) mod promises;
pub(crate) mod reader_gate;
pub(crate) mod refused_writer;
pub(crate) mod relatives;
pub(crate) mod shared_frames;
pub(crate) mod shm_file;
mod slot_gates;
#[cfg(test)]
mod stock_process;
pub(crate) mod unwritten_pages;
pub(crate) mod waiting;
pub(crate) mod wal_index;
pub(crate) mod wal_index_group;
pub(crate) mod wal_index_marks;
pub(crate) mod wal_index_region;
pub(crate) mod wal_index_sharing;
pub(crate) mod word;
pub(crate) mod writer_queue;
