//! The words of a statement, as SQLite divides a text.

/// A word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// Its kind.
    pub kind: Kind,
    /// As it was written, with its quotes.
    pub text: &'a str,
}

/// The kind of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name or a keyword.
    Name,
    /// A name in quotes, which is no keyword.
    QuotedName,
    /// A number, a text or a blob.
    Literal,
    /// `?` or `?1`.
    Parameter,
    /// An operator, a bracket, a comma.
    Symbol,
    /// Behind the last word.
    End,
}

impl Word<'_> {
    /// Tells whether it is a keyword, or a symbol.
    pub fn is(&self, word: &str) -> bool {
        matches!(self.kind, Kind::Name | Kind::Symbol) && self.text.eq_ignore_ascii_case(word)
    }
}

/// The words of a text, and a place among them, for a parser that goes from word to word.
#[derive(Debug)]
pub struct Cursor<'a> {
    /// The words; the last one is the end.
    pub words: Vec<Word<'a>>,
    /// The number of the word that is next. It may be beyond the end.
    pub at: usize,
}

impl<'a> Cursor<'a> {
    /// The first word of a text.
    ///
    /// # Errors
    /// As [`words`].
    pub fn new(text: &'a str) -> Result<Cursor<'a>, String> {
        Ok(Cursor { words: words(text)?, at: 0 })
    }

    /// The word that is next.
    pub fn word(&self) -> Word<'a> {
        self.words[self.at.min(self.words.len() - 1)]
    }

    /// Takes the next word.
    pub fn next_word(&mut self) -> Word<'a> {
        let word = self.word();
        self.at += 1;
        word
    }

    /// Takes a keyword, or a symbol, where it is next; tells whether it was.
    pub fn take(&mut self, expected: &str) -> bool {
        let is = self.word().is(expected);
        self.at += usize::from(is);
        is
    }
}

/// The words of a text, and the end.
///
/// # Errors
/// A text without its end.
pub fn words(text: &str) -> Result<Vec<Word<'_>>, String> {
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0c']);
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, behind)| behind);
            continue;
        }
        if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, behind)| behind);
            continue;
        }
        let Some(first) = rest.chars().next() else { break };
        let (kind, length) = next(rest, first)?;
        words.push(Word { kind, text: &rest[..length] });
        rest = &rest[length..];
    }
    words.push(Word { kind: Kind::End, text: "the end" });
    Ok(words)
}

fn next(rest: &str, first: char) -> Result<(Kind, usize), String> {
    let bytes = rest.as_bytes();
    let run = |from: usize, is: fn(u8) -> bool| {
        bytes[from..].iter().position(|byte| !is(*byte)).map_or(bytes.len(), |length| from + length)
    };
    Ok(match first {
        '\'' => (Kind::Literal, quoted(rest, '\'')?),
        '"' | '`' => (Kind::QuotedName, quoted(rest, first)?),
        '[' => {
            let end = rest.find(']').ok_or_else(|| format!("{rest} has no end"))?;
            (Kind::QuotedName, end + 1)
        }
        'x' | 'X' if bytes.get(1) == Some(&b'\'') => (Kind::Literal, 1 + quoted(&rest[1..], '\'')?),
        '0'..='9' => (Kind::Literal, number(bytes)),
        '.' if bytes.get(1).is_some_and(u8::is_ascii_digit) => (Kind::Literal, number(bytes)),
        '?' => (Kind::Parameter, run(1, |byte| byte.is_ascii_digit())),
        '_' | 'a'..='z' | 'A'..='Z' => (Kind::Name, run(1, is_of_name)),
        _ if !first.is_ascii() => (Kind::Name, run(0, is_of_name)),
        _ => {
            let two = ["==", "!=", "<>", "<=", ">=", "||", "<<", ">>", "->"];
            let is_two = rest.get(..2).is_some_and(|text| two.contains(&text));
            (Kind::Symbol, if is_two { 2 } else { 1 })
        }
    })
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// A number; letters behind it are SQLite's error.
fn number(bytes: &[u8]) -> usize {
    let is_part = |at: usize| match bytes[at] {
        b'+' | b'-' => at > 0 && bytes[at - 1].eq_ignore_ascii_case(&b'e') && !bytes[..at].contains(&b'x'),
        byte => byte == b'.' || is_of_name(byte),
    };
    (0..bytes.len()).take_while(|at| is_part(*at)).count().max(1)
}

fn quoted(rest: &str, quote: char) -> Result<usize, String> {
    let mut marks = rest.char_indices().skip(1).filter(|(_, found)| *found == quote).map(|(at, _)| at);
    while let Some(at) = marks.next() {
        if !rest[at + 1..].starts_with(quote) {
            return Ok(at + 1);
        }
        marks.next();
    }
    Err(format!("{rest} has no end"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        let mut texts: Vec<_> = words(text).unwrap().iter().map(|word| word.text).collect();
        texts.pop();
        texts
    }

    #[test]
    fn a_text_is_divided_as_sqlite_does() {
        for (text, expected) in [
            ("SELECT a,b", &["SELECT", "a", ",", "b"][..]),
            ("a<=1.5e-3 AND b<>'it''s'", &["a", "<=", "1.5e-3", "AND", "b", "<>", "'it''s'"]),
            ("-- who\n/* why */x'00'", &["x'00'"]),
            ("[a b].\"c\"\"d\"", &["[a b]", ".", "\"c\"\"d\""]),
            ("?1 ? .5 5.", &["?1", "?", ".5", "5."]),
            ("größe==1-2", &["größe", "==", "1", "-", "2"]),
            ("a/* no end", &["a"]),
            (";", &[";"]),
        ] {
            assert_eq!(texts(text), expected, "{text}");
        }
        assert!(words("'no end").is_err() && words("[no end").is_err());
        assert!(words("a").unwrap()[0].is("A") && !words("\"a\"").unwrap()[0].is("a"));
    }
}
