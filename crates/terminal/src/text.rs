//! Text for people: without a terminal's control characters, numbers grouped, times in two units.

use std::borrow::Cow;

/// Text on one line: what a terminal would obey, as escapes.
pub fn printable(text: &str) -> String {
    escaped(text, is_obeyed).into_owned()
}

/// Text of several lines: what a terminal would obey otherwise, as escapes.
pub fn harmless(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_obeyed(c) && !matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| if is_escaped(c) { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escape).collect::<String>().into()
}

/// True if the terminal obeys the character. Control characters could move the cursor, change what stands there and
/// type for the user. Those of writing directions show text in another order.
fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A count with thousands separated.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time as people say it.
pub fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_escapes_are_shown_not_obeyed() {
        assert_eq!(printable("a\u{1b}[2Jb\n\tc é"), "a\\u{1b}[2Jb\\n\\tc é");
        assert_eq!(harmless("a\u{1b}[2Jb\n\tc é\r"), "a\\u{1b}[2Jb\n\tc é\\r");
        assert_eq!(printable("\u{9b}\u{202e}x\u{2069}"), "\\u{9b}\\u{202e}x\\u{2069}");
    }

    #[test]
    fn times_have_two_units() {
        for (seconds, text) in [(5, "5 s"), (65, "1 min 5 s"), (7_260, "2 h 1 min"), (90_000, "1 d 1 h")] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
