//! The statement as it was written: `SELECT items FROM table WHERE condition GROUP BY columns`.
//!
//! SQLite prepares the same text, so this code need not find what is wrong with it, only what it does not understand itself.

use litefoot_format::words::{Cursor, Kind};

/// A statement.
#[derive(Debug, PartialEq)]
pub(super) struct Query<'a> {
    pub(super) items: Vec<Item<'a>>,
    /// The table, perhaps with its schema, as it was written.
    pub(super) table: String,
    pub(super) condition: Option<Condition<'a>>,
    pub(super) keys: Vec<Column<'a>>,
}

/// A column as it was written.
pub(super) type Column<'a> = &'a str;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item<'a> {
    Column(Column<'a>),
    /// A function of a column; of none for `count(*)`.
    Aggregate(Function, Option<Column<'a>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Count,
    Sum,
    Total,
    Avg,
    Min,
    Max,
}

const FUNCTIONS: [(&str, Function); 6] = [
    ("count", Function::Count),
    ("sum", Function::Sum),
    ("total", Function::Total),
    ("avg", Function::Avg),
    ("min", Function::Min),
    ("max", Function::Max),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Is,
    IsNot,
}

const OPERATORS: [(&str, Operator, Operator); 8] = [
    ("=", Operator::Equal, Operator::Equal),
    ("==", Operator::Equal, Operator::Equal),
    ("!=", Operator::NotEqual, Operator::NotEqual),
    ("<>", Operator::NotEqual, Operator::NotEqual),
    ("<", Operator::Less, Operator::Greater),
    ("<=", Operator::LessOrEqual, Operator::GreaterOrEqual),
    (">", Operator::Greater, Operator::Less),
    (">=", Operator::GreaterOrEqual, Operator::LessOrEqual),
];

/// A literal with its sign, or a parameter, as it was written. SQLite says what it is worth.
pub(super) type Constant = String;

#[derive(Debug, PartialEq)]
pub(super) enum Condition<'a> {
    Compare(Column<'a>, Operator, Constant),
    In(Column<'a>, Vec<Constant>),
    Not(Box<Condition<'a>>),
    And(Vec<Condition<'a>>),
    Or(Vec<Condition<'a>>),
}

/// Most parentheses around a condition.
const DEEPEST: usize = 50;

/// Reads a statement.
///
/// # Errors
/// The first construct that is not understood.
pub(super) fn parse(text: &str) -> Result<Query<'_>> {
    let mut parser = Parser { cursor: Cursor::new(text)?, depth: 0, parameters: 0 };
    parser.query()
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    depth: usize,
    /// The highest number of a parameter so far.
    parameters: usize,
}

type Result<T> = std::result::Result<T, String>;

impl<'a> Parser<'a> {
    fn expect(&mut self, word: &str) -> Result<()> {
        if self.cursor.take(word) { Ok(()) } else { Err(self.refuse(&format!("where {word} was expected"))) }
    }

    fn refuse(&self, place: &str) -> String {
        format!("{} {place} is not supported", self.cursor.word().text)
    }

    fn query(&mut self) -> Result<Query<'a>> {
        self.expect("SELECT")?;
        let items = self.list(Parser::item)?;
        self.expect("FROM")?;
        let mut table = self.name("as a table")?.to_owned();
        if self.cursor.take(".") {
            table = format!("{table}.{}", self.name("as a table")?);
        }
        let condition = if self.cursor.take("WHERE") { Some(self.condition()?) } else { None };
        let keys = if self.cursor.take("GROUP") {
            self.expect("BY")?;
            self.list(Parser::column)?
        } else {
            Vec::new()
        };
        self.cursor.take(";");
        if self.cursor.word().kind != Kind::End {
            let around = ["ORDER", "LIMIT"].iter().any(|word| self.cursor.word().is(word));
            let hint = if around { "; put it around litefoot_scan(…)" } else { "" };
            return Err(format!("{}{hint}", self.refuse("there")));
        }
        Ok(Query { items, table, condition, keys })
    }

    fn list<T>(&mut self, one: impl Fn(&mut Parser<'a>) -> Result<T>) -> Result<Vec<T>> {
        let mut list = vec![one(self)?];
        while self.cursor.take(",") {
            list.push(one(self)?);
        }
        Ok(list)
    }

    fn item(&mut self) -> Result<Item<'a>> {
        let item = match self.function() {
            Some(function) => self.aggregate(function)?,
            None => Item::Column(self.column()?),
        };
        if self.cursor.take("AS") {
            self.name("as a name of a column")?;
        }
        Ok(item)
    }

    fn function(&mut self) -> Option<Function> {
        let word = self.cursor.word();
        let (_, function) = *FUNCTIONS.iter().find(|(name, _)| word.is(name))?;
        self.cursor.words.get(self.cursor.at + 1)?.is("(").then(|| self.cursor.at += 2)?;
        Some(function)
    }

    fn aggregate(&mut self, function: Function) -> Result<Item<'a>> {
        if function == Function::Count && self.cursor.take("*") {
            self.expect(")")?;
            return Ok(Item::Aggregate(function, None));
        }
        if self.cursor.word().is("DISTINCT") {
            return Err(self.refuse("in an aggregate"));
        }
        let column = self.column()?;
        self.expect(")")?;
        if ["FILTER", "OVER"].iter().any(|word| self.cursor.word().is(word)) {
            return Err(self.refuse("behind an aggregate"));
        }
        Ok(Item::Aggregate(function, Some(column)))
    }

    fn name(&mut self, place: &str) -> Result<&'a str> {
        let word = self.cursor.word();
        let is_name = match word.kind {
            Kind::QuotedName => true,
            Kind::Name => !RESERVED.iter().any(|reserved| word.is(reserved)),
            _ => false,
        };
        if is_name { Ok(self.cursor.next_word().text) } else { Err(self.refuse(place)) }
    }

    fn column(&mut self) -> Result<Column<'a>> {
        let name = self.name("as a column")?;
        if self.cursor.word().is("(") || self.cursor.word().is(".") {
            return Err(self.refuse(&format!("behind {name}")));
        }
        Ok(name)
    }

    fn condition(&mut self) -> Result<Condition<'a>> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("a condition of more than {DEEPEST} levels is not supported"));
        }
        let mut parts = vec![self.conjunction()?];
        while self.cursor.take("OR") {
            parts.push(self.conjunction()?);
        }
        self.depth -= 1;
        Ok(if parts.len() == 1 { parts.remove(0) } else { Condition::Or(parts) })
    }

    fn conjunction(&mut self) -> Result<Condition<'a>> {
        let mut parts = vec![self.negation()?];
        while self.cursor.take("AND") {
            parts.push(self.negation()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Condition::And(parts) })
    }

    fn negation(&mut self) -> Result<Condition<'a>> {
        let mut negated = false;
        while self.cursor.take("NOT") {
            negated = !negated;
        }
        let inner = if self.cursor.take("(") {
            let inner = self.condition()?;
            self.expect(")")?;
            inner
        } else {
            self.comparison()?
        };
        Ok(if negated { Condition::Not(Box::new(inner)) } else { inner })
    }

    fn comparison(&mut self) -> Result<Condition<'a>> {
        if self.begins_constant() {
            let constant = self.constant()?;
            let (_, flipped) = self.operator()?;
            let column = self.column()?;
            return Ok(Condition::Compare(column, flipped, constant));
        }
        let column = self.column()?;
        if self.cursor.take("IS") {
            let operator = if self.cursor.take("NOT") { Operator::IsNot } else { Operator::Is };
            return Ok(Condition::Compare(column, operator, self.constant()?));
        }
        if self.cursor.take("ISNULL") {
            return Ok(Condition::Compare(column, Operator::Is, "NULL".to_owned()));
        }
        if self.cursor.take("NOTNULL") {
            return Ok(Condition::Compare(column, Operator::IsNot, "NULL".to_owned()));
        }
        let negated = self.cursor.take("NOT");
        let negate = |condition| if negated { Condition::Not(Box::new(condition)) } else { condition };
        if negated && self.cursor.take("NULL") {
            return Ok(Condition::Compare(column, Operator::IsNot, "NULL".to_owned()));
        }
        if self.cursor.take("BETWEEN") {
            let low = Condition::Compare(column, Operator::GreaterOrEqual, self.constant()?);
            self.expect("AND")?;
            let high = Condition::Compare(column, Operator::LessOrEqual, self.constant()?);
            return Ok(negate(Condition::And(vec![low, high])));
        }
        if self.cursor.take("IN") {
            self.expect("(")?;
            let constants = self.list(Parser::constant)?;
            self.expect(")")?;
            return Ok(negate(Condition::In(column, constants)));
        }
        if negated {
            return Err(self.refuse("behind NOT"));
        }
        let (operator, _) = self.operator()?;
        Ok(Condition::Compare(column, operator, self.constant()?))
    }

    fn operator(&mut self) -> Result<(Operator, Operator)> {
        let word = self.cursor.word();
        let found = OPERATORS.iter().find(|(text, ..)| word.is(text));
        let (_, operator, flipped) = found.ok_or_else(|| self.refuse("in a condition"))?;
        self.cursor.at += 1;
        Ok((*operator, *flipped))
    }

    fn begins_constant(&self) -> bool {
        let word = self.cursor.word();
        matches!(word.kind, Kind::Literal | Kind::Parameter)
            || ["+", "-", "NULL"].iter().any(|text| word.is(text))
    }

    fn constant(&mut self) -> Result<Constant> {
        let sign = if self.cursor.take("-") {
            "-"
        } else {
            self.cursor.take("+");
            ""
        };
        let word = self.cursor.word();
        let constant = match word.kind {
            Kind::Literal => format!("{sign}{}", word.text),
            Kind::Parameter if sign.is_empty() => self.parameter(word.text)?,
            Kind::Name if sign.is_empty() && word.is("NULL") => "NULL".to_owned(),
            _ => return Err(self.refuse("as a constant")),
        };
        self.cursor.at += 1;
        if ["+", "-", "*", "/", "%", "||", "&", "|", "<<", ">>", "COLLATE", "->"]
            .iter()
            .any(|text| self.cursor.word().is(text))
        {
            return Err(self.refuse("behind a constant"));
        }
        Ok(constant)
    }

    /// A parameter with its number.
    fn parameter(&mut self, text: &str) -> Result<String> {
        let number = match text.strip_prefix('?') {
            Some("") => self.parameters + 1,
            Some(digits) => digits.parse().map_err(|_| format!("{text} is not supported"))?,
            None => return Err(format!("{text} is not supported")),
        };
        self.parameters = self.parameters.max(number);
        Ok(format!("?{number}"))
    }
}

/// Words that are no name here without quotes.
const RESERVED: [&str; 22] = [
    "ALL", "AND", "AS", "BETWEEN", "CASE", "CAST", "DISTINCT", "EXISTS", "FROM", "GROUP", "HAVING", "IN",
    "IS", "LIMIT", "NOT", "NULL", "OR", "ORDER", "SELECT", "VALUES", "WHERE", "WITH",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_read() {
        let text = "select city, count(*), sum(x) AS s FROM main.t WHERE x > ?1 AND NOT (y IN (1, -2) OR 'a' <= z) GROUP BY city;";
        let query = parse(text).unwrap();
        assert_eq!(
            query.items,
            [
                Item::Column("city"),
                Item::Aggregate(Function::Count, None),
                Item::Aggregate(Function::Sum, Some("x"))
            ]
        );
        assert_eq!((query.table.as_str(), &query.keys[..]), ("main.t", &["city"][..]));
        let in_list = Condition::In("y", vec!["1".to_owned(), "-2".to_owned()]);
        let flipped = Condition::Compare("z", Operator::GreaterOrEqual, "'a'".to_owned());
        assert_eq!(
            query.condition,
            Some(Condition::And(vec![
                Condition::Compare("x", Operator::Greater, "?1".to_owned()),
                Condition::Not(Box::new(Condition::Or(vec![in_list, flipped]))),
            ]))
        );
    }

    #[test]
    fn parameters_are_numbered_as_sqlite_does() {
        let query = parse("SELECT a FROM t WHERE a = ? AND a = ?5 AND a = ?").unwrap();
        let Some(Condition::And(parts)) = query.condition else { panic!() };
        let numbers: Vec<_> = parts
            .into_iter()
            .map(|part| match part {
                Condition::Compare(_, _, constant) => constant,
                _ => panic!(),
            })
            .collect();
        assert_eq!(numbers, ["?1", "?5", "?6"]);
    }

    #[test]
    fn a_construct_that_is_not_understood_is_named() {
        for (text, named) in [
            ("DELETE FROM t", "DELETE"),
            ("SELECT * FROM t", "*"),
            ("SELECT DISTINCT a FROM t", "DISTINCT"),
            ("SELECT count(DISTINCT a) FROM t", "DISTINCT"),
            ("SELECT sum(a + 1) FROM t", "+"),
            ("SELECT sum(a) FILTER (WHERE a > 1) FROM t", "FILTER"),
            ("SELECT group_concat(a) FROM t", "behind group_concat"),
            ("SELECT a FROM t, u", ","),
            ("SELECT a FROM t JOIN u", "JOIN"),
            ("SELECT a FROM t AS u", "AS"),
            ("SELECT a FROM (SELECT 1)", "("),
            ("SELECT a FROM t ORDER BY a", "ORDER there is not supported; put it around"),
            ("SELECT a FROM t GROUP BY a HAVING a > 1", "HAVING"),
            ("SELECT a FROM t WHERE a LIKE 'b'", "LIKE"),
            ("SELECT a FROM t WHERE a NOT LIKE 'b'", "LIKE"),
            ("SELECT a FROM t WHERE a = b", "b as a constant"),
            ("SELECT a FROM t WHERE a = 1 + 2", "+ behind a constant"),
            ("SELECT a FROM t WHERE a = 'b' COLLATE NOCASE", "COLLATE"),
            ("SELECT a FROM t WHERE a", "the end"),
            ("SELECT a FROM t WHERE a IN (SELECT 1)", "SELECT"),
            ("SELECT a FROM t WHERE abs(a) = 1", "( behind abs"),
            ("SELECT a FROM t WHERE a = :b", ":"),
            ("SELECT a FROM t UNION SELECT b FROM u", "UNION"),
            ("SELECT a FROM t WHERE 1 = 1", "1"),
            ("", "the end"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(named), "{text}: {message}");
        }
        let deep = format!("SELECT a FROM t WHERE {}a = 1", "(".repeat(100));
        assert!(parse(&deep).unwrap_err().contains("levels"));
    }
}
