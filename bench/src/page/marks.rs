//! What bars and lines have in common: the frame, the colours, and what a mark says to people and to scripts.

use super::chart::{Chart, Number, Point, Series, Shape};
use super::number::{escape, number};
use super::{bars, lines};
use crate::report::Report;
use std::fmt::Write;

/// The coordinates of a drawing are those of a narrow phone, so that text is as large there as it is meant to be.
pub const WIDTH: f64 = 360.0;
/// Empty left and right.
pub const SIDE: f64 = 4.0;

/// All numbers of a chart: for each point those of the series.
pub type Grid = [Vec<Option<Number>>];

/// One number where it is drawn.
pub struct Mark<'a> {
    pub chart: &'a Chart,
    pub series: usize,
    pub label: &'a str,
    pub number: &'a Number,
}

impl Mark<'_> {
    /// The attributes by which a script finds the number in the JSON.
    pub fn data(&self) -> String {
        data(self.chart, self.number)
    }

    /// What is shown when the mark is pointed at.
    pub fn title(&self) -> String {
        let name = self.chart.series[self.series].name;
        let separator = if self.label.is_empty() || name.is_empty() { "" } else { ", " };
        format!(
            "<title>{}{separator}{}: {} {}</title>",
            escape(self.label),
            escape(name),
            escape(&number(self.number.shown)),
            escape(self.chart.unit)
        )
    }
}

/// `data-experiment`, `data-figure` and `data-value`, the value as the JSON has it; `data-paper` for the paper's.
pub fn data(chart: &Chart, number: &Number) -> String {
    match &number.figure {
        Some((figure, value)) => {
            let times =
                if chart.times == 1.0 { String::new() } else { format!(" data-times=\"{}\"", chart.times) };
            format!(
                " data-experiment=\"{}\" data-figure=\"{}\" data-value=\"{value}\"{times}",
                escape(chart.experiment),
                escape(figure)
            )
        }
        None => format!(" data-paper=\"{}\"", number.shown),
    }
}

/// The class of a series at a point. The paper's are outlined; litefoot has a colour of its own, which is also that of what
/// is litefoot's throughout; everything else takes the other colours in turn.
pub fn class(chart: &Chart, series: usize, point: Option<&Point>) -> String {
    let known = &chart.series[series];
    let lonely = chart.series.iter().filter(|series| !series.is_paper()).count() == 1;
    let compares = chart.points.iter().any(Point::is_litefoot);
    if known.is_paper() {
        "paper".to_owned()
    } else if lonely {
        let own = !compares || point.is_none_or(Point::is_litefoot);
        if own { "own" } else { "s0" }.to_owned()
    } else if chart.series.iter().position(Series::is_litefoot) == Some(series) {
        "own".to_owned()
    } else {
        let first = chart.series.iter().position(Series::is_litefoot);
        let before = (0..series).filter(|other| !chart.series[*other].is_paper() && first != Some(*other));
        format!("s{}", before.count())
    }
}

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
