use super::*;
use litefoot_storage::file::{FileKind, Medium, OpenMode};
use litefoot_storage::io::{IoConfig, IoQueue};
use litefoot_storage::os::OsMedium;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

fn workers(threads: usize) -> Arc<Workers> {
    Arc::new(Workers::start(Config::with_threads(threads)).unwrap())
}

#[test]
fn a_task_runs_on_the_thread_of_its_queue() {
    let workers = workers(3);
    let handles: Vec<_> = (0..300)
        .map(|task| {
            let work = move || {
                let before = (worker_index(), thread::current().id());
                yield_now();
                (before, (worker_index(), thread::current().id()))
            };
            (task % 3, workers.execute(TaskPlace::On(task % 3), work).unwrap())
        })
        .collect();
    for (worker, handle) in handles {
        let (before, after) = handle.join().unwrap();
        assert_eq!(before.0, Some(worker));
        assert_eq!(before, after);
    }
    assert_eq!(worker_index(), None);
}

#[test]
fn tasks_from_outside_start_in_order_and_yielding_lets_others_run() {
    let workers = workers(1);
    let log = Arc::new(Mutex::new(Vec::new()));
    let gate = Arc::new(AtomicBool::new(false));
    let opened = gate.clone();
    let first = workers.execute(TaskPlace::Any, move || {
        while !opened.load(Ordering::Acquire) {
            thread::yield_now();
        }
    });
    let handles: Vec<_> = (0..3)
        .map(|task| {
            let log = log.clone();
            let work = move || {
                log.lock().unwrap().push((task, 'a'));
                yield_now();
                log.lock().unwrap().push((task, 'b'));
            };
            workers.execute(TaskPlace::Any, work).unwrap()
        })
        .collect();
    gate.store(true, Ordering::Release);
    first.unwrap().join().unwrap();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    let log = log.lock().unwrap();
    let starts: Vec<_> = log.iter().filter(|(_, step)| *step == 'a').map(|(task, _)| *task).collect();
    assert_eq!(starts, [0, 1, 2]);
    let second_start = log.iter().position(|entry| *entry == (1, 'a'));
    assert!(second_start < log.iter().position(|entry| *entry == (0, 'b')), "{log:?}");
}

fn merge_sort(workers: &Arc<Workers>, mut values: Vec<u32>) -> Vec<u32> {
    if values.len() <= 8 {
        values.sort_unstable();
        return values;
    }
    let right = values.split_off(values.len() / 2);
    let (for_left, for_right) = (workers.clone(), workers.clone());
    let left = workers.execute(TaskPlace::Any, move || merge_sort(&for_left, values)).unwrap();
    let right = workers.execute(TaskPlace::Any, move || merge_sort(&for_right, right)).unwrap();
    let (left, right) = (left.join().unwrap(), right.join().unwrap());
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let smaller = if a <= b { left.next() } else { right.next() };
        merged.extend(smaller);
    }
    merged.extend(left);
    merged.extend(right);
    merged
}

#[test]
fn fibers_sort_recursively() {
    let mut seed = 42u32;
    let values: Vec<u32> = (0..20_000)
        .map(|_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 8
        })
        .collect();
    let mut expected = values.clone();
    expected.sort_unstable();
    for (threads, fibers) in [(1, 4), (2, 1024), (4, 1)] {
        let workers = Arc::new(Workers::start(Config { fibers, ..Config::with_threads(threads) }).unwrap());
        let sorter = workers.clone();
        let values = values.clone();
        let sorted = workers.execute_sync(TaskPlace::Any, move || merge_sort(&sorter, values)).unwrap();
        assert!(sorted == expected, "{threads} threads, {fibers} fibers");
    }
}

#[test]
fn an_idle_worker_steals_what_a_busy_one_has_not_started() {
    let workers = workers(2);
    let inner = workers.clone();
    // The fiber never gives its thread away, so its children end only if the other worker takes them.
    let ran_on = workers.execute_sync(TaskPlace::On(0), move || {
        let handles: Vec<_> = (0..20).map(|_| inner.execute(TaskPlace::Any, worker_index).unwrap()).collect();
        while !handles.iter().all(Handle::is_finished) {
            thread::yield_now();
        }
        handles.into_iter().map(|handle| handle.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(ran_on.unwrap(), vec![Some(1); 20]);
    assert_eq!(workers.statistics().stolen, 20);
}

#[test]
fn nobody_steals_a_task_that_names_its_thread() {
    let workers = workers(2);
    let started = Arc::new(AtomicBool::new(false));
    let gate = Arc::new(AtomicBool::new(false));
    let (flag, opened) = (started.clone(), gate.clone());
    let busy = workers.execute(TaskPlace::On(0), move || {
        flag.store(true, Ordering::Release);
        while !opened.load(Ordering::Acquire) {
            thread::yield_now();
        }
    });
    while !started.load(Ordering::Acquire) {
        thread::yield_now();
    }
    let named: Vec<_> = (0..10).map(|_| workers.execute(TaskPlace::On(0), worker_index).unwrap()).collect();
    // The other worker has looked around: it ran a task of its own after these were submitted.
    workers.execute_sync(TaskPlace::On(1), || ()).unwrap();
    assert!(!named.iter().any(Handle::is_finished));
    gate.store(true, Ordering::Release);
    busy.unwrap().join().unwrap();
    assert!(named.into_iter().all(|handle| handle.join().unwrap() == Some(0)));
    assert_eq!(workers.statistics().stolen, 0);
}

#[test]
fn thousands_of_fibers_wait_at_once() {
    let workers = workers(2);
    let gate = Counter::new();
    let closed = gate.begin();
    let all = Counter::new();
    let reached = Arc::new(AtomicUsize::new(0));
    for _ in 0..5000 {
        let (gate, pending, reached) = (gate.clone(), all.begin(), reached.clone());
        let work = move || {
            reached.fetch_add(1, Ordering::Relaxed);
            gate.wait();
            drop(pending);
        };
        drop(workers.execute(TaskPlace::Any, work).unwrap());
    }
    while reached.load(Ordering::Relaxed) < 5000 {
        thread::yield_now();
    }
    assert_eq!(all.pending(), 5000);
    drop(closed);
    all.wait();
    assert_eq!(workers.statistics().fibers, 5000);
}

#[test]
fn a_panic_is_reported_and_the_worker_goes_on() {
    let workers = workers(1);
    let counter = Counter::new();
    let pending = counter.begin();
    let panics = workers
        .execute(TaskPlace::Any, move || {
            let _pending = pending;
            yield_now();
            panic!("on purpose: {}", 7);
        })
        .unwrap();
    let error: Result<(), TaskError> = panics.join();
    assert_eq!(error, Err(TaskError::Panicked("on purpose: 7".to_owned())));
    counter.wait();
    assert_eq!(workers.execute_sync(TaskPlace::Any, || 5), Ok(5));
    let parts = workers.each(10, |part| assert!(part != 3, "part three"));
    assert_eq!(parts, Err(TaskError::Panicked("part three".to_owned())));
}

#[test]
fn a_destructor_may_wait_while_its_fiber_unwinds() {
    struct WaitsInDrop(Counter);
    impl Drop for WaitsInDrop {
        fn drop(&mut self) {
            self.0.wait();
        }
    }
    let workers = workers(2);
    let counter = Counter::new();
    let pending = counter.begin();
    let waits = WaitsInDrop(counter);
    let panics = workers.execute(TaskPlace::On(0), move || {
        let _waits = waits;
        panic!("waits on the way out");
    });
    workers.execute_sync(TaskPlace::On(1), move || drop(pending)).unwrap();
    let result: Result<(), TaskError> = panics.unwrap().join();
    assert!(matches!(result, Err(TaskError::Panicked(_))));
    assert_eq!(workers.execute_sync(TaskPlace::On(0), || 1), Ok(1));
}

#[test]
fn parts_borrow_from_the_caller_and_come_back_in_order() {
    let workers = workers(3);
    let values: Vec<u64> = (0..1000).collect();
    let sums = workers.each(10, |part| values[part * 100..][..100].iter().sum::<u64>()).unwrap();
    assert_eq!(sums.len(), 10);
    assert_eq!(sums[0], 4950);
    assert_eq!(sums.iter().sum::<u64>(), 499_500);
    assert!(workers.each(0, |_| ()).unwrap().is_empty());
}

#[test]
fn parts_may_have_parts() {
    let workers = workers(2);
    let inner = &workers;
    let sums = workers.each(8, |outer| {
        inner.each(8, |part| outer * part).map(|products| products.into_iter().sum::<usize>())
    });
    let sums: Result<Vec<usize>, TaskError> = sums.unwrap().into_iter().collect();
    assert_eq!(sums.unwrap(), (0..8).map(|outer| outer * 28).collect::<Vec<_>>());
}

#[test]
fn full_queues_hold_callers_back_and_let_fibers_help_themselves() {
    let config = Config { queue_tasks: 4, ..Config::with_threads(1) };
    let workers = Arc::new(Workers::start(config).unwrap());
    let handles: Vec<_> =
        (0..500).map(|task| workers.execute(TaskPlace::Any, move || task).unwrap()).collect();
    let results: Vec<i32> = handles.into_iter().map(|handle| handle.join().unwrap()).collect();
    assert_eq!(results, (0..500).collect::<Vec<_>>());

    let inner = workers.clone();
    let (refused, sum) = workers
        .execute_sync(TaskPlace::Any, move || {
            let handles: Vec<_> =
                (0..100).map(|task| inner.execute(TaskPlace::Any, move || task).unwrap()).collect();
            let refused = inner.execute(TaskPlace::On(0), || ()).err();
            (refused, handles.into_iter().map(|handle| handle.join().unwrap()).sum::<i32>())
        })
        .unwrap();
    assert_eq!(refused, Some(TaskError::QueueFull { worker: 0, tasks: 4 }));
    assert_eq!(sum, 4950);
    assert_eq!(workers.statistics().inlined, 96);
    assert_eq!(
        workers.execute(TaskPlace::On(1), || ()).err(),
        Some(TaskError::NoSuchWorker { worker: 1, last: 0 })
    );
}

#[test]
fn stopping_finishes_what_was_submitted() {
    let done = Arc::new(AtomicUsize::new(0));
    let workers = Workers::start(Config::with_threads(2)).unwrap();
    for _ in 0..50 {
        let done = done.clone();
        let work = move || {
            yield_now();
            done.fetch_add(1, Ordering::Relaxed);
        };
        drop(workers.execute(TaskPlace::Any, work).unwrap());
    }
    workers.stop();
    assert_eq!(done.load(Ordering::Relaxed), 50);
}

#[test]
fn tasks_may_own_their_workers() {
    let done = Counter::new();
    let workers = workers(2);
    for _ in 0..50 {
        let (inner, pending, for_child) = (workers.clone(), done.begin(), done.begin());
        let work = move || {
            yield_now();
            let own = inner.clone();
            drop(inner.execute(TaskPlace::Any, move || drop((own, for_child))).unwrap());
            drop((inner, pending));
        };
        drop(workers.execute(TaskPlace::Any, work).unwrap());
    }
    drop(workers);
    done.wait();
}

#[test]
fn no_wake_up_is_lost() {
    // Workers fall asleep between these, again and again.
    let workers = workers(3);
    for task in 0..20_000 {
        let place = if task % 3 == 0 { TaskPlace::Any } else { TaskPlace::On(task % 2) };
        assert_eq!(workers.execute_sync(place, move || task).unwrap(), task);
    }
    // And here they wake each other.
    let inner = workers.clone();
    let sum = workers.execute_sync(TaskPlace::Any, move || {
        (0..5000)
            .map(|task| inner.execute_sync(TaskPlace::On(1 + task % 2), move || task).unwrap())
            .sum::<usize>()
    });
    assert_eq!(sum, Ok(12_497_500));
}

#[test]
fn a_fiber_that_waits_for_a_read_leaves_its_thread_to_others() {
    const PAGE: usize = 4096;
    let workers = Workers::start(Config::with_threads(1)).unwrap();
    let queue = Arc::new(IoQueue::start(&IoConfig::default()).unwrap());
    let directory = tempfile::tempdir().unwrap();
    let file = OsMedium.open(&directory.path().join("f"), FileKind::Database, OpenMode::Create).unwrap();
    file.write_at(&[7; PAGE], 0).unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let gate = Counter::new();
    let closed = gate.begin();
    let (for_first, reads, log_first) = (file.clone(), queue.clone(), log.clone());
    let first = workers.execute(TaskPlace::Any, move || {
        gate.wait();
        let mut completion = reads.read(&for_first, 0, vec![1; PAGE]).wait();
        log_first.lock().unwrap().push("read");
        completion.buffer.bytes().to_vec()
    });
    let log_second = log.clone();
    let second = workers.execute(TaskPlace::Any, move || {
        log_second.lock().unwrap().push("ran meanwhile");
        drop(closed);
    });
    assert_eq!(first.unwrap().join().unwrap(), [7; PAGE]);
    second.unwrap().join().unwrap();
    assert_eq!(*log.lock().unwrap(), ["ran meanwhile", "read"]);
}
