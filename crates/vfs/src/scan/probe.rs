//! Where SQLite finds the columns of a table.
//!
//! # Why
//! A column's place in its record depends on generated columns, on the alias of the rowid with its exceptions, and on the
//! application's authorizer, which may show NULL instead. SQLite has settled all of that when it has compiled
//! `SELECT columns FROM table NOT INDEXED`, whose program EXPLAIN shows.
//!
//! # Invariant
//! The program must be a plain loop over one table of the main database. Any other instruction, also one of a future SQLite,
//! means that the place of a column is not known.

use super::plan::{Affinity, Place, Slot, unquoted};
use super::value::Collation;
use crate::ffi::codes::SQLITE_ROW;
use crate::ffi::connection::Connection;
use crate::ffi::statement::{Statement, Value};

/// Instructions that say nothing about columns.
const PLAIN: [&str; 9] =
    ["Init", "Rewind", "Next", "Halt", "Transaction", "Goto", "Noop", "Explain", "ResultRow"];

/// An instruction of SQLite's virtual machine.
#[derive(Debug)]
pub(super) struct Instruction {
    opcode: String,
    p: [i64; 3],
    p4: String,
}

/// The root page of a table, and the places of columns.
pub(super) fn probe(db: Connection, table: &str, columns: &[&str]) -> Result<(u32, Vec<Slot>), String> {
    let list = if columns.is_empty() { "rowid".to_owned() } else { columns.join(", ") };
    let sql = format!("EXPLAIN SELECT {list} FROM {table} NOT INDEXED");
    let mut explain = db.prepare(&sql).map_err(|_| db.message())?;
    let program = program(&mut explain);
    let (root, places) = locate(&program, columns.len().max(1))?;
    let name = unquoted(table.rsplit_once('.').map_or(table, |(_, name)| name));
    if main_root(db, &name)? != Some(root) {
        return Err("it is no table of the main database".to_owned());
    }
    let slot = |(place, column): (Place, &&str)| {
        let (declared, collation) =
            db.column(&name, &unquoted(column)).ok_or_else(|| format!("{column} is no column of it"))?;
        let affinity = Affinity::of(&declared).ok_or_else(|| format!("{column} has the type ANY"))?;
        let collation =
            Collation::named(&collation).ok_or_else(|| format!("{column} has the collation {collation}"))?;
        Ok(Slot { place, affinity, collation })
    };
    let slots = places.into_iter().zip(columns).map(slot).collect::<Result<_, String>>()?;
    Ok((root, slots))
}

fn program(explain: &mut Statement) -> Vec<Instruction> {
    let mut program = Vec::new();
    while explain.step() == SQLITE_ROW {
        program.push(Instruction {
            opcode: explain.text(1),
            p: [2, 3, 4].map(|column| explain.integer(column)),
            p4: explain.text(5),
        });
    }
    program
}

/// The root page that the schema of the main database has for a table.
fn main_root(db: Connection, name: &str) -> Result<Option<u32>, String> {
    let sql = "SELECT rootpage FROM main.sqlite_schema WHERE type = 'table' AND name = ?1 COLLATE NOCASE";
    let mut statement = db.prepare(sql).map_err(|_| db.message())?;
    // SAFETY: the name outlives the statement's steps.
    unsafe { statement.bind(1, Value::Text(name.as_bytes())) };
    let is_there = statement.step() == SQLITE_ROW;
    Ok(is_there.then(|| u32::try_from(statement.integer(0)).ok()).flatten())
}

/// Reads the root page and the places of so many columns from a program.
fn locate(program: &[Instruction], columns: usize) -> Result<(u32, Vec<Place>), String> {
    let not_plain = |instruction: &Instruction| format!("{} in its program", instruction.opcode);
    let (mut root, mut found) = (None, Vec::<(i64, Place)>::new());
    let mut results = None;
    for instruction in program {
        let [p1, p2, p3] = instruction.p;
        match instruction.opcode.as_str() {
            // An index, or a table WITHOUT ROWID, has a description of its keys.
            "OpenRead" if root.is_none() && p1 == 0 && p3 == 0 && !instruction.p4.starts_with('k') => {
                root = u32::try_from(p2).ok();
            }
            "Column" if p1 == 0 => {
                let index = usize::try_from(p2).map_err(|_| not_plain(instruction))?;
                let has_default = !instruction.p4.is_empty();
                found.push((p3, Place::Record { index, is_real: false, has_default }));
            }
            "Rowid" if p1 == 0 => found.push((p2, Place::Rowid)),
            "RealAffinity" => {
                let column = found.iter_mut().find(|(register, _)| *register == p1);
                match column {
                    Some((_, Place::Record { is_real, .. })) => *is_real = true,
                    _ => return Err(not_plain(instruction)),
                }
            }
            "ResultRow" if results.is_none() => results = Some((p1, p2)),
            opcode if opcode != "ResultRow" && PLAIN.contains(&opcode) => {}
            _ => return Err(not_plain(instruction)),
        }
    }
    let (root, (first, count)) = root.zip(results).ok_or("it has no program of a table")?;
    let place = |number: i64| {
        let mut own = found.iter().filter(|(register, _)| *register == first + number);
        own.next().map(|(_, place)| *place).filter(|_| own.next().is_none())
    };
    let places: Option<Vec<Place>> = (0..count).map(place).collect();
    places
        .filter(|places| places.len() == columns && found.len() == columns)
        .map(|places| (root, places))
        .ok_or_else(|| "a column is not read from it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(text: &str) -> Instruction {
        let mut words = text.split(' ');
        let opcode = words.next().unwrap().to_owned();
        let p = [0; 3].map(|_: i64| words.next().unwrap_or("0").parse().unwrap());
        Instruction { opcode, p, p4: words.next().unwrap_or("").to_owned() }
    }

    fn located(program: &str) -> Result<(u32, Vec<Place>), String> {
        let program: Vec<_> = program.split(';').map(instruction).collect();
        let columns = program.iter().find(|one| one.opcode == "ResultRow").map_or(1, |one| one.p[1]);
        locate(&program, columns as usize)
    }

    #[test]
    fn only_a_plain_loop_over_a_table_says_where_columns_are() {
        let record = |index, is_real, has_default| Place::Record { index, is_real, has_default };
        let plain = "Init 0 8 0;OpenRead 0 7 0 3;Rewind 0 7 0;Rowid 0 1 0;Column 0 2 2 5;Column 0 1 3;RealAffinity 3 0 0;ResultRow 1 3 0;Next 0 3 0;Halt 0 0 0;Transaction 0 0 1 0;Goto 0 1 0";
        assert_eq!(
            located(plain),
            Ok((7, vec![Place::Rowid, record(2, false, true), record(1, true, false)]))
        );
        for (from, to) in [
            ("OpenRead 0 7 0 3", "OpenRead 0 7 1 3"),
            ("OpenRead 0 7 0 3", "OpenRead 0 7 0 k(2,,)"),
            ("OpenRead 0 7 0 3", "VOpen 0 7 0"),
            ("OpenRead 0 7 0 3", "OpenRead 0 7 0 3;OpenRead 1 8 0 3"),
            ("Column 0 2 2 5", "Null 0 2 0"),
            ("Column 0 2 2 5", "Column 1 2 2"),
            ("Column 0 2 2 5", "Column 0 2 2;Column 0 3 2"),
            ("Column 0 2 2 5", "String8 0 2 0"),
            ("Next 0 3 0", "Next 0 3 0;Gt 1 2 3"),
            ("ResultRow 1 3 0", "ResultRow 2 3 0"),
        ] {
            assert!(plain.contains(from) && located(&plain.replace(from, to)).is_err(), "{to}");
        }
    }
}
