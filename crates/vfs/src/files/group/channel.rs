//! A member's stream to its owner.
//!
//! # Invariants
//! 1. Writes wait for the next call that wants a reply, and go with it: they arrive before it.
//! 2. A stream that has failed once is never used again: nobody knows how far the owner has come.
//! 3. A forked child does not use its parent's stream.

use crate::error::{Error, Result};
use crate::files::group::protocol::{Call, Incoming, Outcome, Reply};
use crate::sync::group_board::Board;
use litefoot_storage::fork;
use litefoot_storage::os::{LocalSocket, NamelessMemory};
use litefoot_storage::sync::Mutex;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Most bytes of writes that wait.
const MOST_WAITING: usize = 256 << 10;

/// How long after a refusal SQLite's busy handler has begun to sleep.
const REFUSAL_LASTS: Duration = Duration::from_millis(10);

/// A stream to the owner of a database, for one connection.
pub(crate) struct Channel {
    socket: LocalSocket,
    /// The database, for messages.
    path: PathBuf,
    /// The process that has made it, as a number of forks.
    generation: u32,
    is_broken: AtomicBool,
    buffers: Mutex<Buffers>,
    /// Where owner and members see each other, and the connection's seat there.
    board: Option<(Board, usize)>,
    own: Weak<Channel>,
}

#[derive(Default)]
struct Buffers {
    outgoing: Vec<u8>,
    incoming: Incoming,
}

thread_local! {
    /// The stream over which this thread's last attempt to write was refused, and when.
    static REFUSED: RefCell<Option<(Weak<Channel>, Instant)>> = const { RefCell::new(None) };
}

impl Channel {
    /// A stream to the owner of the database at `path`.
    pub(super) fn new(socket: LocalSocket, path: &Path) -> Channel {
        Channel {
            socket,
            path: path.to_owned(),
            generation: fork::generation(),
            is_broken: AtomicBool::new(false),
            buffers: Mutex::default(),
            board: None,
            own: Weak::new(),
        }
    }

    /// Takes the seat that the owner has given, on the board that has come with it, and is used from now on.
    pub(super) fn sit_down(mut self, seat: Option<usize>) -> Arc<Channel> {
        let board = self.take_memory().and_then(|memory| Board::of(memory).ok());
        self.board = board.zip(seat);
        Arc::new_cyclic(|own| Channel { own: own.clone(), ..self })
    }

    /// The board, and the connection's seat there; `None` where there is none, or a forked child has not its own.
    pub(super) fn board(&self) -> Option<(&Board, usize)> {
        self.board.as_ref().filter(|_| self.is_alive()).map(|(board, seat)| (board, *seat))
    }

    /// True if nothing waits to be sent.
    pub(super) fn is_sent(&self) -> bool {
        self.buffers.lock().outgoing.is_empty()
    }

    /// Looks whether the owner has ended, without a message.
    pub(super) fn look(&self) -> Result<()> {
        self.check()?;
        if self.socket.is_open() { Ok(()) } else { Err(self.lost()) }
    }

    /// Sends what waits, and waits for no reply.
    pub(super) fn send(&self) -> Result<()> {
        self.check()?;
        let mut buffers = self.buffers.lock();
        let sent = self.socket.send(&buffers.outgoing, None);
        buffers.outgoing.clear();
        sent.map_err(|_| self.lost())
    }

    /// True if the owner may still answer.
    pub(super) fn is_alive(&self) -> bool {
        !self.is_broken.load(Ordering::Acquire) && self.is_of_this_process()
    }

    /// True unless it is the parent's of a forked child.
    pub(super) fn is_of_this_process(&self) -> bool {
        self.generation == fork::generation()
    }

    fn lost(&self) -> Error {
        self.is_broken.store(true, Ordering::Release);
        Error::Io(format!(
            "{}: the process that commits for this group of processes has ended in the middle of this transaction, which has not \
             been acknowledged; run it again",
            self.path.display()
        ))
    }

    fn check(&self) -> Result<()> {
        if self.is_alive() { Ok(()) } else { Err(self.lost()) }
    }

    /// Lets a write wait for the next call that wants a reply.
    pub(super) fn defer(&self, call: &Call<'_>) -> Result<()> {
        self.check()?;
        let mut buffers = self.buffers.lock();
        call.encode(false, &mut buffers.outgoing);
        if buffers.outgoing.len() < MOST_WAITING {
            return Ok(());
        }
        let sent = self.socket.send(&buffers.outgoing, None);
        buffers.outgoing.clear();
        sent.map_err(|_| self.lost())
    }

    /// Makes a call, and has `then` look at its reply.
    pub(super) fn ask<T>(&self, call: &Call<'_>, then: impl FnOnce(&Reply<'_>) -> Result<T>) -> Result<T> {
        self.check()?;
        let mut buffers = self.buffers.lock();
        call.encode(true, &mut buffers.outgoing);
        let sent = self.socket.send(&buffers.outgoing, None);
        buffers.outgoing.clear();
        sent.map_err(|_| self.lost())?;
        let Ok(Some(frame)) = buffers.incoming.next(&self.socket) else { return Err(self.lost()) };
        let Some(reply) = Reply::decode(frame) else { return Err(self.lost()) };
        if reply.outcome == Outcome::Busy && reply.flag {
            let _ = REFUSED.try_with(|note| *note.borrow_mut() = Some((self.own.clone(), Instant::now())));
        }
        match reply.outcome {
            Outcome::ShortRead => then(&reply),
            _ => then(&reply.checked()?),
        }
    }

    /// Makes a call of which only the end counts.
    pub(super) fn tell(&self, call: &Call<'_>) -> Result<()> {
        self.ask(call, |_| Ok(()))
    }

    /// The memory that has come with the last reply.
    pub(super) fn take_memory(&self) -> Option<NamelessMemory> {
        self.buffers.lock().incoming.descriptor.take().map(NamelessMemory::of)
    }

    /// Gives the owner so long for each reply; `None` waits for ever.
    pub(super) fn set_timeout(&self, time: Option<Duration>) {
        let ms = time.map_or(0, |time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
        // Without one a reply is waited for.
        let _ = self.socket.set_timeout(ms);
    }
}

/// The stream over which this thread's last attempt to write was refused just now.
pub(super) fn refused() -> Option<Arc<Channel>> {
    let (channel, at) = REFUSED.try_with(|note| note.borrow_mut().take()).ok()??;
    channel.upgrade().filter(|channel| at.elapsed() < REFUSAL_LASTS && channel.is_alive())
}
