//! Until a batch has arrived: once, and by this machine.

use crate::{Applied, Batch, Destination, Error, Parked, Position, Result};

/// A batch that has arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Bytes that were sent; 0 where an earlier attempt had arrived.
    pub bytes: u64,
    /// Tables of which it was not taken.
    pub parked: Vec<Parked>,
}

/// Delivers a batch.
///
/// # Errors
/// A transient one leaves it open whether the batch has arrived: the same call with the same batch finds out. [`Error::Fenced`] says that
/// the destination stands where this machine has not brought it.
pub fn deliver(destination: &mut dyn Destination, batch: &Batch) -> Result<Arrived> {
    match destination.apply(batch)? {
        Applied::Done { bytes, parked } => Ok(Arrived { bytes, parked }),
        // An earlier attempt has arrived, and its answer was lost.
        Applied::NotNext(Some(at)) if at == batch.position() => Ok(Arrived::default()),
        Applied::NotNext(found) => Err(fenced(destination.place(), batch, found)),
    }
}

fn fenced(place: &str, batch: &Batch, found: Option<Position>) -> Error {
    let stands = found.map_or_else(
        || "knows nothing of it".to_owned(),
        |at| format!("stands at epoch {}, batch {}", at.epoch, at.sequence),
    );
    Error::Fenced {
        place: place.to_owned(),
        why: format!(
            "batch {} of epoch {} of source {} was offered, and the destination {stands}: another copy of the database delivers as the same \
             source, or one of the two was restored. Run `litefoot ship resync` where the right database is",
            batch.sequence,
            batch.origin.epoch,
            batch.origin.source_text(),
        ),
    }
}
