//! A chart as a drawing: bars or lines in a frame, and the legend.

use super::chart::{Chart, Shape};
use super::marks::{Grid, WIDTH, class};
use super::number::escape;
use super::{bars, lines};
use crate::report::Report;
use std::fmt::Write;

/// The drawing of a chart; nothing for tables.
pub fn drawing(chart: &Chart, report: &Report) -> Option<String> {
    let grid = chart.grid(report);
    let (inside, height) = match chart.shape {
        Shape::Bars => bars::draw(chart, &grid),
        Shape::Lines => lines::draw(chart, &grid),
        Shape::Table => return None,
    };
    let mut text = legend(chart, &grid);
    let _ = write!(
        text,
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-labelledby=\"{0}-title {0}-desc\">\n\
         <title id=\"{0}-title\">{1}</title>\n<desc id=\"{0}-desc\">{2} The numbers are in the table below.</desc>\n\
         {inside}\n</svg>\n",
        chart.id,
        escape(chart.title),
        escape(&description(chart)),
    );
    Some(text)
}

fn description(chart: &Chart) -> String {
    let kind = if chart.shape == Shape::Bars { "Bars" } else { "Lines" };
    let unit = if chart.unit.is_empty() { String::new() } else { format!(" in {}", chart.unit) };
    let names: Vec<&str> =
        chart.series.iter().map(|series| series.name).filter(|name| !name.is_empty()).collect();
    if names.is_empty() { format!("{kind}{unit}.") } else { format!("{kind}{unit}: {}.", names.join(", ")) }
}

/// Which colour is what; a single nameless series needs none.
fn legend(chart: &Chart, grid: &Grid) -> String {
    let is_there = |index: usize| grid.iter().any(|row| row.get(index).is_some_and(Option::is_some));
    let items: String = (0..chart.series.len())
        .filter(|index| is_there(*index) && !chart.series[*index].name.is_empty())
        .map(|index| {
            let class = class(chart, index, None);
            format!("<li><i class=\"{class}\"></i>{}</li>", escape(chart.series[index].name))
        })
        .collect();
    if items.is_empty() { items } else { format!("<ul class=\"legend\">{items}</ul>\n") }
}
