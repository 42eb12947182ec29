//! What a setup has told, as figures.

use crate::report::Figures;

/// What a setup has told.
#[derive(Debug, Default, PartialEq)]
pub struct Outcome {
    requests: f64,
    seconds: f64,
    p99_ms: f64,
    /// Messages, and how often each came.
    errors: Vec<(u64, String)>,
    lost: u64,
    /// What is wrong with the run or with the database.
    wrong: Option<String>,
    /// Bytes at the device, where they are counted.
    pub bytes: Option<u64>,
}

impl Outcome {
    /// The lines that `bench/apps/setups/together.py` describes.
    pub fn parse(said: &str, complaints: &str, status: &str) -> Outcome {
        let mut outcome = Outcome::default();
        let mut verdict = None;
        for line in said.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let number = || rest.parse::<f64>().unwrap_or_default();
            match word {
                "requests" => outcome.requests = number(),
                "seconds" => outcome.seconds = number(),
                "p99_ms" => outcome.p99_ms = number(),
                "lost" => outcome.lost = rest.parse().unwrap_or_default(),
                "check" => verdict = Some(rest),
                "error" => {
                    let (count, text) = rest.split_once(' ').unwrap_or(("1", rest));
                    outcome.errors.push((count.parse().unwrap_or(1), text.to_owned()));
                }
                _ => {}
            }
        }
        outcome.wrong = match verdict {
            Some("ok") => None,
            Some(damage) => Some(format!("damaged: {damage}")),
            None => {
                let last = complaints.trim().lines().next_back().unwrap_or("no reason given");
                Some(format!("it has not come to its end ({status}): {last}"))
            }
        };
        outcome
    }

    /// Adds the figures of a side.
    pub fn report(&self, setup: &str, side: &str, figures: &mut Figures) {
        let errors: u64 = self.errors.iter().map(|(count, _)| count).sum();
        for (name, value) in [
            ("per_s", self.requests / self.seconds.max(1e-9)),
            ("p99_ms", self.p99_ms),
            ("errors", errors as f64),
            ("lost", self.lost as f64),
        ] {
            figures.set(format!("{setup}.{name}.{side}"), value);
        }
        if let Some(bytes) = self.bytes {
            figures.set(format!("{setup}.bytes.{side}"), bytes as f64);
            figures.set(format!("{setup}.bytes_each.{side}"), bytes as f64 / self.requests.max(1.0));
        }
        for (count, text) in &self.errors {
            figures.note(format!("{setup}, {side}: {count:6} {text}"));
        }
        if let Some(wrong) = &self.wrong {
            figures.alarm(format!("{setup}, {side}: {wrong}"));
        }
        if self.lost > 0 {
            figures.alarm(format!("{setup}, {side}: {} acknowledged rows are lost", self.lost));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_figures_and_losses_are_alarms() {
        let said = "requests 30\nseconds 2\np99_ms 7.5\nerror 3 database is locked\nlost 0\ncheck ok\n";
        let mut figures = Figures::new();
        Outcome::parse(said, "", "exit status: 0").report("flask", "stock", &mut figures);
        assert!(figures.check().is_ok() && figures.alarms().is_empty());
        assert_eq!(figures.get("flask.per_s.stock"), Some(15.0));
        assert_eq!(figures.get("flask.errors.stock"), Some(3.0));
        assert_eq!(figures.get("flask.bytes.stock"), None);
        for (said, complaints, alarm) in [
            (said.replace("lost 0", "lost 2"), "", "2 acknowledged rows"),
            (said.replace("check ok", "check page 3"), "", "damaged: page 3"),
            (String::new(), "Traceback\nOSError: no", "OSError: no"),
        ] {
            let mut figures = Figures::new();
            Outcome::parse(&said, complaints, "exit status: 1").report("flask", "litefoot", &mut figures);
            assert!(figures.alarms().iter().any(|text| text.contains(alarm)), "{:?}", figures.alarms());
        }
    }
}
