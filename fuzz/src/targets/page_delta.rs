//! The page deltas of a transaction: the payload of a record of the commit log.

use super::put;
use crate::{MOST_BYTES, Target, outcome_of};
use litefoot_storage::page_delta::{ChangedPage, Encoder, decode, page_sum};

pub const PAGE_DELTA: Target = Target {
    name: "page_delta",
    does: "the page deltas of a transaction, and applying them to pages",
    parse: page_delta,
    seal: |bytes| seal(bytes),
    seeds,
    most_bytes: MOST_BYTES,
};

fn page_delta(bytes: &[u8]) -> u64 {
    let Some(delta) = decode(bytes) else { return 0 };
    let pages: Vec<_> = delta.pages().collect();
    assert!(pages.len() <= bytes.len(), "it has more pages than bytes");
    assert!(pages.windows(2).all(|pair| pair[0].number < pair[1].number), "pages are not in order");
    let mut applied = Vec::new();
    let outcome = delta.apply(
        |number, page| {
            old_version(number, page);
            Ok::<(), ()>(())
        },
        |number, page| {
            applied.push((number, page_sum(page)));
            Ok(())
        },
    );
    let sums = pages.iter().map(|page| (page.number, page.after_sum));
    assert!(applied.iter().copied().eq(sums.take(applied.len())), "a page is not what the delta says");
    assert!(outcome.is_err() || applied.len() == pages.len(), "pages are missing");
    let forms: Vec<u32> = pages.iter().map(|page| page.form as u32).collect();
    outcome_of(&(delta.page_bytes(), forms, applied.len(), format!("{outcome:?}").len()))
}

/// What a page was before each transaction: nothing that repeats soon.
fn old_version(number: u32, page: &mut [u8]) {
    for (at, byte) in page.iter_mut().enumerate() {
        let mixed = (at as u32 ^ number << 20).wrapping_mul(0x9e37_79b1);
        *byte = (mixed >> 15) as u8;
    }
}

/// Makes the sums of old versions fit. Those of new versions end the delta only after it was applied.
fn seal(bytes: &mut [u8]) {
    let page_bytes = match bytes.first() {
        Some(bits @ 9..=16) => 1 << bits,
        _ => return,
    };
    let mut page = vec![0; page_bytes];
    let (mut at, mut number) = (1, 0u32);
    varint(bytes, &mut at);
    let count = varint(bytes, &mut at);
    for _ in 0..count.min(64) {
        number = number.wrapping_add(varint(bytes, &mut at));
        let kind = varint(bytes, &mut at);
        if kind & 1 == 1 {
            old_version(number, &mut page);
            put(bytes, at, &page_sum(&page).to_le_bytes());
            at += 4;
        }
        at = at.saturating_add(4 + (kind >> 2) as usize);
    }
}

/// A number of a delta, as far as there are bytes.
pub(super) fn varint(bytes: &[u8], at: &mut usize) -> u32 {
    let mut value = 0;
    for shift in [0, 7, 14, 21, 28] {
        let byte = bytes.get(*at).copied().unwrap_or_default();
        *at += 1;
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn seeds() -> Vec<Vec<u8>> {
    let version = |number| {
        let mut page = vec![0; 512];
        old_version(number, &mut page);
        page
    };
    let (first, second) = (version(1), version(2));
    let written = [&first[..40], b"a value", &first[47..]].concat();
    let inserted = [&first[..40], b"a longer value", &first[40..498]].concat();
    let moved = [&second[..256], &first[256..]].concat();
    let halved = [&first[..256], &[0; 256]].concat();
    let page = |number, before, after| ChangedPage { number, before, before_sum: None, after };
    let transactions: [&[ChangedPage<'_>]; 6] = [
        &[],
        &[page(1, Some(&first), &written)],
        &[page(1, Some(&first), &inserted), page(3, None, &first)],
        &[page(1, Some(&first), &halved), page(2, Some(&second), &moved)],
        &[page(1, Some(&first), &first), page(2, None, &halved), page(u32::MAX, None, &moved)],
        &[page(1, Some(&first), &second), page(2, Some(&second), &first), page(3, None, &moved)],
    ];
    let encoded = transactions.map(|pages| {
        let mut payload = Vec::new();
        let bytes = Encoder::default().encode(512, 3, pages, usize::MAX, &mut payload);
        assert_eq!(bytes, Some(payload.len()), "it can be encoded");
        payload
    });
    encoded.to_vec()
}
