use super::*;
use crate::file::{FileKind, Medium, OpenMode};
use crate::os::OsMedium;
use crate::sim::CountingMedium;
use proptest::prelude::*;
use std::sync::{Mutex, mpsc};

const PAGE: usize = 4096;

fn page(number: u64) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(PAGE).collect()
}

/// A file of that many pages, each filled with its number.
fn file_of(medium: &dyn Medium, pages: u64) -> (tempfile::TempDir, Arc<dyn File>) {
    let directory = tempfile::tempdir().unwrap();
    let file = medium.open(&directory.path().join("f"), FileKind::Database, OpenMode::Create).unwrap();
    for number in 0..pages {
        file.write_at(&page(number), number * PAGE as u64).unwrap();
    }
    (directory, file)
}

fn both_ways() -> [IoConfig; 2] {
    [IoConfig::default(), IoConfig { ring_operations: 0, ..IoConfig::default() }]
}

#[test]
fn what_is_written_is_read_on_both_ways() {
    for config in both_ways() {
        let (_directory, file) = file_of(&OsMedium, 0);
        let queue = IoQueue::start(&config).unwrap();
        let writes: Vec<_> =
            (0..500).rev().map(|number| queue.write(&file, number * PAGE as u64, page(number))).collect();
        for write in writes {
            assert_eq!(write.wait().result.unwrap(), PAGE);
        }
        let written = queue.statistics().operations;
        let reads: Vec<_> =
            (0..500).map(|number| queue.read(&file, number * PAGE as u64, vec![0; PAGE])).collect();
        for (number, read) in reads.into_iter().enumerate() {
            let mut completion = read.wait();
            assert_eq!(completion.result.unwrap(), PAGE);
            assert_eq!(completion.buffer.bytes(), page(number as u64));
        }
        let statistics = queue.statistics();
        assert_eq!((statistics.requests, statistics.bytes), (1000, 1000 * PAGE as u64));
        // Reads through the system's cache are done by threads.
        let by_ring = if queue.uses_ring() { written } else { 0 };
        assert_eq!(statistics.ring_operations, by_ring);
    }
}

/// Notes what is done to it, and reads nothing before its gate is open.
struct NotingFile {
    inner: Arc<dyn File>,
    gate: crate::io::Monitor<bool>,
    notes: Mutex<Vec<(&'static str, u64, u64)>>,
}

impl NotingFile {
    fn note(&self, what: &'static str, offset: u64, bytes: usize) {
        self.notes.lock().unwrap().push((what, offset / PAGE as u64, (bytes / PAGE) as u64));
    }
}

impl File for NotingFile {
    crate::pass_on!(inner: write_vectored_at, write_durable_at, sync, stamp, set_stamp, len, set_len, allocate, id, path, lock_range);

    fn read_at(&self, buf: &mut [u8], offset: u64) -> crate::file::Result<usize> {
        self.note("read", offset, buf.len());
        self.gate.wait(|open| open.then_some(()));
        self.inner.read_at(buf, offset)
    }

    fn read_vectored_at(
        &self,
        bufs: &mut [std::io::IoSliceMut<'_>],
        offset: u64,
    ) -> crate::file::Result<usize> {
        self.note("read", offset, bufs.iter().map(|buf| buf.len()).sum());
        self.gate.wait(|open| open.then_some(()));
        self.inner.read_vectored_at(bufs, offset)
    }

    fn read_ahead(&self, offset: u64, len: u64) {
        self.note("told", offset, len as usize);
    }

    fn reads_ahead(&self) -> bool {
        true
    }
}

#[test]
fn the_system_is_told_of_all_reads_that_wait_and_they_stay_in_order() {
    let (_directory, inner) = file_of(&OsMedium, 20);
    let noting = Arc::new(NotingFile { inner, gate: Default::default(), notes: Mutex::default() });
    let file: Arc<dyn File> = noting.clone();
    let queue = IoQueue::start(&IoConfig { threads: 1, ..IoConfig::default() }).unwrap();
    let first = queue.read(&file, 0, vec![0; PAGE]);
    while noting.notes.lock().unwrap().is_empty() {
        std::thread::yield_now();
    }
    let places = [9, 5, 6, 2, 12].map(|number| (number * PAGE as u64, PAGE));
    let (tickets, requests): (Vec<_>, Vec<_>) = places.iter().map(|place| request(&file, *place)).unzip();
    queue.submit_all(requests);
    noting.gate.change(|open| *open = true);
    first.wait().result.unwrap();
    for (ticket, (offset, _)) in tickets.into_iter().zip(places) {
        assert_eq!(ticket.wait().buffer.bytes(), page(offset / PAGE as u64));
    }
    let expected = [
        ("read", 0, 1),
        ("told", 9, 1),
        ("told", 5, 2),
        ("told", 2, 1),
        ("told", 12, 1),
        ("read", 9, 1),
        ("read", 5, 2),
        ("read", 2, 1),
        ("read", 12, 1),
    ];
    assert_eq!(*noting.notes.lock().unwrap(), expected);
}

/// A read, and what waits for it.
fn request(file: &Arc<dyn File>, (offset, bytes): (u64, usize)) -> (Ticket, Request) {
    let (ticket, done) = Ticket::new();
    let buffer = Box::new(vec![0xee; bytes]);
    (ticket, Request { file: file.clone(), direction: Direction::Read, offset, buffer, done })
}

/// Submits reads together and returns their results in order.
fn read_together(queue: &IoQueue, file: &Arc<dyn File>, places: &[(u64, usize)]) -> Vec<(usize, Vec<u8>)> {
    let (tickets, requests): (Vec<_>, Vec<_>) = places.iter().map(|place| request(file, *place)).unzip();
    queue.submit_all(requests);
    let answer = |mut completion: Completion| {
        let bytes = completion.result.unwrap();
        (bytes, completion.buffer.bytes().to_vec())
    };
    tickets.into_iter().map(|ticket| answer(ticket.wait())).collect()
}

#[test]
fn adjacent_pages_are_one_operation_and_each_is_counted_by_the_medium() {
    let medium = CountingMedium::new(Arc::new(OsMedium));
    let (_directory, file) = file_of(&medium, 300);
    assert_eq!(file.raw_descriptor(), None);
    let queue = IoQueue::start(&IoConfig { threads: 1, ..IoConfig::default() }).unwrap();
    let before = medium.snapshot();
    // 64 adjacent pages, backwards, and two that are not.
    let mut places: Vec<_> = (100..164).rev().map(|number| (number * PAGE as u64, PAGE)).collect();
    places.extend([(0, PAGE), (200 * PAGE as u64, PAGE)]);
    for ((offset, _), (bytes, content)) in places.iter().zip(read_together(&queue, &file, &places)) {
        assert_eq!((bytes, content), (PAGE, page(offset / PAGE as u64)));
    }
    let counts = (medium.snapshot() - before).of(FileKind::Database);
    assert_eq!((counts.reads, counts.bytes_read), (3, 66 * PAGE as u64));
    assert_eq!(queue.statistics().operations, 3);
}

#[test]
fn a_read_past_the_end_is_short_for_those_it_concerns() {
    for config in both_ways() {
        let (_directory, file) = file_of(&OsMedium, 2);
        file.set_len(PAGE as u64 + 100).unwrap();
        let queue = IoQueue::start(&config).unwrap();
        let places = [(0, PAGE), (PAGE as u64, PAGE), (2 * PAGE as u64, PAGE)];
        let found: Vec<usize> =
            read_together(&queue, &file, &places).into_iter().map(|(bytes, _)| bytes).collect();
        assert_eq!(found, [PAGE, 100, 0]);
    }
}

#[test]
fn errors_name_the_file_and_reach_every_part() {
    for config in both_ways() {
        let (directory, _writable) = file_of(&OsMedium, 4);
        let path = directory.path().join("f");
        let file = OsMedium.open(&path, FileKind::Database, OpenMode::ReadOnly).unwrap();
        let queue = IoQueue::start(&config).unwrap();
        let failures = Arc::new(Mutex::new(Vec::new()));
        let (all, ended) = mpsc::channel::<()>();
        let requests = (0..3)
            .map(|number| {
                let (failures, pending) = (failures.clone(), all.clone());
                let done = Box::new(move |completion: Completion| {
                    failures.lock().unwrap().push(completion.result.unwrap_err());
                    drop(pending);
                });
                let (offset, buffer) = (number * PAGE as u64, Box::new(page(9)));
                Request { file: file.clone(), direction: Direction::Write, offset, buffer, done }
            })
            .collect();
        queue.submit_all(requests);
        drop(all);
        // All senders are gone once all requests were answered.
        assert!(ended.recv().is_err());
        let failures = failures.lock().unwrap();
        assert_eq!(failures.len(), 3);
        for failure in failures.iter() {
            assert_eq!(failure.errno(), libc::EBADF, "{failure}");
            assert!(failure.to_string().contains(&path.display().to_string()), "{failure}");
        }
    }
}

/// The kernel takes rings down some time after they were closed.
#[cfg(target_os = "linux")]
const INTERRUPTIONS_MS: libc::c_int = 30;

#[cfg(target_os = "linux")]
#[test]
fn a_blocking_system_call_of_the_caller_is_never_interrupted_by_a_ring() {
    let (_directory, file) = file_of(&OsMedium, 4);
    // SAFETY: a plain system call.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    // Unlike others, the kernel does not resume this call by itself.
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    for round in 0..5 {
        let queue = IoQueue::start(&IoConfig::default()).unwrap();
        let places: Vec<_> = (0..4).map(|number| (number * PAGE as u64, PAGE)).collect();
        read_together(&queue, &file, &places);
        drop(queue);
        // SAFETY: there is room for the one event that is asked for.
        let slept = unsafe { libc::epoll_wait(epoll, &raw mut event, 1, INTERRUPTIONS_MS) };
        assert_eq!(slept, 0, "round {round}: {}", std::io::Error::last_os_error());
    }
    // SAFETY: opened above, and used by nobody else.
    unsafe { libc::close(epoll) };
}

#[test]
fn more_requests_than_the_queue_holds_wait_for_room() {
    for config in both_ways() {
        let (_directory, file) = file_of(&OsMedium, 64);
        let queue = IoQueue::start(&IoConfig { queue_requests: 5, ..config }).unwrap();
        let places: Vec<_> = (0..640).map(|read| (read % 64 * PAGE as u64, PAGE)).collect();
        for ((offset, _), (bytes, content)) in places.iter().zip(read_together(&queue, &file, &places)) {
            assert_eq!((bytes, content), (PAGE, page(offset / PAGE as u64)));
        }
    }
}

#[test]
fn a_request_may_be_done_on_the_spot() {
    let (_directory, file) = file_of(&OsMedium, 2);
    let queue = IoQueue::start(&IoConfig::default()).unwrap();
    let here = std::thread::current().id();
    let found = Arc::new(Mutex::new(None));
    let place = found.clone();
    let done = Box::new(move |mut completion: Completion| {
        let content = completion.buffer.bytes().to_vec();
        *place.lock().unwrap() = Some((std::thread::current().id(), completion.result.unwrap(), content));
    });
    let (offset, buffer) = (PAGE as u64, Box::new(vec![0; PAGE]));
    queue.perform(Request { file, direction: Direction::Read, offset, buffer, done });
    assert_eq!(*found.lock().unwrap(), Some((here, PAGE, page(1))));
    assert_eq!(queue.statistics().requests, 1);
}

#[test]
fn dropping_the_queue_answers_everything_and_panics_stay_with_their_callers() {
    for config in both_ways() {
        let (_directory, file) = file_of(&OsMedium, 64);
        let queue = IoQueue::start(&config).unwrap();
        let (all, ended) = mpsc::channel::<()>();
        for number in 0..64 {
            let pending = all.clone();
            let done = Box::new(move |_| {
                let _pending = pending;
                assert!(number != 5, "on purpose");
            });
            let (offset, buffer) = (number * PAGE as u64, Box::new(vec![0; PAGE]));
            queue.submit(Request { file: file.clone(), direction: Direction::Read, offset, buffer, done });
        }
        drop(queue);
        drop(all);
        assert_eq!(ended.try_recv(), Err(mpsc::TryRecvError::Disconnected));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Merging loses nothing, keeps to its limits, and never merges what is not adjacent.
    #[test]
    fn plans_are_sound(
        places in prop::collection::vec((0u64..40, 1usize..4, any::<bool>(), any::<bool>()), 0..60),
        merge_pages in 1usize..8,
    ) {
        let (_first, a) = file_of(&OsMedium, 0);
        let (_second, b) = file_of(&OsMedium, 0);
        let count = places.len();
        let requests = places.into_iter().map(|(place, pages, write, second)| {
            let direction = if write { Direction::Write } else { Direction::Read };
            Request {
                file: if second { a.clone() } else { b.clone() },
                direction,
                offset: place * 512,
                buffer: Box::new(vec![0; pages * 512]),
                done: Box::new(|_| ()),
            }
        });
        let mut found = 0;
        for mut batch in batch::plan(requests.collect(), merge_pages * 512) {
            let (file, direction, mut next) = (batch.file().clone(), batch.direction(), batch.offset());
            let parts = batch.parts.len();
            for part in &mut batch.parts {
                prop_assert!(Arc::ptr_eq(&part.file, &file) && part.direction == direction);
                prop_assert_eq!(part.offset, next);
                next += part.buffer.bytes().len() as u64;
                found += 1;
            }
            prop_assert!(parts == 1 || next - batch.offset() <= merge_pages as u64 * 512);
        }
        prop_assert_eq!(found, count);
    }
}

#[test]
fn requests_of_a_file_that_is_being_closed_are_not_begun() {
    let (_directory, inner) = file_of(&OsMedium, 8);
    let noting =
        || NotingFile { inner: inner.clone(), gate: crate::io::Monitor::new(false), notes: Mutex::default() };
    let (first, closed) = (Arc::new(noting()), Arc::new(noting()));
    let config = IoConfig { threads: 1, ..IoConfig::default() };
    let queue = IoQueue::start(&config).unwrap();
    let (first_file, closed_file): (Arc<dyn File>, Arc<dyn File>) = (first.clone(), closed.clone());
    let reads = queue.read(&first_file, 0, vec![0; PAGE]);
    while first.notes.lock().unwrap().is_empty() {
        std::thread::yield_now();
    }
    let mut waiting: Vec<Ticket> = Vec::new();
    for number in 0..8 {
        let file = if number % 3 == 0 { &first_file } else { &closed_file };
        waiting.push(queue.read(file, number * PAGE as u64, vec![0; PAGE]));
    }
    queue.cancel(&closed_file);
    assert_eq!(Arc::strong_count(&closed_file), 2);
    first.gate.change(|open| *open = true);
    assert_eq!(reads.wait().result.unwrap(), PAGE);
    for (number, ticket) in waiting.into_iter().enumerate() {
        let (mut completion, is_done) = (ticket.wait(), number % 3 == 0);
        assert_eq!(completion.result.is_ok(), is_done, "{number}");
        assert!(!is_done || completion.buffer.bytes() == page(number as u64), "{number}");
    }
    assert!(closed.notes.lock().unwrap().is_empty());
}
