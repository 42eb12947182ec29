use super::*;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use tempfile::TempDir;

/// Looks that were made in this process.
pub(super) static LOOKS: AtomicU64 = AtomicU64::new(0);
/// Held by tests that count what the whole process has.
static ALONE: Mutex<()> = Mutex::new(());

const LONG: Duration = Duration::from_secs(20);
/// Time in which nothing is told.
const SHORT: Duration = Duration::from_millis(100);

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn directories() -> Vec<TempDir> {
    ["/dev/shm", "/var/tmp"].iter().filter_map(|place| tempfile::tempdir_in(place).ok()).collect()
}

fn made(directory: &TempDir, name: &str) -> PathBuf {
    let path = directory.path().join(name);
    fs::write(&path, name).unwrap();
    path
}

fn id(path: &Path) -> FileId {
    glance(path, Links::Followed).unwrap().0
}

/// The watch of a file by its name, and where that leads each time that something is told.
fn watched(path: &Path) -> (NameWatch, Receiver<Option<Leads>>) {
    let (word, told) = channel();
    let (there, file) = (path.to_owned(), id(path));
    let tell = move || word.send(leads(&there, file)).is_ok();
    (NameWatch::begin(path, file, Arc::new(tell)).unwrap(), told)
}

fn next(told: &Receiver<Option<Leads>>) -> Leads {
    told.recv_timeout(LONG).unwrap().unwrap()
}

/// Waits until a place is told. One that is away may be told more than once.
fn await_told(told: &Receiver<Option<Leads>>, expected: Leads) {
    while next(told) != expected {}
}

/// Descriptors of a directory that this process has.
fn descriptors(directory: &Path) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap().filter_map(|one| fs::read_link(one.ok()?.path()).ok());
    links.filter(|link| link == directory).count()
}

#[test]
fn each_way_to_lose_a_name_is_told_and_so_is_its_coming_back() {
    let _one = alone();
    for directory in directories() {
        let path = made(&directory, "f");
        let [away, other] = ["away", "other"].map(|name| directory.path().join(name));
        let elsewhere = tempfile::tempdir_in(directory.path().parent().unwrap()).unwrap();
        let (_watch, told) = watched(&path);
        let back = || {
            fs::rename(&away, &path).unwrap();
            await_told(&told, Leads::ToIt);
        };
        fs::rename(&path, &away).unwrap();
        await_told(&told, Leads::Nowhere);
        back();
        fs::rename(&path, elsewhere.path().join("f")).unwrap();
        await_told(&told, Leads::Nowhere);
        fs::write(&path, "new").unwrap();
        await_told(&told, Leads::Elsewhere);
        fs::remove_file(&path).unwrap();
        await_told(&told, Leads::Nowhere);
        fs::rename(elsewhere.path().join("f"), &path).unwrap();
        await_told(&told, Leads::ToIt);
        fs::hard_link(&path, &away).unwrap();
        // By another process, from this directory and from another one.
        for from in [&other, &elsewhere.path().join("other")] {
            fs::write(from, "other").unwrap();
            assert!(Command::new("mv").args([from, &path]).status().unwrap().success());
            await_told(&told, Leads::Elsewhere);
            back();
            fs::hard_link(&path, &away).unwrap();
        }
        fs::remove_file(&away).unwrap();
        fs::remove_file(&path).unwrap();
        await_told(&told, Leads::Nowhere);
    }
}

#[test]
fn what_was_lost_before_is_told_and_what_is_not_taken_up_is_told_again() {
    let _one = alone();
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = made(&directory, "f");
    let file = id(&path);
    fs::remove_file(&path).unwrap();
    let (word, told) = channel();
    let refusals = AtomicU64::new(3);
    let tell = move || {
        word.send(Some(Leads::Nowhere)).unwrap();
        refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    };
    let _watch = NameWatch::begin(&path, file, Arc::new(tell)).unwrap();
    for _ in 0..4 {
        next(&told);
    }
    assert!(told.recv_timeout(SHORT).is_err());
}

/// What was done about it may be undone meanwhile.
#[test]
fn a_name_that_was_back_between_two_looks_is_told_again() {
    let _one = alone();
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = made(&directory, "f");
    let away = directory.path().join("away");
    let (_watch, told) = watched(&path);
    fs::rename(&path, &away).unwrap();
    await_told(&told, Leads::Nowhere);
    while told.recv_timeout(SHORT).is_ok() {}
    fs::rename(&away, &path).unwrap();
    fs::rename(&path, &away).unwrap();
    await_told(&told, Leads::Nowhere);
}

#[test]
fn names_of_one_directory_share_a_descriptor_and_end_one_by_one() {
    let _one = alone();
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let [one, two] = ["one", "two"].map(|name| made(&directory, name));
    let (first, first_told) = watched(&one);
    let (second, second_told) = watched(&two);
    assert_eq!(descriptors(directory.path()), 1);
    fs::remove_file(&one).unwrap();
    await_told(&first_told, Leads::Nowhere);
    drop(first);
    fs::remove_file(&two).unwrap();
    await_told(&second_told, Leads::Nowhere);
    fs::write(&one, "").unwrap();
    assert!(first_told.recv_timeout(SHORT).is_err());
    drop(second);
    assert_eq!(descriptors(directory.path()), 0);
}

#[test]
fn an_on_change_may_panic_and_end_its_watch() {
    let _one = alone();
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let [one, two] = ["one", "two"].map(|name| made(&directory, name));
    let own = Arc::new(Mutex::new(None));
    let ended = Arc::new(AtomicBool::new(false));
    let (its, note) = (own.clone(), ended.clone());
    let on_change = move || {
        drop(its.lock().unwrap().take());
        note.store(true, Ordering::Release);
        panic!("on purpose");
    };
    *own.lock().unwrap() = NameWatch::begin(&one, id(&one), Arc::new(on_change));
    let (_watch, told) = watched(&two);
    for path in [&one, &two] {
        fs::remove_file(path).unwrap();
    }
    await_told(&told, Leads::Nowhere);
    assert!(ended.load(Ordering::Acquire) && own.lock().unwrap().is_none());
}

#[test]
fn many_other_renames_cost_few_looks_and_hide_none() {
    let _one = alone();
    for directory in directories() {
        let path = made(&directory, "f");
        let (_watch, told) = watched(&path);
        let (begun, before) = (Instant::now(), LOOKS.load(Ordering::Relaxed));
        let other = directory.path().join("other");
        for _ in 0..10_000 {
            fs::write(&other, "").unwrap();
            fs::remove_file(&other).unwrap();
        }
        fs::rename(&path, &other).unwrap();
        await_told(&told, Leads::Nowhere);
        let looks = LOOKS.load(Ordering::Relaxed) - before;
        let most = begun.elapsed().as_millis() as u64 / PAUSE.as_millis() as u64 + 2;
        assert!(looks <= most, "{looks} looks, and not {most}");
    }
}

#[test]
fn looks_keep_their_distance_and_no_word_is_forgotten() {
    let begin = Instant::now();
    let at = |ms| begin + Duration::from_millis(ms);
    let mut looks = Looks::default();
    for (ms, has_word, expected, next) in [
        (0, true, true, None),
        (1, false, false, None),
        (2, true, false, Some(5)),
        (3, true, false, Some(5)),
        (4, false, false, Some(5)),
        (5, false, true, None),
        (9, true, false, Some(10)),
        (12, false, true, None),
        (100, false, false, None),
        (101, true, true, None),
        (600_100, false, false, None),
        (600_101, false, true, None),
    ] {
        assert_eq!(looks.begins(at(ms), has_word), expected, "{ms}");
        assert_eq!(looks.next, next.map(at), "{ms}");
    }
    looks.again();
    assert!(!looks.begins(at(600_102), false) && looks.begins(at(600_106), false));
}

/// A forked child has no part in its parent's watches, and can have some of its own.
#[test]
fn a_forked_child_has_watches_of_its_own_alone() {
    extern "C" fn nothing() {}
    let _one = alone();
    crate::fork::watch(crate::fork::Hooks { before: nothing, in_parent: nothing, in_child: nothing });
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let [path, others] = ["f", "others"].map(|name| made(&directory, name));
    let (watch, told) = watched(&path);
    let inside = {
        let mut broker = BROKER.lock();
        let directories = &mut broker.names.directories;
        let of_it = directories.iter().find(|one| one.watched.iter().any(|one| one.number == watch.number));
        of_it.unwrap().descriptor.file.as_raw_fd()
    };
    let mut pipe = [0; 2];
    // SAFETY: the child of this test uses the broker and plain files, and ends; what hangs there is killed.
    let child = unsafe {
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        let child = libc::fork();
        if child == 0 {
            libc::alarm(20);
            let leads_nowhere = fs::read_link(format!("/proc/self/fd/{inside}"))
                .is_ok_and(|link| link == Path::new("/dev/null"));
            let (own, own_told) = watched(&others);
            drop(watch);
            let is_told = fs::remove_file(&others).is_ok() && next(&own_told) == Leads::Nowhere;
            drop(own);
            let is_well = leads_nowhere && is_told && told.try_recv().is_err();
            libc::write(pipe[1], [u8::from(is_well)].as_ptr().cast(), 1);
            loop {
                libc::pause();
            }
        }
        let mut answer = [0];
        assert!(libc::read(pipe[0], answer.as_mut_ptr().cast(), 1) == 1 && answer == [1]);
        child
    };
    // The child is still there.
    fs::remove_file(&path).unwrap();
    await_told(&told, Leads::Nowhere);
    // SAFETY: a child of this test's own.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
        for end in pipe {
            libc::close(end);
        }
    }
    drop(watch);
}
