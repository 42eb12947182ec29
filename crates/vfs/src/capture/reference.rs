//! The reference connection: an internal connection with default settings, on which statements are examined and
//! replayed.
//!
//! # Why
//! The effects of a statement are read from its program. Compiling the statement once more on the application's
//! connection would show: `changes()` would be forgotten, an authorizer called. So it is compiled here. Two things
//! vouch that the application's connection compiles it to the same. One is the settings that SQLite tells of a
//! connection ([`Surroundings`]). The other is litefoot's authorizer, which sees everything that the application
//! compiles ([`crate::capture::Capture::compiles`]).
//!
//! # Limits
//! SQLite does not tell of functions and collations. A statement that needs one is not replayed, SQLite's own included;
//! `BINARY` is taken for SQLite's own.

use crate::capture::encoding::Settings;
use crate::capture::large_numbers::LARGE_ROWID;
use crate::capture::replayable::{Program, examine};
use crate::ffi::authorizer::ConfinedConnection;
use crate::ffi::codes::SQLITE_ROW;
use crate::ffi::connection::{Connection, InternalConnection};
use crate::ffi::statement::Value;
use crate::stats::FallbackCause;
use std::ffi::c_int;

/// Flags that change the effects of a statement, and that SQLite tells without running SQL. They are: triggers, planner
/// stability, a writable schema, strings in double quotes, views, the order of scans.
const FLAGS: [c_int; 6] = [1003, 1007, 1011, 1013, 1015, 1019];
/// Limits that do: the length of a value, the depth of triggers.
const LIMITS: [c_int; 2] = [0, 10];
const ENABLE_FKEY: c_int = 1002;

/// Functions that SQLite compiles to something else than a call: a program does not show that it calls one.
const INLINE: [&str; 7] = ["coalesce", "ifnull", "iif", "if", "likely", "unlikely", "likelihood"];

/// Settings of a connection as SQLite tells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Surroundings {
    flags: [Option<bool>; FLAGS.len()],
    limits: [c_int; LIMITS.len()],
}

impl Surroundings {
    /// The settings of a connection.
    pub fn of(db: Connection) -> Surroundings {
        Surroundings { flags: FLAGS.map(|flag| db.flag(flag)), limits: LIMITS.map(|limit| db.limit(limit)) }
    }
}

/// True if a connection enforces foreign keys.
pub(super) fn has_foreign_keys(db: Connection) -> bool {
    db.flag(ENABLE_FKEY).unwrap_or(false)
}

/// An internal connection with nothing but defaults, for the schema that it was opened with.
pub(crate) struct ReferenceConnection {
    own: ConfinedConnection,
    surroundings: Surroundings,
    recursive_triggers: bool,
    settings: Option<Settings>,
    /// True if the schema has an expression that calls a function which leaves no trace in a program.
    calls_inline: bool,
    /// True if ANALYZE has left statistics. Connections load them at any time.
    has_statistics: bool,
}

impl ReferenceConnection {
    /// Takes over an internal connection; `None` where this SQLite cannot confine it, or the schema cannot be read.
    pub fn new(connection: InternalConnection) -> Option<ReferenceConnection> {
        let surroundings = Surroundings::of(*connection);
        let own = ConfinedConnection::new(connection)?;
        let (recursive_triggers, calls_inline, has_statistics) = own.freely(|db| {
            db.execute("PRAGMA temp_store=MEMORY").ok()?;
            if first_text(db, "PRAGMA encoding").as_deref() != Some("UTF-8") {
                return None;
            }
            let recursive = first_text(db, "PRAGMA recursive_triggers").as_deref() == Some("1");
            let (mut calls_inline, mut has_statistics) = (false, false);
            let mut schema = db.prepare("SELECT name, sql FROM main.sqlite_schema").ok()?;
            while schema.step() == SQLITE_ROW {
                has_statistics |= schema.text(0).to_ascii_lowercase().starts_with("sqlite_stat");
                calls_inline |= calls_one_of(&schema.text(1), &INLINE);
            }
            Some((recursive, calls_inline, has_statistics))
        })?;
        Some(ReferenceConnection {
            own,
            surroundings,
            recursive_triggers,
            settings: None,
            calls_inline,
            has_statistics,
        })
    }

    /// The confined connection.
    pub fn own(&self) -> &ConfinedConnection {
        &self.own
    }

    /// True if another connection has the same settings, but for [`Settings`].
    pub fn is_like(&self, surroundings: Surroundings) -> bool {
        self.surroundings == surroundings
    }

    /// True if triggers fire triggers, unless a connection says otherwise.
    pub fn recursive_triggers(&self) -> bool {
        self.recursive_triggers
    }

    /// True if the connection has these settings now.
    pub fn has(&self, settings: Settings) -> bool {
        self.settings == Some(settings)
    }

    /// Gives the connection these settings.
    pub fn apply(&mut self, settings: Settings) -> Option<()> {
        if self.has(settings) {
            return Some(());
        }
        self.settings = None;
        self.own.freely(|db| {
            db.execute(&format!("PRAGMA foreign_keys={}", u8::from(settings.foreign_keys))).ok()?;
            db.execute(&format!("PRAGMA recursive_triggers={}", u8::from(settings.recursive_triggers))).ok()
        })?;
        self.settings = Some(settings);
        Some(())
    }

    /// The program of a statement under these settings, or the cause for which it cannot be repeated; `None` where the statement
    /// does not compile.
    pub fn examine(&mut self, sql: &str, settings: Settings) -> Option<Result<Program, FallbackCause>> {
        self.apply(settings)?;
        if self.calls_inline {
            return Some(Err(FallbackCause::Function));
        }
        let examined = examine(&self.own, sql)?;
        Some(examined.and_then(|program| {
            if program.loops && self.has_statistics { Err(FallbackCause::Plan) } else { Ok(program) }
        }))
    }

    /// True if the table with this root page has a row whose number is close to the largest.
    pub fn has_large_rowid(&self, root: i64) -> bool {
        self.own.freely(|db| largest_rowid(db, root).is_none_or(|largest| largest >= LARGE_ROWID))
    }
}

/// The largest rowid of the table with this root page; 0 where the table has no rows, or no rowids; `None` where unknown.
fn largest_rowid(db: Connection, root: i64) -> Option<i64> {
    let mut tables = db
        .prepare(&format!("SELECT name FROM main.sqlite_schema WHERE type='table' AND rootpage={root}"))
        .ok()?;
    if tables.step() != SQLITE_ROW {
        // An index, or the schema itself.
        return Some(0);
    }
    let name = tables.text(0).replace('"', "\"\"");
    let mut largest = 0;
    // A column may have one of these names.
    for rowid in ["rowid", "_rowid_", "oid"] {
        let sql = format!("SELECT {rowid} FROM main.\"{name}\" ORDER BY {rowid} DESC LIMIT 1");
        if let Ok(mut last) = db.prepare(&sql)
            && last.step() == SQLITE_ROW
        {
            largest = largest.max(last.integer(0));
        }
    }
    Some(largest)
}

/// True if a text calls one of these functions, or looks as if it did.
fn calls_one_of(sql: &str, functions: &[&str]) -> bool {
    let sql = sql.to_ascii_lowercase();
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    functions.iter().any(|function| {
        sql.match_indices(function).any(|(at, _)| {
            let before = sql[..at].chars().next_back();
            let after = sql[at + function.len()..].chars().next();
            !before.is_some_and(is_name) && !after.is_some_and(is_name)
        })
    })
}

/// The first value that a query answers, as text.
pub(super) fn first_text(db: Connection, sql: &str) -> Option<String> {
    let mut statement = db.prepare(sql).ok()?;
    (statement.step() == SQLITE_ROW).then(|| match statement.value(0) {
        Value::Integer(number) => number.to_string(),
        _ => statement.text(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_leave_no_trace_are_found_in_a_schema() {
        for (sql, calls) in [
            ("CREATE TABLE t(a CHECK(coalesce(a, 1) > 0))", true),
            ("CREATE TABLE t(a CHECK(\"IfNull\" (a, 1) > 0))", true),
            ("CREATE TABLE t(coalesced, motif)", false),
            ("CREATE TABLE t(a CHECK(if (a, 1, 0)))", true),
        ] {
            assert_eq!(calls_one_of(sql, &INLINE), calls, "{sql}");
        }
    }
}
