//! Options that take one of a few words: what each word stands for.

/// Sharing: the use of one database by several processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// As `Group` while the database is in a rollback-journal mode, or syncs take a millisecond or more; else as `Separate`.
    #[default]
    Auto,
    /// As `Separate`, and processes of litefoot's that say so, too, have one owner, which commits for all of them.
    Group,
    /// Litefoot's commits while this process is alone, SQLite's own protocol while others have the database open.
    Separate,
    /// Litefoot's commits; other processes find the database locked.
    Exclusive,
    /// The platform's VFS, which is SQLite's own.
    Passthrough,
}

impl Sharing {
    /// True where other processes may use the database as well, by SQLite's own protocol.
    pub(crate) fn lets_others_in(self) -> bool {
        matches!(self, Sharing::Auto | Sharing::Group | Sharing::Separate)
    }

    /// True for a process that may be one of a group.
    pub(crate) fn joins(self) -> bool {
        matches!(self, Sharing::Auto | Sharing::Group)
    }
}

/// Where the processes of a group meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupSocket {
    /// At a name of the system's, which is no file. Processes of one network namespace see it.
    #[default]
    Name,
    /// At a file beside the database, which processes of other containers see as well.
    File,
}

/// The page cleaner: the thread that spills pages of a transaction while it goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageCleaner {
    /// A background thread for pages that leave for good, the transaction's thread for pages that come back.
    #[default]
    Auto,
    /// A background thread.
    Background,
    /// The transaction's own thread.
    Foreground,
}

/// The form of a commit in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitLogForm {
    /// Deltas in WAL mode, once commits keep coming; pages with rollback journals.
    #[default]
    Auto,
    /// Deltas from the first commit on.
    Deltas,
    /// Pages.
    Pages,
    /// Statements, in WAL mode, where that is exact. SQLite's trace hook tells of them.
    Statements,
}

/// Direct I/O: reads past the system's cache, so that memory holds one copy of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direct {
    /// On for a database that the system could not keep in memory anyway.
    #[default]
    Auto,
    /// On for every file that can be read like that.
    On,
    /// Off.
    Off,
}

/// The writes that count as atomic: on the medium whole or not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtomicWrites {
    /// Those that the device guarantees.
    #[default]
    Auto,
    /// Any aligned write of 4 KiB, guaranteed or not.
    Assume4k,
    /// None.
    Off,
}
