//! Times as people and other programs write them: RFC 3339, in UTC, to the millisecond.

use std::time::SystemTime;

/// Milliseconds since 1970, by the clock of this machine.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// Milliseconds since 1970 of a time in the form of RFC 3339, or of seconds behind an @.
pub fn parse(text: &str) -> Result<u64, String> {
    if let Some(seconds) = text.strip_prefix('@') {
        let seconds: f64 =
            seconds.parse().map_err(|_| "a number of seconds since 1970 follows the @".to_owned())?;
        return Ok((seconds * 1000.0) as u64);
    }
    parse_rfc3339(text).ok_or_else(|| "a time is like 2026-03-01T12:00:00Z, or @1772366400".into())
}

/// Date, time, fraction and offset, as RFC 3339 has them.
fn parse_rfc3339(text: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        let digits = text.get(range)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let [year, month, day] = [number(0..4)?, number(5..7)?, number(8..10)?];
    let [hour, minute, second] = [number(11..13)?, number(14..16)?, number(17..19)?];
    let marks = [(4, "-"), (7, "-"), (13, ":"), (16, ":")];
    let are_marks = marks.iter().all(|(at, mark)| text.get(*at..at + 1) == Some(*mark));
    let is_time = matches!(text.get(10..11), Some("T" | "t" | " "));
    let is_sound =
        (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
    if !are_marks || !is_time || !is_sound {
        return None;
    }
    let mut rest = text.get(19..)?;
    let mut ms = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let len = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
        let digits = format!("{:0<3}", &fraction[..len]);
        ms = digits.get(..3)?.parse::<i64>().ok()?;
        rest = &fraction[len..];
    }
    let offset_minutes = match rest {
        "Z" | "z" => 0,
        _ => {
            let sign = match rest.get(..1)? {
                "+" => 1,
                "-" => -1,
                _ => return None,
            };
            let (hours, minutes) = rest.get(1..)?.split_once(':')?;
            sign * (hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?)
        }
    };
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + (minute - offset_minutes) * 60 + second;
    u64::try_from(seconds * 1000 + ms).ok()
}

/// Days since 1970 of a date, by the proleptic Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // A year that begins in March has its leap day at its end.
    let year = if month > 2 { year } else { year - 1 };
    let month = (month + 9) % 12;
    365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (month * 153 + 2) / 5
        + day
        - 719_469
}

/// A time in UTC.
pub fn rfc3339(ms: u64) -> String {
    let (days_since, second) = ((ms / 86_400_000) as i64, ms / 1000 % 86_400);
    // The year by its mean length, and then the first day that is not too late.
    let mut year = 1970 + days_since * 400 / 146_097;
    while days(year + 1, 1, 1) <= days_since {
        year += 1;
    }
    while days(year, 1, 1) > days_since {
        year -= 1;
    }
    let month = (1..=12).rev().find(|month| days(year, *month, 1) <= days_since).unwrap_or(1);
    let day = days_since - days(year, month, 1) + 1;
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.{:03}Z", second % 60, ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59.9Z", 951_868_799_900),
            ("2026-03-01T12:00:00Z", 1_772_366_400_000),
            ("2026-03-01 14:00:00.123456+02:00", 1_772_366_400_123),
            ("2026-03-01T06:30:00-05:30", 1_772_366_400_000),
            ("@1772366400.5", 1_772_366_400_500),
        ] {
            assert_eq!(parse(text), Ok(ms), "{text}");
            assert_eq!(parse(&rfc3339(ms)), Ok(ms), "{text}");
        }
        for text in [
            "",
            "now",
            "2026-03-01",
            "2026-13-01T00:00:00Z",
            "2026-03-01T12:00:00",
            "2026-03-01T24:00:00Z",
            "@x",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        for day in (0..60_000).step_by(17) {
            let ms = day * 86_400_000 + 3_723_004;
            assert_eq!(parse(&rfc3339(ms)), Ok(ms));
        }
    }
}
