//! Charts: the parts of a figure of the page.
//!
//! A chart is a grid: *points* (groups of bars, places on the x axis, rows of a table) times *series* (colours,
//! columns). A series of ours names its figures by a pattern: `scan_ms.warm.page_{}` with the point `4k` is the figure
//! `scan_ms.warm.page_4k`. A series of the paper's has the numbers that the paper prints, in the same unit.
//!
//! # Invariants
//! 1. A chart is one experiment's, so that machine and command are the same for all its numbers.
//! 2. A number of ours is always a figure of the JSON, times [`Chart::times`]; nothing else is calculated.
//! 3. Where a figure is not there, its place stays empty; a chart of which nothing is there is left out.

use crate::report::Report;

/// The prefix of litefoot's names: they have the same colour in all charts.
const LITEFOOT: &str = "litefoot";

/// How a grid of numbers is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Horizontal bars, grouped by point.
    Bars,
    /// A line for each series; the points are equally spaced.
    Lines,
    /// Numbers only: where rows differ in unit or by orders of magnitude.
    Table,
}

/// One group of bars, place on the x axis, or row.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// The text that replaces `{}` in a pattern.
    pub key: &'static str,
    /// The label that people read.
    pub label: &'static str,
}

/// Where a series has its numbers.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// Our figures, by pattern.
    Run(&'static str),
    /// The paper's numbers, one for each point.
    Paper(&'static [Option<f64>]),
}

/// One colour, or column.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// The label that people read.
    pub name: &'static str,
    /// Its numbers.
    pub source: Source,
}

/// Something that a paper prints and that no bar can show: another machine, another unit, a range.
#[derive(Clone, Copy, Debug)]
pub struct Printed {
    /// Of what.
    pub what: &'static str,
    /// The number, as printed.
    pub value: &'static str,
    /// Figures of ours that stand beside it.
    pub ours: &'static [&'static str],
}

/// What a figure asks, next to the paper's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The figure is our own.
    Own,
    /// The paper's.
    Same,
    /// Nearly the paper's; what is not alike.
    Near(&'static str),
}

/// One figure or table of the page.
#[derive(Clone, Copy, Debug)]
pub struct Chart {
    /// Its anchor.
    pub id: &'static str,
    /// The quantity that the chart shows.
    pub title: &'static str,
    /// Which figure or table of the paper it redraws; empty where it is our own.
    pub redraws: &'static str,
    /// Whose figures it shows.
    pub experiment: &'static str,
    /// How.
    pub shape: Shape,
    /// Of all its numbers.
    pub unit: &'static str,
    /// The unit over that of the figures: 100 for a share shown as percent.
    pub times: f64,
    /// True if 1 means that both are alike: bars have a line there.
    pub even: bool,
    /// The grid's one side.
    pub points: &'static [Point],
    /// The grid's other side.
    pub series: &'static [Series],
    /// Further figures that the paper prints.
    pub printed: &'static [Printed],
    /// Notes for the reader.
    pub note: &'static str,
    /// The paper's question, or another one.
    pub question: Question,
    /// The reason why our numbers differ from the paper's; empty where they do not.
    pub differs: &'static str,
}

/// The defaults of a chart; each chart states its differences.
pub const PLAIN: Chart = Chart {
    id: "",
    title: "",
    redraws: "",
    experiment: "",
    shape: Shape::Bars,
    unit: "",
    times: 1.0,
    even: false,
    points: &[],
    series: &[],
    printed: &[],
    note: "",
    question: Question::Own,
    differs: "",
};

/// The charts of one paper, or of our own.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its anchor.
    pub id: &'static str,
    /// The label that people read.
    pub title: &'static str,
    /// Authors, title and year; empty for our own.
    pub source: &'static str,
    /// The section's subject, and its differences from the paper.
    pub about: &'static str,
    /// Terms that must be explained; mostly none.
    pub terms: &'static [Printed],
    /// The experiments that it shows.
    pub experiments: &'static [&'static str],
    /// Its charts.
    pub charts: &'static [Chart],
}

/// One number of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// As it is shown.
    pub shown: f64,
    /// The figure's name and value in the JSON; nothing for the paper's.
    pub figure: Option<(String, f64)>,
}

/// A point.
pub const fn point(key: &'static str, label: &'static str) -> Point {
    Point { key, label }
}

/// A series of ours.
pub const fn run(name: &'static str, pattern: &'static str) -> Series {
    Series { name, source: Source::Run(pattern) }
}

/// A series of the paper's.
pub const fn paper(name: &'static str, values: &'static [Option<f64>]) -> Series {
    Series { name, source: Source::Paper(values) }
}

/// Something printed.
pub const fn printed(what: &'static str, value: &'static str) -> Printed {
    Printed { what, value, ours: &[] }
}

/// Something printed, and our figures for the same.
pub const fn beside(what: &'static str, value: &'static str, ours: &'static [&'static str]) -> Printed {
    Printed { what, value, ours }
}

impl Point {
    /// True if it is litefoot's.
    pub fn is_litefoot(&self) -> bool {
        self.label.starts_with(LITEFOOT)
    }
}

impl Series {
    /// The figure's name for a point; nothing for the paper's numbers.
    pub fn figure(&self, point: &Point) -> Option<String> {
        match self.source {
            Source::Run(pattern) => Some(pattern.replace("{}", point.key)),
            Source::Paper(_) => None,
        }
    }

    /// True if it is litefoot's.
    pub fn is_litefoot(&self) -> bool {
        self.name.starts_with(LITEFOOT)
    }

    /// True if it is the paper's.
    pub fn is_paper(&self) -> bool {
        matches!(self.source, Source::Paper(_))
    }
}

impl Chart {
    /// The number of a series at a point.
    pub fn number(&self, report: &Report, series: &Series, index: usize) -> Option<Number> {
        let point = self.points.get(index)?;
        match series.source {
            Source::Run(_) => {
                let name = series.figure(point)?;
                let value = report.figures.get(&name)?;
                Some(Number { shown: value * self.times, figure: Some((name, value)) })
            }
            Source::Paper(values) => {
                values.get(index).copied().flatten().map(|shown| Number { shown, figure: None })
            }
        }
    }

    /// All numbers: for each point those of the series.
    pub fn grid(&self, report: &Report) -> Vec<Vec<Option<Number>>> {
        let row = |index| self.series.iter().map(|series| self.number(report, series, index)).collect();
        (0..self.points.len()).map(row).collect()
    }

    /// True if the report has any figure of it.
    pub fn has_figures(&self, report: &Report) -> bool {
        let grid = self.grid(report);
        grid.iter().flatten().flatten().any(|number| number.figure.is_some())
    }
}
