//! Where a copy stands: a small file beside it, written before the copy is.
//!
//! It names the delivery that the copy is brought to, and the one that it comes from. Whichever of the two the copy has is told by
//! its checksum. Page 1 of the copy is not that of the place, so its checksum there is noted as well.

use super::{Known, Position};
use crate::source::beside;
use crate::{Error, Result};
use litefoot_ltx::{Checksum, is_page_size};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

const ENDING: &str = "-follow";

/// One delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stands {
    pub position: Position,
    /// The checksum of the database at the place.
    pub sum: Checksum,
    /// That of page 1 there.
    pub first: Checksum,
    /// That of page 1 in the copy, whose header is its own.
    pub own: Checksum,
}

/// What is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub page_size: u32,
    pub now: Stands,
    pub before: Option<Stands>,
}

impl State {
    /// The state of a copy that is brought from one delivery to another.
    pub fn of(now: &Known, before: Option<&Known>) -> State {
        let stands = |known: &Known| Stands {
            position: known.position,
            sum: known.map.sum(),
            first: known.map.get(1).unwrap_or(Checksum::NONE),
            own: Checksum::of_page(1, &known.first),
        };
        State { page_size: now.map.page_size(), now: stands(now), before: before.map(stands) }
    }
}

/// Reads the state of a copy; `None` where there is none that can be used.
pub fn load(copy: &Path) -> Result<Option<State>> {
    let path = beside(copy, ENDING);
    match fs::read(&path) {
        Ok(bytes) => Ok(decode(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::local(&path, error)),
    }
}

/// Writes the state of a copy, durably.
pub fn save(copy: &Path, state: &State) -> Result<()> {
    let path = beside(copy, ENDING);
    let fail = |error: io::Error| Error::local(&path, error);
    let directory = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(fail)?;
    file.write_all(encode(state).as_bytes()).map_err(fail)?;
    file.as_file().sync_all().map_err(fail)?;
    file.persist(&path).map_err(|error| fail(error.error))?;
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(fail)
}

fn encode(state: &State) -> String {
    let stands = |stands: &Stands| {
        json!({
            "transaction": format!("{:016x}", stands.position.transaction),
            "timestamp_ms": stands.position.timestamp_ms,
            "checksum": format!("{:016x}", stands.sum.bits()),
            "page_1": format!("{:016x}", stands.first.bits()),
            "page_1_here": format!("{:016x}", stands.own.bits()),
        })
    };
    let before = state.before.as_ref().map(stands);
    json!({ "version": 1, "page_size": state.page_size, "now": stands(&state.now), "before": before })
        .to_string()
}

fn decode(bytes: &[u8]) -> Option<State> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let stands = |value: &Value| {
        let hex = |name: &str| u64::from_str_radix(value.get(name)?.as_str()?, 16).ok();
        Some(Stands {
            position: Position {
                transaction: hex("transaction")?,
                timestamp_ms: value.get("timestamp_ms")?.as_u64()?,
            },
            sum: Checksum::from_bits(hex("checksum")?),
            first: Checksum::from_bits(hex("page_1")?),
            own: Checksum::from_bits(hex("page_1_here")?),
        })
    };
    let page_size = u32::try_from(value.get("page_size")?.as_u64()?).ok()?;
    let is_known = value.get("version")?.as_u64()? == 1 && is_page_size(page_size);
    is_known.then_some(())?;
    Some(State { page_size, now: stands(value.get("now")?)?, before: value.get("before").and_then(stands) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_and_others_are_none() {
        let directory = tempfile::tempdir().unwrap();
        let copy = directory.path().join("copy.db");
        assert_eq!(load(&copy).unwrap(), None);
        let stands = |transaction| Stands {
            position: Position { transaction, timestamp_ms: 7 },
            sum: Checksum::of_page(1, b"all"),
            first: Checksum::of_page(1, b"first"),
            own: Checksum::of_page(1, b"own"),
        };
        for before in [None, Some(stands(0xabc))] {
            let state = State { page_size: 4096, now: stands(0xabd), before };
            save(&copy, &state).unwrap();
            assert_eq!(load(&copy).unwrap(), Some(state));
        }
        for other in ["", "{}", "[1]", "{\"version\":2,\"page_size\":4096}"] {
            fs::write(beside(&copy, ENDING), other).unwrap();
            assert_eq!(load(&copy).unwrap(), None, "{other}");
        }
    }
}
