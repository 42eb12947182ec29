use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Pages by number.
type Pages = BTreeMap<u32, Vec<u8>>;

/// A transaction: for each page its version before, if there is one at hand, and the one after.
#[derive(Clone, Debug)]
struct Transaction {
    page_bytes: usize,
    pages: Vec<(u32, Option<Vec<u8>>, Vec<u8>)>,
}

impl Transaction {
    fn encode(&self, most_bytes: usize) -> Option<Vec<u8>> {
        let pages: Vec<ChangedPage<'_>> = self
            .pages
            .iter()
            .map(|(number, before, after)| {
                let before = before.as_deref();
                // It is the same where it is known.
                let before_sum = before.filter(|_| number % 2 == 0).map(page_sum);
                ChangedPage { number: *number, before, before_sum, after }
            })
            .collect();
        let mut out = b"before".to_vec();
        let mut encoder = Encoder::default();
        let bytes = encoder.encode(self.page_bytes, 7, &pages, most_bytes, &mut out);
        if bytes.is_some() {
            assert!(self.after().values().map(|page| page_sum(page)).eq(encoder.sums().iter().copied()));
        }
        assert_eq!(out.len(), b"before".len() + bytes.unwrap_or(0));
        assert!(out.starts_with(b"before"));
        bytes.map(|_| out.split_off(b"before".len()))
    }

    /// The payload; none for a batch of pages that are better written as they are.
    fn encode_if_it_pays(&self) -> Option<Vec<u8>> {
        let payload = self.encode(usize::MAX);
        assert!(payload.is_some() || self.pages.len() >= BATCH_PAGES);
        payload
    }

    fn before(&self) -> Pages {
        self.pages.iter().filter_map(|(number, before, _)| Some((*number, before.clone()?))).collect()
    }

    fn after(&self) -> Pages {
        self.pages.iter().map(|(number, _, after)| (*number, after.clone())).collect()
    }
}

/// The pages that a delta makes. A page that is not there cannot be read: the error has its number.
fn apply(payload: &[u8], before: &Pages) -> Result<Pages, ApplyError<u32>> {
    let delta = decode(payload).expect("it is a payload");
    let mut found = Pages::new();
    delta.apply(
        |number, page| {
            let stored = before.get(&number).filter(|stored| stored.len() == page.len()).ok_or(number)?;
            page.copy_from_slice(stored);
            Ok(())
        },
        |number, page| {
            assert!(found.insert(number, page.to_vec()).is_none(), "page {number} twice");
            Ok(())
        },
    )?;
    Ok(found)
}

/// A page, and changes of it: bytes that are moved, and bytes that are written.
fn versions(page_bytes: usize) -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let page = prop_oneof![
        vec(any::<u8>(), page_bytes),
        any::<u8>().prop_map(move |byte| vec![byte; page_bytes]),
        vec(0..3u8, page_bytes),
    ];
    let place = 0..page_bytes;
    let moves = vec((place.clone(), place.clone(), place.clone()), 0..3);
    let pointers = vec((place.clone(), -3..4_isize, place.clone()), 0..4);
    let writes = vec((place, vec(any::<u8>(), 0..200)), 0..6);
    (page, moves, pointers, writes).prop_map(move |(before, moves, pointers, writes)| {
        let mut after = before.clone();
        let pointers = pointers.into_iter().filter_map(|(from, pointers, length)| {
            Some((from, from.checked_add_signed(2 * pointers).filter(|to| *to < page_bytes)?, length))
        });
        for (from, to, length) in moves.into_iter().chain(pointers) {
            let length = length.min(page_bytes - from).min(page_bytes - to);
            after.copy_within(from..from + length, to);
        }
        for (at, bytes) in writes {
            let length = bytes.len().min(page_bytes - at);
            after[at..at + length].copy_from_slice(&bytes[..length]);
        }
        (before, after)
    })
}

fn transactions() -> impl Strategy<Value = Transaction> {
    prop_oneof![Just(512), Just(1024), Just(4096)].prop_flat_map(|page_bytes| {
        let page = (prop_oneof![1..20u32, any::<u32>().prop_map(|number| number.max(1))], any::<bool>());
        vec((page, versions(page_bytes)), 0..20).prop_map(move |pages| {
            let mut seen = std::collections::HashSet::new();
            let pages = pages
                .into_iter()
                .filter(|((number, _), _)| seen.insert(*number))
                .map(|((number, at_hand), (before, after))| (number, at_hand.then_some(before), after))
                .collect();
            Transaction { page_bytes, pages }
        })
    })
}

proptest! {
    #[test]
    fn what_is_applied_is_what_was_encoded(transaction in transactions()) {
        let Some(payload) = transaction.encode_if_it_pays() else { return Ok(()) };
        prop_assert_eq!(apply(&payload, &transaction.before()).unwrap(), transaction.after());
        let delta = decode(&payload).unwrap();
        prop_assert_eq!(delta.page_bytes(), transaction.page_bytes);
        prop_assert_eq!(delta.database_pages(), 7);
        prop_assert_eq!(delta.pages().len(), transaction.pages.len());
        prop_assert!(delta.pages().map(|page| page.number).eq(transaction.after().into_keys()));
    }

    #[test]
    fn a_payload_is_never_longer_than_it_may_be(transaction in transactions()) {
        let Some(payload) = transaction.encode_if_it_pays() else { return Ok(()) };
        let bytes = payload.len();
        prop_assert_eq!(transaction.encode(bytes).map(|payload| payload.len()), Some(bytes));
        prop_assert!(transaction.encode(bytes - 1).is_none());
    }

    #[test]
    fn a_changed_payload_never_gives_another_page(
        transaction in transactions(),
        places in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        end in any::<prop::sample::Index>(),
    ) {
        let Some(payload) = transaction.encode_if_it_pays() else { return Ok(()) };
        prop_assert!(decode(&payload[..end.index(payload.len())]).is_none(), "a part of it is valid");
        let mut changed = payload.clone();
        for (place, byte) in places {
            changed[place.index(payload.len())] ^= byte;
        }
        let Some(delta) = decode(&changed) else { return Ok(()) };
        // The sums are the payload's own, and numbers are not covered: what is handed out is what the payload says.
        let sums: BTreeMap<u32, u32> = delta.pages().map(|page| (page.number, page.after_sum)).collect();
        if let Ok(found) = apply(&changed, &transaction.before()) {
            for (number, page) in found {
                prop_assert_eq!(page_sum(&page), sums[&number]);
            }
        }
    }

    #[test]
    fn another_page_before_is_noticed(
        transaction in transactions(),
        place in any::<prop::sample::Index>(),
        byte in 1..=255u8,
    ) {
        let Some(payload) = transaction.encode_if_it_pays() else { return Ok(()) };
        for page in decode(&payload).unwrap().pages().filter(|page| page.before_sum.is_some()) {
            let mut before = transaction.before();
            before.get_mut(&page.number).unwrap()[place.index(transaction.page_bytes)] ^= byte;
            prop_assert_eq!(apply(&payload, &before), Err(ApplyError::Before(page.number)));
        }
    }

    #[test]
    fn foreign_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..600), bits in 9..17u8, count in 0..5u8) {
        let framed = [&[bits, 7, count], &bytes[..]].concat();
        for bytes in [bytes, framed] {
            if let Some(delta) = decode(&bytes) {
                let _ = delta.apply(|_, page| { page.fill(3); Ok::<(), ()>(()) }, |_, _| Ok(()));
            }
        }
    }
}

fn page_of(byte: u8, page_bytes: usize, writes: &[(usize, &[u8])]) -> Vec<u8> {
    let mut page = vec![byte; page_bytes];
    for (at, bytes) in writes {
        page[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    page
}

#[test]
fn the_bytes_of_ranges() {
    let sum = |page: &[u8]| page_sum(page).to_le_bytes();
    let old = page_of(1, 512, &[]);
    let header = [9, 7, 1, 3];
    type Case<'a> = (&'a str, Option<&'a [u8]>, Vec<u8>, &'a [u8]);
    let cases: [Case<'_>; 7] = [
        ("unchanged", Some(&old), old.clone(), &[]),
        ("one byte", Some(&old), page_of(1, 512, &[(300, &[9])]), &[0xac, 2, 1, 9]),
        ("the last byte", Some(&old), page_of(1, 512, &[(511, &[9])]), &[0xff, 3, 1, 9]),
        ("two ranges", Some(&old), page_of(1, 512, &[(0, &[9]), (16, &[8])]), &[0, 1, 9, 15, 1, 8]),
        (
            "less than a word between",
            Some(&old),
            page_of(1, 512, &[(7, &[9]), (15, &[8])]),
            &[7, 9, 9, 1, 1, 1, 1, 1, 1, 1, 8],
        ),
        ("a new page, of zeros", None, page_of(0, 512, &[]), &[]),
        ("a new page", None, page_of(0, 512, &[(2, &[9])]), &[2, 1, 9]),
    ];
    for (name, before, after, ranges) in cases {
        let transaction =
            Transaction { page_bytes: 512, pages: vec![(3, before.map(<[u8]>::to_vec), after.clone())] };
        let payload = transaction.encode(usize::MAX).unwrap();
        let needs = before.is_some();
        let mut expected = header.to_vec();
        expected.push((ranges.len() as u8) << 2 | u8::from(needs));
        if needs {
            expected.extend(sum(&old));
        }
        expected.extend(sum(&after));
        expected.extend(ranges);
        assert_eq!(payload, expected, "{name}");
        let form = decode(&payload).unwrap().pages().next().unwrap().form;
        assert_eq!(form, if needs { Form::Ranges } else { Form::New }, "{name}");
        assert_eq!(apply(&payload, &transaction.before()).unwrap()[&3], after, "{name}");
    }
}

/// Bytes in which nothing repeats.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..length).map(|_| random.u8(..)).collect()
}

/// The forms and the bodies' lengths of a transaction, which is applied as well.
fn forms(page_bytes: usize, pages: &[(Option<&[u8]>, &[u8])]) -> Vec<(Form, usize)> {
    let pages = pages.iter().zip(1..);
    let pages = pages.map(|((before, after), number)| (number, before.map(<[u8]>::to_vec), after.to_vec()));
    let transaction = Transaction { page_bytes, pages: pages.collect() };
    let payload = transaction.encode(usize::MAX).unwrap();
    assert_eq!(apply(&payload, &transaction.before()).unwrap(), transaction.after());
    decode(&payload).unwrap().pages().map(|page| (page.form, page.encoded_bytes())).collect()
}

#[test]
fn the_bytes_of_copies() {
    let old = noise(1, 512);
    let inserted = |bytes: &[u8]| [&old[..100], bytes, &old[100..512 - bytes.len()]].concat();
    let removed = [&old[..100], &old[110..], &[0; 10]].concat();
    // Without an index, and with one: a transaction of more than a block.
    let cases: [(&str, Vec<u8>, u8, Vec<u8>); 4] = [
        ("a pointer more", inserted(&[1, 2]), 0, vec![0, 100, 0, 2, 1, 2, 0x9a, 3, 3]),
        (
            "a pointer less",
            [&old[..100], &old[102..], &[0; 2]].concat(),
            0,
            vec![0, 100, 0, 0, 0x9a, 3, 4, 2, 0, 0],
        ),
        ("five bytes more", inserted(&[5; 5]), 8, vec![0, 100, 0, 5, 5, 5, 5, 5, 5, 0x97, 3, 9]),
        ("ten bytes less", removed, 8, vec![0, 100, 0, 0, 0x92, 3, 20, 1, 0, 9, 0x95, 8]),
    ];
    for (name, after, others, body) in cases {
        let others = (1..=others).map(|number| (u32::from(number) + 3, None, noise(number.into(), 512)));
        let mut pages = vec![(3, Some(old.clone()), after.clone())];
        pages.extend(others);
        let transaction = Transaction { page_bytes: 512, pages };
        let payload = transaction.encode(usize::MAX).unwrap();
        let sums = [page_sum(&old).to_le_bytes(), page_sum(&after).to_le_bytes()].concat();
        let count = transaction.pages.len() as u8;
        let expected = [&[9, 7, count, 3, (body.len() as u8) << 2 | 3][..], &sums, &body].concat();
        assert!(payload.starts_with(&expected), "{name}: {payload:?}");
        assert_eq!(apply(&payload, &transaction.before()).unwrap()[&3], after, "{name}");
    }
}

#[test]
fn a_split_page_is_taken_from_its_sibling() {
    let old = noise(2, 4096);
    let first = [&old[..2048], &[0; 2048]].concat();
    let second = [&[0; 2048], &old[2048..]].concat();
    for pages in [[(Some(&old[..]), &first[..]), (None, &second)], [(None, &second), (Some(&old), &first)]] {
        let forms = forms(4096, &pages);
        assert!(forms.iter().all(|(_, bytes)| *bytes < 20), "{forms:?}");
        assert!(forms.iter().any(|(form, _)| *form == Form::NewCopies), "{forms:?}");
    }
    // Cells that move to a sibling that was there before.
    let other = noise(3, 4096);
    let fuller = [&other[..2000], &old[2048..4000], &other[2000..2144]].concat();
    let forms = forms(4096, &[(Some(&old), &first), (Some(&other), &fuller)]);
    assert!(forms.iter().all(|(form, bytes)| *form == Form::Copies && *bytes < 30), "{forms:?}");
}

#[test]
fn what_differs_everywhere_takes_little_more_than_the_page() {
    for page_bytes in [512, 4096, 65536] {
        let (old, new) = (noise(1, page_bytes), noise(2, page_bytes));
        let forms = forms(page_bytes, &[(Some(&old), &new), (None, &noise(3, page_bytes))]);
        assert!(forms.iter().all(|(_, bytes)| *bytes <= page_bytes + 4), "{forms:?}");
    }
}

#[test]
fn a_new_page_that_repeats_itself() {
    let text: Vec<u8> = b"a row of this table, ".iter().cycle().take(4096).copied().collect();
    let forms = forms(4096, &[(None, &text)]);
    assert!(forms[0].0 == Form::NewCopies && forms[0].1 < 40, "{forms:?}");
}

#[test]
fn an_encoder_forgets_the_transaction_before() {
    let mut encoder = Encoder::default();
    for (page_bytes, count) in [(4096, 40), (512, 3), (65536, 2), (1024, 17), (4096, 1)] {
        let pages: Vec<(Vec<u8>, Vec<u8>)> = (0..count)
            .map(|number| {
                let old = noise(number, page_bytes);
                let new = [&old[page_bytes / 3..], &old[..page_bytes / 3]].concat();
                (old, new)
            })
            .collect();
        let pages: Vec<ChangedPage<'_>> = pages
            .iter()
            .zip(1..)
            .map(|((before, after), number)| ChangedPage {
                number,
                before: (number % 3 > 0).then_some(&before[..]),
                before_sum: None,
                after,
            })
            .collect();
        let (mut again, mut fresh) = (Vec::new(), Vec::new());
        let most = usize::MAX;
        let bytes = encoder.encode(page_bytes, 9, &pages, most, &mut again);
        assert_eq!(bytes, Encoder::default().encode(page_bytes, 9, &pages, most, &mut fresh));
        assert_eq!(again, fresh);
    }
}

#[test]
fn pages_of_all_sizes_and_numbers() {
    for bits in PAGE_BITS {
        let page_bytes = 1 << bits;
        let changed = page_of(1, page_bytes, &[(page_bytes - 1, &[7])]);
        let pages = vec![
            (u32::MAX, Some(page_of(1, page_bytes, &[])), changed.clone()),
            (1, None, page_of(5, page_bytes, &[])),
            (900, Some(page_of(1, page_bytes, &[])), changed),
        ];
        let transaction = Transaction { page_bytes, pages };
        let payload = transaction.encode(usize::MAX).unwrap();
        assert_eq!(apply(&payload, &transaction.before()).unwrap(), transaction.after());
    }
}

#[test]
fn a_transaction_without_pages() {
    let payload = Transaction { page_bytes: 512, pages: Vec::new() }.encode(3).unwrap();
    assert_eq!(payload, [9, 7, 0]);
    assert_eq!(apply(&payload, &Pages::new()).unwrap(), Pages::new());
}

#[test]
fn what_no_payload_can_have_is_refused() {
    let page = |number, bytes| (number, None, vec![1; bytes]);
    let cases = [
        ("twice the same", 512, vec![page(1, 512), page(2, 512), page(1, 512)]),
        ("number 0", 512, vec![page(0, 512)]),
        ("another length", 512, vec![page(1, 1024)]),
        ("another length before", 512, vec![(1, Some(vec![1; 1024]), vec![1; 512])]),
        ("no power of two", 1000, vec![page(1, 1000)]),
        ("too small", 256, vec![page(1, 256)]),
        ("too large", 1 << 17, vec![page(1, 1 << 17)]),
    ];
    for (name, page_bytes, pages) in cases {
        assert!(Transaction { page_bytes, pages }.encode(usize::MAX).is_none(), "{name}");
    }
}

#[test]
fn payloads_that_are_not_valid() {
    let sum = [0; 4];
    let valid = [&[9, 7, 1, 3, 12][..], &sum, &[2, 1, 9]].concat();
    assert!(decode(&valid).is_some());
    let cases = [
        ("nothing", vec![]),
        ("a page size of 256", [&[8], &valid[1..]].concat()),
        ("a page size of 128 KiB", [&[17], &valid[1..]].concat()),
        ("a byte too many", [&valid[..], &[0]].concat()),
        ("more pages than there are", [&[9, 7, 2], &valid[3..]].concat()),
        ("four billion pages", [&[9, 7, 0xff, 0xff, 0xff, 0xff, 15], &valid[3..]].concat()),
        ("page 0", [&[9, 7, 1, 0, 12][..], &sum, &[2, 1, 9]].concat()),
        ("a range outside", [&[9, 7, 1, 3, 16][..], &sum, &[0x80, 4, 1, 9]].concat()),
        ("an empty range", [&[9, 7, 1, 3, 8][..], &sum, &[2, 0]].concat()),
        ("a range longer than its bytes", [&[9, 7, 1, 3, 12][..], &sum, &[2, 2, 9]].concat()),
        ("a number beyond all", vec![9, 7, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
        ("numbers that wrap", [&[9, 7, 2, 0xff, 0xff, 0xff, 0xff, 15, 0][..], &sum, &[2, 0], &sum].concat()),
    ];
    for (name, payload) in cases {
        assert!(decode(&payload).is_none(), "{name}");
    }
}

#[test]
fn copies_that_are_not_valid() {
    // The last of a batch: a dictionary of two pages, and its own is the second. Its addresses are 1024 to 1535.
    let payload = |body: &[u8]| {
        let first = [&[1, 5 << 2 | 3][..], &[0; 8], &[0, 0x80, 4, 0, 0]].concat();
        let mut payload = [&[9, 7, 2][..], &first[..first.len() - 1]].concat();
        payload[4] = 4 << 2 | 3;
        payload.extend([1, (body.len() as u8) << 2 | 3]);
        payload.extend([0; 8]);
        payload.extend(body);
        payload
    };
    let cases: [(&str, &[u8], bool); 12] = [
        ("its old version", &[0, 0x80, 4, 0], true),
        ("the other page", &[0, 0x80, 4, 0xff, 7], true),
        ("bytes, and their repetition", &[1, 9, 0xff, 3, 0x81, 0x10], true),
        ("bytes that are not known yet", &[1, 9, 0xff, 3, 0xff, 0xf], false),
        ("nothing", &[], false),
        ("not all of the page", &[0, 0xff, 3, 0], false),
        ("more than the page", &[1, 9, 0x80, 4, 0], false),
        ("bytes behind the page", &[0, 0x80, 4, 0, 0], false),
        ("an empty copy", &[0, 0, 0, 0, 0x80, 4, 0], false),
        ("behind the dictionary", &[0, 0x80, 4, 0x80, 8], false),
        ("before all pages", &[0, 0x80, 4, 0x81, 0x10], false),
        ("across two pages", &[0, 0x80, 4, 1], false),
    ];
    for (name, body, is_valid) in cases {
        assert_eq!(decode(&payload(body)).is_some(), is_valid, "{name}");
    }
}

#[test]
fn a_transaction_that_does_not_pay_is_given_up_early() {
    let random = |seed: u64| {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..4096).map(|_| random.u8(..)).collect::<Vec<u8>>()
    };
    let pages = (1..=32).map(|number| (number, Some(random(u64::from(number))), random(99))).collect();
    let mut transaction = Transaction { page_bytes: 4096, pages };
    assert!(transaction.encode(usize::MAX).is_none(), "pages that differ everywhere");
    transaction.pages.truncate(15);
    assert!(transaction.encode(usize::MAX).is_some(), "there is no sample yet");
    assert!(transaction.encode(15 * 5).is_none(), "more pages than bytes");
}

#[test]
fn errors_name_the_page_and_reading_ends_there() {
    let old = page_of(1, 512, &[]);
    let pages = (1..4).map(|number| (number, Some(old.clone()), page_of(1, 512, &[(9, &[7])]))).collect();
    let transaction = Transaction { page_bytes: 512, pages };
    let mut payload = transaction.encode(usize::MAX).unwrap();
    let mut before = transaction.before();
    before.remove(&2);
    assert_eq!(apply(&payload, &before), Err(ApplyError::Io(2)));
    let last = payload.len() - 1;
    payload[last] ^= 1;
    let error = apply(&payload, &transaction.before()).unwrap_err();
    assert_eq!(error, ApplyError::After(3));
    assert!(ApplyError::<std::io::Error>::After(3).to_string().contains("page 3"));
}
