//! `litefoot stat --watch`: looking at the figures again and again.
//!
//! On a terminal a page is drawn anew each time, on the terminal's other screen, which is left however the
//! watching ends. Elsewhere, in a pipe or a file, each time is a line.
//!
//! Only the figures are read, and, once the owner has gone, the list of processes. The database is never locked, so
//! watching is in nobody's way.

use super::rates::Rates;
use super::{Seen, view};
use crate::inspect::Files;
use litefoot::stats::{Published, Reading};
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use litefoot_terminal::text::printable;
use std::io::{IsTerminal, stdout};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a signal may take to be answered.
const RESPONSE: Duration = Duration::from_millis(50);

/// Begins on the other screen, hides the cursor and cuts long lines; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// To the corner; to the end of a line; to the end of the screen.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K\r\n";
const CLEAR_REST: &str = "\x1b[J";

/// Where it is shown. A terminal is given back when this is dropped.
struct Screen {
    output: Output,
    terminal: bool,
}

impl Screen {
    fn new() -> Result<Screen, Failure> {
        let terminal = stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let mut screen = Screen { output: Output::lock(), terminal };
        let begin = if terminal { ENTER.to_owned() } else { view::heading() + "\n" };
        screen.show(&begin)?;
        Ok(screen)
    }

    fn show(&mut self, text: &str) -> Result<(), Failure> {
        self.output.raw(text)?;
        self.output.flush()
    }

    fn page(&mut self, lines: &[String]) -> Result<(), Failure> {
        let lines: String = lines.iter().map(|line| printable(line) + CLEAR_LINE).collect();
        self.show(&format!("{HOME}{lines}{CLEAR_REST}"))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.terminal {
            // Where the terminal is gone there is nothing to give back.
            let _ = self.show(LEAVE);
        }
    }
}

/// Watches until `count` is reached, or for ever.
pub fn run(files: &Files, interval: Duration, count: Option<u64>) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Ask);
    let mut screen = Screen::new()?;
    let watched = watch(&mut screen, files, interval, count);
    drop(screen);
    match (watched, count) {
        // Ctrl-C is how an endless one is left.
        (Err(_), None) if interrupt::was_ctrl_c() => Ok(ExitCode::SUCCESS),
        (watched, _) => watched.map(|()| ExitCode::SUCCESS),
    }
}

fn watch(screen: &mut Screen, files: &Files, interval: Duration, count: Option<u64>) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut owner = None;
    let mut last: Option<(Reading, Instant)> = None;
    let mut shown = 0;
    loop {
        let now = Instant::now();
        let seen = look(&mut owner, files);
        let all = seen.as_ref().map(|seen| Rates::between(None, &seen.reading, seen.open_seconds() as f64));
        let all = all.unwrap_or_default();
        let rates = seen.as_ref().zip(last.as_ref()).and_then(|(seen, (before, at))| {
            // Another one may have opened it since.
            (before.opened == seen.reading.opened)
                .then(|| Rates::between(Some(before), &seen.reading, (now - *at).as_secs_f64()))
        });
        if screen.terminal {
            screen.page(&view::page(&files.path, seen.as_ref(), rates.as_ref(), &all, interval))?;
        } else if let Some(rates) = &rates {
            screen.show(&(view::line(begun.elapsed(), rates, &all) + "\n"))?;
        } else if seen.is_none() {
            screen.show(&(view::idle_line(begun.elapsed()) + "\n"))?;
        }
        // The first look has nothing to be compared with.
        let first = last.is_none() && seen.is_some();
        shown += u64::from(!first);
        if count.is_some_and(|count| shown >= count) {
            return interrupt::check();
        }
        last = seen.map(|seen| (seen.reading, now));
        wait(now + interval)?;
    }
}

/// The owner's figures: of the one that is known, or of the next.
fn look(owner: &mut Option<Published>, files: &Files) -> Option<Seen> {
    let known = owner.as_ref().and_then(Seen::of);
    if known.is_some() {
        return known;
    }
    *owner = Published::find(files.id);
    owner.as_ref().and_then(Seen::of)
}

fn wait(until: Instant) -> Result<(), Failure> {
    loop {
        interrupt::check()?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(RESPONSE));
    }
}
