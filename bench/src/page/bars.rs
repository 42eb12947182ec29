//! Horizontal bars: the label of a group above its bars, the number at the end of each, so that a phone shows all of it.

use super::chart::Chart;
use super::marks::{Grid, Mark, SIDE, WIDTH, class};
use super::number::{axis_end, escape, number};
use std::fmt::Write;

/// Height of a bar and of the line above a group.
const BAR: f64 = 13.0;
const BAR_STEP: f64 = 16.0;
const LABEL: f64 = 16.0;
const GAP: f64 = 8.0;
/// Room for the number behind the longest bar.
const NUMBER: f64 = 58.0;

/// The drawing inside the `svg`, and its height.
pub fn draw(chart: &Chart, grid: &Grid) -> (String, f64) {
    let most = grid.iter().flatten().flatten().map(|number| number.shown).fold(0.0, f64::max);
    let scale = (WIDTH - 2.0 * SIDE - NUMBER) / axis_end(most);
    let mut text = String::new();
    let mut y = 4.0;
    for (point, row) in chart.points.iter().zip(grid) {
        if row.iter().all(Option::is_none) {
            continue;
        }
        // A single group needs no name: the title is its name.
        if !point.label.is_empty() {
            let _ = writeln!(
                text,
                "<text class=\"label\" x=\"{SIDE}\" y=\"{:.1}\">{}</text>",
                y + 11.0,
                escape(point.label)
            );
            y += LABEL;
        }
        let top = y;
        for (index, value) in row.iter().enumerate() {
            let Some(value) = value else { continue };
            // A bar of nearly nothing can still be seen.
            let width = (value.shown * scale).max(0.75);
            let mark = Mark { chart, series: index, label: point.label, number: value };
            let _ = writeln!(
                text,
                "<rect class=\"{}\" x=\"{SIDE}\" y=\"{y:.1}\" width=\"{width:.3}\" height=\"{BAR}\" rx=\"1.5\"{}>{}</rect>\
                 <text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                class(chart, index, Some(point)),
                mark.data(),
                mark.title(),
                SIDE + width + 4.0,
                y + 10.5,
                escape(&number(value.shown)),
            );
            y += BAR_STEP;
        }
        let _ = writeln!(
            text,
            "<line class=\"axis\" x1=\"{SIDE}\" y1=\"{:.1}\" x2=\"{SIDE}\" y2=\"{:.1}\"/>",
            top - 1.0,
            y - BAR_STEP + BAR + 1.0
        );
        y += GAP;
    }
    y -= GAP;
    if chart.even && scale > 0.0 {
        let one = SIDE + scale;
        let line = format!("<line class=\"even\" x1=\"{one:.2}\" y1=\"2\" x2=\"{one:.2}\" y2=\"{y:.1}\"/>\n");
        text.insert_str(0, &line);
    }
    (text, y + 4.0)
}
