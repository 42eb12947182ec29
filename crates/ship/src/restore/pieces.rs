//! Pieces of files: fetched, unpacked and written, several at a time.

use super::Progress;
use super::index::{Indexed, NONE, Winners};
use crate::store::Store;
use crate::{Error, Result};
use litefoot_ltx::{Checksum, Digest, FRAME_HEADER_BYTES, decode_frame};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes of a piece: large enough for a store far away, and small enough for all threads' memory.
const PIECE_BYTES: u64 = 4 << 20;
/// Bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// Entries of a file that lie behind one another.
struct Piece {
    file: usize,
    entries: Range<usize>,
}

/// What all pieces came to.
pub struct Done {
    /// Bytes that were fetched.
    pub fetched_bytes: u64,
}

/// What one piece came to.
struct Outcome {
    piece: usize,
    sum: Checksum,
    digest: Option<Digest>,
}

/// Writes the pages of all files, and compares the checksums; `None` where a file has gone.
pub fn write_all(
    store: &dyn Store,
    files: &[Indexed],
    winners: &Winners<'_>,
    to: &File,
    progress: Progress<'_>,
) -> Result<Option<Done>> {
    let is_tracked = winners.last.header.tracked;
    let pieces = cut(files, winners, is_tracked);
    let size = u64::from(winners.last.header.page_size);
    let all = u64::from(winners.last.header.pages) * size;
    to.set_len(all).map_err(cannot_write)?;
    let (next, fetched, written) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let (gone, outcomes) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let work = || -> Result<()> {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(piece) = pieces.get(at).filter(|_| !gone.load(Ordering::Relaxed)) else { return Ok(()) };
            let mut writer = Writer::new(to, size);
            let Some((mut outcome, bytes)) =
                write(store, &files[piece.file], piece, winners, is_tracked, &mut writer)?
            else {
                gone.store(true, Ordering::Relaxed);
                return Ok(());
            };
            outcome.piece = at;
            fetched.fetch_add(bytes, Ordering::Relaxed);
            let done = written.fetch_add(writer.written, Ordering::Relaxed) + writer.written;
            outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
            progress(done, all)?;
        }
    };
    at_once(store.parallel().min(pieces.len().max(1)), work)?;
    if gone.into_inner() {
        return Ok(None);
    }
    let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcomes.sort_unstable_by_key(|outcome| outcome.piece);
    if is_tracked {
        let sum = outcomes.iter().fold(Checksum::EMPTY, |sum, outcome| sum.toggle(outcome.sum));
        if sum != winners.last.trailer.after {
            let why = "the database that its files make has another checksum than the last one says; nothing was kept".into();
            return Err(Error::Damaged { place: store.place().to_owned(), why });
        }
    } else {
        compare_files(store, files, &pieces, &outcomes)?;
    }
    Ok(Some(Done { fetched_bytes: fetched.into_inner() }))
}

/// Cuts files into pieces: all of them, or those in which a page wins.
fn cut(files: &[Indexed], winners: &Winners<'_>, only_winners: bool) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let wins = |at: usize| winners.file.get(file.entries[at].page as usize - 1) == Some(&(number as u32));
        let mut from = 0;
        while from < file.entries.len() {
            let start = file.entries[from].offset;
            let len = file.entries[from..]
                .partition_point(|entry| entry.offset + entry.bytes <= start + PIECE_BYTES)
                .max(1);
            let entries = from..from + len;
            from += len;
            if !only_winners || entries.clone().any(wins) {
                pieces.push(Piece { file: number, entries });
            }
        }
    }
    pieces
}

/// Fetches one piece, and writes the pages that its file has won.
fn write(
    store: &dyn Store,
    file: &Indexed,
    piece: &Piece,
    winners: &Winners<'_>,
    is_tracked: bool,
    writer: &mut Writer<'_>,
) -> Result<Option<(Outcome, u64)>> {
    let entries = &file.entries[piece.entries.clone()];
    let damaged =
        |why: String| Error::Damaged { place: format!("{}/{}", store.place(), file.listed.name), why };
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
        return Err(damaged("a piece without pages".into()));
    };
    let range = first.offset..last.offset + last.bytes;
    let fetched;
    let (bytes, fetched_bytes) = match &file.whole {
        Some(whole) => (whole.get(range.start as usize..range.end as usize), 0),
        None => {
            let Some(answer) = store.get(file.listed.name, range.clone())? else { return Ok(None) };
            fetched = answer;
            (Some(fetched.as_slice()), fetched.len() as u64)
        }
    };
    let bytes = bytes.filter(|bytes| bytes.len() as u64 == range.end - range.start);
    let bytes = bytes.ok_or_else(|| damaged("is cut short".into()))?;
    let mut outcome = Outcome { piece: 0, sum: Checksum::EMPTY, digest: (!is_tracked).then(Digest::default) };
    let mut data = vec![0; file.header.page_size as usize];
    for entry in entries {
        let wins = winners.file.get(entry.page as usize - 1) == Some(&(piece.file as u32));
        if is_tracked && !wins {
            continue;
        }
        let from = (entry.offset - range.start) as usize;
        let frame = &bytes[from..from + entry.bytes as usize];
        let page = decode_frame(frame, &mut data).map_err(|error| damaged(error.to_string()))?;
        if page != entry.page {
            return Err(damaged("its index does not match its pages".into()));
        }
        if let Some(digest) = &mut outcome.digest {
            let sized = frame[FRAME_HEADER_BYTES - 1] & 1 != 0;
            digest.update(&frame[..FRAME_HEADER_BYTES + if sized { 4 } else { 0 }]);
            digest.update(&data);
        }
        if wins {
            if is_tracked {
                outcome.sum = outcome.sum.toggle(Checksum::of_page(page, &data));
            }
            writer.page(page, &data)?;
        }
    }
    writer.flush()?;
    Ok(Some((outcome, fetched_bytes)))
}

/// Compares the checksum of each file, whose pieces are all there.
fn compare_files(store: &dyn Store, files: &[Indexed], pieces: &[Piece], outcomes: &[Outcome]) -> Result<()> {
    for (number, file) in files.iter().enumerate() {
        let mut digest = Digest::default();
        digest.update(&file.header.encode());
        for outcome in outcomes.iter().filter(|outcome| pieces[outcome.piece].file == number) {
            if let Some(piece) = &outcome.digest {
                digest.append(piece);
            }
        }
        digest.update(&[0; FRAME_HEADER_BYTES]);
        digest.update(&file.end);
        digest.update(&[0; 8]);
        if digest.checksum() != file.trailer.file {
            let why = "is damaged: its checksum does not match; nothing was kept".into();
            return Err(Error::Damaged { place: format!("{}/{}", store.place(), file.listed.name), why });
        }
    }
    debug_assert!(!files.is_empty() && NONE as usize > files.len());
    Ok(())
}

/// Writes pages that follow one another at once.
struct Writer<'a> {
    to: &'a File,
    size: u64,
    buffer: Vec<u8>,
    first: u64,
    written: u64,
}

impl Writer<'_> {
    fn new(to: &File, size: u64) -> Writer<'_> {
        Writer { to, size, buffer: Vec::with_capacity(WRITE_BYTES), first: 0, written: 0 }
    }

    fn page(&mut self, page: u32, data: &[u8]) -> Result<()> {
        let at = (u64::from(page) - 1) * self.size;
        if self.first + self.buffer.len() as u64 != at || self.buffer.len() + data.len() > WRITE_BYTES {
            self.flush()?;
            self.first = at;
        }
        self.buffer.extend(data);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.to.write_all_at(&self.buffer, self.first).map_err(cannot_write)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

fn cannot_write(error: io::Error) -> Error {
    Error::local(Path::new("the restored database"), format!("{error}; nothing was left of it"))
}

/// Runs the same work on several threads. The first error is that of all.
pub fn at_once(threads: usize, work: impl Fn() -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(&work)).collect();
        let mut outcome = work();
        for other in others {
            let ended =
                other.join().unwrap_or_else(|_| Err(Error::local(Path::new("a thread"), "has panicked")));
            outcome = outcome.and(ended);
        }
        outcome
    })
}
