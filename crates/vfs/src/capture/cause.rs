//! Why a transaction was written as pages: names that users see.

/// One of the reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Cause {
    /// Something wrote pages outside the statements that were seen: a blob handle, the backup interface, an
    /// application that has taken the trace hook, or a connection that had only read for long.
    NotSeen,
    /// It is the connection's first, which began before the log was open.
    Opening,
    /// Statements ran inside or between the steps of others.
    Interleaved,
    /// The schema is changed.
    Schema,
    /// A virtual table takes part.
    VirtualTable,
    /// Another database takes part, the temporary one included.
    OtherDatabase,
    /// The clock is read.
    Clock,
    /// A function of the application's, or one that is different every time.
    Function,
    /// A collation of the application's.
    Collation,
    /// An instruction that nothing is known of.
    Instruction,
    /// Rows are numbered in the order in which a scan finds them.
    RowOrder,
    /// The connection compiles the statement in another way than a plain one does.
    Settings,
    /// A PRAGMA inside the transaction.
    Pragma,
    /// A statement met a lock, a full disk or another failure of the machine.
    Disturbed,
    /// The statements are too long for the log, or longer than the pages.
    Size,
    /// The statement log has no room left.
    LogFull,
    /// Text is not stored as UTF-8.
    Encoding,
    /// Statements do not pay at the moment: the transactions just before had to be written as pages.
    Mixed,
    /// Bound values cannot be read: this SQLite was built without `sqlite3_transfer_bindings`.
    Bindings,
    /// Bound values shape the plan (`LIKE ?`): SQLite does not let them be read while the statement runs.
    Plan,
    /// The statement log could not be used.
    Unavailable,
    /// It did not fit into memory, and pages of it were written ahead.
    Large,
}

impl Cause {
    /// All of them, in the order of their numbers.
    pub const ALL: [(Cause, &'static str); 22] = [
        (Cause::NotSeen, "not_seen"),
        (Cause::Opening, "opening"),
        (Cause::Interleaved, "interleaved"),
        (Cause::Schema, "schema"),
        (Cause::VirtualTable, "virtual_table"),
        (Cause::OtherDatabase, "other_database"),
        (Cause::Clock, "clock"),
        (Cause::Function, "function"),
        (Cause::Collation, "collation"),
        (Cause::Instruction, "instruction"),
        (Cause::RowOrder, "row_order"),
        (Cause::Settings, "settings"),
        (Cause::Pragma, "pragma"),
        (Cause::Disturbed, "disturbed"),
        (Cause::Size, "size"),
        (Cause::LogFull, "log_full"),
        (Cause::Encoding, "encoding"),
        (Cause::Mixed, "mixed"),
        (Cause::Bindings, "bindings"),
        (Cause::Plan, "plan"),
        (Cause::Unavailable, "unavailable"),
        (Cause::Large, "large"),
    ];
}
