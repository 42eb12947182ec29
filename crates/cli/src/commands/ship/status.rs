//! `litefoot ship status`: where each job stands.

use super::explain;
use litefoot_ship::jobs::Jobs;
use litefoot_ship::service::Status;
use litefoot_ship::service::status::{State, ask};
use litefoot_terminal::Failure;
use litefoot_terminal::output::Output;
use litefoot_terminal::table::{aligned, left, right};
use litefoot_terminal::text::{duration, grouped, printable};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Show where each job stands: what was sent, what waits, and why.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot ship status
  litefoot ship status --json | jq '.[].state'
  litefoot ship status --prometheus > /var/lib/node_exporter/ship.prom

Exit codes: 0 all jobs are current; 1 one of them is not.")]
pub struct Args {
    /// One array of objects, for programs
    #[arg(long, conflicts_with = "prometheus")]
    json: bool,

    /// Metrics in the text format of Prometheus
    #[arg(long)]
    prometheus: bool,
}

/// Shows the status.
pub fn run(args: &Args, jobs: &Jobs) -> Result<ExitCode, Failure> {
    let all = ask(jobs).map_err(explain)?;
    let mut output = Output::lock();
    if args.json {
        let text = serde_json::to_string_pretty(&all).map_err(|error| Failure::new(error.to_string()))?;
        output.line(text)?;
    } else if args.prometheus {
        output.text(exposition(&all))?;
    } else if all.is_empty() {
        output.line(format!(
            "{}: there is no job; `litefoot ship add app.db URL` makes one",
            jobs.directory().display()
        ))?;
    } else {
        output.text(table(&all))?;
        for (job, error) in all.iter().filter_map(|status| Some((&status.job, status.error.as_ref()?))) {
            output.line(format!("{job}: {}", printable(error)))?;
        }
        for (job, parked) in all.iter().flat_map(|status| status.parked.iter().map(|of| (&status.job, of))) {
            output.line(format!("{job}: {}", printable(&parked.to_string())))?;
        }
    }
    output.flush()?;
    let is_current = all.iter().all(Status::is_current);
    Ok(if is_current { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn table(all: &[Status]) -> String {
    let heading = [
        left("job"),
        left("state"),
        right("delivery"),
        right("bytes sent"),
        right("lag"),
        left("destination"),
    ];
    let rows: Vec<Vec<_>> = all
        .iter()
        .map(|status| {
            vec![
                left(printable(&status.job)),
                left(state(status.state)),
                right(grouped(status.sequence)),
                right(grouped(status.delivered_bytes)),
                right(duration(status.lag_ms / 1000)),
                left(printable(&status.url)),
            ]
        })
        .collect();
    aligned(&heading, &rows)
}

fn state(state: State) -> &'static str {
    match state {
        State::Down => "no service runs",
        State::Starting => "starting",
        State::Current => "current",
        State::Waiting => "waits for its window",
        State::Retrying => "tries again",
        State::Parked => "parked",
        State::Stopped => "stopped",
    }
}

/// A metric: its name, kind and meaning, and how it is told from a status.
type Metric = (&'static str, &'static str, &'static str, fn(&Status) -> String);

const METRICS: &[Metric] = &[
    (
        "litefoot_ship_current",
        "gauge",
        "1 if the destination has everything, as of the last look.",
        |status| u8::from(status.is_current()).to_string(),
    ),
    ("litefoot_ship_sequence", "gauge", "The number of the last delivery.", |status| {
        status.sequence.to_string()
    }),
    ("litefoot_ship_lag_seconds", "gauge", "Time since the destination was current.", |status| {
        format!("{:.3}", status.lag_ms as f64 / 1000.0)
    }),
    ("litefoot_ship_deliveries_total", "counter", "Deliveries since the service began.", |status| {
        status.deliveries.to_string()
    }),
    ("litefoot_ship_delivered_bytes_total", "counter", "Bytes of deliveries.", |status| {
        status.delivered_bytes.to_string()
    }),
    ("litefoot_ship_requests_total", "counter", "Requests that deliveries took.", |status| {
        status.requests.to_string()
    }),
    ("litefoot_ship_parked_tables", "gauge", "Tables that the destination does not take.", |status| {
        status.parked.len().to_string()
    }),
    ("litefoot_ship_failures_total", "counter", "Looks and deliveries that failed.", |status| {
        status.failures.to_string()
    }),
];

fn exposition(all: &[Status]) -> String {
    let mut text = String::new();
    for (name, kind, help, value) in METRICS {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for status in all {
            let _ = writeln!(text, "{name}{{job=\"{}\"}} {}", escaped(&status.job), value(status));
        }
    }
    text
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
