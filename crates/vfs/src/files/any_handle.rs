//! Any handle, as the shim keeps it: one on a main database file is known for what it is.

use crate::error::Result;
use crate::files::handle::Handle;
use crate::files::main_db::MainFile;
use std::ops::{Deref, DerefMut};

/// Any of them. One on a main database file is known for what it is: SQLite asks it for pages all the time.
pub(crate) enum AnyHandle {
    /// On a main database file.
    Main(Box<MainFile>),
    /// On anything else.
    Other(Box<dyn Handle>),
}

impl AnyHandle {
    /// Closes the file.
    pub fn close(self) -> Result<()> {
        match self {
            AnyHandle::Main(main) => main.close(),
            AnyHandle::Other(other) => other.close(),
        }
    }

    /// The handle on a main database file, where it is one.
    #[inline]
    pub fn main(&mut self) -> Option<&mut MainFile> {
        match self {
            AnyHandle::Main(main) => Some(main),
            AnyHandle::Other(_) => None,
        }
    }
}

impl Deref for AnyHandle {
    type Target = dyn Handle;

    fn deref(&self) -> &(dyn Handle + 'static) {
        match self {
            AnyHandle::Main(main) => &**main,
            AnyHandle::Other(other) => &**other,
        }
    }
}

impl DerefMut for AnyHandle {
    fn deref_mut(&mut self) -> &mut (dyn Handle + 'static) {
        match self {
            AnyHandle::Main(main) => &mut **main,
            AnyHandle::Other(other) => &mut **other,
        }
    }
}
