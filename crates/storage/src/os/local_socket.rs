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
//! 5. A listener can be given to another process. Its name is free at no time, and nobody takes the one before for the one behind it.

use super::crowd::let_others_run;
use super::socket_file::{self, SocketFile};
use crate::fork::LockedFile;
use crate::sync::Mutex;
use std::io;
use std::mem::{offset_of, size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
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

    /// True unless it is this process.
    pub fn is_another(self) -> bool {
        self.process != std::process::id()
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

/// Where processes meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalName {
    /// An abstract name, which processes of one network namespace see.
    Abstract(String),
    /// A file, which processes see that share its directory.
    File(PathBuf),
}

/// The address of an abstract name, and its length.
fn address(name: &str) -> io::Result<Address> {
    // The first byte of an abstract name is zero.
    address_of(&[b"\0", name.as_bytes()].concat())
}

type Address = (libc::sockaddr_un, libc::socklen_t);

fn address_of(path: &[u8]) -> io::Result<Address> {
    // SAFETY: plain numbers, for which zeros are valid.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    if path.len() > address.sun_path.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in address.sun_path.iter_mut().zip(path) {
        *place = *byte as libc::c_char;
    }
    let bytes = offset_of!(libc::sockaddr_un, sun_path) + path.len();
    Ok((address, bytes as libc::socklen_t))
}

/// A name that other processes can connect to.
pub struct LocalListener {
    socket: Socket,
    /// The file, until the listener is closed.
    file: Mutex<Option<SocketFile>>,
}

impl LocalListener {
    /// Takes an abstract name; `None` where another listener has it.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn bind(name: &str) -> io::Result<Option<LocalListener>> {
        Self::at(address(name)?)
    }

    /// Takes a name; `None` where another listener has it.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn bind_to(name: &LocalName) -> io::Result<Option<LocalListener>> {
        match name {
            LocalName::Abstract(name) => Self::bind(name),
            LocalName::File(path) => socket_file::bind(path),
        }
    }

    /// The same by the bytes of a path, which stays when the listener has gone.
    pub(super) fn at_path(path: &[u8]) -> io::Result<Option<LocalListener>> {
        Self::at(address_of(path)?)
    }

    /// The listener has a file from now on, which goes with it.
    pub(super) fn with_file(self, file: SocketFile) -> LocalListener {
        *self.file.lock() = Some(file);
        self
    }

    /// Ends as one that is killed.
    #[cfg(test)]
    pub(super) fn leave_file(self) {
        std::mem::forget(self.file.lock().take());
    }

    fn at((address, bytes): Address) -> io::Result<Option<LocalListener>> {
        let socket = Socket::new()?;
        // SAFETY: an address of so many bytes.
        let bound = check(unsafe { libc::bind(socket.raw(), (&raw const address).cast(), bytes) });
        match bound {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Ok(None),
            bound => bound?,
        };
        let listener = LocalListener { socket, file: Mutex::new(None) };
        listener.listen()?;
        Ok(Some(listener))
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
        if self.is_awaited(Duration::ZERO)? { self.accept().map(Some) } else { Ok(None) }
    }

    /// True if a stream waits to be accepted, or comes within a time.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn is_awaited(&self, within: Duration) -> io::Result<bool> {
        let mut waits = libc::pollfd { fd: self.socket.raw(), events: libc::POLLIN, revents: 0 };
        let ms = libc::c_int::try_from(within.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: one structure, which outlives the call.
        let count = uninterrupted(|| unsafe { libc::poll(&raw mut waits, 1, ms) as isize })?;
        Ok(count > 0)
    }

    /// The listener that another process has sent, as this process's: whoever connects from now on finds this process at the other end. Streams that
    /// wait have found the other one, and are ended.
    ///
    /// # Errors
    /// Errors of the system; it is no listener.
    pub fn taken_over(descriptor: OwnedFd) -> io::Result<LocalListener> {
        let listener = LocalListener { socket: Socket::of(descriptor), file: Mutex::new(None) };
        listener.listen()?;
        while listener.accept_waiting()?.is_some() {}
        Ok(listener)
    }

    /// Its descriptor, for the process that is to take it over.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.descriptor.as_fd()
    }

    fn listen(&self) -> io::Result<()> {
        // SAFETY: a plain system call.
        check(unsafe { libc::listen(self.socket.raw(), BACKLOG) }).map(drop)
    }

    /// Accepts no more, and its file is gone; a thread that waits for a stream goes on with an error.
    pub fn close(&self) {
        self.socket.shut_down();
        drop(self.file.lock().take());
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
        Self::to(address(name)?)
    }

    /// Connects to a name; `None` where nobody listens.
    ///
    /// # Errors
    /// Errors of the system; `WouldBlock` where the listener accepts nobody.
    pub fn connect_to(name: &LocalName) -> io::Result<Option<LocalSocket>> {
        match name {
            LocalName::Abstract(name) => Self::connect(name),
            LocalName::File(path) => socket_file::connect(path),
        }
    }

    /// The same by the bytes of a path.
    pub(super) fn to_path(path: &[u8]) -> io::Result<Option<LocalSocket>> {
        Self::to(address_of(path)?)
    }

    fn to((address, bytes): Address) -> io::Result<Option<LocalSocket>> {
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

    /// Receives exactly so many bytes. A descriptor that comes along is nobody's.
    ///
    /// # Errors
    /// As for [`LocalSocket::receive`]; the stream has ended before.
    pub fn receive_exactly(&self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (count, _) = self.receive(bytes)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes = bytes.get_mut(count..).unwrap_or_default();
        }
        Ok(())
    }

    /// The same as [`LocalSocket::receive`], where bytes are likely to come within `soon`: the thread sleeps only after that time, and lets other threads run
    /// until then, where these have not too much to do.
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
            if begun.elapsed() >= soon || !let_others_run() {
                return self.receive(bytes);
            }
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
            if message.msg_flags & libc::MSG_CTRUNC != 0 {
                // What came with it is lost. The other end does not know that.
                return Err(io::Error::from_raw_os_error(libc::EMFILE));
            }
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

    /// True if the other end has ended the stream, also where bytes of it still wait.
    pub fn has_ended(&self) -> bool {
        let mut end = libc::pollfd { fd: self.socket.raw(), events: 0, revents: 0 };
        // SAFETY: one structure, which outlives the call.
        let count = uninterrupted(|| unsafe { libc::poll(&raw mut end, 1, 0) as isize });
        count.is_ok_and(|count| count > 0)
    }

    /// Ends the stream; a thread that waits for bytes goes on.
    pub fn close(&self) {
        self.socket.shut_down();
    }
}

#[cfg(test)]
mod tests;
