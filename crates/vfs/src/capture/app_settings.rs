//! Settings of the application's connection: which of them a recorded transaction survives.
//!
//! SQLite's authorizer tells of everything that the connection compiles, executed or not. A PRAGMA that is not known to be
//! harmless bars the connection from capture for good.

use crate::ffi::authorizer::{SQLITE_CREATE_TEMP_INDEX, SQLITE_CREATE_TEMP_VIEW, SQLITE_PRAGMA};
use crate::stats::FallbackCause;

/// PRAGMAs whose values change no byte of what a statement does to the database. `auto_vacuum` and `secure_delete` do: they
/// are kept by each connection, and say what becomes of the bytes of deleted rows.
const HARMLESS: [&str; 36] = [
    "analysis_limit",
    "application_id",
    "busy_timeout",
    "cache_size",
    "cache_spill",
    "checkpoint_fullfsync",
    "data_version",
    "encoding",
    "foreign_key_check",
    "foreign_key_list",
    // SQLite tells of this one.
    "foreign_keys",
    "fullfsync",
    "incremental_vacuum",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "journal_mode",
    "journal_size_limit",
    "locking_mode",
    "mmap_size",
    "optimize",
    "page_size",
    "quick_check",
    "synchronous",
    "table_info",
    "table_list",
    "table_xinfo",
    "temp_store",
    "threads",
    "trusted_schema",
    "user_version",
    "wal_autocheckpoint",
    "wal_checkpoint",
    "shrink_memory",
    "recursive_triggers",
];

/// `recursive_triggers` of an application that has not said.
pub(super) const UNSAID: u8 = 2;

/// The consequence of a compiled action for the connection's capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consequence {
    /// None.
    Nothing,
    /// The connection is never captured again, for this cause.
    Bar(FallbackCause),
    /// The application decides whether triggers fire triggers.
    RecursiveTriggers(bool),
}

/// The consequence of an action that SQLite asks to be authorized. `is_internal` says that capture itself compiles.
pub(super) fn consequence(action: i32, name: &[u8], value: Option<&[u8]>, is_internal: bool) -> Consequence {
    match (action, value) {
        // SQLite finds a name in the temporary database first.
        (SQLITE_CREATE_TEMP_INDEX..=SQLITE_CREATE_TEMP_VIEW, _) => {
            Consequence::Bar(FallbackCause::OtherDatabase)
        }
        (SQLITE_PRAGMA, Some(value)) if !is_internal => pragma_consequence(name, value),
        _ => Consequence::Nothing,
    }
}

fn pragma_consequence(name: &[u8], value: &[u8]) -> Consequence {
    let is_one_of =
        |words: &[&str], text: &[u8]| words.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()));
    if is_one_of(&["recursive_triggers"], name) {
        if is_one_of(&["1", "on", "yes", "true"], value) {
            Consequence::RecursiveTriggers(true)
        } else if is_one_of(&["0", "off", "no", "false"], value) {
            Consequence::RecursiveTriggers(false)
        } else {
            Consequence::Bar(FallbackCause::Settings)
        }
    } else if is_one_of(&HARMLESS, name) || name.starts_with(b"litefoot_") {
        Consequence::Nothing
    } else {
        Consequence::Bar(FallbackCause::Settings)
    }
}

#[cfg(test)]
mod tests {
    use super::Consequence::*;
    use super::*;

    #[test]
    fn pragmas_and_temporary_objects_have_consequences() {
        const SELECT: i32 = 21;
        let settings = Bar(FallbackCause::Settings);
        for (action, name, value, expected) in [
            (SELECT, "", None, Nothing),
            (SQLITE_PRAGMA, "case_sensitive_like", None, Nothing),
            (SQLITE_PRAGMA, "case_sensitive_like", Some("1"), settings),
            (SQLITE_PRAGMA, "Cache_Size", Some("100"), Nothing),
            (SQLITE_PRAGMA, "foreign_keys", Some("on"), Nothing),
            (SQLITE_PRAGMA, "litefoot_anything", Some("1"), Nothing),
            (SQLITE_PRAGMA, "ignore_check_constraints", Some("1"), settings),
            (SQLITE_PRAGMA, "secure_delete", None, Nothing),
            (SQLITE_PRAGMA, "secure_delete", Some("FAST"), settings),
            (SQLITE_PRAGMA, "auto_vacuum", Some("1"), settings),
            (SQLITE_PRAGMA, "recursive_triggers", Some("ON"), RecursiveTriggers(true)),
            (SQLITE_PRAGMA, "RECURSIVE_TRIGGERS", Some("false"), RecursiveTriggers(false)),
            (SQLITE_PRAGMA, "recursive_triggers", Some("2"), settings),
            (SQLITE_CREATE_TEMP_INDEX, "i", Some("t"), Bar(FallbackCause::OtherDatabase)),
            (SQLITE_CREATE_TEMP_VIEW, "v", None, Bar(FallbackCause::OtherDatabase)),
        ] {
            let found = |is_internal| {
                consequence(action, name.as_bytes(), value.map(|text: &str| text.as_bytes()), is_internal)
            };
            assert_eq!(found(false), expected, "{name} {value:?}");
            let internal = if action == SQLITE_PRAGMA { Nothing } else { expected };
            assert_eq!(found(true), internal, "{name} {value:?} of capture itself");
        }
    }
}
