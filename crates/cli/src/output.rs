//! Standard output.
//!
//! Everything a command prints passes [`Output`]: buffered, and with a write error turned into a
//! [`Failure`], so that a pipe whose reader has gone ends the command instead of panicking it.
//!
//! Names, statements and values come from files and processes of others. A terminal never gets a control character of
//! theirs; a pipe or a file gets everything as it is.

use crate::failure::Failure;
use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use unicode_width::UnicodeWidthStr;

/// Buffered standard output.
pub struct Output {
    writer: BufWriter<StdoutLock<'static>>,
    terminal: bool,
}

impl Output {
    /// Takes standard output for as long as this lives.
    pub fn new() -> Output {
        let stdout = io::stdout().lock();
        Output { terminal: stdout.is_terminal(), writer: BufWriter::new(stdout) }
    }

    /// Writes text: to a terminal, harmlessly.
    pub fn text(&mut self, text: impl AsRef<str>) -> Result<(), Failure> {
        if self.terminal { self.raw(&harmless(text.as_ref())) } else { self.raw(text.as_ref()) }
    }

    /// Writes text as it is, also what moves a terminal's cursor.
    pub fn raw(&mut self, text: &str) -> Result<(), Failure> {
        self.writer.write_all(text.as_bytes()).map_err(|error| Failure::output(&error))
    }

    /// Writes a line.
    pub fn line(&mut self, text: impl AsRef<str>) -> Result<(), Failure> {
        self.text(text)?;
        self.text("\n")
    }

    /// Writes names and values, the values aligned right.
    pub fn pairs(&mut self, rows: impl IntoIterator<Item = (&'static str, String)>) -> Result<(), Failure> {
        let rows: Vec<_> = rows.into_iter().map(|(name, value)| vec![left(name), right(value)]).collect();
        let columns = Columns::fit(rows.iter().map(Vec::as_slice));
        rows.iter().try_for_each(|row| self.line(columns.row(row)))
    }

    /// Hands everything to the reader.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.writer.flush().map_err(|error| Failure::output(&error))
    }
}

/// Which edge of its column a cell stands at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A cell: its text and the edge it stands at.
pub type Cell = (String, Align);

/// A left-aligned cell.
pub fn left(text: impl Into<String>) -> Cell {
    (text.into(), Align::Left)
}

/// A right-aligned cell.
pub fn right(text: impl ToString) -> Cell {
    (text.to_string(), Align::Right)
}

/// Columns that get their widths from the rows known so far and keep them.
pub struct Columns {
    widths: Vec<usize>,
}

impl Columns {
    /// Widths that hold all of `rows`.
    pub fn fit<'a>(rows: impl IntoIterator<Item = &'a [Cell]>) -> Columns {
        let mut widths = Vec::new();
        for row in rows {
            widths.resize(row.len().max(widths.len()), 0);
            for (width, (text, _)) in widths.iter_mut().zip(row) {
                *width = (*width).max(text.width());
            }
        }
        Columns { widths }
    }

    /// One row as a line without trailing blanks; a cell wider than its column pushes the rest aside.
    pub fn row(&self, cells: &[Cell]) -> String {
        let mut line = String::new();
        for (column, (text, align)) in cells.iter().enumerate() {
            if column > 0 {
                line.push_str("  ");
            }
            let blanks = self.widths.get(column).map_or(0, |width| width.saturating_sub(text.width()));
            if *align == Align::Right {
                line.extend(std::iter::repeat_n(' ', blanks));
            }
            line.push_str(text);
            if *align == Align::Left {
                line.extend(std::iter::repeat_n(' ', blanks));
            }
        }
        line.truncate(line.trim_end_matches(' ').len());
        line
    }

    /// The rule under the heading.
    pub fn rule(&self) -> String {
        self.widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>().join("  ")
    }
}

/// A whole table: heading, rule, rows.
pub fn table(heading: &[Cell], rows: &[Vec<Cell>]) -> String {
    let columns = Columns::fit(std::iter::once(heading).chain(rows.iter().map(Vec::as_slice)));
    let mut text = format!("{}\n{}\n", columns.row(heading), columns.rule());
    for row in rows {
        text.push_str(&columns.row(row));
        text.push('\n');
    }
    text
}

/// Text on one line: what a terminal would obey, as escapes.
pub fn printable(text: &str) -> String {
    escaped(text, is_obeyed).into_owned()
}

/// Text of several lines: what a terminal would obey otherwise, as escapes.
pub fn harmless(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_obeyed(c) && !matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| if is_escaped(c) { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escape).collect::<String>().into()
}

/// Control characters could move the cursor, change what stands there and type for the user; those of writing
/// directions show text in another order than it has.
fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A count with thousands separated.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time as people say it.
pub fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_by_display_width() {
        let heading = [left("name"), right("n")];
        let rows = [vec![left("é"), right(7)], vec![left("数字"), right(1234)], vec![left("x"), right("")]];
        assert_eq!(table(&heading, &rows), "name     n\n----  ----\né        7\n数字  1234\nx\n");
    }

    #[test]
    fn a_cell_wider_than_its_column_is_kept_whole() {
        let columns = Columns::fit([&[left("ab"), right(1)][..]]);
        assert_eq!(columns.row(&[left("abcd"), right(2)]), "abcd  2");
    }

    #[test]
    fn terminal_escapes_are_shown_not_obeyed() {
        assert_eq!(printable("a\u{1b}[2Jb\n\tc é"), "a\\u{1b}[2Jb\\n\\tc é");
        assert_eq!(harmless("a\u{1b}[2Jb\n\tc é\r"), "a\\u{1b}[2Jb\n\tc é\\r");
        assert_eq!(printable("\u{9b}\u{202e}x\u{2069}"), "\\u{9b}\\u{202e}x\\u{2069}");
    }

    #[test]
    fn times_have_two_units() {
        for (seconds, text) in [(5, "5 s"), (65, "1 min 5 s"), (7_260, "2 h 1 min"), (90_000, "1 d 1 h")] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
