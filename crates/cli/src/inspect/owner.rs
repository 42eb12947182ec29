//! The owner of a database.

use litefoot_storage::file::{File, RangeLock, Result};
use litefoot_terminal::text::printable;

/// First of SQLite's lock bytes, and how many there are (file format, section 1.4, and `os.h`).
const LOCK_OFFSET: u64 = 0x4000_0000;
const LOCK_BYTES: u64 = 512;

/// The holder of SQLite's locks on a database file, as far as the system tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Nobody at this moment.
    Nobody,
    /// Somebody reads; writers may be idle.
    Shared(Option<u32>),
    /// One process keeps all others out: its owner through litefoot, or a stock SQLite that writes.
    Exclusive(Option<u32>),
}

impl Owner {
    /// The same, with a process where the locks did not tell one.
    pub fn or_process(self, process: Option<u32>) -> Owner {
        match self {
            Owner::Nobody => Owner::Nobody,
            Owner::Shared(known) => Owner::Shared(known.or(process)),
            Owner::Exclusive(known) => Owner::Exclusive(known.or(process)),
        }
    }
}

/// Asks for SQLite's locks and gives them back at once: the only way to learn of locks that belong to
/// open file descriptions.
pub fn ask(file: &dyn File, writable: bool) -> Result<Owner> {
    let holder = file.lock_holder(LOCK_OFFSET, LOCK_BYTES);
    let shareable = file.lock_range(LOCK_OFFSET, LOCK_BYTES, RangeLock::Shared)?;
    let free = shareable && (!writable || file.lock_range(LOCK_OFFSET, LOCK_BYTES, RangeLock::Exclusive)?);
    file.lock_range(LOCK_OFFSET, LOCK_BYTES, RangeLock::None)?;
    Ok(match (shareable, free) {
        (false, _) => Owner::Exclusive(holder),
        (true, false) => Owner::Shared(holder),
        (true, true) => Owner::Nobody,
    })
}

/// A process and its program, as far as they are known.
pub fn process(id: Option<u32>) -> String {
    match id.map(|id| (id, program(id))) {
        None => "process".to_owned(),
        Some((id, None)) => format!("process {id}"),
        Some((id, Some(program))) => format!("process {id} ({program})"),
    }
}

/// The name of the program that a process runs, where the system tells.
pub fn program(id: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{id}/comm")).ok()?;
    Some(printable(name.trim_end()))
}
