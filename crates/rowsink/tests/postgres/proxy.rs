//! A line that breaks: between a client and a server it cuts, delays, keeps answers back, or falls silent.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What becomes of a connection.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// Both ends are closed once so many bytes have passed.
    CutRequests(usize),
    CutAnswers(usize),
    /// Answers are lost once so many bytes have passed, and requests still arrive; then it is cut.
    LoseAnswers(usize),
    /// The same, and it is never cut: nobody hears of it.
    Silent(usize),
    Delay(Duration),
}

/// A running proxy.
pub struct Proxy {
    pub port: u16,
    is_bad: Arc<AtomicBool>,
    faults: Arc<AtomicU32>,
}

impl Proxy {
    pub fn start(server: u16, seed: u64) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy {
            port: listener.local_addr().unwrap().port(),
            is_bad: Arc::default(),
            faults: Arc::default(),
        };
        let (is_bad, faults) = (proxy.is_bad.clone(), proxy.faults.clone());
        let random = Mutex::new(fastrand::Rng::with_seed(seed));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let fault = match is_bad.load(Ordering::SeqCst) {
                    true => draw(&mut random.lock().unwrap()),
                    false => Fault::None,
                };
                if !matches!(fault, Fault::None | Fault::Delay(_)) {
                    faults.fetch_add(1, Ordering::SeqCst);
                }
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                    join(client, server, fault);
                }
            }
        });
        proxy
    }

    pub fn set_bad(&self, is_bad: bool) {
        self.is_bad.store(is_bad, Ordering::SeqCst);
    }

    /// How many connections were made to break.
    pub fn faults(&self) -> u32 {
        self.faults.load(Ordering::SeqCst)
    }
}

fn draw(random: &mut fastrand::Rng) -> Fault {
    let bytes = random.usize(200..6000);
    match random.u8(..12) {
        0..4 => Fault::CutRequests(bytes),
        4..6 => Fault::CutAnswers(random.usize(100..900)),
        6..9 => Fault::LoseAnswers(random.usize(100..900)),
        9 => Fault::Silent(random.usize(100..900)),
        10 => Fault::Delay(Duration::from_millis(random.u64(1..20))),
        _ => Fault::None,
    }
}

fn join(client: TcpStream, server: TcpStream, fault: Fault) {
    let (from_client, to_client) = (client.try_clone().unwrap(), client);
    let (from_server, to_server) = (server.try_clone().unwrap(), server);
    std::thread::spawn(move || pass(from_client, to_server, fault, true));
    std::thread::spawn(move || pass(from_server, to_client, fault, false));
}

fn pass(mut from: TcpStream, mut to: TcpStream, fault: Fault, are_requests: bool) {
    let (mut passed, mut buf) = (0, [0; 4096]);
    while let Ok(count @ 1..) = from.read(&mut buf) {
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
        let part = count.min(most.saturating_sub(passed));
        passed += count;
        if to.write_all(&buf[..part]).is_err() {
            break;
        }
        if part < count {
            if is_lost {
                // What the client has asked for happens, and it does not hear of it.
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
