//! The tier device of a database whose hot chunks are away: where it is, and what it tells.

use litefoot_storage::file::{File, Medium};
use litefoot_tier::{self as tier, Overview};
use std::path::PathBuf;
use std::sync::Arc;

/// Where parts of a database live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Away {
    /// The device, as the file has it.
    pub device: PathBuf,
    /// The device's overview, or the reason why there is none.
    pub overview: Result<Overview, String>,
}

impl Away {
    /// Reads the mark of a file, then the device; `None` for a plain file.
    pub fn read(medium: &Arc<dyn Medium>, file: &dyn File) -> Result<Option<Away>, String> {
        let Some(device) = tier::tier_of(file).map_err(|error| error.to_string())? else { return Ok(None) };
        let overview = match tier::look(medium, &device) {
            Ok(Some(overview)) => Ok(overview),
            Ok(None) => Err(format!("there is nothing at {}", device.display())),
            Err(error) => Err(error.to_string()),
        };
        Ok(Some(Away { device, overview }))
    }
}
