//! The owner's end of a member's turn to write in WAL mode.

use super::{Answer, Served};
use crate::error::Result;
use crate::files::group::protocol::Call;
use crate::files::group::statement;

impl Served {
    /// Takes the write slot for a member that has not read yet.
    pub(super) fn take_turn(&mut self, call: &Call<'_>) -> Result<Answer> {
        let (_, statement) = statement::decode(call.data.first().copied().unwrap_or(1));
        let main = self.main()?;
        main.note_statement(statement);
        main.note_seat_read(None);
        Ok(Answer::flag(main.take_turn()))
    }
}
