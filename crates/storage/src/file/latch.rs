//! The one place that latches the first failed sync.
//!
//! After a failed `fsync` Linux marks the dirty pages clean: a second `fsync` returns success although
//! the data never reached the medium (<https://lwn.net/Articles/752063/>). So the first failure is
//! final for everything that depends on the file, until it is closed, reopened and recovered.
//!
//! Invariants:
//! 1. Once latched, always latched; the first reason is kept.
//! 2. [`SyncLatch::check`] is called before every write of the guarded files, so nothing is written on
//!    top of unknown content.

use super::{DeviceError, Result};
use std::path::Path;
use std::sync::OnceLock;

/// Remembers the first failed sync of a group of files that are only sound together.
#[derive(Debug, Default)]
pub struct SyncLatch {
    first: OnceLock<String>,
}

impl SyncLatch {
    /// A latch that has seen no failure.
    pub fn new() -> SyncLatch {
        SyncLatch::default()
    }

    /// Fails once a sync has failed. `path` names the file about to be written.
    #[inline]
    pub fn check(&self, path: &Path) -> Result<()> {
        match self.first.get() {
            None => Ok(()),
            Some(first) => Err(DeviceError::latched(path, first)),
        }
    }

    /// Passes on the result of a sync (or of a durable write) and latches if it failed.
    pub fn watch<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            // A second failure changes nothing: the first reason stays.
            let _ = self.first.set(error.to_string());
        }
        result
    }

    /// Latches for another reason than a failed sync, with the same effect.
    pub fn close(&self, reason: &str) {
        let _ = self.first.set(reason.to_owned());
    }

    /// The first failure, if there was one.
    pub fn reason(&self) -> Option<&str> {
        self.first.get().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{ErrorKind, Operation};
    use std::io;

    #[test]
    fn the_first_failure_is_kept_and_final() {
        let path = Path::new("a.db");
        let latch = SyncLatch::new();
        assert!(latch.check(path).is_ok());
        assert!(latch.watch(Ok(7)).is_ok_and(|value| value == 7));
        assert!(latch.check(path).is_ok());
        for message in ["first", "second"] {
            let failed: Result<()> =
                Err(DeviceError::new(Operation::Sync, path, io::Error::other(message.to_owned())));
            assert!(latch.watch(failed).is_err());
        }
        assert!(latch.watch(Ok(())).is_ok());
        let error = latch.check(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Latched);
        assert!(error.to_string().contains("first"), "{error}");
        assert!(!error.to_string().contains("second"), "{error}");
    }
}
