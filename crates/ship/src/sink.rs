//! A destination: how the changes of a database get there.
//!
//! A sink works in two steps, since an application may wait for the first one: [`Sink::gather`] reads what it needs under the locks of one
//! snapshot, and [`Sink::deliver`] sends it without any.

use crate::Result;
use crate::source::{Changes, Images, PageMap};
use litefoot_rowsink::Parked;

/// What a delivery came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// The number of this delivery, from 1 on, without gaps.
    pub sequence: u64,
    /// Bytes that were sent.
    pub bytes: u64,
    /// Requests that were made, or files that were written.
    pub requests: u64,
}

/// A destination of changes.
pub trait Sink: Send {
    /// Finds out where the destination stands. Answers the pages of the database as it knows them, which the source compares with those
    /// of now; `None` where it knows nothing, and gets everything.
    ///
    /// `known` is what this machine remembers: the number of a delivery, and the pages behind it.
    fn resume(&mut self, known: Option<(u64, PageMap)>) -> Result<Option<PageMap>>;

    /// The pages that it wants back at the next delivery, as they are at this one: none, unless it says so.
    fn images(&self) -> Option<Images> {
        None
    }

    /// True if it wants each transaction, as far as they can be told apart.
    fn wants_history(&self) -> bool {
        false
    }

    /// Reads what it needs of one snapshot. An application may wait meanwhile: no network here.
    fn gather(&mut self, changes: &mut Changes<'_>) -> Result<()>;

    /// Forgets what was gathered: it turned out to be no moment of the database, or no change.
    fn discard(&mut self);

    /// True from [`Sink::gather`] until a delivery has come to its end. No further changes are gathered meanwhile.
    fn is_pending(&self) -> bool;

    /// Sends what was gathered. An error keeps it, and the next call sends the same again; it arrives once.
    fn deliver(&mut self) -> Result<Delivered>;

    /// The number of the last delivery that has arrived.
    fn sequence(&self) -> u64;

    /// Tables that the destination does not take, and why.
    fn parked(&self) -> &[Parked] {
        &[]
    }
}
