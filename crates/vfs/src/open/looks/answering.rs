//! The owner's end of the stream of a look: a thread that answers until the shipper has gone, or the database is closed.

use super::moment::Found;
use super::{
    BUSY, CHANGED, CHANGES, COMPANY, DONE, GREETING, MOST_BYTES, NEXT, PAGE, PLACES, Part, REQUEST_BYTES,
    TRANSACTION, bytes_of, name_of, numbers_of,
};
use crate::error::Result;
use crate::open::OpenDatabase;
use crate::sync::page_marks::{Marks, Transactions};
use litefoot_storage::os::LocalSocket;
use litefoot_storage::thread;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// Somebody is at the door. Connects to the shippers of the file that listen, and answers them from now on; `false` where there are none, or they
/// are known.
pub(in crate::open) fn meet_askers(database: &Arc<OpenDatabase>) -> bool {
    if !database.db.is_of_this_process() {
        return false;
    }
    let mut has_met = false;
    let id = database.db.file().id();
    for place in 0..PLACES {
        let bit = 1_u8 << place;
        if database.looks.met.load(Ordering::SeqCst) & bit != 0 {
            continue;
        }
        // Mostly nobody listens.
        let Ok(Some(socket)) = LocalSocket::connect(&name_of(id, place)) else { continue };
        if !socket.peer().is_ok_and(|peer| peer.is_trusted()) {
            continue;
        }
        database.looks.met.fetch_or(bit, Ordering::SeqCst);
        let (there, marks) = (Arc::downgrade(database), database.db.shared().changed().watch());
        let answers = move || {
            answer_all(&socket, &there, &marks);
            if let Some(database) = there.upgrade() {
                database.looks.met.fetch_and(!bit, Ordering::SeqCst);
            }
        };
        match thread::spawn("litefoot-look", answers) {
            Ok(_) => has_met = true,
            Err(_) => {
                database.looks.met.fetch_and(!bit, Ordering::SeqCst);
            }
        }
    }
    has_met
}

fn answer_all(socket: &LocalSocket, there: &Weak<OpenDatabase>, marks: &Marks) {
    if socket.send(&GREETING, None).is_err() {
        return;
    }
    let mut request = [0; REQUEST_BYTES];
    let mut telling = Telling { marks, transactions: Transactions::new(), told: 0 };
    while socket.receive_exactly(&mut request).is_ok() {
        // Between two requests the stream keeps nothing open.
        let Some(database) = there.upgrade() else { return };
        let answer = telling.answer(&database, &request);
        drop(database);
        let Ok(reply) = answer else { return };
        if socket.send(&reply, None).is_err() {
            return;
        }
    }
}

/// What a stream tells.
struct Telling<'a> {
    marks: &'a Marks,
    /// Transactions that were taken, and are not told yet.
    transactions: Transactions,
    /// Pages of the first of them that were told.
    told: usize,
}

impl Telling<'_> {
    /// The bytes of a reply. An error ends the stream, and the shipper visits.
    fn answer(&mut self, database: &OpenDatabase, request: &[u8; REQUEST_BYTES]) -> Result<Vec<u8>> {
        let mut words = numbers_of(request);
        let (kind, number) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
        let found = match kind {
            CHANGES => {
                self.forget_transactions();
                database.look(self.marks)?.map(|part| (DONE, part))
            }
            NEXT => self.next(database)?,
            // Transactions that are not told have changed it, or may have.
            PAGE if !self.transactions.is_empty() => Found::Here((CHANGED, Part::default())),
            PAGE => database.look_at_page(self.marks, number)?.map(|page| match page {
                Some(data) => {
                    let page_bytes = data.len() as u32;
                    (DONE, Part { page_bytes, numbers: vec![number], data, ..Part::default() })
                }
                None => (CHANGED, Part::default()),
            }),
            _ => Found::Busy,
        };
        let (status, part) = match found {
            Found::Here(found) => found,
            Found::Company => (COMPANY, Part::default()),
            Found::Busy => (BUSY, Part::default()),
        };
        let (count, time) = (part.numbers.len() as u32, part.committed_ms.unwrap_or(0));
        let times = [time as u32, (time >> 32) as u32];
        let head = [status, part.page_bytes, part.pages, count, u32::from(part.is_last), times[0], times[1]];
        let mut reply: Vec<u8> = bytes_of(&head).chain(bytes_of(&part.numbers)).collect();
        reply.extend_from_slice(&part.data);
        Ok(reply)
    }

    /// The next part of the next transaction; where none is known, the next part of what has changed.
    fn next(&mut self, database: &OpenDatabase) -> Result<Found<(u32, Part)>> {
        if self.transactions.is_empty() {
            match database.look_at_transactions(self.marks)? {
                Found::Here(Some((taken, end))) if taken.is_empty() => return Ok(Found::Here((DONE, end))),
                Found::Here(Some((taken, _))) => self.transactions = taken,
                Found::Here(None) => return Ok(database.look(self.marks)?.map(|part| (DONE, part))),
                Found::Company => return Ok(Found::Company),
                Found::Busy => return Ok(Found::Busy),
            }
        }
        let part = self.transactions.front().map_or_else(Part::default, |transaction| {
            let size = transaction.page_bytes as usize;
            let end = transaction.numbers.len().min(self.told + (MOST_BYTES / size.max(1)).max(1));
            Part {
                page_bytes: transaction.page_bytes,
                pages: transaction.pages,
                numbers: transaction.numbers[self.told..end].to_vec(),
                data: transaction.data[self.told * size..end * size].to_vec(),
                is_last: end == transaction.numbers.len(),
                committed_ms: Some(transaction.time_ms),
            }
        });
        self.told += part.numbers.len();
        if part.is_last {
            self.told = 0;
            self.transactions.pop_front();
        }
        Ok(Found::Here((TRANSACTION, part)))
    }

    /// Their pages count as changed again.
    fn forget_transactions(&mut self) {
        for transaction in self.transactions.drain(..) {
            self.marks.note(&transaction.numbers, transaction.pages);
        }
        self.told = 0;
    }
}

impl<T> Found<T> {
    fn map<U>(self, then: impl FnOnce(T) -> U) -> Found<U> {
        match self {
            Found::Here(found) => Found::Here(then(found)),
            Found::Company => Found::Company,
            Found::Busy => Found::Busy,
        }
    }
}
