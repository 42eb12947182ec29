//! Continuous backup: each delivery is one LTX file of level 0, which leads from the last one to the database as it is now.
//!
//! The first file has all pages. So has one whenever neither this machine nor the place knows which pages the place has; it follows the others
//! like any delivery.
//!
//! # Invariants
//! 1. Files of level 0 are numbered without gaps, and each names the checksum of the database before it.
//! 2. A number is used once: the place refuses a second file of a name. Where that happens, the file that is there is compared. It is this one, where an answer
//!    was lost; or another shipper's, and this one stops.

mod resume;

use crate::sink::{Delivered, Sink};
use crate::source::{Changes, PageMap};
use crate::store::{Body, FileName, Put, Store};
use crate::time::now_ms;
use crate::{Error, Result};
use litefoot_ltx::{Checksum, Encoder, Header, Level, TxId};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use resume::last_writer;

/// A place as it is known to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    sequence: u64,
    /// The checksum of the database there; none where it is not tracked.
    sum: Checksum,
    timestamp_ms: u64,
    page_size: Option<u32>,
    pages: u32,
}

/// A file on its way.
struct Pending {
    name: FileName,
    body: Body,
    position: Position,
}

/// The sink of a backup.
pub struct Backup {
    store: Arc<dyn Store>,
    /// The number of this shipper, which each file has in it.
    node: u64,
    /// A directory for files that are too large for memory.
    scratch: PathBuf,
    position: Position,
    pending: Option<Pending>,
}

impl Backup {
    /// A backup to a store, as written by `node`.
    pub fn new(store: Arc<dyn Store>, node: u64, scratch: &Path) -> Backup {
        Backup { store, node, scratch: scratch.to_owned(), position: Position::default(), pending: None }
    }

    fn header(&self, changes: &Changes<'_>) -> Header {
        let sequence = self.position.sequence + 1;
        // The pages that are known tell the checksum also where the file there does not.
        let before = match changes.before() {
            Some(before) => before.sum(),
            None => self.position.sum,
        };
        let is_first = sequence == 1;
        let tracked = is_first || before.is_some();
        Header {
            tracked,
            page_size: changes.page_size(),
            pages: changes.pages(),
            min: TxId::new(sequence),
            max: TxId::new(sequence),
            timestamp_ms: now_ms().max(self.position.timestamp_ms + 1),
            before: if is_first { Checksum::NONE } else { before },
            after: if tracked { changes.sum() } else { Checksum::NONE },
            wal: Default::default(),
            node: self.node,
        }
    }

    fn refuse_other_page_size(&self, changes: &Changes<'_>) -> Result<()> {
        match self.position.page_size {
            Some(size) if size != changes.page_size() => Err(Error::Refused {
                place: self.store.place().to_owned(),
                why: format!(
                    "has pages of {size} bytes, and the database has pages of {} by now; back it up to another place",
                    changes.page_size()
                ),
            }),
            _ => Ok(()),
        }
    }
}

impl Sink for Backup {
    fn resume(&mut self, known: Option<(u64, PageMap)>) -> Result<Option<PageMap>> {
        self.pending = None;
        let (position, map) = resume::resume(&*self.store, self.node, known)?;
        self.position = position;
        Ok(map)
    }

    fn gather(&mut self, changes: &mut Changes<'_>) -> Result<()> {
        self.pending = None;
        self.refuse_other_page_size(changes)?;
        let is_there = self.position.sum == changes.sum() && self.position.pages == changes.pages();
        if changes.before().is_none() && is_there {
            // Nobody remembered the pages, and they are all there.
            return Ok(());
        }
        let header = self.header(changes);
        let position = Position {
            sequence: header.max.get(),
            sum: header.after,
            timestamp_ms: header.timestamp_ms,
            page_size: Some(header.page_size),
            pages: header.pages,
        };
        let name = FileName { level: Level::SHIPMENTS, min: header.min, max: header.max };
        let fail = |error: litefoot_ltx::Error| Error::local(&self.scratch, error);
        let mut page = vec![0; changes.page_size() as usize];
        let mut encoder = Encoder::new(Body::new(&self.scratch), header).map_err(fail)?;
        for at in 0..changes.changed().len() {
            let number = changes.changed()[at];
            changes.read(number, &mut page)?;
            encoder.page(number, &page).map_err(fail)?;
        }
        let (body, _) = encoder.finish(position.sum).map_err(fail)?;
        self.pending = Some(Pending { name, body, position });
        Ok(())
    }

    fn discard(&mut self) {
        self.pending = None;
    }

    fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    fn deliver(&mut self) -> Result<Delivered> {
        let Some(pending) = &self.pending else {
            return Ok(Delivered { sequence: self.position.sequence, ..Delivered::default() });
        };
        let put = self.store.put_new(pending.name, &pending.body, pending.position.timestamp_ms)?;
        let mut requests = 1;
        if put == Put::Exists {
            requests += 1;
            if !is_same(&*self.store, pending)? {
                return Err(fenced(
                    &*self.store,
                    &format!("{} is there, and this program did not write it", pending.name),
                ));
            }
        }
        let delivered =
            Delivered { sequence: pending.position.sequence, bytes: pending.body.len(), requests };
        self.position = pending.position;
        self.pending = None;
        Ok(delivered)
    }

    fn sequence(&self) -> u64 {
        self.position.sequence
    }
}

/// True if the file that is there is the one on its way.
fn is_same(store: &dyn Store, pending: &Pending) -> Result<bool> {
    const CHUNK_BYTES: u64 = 8 << 20;
    let mut ours = pending.body.reader()?;
    let all = pending.body.len();
    for at in (0..all).step_by(CHUNK_BYTES as usize) {
        let bytes = CHUNK_BYTES.min(all - at);
        // Behind the end there must be nothing.
        let wanted = if at + bytes == all { bytes + 1 } else { bytes };
        let Some(theirs) = store.get(pending.name, at..at + wanted)? else {
            // A write of the same moment, perhaps an earlier attempt of this one: the next attempt sees what became of it.
            let why = format!("{} is taken, and cannot be read yet", pending.name);
            return Err(Error::Unreachable { place: store.place().to_owned(), why });
        };
        let mut chunk = vec![0; bytes as usize];
        ours.read_exact(&mut chunk).map_err(|error| Error::local(Path::new("a file on its way"), error))?;
        if chunk != theirs {
            return Ok(false);
        }
    }
    Ok(true)
}

fn fenced(store: &dyn Store, what: &str) -> Error {
    Error::Fenced {
        place: store.place().to_owned(),
        why: format!(
            "{what}: one place is for one database of one machine. Name another place, or take this one over: \
             litefoot ship add --take-over"
        ),
    }
}
