//! The result of a task.

use super::TaskError;
use litefoot_storage::io::Monitor;
use std::sync::Arc;

/// A task's result, once it is there. Dropping the handle leaves the task running.
pub struct Handle<T> {
    slot: TaskResult<T>,
}

/// The place of a task's result, which its handle waits on.
pub(super) type TaskResult<T> = Arc<Monitor<Option<Result<T, TaskError>>>>;

impl<T> Handle<T> {
    pub(super) fn new() -> (Handle<T>, TaskResult<T>) {
        let slot: TaskResult<T> = Arc::new(Monitor::new(None));
        (Handle { slot: slot.clone() }, slot)
    }

    /// True once the task has ended.
    pub fn is_finished(&self) -> bool {
        self.slot.look(|result| result.is_some())
    }

    /// Waits for the task to end.
    ///
    /// # Errors
    /// [`TaskError::Panicked`] where it panicked, [`TaskError::NoResources`] where it could not start.
    pub fn join(self) -> Result<T, TaskError> {
        self.slot.wait(Option::take)
    }
}
