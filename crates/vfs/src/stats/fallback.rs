//! The causes for which a commit writes pages although statements are allowed: the names that users see.

/// The enum of all causes, and the table of their names and meanings, from one list.
macro_rules! causes {
    ($($(#[doc = $meaning:literal])+ $cause:ident as $name:literal,)*) => {
        /// A cause of a fallback from statements to pages.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub(crate) enum FallbackCause {
            $($(#[doc = $meaning])+ $cause,)*
        }

        impl FallbackCause {
            /// All causes, their names and their meanings, in the order of their numbers.
            pub const ALL: &[(FallbackCause, &'static str, &'static str)] =
                &[$((FallbackCause::$cause, $name, concat!($($meaning),+))),*];
        }
    };
}

causes! {
    /// Pages were written outside the tracked statements: by a blob handle, by the backup interface, under another trace
    /// hook, or by a connection that had only read for long.
    Untracked as "untracked",
    /// The transaction is the connection's first, and began before the log was open.
    Opening as "opening",
    /// Statements ran inside other statements, or between their steps.
    Interleaved as "interleaved",
    /// The transaction changes the schema.
    Schema as "schema",
    /// A virtual table takes part.
    VirtualTable as "virtual_table",
    /// Another database takes part, the temporary database included.
    OtherDatabase as "other_database",
    /// A statement reads the clock.
    Clock as "clock",
    /// A statement calls a function of the application, or one that answers differently every time.
    Function as "function",
    /// A statement compares by a collation of the application.
    Collation as "collation",
    /// The program of a statement has an unknown instruction.
    Instruction as "instruction",
    /// Rows are numbered in the order in which a scan finds them.
    RowOrder as "row_order",
    /// The connection compiles the statement in another way than the reference connection.
    Settings as "settings",
    /// A PRAGMA ran inside the transaction.
    Pragma as "pragma",
    /// A statement met a lock, a full disk or another failure of the machine.
    Disturbed as "disturbed",
    /// The statements are too long for the log, or longer than the pages.
    Size as "size",
    /// The log of statements has no room left.
    LogFull as "log_full",
    /// A text is not stored as UTF-8.
    Encoding as "encoding",
    /// Statements do not pay at the moment: the transactions just before had to be written as pages.
    Mixed as "mixed",
    /// Bound values cannot be read: this SQLite was built without `sqlite3_transfer_bindings`.
    Bindings as "bindings",
    /// Bound values shape the plan (`LIKE ?`): SQLite does not let anybody read them while the statement runs.
    Plan as "plan",
    /// A page may get bytes that depend on what the connection has done before, and not on the statement.
    Page as "page",
    /// The log of statements could not be used.
    Unavailable as "unavailable",
    /// The transaction did not fit into memory, and some of its pages were written early.
    Large as "large",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_stands_at_its_number() {
        for (number, (cause, name, meaning)) in FallbackCause::ALL.iter().enumerate() {
            assert_eq!(*cause as usize, number, "{name}");
            assert!(meaning.ends_with('.') && !meaning.contains('|'), "a cell of a table: {meaning}");
        }
    }
}
