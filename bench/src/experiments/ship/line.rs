//! A line between a client and a server: it counts bytes, and breaks where it is told to.

use super::failed;
use crate::Result;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What becomes of a connection.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// Both ends are closed once so many bytes of requests have passed; the last piece is truncated.
    CutRequests(usize),
    CutAnswers(usize),
    /// Answers are lost once so many bytes have passed, and requests still arrive; then it is cut.
    LoseAnswers(usize),
    /// The same, and it is never cut: half open.
    Silent(usize),
    Delay(Duration),
}

#[derive(Default)]
struct Shared {
    server: AtomicU16,
    is_bad: AtomicBool,
    faults: AtomicU64,
    sent: AtomicU64,
    answered: AtomicU64,
    open: Mutex<Vec<TcpStream>>,
}

/// A running line.
pub(super) struct Line {
    pub port: u16,
    shared: Arc<Shared>,
}

impl Line {
    /// A line to a port of this machine.
    pub(super) fn to(server: u16, seed: u64) -> Result<Line> {
        let start = || {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            Ok((listener.local_addr()?.port(), listener))
        };
        let (port, listener) = start().map_err(|error| failed(Path::new("127.0.0.1"), error))?;
        let shared = Arc::new(Shared::default());
        shared.server.store(server, Ordering::SeqCst);
        let line = Line { port, shared: shared.clone() };
        std::thread::spawn(move || {
            let mut random = fastrand::Rng::with_seed(seed);
            for client in listener.incoming().flatten() {
                let fault =
                    if shared.is_bad.load(Ordering::SeqCst) { draw(&mut random) } else { Fault::None };
                if !matches!(fault, Fault::None | Fault::Delay(_)) {
                    shared.faults.fetch_add(1, Ordering::SeqCst);
                }
                // A server that is away refuses: the client's end is closed.
                if let Ok(server) = TcpStream::connect(("127.0.0.1", shared.server.load(Ordering::SeqCst))) {
                    let _ = join(client, server, fault, &shared);
                }
            }
        });
        Ok(line)
    }

    /// Leads elsewhere from now on.
    pub(super) fn lead_to(&self, server: u16) {
        self.shared.server.store(server, Ordering::SeqCst);
    }

    /// New connections are drawn to break, or are not.
    pub(super) fn set_bad(&self, is_bad: bool) {
        self.shared.is_bad.store(is_bad, Ordering::SeqCst);
    }

    /// Cuts all connections; answers whether there were any.
    pub(super) fn cut(&self) -> bool {
        let mut open = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        let were_open = open.drain(..).filter(|stream| stream.shutdown(Shutdown::Both).is_ok()).count();
        were_open > 0
    }

    /// How many connections were drawn to break.
    pub(super) fn faults(&self) -> u64 {
        self.shared.faults.load(Ordering::SeqCst)
    }

    /// Bytes to the server, and from it.
    pub(super) fn bytes(&self) -> [u64; 2] {
        [&self.shared.sent, &self.shared.answered].map(|count| count.load(Ordering::SeqCst))
    }
}

fn draw(random: &mut fastrand::Rng) -> Fault {
    let answers = random.usize(50..3000);
    match random.u8(..12) {
        0..3 => Fault::CutRequests(random.usize(50..9000)),
        3..5 => Fault::CutAnswers(answers),
        5..8 => Fault::LoseAnswers(answers),
        8 => Fault::Silent(answers),
        9 => Fault::Delay(Duration::from_millis(random.u64(1..30))),
        _ => Fault::None,
    }
}

fn join(client: TcpStream, server: TcpStream, fault: Fault, shared: &Arc<Shared>) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let mut open = shared.open.lock().unwrap_or_else(PoisonError::into_inner);
    // Those that have ended are known by having no peer.
    open.retain(|stream| stream.peer_addr().is_ok());
    open.extend([client.try_clone()?, server.try_clone()?]);
    drop(open);
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    let [requests, answers] = [shared.clone(), shared.clone()];
    std::thread::spawn(move || pass(from_client, to_server, fault, &requests.sent, true));
    std::thread::spawn(move || pass(server, client, fault, &answers.answered, false));
    Ok(())
}

fn pass(mut from: TcpStream, mut to: TcpStream, fault: Fault, count: &AtomicU64, are_requests: bool) {
    let (mut passed, mut buf) = (0, [0; 4096]);
    while let Ok(read @ 1..) = from.read(&mut buf) {
        count.fetch_add(read as u64, Ordering::SeqCst);
        let (most, is_lost) = match fault {
            Fault::CutRequests(most) if are_requests => (most, false),
            Fault::CutAnswers(most) if !are_requests => (most, false),
            Fault::LoseAnswers(most) | Fault::Silent(most) if !are_requests => (most, true),
            Fault::Delay(time) => {
                std::thread::sleep(time);
                (usize::MAX, false)
            }
            _ => (usize::MAX, false),
        };
        let part = read.min(most.saturating_sub(passed));
        passed += read;
        if to.write_all(&buf[..part]).is_err() {
            break;
        }
        if part < read {
            if is_lost {
                // What the client has asked for happens, and the client does not hear of it.
                std::thread::sleep(Duration::from_millis(50));
            }
            if matches!(fault, Fault::Silent(_)) {
                continue;
            }
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
