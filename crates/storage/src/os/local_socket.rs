//! Local sockets: streams of bytes and descriptors between processes of one machine.
//!
//! # Why
//! Processes that share a database find one another by a name, and that name must be gone with the process that has it. A name
//! in the abstract namespace (`unix(7)`) is no file: it is free as soon as the last descriptor of its socket is closed.
//!
//! # What it promises
//! 1. A name has one listener at a time in a network namespace. Binding it is atomic.
//! 2. The system says which process and which user is at the other end ([`Peer`]); nobody can say so falsely.
//! 3. The end of a process ends its streams. A forked child has none of its parent's sockets ([`crate::fork`]).
//! 4. No signal is sent to the process, and a signal that it gets interrupts nothing here.

use crate::fork::LockedFile;
use std::io;
use std::mem::{offset_of, size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// Streams that wait to be accepted.
const BACKLOG: libc::c_int = 128;

/// The process at the other end of a stream, when the stream was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number.
    pub process: u32,
    /// Its effective user's number.
    pub user: u32,
}

impl Peer {
    /// True for a process of the same user, or of root.
    pub fn is_trusted(self) -> bool {
        // SAFETY: a question to the system.
        self.user == 0 || self.user == unsafe { libc::geteuid() }
    }

    /// True if the process is stopped, as by SIGSTOP, and answers nothing until it is continued; `false` where that is not known. One that is
    /// traced stops for a moment at each call, and does not count.
    pub fn is_stopped(self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process)).unwrap_or_default();
        // The name of the program may have any characters.
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        state == Some('T')
    }
}

/// A socket, noted as one that a forked child must not have.
struct Socket {
    // Dropped first: the number may be another file's soon.
    _note: LockedFile,
    descriptor: OwnedFd,
}

impl Socket {
    fn new() -> io::Result<Socket> {
        // SAFETY: a plain system call.
        let descriptor = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
        // SAFETY: the call has made it, and nobody else has it.
        check(descriptor).map(|descriptor| Socket::of(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    fn of(descriptor: OwnedFd) -> Socket {
        Socket { _note: LockedFile::note(descriptor.as_raw_fd()), descriptor }
    }

    fn raw(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    fn set_timeout(&self, option: libc::c_int, ms: u32) -> io::Result<()> {
        let time = libc::timeval {
            tv_sec: (ms / 1000) as libc::time_t,
            tv_usec: (ms % 1000 * 1000) as libc::suseconds_t,
        };
        let bytes = size_of::<libc::timeval>() as libc::socklen_t;
        // SAFETY: a value of so many bytes.
        check(unsafe {
            libc::setsockopt(self.raw(), libc::SOL_SOCKET, option, (&raw const time).cast(), bytes)
        })
        .map(drop)
    }

    fn shut_down(&self) {
        // SAFETY: a plain system call. One that is not connected is refused, which changes nothing.
        unsafe { libc::shutdown(self.raw(), libc::SHUT_RDWR) };
    }
}

fn check(answer: libc::c_int) -> io::Result<libc::c_int> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// Repeats a call that a signal has interrupted.
fn uninterrupted(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        match usize::try_from(call()) {
            Ok(count) => return Ok(count),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

/// The address of an abstract name, and its length.
fn address(name: &str) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: plain numbers, for which zeros are valid.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // The first byte of an abstract name is zero.
    let room = address.sun_path.get_mut(1..).unwrap_or_default();
    if name.len() > room.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in room.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    let bytes = offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    Ok((address, bytes as libc::socklen_t))
}

/// A name that other processes can connect to.
pub struct LocalListener {
    socket: Socket,
}

impl LocalListener {
    /// Takes an abstract name; `None` where another listener has it.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn bind(name: &str) -> io::Result<Option<LocalListener>> {
        let (address, bytes) = address(name)?;
        let socket = Socket::new()?;
        // SAFETY: an address of so many bytes.
        let bound = check(unsafe { libc::bind(socket.raw(), (&raw const address).cast(), bytes) });
        match bound {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Ok(None),
            bound => bound?,
        };
        // SAFETY: a plain system call.
        check(unsafe { libc::listen(socket.raw(), BACKLOG) })?;
        Ok(Some(LocalListener { socket }))
    }

    /// Waits for a stream.
    ///
    /// # Errors
    /// Errors of the system, and one after [`LocalListener::close`].
    pub fn accept(&self) -> io::Result<LocalSocket> {
        let (none, bytes) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: nothing is asked for beside the descriptor.
        let descriptor = uninterrupted(|| unsafe {
            libc::accept4(self.socket.raw(), none, bytes, libc::SOCK_CLOEXEC) as isize
        })?;
        // SAFETY: the call has made it, and nobody else has it.
        Ok(LocalSocket { socket: Socket::of(unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) }) })
    }

    /// The next stream; `None` where none waits.
    ///
    /// # Errors
    /// As for [`LocalListener::accept`].
    pub fn accept_waiting(&self) -> io::Result<Option<LocalSocket>> {
        let mut waits = libc::pollfd { fd: self.socket.raw(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, which outlives the call.
        let count = uninterrupted(|| unsafe { libc::poll(&raw mut waits, 1, 0) as isize })?;
        if count == 0 { Ok(None) } else { self.accept().map(Some) }
    }

    /// Accepts no more; a thread that waits for a stream goes on with an error.
    pub fn close(&self) {
        self.socket.shut_down();
    }
}

/// A stream to another process.
pub struct LocalSocket {
    socket: Socket,
}

/// Room for the control message that carries one descriptor.
#[repr(C, align(8))]
struct Control([u8; 64]);

impl LocalSocket {
    /// Most milliseconds that a connection waits where too many wait to be accepted.
    const LONGEST_CONNECT_MS: u32 = 1000;

    /// Connects to an abstract name; `None` where nobody listens.
    ///
    /// # Errors
    /// Errors of the system; `WouldBlock` where the listener accepts nobody.
    pub fn connect(name: &str) -> io::Result<Option<LocalSocket>> {
        let (address, bytes) = address(name)?;
        let socket = Socket::new()?;
        socket.set_timeout(libc::SO_SNDTIMEO, Self::LONGEST_CONNECT_MS)?;
        // SAFETY: an address of so many bytes.
        let connected = uninterrupted(|| unsafe {
            libc::connect(socket.raw(), (&raw const address).cast(), bytes) as isize
        });
        match connected {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(None),
            connected => {
                connected?;
                socket.set_timeout(libc::SO_SNDTIMEO, 0)?;
                Ok(Some(LocalSocket { socket }))
            }
        }
    }

    /// The process at the other end.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn peer(&self) -> io::Result<Peer> {
        // SAFETY: plain numbers, for which zeros are valid; the call writes no more than its length.
        unsafe {
            let mut found: libc::ucred = zeroed();
            let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
            check(libc::getsockopt(
                self.socket.raw(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut found).cast(),
                &raw mut bytes,
            ))?;
            Ok(Peer { process: found.pid as u32, user: found.uid })
        }
    }

    /// Lets [`LocalSocket::receive`] fail after so many milliseconds without a byte; 0 waits for ever.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn set_timeout(&self, ms: u32) -> io::Result<()> {
        self.socket.set_timeout(libc::SO_RCVTIMEO, ms)
    }

    /// Lets [`LocalSocket::send`] fail in the same way.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn set_send_timeout(&self, ms: u32) -> io::Result<()> {
        self.socket.set_timeout(libc::SO_SNDTIMEO, ms)
    }

    /// Sends all bytes, the descriptor with the first of them.
    ///
    /// # Errors
    /// Errors of the system; the other end is gone.
    pub fn send(&self, mut bytes: &[u8], mut descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = self.send_some(bytes, descriptor.take())?;
            bytes = bytes.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    fn send_some(&self, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<usize> {
        let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut control = Control([0; 64]);
        // SAFETY: plain numbers and null pointers, for which zeros are valid. The message names one part and the control
        // buffer, which live throughout; one descriptor fits there.
        unsafe {
            let mut message: libc::msghdr = zeroed();
            (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
            if let Some(descriptor) = descriptor {
                message.msg_control = control.0.as_mut_ptr().cast();
                message.msg_controllen = libc::CMSG_SPACE(size_of::<RawFd>() as u32) as _;
                let header = libc::CMSG_FIRSTHDR(&raw const message);
                (*header).cmsg_level = libc::SOL_SOCKET;
                (*header).cmsg_type = libc::SCM_RIGHTS;
                (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
                libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(descriptor.as_raw_fd());
            }
            uninterrupted(|| libc::sendmsg(self.socket.raw(), &raw const message, libc::MSG_NOSIGNAL))
        }
    }

    /// Waits for bytes, and answers how many there are, with a descriptor that came with them. None are there at the end of
    /// the stream.
    ///
    /// # Errors
    /// Errors of the system; the other end is gone, or the time is over.
    pub fn receive(&self, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
        self.receive_by(bytes, 0)
    }

    /// The same, where bytes are likely to come within `soon`: the thread sleeps only after that time, and lets other threads run until then.
    ///
    /// # Errors
    /// As for [`LocalSocket::receive`].
    pub fn receive_soon(&self, bytes: &mut [u8], soon: Duration) -> io::Result<(usize, Option<OwnedFd>)> {
        let begun = Instant::now();
        loop {
            match self.receive_by(bytes, libc::MSG_DONTWAIT) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => return received,
            }
            if begun.elapsed() >= soon {
                return self.receive(bytes);
            }
            std::thread::yield_now();
        }
    }

    fn receive_by(&self, bytes: &mut [u8], flags: libc::c_int) -> io::Result<(usize, Option<OwnedFd>)> {
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut control = Control([0; 64]);
        // SAFETY: as in `send_some`. What the system stores as a descriptor is one of this process's, and nobody else's.
        unsafe {
            let mut message: libc::msghdr = zeroed();
            (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
            message.msg_control = control.0.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(size_of::<RawFd>() as u32) as _;
            let room = message.msg_controllen;
            let count = uninterrupted(|| {
                message.msg_controllen = room;
                libc::recvmsg(self.socket.raw(), &raw mut message, flags | libc::MSG_CMSG_CLOEXEC)
            })?;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            let is_descriptor = !header.is_null()
                && (*header).cmsg_level == libc::SOL_SOCKET
                && (*header).cmsg_type == libc::SCM_RIGHTS;
            let descriptor = is_descriptor
                .then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned()));
            Ok((count, descriptor))
        }
    }

    /// True unless the other end has ended the stream, and no byte of it waits. Nothing is taken from the stream, and nothing waited for.
    pub fn is_open(&self) -> bool {
        let mut byte = 0_u8;
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        // SAFETY: room for one byte.
        let count =
            uninterrupted(|| unsafe { libc::recv(self.socket.raw(), (&raw mut byte).cast(), 1, flags) });
        match count {
            Ok(count) => count > 0,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    /// Ends the stream; a thread that waits for bytes goes on.
    pub fn close(&self) {
        self.socket.shut_down();
    }
}

#[cfg(test)]
mod tests {
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
}
