//! Lines over equally spaced points; the y axis begins at 0.

use super::chart::{Chart, Number};
use super::marks::{Grid, Mark, SIDE, WIDTH, class};
use super::number::{axis_end, escape, number};
use std::fmt::Write;

const HEIGHT: f64 = 210.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 24.0;
/// Room for the numbers of the y axis.
const LEFT: f64 = 46.0;
/// Room for half of the last point's name.
const RIGHT: f64 = 24.0;
const STEPS: u32 = 4;
/// Names of points that have room on the x axis.
const MOST_NAMES: usize = 12;

/// The drawing inside the `svg`, and its height.
pub fn draw(chart: &Chart, grid: &Grid) -> (String, f64) {
    let most = grid.iter().flatten().flatten().map(|number| number.shown).fold(0.0, f64::max);
    let end = axis_end(most);
    let bottom = HEIGHT - BOTTOM;
    let y = |value: f64| bottom - value / end * (bottom - TOP);
    let step = (WIDTH - LEFT - RIGHT - 8.0) / (chart.points.len().max(2) - 1) as f64;
    let x = |index: usize| LEFT + 8.0 + step * index as f64;
    let mut text = String::new();
    for line in 0..=STEPS {
        let value = end * f64::from(line) / f64::from(STEPS);
        let _ = writeln!(
            text,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{0:.1}\" x2=\"{1}\" y2=\"{0:.1}\"/>\
             <text class=\"tick end\" x=\"{2}\" y=\"{3:.1}\">{4}</text>",
            y(value),
            WIDTH - SIDE,
            LEFT - 5.0,
            y(value) + 3.5,
            escape(&tick(value)),
        );
    }
    if chart.even && end >= 1.0 {
        let _ = writeln!(
            text,
            "<line class=\"even\" x1=\"{LEFT}\" y1=\"{0:.1}\" x2=\"{1}\" y2=\"{0:.1}\"/>",
            y(1.0),
            WIDTH - SIDE
        );
    }
    // More names than there is room for stand in the table alone.
    let every = chart.points.len().div_ceil(MOST_NAMES);
    for (index, point) in chart.points.iter().enumerate().step_by(every) {
        let _ = writeln!(
            text,
            "<text class=\"tick middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x(index),
            HEIGHT - 8.0,
            escape(point.label)
        );
    }
    for series in 0..chart.series.len() {
        let places: Vec<(usize, &Number)> = grid
            .iter()
            .enumerate()
            .filter_map(|(index, row)| Some((index, row.get(series)?.as_ref()?)))
            .collect();
        let path: Vec<String> =
            places.iter().map(|(index, number)| format!("{:.2},{:.2}", x(*index), y(number.shown))).collect();
        let class = class(chart, series, None);
        let _ = writeln!(text, "<polyline class=\"line {class}\" points=\"{}\"/>", path.join(" "));
        for (index, number) in places {
            let mark = Mark { chart, series, label: chart.points[index].label, number };
            let _ = writeln!(
                text,
                "<circle class=\"{class}\" cx=\"{:.2}\" cy=\"{:.2}\" r=\"3.2\"{}>{}</circle>",
                x(index),
                y(number.shown),
                mark.data(),
                mark.title()
            );
        }
    }
    (text, HEIGHT)
}

/// A number of an axis: as short as it can be said.
fn tick(value: f64) -> String {
    // A quarter of 1.6 times three is not quite 1.2.
    let exact = format!("{}", (value * 1e6).round() / 1e6);
    if exact.len() <= 5 && value < 1000.0 { exact } else { number(value) }
}
