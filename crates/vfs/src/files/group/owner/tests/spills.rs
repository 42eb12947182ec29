//! Members that write pages before they commit, beside readers.

use super::*;
use crate::files::group::protocol::SPILLS;
use crate::files::rollback_turns::GLANCES;

/// How often the owner has waited for readers before it answers, and whether it gives EXCLUSIVE.
fn wants_to_be_alone(member: &mut Member, data: &[u8]) -> (u32, bool) {
    GLANCES.set(0);
    let asked = member.ask(Operation::Lock, FileOf::Main, (Level::Exclusive as u64, 0), data);
    assert!(matches!(asked, Ok(_) | Err(Error::Busy)));
    (GLANCES.get(), asked.is_ok())
}

#[test]
fn a_commit_waits_for_readers_and_a_spill_does_not() {
    let (vfs, database, mut reader) = held_group();
    let mut writer = member(&vfs, &database);
    begin(&mut reader, Moment::default(), Shows::Always);
    begin(&mut writer, Moment::default(), Shows::Outcome);
    for _ in 0..3 {
        assert_eq!(wants_to_be_alone(&mut writer, &SPILLS), (0, false));
    }
    let (waits, is_alone) = wants_to_be_alone(&mut writer, &[]);
    assert!(waits > 0 && !is_alone, "spills have not used its wait up");
    reader.main(Operation::Unlock, Level::None as u64, 0);
    assert_eq!(wants_to_be_alone(&mut writer, &SPILLS), (0, true));
}
