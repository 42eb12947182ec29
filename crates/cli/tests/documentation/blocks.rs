//! The code blocks of a document, and what is to be done with each.
//!
//! A comment on the line before a block says what no reader needs to see:
//!
//! | comment | meaning |
//! |---|---|
//! | none | it is run; `text` is not code |
//! | `<!-- file: NAME -->` | it is written to a file of this name |
//! | `<!-- output -->` | what the block before it prints; `…` stands for anything on a line |
//! | `<!-- not run: REASON -->` | it is not run, and listed with the reason |

/// The order for a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    Run,
    File(String),
    Output,
    Skip(String),
    /// A picture, or what a program printed once: not code.
    Picture,
}

/// A block of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line that it begins on.
    pub line: usize,
    pub language: String,
    pub text: String,
    pub order: Order,
}

/// The languages that can be run.
pub const LANGUAGES: [&str; 5] = ["sh", "python", "sql", "c", "rust"];

/// All blocks of a document, in order.
pub fn blocks(document: &str) -> Result<Vec<Block>, String> {
    let mut found = Vec::new();
    let mut lines = document.lines().enumerate();
    let mut before = "";
    while let Some((index, line)) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            before = line;
            continue;
        };
        let (line, language) = (index + 1, language.trim().to_owned());
        let mut text = String::new();
        loop {
            match lines.next() {
                Some((_, "```")) => break,
                Some((_, content)) => {
                    text.push_str(content);
                    text.push('\n');
                }
                None => return Err(format!("line {line}: the block does not end")),
            }
        }
        let order = order(before, &language).map_err(|why| format!("line {line}: {why}"))?;
        found.push(Block { line, language, text, order });
        before = "";
    }
    Ok(found)
}

fn order(before: &str, language: &str) -> Result<Order, String> {
    let comment = before.strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->")).map(str::trim);
    match comment {
        Some("output") => Ok(Order::Output),
        Some(comment) => match comment.split_once(':').map(|(name, value)| (name, value.trim().to_owned())) {
            Some(("file", name)) => Ok(Order::File(name)),
            Some(("not run", reason)) if !reason.is_empty() => Ok(Order::Skip(reason)),
            _ => Err(format!("the comment {comment:?} before the block is not understood")),
        },
        None if language == "text" => Ok(Order::Picture),
        None if LANGUAGES.contains(&language) => Ok(Order::Run),
        None => Err(format!("{language:?} cannot be run: say `<!-- not run: REASON -->`")),
    }
}

/// True if `printed` is what `expected` says, line by line, without spaces at the ends.
pub fn is_output(expected: &str, printed: &str) -> bool {
    let (mut expected, mut printed) = (expected.trim_end().lines(), printed.trim_end().lines());
    loop {
        match (expected.next(), printed.next()) {
            (None, None) => return true,
            (Some("…"), Some(_)) if expected.clone().next().is_none() => return true,
            (Some(expected), Some(printed)) if is_line(expected.trim_end(), printed.trim_end()) => {}
            _ => return false,
        }
    }
}

/// True if a line is what is expected, where `…` stands for anything.
fn is_line(expected: &str, line: &str) -> bool {
    match expected.split_once('…') {
        None => expected == line,
        Some((start, rest)) => line.strip_prefix(start).is_some_and(|line| {
            line.char_indices().map(|(at, _)| at).chain([line.len()]).any(|at| is_line(rest, &line[at..]))
        }),
    }
}

#[test]
fn blocks_and_their_orders_are_read() {
    let document = "# Title\n```sh\nls\n```\n<!-- file: a.py -->\n```python\nx = 1\ny = 2\n```\n\n```text\n| |\n```\n\
                    <!-- output -->\n```text\na …\n```\n<!-- not run: no network -->\n```go\n```\n";
    let found = blocks(document).unwrap();
    let told: Vec<_> = found.iter().map(|block| (block.line, block.text.as_str(), &block.order)).collect();
    assert_eq!(
        told,
        [
            (2, "ls\n", &Order::Run),
            (6, "x = 1\ny = 2\n", &Order::File("a.py".to_owned())),
            (11, "| |\n", &Order::Picture),
            (15, "a …\n", &Order::Output),
            (19, "", &Order::Skip("no network".to_owned())),
        ]
    );
    for wrong in
        ["```go\n```\n", "```sh\nls\n", "<!-- not run: -->\n```sh\n```\n", "<!-- hm -->\n```sh\n```\n"]
    {
        assert!(blocks(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn output_is_compared_line_by_line() {
    for (expected, printed, same) in [
        ("a\nb\n", "a  \nb", true),
        ("a\n", "a\nb\n", false),
        ("a\nb\n", "a\n", false),
        ("a … z\n", "a 1 2 z\n", true),
        ("a … z\n", "a 1 2\n", false),
        ("…: …\n", "x: y\n", true),
        ("a\n…\n", "a\nb\nc\n", true),
        ("a\n…\n", "a\n", false),
    ] {
        assert_eq!(is_output(expected, printed), same, "{expected:?} {printed:?}");
    }
}
