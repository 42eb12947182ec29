//! SQLite's instructions: which of them do the same when they are run again.
//!
//! An instruction can be repeated if it is one of [`SAFE`]. It must call no function and compare by no collation that an
//! application could have put in the place of SQLite's own. An unknown instruction is not repeated.

use crate::stats::FallbackCause;

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

/// One instruction as `EXPLAIN` shows it.
#[derive(Clone, Debug)]
pub(super) struct Instruction {
    pub name: String,
    /// `p1`, `p2` and `p3`.
    pub operands: [i64; 3],
    /// `p4`.
    pub extra: String,
}

impl Instruction {
    /// True if the instruction is one of these.
    pub fn is_one_of(&self, names: &[&str]) -> bool {
        names.contains(&self.name.as_str())
    }
}

/// The cause for which a call of a function cannot be repeated.
pub(super) fn function_cause(name: &str) -> FallbackCause {
    if CLOCK.contains(&name.to_ascii_lowercase().as_str()) {
        FallbackCause::Clock
    } else {
        FallbackCause::Function
    }
}

/// The cause for which an instruction cannot be repeated, if there is one.
pub(super) fn objection(instruction: &Instruction) -> Option<FallbackCause> {
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

/// The same for the collations of `extra`, which is `k(columns,name,…)` or `name-encoding`. An empty name, `B` or a sign stand
/// for BINARY. An application may have put something else in the place of any other.
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

#[cfg(test)]
mod tests {
    use super::*;
    use FallbackCause::{
        Clock, Collation, Function, Instruction as Unknown, OtherDatabase, Schema, VirtualTable,
    };

    #[test]
    fn each_instruction_is_repeated_or_refused_for_a_cause() {
        for (name, operands, extra, cause) in [
            ("Insert", [0, 1, 2], "t", None),
            ("Transaction", [0, 1, 3], "", None),
            ("Transaction", [1, 1, 3], "", Some(OtherDatabase)),
            ("OpenWrite", [0, 2, 0], "2", None),
            ("OpenWrite", [0, 2, 1], "2", Some(OtherDatabase)),
            ("OpenRead", [0, 2, 2], "2", Some(OtherDatabase)),
            ("Clear", [2, 0, 0], "", None),
            ("Clear", [2, 1, 0], "", Some(OtherDatabase)),
            ("CreateBtree", [0, 1, 1], "", Some(Schema)),
            ("ParseSchema", [0, 0, 0], "", Some(Schema)),
            ("VUpdate", [0, 0, 0], "", Some(VirtualTable)),
            ("Function", [0, 0, 1], "random(0)", Some(Function)),
            ("PureFunc", [0, 0, 1], "DateTime(-1)", Some(Clock)),
            ("AggStep", [0, 0, 1], "sum(1)", Some(Function)),
            ("CollSeq", [0, 0, 0], "BINARY-8", None),
            ("CollSeq", [0, 0, 0], "NOCASE-8", Some(Collation)),
            ("Eq", [1, 2, 3], "", None),
            ("Eq", [1, 2, 3], "binary-8", None),
            ("Ne", [1, 2, 3], "RTRIM-8", Some(Collation)),
            ("Compare", [1, 2, 3], "k(2,B,-B)", None),
            ("SorterOpen", [1, 2, 3], "k(1,NOCASE)", Some(Collation)),
            ("OpenEphemeral", [1, 2, 3], "k(3,,-,N.B)", None),
            ("NewInstruction", [0, 0, 0], "", Some(Unknown)),
        ] {
            let instruction = Instruction { name: name.to_owned(), operands, extra: extra.to_owned() };
            assert_eq!(objection(&instruction), cause, "{instruction:?}");
        }
    }

    #[test]
    fn safe_instructions_are_listed_once() {
        let names: std::collections::HashSet<&str> = SAFE.iter().copied().collect();
        assert_eq!(names.len(), SAFE.len());
        for name in [
            "Function",
            "VOpen",
            "ParseSchema",
            "SqlExec",
            "Vacuum",
            "Savepoint",
            "AutoCommit",
            "JournalMode",
        ] {
            assert!(!names.contains(name), "{name}");
        }
    }
}
