//! Bars on the terminal.
//!
//! A bar is drawn on standard error, if that is a terminal. It is wiped when it is dropped: on success, on failure and
//! on an interrupt alike.

use indicatif::{ProgressBar, ProgressStyle};
use std::path::Path;
use std::sync::Mutex;

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
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar of `total` steps behind a short label.
    pub fn new(label: &str, total: u64) -> Bar {
        let bar = ProgressBar::new(total);
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}  {eta} left") {
            bar.set_style(style.progress_chars("━╸ "));
        }
        bar.set_message(label.to_owned());
        Bar(bar)
    }

    /// Shows that `done` steps of the total are behind us.
    pub fn at(&self, done: u64) {
        self.0.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
