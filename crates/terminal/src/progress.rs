//! Bars on the terminal.
//!
//! A bar is drawn on standard error, if that is a terminal. It is wiped when it is dropped: on success, on failure and
//! on an interrupt alike. Work of hours says how far it is where there is no terminal, too: a line now and then.

use crate::text::{duration, grouped, printable};
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often the time of a [`Elapsed`] is drawn anew.
const TICK: Duration = Duration::from_secs(1);

/// Shows a bar while a database that is being opened replays what a crash has left.
pub fn show_replaying() {
    litefoot::set_progress(replaying);
}

fn replaying(path: &Path, done: usize, all: usize) {
    static SHOWN: Mutex<Option<Bar>> = Mutex::new(None);
    let Ok(mut shown) = SHOWN.lock() else { return };
    let bar = shown.get_or_insert_with(|| Bar::new(&format!("replaying {}", path.display()), all as u64));
    bar.at(done as u64);
    if done >= all {
        *shown = None;
    }
}

/// One bar.
pub struct Bar {
    bar: ProgressBar,
    lines: Option<Lines>,
}

impl Bar {
    /// A bar of `total` steps behind a short label.
    pub fn new(label: &str, total: u64) -> Bar {
        let bar = ProgressBar::new(total);
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}  {eta} left") {
            bar.set_style(style.progress_chars("━╸ "));
        }
        bar.set_message(label.to_owned());
        Bar { bar, lines: None }
    }

    /// The same, and where standard error is no terminal a line there, at most once in so long a time.
    pub fn or_lines(label: &str, total: u64, every: Duration) -> Bar {
        let mut bar = Bar::new(label, total);
        bar.lines = (!io::stderr().is_terminal()).then(|| Lines::new(label, total, every, Instant::now()));
        bar
    }

    /// Shows that `done` steps of the total are behind us.
    pub fn at(&self, done: u64) {
        self.bar.set_position(done);
        if let Some(line) = self.lines.as_ref().and_then(|lines| lines.due(done, Instant::now())) {
            // Where standard error is gone, there is nobody to tell.
            let _ = writeln!(io::stderr(), "litefoot: {line}");
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A line for work whose length nobody knows: its label, and for how long it has been going on.
pub struct Elapsed {
    bar: ProgressBar,
}

impl Elapsed {
    /// A line behind a short label, until this is dropped.
    pub fn new(label: &str) -> Elapsed {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{msg}  {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(label.to_owned());
        bar.enable_steady_tick(TICK);
        Elapsed { bar }
    }
}

impl Drop for Elapsed {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The lines in the place of a bar.
struct Lines {
    label: String,
    total: u64,
    every: Duration,
    begun: Instant,
    /// When the last line was due, or the work began.
    last: Cell<Instant>,
}

impl Lines {
    fn new(label: &str, total: u64, every: Duration, begun: Instant) -> Lines {
        Lines { label: printable(label), total, every, begun, last: Cell::new(begun) }
    }

    /// The line that is due `now`, behind so many steps.
    fn due(&self, done: u64, now: Instant) -> Option<String> {
        if now.duration_since(self.last.get()) < self.every {
            return None;
        }
        self.last.set(now);
        let left = now.duration_since(self.begun).as_secs_f64() * self.total.saturating_sub(done) as f64;
        let left = match done {
            0 => String::new(),
            done => format!(", about {} left", duration((left / done as f64) as u64)),
        };
        Some(format!("{}: {} of {}{left}", self.label, grouped(done), grouped(self.total)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_once_in_a_while_and_says_how_far_the_work_is() {
        let begun = Instant::now();
        let lines = Lines::new("power cuts", 100_000, Duration::from_secs(60), begun);
        for (seconds, done, expected) in [
            (0, 0, None),
            (59, 0, None),
            (60, 0, Some("power cuts: 0 of 100,000")),
            (119, 10_000, None),
            (120, 10_000, Some("power cuts: 10,000 of 100,000, about 18 min 0 s left")),
            (150, 50_000, None),
            // Nobody came to say it meanwhile.
            (500, 50_000, Some("power cuts: 50,000 of 100,000, about 8 min 20 s left")),
            (559, 50_001, None),
            (560, 100_000, Some("power cuts: 100,000 of 100,000, about 0 s left")),
        ] {
            let line = lines.due(done, begun + Duration::from_secs(seconds));
            assert_eq!(line.as_deref(), expected, "{seconds}");
        }
    }
}
