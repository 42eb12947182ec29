//! The owner's end of the stream of a look: a thread that answers until the shipper has gone, or the database is closed.

use super::moment::Found;
use super::{
    BUSY, CHANGED, CHANGES, COMPANY, DONE, GREETING, PAGE, PLACES, Part, REQUEST_BYTES, bytes_of, name_of,
    numbers_of, receive,
};
use crate::error::Result;
use crate::open::OpenDatabase;
use crate::sync::page_marks::Marks;
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
    while receive(socket, &mut request).is_ok() {
        // Between two requests the stream keeps nothing open.
        let Some(database) = there.upgrade() else { return };
        let answer = answer(&database, marks, &request);
        drop(database);
        let Ok(reply) = answer else { return };
        if socket.send(&reply, None).is_err() {
            return;
        }
    }
}

/// The bytes of a reply. An error ends the stream, and the shipper visits.
fn answer(database: &OpenDatabase, marks: &Marks, request: &[u8; REQUEST_BYTES]) -> Result<Vec<u8>> {
    let mut words = numbers_of(request);
    let (kind, number) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
    let found = match kind {
        CHANGES => database.look(marks)?.map(|part| (DONE, part)),
        PAGE => database.look_at_page(marks, number)?.map(|page| match page {
            Some(data) => {
                (DONE, Part { page_bytes: data.len() as u32, numbers: vec![number], data, ..Part::default() })
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
    let count = part.numbers.len() as u32;
    let head = [status, part.page_bytes, part.pages, count, u32::from(part.is_last)];
    let mut reply: Vec<u8> = bytes_of(&head).chain(bytes_of(&part.numbers)).collect();
    reply.extend_from_slice(&part.data);
    Ok(reply)
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
