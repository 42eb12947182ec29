//! The locks of the whole project.
//!
//! # Why
//! One place to say which mutex is meant, so that a checker can stand in for it. These compile with the
//! code that uses them: the thread sanitizer then sees every acquire and release. Those of the standard
//! library come compiled, and the sanitizer takes what they guard for a race.
//!
//! A panic while a lock is held leaves it unlocked: every state guarded here is consistent between any
//! two statements of its methods, or latched as failed.

pub use parking_lot::{
    Condvar, MappedMutexGuard, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
