//! Marks, the parts that bars and lines share: colours, tooltips, and attributes for scripts.

use super::chart::{Chart, Number, Point, Series};
use super::number::{escape, number};

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

    /// The mark's tooltip.
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

/// The class of a series at a point. The paper's series are outlined. Litefoot has the colour that marks it everywhere;
/// all others take the other colours in turn.
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
