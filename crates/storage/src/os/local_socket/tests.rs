use super::*;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::AsFd;

fn name(test: &str) -> String {
    format!("litefoot-test-{test}-{}", std::process::id())
}

#[test]
fn a_name_has_one_listener_and_is_free_after_it() {
    let name = name("one");
    assert!(LocalSocket::connect(&name).unwrap().is_none());
    let first = LocalListener::bind(&name).unwrap().unwrap();
    assert!(LocalListener::bind(&name).unwrap().is_none());
    drop(first);
    assert!(LocalListener::bind(&name).unwrap().is_some());
    assert!(LocalListener::bind(&"x".repeat(200)).is_err());
}

#[test]
fn bytes_and_descriptors_arrive_and_the_end_is_seen() {
    let name = name("bytes");
    let listener = LocalListener::bind(&name).unwrap().unwrap();
    let here = LocalSocket::connect(&name).unwrap().unwrap();
    let there = listener.accept().unwrap();
    // SAFETY: questions to the system.
    let expected = unsafe { Peer { process: libc::getpid() as u32, user: libc::geteuid() } };
    assert_eq!((here.peer().unwrap(), there.peer().unwrap()), (expected, expected));

    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"shared").unwrap();
    here.send(b"hello", Some(file.as_fd())).unwrap();
    let mut bytes = [0; 16];
    let (count, descriptor) = there.receive(&mut bytes).unwrap();
    assert_eq!(&bytes[..count], b"hello");
    let (mut received, mut text) = (File::from(descriptor.unwrap()), String::new());
    received.rewind().unwrap();
    received.read_to_string(&mut text).unwrap();
    assert_eq!(text, "shared");

    there.set_timeout(10).unwrap();
    assert!(there.receive(&mut bytes).is_err(), "nothing has come");
    for soon in [Duration::ZERO, Duration::from_millis(1)] {
        assert!(there.receive_soon(&mut bytes, soon).is_err(), "nothing has come");
        here.send(b"soon", None).unwrap();
        assert_eq!(there.receive_soon(&mut bytes, soon).unwrap().0, 4);
    }
    std::thread::scope(|scope| {
        let late = scope.spawn(|| {
            let mut bytes = [0; 16];
            there.set_timeout(0).unwrap();
            there.receive_soon(&mut bytes, Duration::from_micros(1)).unwrap().0
        });
        std::thread::sleep(Duration::from_millis(5));
        here.send(b"late", None).unwrap();
        assert_eq!(late.join().unwrap(), 4);
    });
    there.set_timeout(0).unwrap();
    assert!(there.is_open());
    here.send(b"x", None).unwrap();
    assert!(there.is_open() && there.receive(&mut bytes).unwrap().0 == 1);
    drop(here);
    assert!(!there.is_open());
    assert_eq!(there.receive(&mut bytes).unwrap().0, 0);
    assert!(there.send(b"nobody", None).is_err(), "and no signal");
}

#[test]
fn a_process_that_is_stopped_is_known_for_it() {
    // SAFETY: the child does nothing but sleep, and is ended below.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            loop {
                libc::pause();
            }
        }
        child
    };
    let peer = Peer { process: child as u32, user: 0 };
    let await_state = |is_stopped| {
        while peer.is_stopped() != is_stopped {
            std::thread::yield_now();
        }
    };
    let signal = |number| {
        // SAFETY: a child of this test's.
        unsafe { libc::kill(child, number) };
    };
    await_state(false);
    signal(libc::SIGSTOP);
    await_state(true);
    signal(libc::SIGCONT);
    await_state(false);
    signal(libc::SIGKILL);
    // SAFETY: as above.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    assert!(!peer.is_stopped() && !Peer { process: 0, user: 0 }.is_stopped());
}

#[test]
fn closing_lets_those_who_wait_go_on() {
    let name = name("close");
    let listener = LocalListener::bind(&name).unwrap().unwrap();
    let _here = LocalSocket::connect(&name).unwrap().unwrap();
    let there = listener.accept().unwrap();
    std::thread::scope(|scope| {
        let accepts = scope.spawn(|| listener.accept().is_err());
        let receives = scope.spawn(|| there.receive(&mut [0; 4]).unwrap().0);
        std::thread::sleep(std::time::Duration::from_millis(20));
        listener.close();
        there.close();
        assert!(accepts.join().unwrap());
        assert_eq!(receives.join().unwrap(), 0);
    });
}

/// The system drops a descriptor for which a process has no number. Whoever believes to have received all would go on without it.
#[test]
fn a_descriptor_that_is_lost_is_an_error() {
    let name = name("lost");
    let listener = LocalListener::bind(&name).unwrap().unwrap();
    let here = LocalSocket::connect(&name).unwrap().unwrap();
    let there = listener.accept().unwrap();
    let file = tempfile::tempfile().unwrap();
    here.send(b"file", Some(file.as_fd())).unwrap();
    here.send(b"file", Some(file.as_fd())).unwrap();
    // SAFETY: the child makes calls of the system and nothing else, and ends.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none);
            libc::_exit(i32::from(there.receive(&mut [0; 4]).is_ok()));
        }
        let mut status = -1;
        libc::waitpid(child, &raw mut status, 0);
        status
    };
    assert_eq!(status, 0, "received without its descriptor");
    let (count, descriptor) = there.receive(&mut [0; 4]).unwrap();
    assert!(count == 4 && descriptor.is_some(), "the limit was the child's");
}

#[test]
fn a_forked_child_does_not_keep_a_stream_open() {
    extern "C" fn nothing() {}
    crate::fork::watch(crate::fork::Hooks { before: nothing, in_parent: nothing, in_child: nothing });
    let name = name("fork");
    let listener = LocalListener::bind(&name).unwrap().unwrap();
    let here = LocalSocket::connect(&name).unwrap().unwrap();
    let there = listener.accept().unwrap();
    // SAFETY: the child does nothing but sleep, and is ended below.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::sleep(30);
            libc::_exit(0);
        }
        child
    };
    drop((here, listener));
    assert_eq!(there.receive(&mut [0; 4]).unwrap().0, 0);
    assert!(LocalListener::bind(&name).unwrap().is_some());
    // SAFETY: a child of this test's own.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
}

#[test]
fn the_end_of_a_stream_is_seen_before_its_last_bytes_are_received() {
    let name = name("ended");
    let listener = LocalListener::bind(&name).unwrap().unwrap();
    let (here, there) = (LocalSocket::connect(&name).unwrap().unwrap(), listener.accept().unwrap());
    here.send(b"x", None).unwrap();
    assert!(!there.has_ended());
    drop(here);
    assert!(there.has_ended() && there.is_open());
}

#[test]
fn a_listener_that_is_given_away_is_free_at_no_time_and_who_waits_comes_again() {
    let (name, way) = (name("given"), name("way"));
    let ends = LocalListener::bind(&way).unwrap().unwrap();
    let (here, there) = (LocalSocket::connect(&way).unwrap().unwrap(), ends.accept().unwrap());
    let given = LocalListener::bind(&name).unwrap().unwrap();
    let early = LocalSocket::connect(&name).unwrap().unwrap();
    there.send(b"x", Some(given.descriptor())).unwrap();
    drop(given);
    let descriptor = here.receive(&mut [0]).unwrap().1.unwrap();
    let listener = LocalListener::taken_over(descriptor).unwrap();
    early.set_timeout(2000).unwrap();
    let ended = early.receive(&mut [0]).map(|(count, _)| count);
    assert!(
        ended.as_ref().map_or_else(|error| error.kind() != io::ErrorKind::WouldBlock, |count| *count == 0),
        "{ended:?}"
    );
    assert!(LocalListener::bind(&name).unwrap().is_none(), "the name was free at no time");
    let _late = LocalSocket::connect(&name).unwrap().unwrap();
    assert!(listener.is_awaited(Duration::ZERO).unwrap() && listener.accept_waiting().unwrap().is_some());
    assert!(!listener.is_awaited(Duration::from_millis(1)).unwrap());
    let file = tempfile::tempfile().unwrap();
    assert!(LocalListener::taken_over(file.into()).is_err());
}
