//! What a database in WAL mode has, as a transaction whose owner has died says it to the next owner (`wal_commits`).
//!
//! ```text
//! claim   its base: place, state  its commit: place, state, frames; nothing where it has none
//! place   salts of the log (8)  the last frame (4)
//! state   bytes of a page, or 0 (4)  pages of the database, or 0 (4)  pages of the log (4)  number (4) and hash (8) of each, by their numbers
//! frames  number (4), hash (8) and end (1) of each page, in their order; hash 0 for one that is not known; end 1 where a commit ends with it
//! ```
//!
//! Numbers have the order of the machine's bytes.
//!
//! # Invariants
//! 1. A page that no log has is that of the file, which nobody has changed since. So two databases are equal where each page of either log is.
//! 2. Commits are in the log in their order. So one that is known to be there has all before it there, too.
//! 3. A commit is compared where it ends. In the middle of another one the pages may be those of an older state, which a later page tells apart.
//! 4. Bytes of another program are a whole claim, or nothing.

use crate::error::Result;
use crate::sync::heirs::Place;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};

/// The hash of a page, for both ends: they are the same build. It is never 0.
pub(super) fn hash_of(page: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(page);
    hasher.finish().max(1)
}

/// What a database has: the pages of its log. All others are those of its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub page_bytes: usize,
    /// Pages of the database; 0 where its file says that.
    pub pages: u32,
    /// The hash of each page of the log.
    pub hashes: BTreeMap<u32, u64>,
}

/// What a transaction has written, where its commit is complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Behind {
    pub place: Place,
    pub state: State,
    /// The frames that others have published since.
    pub later: Vec<Later>,
}

/// A frame of a commit that was published later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Later {
    pub number: u32,
    /// The hash of its page; 0 where that is not known.
    pub hash: u64,
    /// True if its commit is known to end with it.
    pub ends_commit: bool,
}

/// What a transaction builds upon, and its commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Claim {
    pub place: Place,
    pub base: State,
    pub behind: Option<Behind>,
}

/// What the next owner has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Found {
    /// Neither; commits that are under way may still come.
    Nothing = 0,
    /// What the transaction builds upon.
    Base = 1,
    /// Its commit.
    Commit = 2,
}

impl Found {
    pub(super) fn of(value: u64) -> Option<Found> {
        [Found::Nothing, Found::Base, Found::Commit].into_iter().find(|found| *found as u64 == value)
    }
}

/// What a database has, page by page.
pub(super) trait Content {
    /// Bytes of a page; 0 where nobody has said it.
    fn page_bytes(&self) -> usize;
    /// Pages of the database.
    fn pages(&self) -> Result<u64>;
    /// Pages of its file.
    fn pages_of_file(&self) -> Result<u64>;
    /// The pages of its log.
    fn numbers(&self) -> Vec<u32>;
    /// The hash of a page, and of the same page in the file.
    fn hash(&self, number: u32) -> Result<u64>;
    fn hash_in_file(&self, number: u32) -> Result<u64>;
}

impl Claim {
    /// True if the database has the commit. `is_known` says whether one is known to be there.
    pub(super) fn is_committed(
        &self,
        content: &dyn Content,
        is_known: impl Fn(Place) -> bool,
    ) -> Result<bool> {
        let Some(behind) = &self.behind else { return Ok(false) };
        Ok(is_known(behind.place) || behind.is_there(content)?)
    }

    /// Looks for both, where nobody else writes.
    pub(super) fn find(&self, content: &dyn Content, is_known: impl Fn(Place) -> bool) -> Result<Found> {
        if self.is_committed(content, is_known)? {
            return Ok(Found::Commit);
        }
        let is_base = self.base.differs(content)?.is_some_and(|pages| pages.is_empty());
        Ok(if is_base { Found::Base } else { Found::Nothing })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut message = Vec::new();
        encode_place(self.place, &mut message);
        self.base.encode(&mut message);
        if let Some(Behind { place, state, later }) = &self.behind {
            encode_place(*place, &mut message);
            state.encode(&mut message);
            for Later { number, hash, ends_commit } in later {
                encode_page(*number, *hash, &mut message);
                message.push(u8::from(*ends_commit));
            }
        }
        message
    }

    pub(super) fn decode(mut bytes: &[u8]) -> Option<Claim> {
        let (place, base) = (decode_place(&mut bytes)?, State::decode(&mut bytes)?);
        let behind = if bytes.is_empty() { None } else { Some(Behind::decode(bytes)?) };
        Some(Claim { place, base, behind })
    }
}

impl Behind {
    /// True if the database has this commit, and maybe some of the later ones.
    fn is_there(&self, content: &dyn Content) -> Result<bool> {
        let Some(mut differing) = self.state.differs(content)? else { return Ok(false) };
        if differing.is_empty() {
            return Ok(true);
        }
        let pages = content.pages()?;
        for Later { number, hash, ends_commit } in &self.later {
            if u64::from(*number) <= pages && content.hash(*number)? != *hash {
                differing.insert(*number);
            } else {
                differing.remove(number);
            }
            if *ends_commit && differing.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn decode(mut bytes: &[u8]) -> Option<Behind> {
        let (place, state) = (decode_place(&mut bytes)?, State::decode(&mut bytes)?);
        let (later, rest) = bytes.as_chunks();
        let later = later.iter().map(decode_later).collect::<Option<_>>()?;
        rest.is_empty().then_some(Behind { place, state, later })
    }
}

impl State {
    /// The pages that are others here; `None` where pages have another size.
    fn differs(&self, content: &dyn Content) -> Result<Option<BTreeSet<u32>>> {
        let page_bytes = content.page_bytes();
        if page_bytes == 0 {
            return Ok(Some(BTreeSet::new()));
        }
        if self.page_bytes != 0 && self.page_bytes != page_bytes {
            return Ok(None);
        }
        let pages = content.pages()?;
        let theirs = if self.pages == 0 { content.pages_of_file()? } else { self.pages.into() };
        // A database that has another length has another first page, or a last one that the other does not have.
        let mut differing: BTreeSet<u32> =
            if pages == theirs { BTreeSet::new() } else { [1].into_iter().collect() };
        let numbers: BTreeSet<u32> =
            content.numbers().into_iter().chain(self.hashes.keys().copied()).collect();
        for number in numbers.into_iter().filter(|number| u64::from(*number) <= pages) {
            let hash = match self.hashes.get(&number) {
                Some(hash) => *hash,
                None => content.hash_in_file(number)?,
            };
            if content.hash(number)? != hash {
                differing.insert(number);
            }
        }
        Ok(Some(differing))
    }

    fn encode(&self, message: &mut Vec<u8>) {
        for number in [self.page_bytes as u32, self.pages, self.hashes.len() as u32] {
            message.extend_from_slice(&number.to_ne_bytes());
        }
        self.hashes.iter().for_each(|(number, hash)| encode_page(*number, *hash, message));
    }

    fn decode(bytes: &mut &[u8]) -> Option<State> {
        let page_bytes = take(bytes).map(u32::from_ne_bytes)? as usize;
        let (pages, count) = (take(bytes).map(u32::from_ne_bytes)?, take(bytes).map(u32::from_ne_bytes)?);
        let is_size = page_bytes.is_power_of_two() && (512..=65536).contains(&page_bytes);
        // A log that has never had a frame does not say it.
        let fits = is_size || page_bytes == 0 && count == 0;
        let (hashes, rest) = bytes.split_at_checked(12 * count as usize).filter(|_| fits)?;
        *bytes = rest;
        let hashes: BTreeMap<u32, u64> = hashes.as_chunks().0.iter().map(decode_page).collect();
        let is_whole = hashes.keys().all(|number| *number > 0) && hashes.len() == count as usize;
        is_whole.then_some(State { page_bytes, pages, hashes })
    }
}

fn encode_place(place: Place, message: &mut Vec<u8>) {
    message.extend_from_slice(&place.salts.to_ne_bytes());
    message.extend_from_slice(&place.frame.to_ne_bytes());
}

fn decode_place(bytes: &mut &[u8]) -> Option<Place> {
    let salts = take(bytes).map(u64::from_ne_bytes)?;
    Some(Place { salts, frame: take(bytes).map(u32::from_ne_bytes)? })
}

fn encode_page(number: u32, hash: u64, message: &mut Vec<u8>) {
    message.extend_from_slice(&number.to_ne_bytes());
    message.extend_from_slice(&hash.to_ne_bytes());
}

fn decode_page(bytes: &[u8; 12]) -> (u32, u64) {
    let [a, b, c, d, hash @ ..] = *bytes;
    (u32::from_ne_bytes([a, b, c, d]), u64::from_ne_bytes(hash))
}

fn decode_later(bytes: &[u8; 13]) -> Option<Later> {
    let (page, &[end]) = bytes.split_first_chunk()? else { return None };
    let (number, hash) = decode_page(page);
    (end <= 1).then_some(Later { number, hash, ends_commit: end == 1 })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 512;

    /// A database of four pages whose file has the hashes 101 to 104.
    #[derive(Clone, Default)]
    struct Database {
        page_bytes: usize,
        log: BTreeMap<u32, u64>,
        pages: u64,
    }

    impl Content for Database {
        fn page_bytes(&self) -> usize {
            self.page_bytes
        }
        fn pages(&self) -> Result<u64> {
            Ok(self.pages)
        }
        fn pages_of_file(&self) -> Result<u64> {
            Ok(4)
        }
        fn numbers(&self) -> Vec<u32> {
            self.log.keys().copied().collect()
        }
        fn hash(&self, number: u32) -> Result<u64> {
            self.log.get(&number).map_or_else(|| self.hash_in_file(number), |hash| Ok(*hash))
        }
        fn hash_in_file(&self, number: u32) -> Result<u64> {
            Ok(100 + u64::from(number))
        }
    }

    fn database(log: &[(u32, u64)]) -> Database {
        Database { page_bytes: PAGE, log: log.iter().copied().collect(), pages: 4 }
    }

    fn state(pages: u32, log: &[(u32, u64)]) -> State {
        State { page_bytes: PAGE, pages, hashes: log.iter().copied().collect() }
    }

    /// A frame is its page, the hash of that, and whether a commit ends with it.
    fn claim(base: &[(u32, u64)], commit: &[(u32, u64)], later: &[(u32, u64, bool)]) -> Claim {
        let behind = Behind {
            place: Place { salts: 1 << 60, frame: 8 },
            state: state(4, commit),
            later: later
                .iter()
                .map(|(number, hash, ends)| Later { number: *number, hash: *hash, ends_commit: *ends })
                .collect(),
        };
        let place = Place { salts: 1 << 60, frame: 5 };
        Claim { place, base: state(4, base), behind: Some(behind).filter(|_| !commit.is_empty()) }
    }

    fn found(claim: &Claim, content: &Database) -> Found {
        claim.find(content, |_| false).unwrap()
    }

    #[test]
    fn a_claim_is_read_as_it_was_written() {
        for claim in [
            claim(&[(1, 1 << 50), (900_000_000, 2)], &[(2, 3)], &[(7, 0, false), (7, 8, true)]),
            claim(&[(1, 1)], &[], &[]),
            Claim::default(),
        ] {
            let message = claim.encode();
            assert_eq!(Claim::decode(&message).as_ref(), Some(&claim));
            assert_eq!(Claim::decode(&message[..message.len() - 1]), None);
            assert_eq!(Claim::decode(&[&message[..], &[0]].concat()), None);
        }
        let mut twice = claim(&[(1, 1), (2, 2)], &[], &[]).encode();
        twice.copy_within(24..28, 36);
        assert_eq!(Claim::decode(&twice), None, "a page twice");
        let mut none = claim(&[(1, 1)], &[], &[]).encode();
        none[24..28].fill(0);
        assert_eq!(Claim::decode(&none), None, "no page has that number");
        let mut many = claim(&[(1, 1)], &[], &[]).encode();
        many[20..24].fill(0xff);
        assert_eq!(Claim::decode(&many), None, "more than there are");
        let mut end = claim(&[], &[(2, 3)], &[(7, 8, true)]).encode();
        *end.last_mut().unwrap() = 2;
        assert_eq!(Claim::decode(&end), None, "neither an end nor none");
        assert!([0, 1, 2].map(|value| Found::of(value).is_some()).iter().all(|is_one| *is_one));
        assert_eq!(Found::of(3), None);
        assert_ne!(hash_of(&[0; PAGE]), hash_of(&[0; PAGE - 1]));
    }

    #[test]
    fn a_base_is_found_where_each_page_of_either_log_is_the_same() {
        let base = claim(&[(2, 7), (3, 103)], &[], &[]);
        assert_eq!(found(&base, &database(&[(2, 7)])), Found::Base, "page 3 is as in the file");
        assert_eq!(found(&base, &database(&[(2, 7), (4, 104)])), Found::Base);
        assert_eq!(found(&base, &database(&[(2, 8)])), Found::Nothing);
        assert_eq!(found(&base, &database(&[])), Found::Nothing, "page 2 is older");
        assert_eq!(found(&base, &database(&[(2, 7), (4, 9)])), Found::Nothing, "page 4 is newer");
        let longer = Database { pages: 5, ..database(&[(2, 7)]) };
        assert_eq!(found(&base, &longer), Found::Nothing);
        let mut of_file = base.clone();
        of_file.base.pages = 0;
        assert_eq!(found(&of_file, &database(&[(2, 7)])), Found::Base);
        let larger = Database { page_bytes: 2 * PAGE, ..database(&[(2, 7)]) };
        assert_eq!(found(&base, &larger), Found::Nothing);
        assert_eq!(found(&Claim::default(), &Database::default()), Found::Base, "nobody has written");
    }

    #[test]
    fn a_commit_is_found_also_where_others_are_behind_it() {
        let claim = claim(
            &[(2, 7)],
            &[(2, 8)],
            &[(3, 5, true), (4, 0, false), (2, 9, false), (3, 6, false), (4, 4, true)],
        );
        assert_eq!(found(&claim, &database(&[(2, 7)])), Found::Base);
        assert_eq!(found(&claim, &database(&[(2, 8)])), Found::Commit);
        assert_eq!(found(&claim, &database(&[(2, 8), (3, 5)])), Found::Commit);
        assert_eq!(found(&claim, &database(&[(2, 9), (3, 6), (4, 4)])), Found::Commit);
        assert_eq!(found(&claim, &database(&[(2, 9), (3, 6), (4, 3)])), Found::Nothing, "not known");
        assert_eq!(found(&claim, &database(&[(2, 1)])), Found::Nothing);
        let longer = Database { pages: 5, ..database(&[(2, 8), (5, 1)]) };
        assert_eq!(found(&claim, &longer), Found::Nothing, "page 1 has not been written");
        assert_eq!(claim.find(&database(&[(2, 1)]), |place| place.frame == 8).unwrap(), Found::Commit);
        assert_eq!(claim.find(&database(&[(2, 1)]), |place| place.frame == 5).unwrap(), Found::Nothing);
    }

    #[test]
    fn a_later_commit_is_compared_where_it_ends() {
        // The commit changes page 2. The next one changes it back, and page 3 with it.
        let both = claim(&[(2, 7)], &[(2, 8)], &[(2, 7, false), (3, 5, true)]);
        assert_eq!(found(&both, &database(&[(2, 7)])), Found::Base, "neither is there");
        assert_eq!(found(&both, &database(&[(2, 8)])), Found::Commit);
        assert_eq!(found(&both, &database(&[(2, 7), (3, 5)])), Found::Commit);
        let unknown = claim(&[(2, 7)], &[(2, 8)], &[(2, 7, false), (3, 5, false)]);
        assert_eq!(found(&unknown, &database(&[(2, 7), (3, 5)])), Found::Nothing);
        let back = claim(&[(2, 7)], &[(2, 8)], &[(2, 7, true)]);
        assert_eq!(found(&back, &database(&[(2, 7)])), Found::Commit, "the same with both and with neither");
    }
}
