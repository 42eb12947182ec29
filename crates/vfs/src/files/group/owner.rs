//! The owner's end of a member's connection: a thread that has the member's files, and makes its calls on them.
//!
//! # Why
//! Locks, logs, pages and checkpoints are the owner's. To the rest of this process a member's connection is one of its own: it
//! waits in the same line, and its commits share syncs with all others.
//!
//! # Invariants
//! 1. The end of the stream without a close is the death of the member: what it had is given back, and its transaction has never been,
//!    unless it was complete (`MainFile::abandon`).
//! 2. A member that has the index of another epoch (`sync/wal_index_group`) gets no slot: its stream ends where it begins a transaction, and it
//!    comes anew. One that has a snapshot reads on with that (`left_behind`).
//! 3. What a member sends is checked: it may have been written by another program of the same user.

use crate::db::Companion;
use crate::error::{Error, Result};
use crate::ffi::codes::SQLITE_SHM_NLOCK;
use crate::files::any_handle::AnyHandle;
use crate::files::connection_state::MembersStatement;
use crate::files::group::protocol::{
    Call, ControlKind, FileOf, HAS_FRAMES, IS_FILE, Incoming, MOST_BYTES, Operation, Outcome, POWERSAFE,
    READ_ONLY, Reply, SPILLS,
};
use crate::files::group::statement;
use crate::files::handle::{Control, Handle, Handled, PragmaCall};
use crate::files::main_db::MainFile;
use crate::files::vfs::Vfs;
use crate::open::OpenDatabase;
use crate::stats::Stats;
use crate::sync::lock_table::Level;
use crate::sync::refused_writer;
use crate::sync::wal_index_group::MembersMemory;
use crate::sync::wal_index_marks::REGION_BYTES;
use litefoot_storage::os::LocalSocket;
use litefoot_storage::worker::panic_text;
use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most bytes of a file of SQLite's: as many pages as have a number, of the largest size.
const MOST_FILE: u64 = 1 << 48;
/// The longest sleep of SQLite's busy handler.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

impl MainFile {
    /// The handle is another process's, whose statements are not known here.
    fn note_member(&self) {
        self.note_statement(MembersStatement::UNKNOWN);
    }

    /// The member is at the other end of that.
    fn note_stream(&mut self, stream: Arc<LocalSocket>) {
        self.stream = Some(stream);
    }

    /// Notes which statement the next call of a member's is for.
    fn note_statement(&self, statement: MembersStatement) {
        self.connection.note_statement(statement);
    }

    /// True if it has a lock, or a slot, that it has not between transactions.
    fn is_in_transaction(&self) -> bool {
        !self.connection.reader_slot.is_idle() || !self.slots.is_empty() || self.reads()
    }

    /// Closes the handle of a process that has died, at any point of a transaction.
    fn abandon(mut self: Box<Self>) -> Result<()> {
        self.unsettled = None;
        self.abandon_wal();
        self.connection.journal.lock().take();
        self.close()
    }
}

/// A member's connection in the owner.
pub(super) struct Served {
    vfs: Arc<Vfs>,
    database: Arc<OpenDatabase>,
    main: Option<Box<MainFile>>,
    /// Its journal and its log.
    companions: [Option<AnyHandle>; 2],
    /// The memory of the wal-index that it has.
    memory: Option<MembersMemory>,
    /// Its seat on the board.
    seat: Option<usize>,
    /// True while its member is in a transaction, as far as the calls say.
    is_busy: bool,
    /// Where a commit has come in part: whether a journal was opened for it.
    commit_under_way: Option<bool>,
    /// The same of a transaction in WAL mode whose owner has died.
    adopted: Adopted,
    /// The failure of a write that nobody has heard of yet.
    failed: Option<Error>,
    buffer: Vec<u8>,
}

/// What a call that has succeeded says.
#[derive(Default)]
struct Answer {
    flag: bool,
    value: u64,
    /// Bytes of the buffer that are its data.
    bytes: usize,
    sends_memory: bool,
}

impl Answer {
    fn flag(flag: bool) -> Answer {
        Answer { flag, ..Answer::default() }
    }

    fn value(value: u64) -> Answer {
        Answer { value, ..Answer::default() }
    }
}

impl Served {
    /// Opens a handle for a member, as its first call wants it.
    pub(super) fn new(vfs: Arc<Vfs>, database: Arc<OpenDatabase>, flags: u64) -> Served {
        let read_only = flags & READ_ONLY != 0;
        let main = MainFile::new(database.clone(), read_only, flags & POWERSAFE != 0, false);
        main.note_member();
        Stats::add(&database.db().counters().members, 1);
        let served = Served {
            vfs,
            seat: database.wal_index().take_seat(),
            database,
            main: Some(Box::new(main)),
            companions: [None, None],
            memory: None,
            is_busy: false,
            commit_under_way: None,
            adopted: Adopted::default(),
            failed: None,
            buffer: Vec::new(),
        };
        served.sit_down();
        served
    }

    /// Makes the calls of a member until it closes its file, or is gone.
    pub(super) fn serve(mut self, socket: &Arc<LocalSocket>, incoming: &mut Incoming) {
        let (mut outgoing, database) = (Vec::new(), self.database.clone());
        let _present = database.departures().note(socket.clone());
        if let Some(main) = &mut self.main {
            main.note_stream(socket.clone());
        }
        while self.main.is_some() {
            let Ok(Some(frame)) = incoming.next(socket) else { break };
            let _call = database.group_end().begin_call();
            let Some((call, wants_reply)) = Call::decode(frame) else { break };
            let Some(sends_memory) = self.make(&call, wants_reply, &mut outgoing) else { break };
            let descriptor = match (sends_memory, call.operation) {
                (false, _) => None,
                (true, Operation::Marks) => {
                    database.db().shared().unwritten().map(|pages| pages.marks().memory().descriptor())
                }
                (true, _) => self.memory.as_ref().map(|sent| sent.memory.descriptor()),
            };
            if socket.send(&outgoing, descriptor as Option<BorrowedFd<'_>>).is_err() {
                break;
            }
        }
        // The last connection to close completes the files: the end of the process waits for that.
        let _call = database.group_end().begin_call();
        self.end();
    }

    /// Makes a call. What is to be sent is in `outgoing`, and the answer says if the memory of the wal-index goes with it; `None` where the
    /// stream is to end, which sends the member to the next owner, or to this one once more.
    pub(super) fn make(
        &mut self,
        call: &Call<'_>,
        wants_reply: bool,
        outgoing: &mut Vec<u8>,
    ) -> Option<bool> {
        outgoing.clear();
        if call.operation.begins() && self.database.group_end().has_begun() && !self.is_in_transaction() {
            return None;
        }
        let may_be_old = matches!(call.operation, Operation::ShmLock | Operation::TakeTurn);
        // Before the call, which may take a slot.
        let has_snapshot = call.operation == Operation::ShmLock && self.has_snapshot();
        if may_be_old && self.has_old_index() && !has_snapshot {
            return None;
        }
        let is_left_behind = has_snapshot && self.has_old_index();
        let mut result = if is_left_behind { Err(Error::Busy) } else { self.answer(call) };
        // Strangers may have come, or left, while the call has waited.
        if may_be_old && !is_left_behind && self.has_old_index() {
            if !has_snapshot {
                return None;
            }
            result = self.refuse_left_behind(call, result);
        }
        Stats::add(&self.database.db().counters().member_calls, u64::from(wants_reply));
        self.note_busy();
        if !wants_reply {
            if let Err(error) = result
                && !call.operation.gives_back()
            {
                self.failed.get_or_insert(error);
            }
            return Some(false);
        }
        let sends_memory = matches!(&result, Ok(answer) if answer.sends_memory);
        self.encode(call, result, outgoing);
        Some(sends_memory)
    }

    /// True if the wal-index is other memory by now than the member has.
    fn has_old_index(&self) -> bool {
        let epoch = self.database.board().map(|board| board.epoch());
        self.memory.as_ref().is_some_and(|memory| Some(memory.epoch) != epoch)
    }

    fn note_busy(&mut self) {
        let is_busy = self.main.as_ref().is_some_and(|main| main.is_in_transaction());
        if is_busy != self.is_busy {
            self.is_busy = is_busy;
            self.database.group_end().count(is_busy);
        }
    }

    /// Carries a call out. A panic latches the database.
    fn answer(&mut self, call: &Call<'_>) -> Result<Answer> {
        let failed = self.failed.take();
        if let Some(error) = failed.filter(|_| !call.operation.gives_back()) {
            return Err(error);
        }
        let answer = caught(|| self.carry_out(call));
        self.latch_after_panic(&answer);
        answer
    }

    fn latch_after_panic<T>(&self, result: &Result<T>) {
        if let Err(Error::Panic(text)) = result {
            self.database.db().latch_after_panic(text);
        }
    }

    fn encode(&self, call: &Call<'_>, result: Result<Answer>, outgoing: &mut Vec<u8>) {
        fn reply(outcome: Outcome, flag: bool, value: u64, data: &[u8]) -> Reply<'_> {
            Reply { outcome, flag, value, data }
        }
        match result {
            Ok(answer) => {
                let data = self.buffer.get(..answer.bytes).unwrap_or_default();
                reply(Outcome::Done, answer.flag, answer.value, data).encode(outgoing);
            }
            Err(Error::ShortRead) => {
                let data = self.buffer.get(..call.b as usize).unwrap_or_default();
                reply(Outcome::ShortRead, false, 0, data).encode(outgoing);
            }
            Err(Error::Busy) => {
                reply(Outcome::Busy, refused_writer::has_note(), 0, &[]).encode(outgoing);
            }
            Err(error) => {
                let text = error.to_string();
                reply(Outcome::Failed, false, error.code() as u64, text.as_bytes()).encode(outgoing);
            }
        }
    }

    fn file(&mut self, file: FileOf) -> Result<&mut (dyn Handle + 'static)> {
        let [journal, wal] = &mut self.companions;
        let companion = match file {
            FileOf::Main => return Ok(self.main.as_deref_mut().ok_or_else(unexpected)?),
            FileOf::Journal => journal,
            FileOf::Wal => wal,
        };
        Ok(&mut **companion.as_mut().ok_or_else(unexpected)?)
    }

    fn main(&mut self) -> Result<&mut MainFile> {
        self.main.as_deref_mut().ok_or_else(unexpected)
    }

    fn carry_out(&mut self, call: &Call<'_>) -> Result<Answer> {
        let (a, b) = (call.a, call.b);
        match call.operation {
            Operation::Read => {
                let bytes =
                    usize::try_from(b).ok().filter(|bytes| *bytes < MOST_BYTES / 2).ok_or_else(unexpected)?;
                let parts = call.data.first().copied().unwrap_or(1).max(1);
                let part = bytes.div_ceil(parts.into());
                let mut buffer = std::mem::take(&mut self.buffer);
                if buffer.len() < bytes {
                    buffer.resize(bytes, 0);
                }
                let read =
                    self.file(call.file).and_then(|file| read_parts(file, &mut buffer[..bytes], a, part));
                self.buffer = buffer;
                let bytes = read?;
                Ok(Answer { bytes, ..Answer::default() })
            }
            Operation::Write => {
                let offset = place(a, call.data.len())?;
                self.file(call.file)?.write(call.data, offset)?;
                Ok(Answer::flag(call.file == FileOf::Wal && self.main()?.announce_logged()))
            }
            Operation::Truncate => {
                let len = place(a, 0)?;
                self.file(call.file)?.truncate(len).map(|()| Answer::default())
            }
            Operation::Sync => self.file(call.file)?.sync().map(|()| Answer::default()),
            Operation::Size => self.file(call.file)?.size().map(Answer::value),
            Operation::Close => self.close(call.file).map(|()| Answer::default()),
            Operation::Lock => self.lock(level(a)?, b, call.data == SPILLS),
            Operation::Unlock => self.unlock(level(a)?).map(|()| Answer::default()),
            Operation::IsReserved => self.main()?.is_reserved().map(Answer::flag),
            Operation::Control => self.control(ControlKind::of(a).ok_or_else(unexpected)?, b),
            Operation::Pragma => self.pragma(a & 1 != 0, call.data),
            Operation::ShmMap => self.map(a, b, call.data == [1]),
            Operation::ShmLock => {
                let (first, count) = slots(a, b)?;
                let (exclusive, statement) = statement::decode(call.data.first().copied().unwrap_or(1));
                let main = self.main()?;
                main.note_statement(statement);
                main.note_seat_read(statement::seat_read(call.data));
                main.shm_lock(first, count, exclusive).map(|()| Answer::default())
            }
            Operation::ShmUnlock => {
                let (first, count) = slots(a, b)?;
                self.main()?.shm_unlock(first, count).map(|()| Answer::default())
            }
            Operation::ShmUnmap => {
                self.leave_memory();
                self.main()?.shm_unmap(a != 0).map(|()| Answer::default())
            }
            Operation::Open => self.open(call.file, a as c_int),
            Operation::Delete => {
                let path = self.path(call.file)?;
                self.vfs.delete(&path, a != 0, None).map(|()| Answer::default())
            }
            Operation::Access => {
                let path = self.path(call.file)?;
                self.vfs.access(&path, a as c_int, None).map(Answer::flag)
            }
            Operation::Sleep => Ok(Answer::flag(sleep(Duration::from_micros(a)))),
            Operation::TakeTurn => self.take_turn(call),
            Operation::Begin => self.begin(call),
            Operation::Commit => self.commit(call),
            Operation::Marks => self.lend_marks(),
            Operation::GoOn => self.go_on(call),
            Operation::KeepFile => self.keep_file(call.a, call.b),
            Operation::WriteOn => self.write_on(call),
            Operation::CommitOn => self.commit_on(call),
            Operation::Hello => Err(unexpected()),
        }
    }

    fn lock(&mut self, to: Level, token: u64, spills: bool) -> Result<Answer> {
        let main = self.main()?;
        main.token = token;
        if to == Level::Exclusive && !spills { main.lock_alone() } else { main.lock(to) }?;
        self.end_read_by_seat();
        Ok(Answer::flag(self.database.db().shared().is_multi_process()))
    }

    fn unlock(&mut self, to: Level) -> Result<()> {
        if to == Level::None {
            self.end_read_by_seat();
        }
        self.main()?.unlock(to)
    }

    /// The path of the journal or the log.
    fn path(&self, file: FileOf) -> Result<PathBuf> {
        let companion = match file {
            FileOf::Main => return Err(unexpected()),
            FileOf::Journal => Companion::Journal,
            FileOf::Wal => Companion::Wal,
        };
        Ok(companion.of(self.database.db().path()))
    }

    fn open(&mut self, file: FileOf, flags: c_int) -> Result<Answer> {
        let path = self.path(file)?;
        let connection = self.main()?.connection_state().cloned();
        let opened = self.vfs.open_companion_file(&path, flags, connection)?;
        if let Some(place) = self.companions.get_mut((file as usize).wrapping_sub(1)) {
            *place = Some(opened.handle);
        }
        Ok(Answer::value(opened.flags as u64))
    }

    fn close(&mut self, file: FileOf) -> Result<()> {
        if file == FileOf::Main {
            self.companions = [None, None];
            self.leave_memory();
            self.end_read_by_seat();
            return self.main.take().map_or(Ok(()), |main| main.close());
        }
        let handle = self.companions.get_mut((file as usize).wrapping_sub(1)).and_then(Option::take);
        handle.map_or(Ok(()), AnyHandle::close)
    }

    fn control(&mut self, kind: ControlKind, value: u64) -> Result<Answer> {
        let mut number = value as c_int;
        let control = match kind {
            ControlKind::PersistWal => Control::PersistWal(&mut number),
            ControlKind::PowersafeOverwrite => Control::PowersafeOverwrite(&mut number),
            ControlKind::HasMoved => Control::HasMoved(&mut number),
            ControlKind::ExternalReader => Control::ExternalReader(&mut number),
            ControlKind::Connected => Control::Connected,
            ControlKind::SeveralFiles => Control::SeveralFiles,
            ControlKind::CommitDone => Control::CommitDone,
        };
        let handled = self.main()?.control(control)?;
        Ok(Answer { flag: matches!(handled, Handled::Yes), ..Answer::value(i64::from(number) as u64) })
    }

    fn pragma(&mut self, has_value: bool, data: &[u8]) -> Result<Answer> {
        let mut parts = data.splitn(2, |byte| has_value && *byte == 0).map(String::from_utf8_lossy);
        let (name, value, mut answer) = (parts.next().unwrap_or_default(), parts.next(), None);
        let call = PragmaCall { name: &name, value: value.as_deref(), answer: &mut answer };
        let handled = self.main()?.control(Control::Pragma(call))?;
        let text = answer.unwrap_or_default();
        if text.len() > MOST_BYTES / 2 {
            return Err(unexpected());
        }
        self.buffer.resize(text.len().max(self.buffer.len()), 0);
        self.buffer[..text.len()].copy_from_slice(text.as_bytes());
        Ok(Answer {
            flag: matches!(handled, Handled::Yes),
            value: u64::from(!text.is_empty()),
            bytes: text.len(),
            sends_memory: false,
        })
    }

    /// Makes a region of the wal-index, and gives the member its memory with the first one.
    fn map(&mut self, region: u64, bytes: u64, extend: bool) -> Result<Answer> {
        let (region, bytes) = (region as usize, bytes as usize);
        // All of SQLite's have so many.
        if bytes != REGION_BYTES {
            return Err(unexpected());
        }
        let is_there = self.main()?.shm_map(region, bytes, extend)?.is_some();
        let sends_memory = is_there && self.memory.is_none();
        if sends_memory {
            let database = self.database.clone();
            let joined = database.wal_index().join_member(&mut self.main()?.slots);
            self.memory = Some(joined.ok_or(Error::Busy)?);
        }
        let epoch = self.memory.as_ref().map_or(0, |memory| memory.epoch);
        let has_frames = sends_memory && self.shares_frames();
        self.buffer.resize(self.buffer.len().max(1), 0);
        let is_file = || sends_memory && self.memory.as_ref().is_some_and(|memory| memory.is_file);
        self.buffer[0] = if has_frames { HAS_FRAMES } else { u8::from(is_file()) * IS_FILE };
        Ok(Answer { flag: is_there, sends_memory, bytes: 1, value: epoch })
    }

    /// True if the member finds frames of the log in the memory of its index.
    fn shares_frames(&self) -> bool {
        let memory = self.memory.as_ref().filter(|memory| !memory.is_file);
        let wal = memory.and_then(|_| self.database.wal());
        let shares =
            memory.zip(wal).is_some_and(|(memory, wal)| wal.share_frames(self.database.db(), &memory.memory));
        if shares {
            open_log_to_members(&self.database);
        }
        shares
    }

    /// The stream has ended. A member that has closed its file has nothing left.
    pub(super) fn end(mut self) {
        self.end_read_by_seat();
        if let Some(main) = self.main.take() {
            self.latch_after_panic(&caught(|| main.abandon()));
            self.companions = [None, None];
            self.leave_memory();
        }
        self.note_busy();
        self.leave_seat();
    }
}

/// The result of a call; a panic becomes an error.
fn caught<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(Error::Panic(panic_text(&*panic))))
}

/// Reads a file part by part, up to its end; answers how many bytes there are. The first part has to be there.
fn read_parts(file: &mut dyn Handle, buffer: &mut [u8], offset: u64, part: usize) -> Result<usize> {
    let mut done = 0;
    for piece in buffer.chunks_mut(part.max(1)) {
        let offset = place(offset.saturating_add(done as u64), piece.len())?;
        match file.read(piece, offset) {
            Ok(()) => done += piece.len(),
            Err(Error::ShortRead) if done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// What a member of this build does not send.
fn unexpected() -> Error {
    Error::Io("a member of a group has sent what its owner does not understand".to_owned())
}

/// Where bytes of a file lie, as a member says.
fn place(offset: u64, bytes: usize) -> Result<u64> {
    let fits = offset.checked_add(bytes as u64).is_some_and(|end| end <= MOST_FILE);
    if fits { Ok(offset) } else { Err(unexpected()) }
}

fn level(number: u64) -> Result<Level> {
    [Level::None, Level::Shared, Level::Reserved, Level::Pending, Level::Exclusive]
        .into_iter()
        .find(|level| *level as u64 == number)
        .ok_or_else(unexpected)
}

fn slots(first: u64, count: u64) -> Result<(usize, usize)> {
    let most = SQLITE_SHM_NLOCK as u64;
    let is_range = first < most && count >= 1 && count <= most - first;
    if is_range { Ok((first as usize, count as usize)) } else { Err(unexpected()) }
}

/// Waits in line where an attempt of this member's was refused; `false` where nothing was waited for.
fn sleep(time: Duration) -> bool {
    let begun = Instant::now();
    refused_writer::sleeps_in_queue(time.min(LONGEST_SLEEP)) || begun.elapsed() >= time
}

mod held;
mod left_behind;
mod lending;
mod newcomers;
mod orphans;
use lending::open_log_to_members;
pub(super) use lending::{Counted, lend, number_of_marks};
pub(super) use orphans::{ORPHAN_BYTES, Said};
mod seat;
#[cfg(test)]
mod tests;
mod turn;
mod wal_orphans;
use wal_orphans::Adopted;
