//! How a line is protected, to a collector and to PostgreSQL.

#[cfg(not(feature = "tls"))]
use crate::Error;
use std::path::PathBuf;

/// How a line is protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Encrypted: the other side's certificate is of a trusted authority, or, where none is named, of one that the system trusts.
    Tls {
        /// The file of trusted authorities, in PEM.
        authorities: Option<PathBuf>,
        /// The files of a certificate that is shown to the other side, and of its key, in PEM.
        certificate: Option<(PathBuf, PathBuf)>,
    },
    /// Not at all.
    Plain,
}

/// An encrypted line is asked for, and cannot be had.
#[cfg(not(feature = "tls"))]
pub(crate) fn without_tls(place: &str) -> Error {
    let why = "this program was built without TLS: build it with --features tls";
    Error::Refused { place: place.to_owned(), why: why.to_owned() }
}
