//! One page with everything that was measured: the papers' figures and tables redrawn from our runs.
//!
//! The page is one HTML file without scripts and without anything from elsewhere. Tables decide its content, one file
//! for each paper ([`papers`]). A chart, a section or an experiment that has no figures is left out.
//!
//! | module | holds |
//! |---|---|
//! | [`chart`] | what a figure is made of |
//! | [`papers`] | the figures, paper by paper |
//! | `bars`, `lines`, `marks` | drawings, as SVG |
//! | `table` | the same numbers as tables |
//! | `document` | the page around them |
//! | `number` | numbers and text as HTML |
//!
//! # What scripts may rely on
//! Every number of litefoot's stands in an element, a table's cell or a mark of a drawing. Its attributes are
//! `data-experiment`, `data-figure` and `data-value`: the figure's name and value as the JSON has them. The page shows
//! that value, times `data-times` where there is one. Each number in a drawing is in the chart's table, too, and all
//! figures of an experiment are in its list at the end. The paper's numbers have `data-paper` instead.

mod bars;
pub mod chart;
mod document;
mod drawing;
mod lines;
mod marks;
mod number;
pub mod papers;
mod table;

use crate::report::Report;

/// The reports that a page is made from.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// The results, at most one for each experiment.
    pub reports: &'a [Report],
    /// Experiments that have no result, and why.
    pub missing: &'a [(String, String)],
}

/// By this a page of ours is known again.
pub const GENERATOR: &str = "<meta name=\"generator\" content=\"litefoot bench\">";

impl Contents<'_> {
    /// The page.
    pub fn to_html(&self) -> String {
        document::document(self)
    }

    fn report(&self, experiment: &str) -> Option<&Report> {
        self.reports.iter().find(|report| report.experiment == experiment)
    }
}

#[cfg(test)]
mod tests;
