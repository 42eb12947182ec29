//! Numbers as people read them, and text as HTML has it.

/// At least three significant digits, thousands apart: `12,346`, `99.9`, `1.50`, `0.0123`, `0`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        _ if size >= 99.95 || (value.fract() == 0.0) => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ if size >= 0.0995 => 3,
        _ => 4,
    };
    let text = format!("{size:.digits$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), ""), |(whole, rest)| (whole, rest));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if value < 0.0 && text.bytes().any(|b| matches!(b, b'1'..=b'9')) { "−" } else { "" };
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{grouped}{point}{rest}")
}

/// Text between tags, or in an attribute's quotes.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // Control characters have no place in HTML.
            c if c.is_control() && !matches!(c, '\n' | '\t') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// The end of an axis, not below the value; a quarter of it is a short number.
pub fn axis_end(value: f64) -> f64 {
    if !(value.is_finite() && value > 0.0) {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    // A little room for rounding: 0.3 / 0.1 is not quite 3.
    let fits = |step: &f64| step * power >= value * (1.0 - 1e-9);
    [1.0, 1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 6.0, 8.0].into_iter().find(fits).unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (value, text) in [
            (0.0, "0"),
            (1.005, "1.00"),
            (12.34, "12.3"),
            (99.99, "100"),
            (-1234.5, "−1,234"),
            (12345.6, "12,346"),
            (0.07985, "0.0799"),
            (0.5, "0.500"),
            (-0.00001, "0.0000"),
            (5000.0, "5,000"),
        ] {
            assert_eq!(number(value), text, "{value}");
        }
    }

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escape("a<b>\"&\u{1b}\n"), "a&lt;b&gt;&quot;&amp;\u{fffd}\n");
    }

    #[test]
    fn axes_end_above_their_values() {
        for (value, end) in [(0.0, 1.0), (0.3, 0.32), (0.6, 0.6), (7.0, 8.0), (9.1, 10.0), (1234.0, 1600.0)] {
            assert!((axis_end(value) - end).abs() < 1e-9 * end, "{value}: {}", axis_end(value));
        }
        assert_eq!(axis_end(f64::NAN), 1.0);
    }
}
