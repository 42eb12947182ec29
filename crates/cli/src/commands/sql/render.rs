//! How a result reads.
//!
//! Rows are printed as they come. Aligned output gets its widths from the first [`ROWS_MEASURED`] rows, so
//! that a result of any size needs bounded memory.

use litefoot_terminal::Failure;
use litefoot_terminal::output::Output;
use litefoot_terminal::table::{Cell, Columns, left, right};
use litefoot_terminal::text::printable;
use rusqlite::types::ValueRef;
use rusqlite::{Error, Statement};
use serde_json::Value;

/// Rows held back to find out how wide the columns are.
const ROWS_MEASURED: usize = 1000;

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns under a heading.
    Table,
    /// One array of objects per statement.
    Json,
    /// RFC 4180 with a heading, lines ended by LF.
    Csv,
}

/// Runs one statement to its end and prints its rows, if it is of the kind that gives rows.
pub fn result(
    statement: &mut Statement<'_>,
    format: Format,
    output: &mut Output,
    explain: &dyn Fn(Error) -> Failure,
) -> Result<(), Failure> {
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let columns = names.len();
    let mut printer = Printer::new(format, names);
    // Unbound parameters are NULL, as in SQLite's shell.
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(explain)? {
        let values = (0..columns).map(|column| row.get_ref(column)).collect::<Result<Vec<_>, _>>();
        printer.row(&values.map_err(explain)?, output)?;
    }
    if columns > 0 { printer.end(output) } else { Ok(()) }
}

struct Printer {
    format: Format,
    names: Vec<String>,
    rows: u64,
    held: Vec<Vec<Cell>>,
    columns: Option<Columns>,
}

impl Printer {
    fn new(format: Format, names: Vec<String>) -> Printer {
        let names = if format == Format::Json { distinct(names) } else { names };
        Printer { format, names, rows: 0, held: Vec::new(), columns: None }
    }

    fn row(&mut self, values: &[ValueRef<'_>], output: &mut Output) -> Result<(), Failure> {
        match self.format {
            Format::Table => self.table_row(values, output)?,
            Format::Json => {
                let object: serde_json::Map<String, Value> =
                    self.names.iter().cloned().zip(values.iter().map(json)).collect();
                let opening = if self.rows == 0 { "[\n  " } else { ",\n  " };
                output.text(format!("{opening}{}", Value::Object(object)))?;
            }
            Format::Csv => {
                self.csv_heading(output)?;
                output.line(values.iter().map(csv).collect::<Vec<_>>().join(","))?;
            }
        }
        self.rows += 1;
        Ok(())
    }

    fn table_row(&mut self, values: &[ValueRef<'_>], output: &mut Output) -> Result<(), Failure> {
        let cells: Vec<Cell> = values.iter().map(cell).collect();
        if let Some(columns) = &self.columns {
            return output.line(columns.row(&cells));
        }
        self.held.push(cells);
        if self.held.len() == ROWS_MEASURED { self.release(output) } else { Ok(()) }
    }

    /// Fixes the widths and prints what was held back.
    fn release(&mut self, output: &mut Output) -> Result<(), Failure> {
        let Some(first) = self.held.first() else { return Ok(()) };
        let heading: Vec<Cell> =
            self.names.iter().zip(first).map(|(name, (_, align))| (printable(name), *align)).collect();
        let columns =
            Columns::fit(std::iter::once(heading.as_slice()).chain(self.held.iter().map(Vec::as_slice)));
        output.line(columns.row(&heading))?;
        output.line(columns.rule())?;
        for row in self.held.drain(..) {
            output.line(columns.row(&row))?;
        }
        self.columns = Some(columns);
        Ok(())
    }

    fn csv_heading(&self, output: &mut Output) -> Result<(), Failure> {
        if self.rows > 0 {
            return Ok(());
        }
        output.line(self.names.iter().map(|name| csv_text(name)).collect::<Vec<_>>().join(","))
    }

    fn end(&mut self, output: &mut Output) -> Result<(), Failure> {
        match self.format {
            Format::Table => self.release(output),
            Format::Json => output.line(if self.rows == 0 { "[]" } else { "\n]" }),
            Format::Csv => self.csv_heading(output),
        }
    }
}

/// Object keys must differ: the second `a` becomes `a:1`, as SQLite itself names such columns.
fn distinct(names: Vec<String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        let mut candidate = name.clone();
        let mut number = 0;
        while found.contains(&candidate) {
            number += 1;
            candidate = format!("{name}:{number}");
        }
        found.push(candidate);
    }
    found
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The shortest text that reads back as the same double.
fn real(number: f64) -> String {
    format!("{number:?}")
}

fn cell(value: &ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => left("NULL"),
        ValueRef::Integer(number) => right(number),
        ValueRef::Real(number) => right(real(*number)),
        ValueRef::Text(text) => left(printable(&String::from_utf8_lossy(text))),
        ValueRef::Blob(bytes) => left(format!("x'{}'", hex(bytes))),
    }
}

fn json(value: &ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::from(*number),
        // Infinities have no JSON form; null is what JavaScript writes for them.
        ValueRef::Real(number) => Value::from(*number),
        ValueRef::Text(text) => Value::from(String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => Value::from(hex(bytes)),
    }
}

fn csv(value: &ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => real(*number),
        ValueRef::Text(text) => csv_text(&String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => hex(bytes),
    }
}

fn csv_text(text: &str) -> String {
    if text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_as_documented() {
        let infinite = f64::INFINITY;
        for (value, in_table, in_json, in_csv) in [
            (ValueRef::Null, "NULL", "null", ""),
            (ValueRef::Integer(-7), "-7", "-7", "-7"),
            (ValueRef::Real(1.0), "1.0", "1.0", "1.0"),
            (ValueRef::Real(0.1 + 0.2), "0.30000000000000004", "0.30000000000000004", "0.30000000000000004"),
            (ValueRef::Real(infinite), "inf", "null", "inf"),
            (ValueRef::Text(b""), "", "\"\"", "\"\""),
            (ValueRef::Text(b"a,\"b\"\n"), "a,\"b\"\\n", "\"a,\\\"b\\\"\\n\"", "\"a,\"\"b\"\"\n\""),
            (ValueRef::Blob(&[0, 255]), "x'00ff'", "\"00ff\"", "00ff"),
        ] {
            assert_eq!(cell(&value).0, in_table);
            assert_eq!(json(&value).to_string(), in_json);
            assert_eq!(csv(&value), in_csv);
        }
    }

    #[test]
    fn equal_column_names_become_distinct_keys() {
        let names = ["a", "b", "a", "a", "a:1"].map(str::to_owned).to_vec();
        assert_eq!(distinct(names), ["a", "b", "a:1", "a:2", "a:1:1"]);
    }
}
