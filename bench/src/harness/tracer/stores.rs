//! Stores of a process into memory that others have as well: what others can see of it between two of its calls.
//!
//! # Why
//! To all other processes a kill is the same at each instruction between two that others can see. Those are calls, and stores into memory of
//! several processes. So a process that is killed before and behind each of them was killed at every instruction of its path.
//!
//! # How
//! To step through each instruction takes too long: 20 us a step on a virtual machine. So the memory becomes read-only in the process. A store then stops its thread before the instruction. The tracer makes the page writable, has the thread do this one instruction, and makes the
//! page read-only again. The calls that change the protection are the thread's own, made by the tracer in its place. New mappings are found behind each call
//! that makes one.
//!
//! A string instruction, by which the C library copies and clears, stops behind each of its bytes. It has a point behind the first one, and one at each further page. Between those it
//! runs to the next instruction, where a breakpoint of the processor's stops the thread.
//!
//! The memory is writable again before a kill: the system changes it itself when a thread ends (robust futexes).
//!
//! # Limits
//! While one thread does its instruction, the store of another one into the same page passes without being counted, in that run.
//! A call that has the system write into such memory is refused (EFAULT): [`Tracer::met_memory`] tells. A process that ends by itself is not looked after.

use super::registers::Registers;
use super::{CALL, CallInfo, Tracer, Waited, request, wait_for};
use libc::pid_t;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;

const PAGE: u64 = 4096;
const READ_ONLY: u64 = libc::PROT_READ as u64;
const WRITABLE: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;
/// A page that is there, and may not be written.
const NO_RIGHT: libc::c_int = 2;
/// Calls that change nothing but the process itself.
const OWN: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mprotect,
    libc::SYS_pread64,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sched_yield,
    libc::SYS_clock_nanosleep,
];

/// The memory of several processes, as the one that is traced has it.
pub(super) struct Stores {
    /// True for the name of memory that no other process writes or reads.
    is_own: fn(&str) -> bool,
    watched: Vec<Range<u64>>,
    /// The names of what was watched.
    names: BTreeSet<String>,
    /// An instruction that makes a call.
    call_instruction: u64,
    /// Calls under way, of threads.
    under_way: Vec<(pid_t, u64, bool)>,
    /// The number of a call that the system has refused because of this memory.
    refused: Option<u64>,
    stores: u64,
}

/// A mapping of the process.
struct Mapping {
    memory: Range<u64>,
    is_shared: bool,
    is_writable: bool,
    offset: u64,
    name: String,
}

impl Stores {
    fn is_watched(&self, address: u64) -> bool {
        self.watched.iter().any(|memory| memory.contains(&address))
    }
}

impl Tracer {
    /// From now on stores into memory of others count, but for mappings whose names say that nobody else has them. Behind each call and each store is a point as well.
    ///
    /// # Errors
    /// Those of the system; the processor is none that this can do.
    pub fn count_stores(&mut self, is_own: fn(&str) -> bool) -> io::Result<()> {
        let Some(thread) = self.stop()? else { return Ok(()) };
        let registers = Registers::of(thread)?;
        let Some(call_instruction) = registers.call_instruction(thread) else {
            return Err(io::Error::other("a process that waits in no call"));
        };
        self.stores = Some(Stores {
            is_own,
            watched: Vec::new(),
            names: BTreeSet::new(),
            call_instruction,
            under_way: Vec::new(),
            refused: None,
            stores: 0,
        });
        self.watch(thread)?;
        request(libc::PTRACE_SYSCALL, thread, 0)
    }

    /// How many stores there were.
    pub fn stores(&self) -> u64 {
        self.stores.as_ref().map_or(0, |stores| stores.stores)
    }

    /// True where the process has had memory of others whose name ends like this.
    pub fn had_memory(&self, end: &str) -> bool {
        self.stores.as_ref().is_some_and(|stores| stores.names.iter().any(|name| name.ends_with(end)))
    }

    /// The number of a call that the system has refused since it met memory that is watched.
    pub fn met_memory(&self) -> Option<u64> {
        self.stores.as_ref()?.refused
    }

    /// Stops the first thread of the process, not before a call; none where it is gone.
    fn stop(&self) -> io::Result<Option<pid_t>> {
        let thread = self.process;
        loop {
            match request(libc::PTRACE_INTERRUPT, thread, 0) {
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
                other => other?,
            }
            // Any stop that comes first is in the place of the one that was asked for.
            let Some(status) = super::wait(thread)? else { return Ok(None) };
            let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
            let is_call = (signal, event) == (CALL, 0);
            let is_before_call =
                is_call && super::call_info(thread)?.is_some_and(|info| info.kind == super::ENTRY);
            if event == super::EVENT_STOP || is_call && !is_before_call {
                return Ok(Some(thread));
            }
            let passed_on = if is_call || event != 0 { 0 } else { signal };
            request(libc::PTRACE_SYSCALL, thread, passed_on as usize)?;
        }
    }

    /// Makes all memory of others read-only that is not yet.
    fn watch(&mut self, thread: pid_t) -> io::Result<()> {
        let mappings = self.mappings()?;
        let Some(stores) = &mut self.stores else { return Ok(()) };
        let new = mappings
            .into_iter()
            .filter(|mapping| mapping.is_shared && mapping.is_writable && !(stores.is_own)(&mapping.name));
        let (new, names): (Vec<Range<u64>>, Vec<String>) =
            new.map(|mapping| (mapping.memory, mapping.name)).unzip();
        stores.watched.extend(new.iter().cloned());
        stores.names.extend(names);
        self.protect(thread, &new, READ_ONLY)
    }

    /// Makes all memory writable that is watched, as it is without a tracer. A call that the thread is about to make is not made.
    pub(super) fn release(&mut self, thread: pid_t) -> io::Result<()> {
        let Some(stores) = &mut self.stores else { return Ok(()) };
        let watched = std::mem::take(&mut stores.watched);
        let is_ours = |memory: &Range<u64>| {
            watched.iter().any(|ours| ours.start < memory.end && memory.start < ours.end)
        };
        let mappings = self.mappings()?.into_iter();
        let ours = mappings.filter(|mapping| mapping.is_shared && !mapping.is_writable);
        let ours: Vec<Range<u64>> = ours.map(|mapping| mapping.memory).filter(is_ours).collect();
        Registers::of(thread)?.without_call().set(thread)?;
        if super::call_info(thread)?.is_some_and(|info| info.kind == super::ENTRY) {
            request(libc::PTRACE_SYSCALL, thread, 0)?;
            super::wait(thread)?;
        }
        self.protect(thread, &ours, WRITABLE)
    }

    /// The same, while all threads run.
    pub(super) fn release_all(&mut self) -> io::Result<()> {
        if self.stores.as_ref().is_none_or(|stores| stores.watched.is_empty()) {
            return Ok(());
        }
        match self.stop()? {
            Some(thread) => self.release(thread),
            None => Ok(()),
        }
    }

    /// Has a thread that has stopped change the protection of memory.
    fn protect(&self, thread: pid_t, memory: &[Range<u64>], protection: u64) -> io::Result<()> {
        let Some(stores) = &self.stores else { return Ok(()) };
        let registers = Registers::of(thread)?;
        for range in memory {
            let arguments = [range.start, range.end - range.start, protection];
            // What another thread has unmapped meanwhile is refused.
            let done = registers.call(thread, stores.call_instruction, libc::SYS_mprotect, arguments)?;
            if done.is_none() {
                return Ok(());
            }
        }
        registers.set(thread)
    }

    /// A thread has met memory that may not be written: true where that is watched, and the store is made now.
    pub(super) fn store(&mut self, thread: pid_t) -> io::Result<bool> {
        let Some(address) = self.refused_store(thread)? else { return Ok(false) };
        let instruction = Registers::of(thread)?.instruction();
        if let Some(stores) = &mut self.stores {
            stores.stores += 1;
        }
        let process = self.process;
        let what = |when: &str| format!("{when} a store {}", place(process, address, instruction));
        self.reach(thread, || what("before"))?;
        if self.killed_at.is_some() {
            return Ok(true);
        }
        let mut pages = BTreeSet::from([address / PAGE * PAGE]);
        let (mut begins, mut repeats) = (true, 0_u64);
        loop {
            let ranges: Vec<_> = pages.iter().map(|page| *page..page + PAGE).collect();
            if begins {
                self.protect(thread, &ranges, WRITABLE)?;
            }
            begins = false;
            let behind = if repeats > 0 { Registers::of(thread)?.behind_string(thread) } else { None };
            let waited = match behind {
                Some(behind) => Registers::run_to(thread, behind)?,
                None => wait_for(thread, libc::PTRACE_SINGLESTEP)?,
            };
            match waited {
                // An instruction that repeats itself stops behind each time.
                Waited::Stepped if Registers::of(thread)?.instruction() == instruction => {
                    repeats += 1;
                    if repeats == 1 {
                        self.reach(thread, || what("in"))?;
                    }
                }
                Waited::Stepped => {
                    self.protect(thread, &ranges, READ_ONLY)?;
                    break;
                }
                Waited::Signal(libc::SIGSEGV) => match self.refused_store(thread)? {
                    Some(further) if pages.insert(further / PAGE * PAGE) => {
                        begins = true;
                        if repeats > 0 {
                            self.reach(thread, || what("in"))?;
                        }
                    }
                    _ => return Ok(false),
                },
                Waited::Signal(_) => return Ok(false),
                Waited::End => return Ok(true),
            }
            if self.killed_at.is_some() {
                return Ok(true);
            }
        }
        self.reach(thread, || what("behind"))?;
        Ok(true)
    }

    /// The address of a store that was refused since its memory is watched.
    fn refused_store(&self, thread: pid_t) -> io::Result<Option<u64>> {
        let Some(stores) = &self.stores else { return Ok(None) };
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the request writes a structure of this type; zeros are a value of it. A fault has an address.
        let (code, address) = unsafe {
            if libc::ptrace(libc::PTRACE_GETSIGINFO, thread, 0_usize, info.as_mut_ptr()) < 0 {
                return Ok(None);
            }
            let info = info.assume_init();
            (info.si_code, info.si_addr().addr() as u64)
        };
        Ok((code == NO_RIGHT && stores.is_watched(address)).then_some(address))
    }

    /// A thread makes a call, which counts unless it changes nothing that others can see.
    pub(super) fn makes(&mut self, thread: pid_t, info: &CallInfo) -> bool {
        let Some(stores) = &mut self.stores else { return true };
        let counts = !OWN.iter().any(|own| own.cast_unsigned() == info.number);
        let maps = info.number == libc::SYS_mmap.cast_unsigned()
            && info.arguments[2] & libc::PROT_WRITE as u64 != 0
            && info.arguments[3] & libc::MAP_SHARED as u64 != 0;
        stores.under_way.retain(|(other, ..)| *other != thread);
        stores.under_way.push((thread, info.number, maps));
        counts
    }

    /// A thread has made a call.
    pub(super) fn has_made(&mut self, thread: pid_t, answer: i64) -> io::Result<()> {
        let Some(stores) = &mut self.stores else { return Ok(()) };
        let Some(at) = stores.under_way.iter().position(|(other, ..)| *other == thread) else {
            return Ok(());
        };
        let (_, number, maps) = stores.under_way.swap_remove(at);
        if answer == -i64::from(libc::EFAULT) {
            stores.refused = Some(number);
        }
        if maps {
            self.watch(thread)?;
        }
        if OWN.iter().any(|own| own.cast_unsigned() == number) {
            return Ok(());
        }
        self.reach(thread, || format!("behind call number {number}"))
    }

    fn mappings(&self) -> io::Result<Vec<Mapping>> {
        mappings(self.process)
    }
}

fn mappings(process: pid_t) -> io::Result<Vec<Mapping>> {
    let text = fs::read_to_string(format!("/proc/{process}/maps"))?;
    Ok(text.lines().filter_map(Mapping::of).collect())
}

impl Mapping {
    /// A mapping as `/proc/PID/maps` has it.
    fn of(line: &str) -> Option<Mapping> {
        let mut fields = line.splitn(6, ' ');
        let (memory, rights, offset) = (fields.next()?, fields.next()?, fields.next()?);
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = memory.split_once('-')?;
        Some(Mapping {
            memory: number(start)?..number(end)?,
            is_shared: rights.ends_with('s'),
            is_writable: rights.contains('w'),
            offset: number(offset)?,
            name: fields.nth(2).unwrap_or_default().trim().to_owned(),
        })
    }
}

/// A store, as a person finds it: the memory, and the code.
fn place(process: pid_t, address: u64, instruction: u64) -> String {
    let mappings = mappings(process).unwrap_or_default();
    let at = |address: u64| {
        let mapping = mappings.iter().find(|mapping| mapping.memory.contains(&address));
        mapping.map_or_else(String::new, |mapping| {
            let offset = address - mapping.memory.start + mapping.offset;
            format!("{}+{offset:#x}", mapping.name)
        })
    };
    format!("at {} by {}", at(address), at(instruction))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_read_from_its_line() {
        let line = "7f00-7f10 rw-s 00001000 00:01 12   /memfd:a name (deleted)";
        let mapping = Mapping::of(line).unwrap();
        assert!(mapping.is_shared && mapping.is_writable);
        assert_eq!((mapping.memory, mapping.offset), (0x7f00..0x7f10, 0x1000));
        assert_eq!(mapping.name, "/memfd:a name (deleted)");
        let own = Mapping::of("7f00-7f10 r--p 00000000 00:00 0").unwrap();
        assert!(!own.is_shared && !own.is_writable && own.name.is_empty());
    }

    /// Makes two stores into a file that it has mapped.
    #[cfg(target_arch = "x86_64")]
    const STORES: &str = "import mmap, sys
file = open(sys.argv[1], 'r+b')
memory = mmap.mmap(file.fileno(), 4096)
print('up', flush=True)
sys.stdin.readline()
memory[0] = 1
memory[1] = 2
print('ok', flush=True)
sys.stdin.readline()
";

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_process_is_killed_before_between_and_behind_two_stores() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("memory");
        let mut found = Vec::new();
        for last in 1.. {
            fs::write(&path, [0; PAGE as usize]).unwrap();
            let (is_killed, stores) = killed(STORES, &path, last);
            let memory = fs::read(&path).unwrap();
            found.push([memory[0], memory[1]]);
            if !is_killed {
                assert_eq!(stores, 2);
                break;
            }
        }
        found.dedup();
        assert_eq!(found, [[0, 0], [1, 0], [1, 2]]);
    }

    /// Fills three pages by one instruction: `rep stosb`.
    #[cfg(target_arch = "x86_64")]
    const STRING: &str = "import ctypes, mmap, sys
file = open(sys.argv[1], 'r+b')
memory = mmap.mmap(file.fileno(), 3 * 4096)
code = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes([0x48, 0x89, 0xd1, 0x89, 0xf0, 0xf3, 0xaa, 0xc3]))
address = ctypes.addressof(ctypes.c_char.from_buffer(code))
fill = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)(address)
target = ctypes.addressof(ctypes.c_char.from_buffer(memory))
print('up', flush=True)
sys.stdin.readline()
fill(target, 7, 3 * 4096)
print('ok', flush=True)
sys.stdin.readline()
";

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_string_instruction_has_a_point_behind_its_first_byte_and_one_at_each_further_page() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("memory");
        let mut found = Vec::new();
        for last in 1.. {
            fs::write(&path, [0; 3 * PAGE as usize]).unwrap();
            let (is_killed, stores) = killed(STRING, &path, last);
            found.push(fs::read(&path).unwrap().iter().filter(|byte| **byte == 7).count());
            if !is_killed {
                assert_eq!(stores, 1);
                break;
            }
        }
        found.dedup();
        assert_eq!(found, [0, 1, 4096, 8192, 12288]);
    }

    /// Runs a program that makes stores once it hears a line, and kills it at a point; whether it was killed, and how many stores there were.
    #[cfg(target_arch = "x86_64")]
    fn killed(program: &str, path: &std::path::Path, last: u64) -> (bool, u64) {
        use std::io::{Read, Write};
        use std::process::{Command, Stdio};
        use std::time::Duration;

        let mut child = Command::new("python3")
            .args(["-c", program])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 3]).unwrap();
        let mut tracer = Tracer::attach(child.id()).unwrap();
        let (quiet, patience) = (Duration::from_millis(50), Duration::from_secs(60));
        tracer.begin(quiet, last).unwrap();
        tracer.count_stores(|_| false).unwrap();
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        assert!(tracer.run_until(|_| false, quiet, patience).unwrap());
        let (is_killed, stores) = (tracer.killed_at().is_some(), tracer.stores());
        assert_eq!(tracer.met_memory(), None);
        tracer.end().unwrap();
        // The tracer has waited for it.
        assert!(child.wait().is_err());
        (is_killed, stores)
    }
}
