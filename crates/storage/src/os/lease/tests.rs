use super::*;
use crate::file::{File, FileKind, Medium, OpenMode};
use crate::os::OsMedium;
use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, Sender, channel};
use tempfile::TempDir;

/// Set in a process that runs one test alone, because it changes what the whole process has.
const ALONE: &str = "LITEFOOT_TEST_ALONE";

/// Places on file systems that grant leases.
fn places() -> Vec<TempDir> {
    ["/dev/shm", "/var/tmp"].iter().filter_map(|place| tempfile::tempdir_in(place).ok()).collect()
}

fn open(path: &Path) -> Arc<dyn File> {
    OsMedium.open(path, FileKind::Database, OpenMode::Create).unwrap()
}

/// A process that opens the file for reading, and ends.
fn reader(path: &Path) -> Child {
    Command::new("sh").args(["-c", ": < \"$0\""]).arg(path).spawn().unwrap()
}

/// Gives the lease back at a break, and sends word before it does.
fn gives_back(file: &Arc<dyn File>, word: Sender<()>) -> OnBreak {
    let file = Arc::downgrade(file);
    Arc::new(move || {
        let _ = word.send(());
        if let Some(file) = file.upgrade() {
            file.release_lease();
        }
    })
}

/// Takes a lease of a file that nobody else has open. Processes that other tests start have for a moment what was open here.
fn take(file: &Arc<dyn File>, on_break: &OnBreak) {
    while file.take_lease(on_break.clone()) == LeaseAnswer::Company {
        std::thread::yield_now();
    }
    assert_eq!(file.take_lease(on_break.clone()), LeaseAnswer::Granted, "{}", file.path().display());
}

fn leased(path: &Path) -> (Arc<dyn File>, Receiver<()>) {
    let (word, told) = channel();
    let file = open(path);
    take(&file, &gives_back(&file, word));
    (file, told)
}

fn database(directory: &TempDir) -> PathBuf {
    directory.path().join("f")
}

#[test]
fn another_process_waits_in_open_until_the_lease_is_given_back() {
    for directory in places() {
        let path = database(&directory);
        let file = open(&path);
        let (word, told) = channel();
        assert_eq!(file.take_lease(Arc::new(move || word.send(()).unwrap())), LeaseAnswer::Granted);
        // A look is no open, and neither is what the owner does itself.
        fs::metadata(&path).unwrap();
        file.write_at(b"bytes", 0).unwrap();
        file.set_len(3).unwrap();
        let mut other = reader(&path);
        told.recv().unwrap();
        assert!(other.try_wait().unwrap().is_none());
        file.release_lease();
        assert!(other.wait().unwrap().success());
        assert!(told.try_recv().is_err());
    }
}

#[test]
fn who_does_not_want_to_wait_is_refused_and_noticed() {
    for directory in places() {
        let (file, told) = leased(&database(&directory));
        let opened = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(file.path());
        assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        told.recv().unwrap();
    }
}

/// Although it waits for no pipe and no device.
#[test]
fn litefoot_waits_for_a_lease_as_others_do() {
    for directory in places() {
        let path = database(&directory);
        let file = open(&path);
        let (word, told) = channel();
        take(&file, &(Arc::new(move || word.send(()).unwrap()) as OnBreak));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| open(&path).id());
            told.recv().unwrap();
            file.release_lease();
            assert_eq!(other.join().unwrap(), file.id());
        });
    }
}

#[test]
fn company_is_another_description() {
    for directory in places() {
        let path = database(&directory);
        let (first, second) = (open(&path), open(&path));
        let on_break: OnBreak = Arc::new(|| ());
        assert_eq!(first.take_lease(on_break.clone()), LeaseAnswer::Company);
        drop(second);
        take(&first, &on_break);
    }
}

#[test]
fn each_taking_is_told_once_and_a_release_is_final() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = database(&directory);
    let (word, told) = channel();
    let file = open(&path);
    let on_break = gives_back(&file, word);
    for round in 0..50 {
        take(&file, &on_break);
        if round % 3 == 0 {
            file.release_lease();
            drop(fs::File::open(&path).unwrap());
            assert!(told.try_recv().is_err());
        } else {
            drop(fs::File::open(&path).unwrap());
            told.recv().unwrap();
        }
    }
    file.release_lease();
    // The broker lets go of its own a moment after it has run.
    while Arc::strong_count(&on_break) > 1 {
        std::thread::yield_now();
    }
}

#[test]
fn a_closed_file_is_forgotten_before_its_number_is_used_again() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let others = directory.path().join("others");
    fs::write(&others, "").unwrap();
    for _ in 0..20 {
        let (file, told) = leased(&database(&directory));
        drop(file);
        // With the number of the closed one.
        let (unlike, unlike_told) = leased(&others);
        assert!(reader(&database(&directory)).wait().unwrap().success());
        assert!(told.try_recv().is_err() && unlike_told.try_recv().is_err());
        drop(unlike);
        assert!(reader(&others).wait().unwrap().success());
    }
}

#[test]
fn many_openers_wait_together() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let (file, told) = leased(&database(&directory));
    let others: Vec<Child> = (0..20).map(|_| reader(file.path())).collect();
    for mut other in others {
        assert!(other.wait().unwrap().success());
    }
    told.recv().unwrap();
    assert!(told.try_recv().is_err());
}

#[test]
fn an_on_break_may_release_other_leases_and_take_them_and_panic() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let [one, two] = ["one", "two"].map(|name| open(&directory.path().join(name)));
    let (word, told) = channel();
    assert_eq!(two.take_lease(Arc::new(|| ())), LeaseAnswer::Granted);
    let at_break: OnBreak = {
        let (one, two) = (Arc::downgrade(&one), two.clone());
        Arc::new(move || {
            two.release_lease();
            let again = two.take_lease(gives_back(&two, word.clone()));
            one.upgrade().unwrap().release_lease();
            assert_eq!(again, LeaseAnswer::Company, "on purpose: it is granted, and this panics");
        })
    };
    assert_eq!(one.take_lease(at_break), LeaseAnswer::Granted);
    assert!(reader(one.path()).wait().unwrap().success());
    assert!(reader(two.path()).wait().unwrap().success());
    told.recv().unwrap();
}

/// As a database does that is read past the system's cache, or overwritten atomically. Once there was a lease, no second description is
/// made.
#[test]
fn a_file_that_was_opened_twice_here_has_no_lease() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = database(&directory);
    fs::write(&path, vec![7; 8192]).unwrap();
    let on_break: OnBreak = Arc::new(|| ());
    let file = open(&path);
    take(&file, &on_break);
    for _ in 0..2 {
        let past = file.past_cache().unwrap();
        let mut found = [0; 4096];
        assert_eq!((past.read_at(&mut found, 4096).unwrap(), found), (4096, [7; 4096]));
        assert!(past.raw_descriptor().is_none() && !past.reads_ahead());
        file.release_lease();
        take(&file, &on_break);
    }
    drop(file);
    let file = open(&path);
    if let Some(past) = file.past_cache() {
        assert_eq!(file.take_lease(on_break), LeaseAnswer::Unsupported);
        drop(past);
    }
}

#[test]
fn strangers_have_no_lease() {
    // SAFETY: asks only.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = database(&directory);
    fs::write(&path, "").unwrap();
    let file = open(&path);
    // Root may take any lease. Of this thread alone: the user of files, and with it the rights of root over them.
    let answer = std::thread::spawn(move || {
        // SAFETY: changes this thread, which ends.
        unsafe { libc::syscall(libc::SYS_setresuid, -1, 65_534, -1) };
        file.take_lease(Arc::new(|| ()))
    });
    assert_eq!(answer.join().unwrap(), LeaseAnswer::Unsupported);
}

/// A forked child has no part in its parent's lease, and can have one of its own.
#[test]
fn a_forked_child_neither_keeps_a_lease_nor_lacks_one() {
    extern "C" fn nothing() {}
    crate::fork::watch(crate::fork::Hooks { before: nothing, in_parent: nothing, in_child: nothing });
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let (file, told) = leased(&database(&directory));
    let others = directory.path().join("others");
    let mut pipe = [0; 2];
    // SAFETY: the child of this test uses the broker and plain files, and ends; what hangs there is killed.
    let child = unsafe {
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        let child = libc::fork();
        if child == 0 {
            libc::alarm(20);
            let (own, told) = leased(&others);
            let opened = reader(&others).wait().is_ok_and(|status| status.success());
            let is_well = opened && told.recv().is_ok();
            drop(own);
            file.release_lease();
            libc::write(pipe[1], [u8::from(is_well)].as_ptr().cast(), 1);
            loop {
                libc::pause();
            }
        }
        child
    };
    let mut is_well = [0u8];
    // SAFETY: the buffer has one byte.
    assert_eq!(unsafe { libc::read(pipe[0], is_well.as_mut_ptr().cast(), 1) }, 1);
    assert_eq!(is_well, [1]);
    // Neither did the child give the lease of its parent back, nor is it there when the parent has closed the file.
    let path = file.path().to_owned();
    assert!(reader(&path).wait().unwrap().success());
    told.recv().unwrap();
    drop(file);
    let again = leased(&path);
    drop(again);
    // SAFETY: the child of above.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, ptr::null_mut(), 0);
    }
}

/// Runs a test of this file in a process of its own; true in that process.
fn alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let name = module_path!().split_once("::").map(|(_, path)| format!("{path}::{test}")).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", &name]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{} {said}", output.status);
    false
}

#[test]
fn a_break_is_noticed_where_no_signal_can_be_queued() {
    if !alone("a_break_is_noticed_where_no_signal_can_be_queued") {
        return;
    }
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let (file, told) = leased(&database(&directory));
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure outlives the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_SIGPENDING, &raw const none) }, 0);
    assert!(reader(file.path()).wait().unwrap().success());
    told.recv().unwrap();
}

#[test]
fn signals_of_the_application_come_to_the_application() {
    static HANDLED: AtomicU64 = AtomicU64::new(0);
    extern "C" fn note(number: c_int) {
        HANDLED.fetch_or(bit(number), Ordering::SeqCst);
    }
    if !alone("signals_of_the_application_come_to_the_application") {
        return;
    }
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let (file, told) = leased(&database(&directory));
    let (first, thread) = {
        let broker = BROKER.lock();
        (broker.number, broker.thread.unwrap())
    };
    assert!(NUMBERS.contains(&first));
    for turn in 0..2 {
        let number = BROKER.lock().number;
        assert_eq!(number == first, turn == 0);
        let mut info = MaybeUninit::<siginfo_t>::zeroed();
        // As if it had come to the process: the kernel chooses the broker where the other threads block the signal.
        // SAFETY: the handler may run anywhere. Zeros are a value of the information, which outlives the call.
        unsafe {
            libc::signal(number, note as *const () as libc::sighandler_t);
            (*info.as_mut_ptr()).si_signo = number;
            (*info.as_mut_ptr()).si_code = libc::SI_QUEUE;
            let sent =
                libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), thread, number, info.as_ptr());
            assert_eq!(sent, 0);
        }
        while HANDLED.load(Ordering::SeqCst) & bit(number) == 0 {
            std::thread::yield_now();
        }
    }
    // The broker waits for no signal any more.
    assert_eq!(BROKER.lock().theirs, bit(NUMBERS[0]) | bit(NUMBERS[1]));
    assert!(reader(file.path()).wait().unwrap().success());
    told.recv().unwrap();
    drop(file);
    let (file, told) = leased(&database(&directory));
    assert!(reader(file.path()).wait().unwrap().success());
    told.recv().unwrap();
}

/// No thread here blocks them, and none handles them.
#[test]
fn a_signal_that_goes_astray_ends_nothing() {
    if !alone("a_signal_that_goes_astray_ends_nothing") {
        return;
    }
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    for number in NUMBERS {
        // SAFETY: what comes of it is the question.
        assert_eq!(unsafe { libc::kill(libc::getpid(), number) }, 0);
        // A lease whose signals go to the process, as where a thread of the broker's is not said.
        let path = database(&directory);
        let file = fs::File::create(&path).unwrap();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
        assert!(set_number(descriptor, number));
        // SAFETY: the request takes a number and changes nothing in memory.
        assert_eq!(unsafe { libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_WRLCK) }, 0);
        let opened = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(is_breaking(descriptor));
    }
}

/// The application sets handlers, and takes them away: that discards what nobody has fetched yet.
#[test]
fn a_break_is_noticed_while_the_application_changes_its_handlers() {
    if !alone("a_break_is_noticed_while_the_application_changes_its_handlers") {
        return;
    }
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = database(&directory);
    let (file, told) = leased(&path);
    let number = BROKER.lock().number;
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // SAFETY: both are ignored where they come.
                unsafe {
                    libc::signal(number, libc::SIG_IGN);
                    libc::signal(number, libc::SIG_DFL);
                }
            }
        });
        assert!(reader(&path).wait().unwrap().success());
        told.recv().unwrap();
        is_over.store(true, Ordering::Relaxed);
    });
    drop(file);
}

/// Leases are taken, broken, given back and closed by many threads, beside forks and programs that are started. A signal that came
/// to a thread of this test would be counted.
#[test]
fn no_thread_of_the_application_gets_a_signal() {
    static STRAY: AtomicU64 = AtomicU64::new(0);
    extern "C" fn note(_number: c_int) {
        STRAY.fetch_add(1, Ordering::SeqCst);
    }
    extern "C" fn nothing() {}
    if !alone("no_thread_of_the_application_gets_a_signal") {
        return;
    }
    crate::fork::watch(crate::fork::Hooks { before: nothing, in_parent: nothing, in_child: nothing });
    for number in [NUMBERS[0], NUMBERS[1], libc::SIGIO] {
        // SAFETY: the handler may run anywhere.
        unsafe { libc::signal(number, note as *const () as libc::sighandler_t) };
    }
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let (breaks, turns) = (AtomicU64::new(0), 400);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let path = directory.path().join(number.to_string());
            let breaks = &breaks;
            let work = scope.spawn(move || {
                for turn in 0..turns {
                    let (file, told) = leased(&path);
                    if turn % 4 > 0 {
                        // Comes in time, or too late.
                        let opened =
                            fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
                        breaks.fetch_add(u64::from(opened.is_err()), Ordering::Relaxed);
                        if turn % 4 == 1 {
                            told.recv().unwrap();
                        }
                    }
                    if turn % 2 == 0 {
                        file.release_lease();
                    }
                }
            });
            scope.spawn(move || {
                let mut turn = 0;
                while !work.is_finished() {
                    turn += 1;
                    if turn % 2 == 0 && number == 0 {
                        drop(Command::new("true").status());
                    } else if number == 1 {
                        // SAFETY: the child ends at once.
                        unsafe {
                            let child = libc::fork();
                            if child == 0 {
                                libc::_exit(0);
                            }
                            libc::waitpid(child, ptr::null_mut(), 0);
                        }
                    }
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            });
        }
    });
    assert!(breaks.load(Ordering::Relaxed) > 0);
    assert_eq!(STRAY.load(Ordering::SeqCst), 0);
}

#[test]
fn a_signal_is_theirs_only_where_that_is_certain() {
    let signal = |code, from_here, handled| Arrived { code, from_here, handled };
    let cases = [
        (signal(POLL_MSG, false, false), false),
        (signal(POLL_MSG, false, true), false),
        (signal(libc::SI_QUEUE, false, false), true),
        (signal(libc::SI_TKILL, true, false), false),
        (signal(libc::SI_TKILL, false, false), true),
        // Of a socket with urgent data, or of a terminal.
        (signal(libc::SI_KERNEL, false, false), true),
        (signal(libc::SI_USER, true, false), true),
        (signal(libc::SI_USER, false, true), true),
        (signal(libc::SI_USER, false, false), false),
    ];
    for (signal, theirs) in cases {
        assert_eq!(is_theirs(signal), theirs, "{signal:?}");
    }
}

#[test]
fn the_number_is_one_that_nobody_seems_to_use() {
    let usage = |number, handled, blocked| Usage { number, handled, blocked };
    let cases: [(&[Usage], u64, c_int); 6] = [
        (&[usage(23, false, false), usage(28, false, false)], 0, 23),
        (&[usage(23, true, false), usage(28, false, false)], 0, 28),
        (&[usage(23, false, true), usage(28, true, false)], 0, 28),
        (&[usage(23, true, true), usage(28, false, true)], 0, 28),
        (&[usage(23, false, false), usage(28, true, true)], bit(23), 28),
        (&[usage(23, true, true), usage(28, true, true)], bit(23) | bit(28), 23),
    ];
    for (usages, theirs, expected) in cases {
        assert_eq!(unused_number(usages, theirs), expected, "{usages:?} {theirs:b}");
    }
    assert_eq!((bit(1), bit(64)), (1, 1 << 63));
}
