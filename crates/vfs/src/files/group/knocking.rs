//! Knocking: a process that has the name of a group opens the file, or is told by the owner to come (`open/joiners`).
//!
//! # Promises
//! 1. The file is opened once at most, and not at all by a process that becomes a member.
//! 2. An owner that says nothing is waited for for [`AT_THE_DOOR`]. It may be no litefoot, an older one, or stopped. One that has spoken has [`SECOND_WORD`].

use crate::error::Result;
use crate::files::vfs::{OpenedFile, Vfs};
use crate::open::joiners::{COME, STAY, WAIT, Word};
use litefoot_storage::file::FileKind;
use litefoot_storage::os::{LocalListener, LocalSocket};
use std::ffi::c_int;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long an owner is waited for that has been told. Behind the death of one it may be that nobody hears of it.
const AT_THE_DOOR: Duration = Duration::from_millis(300);
/// How long one is waited for that has said that it will say more: longer than it waits for its own transactions, also where the machine is busy.
const SECOND_WORD: Duration = Duration::from_secs(1);
/// How long somebody at the name may take for a word, where it has not said that there will be another one.
const FIRST_WORD_MS: u32 = 100;
/// The time between two knocks, while no owner has said anything: it may have gone, or have let others in.
const PAUSE: Duration = Duration::from_millis(5);

/// What has come of a knock.
pub(super) enum Knocked {
    /// The file is open: nobody has a lease on it. The flags are those of a handle.
    Opened(LocalListener, OpenedFile, c_int),
    /// The owner has the listener now, and serves.
    Called,
    /// Another process has the file, and serves nobody.
    Stranger,
}

/// What was heard at the name.
enum Heard {
    Come(LocalSocket),
    Stay,
    /// Nothing, or an owner has gone while it was to say more.
    Nothing,
}

impl Vfs {
    /// Opens the file of a group whose name this process has, unless an owner tells it what to do.
    pub(super) fn knock(&self, path: &Path, flags: c_int, listener: LocalListener) -> Result<Knocked> {
        let until = Instant::now() + AT_THE_DOOR;
        // Others that look for an owner wait here. Once these are dropped they look once more.
        let mut waiting = Vec::new();
        loop {
            if let Some((file, out)) = self.open_file_at_once(path, FileKind::Database, flags)? {
                return Ok(Knocked::Opened(listener, file, out));
            }
            match listen(&listener, &mut waiting) {
                Heard::Come(owner) if owner.send(b"x", Some(listener.descriptor())).is_ok() => {
                    return Ok(Knocked::Called);
                }
                Heard::Stay => return Ok(Knocked::Stranger),
                _ if Instant::now() >= until => return Ok(Knocked::Stranger),
                _ => {}
            }
        }
    }
}

/// Listens for a while, and longer to one that has said that it will say more.
fn listen(listener: &LocalListener, waiting: &mut Vec<LocalSocket>) -> Heard {
    let pause = Instant::now() + PAUSE;
    loop {
        let left = pause.saturating_duration_since(Instant::now());
        if !listener.is_awaited(left).unwrap_or(false) {
            return Heard::Nothing;
        }
        let Ok(socket) = listener.accept() else { return Heard::Nothing };
        let mut word = Word::default();
        let _ = socket.set_timeout(FIRST_WORD_MS);
        if socket.receive_exactly(&mut word).is_err() {
            continue;
        }
        if word == WAIT {
            let _ = socket.set_timeout(SECOND_WORD.as_millis() as u32);
            if socket.receive_exactly(&mut word).is_err() {
                return Heard::Nothing;
            }
        }
        // Whoever says that it is to stay harms nobody. To go anywhere is another matter.
        match word {
            STAY => return Heard::Stay,
            COME if socket.peer().is_ok_and(|peer| peer.is_trusted()) => return Heard::Come(socket),
            _ => waiting.push(socket),
        }
    }
}
