//! The reasons for which a pair of file and device cannot be opened. Each message names the file, and what to do.

use litefoot_storage::file::DeviceError;
use std::path::PathBuf;

/// Result of opening.
pub type Result<T> = std::result::Result<T, Error>;

/// The reasons for which a pair of file and device cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Either file failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The device would hold too little.
    #[error("{}: a tier of {bytes} bytes cannot be; it has at least {least}", path.display())]
    TooSmall {
        /// The device.
        path: PathBuf,
        /// Bytes asked for.
        bytes: u64,
        /// Bytes needed.
        least: u64,
    },
    /// Another handle has the device.
    #[error("{}: the tier device is in use by another process or database; each database needs its own", path.display())]
    InUse {
        /// The device.
        path: PathBuf,
    },
    /// A file that litefoot has not made.
    #[error("{}: is not a tier device of litefoot's, and is not overwritten; name another file", path.display())]
    NotATier {
        /// The file.
        path: PathBuf,
    },
    /// A later litefoot made it.
    #[error("{}: has format version {version}, which this litefoot does not know; use the one that made it", path.display())]
    Version {
        /// The file or the device.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// A checksum does not fit.
    #[error("{}: {what}; nothing was changed: restore file and tier device together from a copy", path.display())]
    Damaged {
        /// The file or the device.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// Chunks are away, and the device is not there.
    #[error("{}: parts of it live on the tier device {}, and there is nothing at {}; name the device it was used with",
        flash.display(), recorded.display(), path.display())]
    Missing {
        /// The flash file.
        flash: PathBuf,
        /// The path that the device was looked for at.
        path: PathBuf,
        /// Its path when the file was last opened.
        recorded: PathBuf,
    },
    /// The device is another file's.
    #[error("{}: the tier device belongs to {}, not to {}; drain that one first, or name another device",
        path.display(), owner.display(), flash.display())]
    Foreign {
        /// The device.
        path: PathBuf,
        /// The file that it belongs to.
        owner: PathBuf,
        /// The file that it was opened for.
        flash: PathBuf,
    },
    /// The file and the device are of different times.
    #[error("{} and its tier device {} do not belong to the same moment: {what}; nothing was changed: restore \
        both together, or name another device", flash.display(), path.display())]
    Stale {
        /// The flash file.
        flash: PathBuf,
        /// The device.
        path: PathBuf,
        /// The sign of it.
        what: &'static str,
    },
}
