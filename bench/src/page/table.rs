//! Tables: the numbers of a chart, and all figures of an experiment.

use super::chart::{Chart, Number, Printed, Question, Section};
use super::marks::{Grid, data};
use super::number::{escape, number};
use crate::report::Report;
use std::fmt::Write;

/// A table that scrolls by itself where the page is narrower.
fn scrolling(label: &str, table: &str) -> String {
    format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">{table}</div>\n",
        escape(label)
    )
}

/// The numbers of a chart, the paper's beside ours.
pub fn of_chart(chart: &Chart, grid: &Grid) -> String {
    let mut text = format!("<table><caption>{}</caption><thead><tr><th></th>", escape(&caption(chart)));
    for series in chart.series {
        let class = if series.is_paper() { " class=\"paper\"" } else { "" };
        let name = if series.name.is_empty() { chart.unit } else { series.name };
        let _ = write!(text, "<th scope=\"col\"{class}>{}</th>", escape(name));
    }
    text.push_str("</tr></thead><tbody>\n");
    for (point, row) in chart.points.iter().zip(grid) {
        if row.iter().all(Option::is_none) {
            continue;
        }
        let _ = write!(text, "<tr><th scope=\"row\">{}</th>", escape(point.label));
        row.iter().for_each(|value| text.push_str(&cell(chart, value.as_ref())));
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table>");
    scrolling(chart.title, &text)
}

fn caption(chart: &Chart) -> String {
    if chart.unit.is_empty() { chart.title.to_owned() } else { format!("{} ({})", chart.title, chart.unit) }
}

fn cell(chart: &Chart, value: Option<&Number>) -> String {
    let Some(value) = value else { return "<td></td>".to_owned() };
    let class = if value.figure.is_none() { " class=\"paper\"" } else { "" };
    format!("<td{class}{}>{}</td>", data(chart, value), escape(&number(value.shown)))
}

/// Further figures that the paper prints, ours beside them.
pub fn printed(chart: &Chart, report: &Report) -> String {
    if chart.printed.is_empty() {
        return String::new();
    }
    let mut text = String::from("<dl class=\"printed\"><dt class=\"head\">The paper prints</dt>\n");
    for printed in chart.printed {
        let _ = write!(text, "<dt>{}</dt><dd>{}", escape(printed.what), escape(printed.value));
        let ours = printed.ours.iter().filter_map(|name| {
            let value = report.figures.get(name)?;
            let experiment = escape(&report.experiment);
            Some(format!(
                "<b data-experiment=\"{experiment}\" data-figure=\"{name}\" data-value=\"{value}\">{}</b>",
                escape(&number(value))
            ))
        });
        let ours: Vec<String> = ours.collect();
        if !ours.is_empty() {
            let _ = write!(text, "; here {}", ours.join(", "));
        }
        text.push_str("</dd>\n");
    }
    text.push_str("</dl>\n");
    text
}

/// What a figure of a paper's asks, and why ours differs.
pub fn question(chart: &Chart) -> String {
    let asks = match chart.question {
        Question::Own => return String::new(),
        Question::Same => "The paper's question.".to_owned(),
        Question::Near(what) => format!("Not quite the paper's question: {what}"),
    };
    let differs = match chart.differs {
        "" => String::new(),
        why => format!(" Where it differs: {why}"),
    };
    format!("<p class=\"note question\">{}</p>\n", escape(&format!("{asks}{differs}")))
}

/// The terms of a section.
pub fn terms(section: &Section) -> String {
    if section.terms.is_empty() {
        return String::new();
    }
    let term = |term: &Printed| format!("<dt>{}</dt><dd>{}</dd>\n", escape(term.what), escape(term.value));
    format!("<dl class=\"terms\">\n{}</dl>\n", section.terms.iter().map(term).collect::<String>())
}

/// All figures of an experiment, folded.
pub fn of_report(report: &Report) -> String {
    let name = escape(&report.experiment);
    let mut table = format!("<table><caption>All figures of {name}</caption><tbody>\n");
    for (figure, value) in report.figures.iter() {
        let _ = writeln!(
            table,
            "<tr><th scope=\"row\"><code>{0}</code></th>\
             <td data-experiment=\"{name}\" data-figure=\"{0}\" data-value=\"{value}\">{1}</td></tr>",
            escape(figure),
            escape(&number(value))
        );
    }
    table.push_str("</tbody></table>");
    format!(
        "<details><summary>{name}: {} figures</summary>\n{}</details>\n",
        report.figures.iter().count(),
        scrolling(&format!("All figures of {}", report.experiment), &table)
    )
}
