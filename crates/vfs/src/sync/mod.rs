//! Who may use a database when: processes, connections, readers and writers.

pub(crate) mod forks;
pub(crate) mod lock_table;
pub(crate) mod owner_lock;
pub(crate) mod reader_gate;
pub(crate) mod relatives;
pub(crate) mod wal_index;
pub(crate) mod writer_queue;
