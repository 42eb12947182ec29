//! Replayable statements: whether a statement does the same when it is run again, read from SQLite's own bytecode.
//!
//! `EXPLAIN` lists the program of a statement with the programs of its triggers. The internal connection that compiles it
//! allows nothing but rows of the main database to be changed ([`ConfinedConnection`]). A statement can be replayed if each
//! instruction can be repeated ([`objection`]), and new rows get the same numbers. A log is examined in the same way before
//! its replay: anybody may have made it.

use crate::capture::instructions::{Instruction, function_cause, objection};
use crate::capture::large_numbers::mentions_large;
use crate::ffi::authorizer::{ConfinedConnection, Denied, SQLITE_FUNCTION, SQLITE_PRAGMA};
use crate::ffi::codes::SQLITE_ROW;
use crate::ffi::statement::Statement;
use crate::stats::FallbackCause;
use std::collections::BTreeSet;

/// Instructions that go through rows in an order that the planner chose.
const LOOPS: &[&str] = &["Next", "Prev", "SorterNext", "RowSetRead"];

/// Instructions that write a register with a value that is not the statement's own. The register is their second
/// operand, or their third, or they write several from the second on.
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
    /// True if the program goes through rows in an order that the planner chose.
    pub loops: bool,
    /// Root pages of written tables and indices, where the program gives numbers to new rows.
    pub makes_rows_in: Vec<i64>,
    /// True if a value may become the number of a row.
    pub numbers_rows: bool,
    /// True if that value may be stored, or computed.
    pub numbers_by_rows: bool,
    /// True if the program, or one of its triggers, has a number that is close to the largest of rows.
    pub has_large: bool,
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
    // A denial may come only here, if SQLite prepares the statement anew.
    if let Some(denied) = own.denied() {
        return Some(Err(denied_cause(&denied)));
    }
    if instructions.is_empty() {
        return None;
    }
    let is_shaped_by_values =
        || db.can_lend_bindings() && own.freely(|db| db.is_shaped_by_values(&mut listing));
    Some(judge(&instructions, is_shaped_by_values))
}

/// The effects of a program, or the cause for which it cannot be replayed.
fn judge(
    instructions: &[Instruction],
    is_shaped_by_values: impl FnOnce() -> bool,
) -> Result<Program, FallbackCause> {
    if let Some(cause) = instructions.iter().find_map(objection) {
        return Err(cause);
    }
    if writes_short_cells(instructions) {
        return Err(FallbackCause::Page);
    }
    let has = |names: &[&str]| instructions.iter().any(|instruction| instruction.is_one_of(names));
    let loops = has(LOOPS);
    let makes_rowids = has(&["NewRowid"]);
    // Rows get their numbers in the order in which they are found.
    if loops && makes_rowids {
        return Err(FallbackCause::RowOrder);
    }
    if is_shaped_by_values() {
        return Err(FallbackCause::Plan);
    }
    let written = instructions.iter().filter(|instruction| makes_rowids && instruction.name == "OpenWrite");
    let makes_rows_in = written.map(|instruction| instruction.operands[1]).collect();
    // SQLite makes an integer of each value that is to number a row, except where it copies whole tables.
    let numbers_rows = loops || has(&["MustBeInt"]);
    let copies_rows = loops && has(&["RowCell", "RowData"]);
    let keys = keys_of_rows(instructions);
    let mut numbers = instructions.iter().filter(|instruction| instruction.name == "MustBeInt");
    let numbers_by_rows = copies_rows
        || numbers.any(|number| {
            keys.contains(&number.operands[0]) && is_from_rows(number.operands[0], instructions)
        });
    let mut constants =
        instructions.iter().filter(|constant| constant.is_one_of(&["Int64", "Real", "String", "String8"]));
    let has_large = constants.any(|constant| mentions_large(constant.extra.as_bytes()));
    Ok(Program { loops, makes_rows_in, numbers_rows, numbers_by_rows, has_large })
}

/// True if the program may store a cell of three bytes: an index entry of one column, as a table WITHOUT ROWID has. The cell
/// takes four bytes in its page, and up to 3.40 SQLite leaves in the fourth what it has in memory there.
fn writes_short_cells(instructions: &[Instruction]) -> bool {
    let all = |name: &'static str| instructions.iter().filter(move |instruction| instruction.name == name);
    all("IdxInsert").any(|insert| {
        let [cursor, record, _] = insert.operands;
        let mut made = all("MakeRecord").filter(|make| make.operands[2] == record).peekable();
        let is_written = all("OpenWrite").any(|open| open.operands[0] == cursor);
        // Entries that are copied from another index may be of any length.
        is_written && (made.peek().is_none() || made.any(|make| make.operands[1] == 1))
    })
}

/// The registers whose values number the rows that are written: those of `Insert`, and registers that are copied there. A
/// foreign key makes integers of other registers, to look rows up.
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

/// True if a register gets a value that is not the statement's own. Registers of triggers have the same numbers, so the
/// answer is `true` too often rather than too seldom.
fn is_from_rows(register: i64, instructions: &[Instruction]) -> bool {
    instructions.iter().any(|instruction| {
        let [_, second, third] = instruction.operands;
        instruction.is_one_of(WRITE_SECOND) && second == register
            || instruction.is_one_of(WRITE_THIRD) && third == register
            || instruction.is_one_of(WRITE_SEVERAL) && (second..=second + third).contains(&register)
    })
}

fn read(listing: &Statement) -> Instruction {
    Instruction {
        name: listing.text(1),
        operands: [listing.integer(2), listing.integer(3), listing.integer(4)],
        extra: listing.text(5),
    }
}

/// The cause for which a statement was not allowed to compile.
fn denied_cause(denied: &Denied) -> FallbackCause {
    match denied.action {
        SQLITE_FUNCTION => function_cause(&denied.name),
        SQLITE_PRAGMA => FallbackCause::Pragma,
        _ if !denied.name.is_empty() && denied.name != "main" => FallbackCause::OtherDatabase,
        _ => FallbackCause::Schema,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program, an instruction a line: name and operands.
    fn listing(program: &[(&str, [i64; 3], &str)]) -> Vec<Instruction> {
        let instruction = |(name, operands, extra): &(&str, [i64; 3], &str)| Instruction {
            name: (*name).to_owned(),
            operands: *operands,
            extra: (*extra).to_owned(),
        };
        program.iter().map(instruction).collect()
    }

    #[test]
    fn programs_are_replayed_or_refused_for_a_cause() {
        let open = ("OpenWrite", [0, 2, 0], "2");
        for (what, program, shaped, cause) in [
            ("a new row", &[open, ("NewRowid", [0, 1, 0], "")][..], false, None),
            ("a scan", &[open, ("Next", [0, 1, 0], "")], false, None),
            (
                "rows numbered as they are found",
                &[open, ("NewRowid", [0, 1, 0], ""), ("SorterNext", [1, 1, 0], "")],
                true,
                Some(FallbackCause::RowOrder),
            ),
            ("a plan by values", &[open], true, Some(FallbackCause::Plan)),
            (
                "an index entry",
                &[open, ("MakeRecord", [4, 2, 7], ""), ("IdxInsert", [0, 7, 4], "2")],
                false,
                None,
            ),
            (
                "an index entry of one column",
                &[open, ("MakeRecord", [4, 1, 7], ""), ("IdxInsert", [0, 7, 4], "1")],
                false,
                Some(FallbackCause::Page),
            ),
            (
                "one column of a list in memory",
                &[open, ("MakeRecord", [4, 1, 7], ""), ("IdxInsert", [3, 7, 4], "1")],
                false,
                None,
            ),
            (
                "a copied index entry",
                &[open, ("RowData", [1, 7, 0], ""), ("IdxInsert", [0, 7, 0], "1")],
                false,
                Some(FallbackCause::Page),
            ),
            (
                "a function, before anything else",
                &[("Next", [0; 3], ""), ("NewRowid", [0; 3], ""), ("Function", [0; 3], "f(1)")],
                true,
                Some(FallbackCause::Function),
            ),
        ] {
            let found = judge(&listing(program), || shaped);
            assert_eq!(found.err(), cause, "{what}");
        }
    }

    #[test]
    fn a_program_says_how_it_numbers_rows() {
        let open = ("OpenWrite", [0, 2, 0], "2");
        let index = ("OpenWrite", [1, 3, 0], "k(2,,)");
        let insert = ("Insert", [0, 5, 1], "t");
        let integer = ("MustBeInt", [1, 0, 0], "");
        // Tables with new numbers; numbers from values, from rows; a large number.
        for (what, program, tables, from_values, from_rows, large) in [
            (
                "its own numbers",
                &[open, index, ("NewRowid", [0, 1, 0], ""), insert][..],
                &[2, 3][..],
                false,
                false,
                false,
            ),
            ("a parameter", &[open, ("Variable", [1, 1, 0], ""), integer, insert], &[], true, false, false),
            ("a column", &[open, ("Column", [0, 0, 1], ""), integer, insert], &[], true, true, false),
            (
                "a column, copied",
                &[
                    open,
                    ("Column", [0, 0, 1], ""),
                    integer,
                    ("Copy", [1, 7, 0], ""),
                    ("Insert", [0, 5, 7], "t"),
                ],
                &[],
                true,
                true,
                false,
            ),
            ("a row that is looked up", &[("Column", [0, 0, 1], ""), integer], &[], true, false, false),
            (
                "a whole table",
                &[open, ("RowData", [1, 2, 0], ""), ("Next", [0, 1, 0], "")],
                &[],
                true,
                true,
                false,
            ),
            ("a large number", &[("Int64", [0, 1, 0], "9223372036854775807")], &[], false, false, true),
        ] {
            let program = judge(&listing(program), || false).expect(what);
            assert_eq!(program.makes_rows_in, tables, "{what}");
            assert_eq!(
                (program.numbers_rows, program.numbers_by_rows, program.has_large),
                (from_values, from_rows, large),
                "{what}"
            );
        }
    }

    #[test]
    fn a_denial_is_counted_under_its_cause() {
        const ATTACH: i32 = 24;
        for (action, name, cause) in [
            (SQLITE_FUNCTION, "random", FallbackCause::Function),
            (SQLITE_FUNCTION, "Date", FallbackCause::Clock),
            (SQLITE_PRAGMA, "", FallbackCause::Pragma),
            (20, "temp", FallbackCause::OtherDatabase),
            (20, "main", FallbackCause::Schema),
            (ATTACH, "", FallbackCause::Schema),
        ] {
            assert_eq!(denied_cause(&Denied { action, name: name.to_owned() }), cause, "{action} {name}");
        }
    }
}
