//! A file whose hot chunks live on a fast non-volatile device.
//!
//! # Why
//! Boards and phones pair slow, wearing flash with a little fast memory that keeps its content. Few chunks of a
//! database take most of its writes; they belong there (P-SQLITE). Crash safety, which the paper leaves out, and
//! wear levelling, its future work, are in here.
//!
//! | file | holds |
//! |---|---|
//! | `policy` | which chunks are hot, and which must go: pure |
//! | `format` | the bytes of the device and of the mark |
//! | `error` | why a pair is refused |
//! | `open` | which pairs of file and device may be opened, and what recovery does |
//! | `slots` | the slots in memory: free, holding, wear |
//! | `devices` | both files, their failures, and the ordering edges by name |
//! | `state` | reading, writing, cutting |
//! | `moving` | chunks that leave, move, settle and come home |
//! | `overview` | what a device tells without being opened for use |
//! | `view` | a file as it is, chunks included, for reading alone |
//! | `statistics` | what a file has done |
//! | `file` | the [`File`](litefoot_storage::file::File) that all of it makes |
//!
//! # Use
//! ```
//! use litefoot_storage::file::{File, FileKind, Medium, OpenMode};
//! use litefoot_storage::os::OsMedium;
//! use litefoot_tier::{Config, TieredFile};
//! use std::sync::Arc;
//!
//! # let directory = tempfile::tempdir()?;
//! # let (database, device) = (directory.path().join("app.db"), directory.path().join("commit_log_path"));
//! let medium: Arc<dyn Medium> = Arc::new(OsMedium::new());
//! let flash = medium.open(&database, FileKind::Database, OpenMode::Create)?;
//! let file = TieredFile::open(flash, &medium, &device, &Config { bytes: 1 << 20, ..Config::default() })?;
//! file.write_at(b"as any other file", 0)?;
//! file.sync()?; // ends a write transaction
//! file.drain()?; // everything is in `app.db` again
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it promises
//! 1. The contract of [`File`](litefoot_storage::file::File): after [`sync`](litefoot_storage::file::File::sync) every
//!    byte written survives a power cut, on whichever device. Without it, any subset of the sectors written since may
//!    survive.
//! 2. At every moment, crash included, the flash file either has all chunks, or begins with the mark, which stock
//!    SQLite refuses. [`TieredFile::drain`] brings everything home; the file is plain again, and the device free.
//! 3. A device that is missing, foreign, damaged or of another state than the file is refused, with nothing written.
//! 4. A chunk on the tier has its space on flash, so that coming home cannot fail for want of it.
//! 5. Once the tier has failed, reads of chunks that live only there fail with an error that names it. All other reads
//!    go on, that of chunk 0 from memory. The file is read-only until it is opened again. Nothing that was not durable
//!    is reported so.
//! 6. A full tier sends its coldest chunk home for a hotter one; it is never an error.
//! 7. While chunks are away, a stamp ([`set_stamp`](litefoot_storage::file::File::set_stamp)) tells that nothing was written since,
//!    whatever moved, and however often the pair was opened.
//! 8. A pair that is lent ([`TieredFile::lend`]) is a plain file, which others may write, and a free device.
//!
//! # What it does not promise
//! Redo logs and rollback journals beside a marked file are the caller's business. SQLite reads a `-wal` and plays back
//! a hot `-journal` before it reads the database's first bytes. A caller that lets chunks leave keeps both on the tier,
//! or under names that stock SQLite does not look for. Until then [`TieredFile::stay`] keeps all chunks in the file;
//! [`TieredFile::leave`] marks the file.
//!
//! # The order of everything
//! ```text
//! leave     tier    header HOME                            synced, and the device's name
//!           tier    chunk 0 and its entry, header CROSSING synced
//!           flash   what was written before               synced
//!           flash   mark instead of chunk 0                synced      now nothing plain is left to be misread
//!           tier    header AWAY
//! settle    flash   chunks gone home, and other writes     synced
//!           tier    chunks that came                       synced
//!           tier    their entries, those of slots left     synced      slots left may be used again
//!           tier    entries of slots left for other slots  synced
//! stamp     both    as settle
//!           tier    the stamp                              synced      the file is as it tells
//! write     tier    no stamp, where there is one           synced      before anything is written or cut
//! cut       flash   its length                             synced      then slots and entries behind it are cleared
//! drain     flash   all chunks, but the first sector       synced
//!           tier    header CROSSING                        synced
//!           flash   the first sector                       synced      plain again
//!           tier    header HOME                            synced
//! ```
//!
//! # Invariants
//! 1. A chunk is in one place: `map` says in which slot, else it is on flash. While any is away, chunk 0 is.
//! 2. A slot is written only while no durable entry names another chunk for it.
//! 3. The bytes behind the end of the file in the slot of its last chunk are zeros.
//! 4. A chunk whose end is not yet in the file is written to flash first (promise 4).
//!
//! # Assumptions about the media
//! Those of [`device`](litefoot_storage::file): a write within one sector of 512 bytes is never torn. Persistent memory
//! that tears stores needs its block translation layer (`sector` mode on Linux).

mod devices;
mod error;
mod file;
mod format;
mod moving;
mod open;
mod overview;
pub mod policy;
mod slots;
mod state;
mod statistics;
#[cfg(test)]
mod tests;
mod view;

pub use error::{Error, Result};
pub use file::TieredFile;
pub use format::{CHUNK_BYTES, device_bytes, slots_in};
pub use open::{Config, tier_of};
pub use overview::{Overview, Whereabouts, look};
pub use policy::{Latencies, Period, PolicyKind, Transactions};
pub use statistics::Statistics;
pub use view::view;

/// The examples of `README.md` run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
