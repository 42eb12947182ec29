//! What a member tells of its statement when it takes slots of the wal-index, as one byte.
//!
//! ```text
//! bit 0      the slots are taken exclusively
//! bit 1      no transaction with BEGIN
//! bits 2, 3  when the statement shows what it reads: 0 always, 1 once it has the write lock, 2 at its end
//! ```

use crate::files::connection_state::MembersStatement;
use crate::files::durable_reads::Shows;

pub(super) fn encode(exclusive: bool, statement: MembersStatement) -> u8 {
    let shows = match statement.shows {
        Shows::Always => 0,
        Shows::Begun => 1,
        Shows::Outcome => 2,
    };
    u8::from(exclusive) | u8::from(statement.is_autocommit) << 1 | shows << 2
}

pub(super) fn decode(byte: u8) -> (bool, MembersStatement) {
    let shows = match byte >> 2 & 3 {
        1 => Shows::Begun,
        2 => Shows::Outcome,
        _ => Shows::Always,
    };
    (byte & 1 != 0, MembersStatement { is_autocommit: byte & 2 != 0, shows })
}

/// The change counter of the index when the member has begun to read by its seat, from the data of a call that takes slots; `None` where it
/// does not.
pub(super) fn seat_read(data: &[u8]) -> Option<u32> {
    let bytes = data.get(1..5)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_read_as_it_was_told() {
        for exclusive in [false, true] {
            for is_autocommit in [false, true] {
                for shows in [Shows::Always, Shows::Begun, Shows::Outcome] {
                    let statement = MembersStatement { is_autocommit, shows };
                    assert_eq!(decode(encode(exclusive, statement)), (exclusive, statement));
                }
            }
        }
    }
}
