//! Values of options as users write them: numbers with units, and paths. A parser answers `None` to what it does not take.

use std::path::PathBuf;
use std::time::Duration;

pub(super) const SIZE: &str = "a number of bytes, such as 4M";
pub(super) const SIZE_OR_AUTO: &str = "a number of bytes, such as 4M, or auto";
pub(super) const MILLISECONDS: &str = "a number of milliseconds, such as 10";
pub(super) const SECONDS: &str = "a number of seconds, such as 300";
pub(super) const PATH: &str = "a path";

/// A part of one, in thousandths.
pub(super) fn share(value: &str) -> Option<u16> {
    let share = value.parse().ok().filter(|share: &f64| (0.1..=1.0).contains(share));
    share.map(|share| (share * 1000.0).round() as u16)
}

/// A number of bytes, with a suffix for 1,024 of them and so on.
pub(super) fn size(value: &str) -> Option<usize> {
    let suffix = value.trim_start_matches(|c: char| c.is_ascii_digit());
    let shift = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return None,
    };
    let number = value[..value.len() - suffix.len()].parse::<usize>().ok()?;
    number.checked_mul(1 << shift)
}

pub(super) fn size_or_auto(value: &str) -> Option<Option<usize>> {
    if value == "auto" { Some(None) } else { size(value).map(Some) }
}

pub(super) fn milliseconds(value: &str) -> Option<Duration> {
    value.parse().map(Duration::from_millis).ok()
}

pub(super) fn path(value: &str) -> Option<PathBuf> {
    (!value.is_empty()).then(|| PathBuf::from(value))
}

/// A number of bytes as a user would write it: whole mebibytes with their letter, else as it is.
pub(super) fn short(value: String, takes: &str) -> String {
    match value.parse::<usize>() {
        Ok(bytes) if takes == SIZE && bytes >= 1 << 20 && bytes % (1 << 20) == 0 => {
            format!("{}M", bytes >> 20)
        }
        _ => value,
    }
}
