//! `xFileControl`: SQLite's requests to a file beyond reading and writing, PRAGMAs among them.

use crate::error::{Error, Result};
use crate::ffi::codes::*;
use crate::files::handle::{Control, Handled, PragmaCall};
use crate::shim::file_object::FileObject;
use std::ffi::{CStr, c_char, c_int, c_void};

/// Carries out one request.
///
/// # Safety
/// `argument` has the type that `operation` defines.
pub(crate) unsafe fn control(
    object: &mut FileObject,
    operation: c_int,
    argument: *mut c_void,
) -> Result<c_int> {
    let number = argument.cast::<c_int>();
    // SAFETY: each operation's argument type is fixed by sqlite3.h.
    let control = unsafe {
        match operation {
            SQLITE_FCNTL_LOCKSTATE => Control::LockState(&mut *number),
            SQLITE_FCNTL_LAST_ERRNO => Control::LastErrno(&mut *number),
            SQLITE_FCNTL_PERSIST_WAL => Control::PersistWal(&mut *number),
            SQLITE_FCNTL_POWERSAFE_OVERWRITE => Control::PowersafeOverwrite(&mut *number),
            SQLITE_FCNTL_PDB => Control::Connected,
            SQLITE_FCNTL_SYNC if !argument.is_null() => Control::SeveralFiles,
            SQLITE_FCNTL_COMMIT_PHASETWO => Control::CommitDone,
            SQLITE_FCNTL_HAS_MOVED => Control::HasMoved(&mut *number),
            SQLITE_FCNTL_MMAP_SIZE => Control::MmapSize(&mut *argument.cast::<i64>()),
            SQLITE_FCNTL_EXTERNAL_READER => Control::ExternalReader(&mut *number),
            SQLITE_FCNTL_SIZE_HINT | SQLITE_FCNTL_CHUNK_SIZE => Control::Growth,
            SQLITE_FCNTL_VFSNAME => {
                *argument.cast::<*mut c_char>() = object.api.allocate_text(&object.vfs.name);
                return Ok(SQLITE_OK);
            }
            SQLITE_FCNTL_TEMPFILENAME => {
                let path = object.vfs.temporary_files().free_path()?;
                *argument.cast::<*mut c_char>() = object.api.allocate_text(&path.to_string_lossy());
                return Ok(SQLITE_OK);
            }
            SQLITE_FCNTL_PRAGMA => return pragma(object, argument.cast()),
            _ => return Ok(SQLITE_NOTFOUND),
        }
    };
    let is_commit = matches!(control, Control::CommitDone);
    let done = object.handle.control(control);
    Ok(match if is_commit { never_busy(done) } else { done }? {
        Handled::Yes => SQLITE_OK,
        Handled::No => SQLITE_NOTFOUND,
    })
}

/// The outcome of a commit. SQLite takes a lock that is met there for one before it: a COMMIT that is tried again after that
/// succeeds, and has written nothing.
fn never_busy(done: Result<Handled>) -> Result<Handled> {
    done.map_err(|error| match error {
        Error::Busy | Error::Owned { .. } => Error::Io(
            "another process was in the way of a commit, which is rolled back; run the transaction again"
                .to_owned(),
        ),
        Error::Owners { code, text } if code & 0xff == SQLITE_BUSY => Error::Io(text),
        error => error,
    })
}

/// Passes a PRAGMA to the handle; SQLite frees the answer.
///
/// # Safety
/// `arguments` are the three strings of `SQLITE_FCNTL_PRAGMA`: answer, name, value or null.
unsafe fn pragma(object: &mut FileObject, arguments: *mut *mut c_char) -> Result<c_int> {
    // SAFETY: by contract.
    let text = |index: usize| unsafe {
        let pointer = *arguments.add(index);
        (!pointer.is_null()).then(|| CStr::from_ptr(pointer).to_string_lossy().into_owned())
    };
    let Some(name) = text(1).map(|name| name.to_ascii_lowercase()) else { return Ok(SQLITE_NOTFOUND) };
    let value = text(2);
    let mut answer = None;
    let call = PragmaCall { name: &name, value: value.as_deref(), answer: &mut answer };
    let (code, answer) = match object.handle.control(Control::Pragma(call)) {
        Ok(Handled::No) => return Ok(SQLITE_NOTFOUND),
        Ok(Handled::Yes) => (SQLITE_OK, answer),
        // With an error code the text becomes the message of the failed statement.
        Err(error) => (SQLITE_ERROR, Some(error.to_string())),
    };
    if let Some(answer) = answer {
        // SAFETY: SQLite frees the text it finds here.
        unsafe { *arguments = object.api.allocate_text(&answer) };
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_done_or_has_failed_and_never_waits() {
        let owners = |code| Error::Owners { code, text: "why".to_owned() };
        for (error, expected) in [
            (Error::Busy, SQLITE_IOERR),
            (owners(SQLITE_BUSY), SQLITE_IOERR),
            (owners(SQLITE_FULL), SQLITE_FULL),
            (Error::Io(String::new()), SQLITE_IOERR),
            (Error::NoMemory, SQLITE_IOERR_NOMEM),
        ] {
            assert_eq!(never_busy(Err(error)).map(drop).unwrap_err().code(), expected);
        }
        assert!(matches!(never_busy(Ok(Handled::Yes)), Ok(Handled::Yes)));
    }
}
