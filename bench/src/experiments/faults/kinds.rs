//! Which calls fail, with what, and under which settings: tables.

use libc::{EAGAIN, EINTR, EIO, EMFILE, ENOLCK, ENOMEM, ENOSPC, ENOSYS, EOPNOTSUPP, EPERM};

/// When the calls begin to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountFrom {
    /// Before the program calls SQLite.
    Start,
    /// Once a first transaction is done.
    Open,
}

/// How often a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Once.
    Once,
    /// So many times in a row.
    InARow(u32),
    /// From then on always.
    Always,
}

/// A fault.
#[derive(Clone, Copy, Debug)]
pub struct FaultKind {
    /// The row of the table.
    pub name: &'static str,
    /// The library's name for the call.
    pub call: &'static str,
    /// The error number; 0 for half of a read or write.
    pub error: i32,
    /// How often, in turns.
    pub times: &'static [Times],
    /// When the calls begin to be counted.
    pub begin: CountFrom,
    /// True if calls of SQLite and the C library count as well as litefoot's.
    pub of_anyone: bool,
    /// True if litefoot's documentation says that it may end the process.
    pub may_abort: bool,
    /// Most calls that are tried, evenly spread; `None` for every one.
    pub most: Option<u64>,
}

const BOTH: &[Times] = &[Times::Once, Times::Always];
const ONCE: &[Times] = &[Times::Once];
const ALWAYS: &[Times] = &[Times::Always];
/// One failed allocation is bad luck; some in a row are a machine without memory.
const MEMORY: &[Times] = &[Times::Once, Times::InARow(8)];

const fn file(name: &'static str, call: &'static str, error: i32, times: &'static [Times]) -> FaultKind {
    FaultKind {
        name,
        call,
        error,
        times,
        begin: CountFrom::Start,
        of_anyone: false,
        may_abort: false,
        most: None,
    }
}

/// All kinds.
pub const KINDS: &[FaultKind] = &[
    file("read_eio", "read", EIO, BOTH),
    file("read_eintr", "read", EINTR, ONCE),
    file("read_short", "read", 0, BOTH),
    file("write_eio", "write", EIO, BOTH),
    file("write_enospc", "write", ENOSPC, BOTH),
    file("write_eintr", "write", EINTR, ONCE),
    file("write_short", "write", 0, BOTH),
    file("durable_eio", "durable", EIO, BOTH),
    file("durable_unknown", "durable", EOPNOTSUPP, ALWAYS),
    file("sync_eio", "sync", EIO, BOTH),
    file("length_enospc", "length", ENOSPC, BOTH),
    file("length_eio", "length", EIO, ONCE),
    file("open_emfile", "open", EMFILE, BOTH),
    file("unlink_eio", "unlink", EIO, BOTH),
    file("rename_eio", "rename", EIO, BOTH),
    file("stat_eio", "stat", EIO, BOTH),
    file("lock_enolck", "lock", ENOLCK, BOTH),
    file("map_enomem", "map", ENOMEM, BOTH),
    FaultKind { begin: CountFrom::Open, ..file("memory", "memory", ENOMEM, MEMORY) },
    FaultKind { may_abort: true, ..file("memory_at_start", "memory", ENOMEM, ONCE) },
    FaultKind {
        begin: CountFrom::Open,
        of_anyone: true,
        // The C library itself ends a process that cannot note what a thread leaves behind.
        may_abort: true,
        most: Some(400),
        ..file("memory_of_sqlite", "memory", ENOMEM, MEMORY)
    },
    file("thread_eagain", "thread", EAGAIN, BOTH),
    file("ring_eperm", "ring", EPERM, ALWAYS),
    file("ring_enosys", "ring", ENOSYS, ALWAYS),
    file("ring_enter_eintr", "enter", EINTR, ONCE),
    file("ring_enter_eagain", "enter", EAGAIN, ONCE),
];

/// Settings of the database.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The name in a case.
    pub name: &'static str,
    /// The family of journals: the column of the table.
    pub family: &'static str,
    /// SQLite's journal mode.
    pub journal: &'static str,
    /// Statements that every connection runs first.
    pub pragmas: &'static str,
    /// litefoot's options, in the form of `LITEFOOT_OPTIONS`.
    pub options: &'static str,
    /// True if io_uring is there.
    pub ring: bool,
}

/// All settings.
pub const SETTINGS: &[Setting] = &[
    Setting { name: "delete", family: "rollback", journal: "DELETE", pragmas: "", options: "", ring: true },
    Setting { name: "wal", family: "wal", journal: "WAL", pragmas: "", options: "", ring: true },
    Setting {
        name: "truncate_no_pool",
        family: "rollback",
        journal: "TRUNCATE",
        pragmas: "",
        options: "buffer_pool_size=0",
        ring: false,
    },
    Setting {
        name: "wal_statements",
        family: "wal",
        journal: "WAL",
        pragmas: "",
        options: "commit_log=statements&buffer_pool_size=0",
        ring: false,
    },
    Setting {
        name: "persist_small_memory",
        family: "rollback",
        journal: "PERSIST",
        pragmas: "",
        options: "write_buffer_size=0&max_wal_size=64K",
        ring: false,
    },
    Setting {
        name: "wal_small_memory",
        family: "wal",
        journal: "WAL",
        pragmas: "PRAGMA synchronous=NORMAL",
        options: "write_buffer_size=0&max_wal_size=64K",
        ring: false,
    },
];
