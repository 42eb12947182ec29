//! The causes for which a commit writes pages although statements are allowed: the names that users see.

/// A cause of a fallback from statements to pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum FallbackCause {
    /// Pages were written outside the tracked statements: by a blob handle, by the backup interface, by an
    /// application that has taken the trace hook, or by a connection that had only read for long.
    Untracked,
    /// The transaction is the connection's first, and began before the log was open.
    Opening,
    /// Statements ran inside other statements, or between their steps.
    Interleaved,
    /// The transaction changes the schema.
    Schema,
    /// A virtual table takes part.
    VirtualTable,
    /// Another database takes part, the temporary database included.
    OtherDatabase,
    /// A statement reads the clock.
    Clock,
    /// A statement calls a function of the application, or one that answers differently every time.
    Function,
    /// A statement compares by a collation of the application.
    Collation,
    /// The program of a statement has an unknown instruction.
    Instruction,
    /// Rows are numbered in the order in which a scan finds them.
    RowOrder,
    /// The connection compiles the statement in another way than the reference connection.
    Settings,
    /// A PRAGMA ran inside the transaction.
    Pragma,
    /// A statement met a lock, a full disk or another failure of the machine.
    Disturbed,
    /// The statements are too long for the log, or longer than the pages.
    Size,
    /// The log of statements has no room left.
    LogFull,
    /// A text is not stored as UTF-8.
    Encoding,
    /// Statements do not pay at the moment: the transactions just before had to be written as pages.
    Mixed,
    /// Bound values cannot be read: this SQLite was built without `sqlite3_transfer_bindings`.
    Bindings,
    /// Bound values shape the plan (`LIKE ?`): SQLite does not let anybody read them while the statement runs.
    Plan,
    /// The log of statements could not be used.
    Unavailable,
    /// The transaction did not fit into memory, and some of its pages were written early.
    Large,
}

impl FallbackCause {
    /// All causes and their names, in the order of their numbers.
    pub const ALL: [(FallbackCause, &'static str); 22] = [
        (FallbackCause::Untracked, "untracked"),
        (FallbackCause::Opening, "opening"),
        (FallbackCause::Interleaved, "interleaved"),
        (FallbackCause::Schema, "schema"),
        (FallbackCause::VirtualTable, "virtual_table"),
        (FallbackCause::OtherDatabase, "other_database"),
        (FallbackCause::Clock, "clock"),
        (FallbackCause::Function, "function"),
        (FallbackCause::Collation, "collation"),
        (FallbackCause::Instruction, "instruction"),
        (FallbackCause::RowOrder, "row_order"),
        (FallbackCause::Settings, "settings"),
        (FallbackCause::Pragma, "pragma"),
        (FallbackCause::Disturbed, "disturbed"),
        (FallbackCause::Size, "size"),
        (FallbackCause::LogFull, "log_full"),
        (FallbackCause::Encoding, "encoding"),
        (FallbackCause::Mixed, "mixed"),
        (FallbackCause::Bindings, "bindings"),
        (FallbackCause::Plan, "plan"),
        (FallbackCause::Unavailable, "unavailable"),
        (FallbackCause::Large, "large"),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_stands_at_its_number() {
        for (number, (cause, name)) in FallbackCause::ALL.iter().enumerate() {
            assert_eq!(*cause as usize, number, "{name}");
        }
    }
}
