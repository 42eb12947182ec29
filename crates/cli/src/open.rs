//! How a database is opened, and what a refusal means in plain words.
//!
//! Every command that speaks SQL opens its database here, and explains the same refusal in the same words.
//!
//! Commands go through litefoot. Where a program has the database open through litefoot, those that only read come as
//! visitors: through SQLite's own VFS, by its own protocol, and unable to change anything. Commands that remove logs
//! want the database for themselves.

use crate::inspect::{self, Presence};
use litefoot_storage::file::{FileKind, Medium, OpenMode, parent_directory};
use litefoot_storage::os::OsMedium;
use litefoot_terminal::Failure;
use litefoot_tier::tier_of;
use rusqlite::{Connection, Error, ErrorCode, OpenFlags};
use std::ffi::{CStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a command waits for another process to release a database. An owner keeps it for as long
/// as it runs, so a long wait would rarely end well.
const BUSY_WAIT: Duration = Duration::from_millis(500);

/// How long a visitor waits: an owner in a transaction shares the database when that ends.
const VISIT_WAIT: Duration = Duration::from_secs(2);
/// The VFS of visitors, SQLite's own.
const PLATFORM_VFS: &CStr = c"unix";

/// A command's access to a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Look only; the file must exist.
    Read,
    /// Read and write; the file must exist.
    Write,
    /// Read and write; the file is created when it is missing.
    Create,
    /// Read and write, as the one process that uses it; the file must exist.
    Alone,
}

/// An open database and the name the user knows it by.
pub struct Database {
    /// The connection, through litefoot.
    pub connection: Connection,
    /// As given on the command line: a path, or a URI.
    pub name: String,
    /// True where the command asked for no more than to read.
    only_reads: bool,
}

impl Database {
    /// Opens a database given as a path or as a `file:` URI, and reads its header. A file that is no
    /// database, or that another process owns, is refused here and not in the middle of the work.
    pub fn open(name: &str, access: Access) -> Result<Database, Failure> {
        let database = Database::open_unread(name, access)?;
        let ready = database.connection.busy_timeout(BUSY_WAIT).and_then(|()| {
            database.connection.pragma_query_value(None, "schema_version", |row| row.get::<_, i64>(0))
        });
        ready.map_err(|error| database.explain(&error))?;
        Ok(database)
    }

    /// Opens a database without reading it: nothing is locked, and nothing is recovered.
    pub fn open_unread(name: &str, access: Access) -> Result<Database, Failure> {
        let path = path_of(name);
        if access != Access::Create && !path.exists() {
            return Err(Failure::file(&path, "no such file").advice("Check the path; nothing was created."));
        }
        let flags = match access {
            Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
            Access::Write | Access::Alone => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Access::Create => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        };
        let mut litefoots = tiered_name(name);
        if access == Access::Alone {
            litefoots = named_with(&litefoots, "sharing", b"exclusive");
        }
        let connection = connect(&litefoots, flags).map_err(|error| match error {
            litefoot::Error::Sqlite(error) => explain(name, &error),
            other => Failure::file(&path, other),
        })?;
        Ok(Database { connection, name: name.to_owned(), only_reads: access == Access::Read })
    }

    /// Opens a database as a process of its group, and reads its header.
    pub fn open_in_group(name: &str) -> Result<Database, Failure> {
        let path = path_of(name);
        inspect::regular_file(&path)?;
        let database = Database::open_unread(&named_with(name, "sharing", b"group"), Access::Write)?;
        let database = Database { name: name.to_owned(), ..database };
        let ready = database.connection.busy_timeout(VISIT_WAIT).and_then(|()| {
            database.connection.pragma_query_value(None, "schema_version", |row| row.get::<_, i64>(0))
        });
        ready.map_err(|error| database.explain(&error))?;
        Ok(database)
    }

    /// Opens a database to look only, beside the programs that have it open. Where one has it open through litefoot, this is
    /// a visitor's connection.
    pub fn open_beside(name: &str) -> Result<Database, Failure> {
        let path = path_of(name);
        let is_live = path.is_file() && Presence::find(inspect::regular_file(&path)?.id).is_live();
        if !is_live {
            return Database::open(name, Access::Read);
        }
        Database::visit_now(name)
    }

    /// Opens a database as a visitor, and reads its header.
    pub fn visit_now(name: &str) -> Result<Database, Failure> {
        let database = Database::visit(name, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let ready = database.connection.busy_timeout(VISIT_WAIT).and_then(|()| {
            database.connection.pragma_query_value(None, "schema_version", |row| row.get::<_, i64>(0))
        });
        ready.map_err(|error| database.explain(&error))?;
        Ok(database)
    }

    /// Opens a database through SQLite's own VFS, without reading it, and without waiting for locks. The system lets this wait for the owner, which brings home
    /// what it has in memory.
    pub fn visit(name: &str, flags: OpenFlags) -> Result<Database, Failure> {
        litefoot::clear_last_error();
        let path = path_of(name);
        let only_reads = flags.contains(OpenFlags::SQLITE_OPEN_READ_ONLY);
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags_and_vfs(&path, flags, PLATFORM_VFS)
            .and_then(|connection| connection.busy_timeout(Duration::ZERO).map(|()| connection));
        let connection = connection.map_err(|error| explain(name, &error))?;
        Ok(Database { connection, name: name.to_owned(), only_reads })
    }

    /// Turns SQLite's error into a message about this database.
    pub fn explain(&self, error: &Error) -> Failure {
        let code = error.sqlite_error().map(|error| error.extended_code);
        if self.only_reads && code == Some(rusqlite::ffi::SQLITE_READONLY) {
            return Failure::file(&path_of(&self.name), "was opened to be read only; nothing was written")
                .advice("Leave out --readonly to change it.");
        }
        explain(&self.name, error)
    }
}

fn connect(name: &str, flags: OpenFlags) -> Result<Connection, litefoot::Error> {
    litefoot::clear_last_error();
    let flags = flags | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    litefoot::Connection::open_with_flags(name, flags).map(litefoot::Connection::into_inner)
}

/// The name under which a database is opened: one whose chunks are away on the device that its file names.
fn tiered_name(name: &str) -> String {
    // The owner of a group says itself where its chunks are: a look at the file would be a stranger's.
    if name.contains("sharing=group") {
        return name.to_owned();
    }
    let found = OsMedium.absolute(&path_of(name));
    let file = found.and_then(|found| OsMedium.open(&found.path, FileKind::Database, OpenMode::ReadOnly));
    match file.ok().and_then(|file| tier_of(&*file).ok().flatten()) {
        Some(device) if !has_parameter(name, "tier") => named_with_tier(name, &device),
        _ => name.to_owned(),
    }
}

/// The same database with a tier device.
pub fn named_with_tier(name: &str, device: &Path) -> String {
    named_with(name, "tier", device.as_os_str().as_bytes())
}

/// The same database with a parameter, which comes last and so counts.
fn named_with(name: &str, parameter: &str, value: &[u8]) -> String {
    let value = percent_encoded(value);
    if !name.starts_with("file:") {
        return format!("file:{}?{parameter}={value}", percent_encoded(name.as_bytes()));
    }
    let (uri, fragment) = name.split_at(name.find('#').unwrap_or(name.len()));
    let mark = if uri.contains('?') { '&' } else { '?' };
    format!("{uri}{mark}{parameter}={value}{fragment}")
}

fn has_parameter(name: &str, parameter: &str) -> bool {
    let query = name.strip_prefix("file:").and_then(|uri| uri.split('#').next()?.split_once('?'));
    query.is_some_and(|(_, query)| query.split('&').any(|item| item.split('=').next() == Some(parameter)))
}

pub fn percent_encoded(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                text.push(*byte as char)
            }
            _ => text.push_str(&format!("%{byte:02x}")),
        }
        text
    })
}

/// The file behind a database name: the path itself, or the path part of a `file:` URI.
pub fn path_of(name: &str) -> PathBuf {
    let Some(rest) = name.strip_prefix("file:") else { return PathBuf::from(name) };
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let path = &rest[..end];
    let path = match path.strip_prefix("//") {
        Some(with_host) => with_host.find('/').map_or("", |slash| &with_host[slash..]),
        None => path,
    };
    PathBuf::from(OsString::from_vec(percent_decoded(path.as_bytes())))
}

fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let escaped = (text[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(text[at]));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    bytes
}

/// Turns SQLite's error about a database into a message that names the file and says what to do.
pub fn explain(name: &str, error: &Error) -> Failure {
    let path = path_of(name);
    let (code, message) = match error {
        Error::SqliteFailure(code, message) => (code, message.clone().unwrap_or_else(|| code.to_string())),
        Error::SqlInputError { error, msg, .. } => (error, msg.clone()),
        other => return Failure::file(&path, other),
    };
    // Litefoot's own message about this failure names the file and what to do.
    let detail = litefoot::last_error();
    litefoot::clear_last_error();
    match code.code {
        ErrorCode::OperationInterrupted => Failure::interrupted(litefoot_terminal::interrupt::SIGINT),
        ErrorCode::NotADatabase => Failure::file(&path, "is not a SQLite database")
            .advice("Check the path; the file was left as it is."),
        ErrorCode::CannotOpen => cannot_open(&path, detail, &message),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
            let what = detail.unwrap_or_else(|| format!("{}: {message}", path.display()));
            Failure::new(format!("{what}; nothing was written")).advice(PERMISSIONS)
        }
        ErrorCode::DiskFull => Failure::file(&path, "the disk is full; the transaction was rolled back")
            .advice("Make room on this file system and try again; what was committed before is intact."),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => match detail {
            Some(detail) => Failure::new(detail).advice("Close the other program first, then try again."),
            None => locked(&path, &message),
        },
        ErrorCode::DatabaseCorrupt => Failure::file(&path, format!("is damaged or cut short: {message}"))
            .advice("`litefoot check` says what is wrong. Keep the file, and restore a copy beside it."),
        ErrorCode::SystemIoFailure => {
            Failure::new(detail.unwrap_or_else(|| format!("{}: {message}", path.display())))
                .advice("Look at the system's log for the device; what was acknowledged before is intact.")
        }
        _ => Failure::file(&path, message),
    }
}

/// Somebody keeps a visitor out, longer than it waits.
pub fn locked(path: &Path, message: &str) -> Failure {
    let holder = OsMedium.info(path).ok().flatten().and_then(|info| Presence::find(info.id).published());
    match holder {
        Some(holder) => {
            let what = format!("{} has this database open", inspect::process(Some(holder.process)));
            Failure::file(path, what).advice(
                "Close the other program first, or try again: it is in a long transaction, or does not share the database.",
            )
        }
        None => Failure::file(path, format!("in use by another program: {message}"))
            .advice("Close the other program first, then try again."),
    }
}

/// Advice for files that may not be read or written.
pub const PERMISSIONS: &str = "Check the permissions of the file and of its directory.";

fn cannot_open(path: &Path, detail: Option<String>, message: &str) -> Failure {
    let directory = parent_directory(path);
    if path.is_dir() {
        return Failure::file(path, "is a directory").advice("Name a database file.");
    }
    if !directory.is_dir() {
        return Failure::file(path, format!("the directory {} does not exist", directory.display()))
            .advice(format!("Create it first: mkdir -p {}", directory.display()));
    }
    match detail {
        // Where the advice is not in it already: a log that cannot be made beside the database.
        Some(detail) if detail.ends_with("(os error 13)") => Failure::new(detail).advice(PERMISSIONS),
        Some(detail) => Failure::new(detail),
        None => Failure::file(path, format!("cannot be opened: {message}")).advice(PERMISSIONS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_added_to_any_name() {
        let device = Path::new("/fast/a b&c");
        for (name, with) in [
            ("a%.db", "file:a%25.db?tier=/fast/a%20b%26c"),
            ("file:a.db", "file:a.db?tier=/fast/a%20b%26c"),
            ("file:a.db?mode=ro#x", "file:a.db?mode=ro&tier=/fast/a%20b%26c#x"),
        ] {
            assert_eq!(named_with_tier(name, device), with);
            assert_eq!(path_of(&named_with_tier(name, device)), path_of(name));
            assert!(has_parameter(with, "tier") && !has_parameter(name, "tier"));
        }
    }

    #[test]
    fn names_lead_to_files() {
        for (name, path) in [
            ("a.db", "a.db"),
            ("dir/file:b.db", "dir/file:b.db"),
            ("file:a.db?mode=ro", "a.db"),
            ("file:/tmp/a%20b%3f.db#x", "/tmp/a b?.db"),
            ("file:///tmp/a.db", "/tmp/a.db"),
            ("file://localhost/tmp/a.db?x=1", "/tmp/a.db"),
            ("file:a%4", "a%4"),
            ("file:a%zz", "a%zz"),
        ] {
            assert_eq!(path_of(name), Path::new(path), "{name}");
        }
    }
}
