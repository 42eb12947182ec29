//! The record of a medium: each operation, and the time that it gave to its file.

use std::path::PathBuf;
use std::sync::Arc;

/// Number of a file; its index in the list of all files there ever were.
pub(super) type Inode = usize;

/// One recorded operation.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A file came to be, without bytes, under a name.
    Create {
        path: PathBuf,
        inode: Inode,
        time: u64,
    },
    Delete {
        path: PathBuf,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    SyncDirectory {
        directory: PathBuf,
    },
    Write {
        inode: Inode,
        offset: u64,
        bytes: Arc<[u8]>,
        time: u64,
    },
    WriteDurable {
        inode: Inode,
        offset: u64,
        bytes: Arc<[u8]>,
        time: u64,
    },
    /// As above, and never torn.
    WriteAtomic {
        inode: Inode,
        offset: u64,
        bytes: Arc<[u8]>,
        time: u64,
    },
    SetLen {
        inode: Inode,
        len: u64,
        time: u64,
    },
    Sync {
        inode: Inode,
    },
    SetTime {
        inode: Inode,
        time: u64,
    },
    /// A sync that covers the file's time as well.
    SyncAll {
        inode: Inode,
    },
}
