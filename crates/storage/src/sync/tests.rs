use super::*;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const THREADS: u64 = 4;
const ROUNDS: u64 = 5000;

#[test]
fn threads_change_one_at_a_time_what_a_mutex_guards() {
    let counter = Mutex::new([0_u64; 2]);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let mut both = counter.lock();
                    both[0] += 1;
                    both[1] += 1;
                    assert_eq!(both[0], both[1]);
                }
            });
        }
    });
    assert_eq!(*counter.lock(), [THREADS * ROUNDS; 2]);
    assert!(counter.try_lock().is_some() && !counter.is_locked());
}

#[test]
fn threads_read_together_or_write_alone() {
    let pair = RwLock::new([0_u64; 2]);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let mut pair = pair.write();
                    pair[0] += 1;
                    pair[1] += 1;
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let pair = pair.read();
                    assert_eq!(pair[0], pair[1]);
                }
            });
        }
    });
    assert_eq!(*pair.read(), [2 * ROUNDS; 2]);
    let reader = pair.read();
    assert!(pair.try_read().is_some() && pair.try_write().is_none());
    drop(reader);
    let writer = pair.write();
    assert!(pair.try_read().is_none() && pair.try_write().is_none());
    drop(writer);
    assert!(!pair.is_locked());
}

#[test]
fn a_writer_that_waits_is_not_passed_by_new_readers() {
    let lock = Arc::new(RwLock::new(0));
    let first = lock.read();
    let writer = {
        let lock = lock.clone();
        thread::spawn(move || *lock.write() = 1)
    };
    while lock.try_read().is_some() {
        thread::yield_now();
    }
    drop(first);
    writer.join().unwrap();
    assert_eq!(*lock.read(), 1);
}

#[test]
fn threads_that_wait_for_a_change_hear_of_it() {
    let (value, changed) = (Mutex::new(0_u64), Condvar::new());
    thread::scope(|scope| {
        for turn in 0..THREADS {
            let (value, changed) = (&value, &changed);
            scope.spawn(move || {
                for round in 0..200 {
                    let mut now = value.lock();
                    changed.wait_while(&mut now, |now| *now != round * THREADS + turn);
                    *now += 1;
                    drop(now);
                    changed.notify_all();
                }
            });
        }
    });
    assert_eq!(*value.lock(), 200 * THREADS);
    let mut guard = value.lock();
    let since = Instant::now();
    while !changed.wait_for(&mut guard, Duration::from_millis(5)).timed_out() {}
    assert!(since.elapsed() >= Duration::from_millis(5));
    assert!(changed.wait_until(&mut guard, since).timed_out());
}

#[derive(Default, PartialEq, Eq, Debug)]
struct Number(u32);

impl AcrossFork for Number {
    fn inherit(parents: Number) -> Number {
        Number(parents.0 + 100)
    }
}

/// The exit status of a forked child.
#[cfg(target_os = "linux")]
fn in_child(run: impl FnOnce() -> bool) -> i32 {
    extern "C" fn nothing() {}
    crate::fork::watch(crate::fork::Hooks { before: nothing, in_parent: nothing, in_child: nothing });
    // SAFETY: the child uses nothing but what is under test, and ends at once; what hangs there is killed.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(10);
            libc::_exit(if run() { 0 } else { 1 });
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        status
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_forked_child_finds_a_global_lock_free_whoever_held_it() {
    static FREE: Global<Number> = Global::new(Number(7));
    static TAKEN: Global<Number> = Global::new(Number(7));
    let generation = crate::fork::generation();
    let guard = TAKEN.lock();
    let awaits = thread::spawn(|| TAKEN.lock().0 += 1);
    let status = in_child(|| {
        // A value that nobody held goes on; a value that was being changed begins anew.
        let free = FREE.lock().0;
        let again = FREE.lock().0;
        let new = thread::spawn(|| std::mem::replace(&mut TAKEN.lock().0, 3)).join();
        crate::fork::generation() != generation
            && (free, again) == (107, 107)
            && new.is_ok_and(|new| new == 0)
            && TAKEN.lock().0 == 3
    });
    assert_eq!(status, 0);
    drop(guard);
    awaits.join().unwrap();
    assert_eq!((TAKEN.lock().0, FREE.lock().0), (8, 7));
}
