use super::*;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

const SIZE: usize = 512;

/// An owner that says what it was told to.
#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<VecDeque<Answer>>>);

impl Scripted {
    fn say(&self, answers: impl IntoIterator<Item = Answer>) {
        self.0.lock().unwrap().extend(answers);
    }
}

impl Owner for Scripted {
    fn changes(&mut self) -> Answer {
        self.0.lock().unwrap().pop_front().expect("nobody asks further")
    }

    fn next_transaction(&mut self) -> Answer {
        self.changes()
    }

    fn is_connected(&self) -> bool {
        true
    }

    fn page(&mut self, number: u32, to: &mut [u8]) -> bool {
        to.fill(number as u8);
        number != 9
    }
}

fn told(pages: &[(u32, u8)], count: u32, is_last: bool) -> Answer {
    Answer::Told(Told {
        page_size: SIZE as u32,
        pages: count,
        numbers: pages.iter().map(|(number, _)| *number).collect(),
        data: pages.iter().flat_map(|(_, byte)| [*byte; SIZE]).collect(),
        is_last,
        committed_ms: None,
    })
}

/// Pages that have their number as each byte.
fn known(count: u32) -> PageMap {
    let mut map = PageMap::new(SIZE as u32);
    (1..=count).for_each(|page| {
        map.set(page, Checksum::of_page(page, &[page as u8; SIZE]));
    });
    map
}

/// Looks behind a visit.
fn looks() -> (Scripted, Looks) {
    let owner = Scripted::default();
    let mut looks = Looks::new(Path::new("a.db"), Box::new(owner.clone()));
    looks.note_visit();
    (owner, looks)
}

fn moment(way: Way) -> Moment {
    match way {
        Way::Through(moment) => moment,
        Way::Wait => panic!("it waits"),
        Way::Visit => panic!("it visits"),
    }
}

#[test]
fn parts_are_a_moment_once_nothing_is_left() {
    let (owner, mut looks) = looks();
    let known = known(4);
    // The second word of a page counts, and one that is as it was is no change.
    owner.say([
        told(&[(1, 70), (2, 2), (3, 3)], 4, false),
        told(&[(1, 71), (2, 72)], 4, false),
        told(&[(1, 1), (5, 5), (6, 6)], 6, true),
    ]);
    let moment = moment(looks.ask(Some(&known), true));
    let found = looks.find(moment, Some(&known)).unwrap();
    assert_eq!((&found.changed[..], found.map.len()), (&[2, 5, 6][..], 6));
    let view = ToldView { looks: &looks, moment, images: None };
    let mut pages = [0; 3 * SIZE];
    view.read(1, &mut pages).unwrap();
    assert_eq!([pages[0], pages[SIZE], pages[2 * SIZE]], [1, 72, 3]);
    assert!(!looks.is_past() && view.read(9, &mut pages[..SIZE]).is_err() && looks.is_past());
    // Not accepted: it is told once, and kept.
    owner.say([told(&[], 6, true)]);
    let again = looks.ask(Some(&known), true);
    assert_eq!(looks.find(self::moment(again), Some(&known)).unwrap().changed, [2, 5, 6]);
    looks.clear();
    owner.say([told(&[], 4, true)]);
    let none = looks.ask(Some(&known), true);
    assert!(looks.find(self::moment(none), Some(&known)).unwrap().changed.is_empty());
    owner.say([told(&[(6, 6)], 6, true)]);
    let gap = looks.ask(Some(&known), true);
    assert!(looks.find(self::moment(gap), Some(&known)).is_none(), "page 5 was not told");
}

/// One transaction, or a part of it.
fn transaction(pages: &[(u32, u8)], count: u32, is_last: bool, committed_ms: u64) -> Answer {
    match told(pages, count, is_last) {
        Answer::Told(told) => Answer::Told(Told { committed_ms: Some(committed_ms), ..told }),
        other => other,
    }
}

#[test]
fn each_transaction_is_a_moment() {
    let (owner, mut looks) = looks();
    looks.want_history();
    let known = known(4);
    let next = |answers: Vec<Answer>, looks: &mut Looks| {
        owner.say(answers);
        let moment = moment(looks.ask(Some(&known), true));
        let found = looks.find(moment, Some(&known)).unwrap();
        (found.changed, found.committed_ms, looks.has_next())
    };
    // What a visit has read may be newer than what the owner would tell as transactions.
    let nothing = || told(&[], 4, true);
    assert_eq!(next(vec![told(&[(2, 2)], 4, true), nothing()], &mut looks), (vec![], None, false));
    looks.clear();
    let first = [transaction(&[(1, 10)], 4, false, 7), transaction(&[(2, 20)], 4, true, 7)];
    let more = [transaction(&[(1, 11)], 4, true, 8), transaction(&[(3, 30), (5, 50)], 5, true, 9), nothing()];
    assert_eq!(next([&first[..], &more[..]].concat(), &mut looks), (vec![1, 2], Some(7), true));
    // Page 3 is changed by a later one: what it is now is not what it was.
    let view = |looks: &Looks, page| {
        let moment = Moment { page_size: SIZE as u32, pages: 4 };
        let mut data = [0; SIZE];
        ToldView { looks, moment, images: None }.read(page, &mut data).map(|()| data[0])
    };
    assert_eq!((view(&looks, 2).unwrap(), view(&looks, 4).unwrap()), (20, 4));
    assert!(view(&looks, 3).is_err() && looks.is_past());
    // Its moment is left out, and it counts with the next one.
    assert_eq!(next(vec![nothing()], &mut looks), (vec![1, 2], None, true));
    assert!(!looks.is_past());
    looks.clear();
    assert_eq!(next(vec![nothing()], &mut looks), (vec![3, 5], Some(9), false));
    assert_eq!(view(&looks, 3).unwrap(), 30);
    looks.clear();
    // A gap, and what comes behind it.
    let gap = vec![told(&[(4, 40)], 4, true), transaction(&[(4, 41)], 4, true, 12), nothing()];
    assert_eq!(next(gap, &mut looks), (vec![4], None, true));
    // A visit has read all of that.
    looks.note_visit();
    assert_eq!(next(vec![told(&[(1, 1)], 4, true), nothing()], &mut looks), (vec![], None, false));
}

#[test]
fn transactions_are_taken_while_the_destination_is_away() {
    let (owner, mut looks) = looks();
    looks.want_history();
    let known = known(4);
    owner.say([told(&[], 4, true), told(&[], 4, true)]);
    moment(looks.ask(Some(&known), true));
    for time in [7, 8] {
        owner.say([transaction(&[(1, time as u8)], 4, true, time), told(&[], 4, true)]);
        looks.listen();
    }
    // The application has ended: what it has told comes first.
    owner.say([Answer::Nobody, Answer::Nobody, Answer::Nobody]);
    for time in [7, 8] {
        let moment = moment(looks.ask(Some(&known), true));
        assert_eq!(looks.find(moment, Some(&known)).unwrap().committed_ms, Some(time));
        looks.clear();
    }
    assert!(matches!(looks.ask(Some(&known), true), Way::Visit));
}

#[test]
fn behind_too_many_transactions_comes_a_visit() {
    let (owner, mut looks) = looks();
    looks.want_history();
    let known = known(4);
    owner.say([told(&[], 4, true), transaction(&[(1, 10)], 4, true, 7)]);
    let pages: Vec<(u32, u8)> = (1..=2000).map(|number| (number, 0)).collect();
    let parts = MOST_BYTES / SIZE / pages.len() + 1;
    owner.say((0..parts).map(|_| transaction(&pages, 2000, false, 8)));
    // What is told from now on has no use: the pages before it are lost.
    let further = |answer: Answer, looks: &mut Looks| {
        owner.say([answer]);
        looks.ask(Some(&known), true)
    };
    let first = moment(looks.ask(Some(&known), true));
    assert_eq!(looks.find(first, Some(&known)).unwrap().committed_ms, Some(7));
    looks.clear();
    assert!(matches!(further(transaction(&[(3, 30)], 4, true, 9), &mut looks), Way::Visit));
    assert!(matches!(further(told(&[(3, 30)], 4, true), &mut looks), Way::Visit));
    looks.note_visit();
    owner.say([told(&[], 4, true)]);
    moment(further(told(&[], 4, true), &mut looks));
}

/// Without a visit before, and behind a change of the size of its pages.
#[test]
fn all_pages_are_told_where_none_is_known() {
    for known in [None, Some(PageMap::new(1024))] {
        let owner = Scripted::default();
        let mut looks = Looks::new(Path::new("a.db"), Box::new(owner.clone()));
        owner.say([told(&[(1, 1), (2, 2)], 2, true)]);
        let moment = moment(looks.ask(known.as_ref(), true));
        assert_eq!(looks.find(moment, known.as_ref()).unwrap().changed, [1, 2]);
        owner.say([told(&[(3, 3)], 4, true)]);
        let moment = self::moment(looks.ask(known.as_ref(), true));
        assert!(looks.find(moment, known.as_ref()).is_none(), "page 4 was not told");
    }
}

#[test]
fn a_database_that_is_cut_has_its_pages_cut() {
    let (owner, mut looks) = looks();
    let known = known(6);
    owner.say([told(&[(2, 20), (5, 50)], 6, false), told(&[(1, 10)], 3, true)]);
    let moment = moment(looks.ask(Some(&known), true));
    let found = looks.find(moment, Some(&known)).unwrap();
    assert_eq!((&found.changed[..], found.map.len()), (&[1, 2][..], 3));
}

#[test]
fn a_visit_is_made_where_the_owner_is_not_enough() {
    let known = known(4);
    for (answers, known, may_wait) in [
        (vec![Answer::Nobody], Some(&known), true),
        (vec![Answer::Busy], Some(&known), false),
        (vec![Answer::Company], Some(&known), false),
    ] {
        let (owner, mut looks) = looks();
        owner.say(answers);
        assert!(matches!(looks.ask(known, may_wait), Way::Visit));
    }
    // What was too much is gone: a visit has to read it.
    let (owner, mut looks) = looks();
    let pages: Vec<(u32, u8)> = (1..=2000).map(|number| (number, 0)).collect();
    let count = MOST_BYTES / SIZE / pages.len() + 1;
    for part in 0..count as u32 {
        let pages: Vec<(u32, u8)> =
            pages.iter().map(|(number, byte)| (part * 2000 + number, *byte)).collect();
        owner.say([told(&pages, 1 << 20, false)]);
    }
    assert!(matches!(looks.ask(None, true), Way::Visit));
    owner.say([told(&[], 4, true)]);
    assert!(matches!(looks.ask(Some(&known), true), Way::Visit));
    looks.note_visit();
    owner.say([told(&[], 4, true)]);
    assert!(matches!(looks.ask(Some(&known), true), Way::Through(_)));
}

#[test]
fn an_owner_that_was_visited_is_waited_for_and_one_with_company_is_not() {
    let (owner, mut looks) = looks();
    let known = known(4);
    owner.say([Answer::Company, Answer::Busy]);
    assert!(matches!(looks.ask(Some(&known), true), Way::Wait));
    assert!(matches!(looks.ask(Some(&known), true), Way::Wait));
    looks.visited = looks.visited.and_then(|visited| visited.checked_sub(RETURN));
    owner.say([Answer::Company, Answer::Company]);
    assert!(matches!(looks.ask(Some(&known), true), Way::Visit));
    looks.note_visit();
    assert!(matches!(looks.ask(Some(&known), true), Way::Visit), "others are there");
    owner.say([told(&[], 4, true), Answer::Company]);
    moment(looks.ask(Some(&known), true));
    assert!(matches!(looks.ask(Some(&known), true), Way::Wait), "they have left");
}
