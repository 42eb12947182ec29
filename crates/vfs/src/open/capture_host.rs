//! The database of a captured connection, for capture.

use crate::capture::{Capture, Host, SharedCapture};
use crate::ffi::connection::InternalConnection;
use crate::open::OpenDatabase;
use crate::sync::lock_table::ReaderSlot;
use crate::sync::writer_queue::WriterId;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The capture of a connection to a [`Database`].
pub(crate) type ConnectionCapture = Capture<CaptureHost>;

/// One connection's view of its database.
pub(crate) struct CaptureHost {
    database: Arc<OpenDatabase>,
    writer: WriterId,
    reader_slot: Arc<ReaderSlot>,
}

impl CaptureHost {
    /// The view of the connection that writes as `writer`, and whose locks are in `reader slot`.
    pub(crate) fn new(
        database: Arc<OpenDatabase>,
        writer: WriterId,
        reader_slot: Arc<ReaderSlot>,
    ) -> CaptureHost {
        CaptureHost { database, writer, reader_slot }
    }
}

impl Host for CaptureHost {
    #[inline]
    fn is_of_this_process(&self) -> bool {
        self.database.db().is_of_this_process()
    }

    #[inline]
    fn log_generation(&self) -> u64 {
        self.database.wal_generation()
    }

    fn schema(&self) -> Option<u32> {
        self.database.schema()
    }

    fn wait_durable(&self, commit: u64) {
        if let Some(wal) = self.database.wal() {
            let _ = wal.wait_durable(commit);
        }
    }

    fn may_read(&self) -> bool {
        self.reader_slot.reads()
    }

    fn is_reserved(&self) -> bool {
        self.database.locks().is_reserved()
    }

    fn join_writer_queue(&self) {
        self.database.writer_queue().enter(self.writer, self.database.db().options().writer_timeout);
    }

    fn join_writer_queue_for(&self, most: Duration) {
        let limit = self.database.db().options().writer_timeout;
        self.database.writer_queue().await_turn(self.writer, Instant::now(), limit, most);
    }

    fn leave_writer_queue_unless_writing(&self) {
        self.database.writer_queue().leave_unless_writing(self.writer);
    }

    #[inline]
    fn shared(&self) -> &SharedCapture {
        self.database.shared_capture()
    }

    fn open_internal(&self) -> Option<InternalConnection> {
        self.database.internal_connection().ok()
    }
}
