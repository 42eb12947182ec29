//! Counts the system calls of a process, of all its threads, and ends the process before one of them.
//!
//! # Why
//! A change from one state of sharing to the other is made by threads of litefoot, in calls whose order nobody wrote down. A
//! process that is killed before each of them in turn has been killed at every step of it. And a table of calls by their kinds
//! says what an insert asks of the system.
//!
//! # How
//! `ptrace(2)`: each thread stops before and after a call. The thread that made a [`Tracer`] must do all that is done with it:
//! the kernel knows no other tracer.
//!
//! Calls that only ask for names and states of files do not count ([`ASKS`]): a kill before one is a kill before the next one
//! that does something. The search for the visitor's name makes hundreds of them. They are recorded, where all are
//! ([`Tracer::record`]).
//!
//! # Limits
//! Linux alone, from 5.3 on. A container may refuse `ptrace`.

mod registers;
mod stores;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::{Duration, Instant};

use libc::{c_int, c_void, pid_t};
use stores::Stores;

/// The stop of a call, as `PTRACE_O_TRACESYSGOOD` tells it from a signal.
const CALL: c_int = libc::SIGTRAP | 0x80;
/// A thread that was interrupted, or has just begun.
const EVENT_STOP: c_int = 128;
/// The kind of a stop: before a call.
const ENTRY: u8 = 1;
/// Calls that only ask.
const ASKS: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_statx,
    libc::SYS_lseek,
];
const PAUSE: Duration = Duration::from_micros(30);

/// The beginning of `struct ptrace_syscall_info` (linux/ptrace.h).
#[repr(C)]
#[derive(Clone, Copy)]
struct CallInfo {
    kind: u8,
    _padding: [u8; 3],
    _architecture: u32,
    _instruction: u64,
    _stack: u64,
    /// The number of the call; behind it, what it has answered.
    number: u64,
    arguments: [u64; 6],
}

/// A call as the kernel was given it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its number on this processor.
    pub number: u64,
    pub arguments: [u64; 6],
}

/// A process that is traced, and killed when this is dropped.
pub struct Tracer {
    process: pid_t,
    threads: BTreeSet<pid_t>,
    /// Points at which it could be killed, since [`Tracer::begin`].
    points: u64,
    /// The process is killed at this one.
    last: u64,
    /// The point at which it was killed, in words.
    killed_at: Option<String>,
    /// All calls, once somebody wants them.
    made: Option<Vec<Made>>,
    /// Memory of other processes, where stores into it count.
    stores: Option<Stores>,
}

impl Tracer {
    /// Traces a child of the calling thread, which makes no calls just now.
    pub fn attach(process: u32) -> io::Result<Tracer> {
        let process = process.cast_signed();
        let mut tracer = Tracer {
            process,
            threads: BTreeSet::new(),
            points: 0,
            last: u64::MAX,
            killed_at: None,
            made: None,
            stores: None,
        };
        // Those that a traced thread has begun meanwhile are traced already, and stop by themselves.
        let mut refused = BTreeSet::new();
        loop {
            let is_new = |thread: &pid_t| !tracer.threads.contains(thread) && !refused.contains(thread);
            let new: Vec<pid_t> = threads(process).into_iter().filter(is_new).collect();
            if new.is_empty() {
                return Ok(tracer);
            }
            for thread in new {
                let options =
                    libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
                let seized = request(libc::PTRACE_SEIZE, thread, options as usize)
                    .and_then(|()| request(libc::PTRACE_INTERRUPT, thread, 0));
                match seized {
                    Ok(()) => drop(tracer.threads.insert(thread)),
                    // It has ended since it was listed, or ends just now; without the first one the process is gone.
                    Err(error)
                        if thread != process
                            && matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EPERM)) =>
                    {
                        refused.insert(thread);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Lets the process run until it has made no call for so long. Then it is killed at point `last` from there on: before a call.
    pub fn begin(&mut self, quiet: Duration, last: u64) -> io::Result<()> {
        self.run_until(|_| false, quiet, Duration::from_secs(10))?;
        (self.points, self.last) = (0, last);
        Ok(())
    }

    /// Lets the process run until `done` says so, until it has made no call for `quiet`, or until it has ended. False where
    /// none of that comes in time.
    pub fn run_until(
        &mut self,
        mut done: impl FnMut(&Tracer) -> bool,
        quiet: Duration,
        patience: Duration,
    ) -> io::Result<bool> {
        let (begun, mut busy) = (Instant::now(), Instant::now());
        loop {
            if self.step()? {
                busy = Instant::now();
                continue;
            }
            if self.has_ended() || done(self) || busy.elapsed() > quiet {
                return Ok(true);
            }
            if begun.elapsed() > patience {
                return Ok(false);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Records all calls from now on, those that only ask included.
    pub fn record(&mut self) {
        self.made = Some(Vec::new());
    }

    /// The calls that were recorded.
    pub fn recorded(&mut self) -> Vec<Made> {
        self.made.take().unwrap_or_default()
    }

    /// Points since the beginning.
    pub fn points(&self) -> u64 {
        self.points
    }

    /// The point at which the process was killed, in words.
    pub fn killed_at(&self) -> Option<&str> {
        self.killed_at.as_deref()
    }

    pub fn has_ended(&self) -> bool {
        self.threads.is_empty()
    }

    /// True while the process has a thread whose name begins like this.
    pub fn has_thread(&self, name: &str) -> bool {
        self.threads.iter().any(|thread| self.name(*thread).starts_with(name))
    }

    fn name(&self, thread: pid_t) -> String {
        let name = fs::read_to_string(format!("/proc/{}/task/{thread}/comm", self.process));
        name.unwrap_or_default().trim().to_owned()
    }

    /// Deals with one stop of a thread; false if there is none.
    fn step(&mut self) -> io::Result<bool> {
        let mut status = 0;
        // SAFETY: the status outlives the call.
        let thread =
            unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD | libc::WNOHANG) };
        if thread <= 0 {
            // Nobody is left, or nobody has stopped.
            if thread < 0 {
                self.threads.clear();
            }
            return Ok(false);
        }
        if !libc::WIFSTOPPED(status) {
            self.threads.remove(&thread);
            return Ok(true);
        }
        // One that has just begun is traced from its first instruction on.
        self.threads.insert(thread);
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        let passed_on = match (signal, event) {
            (CALL, _) => {
                self.count(thread)?;
                0
            }
            (libc::SIGSEGV, 0) if self.store(thread)? => 0,
            (_, EVENT_STOP) | (libc::SIGTRAP, libc::PTRACE_EVENT_CLONE) => 0,
            _ => signal,
        };
        // A thread that was killed meanwhile is no more there to go on.
        match request(libc::PTRACE_SYSCALL, thread, passed_on as usize) {
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(error),
            _ => Ok(true),
        }
    }

    fn count(&mut self, thread: pid_t) -> io::Result<()> {
        let Some(info) = call_info(thread)? else { return Ok(()) };
        if info.kind != ENTRY {
            return self.has_made(thread, info.number.cast_signed());
        }
        if let Some(made) = &mut self.made {
            made.push(Made { number: info.number, arguments: info.arguments });
        }
        if ASKS.iter().any(|asks| asks.cast_unsigned() == info.number) {
            return Ok(());
        }
        if self.makes(thread, &info) {
            self.reach(thread, || format!("before call number {}", info.number))?;
        }
        Ok(())
    }

    /// A thread has reached the next point, at which the process may be killed.
    fn reach(&mut self, thread: pid_t, what: impl FnOnce() -> String) -> io::Result<()> {
        self.points += 1;
        if self.points == self.last {
            self.killed_at = Some(format!("{} of {}", what(), self.name(thread)));
            self.release(thread)?;
            self.kill();
        }
        Ok(())
    }

    fn kill(&self) {
        // SAFETY: a child of this thread that nobody has waited for.
        unsafe { libc::kill(self.process, libc::SIGKILL) };
    }

    /// Kills the process, and waits until it is gone.
    pub fn end(&mut self) -> io::Result<()> {
        // What fails here is of no use to anybody: the process ends.
        let released = if self.killed_at.is_none() { self.release_all() } else { Ok(()) };
        self.kill();
        while !self.has_ended() {
            if !self.step()? {
                std::thread::sleep(PAUSE);
            }
        }
        released
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        if !self.has_ended() {
            // It is killed in any case.
            let _ = self.end();
        }
    }
}

fn threads(process: pid_t) -> Vec<pid_t> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// What a thread has come to.
enum Waited {
    /// It has done an instruction.
    Stepped,
    /// It has met this signal at the instruction.
    Signal(c_int),
    /// It has ended.
    End,
}

/// Waits for the next stop of a thread: its status, or none where it has ended.
fn wait(thread: pid_t) -> io::Result<Option<c_int>> {
    let mut status = 0;
    // SAFETY: the status outlives the call.
    while unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) } < 0 {
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => {}
            error if error.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
            error => return Err(error),
        }
    }
    Ok(libc::WIFSTOPPED(status).then_some(status))
}

/// Has a thread do one instruction. Signals that come from elsewhere come again later.
fn wait_for(thread: pid_t, step: libc::c_uint) -> io::Result<Waited> {
    let mut late = Vec::new();
    let waited = loop {
        request(step, thread, 0)?;
        let Some(status) = wait(thread)? else { break Waited::End };
        match (libc::WSTOPSIG(status), status >> 16) {
            (_, event) if event != 0 => {}
            (libc::SIGTRAP, _) => break Waited::Stepped,
            (signal @ (libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE), _) => {
                break Waited::Signal(signal);
            }
            (signal, _) => late.push(signal),
        }
    };
    for signal in late {
        // SAFETY: a plain call, to a thread that has stopped.
        unsafe { libc::syscall(libc::SYS_tkill, thread, signal) };
    }
    Ok(waited)
}

fn call_info(thread: pid_t) -> io::Result<Option<CallInfo>> {
    let mut info = MaybeUninit::<CallInfo>::zeroed();
    // SAFETY: the kernel writes as many bytes as it is told at most; zeros are a value of the structure.
    unsafe {
        let bytes = ptr::without_provenance_mut::<c_void>(size_of::<CallInfo>());
        if libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, thread, bytes, info.as_mut_ptr()) < 0 {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::ESRCH) { Ok(None) } else { Err(error) };
        }
        Ok(Some(info.assume_init()))
    }
}

fn request(request: libc::c_uint, thread: pid_t, data: usize) -> io::Result<()> {
    // SAFETY: the requests that are made here take a number, and change nothing in memory.
    let done = unsafe {
        libc::ptrace(request, thread, ptr::null_mut::<c_void>(), ptr::without_provenance_mut::<c_void>(data))
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    /// A thread of litefoot's may end at any moment.
    const BUSY: &str = "import threading
print('up', flush=True)
while True:
    for thread in [threading.Thread(target=int) for _ in range(4)]:
        thread.start()
";

    #[test]
    fn a_process_is_traced_whose_threads_end_meanwhile() {
        for _ in 0..20 {
            let mut child =
                Command::new("python3").args(["-c", BUSY]).stdout(Stdio::piped()).spawn().unwrap();
            child.stdout.as_mut().unwrap().read_exact(&mut [0; 3]).unwrap();
            let mut tracer = Tracer::attach(child.id()).unwrap();
            assert!(!tracer.has_ended());
            tracer.end().unwrap();
            // The tracer has waited for it.
            assert!(child.wait().is_err());
        }
        assert!(
            Tracer::attach(u32::MAX >> 1).is_ok_and(|tracer| tracer.has_ended()),
            "there is no such process"
        );
    }
}
