//! A member's stream to its owner.
//!
//! # Invariants
//! 1. Writes wait for the next call that wants a reply, and go with it: they arrive before it.
//! 2. A stream that has failed once is never used again: nobody knows how far the owner has come.
//! 3. A forked child does not use its parent's stream.
//! 4. An owner may take its time: a device may be slow. But one that is stopped answers nothing, and is given up within [`LOOK_AFTER`] or two.

use crate::db::HEADER_BYTES;
use crate::error::{Error, Result};
use crate::files::group::held_txn::HeldTxn;
use crate::files::group::lent_pages::Borrowing;
use crate::files::group::protocol::{Call, Incoming, Outcome, Reply};
use crate::sync::group_board::Board;
use litefoot_storage::fork;
use litefoot_storage::os::{LocalSocket, NamelessMemory, Peer};
use litefoot_storage::sync::Mutex;
use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Most bytes of writes that wait.
const MOST_WAITING: usize = 256 << 10;

/// How long after a refusal SQLite's busy handler has begun to sleep.
const REFUSAL_LASTS: Duration = Duration::from_millis(10);

/// How long a reply may take before the member looks whether its owner has been stopped.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// A stream to the owner of a database, for one connection.
pub(crate) struct Channel {
    socket: LocalSocket,
    /// The database, for messages.
    path: PathBuf,
    /// The process that has made it, as a number of forks.
    generation: u32,
    is_broken: AtomicBool,
    /// The owner, where the system says who that is.
    owner: Option<Peer>,
    buffers: Mutex<Buffers>,
    /// Where owner and members see each other, and the connection's seat there.
    board: Option<(Board, usize)>,
    /// What is read without a message.
    pub(super) borrowing: Borrowing,
    /// What the owner has said with its first reply, until the connection takes it.
    first: Mutex<Option<First>>,
    /// True if whoever opens the file waits for the owner.
    pub(super) has_lease: AtomicBool,
    own: Weak<Channel>,
}

/// What an owner has said with its first reply.
#[derive(Default)]
pub(super) struct First {
    /// What a transaction may begin with.
    pub txn: HeldTxn,
    /// The header of the file.
    pub header: Option<[u8; HEADER_BYTES]>,
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
        // Without a limit a reply is waited for.
        let _ = socket.set_timeout(LOOK_AFTER.as_millis() as u32);
        Channel {
            owner: socket.peer().ok(),
            socket,
            path: path.to_owned(),
            generation: fork::generation(),
            is_broken: AtomicBool::new(false),
            buffers: Mutex::default(),
            board: None,
            borrowing: Borrowing::default(),
            first: Mutex::default(),
            has_lease: AtomicBool::new(false),
            own: Weak::new(),
        }
    }

    /// Takes the seat that the owner has given, on the board that has come with it, and is used from now on.
    pub(super) fn sit_down(mut self, seat: Option<usize>) -> Arc<Channel> {
        let board = self.take_memory().and_then(|memory| Board::of(memory).ok());
        self.board = board.zip(seat);
        Arc::new_cyclic(|own| Channel { own: own.clone(), ..self })
    }

    /// What the owner has said with its first reply.
    pub(super) fn note_first(&self, first: First) {
        *self.first.lock() = Some(first);
    }

    /// The same for the connection.
    pub(super) fn take_first(&self) -> Option<First> {
        self.first.lock().take()
    }

    /// Makes a call without waiting for its end.
    pub(super) fn post(&self, call: &Call<'_>) -> Result<()> {
        self.defer(call).and_then(|()| self.send())
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

    /// True if the owner has ended: another one may come. One that is stopped has not.
    pub(super) fn has_lost_owner(&self) -> bool {
        self.is_of_this_process() && !self.is_alive() && !self.is_owner_stopped()
    }

    /// True unless it is the parent's of a forked child.
    pub(super) fn is_of_this_process(&self) -> bool {
        self.generation == fork::generation()
    }

    /// The owner has ended: the stream is used no more.
    pub(super) fn lost(&self) -> Error {
        self.is_broken.store(true, Ordering::Release);
        Error::Io(format!(
            "{}: the process that commits for this group of processes has ended in the middle of this transaction, which has not \
             been acknowledged; look whether it is there, and run it again",
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
        self.ask_until(None, call, then)
    }

    /// The same, where the reply comes until then, or the stream is given up.
    pub(super) fn ask_until<T>(
        &self,
        until: Option<Instant>,
        call: &Call<'_>,
        then: impl FnOnce(&Reply<'_>) -> Result<T>,
    ) -> Result<T> {
        self.check()?;
        let mut buffers = self.buffers.lock();
        call.encode(true, &mut buffers.outgoing);
        let sent = self.socket.send(&buffers.outgoing, None);
        buffers.outgoing.clear();
        sent.map_err(|_| self.lost())?;
        self.await_reply(&mut buffers.incoming, until)?;
        let Some(frame) = buffers.incoming.take() else { return Err(self.lost()) };
        let Some(reply) = Reply::decode(frame) else { return Err(self.lost()) };
        if reply.outcome == Outcome::Busy && reply.flag {
            let _ = REFUSED.try_with(|note| *note.borrow_mut() = Some((self.own.clone(), Instant::now())));
        }
        match reply.outcome {
            Outcome::ShortRead => then(&reply),
            _ => then(&reply.checked()?),
        }
    }

    fn await_reply(&self, incoming: &mut Incoming, until: Option<Instant>) -> Result<()> {
        let is_late = || until.is_some_and(|until| Instant::now() >= until);
        loop {
            match incoming.await_frame(&self.socket) {
                Ok(true) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => match self.owner {
                    Some(owner) if owner.is_stopped() => return Err(self.given_up()),
                    _ if is_late() => return Err(self.lost()),
                    _ => {}
                },
                Ok(false) => return Err(self.lost()),
                // The owner may be there: it must not go on with what was not received.
                Err(_) => {
                    self.leave();
                    return Err(self.lost());
                }
            }
        }
    }

    /// True while the owner is stopped.
    pub(super) fn is_owner_stopped(&self) -> bool {
        self.owner.is_some_and(Peer::is_stopped)
    }

    /// The owner is stopped in the middle of a call. Once it is continued, it finds the end of the stream.
    #[cold]
    fn given_up(&self) -> Error {
        self.leave();
        self.stopped()
    }

    /// The stream is used no more.
    pub(super) fn leave(&self) {
        self.is_broken.store(true, Ordering::Release);
        self.socket.close();
    }

    /// The error of a transaction whose owner is stopped.
    #[cold]
    pub(super) fn stopped(&self) -> Error {
        let process = self.owner.map_or(0, |owner| owner.process);
        Error::Io(format!(
            "{}: process {process}, which commits for this group of processes, has been stopped; continue it, or end it. The transaction \
             has not been acknowledged: look whether it is there, and run it again",
            self.path.display()
        ))
    }

    /// Makes a call of which only the end counts.
    pub(super) fn tell(&self, call: &Call<'_>) -> Result<()> {
        self.ask(call, |_| Ok(()))
    }

    /// The memory that has come with the last reply.
    pub(super) fn take_memory(&self) -> Option<NamelessMemory> {
        self.take_descriptor().map(NamelessMemory::of)
    }

    /// The descriptor that has come with the last reply.
    pub(super) fn take_descriptor(&self) -> Option<OwnedFd> {
        self.buffers.lock().incoming.descriptor.take()
    }

    /// The stream, of which nothing else is wanted.
    pub(super) fn into_socket(self) -> LocalSocket {
        self.socket
    }
}

/// The stream over which this thread's last attempt to write was refused just now.
pub(super) fn refused() -> Option<Arc<Channel>> {
    let (channel, at) = REFUSED.try_with(|note| note.borrow_mut().take()).ok()??;
    channel.upgrade().filter(|channel| at.elapsed() < REFUSAL_LASTS && channel.is_alive())
}
