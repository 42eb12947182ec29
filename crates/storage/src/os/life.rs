//! A word in shared memory that says if a process lives.
//!
//! # Why
//! A process that dies gives its locks back, and another one may write what it had locked. Whoever reads beside it by a descriptor of its own has to
//! know that no later than that. A stream ends too late: the system ends a process's streams behind its locks.
//!
//! # How
//! The word has the number of a thread of the process, and is in that thread's list of robust futexes (`set_robust_list(2)`). The system walks the
//! list when the thread ends, also by SIGKILL and by `exec`, before the process's descriptors are closed. It takes the number out of the
//! word.
//!
//! # Promises
//! 1. While the word has a number the process has not closed a descriptor by its end: its locks are held, unless it has given them back itself.
//! 2. The word lies in memory that others may write. What is followed by this process lies in memory of its own.
//! 3. The thread does nothing else, and ends with the last [`Life`].

use crate::fork;
use crate::sync::{Condvar, Mutex};
use crate::thread;
use std::io;
use std::mem::size_of;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The part of the word that is a thread's number (linux/futex.h).
const NUMBER: u32 = 0x3fff_ffff;

/// What the system sets in its place.
const DIED: u32 = 0x4000_0000;

/// True if the process lives whose word this is.
pub fn is_alive(word: &AtomicU32) -> bool {
    word.load(Ordering::SeqCst) & NUMBER != 0
}

/// True if the process has died whose word this is; `false` where it has ended its [`Life`] itself.
pub fn has_died(word: &AtomicU32) -> bool {
    word.load(Ordering::SeqCst) & (NUMBER | DIED) == DIED
}

/// Memory that has a word at a fixed place, for as long as it lives.
pub trait HasWord: Send + Sync + 'static {
    /// The word.
    fn word(&self) -> &AtomicU32;
}

/// A word says that this process lives, until this is dropped.
pub struct Life {
    ends: Arc<(Mutex<State>, Condvar)>,
    /// The process that it is of, as a number of forks.
    generation: u32,
}

/// How far the thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Begins,
    Lives,
    Failed,
    Ends,
}

impl Life {
    /// The word of a memory says from now on that this process lives.
    ///
    /// # Errors
    /// Errors of the system, which may have no such lists.
    pub fn begin(memory: Arc<impl HasWord>) -> io::Result<Life> {
        let ends = Arc::new((Mutex::new(State::Begins), Condvar::new()));
        let theirs = ends.clone();
        let _ = thread::spawn("litefoot-life", move || live(&*memory, &theirs))?;
        let mut state = ends.0.lock();
        ends.1.wait_while(&mut state, |state| *state == State::Begins);
        let lives = *state == State::Lives;
        drop(state);
        if lives {
            Ok(Life { ends, generation: fork::generation() })
        } else {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // In a forked child there is no such thread, and its lock may be held for ever.
        if self.generation == fork::generation() {
            *self.ends.0.lock() = State::Ends;
            self.ends.1.notify_all();
        }
    }
}

/// `struct robust_list` (linux/futex.h).
#[repr(C)]
struct Entry {
    next: *const Entry,
}

/// `struct robust_list_head` (linux/futex.h).
#[repr(C)]
struct Head {
    list: Entry,
    futex_offset: libc::c_long,
    pending: *const Entry,
}

fn live(memory: &impl HasWord, ends: &(Mutex<State>, Condvar)) {
    let word = memory.word();
    let mut entry = Entry { next: ptr::null() };
    let mut head = Head { list: Entry { next: ptr::null() }, futex_offset: 0, pending: ptr::null() };
    let entry_address = (&raw const entry).addr();
    // From the entry, which is this process's own, to the word, which others may write.
    head.futex_offset = ptr::from_ref(word).addr().wrapping_sub(entry_address) as libc::c_long;
    let (mut former, mut bytes) = (ptr::null::<Head>(), 0_usize);
    entry.next = (&raw const head).cast();
    head.list.next = &raw const entry;
    // SAFETY: plain system calls. The list, and the memory of the word, outlive its use: another list is set before this returns.
    let lives = unsafe {
        libc::syscall(libc::SYS_get_robust_list, 0, &raw mut former, &raw mut bytes) == 0
            && libc::syscall(libc::SYS_set_robust_list, &raw const head, size_of::<Head>()) == 0
    };
    if lives {
        // SAFETY: the call has no preconditions.
        let number = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        word.store(number, Ordering::SeqCst);
    }
    let mut state = ends.0.lock();
    if *state == State::Begins {
        *state = if lives { State::Lives } else { State::Failed };
        ends.1.notify_all();
    }
    if lives {
        ends.1.wait_while(&mut state, |state| *state != State::Ends);
    }
    drop(state);
    if lives {
        word.store(0, Ordering::SeqCst);
        // SAFETY: the list that the C library has made for this thread, which is there until the thread ends.
        unsafe { libc::syscall(libc::SYS_set_robust_list, former, bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::shared_memory::map_over;
    use std::fs::File;
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::{Child, Command, Stdio};
    use std::ptr::NonNull;

    /// The test as a process of its own, the file of its word, and how it ends.
    const FILE: &str = "LITEFOOT_TEST_LIFE";
    const ENDS: &str = "LITEFOOT_TEST_LIFE_ENDS";
    const BYTES: usize = 4096;

    /// The beginning of a file, as memory that stays.
    struct Mapped(NonNull<u8>);

    // SAFETY: used as an atomic word only.
    unsafe impl Send for Mapped {}
    // SAFETY: as above.
    unsafe impl Sync for Mapped {}

    impl Mapped {
        fn of(path: &Path) -> Mapped {
            let file = File::options().read(true).write(true).open(path).unwrap();
            let layout = std::alloc::Layout::from_size_align(BYTES, BYTES).unwrap();
            // SAFETY: pages of this process's own, which are never freed.
            let memory = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).unwrap();
            // SAFETY: nobody counts on what is there.
            unsafe { map_over(&file, 0, memory, BYTES) }.unwrap();
            Mapped(memory)
        }
    }

    impl HasWord for Mapped {
        fn word(&self) -> &AtomicU32 {
            // SAFETY: aligned, and used as an atomic word by all.
            unsafe { self.0.cast().as_ref() }
        }
    }

    #[test]
    fn a_word_has_a_number_while_its_life_lasts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("word");
        std::fs::write(&path, [0; BYTES]).unwrap();
        let memory = Arc::new(Mapped::of(&path));
        assert!(!is_alive(memory.word()));
        let life = Life::begin(memory.clone()).unwrap();
        assert!(is_alive(memory.word()));
        drop(life);
        while is_alive(memory.word()) || Arc::strong_count(&memory) > 1 {
            std::thread::yield_now();
        }
    }

    /// Not a test of its own: the process of the next one.
    #[test]
    fn the_life_of_a_process() {
        let (Some(path), Some(ends)) = (std::env::var_os(FILE), std::env::var_os(ENDS)) else { return };
        let _life = Life::begin(Arc::new(Mapped::of(Path::new(&path)))).unwrap();
        eprintln!("lives");
        if ends == "exec" {
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).unwrap();
            let error = Command::new("sleep").arg("60").stderr(Stdio::null()).exec();
            panic!("{error}");
        }
        std::thread::sleep(std::time::Duration::from_secs(60));
    }

    fn process(path: &Path, ends: &str) -> Child {
        let name = "os::life::tests::the_life_of_a_process";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", name])
            .envs([(FILE, path.as_os_str()), (ENDS, ends.as_ref())])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        assert!(errors.lines().any(|line| line.unwrap().contains("lives")));
        child
    }

    #[test]
    fn a_process_that_is_killed_or_becomes_another_program_leaves_no_number() {
        let directory = tempfile::tempdir().unwrap();
        for ends in ["kill", "exec"] {
            let path = directory.path().join(ends);
            std::fs::write(&path, [0; BYTES]).unwrap();
            let memory = Mapped::of(&path);
            let mut child = process(&path, ends);
            assert!(is_alive(memory.word()), "{ends}");
            if ends == "exec" {
                drop(child.stdin.take());
                while is_alive(memory.word()) {
                    std::thread::yield_now();
                }
                assert!(child.try_wait().unwrap().is_none(), "the process is there still");
            }
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(!is_alive(memory.word()), "{ends}");
        }
    }
}
