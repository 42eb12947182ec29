//! Whether a statement can be replayed, read from SQLite's own bytecode.
//!
//! `EXPLAIN` lists the program of a statement with the programs of its triggers, on a connection of ours that allows nothing
//! but rows of the main database to be changed ([`ConfinedConnection`]). The statement can be replayed if every instruction is one of
//! [`SAFE`], and none calls a function or compares by a collation that an application could have put in the place of
//! SQLite's own. What is not known is not replayed. The same is asked when a log is replayed: it may be anybody's.

use crate::capture::reference::mentions_large;
use crate::ffi::authorizer::{ConfinedConnection, Denied, SQLITE_FUNCTION, SQLITE_PRAGMA};
use crate::ffi::codes::SQLITE_ROW;
use crate::ffi::statement::Statement;
use crate::stats::FallbackCause;
use std::collections::BTreeSet;

/// Instructions that depend on nothing but the database and the values, in the versions since 3.40.
const SAFE: &[&str] = &[
    "Abortable",
    "Add",
    "AddImm",
    "Affinity",
    "And",
    "BeginSubrtn",
    "BitAnd",
    "BitNot",
    "BitOr",
    "Blob",
    "Cast",
    "Clear",
    "Close",
    "CollSeq",
    "Column",
    "ColumnsUsed",
    "Compare",
    "Concat",
    "Copy",
    "Count",
    "CursorHint",
    "CursorLock",
    "CursorUnlock",
    "DecrJumpZero",
    "DeferredSeek",
    "Delete",
    "Divide",
    "ElseEq",
    "EndCoroutine",
    "Eq",
    "Explain",
    "Filter",
    "FilterAdd",
    "FinishSeek",
    "FkCheck",
    "FkCounter",
    "FkIfZero",
    "Found",
    "Ge",
    "GetSubtype",
    "Gosub",
    "Goto",
    "Gt",
    "Halt",
    "HaltIfNull",
    "IdxDelete",
    "IdxGE",
    "IdxGT",
    "IdxInsert",
    "IdxLE",
    "IdxLT",
    "IdxRowid",
    "If",
    "IfEmpty",
    "IfNoHope",
    "IfNot",
    "IfNotOpen",
    "IfNotZero",
    "IfNullRow",
    "IfPos",
    "IfSizeBetween",
    "Init",
    "InitCoroutine",
    "Insert",
    "Int64",
    "IntCopy",
    "Integer",
    "IsNull",
    "IsTrue",
    "IsType",
    "Jump",
    "Last",
    "Le",
    "Lt",
    "MakeRecord",
    "MemMax",
    "Move",
    "Multiply",
    "MustBeInt",
    "Ne",
    "NewRowid",
    "Next",
    "NoConflict",
    "Noop",
    "Not",
    "NotExists",
    "NotFound",
    "NotNull",
    "Null",
    "NullRow",
    "Offset",
    "OffsetLimit",
    "Once",
    "OpenAutoindex",
    "OpenDup",
    "OpenEphemeral",
    "OpenPseudo",
    "OpenRead",
    "OpenWrite",
    "Or",
    "Param",
    "Permutation",
    "Prev",
    "Program",
    "RealAffinity",
    "Real",
    "ReleaseReg",
    "Remainder",
    "ReopenIdx",
    "ResetCount",
    "ResetSorter",
    "ResultRow",
    "Return",
    "Rewind",
    "RowCell",
    "RowData",
    "RowSetAdd",
    "RowSetRead",
    "RowSetTest",
    "Rowid",
    "SCopy",
    "SeekEnd",
    "SeekGE",
    "SeekGT",
    "SeekHit",
    "SeekLE",
    "SeekLT",
    "SeekRowid",
    "SeekScan",
    "Sequence",
    "SequenceTest",
    "ShiftLeft",
    "ShiftRight",
    "SoftNull",
    "Sort",
    "SorterCompare",
    "SorterData",
    "SorterInsert",
    "SorterNext",
    "SorterOpen",
    "SorterSort",
    "String",
    "String8",
    "Subtract",
    "TableLock",
    "Trace",
    "Transaction",
    "TypeCheck",
    "Variable",
    "Yield",
    "ZeroOrNull",
];

/// Instructions that go through rows in an order that the planner chose.
const LOOPS: &[&str] = &["Next", "Prev", "SorterNext", "RowSetRead"];

/// Functions that read the clock although SQLite calls some of them deterministic.
const CLOCK: &[&str] = &[
    "date",
    "time",
    "datetime",
    "julianday",
    "strftime",
    "unixepoch",
    "timediff",
    "current_date",
    "current_time",
    "current_timestamp",
];

/// Instructions that write a register with what is not given by the statement: its second operand, or its third, or several
/// from the second on.
const WRITE_SECOND: &[&str] = &[
    "BitNot",
    "Count",
    "IdxRowid",
    "IntCopy",
    "IsTrue",
    "Not",
    "OffsetLimit",
    "Param",
    "RowData",
    "Rowid",
    "SCopy",
    "Sequence",
    "SorterData",
    "ZeroOrNull",
];
const WRITE_THIRD: &[&str] = &[
    "Add",
    "And",
    "BitAnd",
    "BitOr",
    "Column",
    "Concat",
    "Divide",
    "MakeRecord",
    "Multiply",
    "Offset",
    "Or",
    "Remainder",
    "RowSetRead",
    "ShiftLeft",
    "ShiftRight",
    "Subtract",
];
const WRITE_SEVERAL: &[&str] = &["Copy", "Move"];

/// The program of a statement that can be replayed.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// Whether it goes through rows in an order that the planner chose.
    pub loops: bool,
    /// Root pages of what it writes to, where it gives numbers to new rows.
    pub makes_rows_in: Vec<i64>,
    /// Whether a value may become the number of a row.
    pub numbers_rows: bool,
    /// Whether that may be one which is stored, or computed.
    pub numbers_by_rows: bool,
    /// Whether it has, or a trigger of it, a number that is close to the largest of rows.
    pub has_large: bool,
}

/// One instruction as `EXPLAIN` shows it.
struct Instruction {
    name: String,
    operands: [i64; 3],
    extra: String,
}

/// Reads the program of `sql`; `None` where it does not compile.
pub(super) fn examine(own: &ConfinedConnection, sql: &str) -> Option<Result<Program, FallbackCause>> {
    let db = **own;
    own.denied();
    let mut listing = match db.prepare(&format!("EXPLAIN {sql}")) {
        Ok(listing) => listing,
        Err(_) => return own.denied().map(|denied| Err(denied_cause(&denied))),
    };
    let mut instructions = Vec::new();
    while listing.step() == SQLITE_ROW {
        instructions.push(read(&listing));
    }
    // What it was prepared anew for may be denied only then.
    if let Some(denied) = own.denied() {
        return Some(Err(denied_cause(&denied)));
    }
    if instructions.is_empty() {
        return None;
    }
    if let Some(cause) = instructions.iter().find_map(objection) {
        return Some(Err(cause));
    }
    let has =
        |names: &[&str]| instructions.iter().any(|instruction| names.contains(&instruction.name.as_str()));
    let loops = has(LOOPS);
    let makes_rowids = has(&["NewRowid"]);
    // Rows get their numbers in the order in which they are found.
    if loops && makes_rowids {
        return Some(Err(FallbackCause::RowOrder));
    }
    if db.can_lend_bindings() && own.freely(|db| db.is_shaped_by_values(&mut listing)) {
        return Some(Err(FallbackCause::Plan));
    }
    let written = instructions.iter().filter(|instruction| makes_rowids && instruction.name == "OpenWrite");
    let makes_rows_in = written.map(|instruction| instruction.operands[1]).collect();
    // SQLite makes an integer of each value that is to number a row. Only where it copies whole tables it does not.
    let numbers_rows = loops || has(&["MustBeInt"]);
    let copies_rows = loops && has(&["RowCell", "RowData"]);
    let keys = keys_of_rows(&instructions);
    let mut numbers = instructions.iter().filter(|instruction| instruction.name == "MustBeInt");
    let numbers_by_rows = copies_rows
        || numbers.any(|number| {
            keys.contains(&number.operands[0]) && is_from_rows(number.operands[0], &instructions)
        });
    let constants = ["Int64", "Real", "String", "String8"];
    let mut constants = instructions.iter().filter(|constant| constants.contains(&constant.name.as_str()));
    let has_large = constants.any(|constant| mentions_large(constant.extra.as_bytes()));
    Some(Ok(Program { loops, makes_rows_in, numbers_rows, numbers_by_rows, has_large }))
}

/// The registers whose values number the rows that are written: those of `Insert`, and what is copied there. A foreign key
/// makes integers of others, to look them up.
fn keys_of_rows(instructions: &[Instruction]) -> BTreeSet<i64> {
    let inserts = instructions.iter().filter(|instruction| instruction.name == "Insert");
    let mut keys: BTreeSet<i64> = inserts.map(|insert| insert.operands[2]).collect();
    loop {
        let before = keys.len();
        for Instruction { name, operands: [from, to, more], .. } in instructions {
            let last = match name.as_str() {
                "SCopy" | "IntCopy" => 0,
                "Copy" | "Move" => *more,
                _ => continue,
            };
            keys.extend(
                (0..=last).filter(|at| keys.contains(&(to + at))).map(|at| from + at).collect::<Vec<_>>(),
            );
        }
        if keys.len() == before {
            return keys;
        }
    }
}

/// Whether a register gets a value that is not one of the statement's own. Those of triggers have the same numbers, so that
/// this is answered once too often rather than too seldom.
fn is_from_rows(register: i64, instructions: &[Instruction]) -> bool {
    instructions.iter().any(|Instruction { name, operands: [_, second, third], .. }| {
        let is = |names: &[&str]| names.contains(&name.as_str());
        is(WRITE_SECOND) && *second == register
            || is(WRITE_THIRD) && *third == register
            || is(WRITE_SEVERAL) && (*second..=second + third).contains(&register)
    })
}

fn read(listing: &Statement) -> Instruction {
    Instruction {
        name: listing.text(1),
        operands: [listing.integer(2), listing.integer(3), listing.integer(4)],
        extra: listing.text(5),
    }
}

/// What is wrong with a statement that was not allowed to compile.
fn denied_cause(denied: &Denied) -> FallbackCause {
    match denied.action {
        SQLITE_FUNCTION => function_cause(&denied.name),
        SQLITE_PRAGMA => FallbackCause::Pragma,
        _ if !denied.name.is_empty() && denied.name != "main" => FallbackCause::OtherDatabase,
        _ => FallbackCause::Schema,
    }
}

fn function_cause(name: &str) -> FallbackCause {
    if CLOCK.contains(&name.to_ascii_lowercase().as_str()) {
        FallbackCause::Clock
    } else {
        FallbackCause::Function
    }
}

/// Why the instruction cannot be replayed, if so.
fn objection(instruction: &Instruction) -> Option<FallbackCause> {
    let [first, second, third] = instruction.operands;
    match instruction.name.as_str() {
        "Transaction" if first != 0 => return Some(FallbackCause::OtherDatabase),
        "OpenRead" | "OpenWrite" | "ReopenIdx" if third != 0 => return Some(FallbackCause::OtherDatabase),
        "Clear" if second != 0 => return Some(FallbackCause::OtherDatabase),
        "CreateBtree" | "ParseSchema" | "ReadCookie" | "SetCookie" | "Destroy" | "DropTable"
        | "DropIndex" | "DropTrigger" | "SqlExec" | "LoadAnalysis" => return Some(FallbackCause::Schema),
        "VOpen" | "VUpdate" | "VFilter" | "VBegin" | "VCreate" | "VDestroy" | "VRename" | "VNext"
        | "VColumn" | "VInitIn" | "VCheck" => return Some(FallbackCause::VirtualTable),
        // `extra` is `name(arguments)`.
        "Function" | "PureFunc" | "AggStep" | "AggStep1" | "AggFinal" | "AggValue" | "AggInverse" => {
            return Some(function_cause(instruction.extra.split('(').next().unwrap_or_default()));
        }
        "CollSeq" => return collations_objection(&instruction.extra),
        _ => {}
    }
    if instruction.extra.starts_with("k(") {
        return collations_objection(&instruction.extra);
    }
    let compares = ["Eq", "Ne", "Lt", "Le", "Gt", "Ge", "ElseEq", "Compare"];
    if compares.contains(&instruction.name.as_str()) && !instruction.extra.is_empty() {
        return collations_objection(&instruction.extra);
    }
    (!SAFE.contains(&instruction.name.as_str())).then_some(FallbackCause::Instruction)
}

/// `extra` is `k(columns,name,…)` or `name-encoding`; an empty name, `B` or a sign stand for BINARY. All others an
/// application may have put something else in the place of.
fn collations_objection(extra: &str) -> Option<FallbackCause> {
    let inside = extra.strip_prefix("k(").and_then(|rest| rest.strip_suffix(')'));
    let names: Vec<&str> = match inside {
        Some(list) => list.split(',').skip(1).collect(),
        None => vec![extra.rsplit_once('-').map_or(extra, |(name, _)| name)],
    };
    let known = |name: &&str| {
        let name = name.trim_start_matches(['-', '+']).trim_start_matches("N.");
        name.is_empty() || name == "B" || name.eq_ignore_ascii_case("BINARY")
    };
    (!names.iter().all(known)).then_some(FallbackCause::Collation)
}
