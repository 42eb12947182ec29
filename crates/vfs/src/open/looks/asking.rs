//! The shipper's end of the stream of a look.

use super::{
    BUSY, CHANGES, COMPANY, DONE, GREETING, MOST_BYTES, NEXT, PAGE, PLACES, Part, REPLY_BYTES, TRANSACTION,
    bytes_of, name_of, numbers_of,
};
use litefoot_storage::file::FileId;
use litefoot_storage::os::{LocalListener, LocalSocket};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Sizes of pages.
const LEAST_PAGE: usize = 512;
const LARGEST_PAGE: u32 = 1 << 16;
/// How long an owner is waited for that has been told, and the time between two looks.
const AT_THE_DOOR: Duration = Duration::from_millis(200);
const GLANCE: Duration = Duration::from_millis(1);
/// How long an answer may take. An owner that is stopped gives none.
const PATIENCE_MS: u32 = 5000;

/// The end of a shipper: it listens for the owner of a database, and asks it.
pub struct Asker {
    path: PathBuf,
    /// The file that it listens for.
    id: FileId,
    listener: Option<LocalListener>,
    stream: Option<LocalSocket>,
}

/// What an owner answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What has changed, or a part of a transaction.
    Part(Part),
    /// Others have the database open, besides the owner that was.
    Company,
    /// A transaction is in the way.
    Busy,
    /// No owner is connected: the database has to be visited.
    Nobody,
}

impl Asker {
    /// Listens for the owner of the database at a path, from the first question on.
    pub fn new(path: &Path) -> Asker {
        Asker { path: path.to_owned(), id: FileId { device: 0, inode: 0 }, listener: None, stream: None }
    }

    /// Another file may have the name: that has another owner.
    fn follow(&mut self) -> io::Result<u32> {
        let file = fs::metadata(&self.path)?;
        let id = FileId { device: file.dev(), inode: file.ino() };
        if id != self.id || self.listener.is_none() {
            self.id = id;
            self.stream = None;
            let bind = |place| LocalListener::bind(&name_of(id, place)).ok().flatten();
            self.listener = (0..PLACES).find_map(bind);
        }
        Ok(file.uid())
    }

    /// Accepts the newest owner that waits.
    fn accept(&mut self, file_user: u32) {
        while let Some(Ok(Some(socket))) = self.listener.as_ref().map(LocalListener::accept_waiting) {
            let is_believed = socket.peer().is_ok_and(|peer| peer.is_trusted() || peer.user == file_user);
            let mut greeting = GREETING.map(|_| 0);
            let greeted = is_believed
                && socket.set_timeout(PATIENCE_MS).is_ok()
                && socket.receive_exactly(&mut greeting).is_ok()
                && greeting == GREETING;
            if greeted {
                self.stream = Some(socket);
            }
        }
    }

    /// True if an owner has answered, as far as is known.
    pub fn is_connected(&self) -> bool {
        self.stream.is_some()
    }

    /// Tells an owner that somebody is at the door, and waits for it. The open that tells it is refused at once, and opens nothing.
    ///
    /// Where there is no owner the file is open for a moment: this process may have no locks on it meanwhile.
    fn knock(&mut self, file_user: u32) {
        let knocked = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&self.path);
        if !matches!(knocked, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            return;
        }
        let begun = Instant::now();
        while self.stream.is_none() && begun.elapsed() < AT_THE_DOOR {
            std::thread::sleep(GLANCE);
            self.accept(file_user);
        }
    }

    /// Asks what has changed since the last time: where that was a last part, since then, and everything at first. Without an owner the file is
    /// open for a moment: this process may have no locks on it meanwhile.
    pub fn changes(&mut self) -> Answer {
        self.look(CHANGES)
    }

    /// Asks for the next part of the next transaction, behind what was told before. Where that is not known, the answer is what has changed. It is the
    /// same as that where nothing has.
    pub fn next_transaction(&mut self) -> Answer {
        self.look(NEXT)
    }

    fn look(&mut self, kind: u32) -> Answer {
        let Ok(file_user) = self.follow() else { return Answer::Nobody };
        self.accept(file_user);
        if self.stream.is_none() && self.listener.is_some() {
            self.knock(file_user);
        }
        match self.ask(kind, 0) {
            Some((DONE | TRANSACTION, part)) => Answer::Part(part),
            Some((COMPANY, _)) => Answer::Company,
            Some((BUSY, _)) => Answer::Busy,
            _ => Answer::Nobody,
        }
    }

    /// Reads a page that has not changed since the last part; `false` where it may have, or nobody answers.
    pub fn page(&mut self, number: u32, to: &mut [u8]) -> bool {
        match self.ask(PAGE, number) {
            Some((DONE, part)) if part.data.len() == to.len() => {
                to.copy_from_slice(&part.data);
                true
            }
            _ => false,
        }
    }

    fn ask(&mut self, kind: u32, number: u32) -> Option<(u32, Part)> {
        let answer = ask(self.stream.as_ref()?, kind, number);
        if answer.is_err() {
            // Nobody knows how far the owner has come.
            self.stream = None;
        }
        answer.ok()
    }
}

fn ask(socket: &LocalSocket, kind: u32, number: u32) -> io::Result<(u32, Part)> {
    let request: Vec<u8> = bytes_of(&[kind, number]).collect();
    socket.send(&request, None)?;
    let mut head = [0; REPLY_BYTES];
    socket.receive_exactly(&mut head)?;
    let words: Vec<u32> = numbers_of(&head).collect();
    let [status, page_bytes, pages, count, last, time, epoch] = words[..] else { return Err(odd()) };
    let time = u64::from(epoch) << 32 | u64::from(time);
    let bytes = u64::from(count) * u64::from(page_bytes);
    let are_too_many = count as usize > MOST_BYTES / LEAST_PAGE || bytes > MOST_BYTES as u64;
    if are_too_many || page_bytes > LARGEST_PAGE {
        return Err(odd());
    }
    let mut numbers = vec![0; count as usize * 4];
    socket.receive_exactly(&mut numbers)?;
    let mut data = vec![0; bytes as usize];
    socket.receive_exactly(&mut data)?;
    let numbers: Vec<u32> = numbers_of(&numbers).collect();
    if status == TRANSACTION && kind != NEXT {
        return Err(odd());
    }
    if matches!(status, DONE | TRANSACTION) && kind != PAGE && !numbers.is_sorted_by(|one, next| one < next) {
        return Err(odd());
    }
    let committed_ms = (status == TRANSACTION).then_some(time);
    Ok((status, Part { page_bytes, pages, numbers, data, is_last: last == 1, committed_ms }))
}

fn odd() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_arrive_and_bytes_that_are_none_are_refused() {
        let name = format!("litefoot-asking-{}", std::process::id());
        let listener = LocalListener::bind(&name).unwrap().unwrap();
        assert!(listener.accept_waiting().unwrap().is_none());
        let answer = |words: &[u32], pages: &[u8]| {
            let owner = LocalSocket::connect(&name).unwrap().unwrap();
            let asker = listener.accept_waiting().unwrap().unwrap();
            let bytes: Vec<u8> = bytes_of(words).chain(pages.iter().copied()).collect();
            owner.send(&bytes, None).unwrap();
            let asked = ask(&asker, CHANGES, 0);
            let mut request = [0; 8];
            owner.receive_exactly(&mut request).unwrap();
            assert_eq!(numbers_of(&request).collect::<Vec<_>>(), [CHANGES, 0]);
            drop(owner);
            asked
        };
        let (status, part) = answer(&[DONE, 512, 9, 2, 1, 0, 0, 3, 7], &[5; 1024]).unwrap();
        assert_eq!((status, part.pages, part.is_last), (DONE, 9, true));
        assert_eq!((part.numbers, part.data), (vec![3, 7], vec![5; 1024]));
        assert_eq!(answer(&[BUSY, 0, 0, 0, 0, 0, 0], &[]).unwrap().0, BUSY);
        for (words, pages) in [
            (&[DONE, 512, 9, 2, 1, 0, 0, 7, 3][..], &[5; 1024][..]),
            (&[DONE, 512, 9, u32::MAX, 1, 0, 0], &[]),
            (&[DONE, 0, 9, u32::MAX, 1, 0, 0], &[]),
            (&[DONE, 1 << 17, 9, 1, 1, 0, 0, 1], &[]),
            (&[DONE, 65536, 9, 17, 1, 0, 0], &[]),
            (&[TRANSACTION, 512, 9, 0, 1, 0, 0], &[]),
        ] {
            assert!(answer(words, pages).is_err(), "{words:?}");
        }
    }
}
