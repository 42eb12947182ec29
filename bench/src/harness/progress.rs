//! How an experiment says how far it is, and hears that it shall stop.

use crate::Result;

/// Watches an experiment.
pub trait Progress {
    /// A stage of `total` steps begins.
    fn begin(&mut self, stage: &str, total: u64);

    /// So many more steps are done.
    ///
    /// # Errors
    /// [`Error::Stopped`](crate::Error::Stopped) where the experiment shall stop; it then passes that on and
    /// cleans up.
    fn advance(&mut self, steps: u64) -> Result<()>;
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _stage: &str, _total: u64) {}

    fn advance(&mut self, _steps: u64) -> Result<()> {
        Ok(())
    }
}
