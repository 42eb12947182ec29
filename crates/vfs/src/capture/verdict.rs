//! Whether a statement can be replayed, read from SQLite's own bytecode.
//!
//! `EXPLAIN` lists the program of a statement with the programs of its triggers. It can be replayed if every
//! instruction is one of [`SAFE`], it writes only the main database and reads no other, and every function in
//! it is SQLite's own and gives the same answer every time. What is not known is not replayed.
//!
//! The program is compiled a second time on a connection of our own, which has nothing but SQLite's defaults
//! and the two settings that the log carries. Where the two differ, something that the application did to its
//! connection is at work (an authorizer, a limit, statistics that are not loaded yet), and pages are written.

use super::cause::Cause;
use crate::abi::codes::SQLITE_ROW;
use crate::abi::statement::{Db, Statement};
use std::hash::{DefaultHasher, Hash, Hasher};

/// What a statement is to the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It can be replayed.
    Replayable,
    /// Its transaction must be written as pages.
    Pages(Cause),
}

/// Instructions that depend on nothing but the database and the values, in the versions since 3.40.
const SAFE: &[&str] = &[
    "Abortable",
    "Add",
    "AddImm",
    "Affinity",
    "AggFinal",
    "AggInverse",
    "AggStep",
    "AggStep1",
    "AggValue",
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
    "CreateBtree",
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
    "Function",
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

/// Aggregates that do not depend on the order of the rows, not even in the last bit of a sum.
const AGGREGATES: &[&str] = &["count", "min", "max"];

/// SQLite's flag for a function that always gives the same answer (`SQLITE_DETERMINISTIC`).
const DETERMINISTIC: i64 = 0x800;

/// The collations that every connection has.
const COLLATIONS: &[&str] = &["BINARY", "NOCASE", "RTRIM"];

/// A statement's program: whether it can be replayed, and a fingerprint of its instructions.
pub(crate) struct Program {
    pub verdict: Verdict,
    pub fingerprint: u64,
}

/// One instruction as `EXPLAIN` shows it.
struct Instruction {
    name: String,
    operands: [i64; 3],
    extra: String,
}

/// Reads the program of `sql` as the connection compiles it.
pub(crate) fn examine(db: Db, sql: &str) -> Option<Program> {
    let mut listing = db.prepare(&format!("EXPLAIN {sql}")).ok()?;
    let mut program = Program { verdict: Verdict::Replayable, fingerprint: 0 };
    let mut hasher = DefaultHasher::new();
    let (mut loops, mut makes_rowids) = (false, false);
    // All are read before anything is asked: a question can make SQLite drop a schema that has changed meanwhile, and the
    // listing looks into it.
    let mut instructions = Vec::new();
    while listing.step() == SQLITE_ROW {
        instructions.push(read(&listing));
    }
    for instruction in instructions {
        fingerprint(&instruction, &mut hasher);
        loops |= LOOPS.contains(&instruction.name.as_str());
        makes_rowids |= instruction.name == "NewRowid";
        if let (Verdict::Replayable, Some(cause)) = (program.verdict, objection(db, &instruction)) {
            program.verdict = Verdict::Pages(cause);
        }
    }
    // Rows get their numbers in the order in which they are found.
    if program.verdict == Verdict::Replayable && loops && makes_rowids {
        program.verdict = Verdict::Pages(Cause::RowOrder);
    }
    program.fingerprint = hasher.finish();
    if program.verdict == Verdict::Replayable && db.can_lend_bindings() {
        let by_samples = loops && listing.parameters() > 0 && db.plans_by_samples();
        if by_samples || listing.is_shaped_by_values(db) {
            program.verdict = Verdict::Pages(Cause::Plan);
        }
    }
    Some(program)
}

fn read(listing: &Statement) -> Instruction {
    Instruction {
        name: listing.text(1),
        operands: [listing.integer(2), listing.integer(3), listing.integer(4)],
        extra: listing.text(5),
    }
}

fn fingerprint(instruction: &Instruction, hasher: &mut DefaultHasher) {
    instruction.name.hash(hasher);
    instruction.operands.hash(hasher);
    // A transaction's extra operand counts the schema loads of its connection.
    if instruction.name != "Transaction" {
        instruction.extra.hash(hasher);
    }
}

/// Why the instruction cannot be replayed, if so.
fn objection(db: Db, instruction: &Instruction) -> Option<Cause> {
    let [_, second, third] = instruction.operands;
    match instruction.name.as_str() {
        "Transaction" if instruction.operands[0] != 0 => return Some(Cause::OtherDatabase),
        "OpenRead" | "OpenWrite" | "ReopenIdx" if third != 0 => return Some(Cause::OtherDatabase),
        "Clear" | "CreateBtree" if instruction.name == "Clear" && second != 0 => {
            return Some(Cause::OtherDatabase);
        }
        "CreateBtree" | "ParseSchema" | "ReadCookie" | "SetCookie" | "Destroy" | "DropTable"
        | "DropIndex" | "DropTrigger" | "SqlExec" | "LoadAnalysis" => return Some(Cause::Schema),
        "VOpen" | "VUpdate" | "VFilter" | "VBegin" | "VCreate" | "VDestroy" | "VRename" | "VNext"
        | "VColumn" | "VInitIn" | "VCheck" => return Some(Cause::VirtualTable),
        "Function" | "PureFunc" | "AggStep" | "AggStep1" | "AggFinal" | "AggValue" | "AggInverse" => {
            return function_objection(db, &instruction.extra);
        }
        "CollSeq" => return collations_objection(&instruction.extra),
        _ => {}
    }
    if instruction.extra.starts_with("k(") {
        return collations_objection(&instruction.extra);
    }
    (!SAFE.contains(&instruction.name.as_str())).then_some(Cause::Instruction)
}

/// `extra` is `name(arguments)`.
fn function_objection(db: Db, extra: &str) -> Option<Cause> {
    let name = extra.split('(').next().unwrap_or_default().to_ascii_lowercase();
    if CLOCK.contains(&name.as_str()) {
        return Some(Cause::Clock);
    }
    let sql = "SELECT min(builtin), min(flags & 2048) FROM pragma_function_list WHERE name = ?1";
    let Ok(mut list) = db.prepare(sql) else { return Some(Cause::Function) };
    // SAFETY: the name outlives the statement, which is dropped first.
    unsafe { list.bind(1, crate::abi::statement::Value::Text(name.as_bytes())) };
    let own = list.step() == SQLITE_ROW && list.integer(0) == 1;
    let known = own && (list.integer(1) == DETERMINISTIC || AGGREGATES.contains(&name.as_str()));
    (!known).then_some(Cause::Function)
}

/// `extra` is `k(columns,name,…)` or `name-encoding`; an empty name, `B` or a sign stand for BINARY.
fn collations_objection(extra: &str) -> Option<Cause> {
    let inside = extra.strip_prefix("k(").and_then(|rest| rest.strip_suffix(')'));
    let names: Vec<&str> = match inside {
        Some(list) => list.split(',').skip(1).collect(),
        None => vec![extra.rsplit_once('-').map_or(extra, |(name, _)| name)],
    };
    let known = |name: &&str| {
        let name = name.trim_start_matches(['-', '+']).trim_start_matches("N.");
        name.is_empty() || name == "B" || COLLATIONS.contains(&name.to_ascii_uppercase().as_str())
    };
    (!names.iter().all(known)).then_some(Cause::Collation)
}
