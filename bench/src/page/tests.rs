use super::chart::{Question, Section, Shape, Source};
use super::*;
use crate::experiments::peers::stores::OTHERS;
use crate::harness::Environment;
use crate::options::Options;
use crate::report::Figures;
use std::collections::BTreeSet;

/// Every figure that the charts name, each with a value of its own.
fn reports() -> Vec<Report> {
    let experiments: BTreeSet<&str> = charts().map(|chart| chart.experiment).collect();
    let report = |experiment: &str| {
        let mut figures = Figures::new();
        for chart in charts().filter(|chart| chart.experiment == experiment) {
            for (series, point) in chart.series.iter().flat_map(|s| chart.points.iter().map(move |p| (s, p)))
            {
                if let Some(name) = series.figure(point) {
                    let value = 0.37 * (figures.iter().count() + 1) as f64;
                    figures.set(name, value);
                }
            }
            for name in chart.printed.iter().flat_map(|printed| printed.ours) {
                let value = 0.37 * (figures.iter().count() + 1) as f64;
                figures.set(*name, figures.get(name).unwrap_or(value));
            }
        }
        let environment = Environment::of(std::path::Path::new("."), &Options::default());
        Report { experiment: experiment.to_owned(), environment, figures }
    };
    experiments.into_iter().map(report).collect()
}

fn sections() -> impl Iterator<Item = &'static Section> {
    papers::ALL.iter()
}

fn charts() -> impl Iterator<Item = &'static chart::Chart> {
    sections().flat_map(|section| section.charts)
}

/// The value of an attribute in the text of a tag.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

/// Tags that have a figure, with the text up to the next tag.
fn numbers(html: &str) -> impl Iterator<Item = (&str, &str)> {
    html.split('<').filter(|part| part.contains(" data-figure=\"")).filter_map(|part| part.split_once('>'))
}

fn page(reports: &[Report]) -> String {
    Contents { reports, missing: &[] }.to_html()
}

#[test]
fn every_number_is_that_of_the_json() {
    let reports = reports();
    let html = page(&reports);
    let mut seen = 0;
    for (tag, text) in numbers(&html) {
        let experiment = attribute(tag, "data-experiment").unwrap();
        let figure = attribute(tag, "data-figure").unwrap();
        let value: f64 = attribute(tag, "data-value").unwrap().parse().unwrap();
        let report = reports.iter().find(|report| report.experiment == experiment).unwrap();
        assert_eq!(report.figures.get(figure), Some(value), "{experiment} {figure}");
        let times: f64 = attribute(tag, "data-times").map_or(1.0, |times| times.parse().unwrap());
        if tag.starts_with("td") || tag.starts_with("b ") {
            assert_eq!(text, number::number(value * times), "{experiment} {figure}");
        }
        seen += 1;
    }
    let all: usize = reports.iter().map(|report| report.figures.iter().count()).sum();
    assert!(seen > 2 * all, "{seen} numbers for {all} figures");
}

#[test]
fn bars_are_as_long_as_their_numbers() {
    let reports = reports();
    let html = page(&reports);
    let mut seen = 0;
    for svg in html.split("<svg").skip(1).filter_map(|part| part.split_once("</svg>")).map(|(svg, _)| svg) {
        let mut scale = None;
        for rect in svg.split("<rect").skip(1) {
            let width: f64 = attribute(rect, "width").unwrap().parse().unwrap();
            let value = attribute(rect, "data-value").map_or_else(
                || attribute(rect, "data-paper").unwrap().parse::<f64>().unwrap(),
                |value| {
                    let times =
                        attribute(rect, "data-times").map_or(1.0, |times| times.parse::<f64>().unwrap());
                    value.parse::<f64>().unwrap() * times
                },
            );
            if width > 1.0 {
                let each = width / value;
                let scale = *scale.get_or_insert(each);
                assert!((each / scale - 1.0).abs() < 0.01, "{rect}");
            }
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn charts_are_grids_whose_sides_fit() {
    let mut ids = BTreeSet::from(["runs", "all"]);
    for section in sections() {
        assert!(ids.insert(section.id), "{}", section.id);
        for chart in section.charts {
            assert!(ids.insert(chart.id), "{}", chart.id);
            assert!(section.experiments.contains(&chart.experiment), "{}", chart.id);
            assert!(
                !chart.title.is_empty() && !chart.points.is_empty() && !chart.series.is_empty(),
                "{}",
                chart.id
            );
            for series in chart.series {
                match series.source {
                    Source::Run(pattern) => {
                        assert!(chart.points.len() == 1 || pattern.contains("{}"), "{}", chart.id)
                    }
                    Source::Paper(values) => assert_eq!(values.len(), chart.points.len(), "{}", chart.id),
                }
            }
            // More have no colour of their own.
            let ours = chart.series.iter().filter(|series| !series.is_paper()).count();
            assert!(chart.shape == Shape::Table || ours <= 8, "{}", chart.id);
        }
    }
}

#[test]
fn what_has_no_figures_has_no_place() {
    let reports: Vec<Report> = reports().into_iter().filter(|report| report.experiment == "ssl").collect();
    let missing = [("pcg".to_owned(), "a <reason>".to_owned())];
    let html = Contents { reports: &reports, missing: &missing }.to_html();
    assert!(html.contains("<section id=\"ssl\">") && !html.contains("<section id=\"smile\">"));
    assert!(html.contains("No result of pcg: a &lt;reason&gt;."));
    let mut partial = reports;
    partial[0].figures = Figures::new();
    partial[0].figures.set("recovery_s.deltas.100_percent", 0.5);
    let html = page(&partial);
    assert!(html.contains("id=\"ssl-recovery\"") && !html.contains("id=\"ssl-speed\""));
}

#[test]
fn the_page_needs_nothing_from_elsewhere_and_names_what_it_draws() {
    let html = page(&reports());
    assert!(!html.contains("http://") && !html.contains("https://") && !html.contains("<script"));
    let drawings = html.matches("<svg ").count();
    assert!(drawings > 20);
    assert_eq!(html.matches("aria-labelledby=").count(), drawings);
    assert_eq!(html.matches("<table>").count(), html.matches("<caption>").count());
    let anchors: BTreeSet<&str> =
        html.split(" id=\"").skip(1).filter_map(|part| part.split('"').next()).collect();
    for link in html.split("href=\"#").skip(1).filter_map(|part| part.split('"').next()) {
        assert!(anchors.contains(link), "{link}");
    }
}

#[test]
fn what_a_file_says_cannot_become_markup() {
    let mut report = reports().remove(0);
    let evil = "x\"><script>alert(1)</script>";
    report.experiment = evil.to_owned();
    report.environment.cpu = evil.to_owned();
    report.environment.sqlite_flags = evil.to_owned();
    let html = page(&[report]);
    assert!(!html.contains("<script") && html.contains("&lt;script&gt;"));
}

/// Each figure that redraws one of these papers has the paper's number, or says that there is none; whether it asks the same; and
/// why the numbers differ.
#[test]
fn figures_of_papers_say_what_they_ask() {
    for section in
        sections().filter(|section| ["pcg", "ssl", "atomic", "smile", "psqlite"].contains(&section.id))
    {
        for chart in section.charts {
            let asks = chart.question != Question::Own;
            assert_eq!(asks, !chart.redraws.is_empty(), "{}", chart.id);
            assert_eq!(asks, !chart.differs.is_empty(), "{}", chart.id);
            let has_papers = !chart.printed.is_empty() || chart.series.iter().any(|series| series.is_paper());
            assert!(has_papers || !asks, "{}", chart.id);
        }
    }
    let html = page(&reports());
    assert!(html.contains("Not quite the paper's question: "));
    assert!(html.contains(" Where it differs: ") && html.contains("; here <b data-experiment=\"pcg\""));
}

/// Short runs of all experiments, as they were written.
fn samples() -> Vec<Report> {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reports");
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| Report::from_json(&std::fs::read_to_string(path).unwrap()).unwrap()).collect()
}

#[test]
fn the_experiments_have_every_figure_that_a_chart_names() {
    let samples = samples();
    let sample = |experiment: &str| samples.iter().find(|report| report.experiment == experiment).unwrap();
    for chart in charts() {
        let figures = &sample(chart.experiment).figures;
        for name in chart.printed.iter().flat_map(|printed| printed.ours) {
            assert!(figures.get(name).is_some(), "{}: {name}", chart.id);
        }
        for name in
            chart.series.iter().flat_map(|series| chart.points.iter().filter_map(|p| series.figure(p)))
        {
            // A store that was left out of the build has no figures at all.
            let last = name.rsplit('.').next().unwrap();
            let store = last.trim_start_matches("litefoot_over_").trim_start_matches("p50_over_");
            let one = if chart.experiment == "group" { "txn_per_s.threads_1" } else { "txn_per_s" };
            let left_out = OTHERS.iter().any(|other| other.name == store)
                && figures.get(&format!("{one}.{store}")).is_none();
            // A short run has few of the points.
            let left_out = left_out || chart.experiment == "sweep" && name.starts_with("ratio.");
            let left_out = left_out || name.starts_with("worst.delete_normal.");
            // It needs F2FS.
            let left_out = left_out || name.contains("batch_atomic_write");
            let fewer = ["threads_2", "threads_8", "threads_32", "threads_64"];
            let left_out =
                left_out || fewer.iter().any(|threads| name.split('.').any(|part| part == *threads));
            assert!(left_out || figures.get(&name).is_some(), "{}: {name}", chart.id);
        }
    }
    for (experiment, figure, ..) in papers::HEADLINES {
        assert!(sample(experiment).figures.get(figure).is_some(), "{experiment} {figure}");
    }
}
