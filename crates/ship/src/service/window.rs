//! The time of day in which a job sends. A pure policy.

use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

const DAY: u16 = 24 * 60;

/// From one time of the day to another, which may be behind midnight; in minutes since midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Window {
    from: u16,
    until: u16,
}

impl Window {
    /// True if a minute of the day is in it.
    pub fn has(self, minute: u16) -> bool {
        match self.from <= self.until {
            true => (self.from..self.until).contains(&minute),
            false => minute >= self.from || minute < self.until,
        }
    }
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Window, String> {
        let of_day = |text: &str| {
            let (hour, minute) =
                text.split_once(':').filter(|(hour, minute)| hour.len() == 2 && minute.len() == 2)?;
            let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
            (hour < 24 && minute < 60).then_some(hour * 60 + minute)
        };
        let times = text.split_once('-').and_then(|(from, until)| Some((of_day(from)?, of_day(until)?)));
        match times {
            Some((from, until)) if from != until => Ok(Window { from, until }),
            _ => {
                Err("two times of the day are meant, of which one may be behind midnight: 02:00-04:00".into())
            }
        }
    }
}

impl TryFrom<String> for Window {
    type Error = String;

    fn try_from(text: String) -> Result<Window, String> {
        text.parse()
    }
}

impl From<Window> for String {
    fn from(window: Window) -> String {
        window.to_string()
    }
}

impl Display for Window {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let [from, until] = [self.from, self.until].map(|at| (at % DAY / 60, at % 60));
        write!(out, "{:02}:{:02}-{:02}:{:02}", from.0, from.1, until.0, until.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_may_go_past_midnight() {
        let window: Window = "02:00-04:30".parse().unwrap();
        assert!(window.has(120) && window.has(269) && !window.has(270) && !window.has(119));
        let night: Window = "23:15-01:00".parse().unwrap();
        assert!(night.has(23 * 60 + 15) && night.has(0) && !night.has(60) && !night.has(600));
        assert_eq!(night.to_string(), "23:15-01:00");
        for text in [
            "",
            "2:00-4:00",
            "02:00",
            "02:00-24:00",
            "02:60-03:00",
            "02:00-02:00",
            "a-b",
            "02:00-04:00-05:00",
        ] {
            assert!(text.parse::<Window>().is_err(), "{text}");
        }
    }
}
