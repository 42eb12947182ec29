//! Aligned tables, by the width that a terminal gives each character.

use unicode_width::UnicodeWidthStr;

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
pub fn aligned(heading: &[Cell], rows: &[Vec<Cell>]) -> String {
    let columns = Columns::fit(std::iter::once(heading).chain(rows.iter().map(Vec::as_slice)));
    let mut text = format!("{}\n{}\n", columns.row(heading), columns.rule());
    for row in rows {
        text.push_str(&columns.row(row));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_by_display_width() {
        let heading = [left("name"), right("n")];
        let rows = [vec![left("é"), right(7)], vec![left("数字"), right(1234)], vec![left("x"), right("")]];
        assert_eq!(aligned(&heading, &rows), "name     n\n----  ----\né        7\n数字  1234\nx\n");
    }

    #[test]
    fn a_cell_wider_than_its_column_is_kept_whole() {
        let columns = Columns::fit([&[left("ab"), right(1)][..]]);
        assert_eq!(columns.row(&[left("abcd"), right(2)]), "abcd  2");
    }
}
