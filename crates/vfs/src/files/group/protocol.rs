//! The protocol between a member and its owner: calls and replies, as bytes of a stream between processes of one machine.
//!
//! ```text
//! call    bytes behind this word (4)  operation (1)  file (1)  wants a reply (1)  0 (1)  a (8)  b (8)  data
//! reply   bytes behind this word (4)  outcome (1)    flag (1)  0 (2)  value (8)                        data
//! ```
//!
//! Numbers have the order of the machine's bytes: both ends are on it. What `a`, `b`, `flag`, `value` and the data are, each [`Operation`]
//! says.
//!
//! # Invariants
//! 1. A call that wants no reply is a write. Its failure is the reply of the next call that wants one, and that call is not carried
//!    out, unless it gives something back.
//! 2. A reply comes for each call that wants one, in their order. Nothing else comes.
//! 3. No frame has more than [`MOST_BYTES`]: a longer one ends the stream.

use crate::error::{Error, Result};
use crate::sync::group_changes::Moment;
use litefoot_storage::os::LocalSocket;
use std::ffi::c_int;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Changes with the meaning of any byte here. Processes with different numbers do not join.
pub(super) const VERSION: u64 = 17;

/// Most bytes of a frame: a page, or a path, and some more.
pub(super) const MOST_BYTES: usize = 1 << 20;

/// Bytes before the data.
const CALL_BYTES: usize = 24;
const REPLY_BYTES: usize = 16;

macro_rules! operations {
    ($($(#[$meta:meta])* $name:ident = $number:literal,)+) => {
        /// What a call asks for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(super) enum Operation { $($(#[$meta])* $name = $number,)+ }

        impl Operation {
            fn of(number: u8) -> Option<Operation> {
                match number { $($number => Some(Operation::$name),)+ _ => None }
            }
        }
    };
}

operations! {
    /// The first call: `a` is [`VERSION`], `b` [`READ_ONLY`] and others; the data is what the process keeps ([`Keeps`]), and the build. With the
    /// reply comes the descriptor of the board; the value is the member's seat, or [`NO_SEAT`], and the data the number of the marks of unwritten
    /// pages (8), where there are some, the header of the file (100), and what has changed (`batch`), where a transaction may begin with that. The flag
    /// says that whoever opens the file waits for the owner: the close needs no answer.
    Hello = 1,
    /// Bytes of a file: `a` is the offset, `b` their number; they are the reply's data. Where the data is a number (1), they are read in as many equal
    /// parts, and those behind the end of the file are left out, but for the first.
    Read = 2,
    /// The data goes to offset `a`. The flag says that a commit which SQLite does not sync is in the log, with the system.
    Write = 3,
    /// The file is cut to `a` bytes.
    Truncate = 4,
    /// The file becomes durable.
    Sync = 5,
    /// The value is the length of the file.
    Size = 6,
    /// The file is closed.
    Close = 7,
    /// The lock is raised to level `a`; `b` is the connection's token (`sync/heirs`). The data is [`SPILLS`] for a page that is written before the
    /// commit. The flag says if other processes may have the database open.
    Lock = 8,
    /// The lock is lowered to level `a`.
    Unlock = 9,
    /// The flag says if some connection is about to write.
    IsReserved = 10,
    /// A file control: `a` is its [`ControlKind`], `b` its argument, the value what it becomes. The flag says if it was known.
    Control = 11,
    /// A PRAGMA: the data is its name, and, where the low bit of `a` is set, a zero and its argument. The flag says if it was known; bit 0 of the value
    /// says if the data is an answer.
    Pragma = 12,
    /// Region `a` of the wal-index, of `b` bytes; the data is one byte that says if it is to be made. The flag says if it is there. With the
    /// first one comes the descriptor of the memory, or of the file where strangers have the database open; the value is its epoch, and the data
    /// says if frames of the log are in that memory (1).
    ShmMap = 13,
    /// Takes slots from `a` on, as many as `b`; the data says if exclusively, and what the statement is, and, where the member reads by its
    /// seat, the change counter of the index when it began to (4).
    ShmLock = 14,
    /// Gives slots back.
    ShmUnlock = 15,
    /// The wal-index is not used any more; `a` says if its file is to be deleted.
    ShmUnmap = 16,
    /// Opens the journal or the log with the flags `a`; the value is those that it has.
    Open = 17,
    /// Deletes the journal or the log; `a` says if durably.
    Delete = 18,
    /// The flag says if the journal or the log is there, by the flags `a`.
    Access = 19,
    /// Waits `a` microseconds, or less where the writer's turn has come. The flag is not set where there was no wait.
    Sleep = 20,
    /// Takes the write slot for a statement that has not read yet; the data says what it is. The flag says if it was taken.
    TakeTurn = 21,
    /// Takes the lock of a reader, and, for a statement that is going to write, its turn and the lock of a writer, too. `a` and `b` are the moment of
    /// the pages that the member keeps; the data says what the statement is, and whether page 1 is one of them (1). Bits of the value are
    /// [`HOLDS`] and [`RESERVED`]. Where it holds, the data is what has changed (`batch`), else what SQLite looks at next ([`Seen`]). A lock that the member has
    /// by its seat is this one from now on.
    Begin = 22,
    /// Commits what a member has held (`batch`). Bits of `a` are [`SYNC_WANTED`] and others. The value is how many commits there were. With [`MORE`]
    /// others of it come next, and the last one commits.
    Commit = 23,
    /// Asks for the marks of unwritten pages. The flag says if the file may be borrowed; then their memory comes with the reply, and their number is the
    /// value.
    Marks = 24,
    /// Goes on with a transaction that an owner had that has died. `a` is the number of that owner's marks, `b` how many writings there had been; the
    /// data is the token (8), the length of the database (8), bytes of a page (4), and bits of [`IS_RESERVED`] and [`ENDS`] (1). Bits of the
    /// value are [`HOLDS`] and others. Where it holds, the data is the news; where it does not, it was committed.
    GoOn = 25,
    /// Keeps the file as an owner has left it that has died, for a snapshot in WAL mode: by the lock of a reader, and the slot of one that reads no
    /// log. `a` is the number of that owner's marks, `b` SQLite's flags of the log.
    KeepFile = 26,
    /// Takes the lock of a writer for such a snapshot, where the database has what it builds upon. The data is that, and its commit (`wal_state`); the value says
    /// which of them was found.
    WriteOn = 27,
    /// Commits what such a transaction has written (`batch`), durably. With [`MORE`] in `a` others of it come next, and the last one commits.
    CommitOn = 28,
}

impl Operation {
    /// True for what a transaction may begin with.
    pub(super) fn begins(self) -> bool {
        matches!(
            self,
            Operation::Begin
                | Operation::Lock
                | Operation::ShmLock
                | Operation::TakeTurn
                | Operation::GoOn
                | Operation::KeepFile
        )
    }

    /// True for what is carried out also where a write before it has failed: SQLite is done with it whatever the answer is.
    pub(super) fn gives_back(self) -> bool {
        matches!(
            self,
            Operation::Close
                | Operation::Unlock
                | Operation::ShmUnlock
                | Operation::ShmUnmap
                | Operation::Sleep
        )
    }
}

/// The data of a call for a lock that SQLite can do without, so that no reader is waited for.
pub(super) const SPILLS: [u8; 1] = [1];

/// What a process keeps of an earlier connection, in its first call: the number of the owner's marks (8), the moment of its pages (16), and whether page 1
/// is one of them (1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Keeps {
    pub marks: u64,
    pub moment: Moment,
    pub has_first: bool,
}

impl Keeps {
    /// Bytes of it.
    const BYTES: usize = 25;

    pub(super) fn encode(self, greeting: &str) -> Vec<u8> {
        let Moment { epoch, commits } = self.moment;
        let [marks, epoch, commits] = [self.marks, epoch, commits].map(u64::to_ne_bytes);
        [&marks[..], &epoch, &commits, &[u8::from(self.has_first)], greeting.as_bytes()].concat()
    }

    /// What a first call says, and the greeting behind it.
    pub(super) fn decode(data: &[u8]) -> Option<(Keeps, &[u8])> {
        let (said, greeting) = data.split_at_checked(Keeps::BYTES)?;
        let moment = Moment { epoch: number(said, 8)?, commits: number(said, 16)? };
        Some((Keeps { marks: number(said, 0)?, moment, has_first: said.last() != Some(&0) }, greeting))
    }
}

/// What SQLite looks at behind its first lock, as the owner finds it: if a journal is there (1), and a log (1), and bytes of the database (8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub journal: Option<bool>,
    pub log: Option<bool>,
    pub len: Option<u64>,
}

impl Seen {
    pub(super) fn encode(journal: bool, log: bool, len: u64, message: &mut Vec<u8>) {
        message.extend_from_slice(&[u8::from(journal), u8::from(log)]);
        message.extend_from_slice(&len.to_ne_bytes());
    }

    /// Nothing where the bytes say nothing.
    pub(super) fn decode(bytes: &[u8]) -> Seen {
        let Some(len) = number(bytes, 2) else { return Seen::default() };
        let is_there = |at: usize| bytes.get(at).map(|byte| *byte != 0);
        Seen { journal: is_there(0), log: is_there(1), len: Some(len) }
    }
}

/// No seat of the board.
pub(super) const NO_SEAT: u64 = u64::MAX;

/// Bits of the reply to a beginning: the member may hold its transaction back until the commit; it has the lock of a writer; strangers are there.
pub(super) const HOLDS: u64 = 1;
pub(super) const RESERVED: u64 = 2;
pub(super) const STRANGERS: u64 = 4;

/// What the memory of a wal-index is: it has frames of the log as well; it is the file that strangers have.
pub(super) const HAS_FRAMES: u8 = 1;
pub(super) const IS_FILE: u8 = 2;

/// Bits of a transaction that goes on: it had the lock of a writer; a commit was under way that gives all locks back.
pub(super) const IS_RESERVED: u8 = 1;
pub(super) const ENDS: u8 = 2;

/// Bits of a commit: it is to be durable; SQLite has had a journal for it; behind it all locks are given back; it is not the last message.
pub(super) const SYNC_WANTED: u64 = 1;
pub(super) const HAS_JOURNAL: u64 = 2;
pub(super) const RELEASES: u64 = 4;
pub(super) const MORE: u64 = 8;

/// Flags of the first call.
pub(super) const READ_ONLY: u64 = 1;
pub(super) const POWERSAFE: u64 = 2;
/// No connection is wanted, but the open file of the database, whose descriptor comes with the reply; the value is the number of its marks.
pub(super) const BORROWS: u64 = 16;
/// The connection has had no owner before, and joins without having been told to (`sharing=auto`).
pub(super) const IS_NEW: u64 = 4;
pub(super) const BY_ITSELF: u64 = 8;

/// File controls that an owner answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum ControlKind {
    PersistWal = 1,
    PowersafeOverwrite = 2,
    HasMoved = 3,
    ExternalReader = 4,
    Connected = 5,
    SeveralFiles = 6,
    CommitDone = 7,
}

impl ControlKind {
    pub(super) fn of(number: u64) -> Option<ControlKind> {
        use ControlKind::*;
        [PersistWal, PowersafeOverwrite, HasMoved, ExternalReader, Connected, SeveralFiles, CommitDone]
            .into_iter()
            .find(|kind| *kind as u64 == number)
    }
}

/// The file of a connection that a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FileOf {
    /// The database.
    Main = 0,
    /// Its journal.
    Journal = 1,
    /// Its log.
    Wal = 2,
}

impl FileOf {
    fn of(number: u8) -> Option<FileOf> {
        [FileOf::Main, FileOf::Journal, FileOf::Wal].into_iter().find(|file| *file as u8 == number)
    }
}

/// A call of a member's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub operation: Operation,
    pub file: FileOf,
    pub a: u64,
    pub b: u64,
    pub data: &'a [u8],
}

impl<'a> Call<'a> {
    pub(super) fn new(operation: Operation, file: FileOf, a: u64, b: u64) -> Call<'a> {
        Call { operation, file, a, b, data: &[] }
    }

    pub(super) fn with(self, data: &'a [u8]) -> Call<'a> {
        Call { data, ..self }
    }

    /// Appends the call to bytes that are sent.
    pub(super) fn encode(&self, wants_reply: bool, bytes: &mut Vec<u8>) {
        let len = (CALL_BYTES - 4 + self.data.len()) as u32;
        bytes.extend_from_slice(&len.to_ne_bytes());
        bytes.extend_from_slice(&[self.operation as u8, self.file as u8, u8::from(wants_reply), 0]);
        bytes.extend_from_slice(&self.a.to_ne_bytes());
        bytes.extend_from_slice(&self.b.to_ne_bytes());
        bytes.extend_from_slice(self.data);
    }

    /// The call of a frame, and whether it wants a reply; `None` for bytes that are none.
    pub(super) fn decode(frame: &'a [u8]) -> Option<(Call<'a>, bool)> {
        let (head, data) = frame.split_at_checked(CALL_BYTES - 4)?;
        let call = Call {
            operation: Operation::of(head[0])?,
            file: FileOf::of(head[1])?,
            a: number(head, 4)?,
            b: number(head, 12)?,
            data,
        };
        Some((call, head[2] != 0))
    }
}

/// How a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Outcome {
    /// As asked for.
    Done = 0,
    /// Another connection is in the way; the flag says that the next sleep waits in line.
    Busy = 1,
    /// Bytes behind the end of the file are zeros.
    ShortRead = 2,
    /// The value is the code for SQLite, and the data the text.
    Failed = 3,
}

/// A reply of the owner's.
#[derive(Debug)]
pub(super) struct Reply<'a> {
    pub outcome: Outcome,
    pub flag: bool,
    pub value: u64,
    pub data: &'a [u8],
}

impl<'a> Reply<'a> {
    /// The reply of a call that has succeeded, and has nothing to say.
    pub(super) const DONE: Reply<'static> =
        Reply { outcome: Outcome::Done, flag: false, value: 0, data: &[] };

    /// An error where the bytes of a read lie behind the end of the file.
    pub(super) fn check_length(&self) -> Result<()> {
        if self.outcome == Outcome::ShortRead { Err(Error::ShortRead) } else { Ok(()) }
    }

    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        let len = (REPLY_BYTES - 4 + self.data.len()) as u32;
        bytes.extend_from_slice(&len.to_ne_bytes());
        bytes.extend_from_slice(&[self.outcome as u8, u8::from(self.flag), 0, 0]);
        bytes.extend_from_slice(&self.value.to_ne_bytes());
        bytes.extend_from_slice(self.data);
    }

    pub(super) fn decode(frame: &'a [u8]) -> Option<Reply<'a>> {
        let (head, data) = frame.split_at_checked(REPLY_BYTES - 4)?;
        let outcome = [Outcome::Done, Outcome::Busy, Outcome::ShortRead, Outcome::Failed]
            .into_iter()
            .find(|outcome| *outcome as u8 == head[0])?;
        Some(Reply { outcome, flag: head[1] != 0, value: number(head, 4)?, data })
    }

    /// The reply, or the error that it tells.
    pub(super) fn checked(self) -> Result<Reply<'a>> {
        match self.outcome {
            Outcome::Done => Ok(self),
            Outcome::Busy => Err(Error::Busy),
            Outcome::ShortRead => Err(Error::ShortRead),
            Outcome::Failed => Err(Error::Owners {
                code: self.value as c_int,
                text: String::from_utf8_lossy(self.data).into_owned(),
            }),
        }
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Frames of a stream, as they come.
#[derive(Default)]
pub(super) struct Incoming {
    bytes: Vec<u8>,
    begin: usize,
    end: usize,
    /// A descriptor that has come, until it is taken.
    pub descriptor: Option<OwnedFd>,
}

/// How long a frame is looked for before the thread sleeps. Most frames come within that time, and to wake a thread takes as long.
const SOON: Duration = Duration::from_micros(30);

/// Room that bytes of a stream are received into, at least.
const ROOM: usize = 16 << 10;

impl Incoming {
    /// Waits for the next frame, without its length; `None` at the end of the stream.
    ///
    /// # Errors
    /// Errors of the system; a frame is too long.
    pub(super) fn next(&mut self, socket: &LocalSocket) -> io::Result<Option<&[u8]>> {
        Ok(if self.await_frame(socket)? { self.take() } else { None })
    }

    /// Waits until a frame is there; `false` at the end of the stream. Where the wait takes too long, it can be waited for again.
    ///
    /// # Errors
    /// As for [`Incoming::next`].
    pub(super) fn await_frame(&mut self, socket: &LocalSocket) -> io::Result<bool> {
        loop {
            let (have, needed) = (self.end - self.begin, self.needed());
            if needed > MOST_BYTES {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if needed > 4 && have >= needed {
                return Ok(true);
            }
            self.make_room(needed);
            let room = self.bytes.get_mut(self.end..).unwrap_or_default();
            let (count, descriptor) = socket.receive_soon(room, SOON)?;
            if descriptor.is_some() {
                self.descriptor = descriptor;
            }
            if count == 0 {
                return Ok(false);
            }
            self.end += count;
        }
    }

    /// Bytes of the next frame with its length, as far as that is there.
    fn needed(&self) -> usize {
        match self.bytes.get(self.begin..self.begin + 4) {
            Some(word) if self.end - self.begin >= 4 => {
                4 + u32::from_ne_bytes([word[0], word[1], word[2], word[3]]) as usize
            }
            _ => 4,
        }
    }

    /// The frame that is there, without its length.
    pub(super) fn take(&mut self) -> Option<&[u8]> {
        let frame = self.begin + 4..self.begin + self.needed();
        if frame.end > self.end {
            return None;
        }
        self.begin = frame.end;
        self.bytes.get(frame)
    }

    /// Room for a frame of so many bytes, of which some are there.
    fn make_room(&mut self, needed: usize) {
        if self.begin > 0 {
            self.bytes.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        let room = needed.max(ROOM);
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_storage::os::LocalListener;

    #[test]
    fn calls_and_replies_arrive_as_they_were_sent_in_any_pieces() {
        let name = format!("litefoot-protocol-{}", std::process::id());
        let listener = LocalListener::bind(&name).unwrap().unwrap();
        let here = LocalSocket::connect(&name).unwrap().unwrap();
        let there = listener.accept().unwrap();
        let large = vec![7; 100_000];
        let mut bytes = Vec::new();
        Call::new(Operation::Write, FileOf::Wal, 5, 6).with(&large).encode(false, &mut bytes);
        Call::new(Operation::Lock, FileOf::Main, 2, 0).encode(true, &mut bytes);
        Reply { outcome: Outcome::Failed, flag: true, value: 10, data: b"why" }.encode(&mut bytes);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for piece in bytes.chunks(777) {
                    here.send(piece, None).unwrap();
                }
                here.close();
            });
            let mut incoming = Incoming::default();
            let (call, wants_reply) = Call::decode(incoming.next(&there).unwrap().unwrap()).unwrap();
            assert_eq!((call.operation, call.file, call.a, call.b), (Operation::Write, FileOf::Wal, 5, 6));
            assert!(call.data == large && !wants_reply);
            let (call, wants_reply) = Call::decode(incoming.next(&there).unwrap().unwrap()).unwrap();
            assert!(call.operation == Operation::Lock && wants_reply);
            let reply = Reply::decode(incoming.next(&there).unwrap().unwrap()).unwrap();
            assert!(reply.flag);
            let error = reply.checked().unwrap_err();
            assert_eq!((error.code(), error.to_string()), (10, "why".to_owned()));
            assert!(incoming.next(&there).unwrap().is_none());
        });
    }

    #[test]
    fn what_an_owner_has_seen_is_read_as_it_was_said() {
        for (journal, log) in [(false, true), (true, false)] {
            let mut said = Vec::new();
            Seen::encode(journal, log, 1 << 40, &mut said);
            let expected = Seen { journal: Some(journal), log: Some(log), len: Some(1 << 40) };
            assert_eq!(Seen::decode(&said), expected);
            assert_eq!(Seen::decode(&said[1..]), Seen::default());
        }
    }

    #[test]
    fn what_a_process_keeps_is_read_as_it_was_said() {
        for has_first in [false, true] {
            let keeps = Keeps { marks: 1 << 63, moment: Moment { epoch: 2, commits: 1 << 40 }, has_first };
            let said = keeps.encode("build");
            assert_eq!(Keeps::decode(&said), Some((keeps, &b"build"[..])));
            assert_eq!(Keeps::decode(&said[..24]), None);
        }
    }

    #[test]
    fn bytes_that_are_no_frame_are_refused() {
        for frame in
            [&b""[..], &[0; 12], &[99; 40], &[2, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
        {
            assert!(Call::decode(frame).is_none());
        }
        assert!(Reply::decode(&[0; 11]).is_none() && Reply::decode(&[9; 12]).is_none());
        let name = format!("litefoot-frames-{}", std::process::id());
        let listener = LocalListener::bind(&name).unwrap().unwrap();
        let here = LocalSocket::connect(&name).unwrap().unwrap();
        here.send(&u32::MAX.to_ne_bytes(), None).unwrap();
        assert!(Incoming::default().next(&listener.accept().unwrap()).is_err());
    }
}
