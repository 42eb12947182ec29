//! Sorting and merging, and what becomes of a merged operation.

use super::request::{Completion, Direction, Request};
use super::{Counters, Ordering};
use crate::file::{DeviceError, File, Result};
use std::io::{self, IoSlice, IoSliceMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Most requests that are merged: what one system call takes.
pub(super) const MAX_PARTS: usize = 256;

/// Adjacent requests, done by one operation.
pub(super) struct Batch {
    pub parts: Vec<Request>,
    bytes: usize,
}

/// Sorts requests by direction, file and place, and merges neighbours. The system sorts the reads that it was told of.
/// Those stay in order, so that no reader waits for a page that is wanted later.
pub(super) fn plan(mut requests: Vec<Request>, merge_bytes: usize) -> Vec<Batch> {
    if !requests.iter().all(Request::is_foretold) {
        requests.sort_by_key(|request| (request.direction, handle(&request.file), request.offset));
    }
    let mut batches: Vec<Batch> = Vec::new();
    for mut request in requests {
        let bytes = request.buffer.bytes().len();
        match batches.last_mut() {
            Some(batch) if batch.takes(&request, bytes, merge_bytes) => {
                batch.bytes += bytes;
                batch.parts.push(request);
            }
            _ => batches.push(Batch::of(request)),
        }
    }
    batches
}

/// A number for an open handle.
fn handle(file: &Arc<dyn File>) -> usize {
    Arc::as_ptr(file).cast::<()>() as usize
}

impl Batch {
    /// A request by itself.
    pub fn of(mut request: Request) -> Batch {
        let bytes = request.buffer.bytes().len();
        Batch { parts: vec![request], bytes }
    }

    fn takes(&self, request: &Request, bytes: usize, merge_bytes: usize) -> bool {
        let first = &self.parts[0];
        first.direction == request.direction
            && handle(&first.file) == handle(&request.file)
            && self.offset() + self.bytes as u64 == request.offset
            && self.bytes + bytes <= merge_bytes
            && self.parts.len() < MAX_PARTS
    }

    /// A batch has at least one part.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.parts[0].file
    }

    pub fn direction(&self) -> Direction {
        self.parts[0].direction
    }

    pub fn offset(&self) -> u64 {
        self.parts[0].offset
    }

    /// Does the operation through the file, from byte `done` of it on. Returns the bytes done in all. A file that panics
    /// has failed: somebody waits for the answer.
    pub fn perform(&mut self, done: usize) -> Result<usize> {
        catch_unwind(AssertUnwindSafe(|| self.call(done))).unwrap_or_else(|_| {
            let source = io::Error::other("an internal error (please report it)");
            Err(DeviceError::new(operation(self.direction()), self.file().path(), source))
        })
    }

    fn call(&mut self, done: usize) -> Result<usize> {
        let (file, direction) = (self.file().clone(), self.direction());
        let offset = self.offset() + done as u64;
        let mut skip = done;
        let mut slices: Vec<&mut [u8]> = Vec::with_capacity(self.parts.len());
        for part in &mut self.parts {
            let bytes = part.buffer.bytes();
            let from = skip.min(bytes.len());
            skip -= from;
            slices.push(&mut bytes[from..]);
        }
        match direction {
            Direction::Read => {
                let mut slices: Vec<_> = slices.into_iter().map(IoSliceMut::new).collect();
                Ok(done + file.read_vectored_at(&mut slices, offset)?)
            }
            Direction::Write => {
                let slices: Vec<_> = slices.iter().map(|bytes| IoSlice::new(bytes)).collect();
                file.write_vectored_at(&slices, offset)?;
                Ok(self.bytes)
            }
        }
    }

    /// Goes on where the kernel stopped early, then answers.
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    pub fn finish_after(mut self, result: io::Result<usize>, counters: &Counters) {
        let result = match result {
            Ok(done) if done >= self.bytes => Ok(done),
            // A read of nothing is the end of the file.
            Ok(0) if self.direction() == Direction::Read => Ok(0),
            Ok(done) => self.perform(done),
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {
                self.perform(0)
            }
            Err(error) => Err(DeviceError::new(operation(self.direction()), self.file().path(), error)),
        };
        self.answer(result, counters);
    }

    /// Answers every part.
    pub fn answer(self, result: Result<usize>, counters: &Counters) {
        counters.operations.fetch_add(1, Ordering::Relaxed);
        counters.requests.fetch_add(self.parts.len() as u64, Ordering::Relaxed);
        match result {
            Ok(done) => {
                counters.bytes.fetch_add(done as u64, Ordering::Relaxed);
                let mut left = done;
                for mut part in self.parts {
                    let done = left.min(part.buffer.bytes().len());
                    left -= done;
                    respond(part, Ok(done));
                }
            }
            Err(error) => self.answer_failed(error),
        }
    }

    fn answer_failed(mut self, error: DeviceError) {
        if self.parts.len() == 1 {
            if let Some(part) = self.parts.pop() {
                respond(part, Err(error));
            }
            return;
        }
        for mut part in self.parts {
            let result = match part.direction {
                Direction::Read => part.file.read_at(part.buffer.bytes(), part.offset),
                Direction::Write => Err(again(&error)),
            };
            respond(part, result);
        }
    }

    /// The buffers as the kernel wants them. They are valid as long as the parts are.
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    pub fn vectors(&mut self) -> Vec<libc::iovec> {
        let vector =
            |bytes: &mut [u8]| libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        self.parts.iter_mut().map(|part| vector(part.buffer.bytes())).collect()
    }
}

/// Answers a request that is not done.
pub(super) fn refuse(request: Request) {
    let cause = io::Error::new(io::ErrorKind::Interrupted, "the file is being closed");
    let error = DeviceError::new(operation(request.direction), request.file.path(), cause);
    respond(request, Err(error));
}

fn respond(part: Request, result: Result<usize>) {
    let Request { buffer, done, .. } = part;
    // The caller's panic is the caller's: it was reported where it happened.
    let _ = catch_unwind(AssertUnwindSafe(|| done(Completion { buffer, result })));
}

fn operation(direction: Direction) -> crate::file::Operation {
    use crate::file::Operation;
    match direction {
        Direction::Read => Operation::Read,
        Direction::Write => Operation::Write,
    }
}

/// The same error once more, for another part of the operation.
fn again(error: &DeviceError) -> DeviceError {
    let source = match error.source.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.source.kind(), error.source.to_string()),
    };
    DeviceError::new(error.operation, &error.path, source)
}
