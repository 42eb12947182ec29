//! Ctrl-C and SIGTERM.
//!
//! A signal interrupts the SQL statement that is running, if one is registered ([`watch`]). Otherwise it does what the
//! command chose when it began to listen ([`Idle`]). A second signal, while the first is still unanswered, ends the
//! program at once. The device is then as after a crash, which the storage layer is made for.

use crate::failure::Failure;
use rusqlite::InterruptHandle;
pub use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How soon a statement is interrupted once more.
const AGAIN: Duration = Duration::from_millis(20);

/// The signal that asked us to stop; 0 for none.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static RUNNING: Mutex<Option<InterruptHandle>> = Mutex::new(None);
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// The effect of a signal while no statement is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Sets a flag: the command looks often, with [`check`].
    Ask,
    /// Ends the program: the command waits for input, and nothing is half done.
    Leave,
}

/// Begins to listen. Without this the system's default stands: the process ends at once.
pub fn listen(idle: Idle) {
    // Without a handler the default action is what is left, and that is acceptable.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let unanswered = SIGNAL.swap(signal, Ordering::Relaxed) != 0;
            match running().as_ref() {
                Some(statement) if !unanswered => {
                    statement.interrupt();
                    std::thread::spawn(keep_interrupting);
                }
                None if !unanswered && idle == Idle::Ask => {}
                _ => {
                    if let Some(unfinished) = unfinished().take() {
                        // Somebody who wants to end at once is not told that this failed.
                        let _ = std::fs::remove_file(unfinished);
                    }
                    std::process::exit(128 + signal)
                }
            }
        }
    });
}

/// SQLite interrupts only a statement that runs: one that begins right after the signal would not know of it.
fn keep_interrupting() {
    loop {
        std::thread::sleep(AGAIN);
        match running().as_ref() {
            Some(statement) if SIGNAL.load(Ordering::Relaxed) != 0 => statement.interrupt(),
            _ => return,
        }
    }
}

/// Fails when somebody asked us to stop.
pub fn check() -> Result<(), Failure> {
    match SIGNAL.load(Ordering::Relaxed) {
        0 => Ok(()),
        signal => Err(Failure::interrupted(signal)),
    }
}

/// True if the signal that asked us to stop was a Ctrl-C.
pub fn was_ctrl_c() -> bool {
    SIGNAL.load(Ordering::Relaxed) == SIGINT
}

/// Forgets a Ctrl-C, which at a prompt ends the statement and not the program. SIGTERM stands.
pub fn forget_ctrl_c() -> Result<(), Failure> {
    // Where it fails there was no Ctrl-C to forget.
    let _ = SIGNAL.compare_exchange(SIGINT, 0, Ordering::Relaxed, Ordering::Relaxed);
    check()
}

/// Names the file that goes when a second signal ends the program at once; `None` when there is none any more.
pub fn remove_at_exit(file: Option<PathBuf>) {
    *unfinished() = file;
}

fn unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Until the guard is dropped, a signal interrupts the statement that runs on this connection.
pub fn watch(connection: &rusqlite::Connection) -> Watch {
    *running() = Some(connection.get_interrupt_handle());
    if SIGNAL.load(Ordering::Relaxed) != 0 {
        // It came before there was anything to interrupt.
        std::thread::spawn(keep_interrupting);
    }
    Watch
}

/// See [`watch`].
pub struct Watch;

impl Drop for Watch {
    fn drop(&mut self) {
        *running() = None;
    }
}

fn running() -> MutexGuard<'static, Option<InterruptHandle>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}
