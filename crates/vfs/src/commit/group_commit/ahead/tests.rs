//! Pages ahead under power cuts, with each sync left out once; and what else may come in between.

use crate::commit::of_test::{Logs, PAGE, cut_everywhere, needless_syncs, read_by_stock, recovered_deltas};
use litefoot_sim::{Faults, Random, SimMedium, SyncSite};
use litefoot_storage::file::{FileKind, Medium};
use litefoot_storage::log_file::Durability;
use std::path::Path;

const PAGES: usize = 14;
/// Pages that a generation changes first.
const MANY: std::ops::RangeInclusive<u32> = 2..=12;

/// What ends the writing ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Its sync.
    Sync,
    /// A materialization by somebody else, before all pages are ahead.
    Taken,
}

/// A database with pages ahead, and what was acknowledged.
struct Run {
    logs: Logs,
    medium: SimMedium,
    state: Vec<u8>,
    history: Vec<(usize, Vec<u8>)>,
}

impl Run {
    fn new(medium: &SimMedium) -> Run {
        let logs = Logs::of_test_on(medium, &[7; PAGES * PAGE], 1 << 20);
        logs.db.sync().unwrap();
        medium.sync_directory(Path::new("/")).unwrap();
        let state = vec![7; PAGES];
        let mut run = Run { logs, medium: medium.clone(), history: Vec::new(), state };
        run.commit_pages(1);
        run.logs.checkpoint();
        run
    }

    fn note(&mut self, pages: &[(u32, u8)]) {
        pages.iter().for_each(|(number, byte)| self.state[*number as usize - 1] = *byte);
        self.history.push((self.medium.operations(), self.state.clone()));
    }

    fn commit(&mut self, pages: &[(u32, u8)]) {
        self.logs.commit_deltas(pages, PAGES as u32);
        self.note(pages);
    }

    /// Commits two pages as such, durably.
    fn commit_pages(&mut self, first: u8) {
        let Logs { group, frames, db } = &self.logs;
        let changed = [(2, first), (14, first)];
        let pages = Some(self.logs.write_first_bytes(&changed, PAGES as u32));
        group.materialize(frames, db, Durability::Durable, true, (pages, pages)).unwrap();
        self.note(&changed);
    }

    /// Commits, and writes their pages ahead; commits come in between, also of pages that are ahead already.
    fn write_ahead(&mut self, first: u8, end: End) {
        let many: Vec<(u32, u8)> = MANY.map(|number| (number, first)).collect();
        self.commit(&many);
        let list = self.logs.group.next_round(self.logs.pages(), 0).unwrap();
        assert_eq!(list.len(), many.len());
        assert!(self.logs.group.write_part(self.logs.pages(), &list[..6]).unwrap());
        self.commit(&[(3, first + 1), (9, first + 1), (13, first + 1)]);
        if end == End::Taken {
            return;
        }
        assert!(self.logs.group.write_part(self.logs.pages(), &list[6..]).unwrap());
        assert_eq!(self.logs.group.next_round(self.logs.pages(), 1), None);
        assert!(self.logs.group.with_ahead(|ahead| ahead.frames.sync()).unwrap());
        self.commit(&[(4, first + 2), (3, first + 2)]);
    }

    fn materialize(&self) {
        let Logs { group, frames, db } = &self.logs;
        group.materialize(frames, db, Durability::Durable, false, (None, None)).unwrap();
        assert!(!group.has_deltas() && group.ahead.lock().is_none());
    }
}

/// Some generations on a medium. The redo log of the first one grows, that of the others has its space.
fn history(medium: &SimMedium) -> Vec<(usize, Vec<u8>)> {
    let mut run = Run::new(medium);
    for (generation, end) in [End::Sync, End::Sync, End::Taken, End::Sync].into_iter().enumerate() {
        let first = 10 * (generation as u8 + 1);
        run.write_ahead(first, end);
        run.materialize();
        // A commit before the checkpoint has ended.
        run.commit_pages(first + 4);
        if generation < 3 {
            run.logs.checkpoint();
        }
    }
    run.history
}

/// Cuts at every operation; answers the first failure.
fn cut_with(faults: Faults, cuts: usize) -> Option<String> {
    let medium = SimMedium::new();
    medium.set_faults(faults);
    let history = history(&medium);
    cut_everywhere(&medium, &history, (Random::new(3), cuts), |image, number, _| {
        if number % 2 == 1 {
            read_by_stock(&image);
        }
        // Where pages do not fit into memory, recovery puts them into slots, in the place of frames ahead.
        let memory = if number % 4 < 2 { 1 << 20 } else { 3 * PAGE };
        let found = recovered_deltas(&image, PAGES, memory);
        // What was recovered is there again, whatever frames are left behind it.
        assert_eq!(found, recovered_deltas(&image, PAGES, memory));
        found
    })
}

#[test]
fn power_cuts_leave_what_was_acknowledged() {
    assert_eq!(cut_with(Faults::default(), 8), None);
}

#[test]
fn each_sync_that_is_left_out_is_missed() {
    let sites = [FileKind::CommitLog, FileKind::RedoLog, FileKind::Database].map(SyncSite::File);
    // A rare kind of cut is found with more luck.
    let cut = |faults: Faults| [2, 40].into_iter().find_map(|cuts| cut_with(faults.clone(), cuts));
    assert_eq!(needless_syncs(&sites, |medium| drop(history(medium)), |_, count| 0..count, cut), []);
}

#[test]
fn little_is_left_to_the_materialization() {
    let mut run = Run::new(&SimMedium::new());
    let many: Vec<(u32, u8)> = MANY.map(|number| (number, 1)).collect();
    run.commit(&many);
    run.logs.group.write_ahead(run.logs.pages());
    run.commit(&[(5, 2), (6, 2)]);
    let ahead =
        |run: &Run| run.logs.group.ahead.lock().as_ref().map(|ahead| ahead.frames.page_numbers().len());
    assert_eq!(ahead(&run), Some(many.len()));
    run.materialize();
    let frames = |run: &Run| run.logs.group.with_writer(|writer| writer.redo.frames() as usize);
    assert_eq!(frames(&run), many.len() + 2);
    // Where nothing has changed since, one page says that all count.
    run.logs.checkpoint();
    run.commit(&many);
    run.logs.group.write_ahead(run.logs.pages());
    run.materialize();
    assert_eq!(frames(&run), many.len() + 1);
    assert_eq!(recovered_deltas(&run.medium.copy(), PAGES, 1 << 20), Some(run.state));
}

#[test]
fn few_pages_are_not_written_ahead() {
    let mut run = Run::new(&SimMedium::new());
    run.commit(&[(2, 1), (3, 1)]);
    run.logs.group.write_ahead(run.logs.pages());
    assert!(run.logs.group.ahead.lock().as_ref().is_none_or(|ahead| ahead.frames.is_empty()));
    run.materialize();
    run.logs.group.write_ahead(run.logs.pages());
    assert!(run.logs.group.ahead.lock().is_none(), "no deltas wait");
}

#[test]
fn whoever_materializes_takes_what_is_ahead() {
    type Materialize = fn(&Run);
    let ways: [(&str, Materialize); 3] = [
        ("a commit as pages", Run::materialize),
        ("an early write", |run| run.logs.group.before_early_write(run.logs.pages()).unwrap()),
        ("the process exits", |run| assert!(run.logs.group.try_fold(run.logs.pages()))),
    ];
    for (what, materialize) in ways {
        let mut run = Run::new(&SimMedium::new());
        run.write_ahead(1, End::Taken);
        materialize(&run);
        assert!(!run.logs.group.has_deltas(), "{what}");
        assert!(!run.logs.group.write_part(run.logs.pages(), &[(8, 6)]).unwrap(), "{what}");
        assert_eq!(recovered_deltas(&run.medium.copy(), PAGES, 1 << 20), Some(run.state), "{what}");
    }
}

/// The pages on their way are waited for by a materialization, and not at the end of the process.
#[test]
fn pages_on_their_way_are_left_alone() {
    let mut run = Run::new(&SimMedium::new());
    run.write_ahead(1, End::Taken);
    let busy = run.logs.group.ahead.lock();
    run.logs.group.try_fold(run.logs.pages());
    drop(busy);
    assert!(run.logs.group.has_deltas() && run.logs.group.ahead.lock().is_some());
    run.materialize();
}

#[test]
fn a_full_disk_leaves_the_pages_to_the_materialization() {
    for is_full_later in [false, true] {
        let mut run = Run::new(&SimMedium::new());
        let many: Vec<(u32, u8)> = MANY.map(|number| (number, 1)).collect();
        run.commit(&many);
        // Space for the pages is claimed with their commit.
        run.logs.group.with_writer(|writer| writer.claim(PAGE, many.len(), many.len()).unwrap());
        let fill = |medium: &SimMedium| medium.set_faults(Faults::full_at(medium.used_bytes()));
        if !is_full_later {
            fill(&run.medium);
        }
        run.logs.group.write_ahead(run.logs.pages());
        fill(&run.medium);
        run.materialize();
        run.medium.set_faults(Faults::default());
        assert_eq!(recovered_deltas(&run.medium.copy(), PAGES, 1 << 20), Some(run.state), "{is_full_later}");
    }
}
