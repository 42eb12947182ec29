//! Many devices and PostgreSQL, where the collector between them is killed, the server's processes are, and shippers die.

use super::collect::{Said, check_positions, device_of, note_positions, settings, settings_of};
use super::proxy::Proxy;
use super::server::Server;
use super::{Device, compare, kill_a_process};
use litefoot_rowsink::{Destination, collect, deliver};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The collector of another test, as a process of its own. Where no other test asks for it, it has nothing to do.
#[test]
fn collector_process() {
    let Ok(port) = std::env::var("LITEFOOT_TEST_COLLECTOR") else { return };
    let url = std::env::var("LITEFOOT_TEST_POSTGRES").unwrap();
    let settings = settings_of(url, port.parse().unwrap(), |line| eprintln!("{line}"));
    let _collector = collect::Server::start(settings).unwrap();
    loop {
        std::thread::park();
    }
}

/// A process that is killed with its test.
struct Process(Child);

impl Process {
    fn start(port: u16, server: &Server) -> Process {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "collector_kills::collector_process", "--nocapture"])
            .env("LITEFOOT_TEST_COLLECTOR", port.to_string())
            .env("LITEFOOT_TEST_POSTGRES", server.url(server.port))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Process(child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn each_batch_arrives_once_whatever_is_killed_between() {
    let Some(server) = Server::start() else { return };
    // The tables of positions are there before any device comes.
    let said = Said::default();
    collect::Server::start(settings(&server, &said)).unwrap().stop();
    note_positions(&server);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let proxy = Proxy::start(port, 12);
    let (retries, restarts, done) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    let mut kills = 0;
    let devices: Vec<Device> = std::thread::scope(|scope| {
        let mut process = Process::start(port, &server);
        proxy.set_bad(true);
        let work = |seed| {
            let address = format!("127.0.0.1:{}", proxy.port);
            let (retries, restarts, done) = (&retries, &restarts, &done);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                let mut device = Device::new(seed);
                let mut destination = device_of(&address);
                for number in 0..150 {
                    let mut batch = device.batch();
                    while let Err(error) = deliver(&mut destination, &batch) {
                        assert!(error.is_transient(), "batch {number}: {error}");
                        retries.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(random.u64(1..60)));
                        if random.u8(..4) == 0 {
                            // The shipper died, and a new one takes over: it asks where it stands, and sends all that there is.
                            destination = device_of(&address);
                            let Ok(at) = destination.position(&device.origin) else { continue };
                            device.restart(at.map_or(0, |at| at.sequence));
                            batch = device.batch();
                            restarts.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
                done.fetch_add(1, Ordering::Relaxed);
                device
            })
        };
        let threads: Vec<_> = (50..54).map(work).collect();
        let mut random = fastrand::Rng::with_seed(9);
        while done.load(Ordering::Relaxed) < 4 && threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(random.u64(50..700)));
            match random.u8(..10) {
                0 => kill_a_process(&server),
                1..7 => {
                    drop(process);
                    kills += 1;
                    std::thread::sleep(Duration::from_millis(random.u64(1..100)));
                    process = Process::start(port, &server);
                }
                7 => proxy.set_bad(false),
                _ => proxy.set_bad(true),
            }
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for device in &devices {
        compare(&server, device, &device.history.settings);
        check_positions(&server, &device.origin, device.sequence);
    }
    let retries = retries.load(Ordering::Relaxed);
    let restarts = restarts.load(Ordering::Relaxed);
    println!("{kills} kills, {} faults, {retries} retries, {restarts} restarts", proxy.faults());
    assert!(kills > 3 && retries > 10, "{kills} kills, {retries} retries");
}
