//! The file that an open asks for, by SQLite's flags and its path.

use crate::ffi::codes::*;
use litefoot_storage::file::{FileKind, OpenMode};
use std::ffi::c_int;
use std::path::PathBuf;

/// A file that SQLite asks `xOpen` for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestedFile {
    /// A temporary file without a name.
    Unnamed,
    /// A main database.
    MainDatabase(PathBuf),
    /// The journal or the log of a main database.
    Companion(PathBuf),
    /// A super-journal.
    SuperJournal(PathBuf),
    /// A temporary file with a name.
    Named {
        /// Its name.
        path: PathBuf,
        /// True if closing deletes it.
        delete: bool,
    },
}

impl RequestedFile {
    /// The file that an open with this path and these flags asks for.
    pub fn of(path: Option<PathBuf>, flags: c_int) -> RequestedFile {
        let Some(path) = path else { return RequestedFile::Unnamed };
        if flags & SQLITE_OPEN_MAIN_DB != 0 {
            RequestedFile::MainDatabase(path)
        } else if flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL) != 0 {
            RequestedFile::Companion(path)
        } else if flags & SQLITE_OPEN_SUPER_JOURNAL != 0 {
            RequestedFile::SuperJournal(path)
        } else {
            RequestedFile::Named { path, delete: flags & SQLITE_OPEN_DELETEONCLOSE != 0 }
        }
    }
}

/// The kind under which a file beside a database is counted.
pub(crate) fn companion_kind(flags: c_int) -> FileKind {
    if flags & SQLITE_OPEN_WAL != 0 {
        FileKind::RedoLog
    } else if flags & SQLITE_OPEN_SUPER_JOURNAL != 0 {
        FileKind::SuperJournal
    } else {
        FileKind::Journal
    }
}

/// How an open with these flags opens the file.
pub(crate) fn open_mode(flags: c_int) -> OpenMode {
    if flags & SQLITE_OPEN_READWRITE == 0 {
        OpenMode::ReadOnly
    } else if flags & SQLITE_OPEN_CREATE == 0 {
        OpenMode::ReadWrite
    } else if flags & SQLITE_OPEN_EXCLUSIVE != 0 {
        OpenMode::CreateNew
    } else {
        OpenMode::Create
    }
}

/// The flags of an open that was for writing and may only read.
pub(crate) fn read_only(flags: c_int) -> c_int {
    flags & !(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) | SQLITE_OPEN_READONLY
}

/// True if SQLite takes the value of a URI parameter for "yes".
pub(crate) fn is_true(value: &str) -> bool {
    let words = ["on", "yes", "true"];
    words.iter().any(|word| value.eq_ignore_ascii_case(word))
        || value.parse::<i64>().is_ok_and(|number| number != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_and_the_path_say_which_file_is_asked_for() {
        let write = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
        let path = PathBuf::from("/app.db");
        let unnamed = SQLITE_OPEN_DELETEONCLOSE | SQLITE_OPEN_MAIN_DB;
        assert_eq!(RequestedFile::of(None, write | unnamed), RequestedFile::Unnamed, "a database has a path");
        for (flags, file) in [
            (write | SQLITE_OPEN_MAIN_DB, RequestedFile::MainDatabase(path.clone())),
            (SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB, RequestedFile::MainDatabase(path.clone())),
            (write | SQLITE_OPEN_MAIN_JOURNAL, RequestedFile::Companion(path.clone())),
            (SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_JOURNAL, RequestedFile::Companion(path.clone())),
            (write | SQLITE_OPEN_WAL, RequestedFile::Companion(path.clone())),
            (write | SQLITE_OPEN_SUPER_JOURNAL, RequestedFile::SuperJournal(path.clone())),
            (write, RequestedFile::Named { path: path.clone(), delete: false }),
            (write | SQLITE_OPEN_DELETEONCLOSE, RequestedFile::Named { path: path.clone(), delete: true }),
        ] {
            assert_eq!(RequestedFile::of(Some(path.clone()), flags), file, "{flags:x}");
        }
    }

    #[test]
    fn companions_are_counted_under_their_kinds() {
        for (flags, kind) in [
            (SQLITE_OPEN_WAL, FileKind::RedoLog),
            (SQLITE_OPEN_SUPER_JOURNAL, FileKind::SuperJournal),
            (SQLITE_OPEN_MAIN_JOURNAL, FileKind::Journal),
        ] {
            assert_eq!(companion_kind(flags), kind);
        }
    }

    #[test]
    fn flags_say_how_a_file_is_opened() {
        let (write, create, new) = (SQLITE_OPEN_READWRITE, SQLITE_OPEN_CREATE, SQLITE_OPEN_EXCLUSIVE);
        for (flags, mode) in [
            (SQLITE_OPEN_READONLY, OpenMode::ReadOnly),
            (create, OpenMode::ReadOnly),
            (write, OpenMode::ReadWrite),
            (write | new, OpenMode::ReadWrite),
            (write | create, OpenMode::Create),
            (write | create | new, OpenMode::CreateNew),
        ] {
            assert!(open_mode(flags) == mode, "{flags:x}");
        }
        assert_eq!(read_only(write | create | SQLITE_OPEN_WAL), SQLITE_OPEN_READONLY | SQLITE_OPEN_WAL);
    }

    #[test]
    fn parameters_are_true_as_sqlite_has_it() {
        for (value, truth) in [
            ("1", true),
            ("on", true),
            ("YES", true),
            ("-3", true),
            ("0", false),
            ("off", false),
            ("", false),
        ] {
            assert_eq!(is_true(value), truth, "{value}");
        }
    }
}
