//! Figures as a table.
//!
//! The last part of a figure's name is its side. Sides with at least two figures become columns; what
//! is left, ratios and counts, stands below, one a line.

use litefoot_bench::report::Figures;
use litefoot_terminal::table::{Align, Cell, aligned, left, right};
use litefoot_terminal::text::grouped;

/// The text of both tables.
pub fn of(figures: &Figures) -> String {
    let sides = sides(figures);
    let (inside, below): (Vec<_>, Vec<_>) = figures
        .iter()
        .map(|(name, value)| (name.rsplit_once('.'), name, value))
        .partition(|(parts, ..)| parts.is_some_and(|(_, side)| sides.contains(&side)));
    let mut text = String::new();
    if !inside.is_empty() {
        text.push_str(&columns(
            &sides,
            inside.iter().filter_map(|(parts, _, value)| Some(((*parts)?, *value))),
        ));
        if !below.is_empty() {
            text.push('\n');
        }
    }
    if !below.is_empty() {
        let rows: Vec<Vec<Cell>> =
            below.iter().map(|(_, name, value)| vec![left(*name), right(number(*value))]).collect();
        text.push_str(&aligned(&[left("figure"), right("value")], &rows));
    }
    text
}

/// Last parts that belong to more than one figure, in the order of their first.
fn sides(figures: &Figures) -> Vec<&str> {
    let lasts: Vec<&str> =
        figures.iter().filter_map(|(name, _)| name.rsplit_once('.')).map(|(_, side)| side).collect();
    let mut sides = Vec::new();
    for side in &lasts {
        if !sides.contains(side) && lasts.iter().filter(|other| *other == side).count() > 1 {
            sides.push(*side);
        }
    }
    sides
}

fn columns<'a>(sides: &[&str], figures: impl Iterator<Item = ((&'a str, &'a str), f64)>) -> String {
    let mut rows: Vec<(&str, Vec<Cell>)> = Vec::new();
    for ((name, side), value) in figures {
        let index = match rows.iter().position(|(known, _)| *known == name) {
            Some(index) => index,
            None => {
                let empty = sides.iter().map(|_| (String::new(), Align::Right));
                rows.push((name, std::iter::once(left(name)).chain(empty).collect()));
                rows.len() - 1
            }
        };
        if let Some(column) = sides.iter().position(|known| *known == side) {
            rows[index].1[column + 1] = right(number(value));
        }
    }
    let heading: Vec<Cell> = std::iter::once(left("")).chain(sides.iter().copied().map(right)).collect();
    aligned(&heading, &rows.into_iter().map(|(_, cells)| cells).collect::<Vec<_>>())
}

/// Three digits where there is something behind the point, whole numbers with their thousands apart.
fn number(value: f64) -> String {
    match value.abs() {
        _ if value.fract() == 0.0 || value.abs() >= 100.0 => {
            let sign = if value < 0.0 { "-" } else { "" };
            format!("{sign}{}", grouped(value.abs().round() as u64))
        }
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_columns_and_the_rest_stands_below() {
        let mut figures = Figures::new();
        for (name, value) in [
            ("transactions", 5000.0),
            ("txn_per_s.wal", 12345.6),
            ("p50_us.wal", 0.1234),
            ("txn_per_s.litefoot", 99.96),
            ("model_us.sd.litefoot", 2500.0),
            ("ratio.litefoot_over_wal", 1.5),
        ] {
            figures.set(name, value);
        }
        let expected = "\
                        \x20              wal  litefoot
-----------  ------  --------
txn_per_s    12,346      100.0
p50_us         0.12
model_us.sd              2,500

figure                   value
-----------------------  -----
transactions             5,000
ratio.litefoot_over_wal   1.50
";
        let text = of(&figures);
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&text), words(&expected.replace("-------- ", "--------")), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with("wal  litefoot"), "{text}");
        assert_eq!(lines[2].len(), lines[0].len(), "{text}");
    }

    #[test]
    fn figures_without_sides_are_a_list() {
        let mut figures = Figures::new();
        figures.set("cuts", 20_000.0);
        figures.set("lost", 0.0);
        assert_eq!(of(&figures), "figure   value\n------  ------\ncuts    20,000\nlost         0\n");
        assert_eq!(of(&Figures::new()), "");
    }

    #[test]
    fn numbers() {
        for (value, text) in
            [(0.0, "0"), (1.005, "1.00"), (12.34, "12.3"), (99.99, "100.0"), (-1234.5, "-1,235")]
        {
            assert_eq!(number(value), text);
        }
    }
}
