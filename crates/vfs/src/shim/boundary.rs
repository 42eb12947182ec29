//! The boundary to C: panics become errors, errors become SQLite's codes, in one place.

use crate::error::{Error, Result, remember};
use crate::ffi::api::Api;
use crate::ffi::codes::SQLITE_OK;
use litefoot_storage::worker::panic_text;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs one call behind the boundary.
pub(crate) fn guard(api: &Api, call: impl FnOnce() -> Result<()>) -> c_int {
    guard_code(api, || call().map(|()| SQLITE_OK))
}

/// As [`guard`], for calls with several codes of success.
pub(crate) fn guard_code(api: &Api, call: impl FnOnce() -> Result<c_int>) -> c_int {
    answer(api, caught(call))
}

/// The result of a call; a panic becomes an error.
#[inline]
pub(crate) fn caught<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(Error::Panic(panic_text(&*panic))))
}

/// The code of a result.
#[inline]
pub(crate) fn answer(api: &Api, result: Result<c_int>) -> c_int {
    result.unwrap_or_else(|error| answer_error(api, &error))
}

/// The code of an error. The text is kept, and told where litefoot is the cause.
#[cold]
fn answer_error(api: &Api, error: &Error) -> c_int {
    let code = error.code();
    if let Some(text) = remember(error)
        && crate::notice::tell(error)
    {
        api.write_log(code, &format!("litefoot: {text}"));
    }
    code
}
