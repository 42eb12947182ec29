//! The page around the charts.

use super::chart::{Chart, Section, Shape};
use super::number::{escape, number};
use super::{Contents, GENERATOR, drawing, papers, table};
use crate::harness::Environment;
use crate::report::Report;
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");
const LEAD: &str = "Litefoot is a storage layer beneath unmodified SQLite. This page redraws, from runs on one machine, the \
    figures and tables of the five papers that it builds upon, beside the numbers that they print, and compares \
    litefoot with SQLite as it is. Sides of an experiment took turns in one run; figures are medians of the rounds, \
    ratios medians of the ratios within each round.";

/// The whole of it.
pub fn document(contents: &Contents<'_>) -> String {
    let sections: Vec<&Section> =
        papers::ALL.iter().filter(|section| has_charts(contents, section)).collect();
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n{GENERATOR}\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>Litefoot: the experiments</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header><h1>Litefoot: the experiments</h1>\n<p>{LEAD}</p>\n"
    );
    text.push_str(&warnings(contents));
    text.push_str(&headlines(contents));
    text.push_str("</header>\n<nav aria-label=\"Contents\"><ul>\n");
    for section in &sections {
        let _ = writeln!(text, "<li><a href=\"#{}\">{}</a></li>", section.id, escape(section.title));
    }
    text.push_str(
        "<li><a href=\"#runs\">Machine and commands</a></li><li><a href=\"#all\">All figures</a></li>\n",
    );
    text.push_str("</ul></nav>\n<main>\n");
    sections.iter().for_each(|known| text.push_str(&section(contents, known)));
    text.push_str(&runs(contents));
    text.push_str("<section id=\"all\"><h2>All figures</h2>\n");
    contents.reports.iter().for_each(|report| text.push_str(&table::of_report(report)));
    text.push_str("</section>\n</main>\n</body>\n</html>\n");
    text
}

fn has_charts(contents: &Contents<'_>, section: &Section) -> bool {
    section.charts.iter().any(|chart| report_of(contents, chart).is_some())
}

/// The report that has figures of the chart.
fn report_of<'a>(contents: &'a Contents<'_>, chart: &Chart) -> Option<&'a Report> {
    contents.report(chart.experiment).filter(|report| chart.has_figures(report))
}

/// Facts that a reader needs before the numbers.
fn warnings(contents: &Contents<'_>) -> String {
    let mut lines = Vec::new();
    if contents.reports.iter().any(|report| report.environment.build != "release") {
        lines.push("This is a debug build: its times mean nothing.".to_owned());
    }
    if contents.reports.iter().any(|report| report.environment.quick) {
        lines.push("Short runs (--quick): the numbers are rough.".to_owned());
    }
    let alarms = contents.reports.iter().flat_map(|report| report.figures.alarms());
    lines.extend(alarms.cloned());
    lines.extend(contents.missing.iter().map(|(name, why)| format!("No result of {name}: {why}.")));
    lines.iter().map(|line| format!("<p class=\"warning\">{}</p>\n", escape(line))).collect()
}

fn headlines(contents: &Contents<'_>) -> String {
    let tiles: String = papers::HEADLINES
        .iter()
        .filter_map(|(experiment, figure, unit, what)| {
            let value = contents.report(experiment)?.figures.get(figure)?;
            Some(format!(
                "<div><dt>{}</dt><dd><b data-experiment=\"{experiment}\" data-figure=\"{figure}\" \
                 data-value=\"{value}\">{}</b>{}</dd></div>\n",
                escape(what),
                escape(&number(value)),
                escape(unit)
            ))
        })
        .collect();
    if tiles.is_empty() { tiles } else { format!("<dl class=\"tiles\">\n{tiles}</dl>\n") }
}

fn section(contents: &Contents<'_>, section: &Section) -> String {
    let mut text = format!("<section id=\"{}\"><h2>{}</h2>\n", section.id, escape(section.title));
    if !section.source.is_empty() {
        let _ = writeln!(text, "<p class=\"source\">{}</p>", escape(section.source));
    }
    let _ = writeln!(text, "<p>{}</p>", escape(section.about));
    text.push_str(&table::terms(section));
    for report in section.experiments.iter().filter_map(|name| contents.report(name)) {
        let _ = writeln!(text, "<p class=\"command\"><code>{}</code></p>", escape(&command(report)));
    }
    text.push_str("<div class=\"charts\">\n");
    for known in section.charts {
        if let Some(report) = report_of(contents, known) {
            text.push_str(&chart(known, report));
        }
    }
    text.push_str("</div></section>\n");
    text
}

fn chart(chart: &Chart, report: &Report) -> String {
    let wide = if chart.shape == Shape::Table && chart.series.len() > 3 { " class=\"wide\"" } else { "" };
    let mut text =
        format!("<figure id=\"{}\"{wide}>\n<figcaption><h3>{}</h3>", chart.id, escape(chart.title));
    let about: Vec<&str> = [chart.redraws, chart.unit, if chart.even { "dotted: alike" } else { "" }]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect();
    let _ = writeln!(text, "<p class=\"about\">{}</p></figcaption>", escape(&about.join(" · ")));
    let grid = chart.grid(report);
    match drawing::drawing(chart, report) {
        None => text.push_str(&table::of_chart(chart, &grid)),
        Some(drawing) => {
            text.push_str(&drawing);
            let table = table::of_chart(chart, &grid);
            let _ = write!(text, "<details><summary>Numbers</summary>\n{table}</details>\n");
        }
    }
    text.push_str(&table::printed(chart, report));
    text.push_str(&table::question(chart));
    if !chart.note.is_empty() {
        let _ = writeln!(text, "<p class=\"note\">{}</p>", escape(chart.note));
    }
    text.push_str("</figure>\n");
    text
}

/// The commands that reproduce a result, on another machine as well.
pub fn command(report: &Report) -> String {
    let quick = if report.environment.quick { " --quick" } else { "" };
    let seed = match report.environment.seed {
        1 => String::new(),
        seed => format!(" --seed {seed}"),
    };
    format!("litefoot bench {}{quick}{seed}", report.experiment)
}

/// Machines and commands; experiments that ran alike stand together.
fn runs(contents: &Contents<'_>) -> String {
    let mut text = String::from("<section id=\"runs\"><h2>Machine and commands</h2>\n");
    let mut groups: Vec<(String, Vec<&Report>)> = Vec::new();
    for report in contents.reports {
        let machine = machine(&report.environment);
        match groups.iter_mut().find(|(known, _)| *known == machine) {
            Some((_, reports)) => reports.push(report),
            None => groups.push((machine, vec![report])),
        }
    }
    for (machine, reports) in groups {
        let _ = writeln!(text, "<dl class=\"machine\">{machine}</dl>\n<ul class=\"commands\">");
        for report in reports {
            let _ = writeln!(text, "<li><code>{}</code></li>", escape(&command(report)));
        }
        text.push_str("</ul>\n");
    }
    text.push_str(
        "<p>Add <code>--dir DIR</code> for another device. All of it: \
         <code>litefoot bench --all --report DIR</code>. This page again, from the JSON beside it: \
         <code>litefoot bench --report DIR --from DIR/*.json</code>.</p></section>\n",
    );
    text
}

fn machine(environment: &Environment) -> String {
    let cores = environment.cores.to_string();
    let flags = if environment.sqlite_flags.is_empty() { "its defaults" } else { &environment.sqlite_flags };
    [
        ("Processor", environment.cpu.as_str()),
        ("Cores", &cores),
        ("Kernel", &environment.kernel),
        ("File system", &environment.file_system),
        ("SQLite", &environment.sqlite),
        ("SQLite was built with", flags),
        ("Litefoot", &environment.litefoot),
        ("Build", &environment.build),
    ]
    .iter()
    .map(|(name, value)| format!("<dt>{name}</dt><dd>{}</dd>\n", escape(value)))
    .collect()
}
