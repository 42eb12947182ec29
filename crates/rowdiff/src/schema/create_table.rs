//! A CREATE TABLE statement, as far as it says where values lie (<https://www.sqlite.org/lang_createtable.html>).
//!
//! SQLite has accepted the statement, so what is refused here is what this parser does not know.

use super::default;
use super::{Affinity, Column, Key, Table};
use litefoot_format::words::{Cursor, Kind, Word};

/// A statement that was understood.
pub(super) struct Parsed {
    columns: Vec<Declared>,
    /// The columns of PRIMARY KEY, in its order.
    primary_key: Vec<usize>,
    /// The column that is a name for the rowid, in a table that has rowids.
    alias: Option<usize>,
    without_rowid: bool,
}

/// A column, stored or not.
struct Declared {
    column: Column,
    is_virtual: bool,
}

impl Parsed {
    pub(super) fn table(self, name: String, root: u32, sql: String) -> Table {
        let is_stored: Vec<bool> = self.columns.iter().map(|declared| !declared.is_virtual).collect();
        let place = |of: usize| is_stored[..of].iter().filter(|stored| **stored).count();
        let primary_key: Vec<usize> = self.primary_key.iter().map(|of| place(*of)).collect();
        let alias = self.alias.map(place);
        let stored = self.columns.into_iter().filter(|declared| !declared.is_virtual);
        let columns: Vec<Column> = stored.map(|declared| declared.column).collect();
        let all = 0..columns.len();
        let (key, storage) = match self.without_rowid {
            true => {
                let rest = all.filter(|of| !primary_key.contains(of));
                (Key::PrimaryKey, primary_key.iter().copied().chain(rest).collect())
            }
            false => (Key::Rowid { alias }, all.collect()),
        };
        Table { name, root, sql, columns, key, unreadable: None, storage }
    }
}

/// Parses the statement.
pub(super) fn parse(sql: &str) -> Result<Parsed, String> {
    let mut parser = Parser {
        sql,
        cursor: Cursor::new(sql)?,
        columns: Vec::new(),
        primary_key: None,
        alias: None,
        twice: None,
    };
    parser.head()?;
    parser.body()?;
    let (without_rowid, is_strict) = parser.options()?;
    parser.finish(without_rowid, is_strict)
}

struct Parser<'a> {
    sql: &'a str,
    cursor: Cursor<'a>,
    columns: Vec<Declared>,
    /// Its columns, and true where the one column may be a name for the rowid.
    primary_key: Option<(Vec<usize>, bool)>,
    alias: Option<usize>,
    /// A column that is in the primary key twice, perhaps with two collations.
    twice: Option<String>,
}

impl<'a> Parser<'a> {
    fn expect(&mut self, expected: &str) -> Result<(), String> {
        match self.cursor.take(expected) {
            true => Ok(()),
            false => Err(format!("{expected} was expected, not {}", self.cursor.word().text)),
        }
    }

    fn name(&mut self) -> Result<String, String> {
        let word = self.cursor.next_word();
        name(word).ok_or_else(|| format!("a name was expected, not {}", word.text))
    }

    fn head(&mut self) -> Result<(), String> {
        self.expect("CREATE")?;
        let _ = self.cursor.take("TEMP") || self.cursor.take("TEMPORARY");
        self.expect("TABLE")?;
        if self.cursor.take("IF") {
            self.cursor.at += 2;
        }
        self.name()?;
        if self.cursor.take(".") {
            self.name()?;
        }
        Ok(())
    }

    /// The columns and the constraints, with their brackets.
    fn body(&mut self) -> Result<(), String> {
        self.expect("(")?;
        loop {
            if self.is_table_constraint() {
                break self.table_constraints();
            }
            self.column()?;
            if self.cursor.take(")") {
                break Ok(());
            }
            self.expect(",")?;
        }
    }

    fn is_table_constraint(&self) -> bool {
        ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"].iter().any(|word| self.cursor.word().is(word))
    }

    fn column(&mut self) -> Result<(), String> {
        let name = self.name()?;
        if self.columns.iter().any(|other| other.column.name.eq_ignore_ascii_case(&name)) {
            return Err(format!("two columns are called {name}"));
        }
        let declared = self.declared_type()?;
        let column = Column {
            name,
            affinity: Affinity::of(declared),
            declared: declared.to_owned(),
            primary_key: 0,
            not_null: false,
            generated: false,
            default: None,
        };
        let mut column = Declared { column, is_virtual: false };
        let mut has_default = false;
        while !self.cursor.word().is(",") && !self.cursor.word().is(")") {
            let from = self.cursor.at;
            if self.cursor.take("PRIMARY") {
                self.expect("KEY")?;
                let is_descending = self.cursor.take("DESC");
                self.set_primary_key(vec![self.columns.len()], !is_descending)?;
            } else if self.cursor.take("NOT") {
                column.column.not_null |= self.cursor.take("NULL");
            } else if self.cursor.take("DEFAULT") {
                let start = self.cursor.at;
                self.default()?;
                has_default = true;
                column.column.default =
                    default::parse(&self.cursor.words[start..self.cursor.at], column.column.affinity);
            } else if self.cursor.take("SET") {
                // What a foreign key does: its DEFAULT begins nothing.
                self.skip()?;
            } else if self.cursor.take("AS") {
                self.skip()?;
                let is_stored = self.cursor.take("STORED");
                (column.column.generated, column.is_virtual) = (is_stored, !is_stored);
            } else {
                self.skip()?;
            }
            if self.cursor.at == from {
                return Err(format!("{} was not expected", self.cursor.word().text));
            }
        }
        if !has_default {
            column.column.default = Some(crate::value::Value::Null);
        }
        self.columns.push(column);
        Ok(())
    }

    /// The type of a column, as it stands in the statement.
    fn declared_type(&mut self) -> Result<&'a str, String> {
        const ENDS: [&str; 11] = [
            "CONSTRAINT",
            "NOT",
            "NULL",
            "PRIMARY",
            "UNIQUE",
            "CHECK",
            "REFERENCES",
            "COLLATE",
            "DEFAULT",
            "AS",
            "DEFERRABLE",
        ];
        let start = self.cursor.at;
        while name(self.cursor.word()).is_some() && !ENDS.iter().any(|word| self.cursor.word().is(word)) {
            let is_always = self.cursor.words.get(self.cursor.at + 1).is_some_and(|next| next.is("ALWAYS"));
            if self.cursor.word().is("GENERATED") && is_always {
                break;
            }
            self.cursor.at += 1;
        }
        if self.cursor.at == start {
            return Ok("");
        }
        if self.cursor.word().is("(") {
            self.skip()?;
        }
        let text = self.between(start, self.cursor.at);
        Ok(text)
    }

    /// The text from a word to the one before another.
    fn between(&self, start: usize, end: usize) -> &'a str {
        let offset = |word: &Word<'_>| word.text.as_ptr().addr() - self.sql.as_ptr().addr();
        let (first, last) = (&self.cursor.words[start], &self.cursor.words[end - 1]);
        &self.sql[offset(first)..offset(last) + last.text.len()]
    }

    fn set_primary_key(&mut self, columns: Vec<usize>, may_be_rowid: bool) -> Result<(), String> {
        match self.primary_key.replace((columns, may_be_rowid)) {
            None => Ok(()),
            Some(_) => Err("there are two primary keys".to_owned()),
        }
    }

    fn default(&mut self) -> Result<(), String> {
        let _ = self.cursor.take("+") || self.cursor.take("-");
        self.skip()
    }

    /// Passes a word, or brackets with all that is in them.
    fn skip(&mut self) -> Result<(), String> {
        let mut depth = 0usize;
        loop {
            let word = self.cursor.next_word();
            match (word.kind, word.text) {
                (Kind::End, _) => return Err("the statement has no end".to_owned()),
                (Kind::Symbol, "(") => depth += 1,
                (Kind::Symbol, ")") => depth = depth.checked_sub(1).ok_or(") was not expected")?,
                _ => (),
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn table_constraints(&mut self) -> Result<(), String> {
        while !self.cursor.take(")") {
            if self.cursor.take("PRIMARY") {
                self.expect("KEY")?;
                self.primary_key_columns()?;
            } else {
                self.skip()?;
            }
        }
        Ok(())
    }

    fn primary_key_columns(&mut self) -> Result<(), String> {
        self.expect("(")?;
        let (mut columns, mut collated) = (Vec::new(), Vec::new());
        loop {
            let name = self.name()?;
            let is = |declared: &Declared| declared.column.name.eq_ignore_ascii_case(&name);
            let column = self.columns.iter().position(is).ok_or_else(|| format!("{name} is no column"))?;
            let mut has_collation = false;
            while !self.cursor.word().is(",") && !self.cursor.word().is(")") {
                has_collation |= self.cursor.word().is("COLLATE");
                self.skip()?;
            }
            match columns.contains(&column) {
                false => columns.push(column),
                true if has_collation || collated.contains(&column) => self.twice = Some(name),
                true => (),
            }
            if has_collation {
                collated.push(column);
            }
            if self.cursor.take(")") {
                break;
            }
            self.expect(",")?;
        }
        self.set_primary_key(columns, true)
    }

    /// What is behind the brackets: WITHOUT ROWID, STRICT.
    fn options(&mut self) -> Result<(bool, bool), String> {
        let (mut without_rowid, mut is_strict) = (false, false);
        loop {
            if self.cursor.take("WITHOUT") {
                self.expect("ROWID")?;
                without_rowid = true;
            } else if self.cursor.take("STRICT") {
                is_strict = true;
            } else if !self.cursor.take(",") && !self.cursor.take(";") {
                break;
            }
        }
        match self.cursor.word().kind {
            Kind::End => Ok((without_rowid, is_strict)),
            _ => Err(format!("{} was not expected", self.cursor.word().text)),
        }
    }

    fn finish(mut self, without_rowid: bool, is_strict: bool) -> Result<Parsed, String> {
        if let Some(name) = self.twice.filter(|_| without_rowid) {
            return Err(format!("{name} is in the primary key twice, with collations"));
        }
        let (primary_key, may_be_rowid) = self.primary_key.unwrap_or_default();
        for (place, column) in primary_key.iter().enumerate() {
            self.columns[*column].column.primary_key = place + 1;
        }
        if let ([column], true, false) = (&primary_key[..], may_be_rowid, without_rowid)
            && self.columns[*column].column.declared.eq_ignore_ascii_case("INTEGER")
        {
            self.alias = Some(*column);
        }
        for Declared { column, .. } in self.columns.iter_mut().filter(|_| is_strict) {
            if column.declared.eq_ignore_ascii_case("ANY") {
                column.affinity = Affinity::Blob;
            }
        }
        if without_rowid && primary_key.is_empty() {
            return Err("it has neither rowids nor a primary key".to_owned());
        }
        if primary_key.iter().any(|column| self.columns[*column].is_virtual) {
            return Err("a virtual column is in the primary key".to_owned());
        }
        Ok(Parsed { columns: self.columns, primary_key, alias: self.alias, without_rowid })
    }
}

/// The name that a word is, without its quotes.
pub(super) fn name(word: Word<'_>) -> Option<String> {
    let text = word.text;
    let inner = |quote: char| {
        let doubled = [quote, quote].iter().collect::<String>();
        text[1..text.len() - 1].replace(&doubled, &quote.to_string())
    };
    match (word.kind, text.chars().next()?) {
        (Kind::Name, _) => Some(text.to_owned()),
        (Kind::QuotedName, '[') => Some(text[1..text.len() - 1].to_owned()),
        (Kind::QuotedName, quote) => Some(inner(quote)),
        // SQLite takes a text where a name has to be.
        (Kind::Literal, '\'') => Some(inner('\'')),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    fn table(sql: &str) -> Table {
        parse(sql)
            .map(|parsed| parsed.table("t".into(), 2, sql.into()))
            .unwrap_or_else(|why| panic!("{sql}: {why}"))
    }

    #[test]
    fn columns_are_found_with_types_and_defaults() {
        let table = table(
            "CREATE TABLE 'a b'( -- first\n id INTEGER PRIMARY KEY AUTOINCREMENT, [x y] VARCHAR(10,2) NOT NULL DEFAULT 'it''s', \
             \"q\"\"\" double precision DEFAULT (5) CHECK(x > (1)), v AS (id + 1), s TEXT GENERATED ALWAYS AS (x) STORED, \
             d DATE DEFAULT CURRENT_TIME, n, REFERENCES_ int REFERENCES o(a) ON DELETE SET NULL, CONSTRAINT c UNIQUE(n), \
             FOREIGN KEY(n) REFERENCES o(b))",
        );
        let found: Vec<_> =
            table.columns.iter().map(|of| (&of.name[..], &of.declared[..], of.affinity)).collect();
        use Affinity::*;
        assert_eq!(
            found,
            [
                ("id", "INTEGER", Integer),
                ("x y", "VARCHAR(10,2)", Text),
                ("q\"", "double precision", Real),
                ("s", "TEXT", Text),
                ("d", "DATE", Numeric),
                ("n", "", Blob),
                ("REFERENCES_", "int", Integer),
            ]
        );
        assert_eq!(table.key, Key::Rowid { alias: Some(0) });
        let defaults: Vec<_> = table.columns.iter().map(|of| of.default.clone()).collect();
        let [_, text, real, .., time, none, _] = &defaults[..] else { panic!() };
        assert_eq!((text, real), (&Some(Value::from("it's")), &Some(Value::Real(5.0))));
        assert_eq!((time, none), (&None, &Some(Value::Null)));
        assert!(table.columns[1].not_null && table.columns[3].generated);
    }

    #[test]
    fn what_a_foreign_key_sets_is_no_default() {
        let table = table(
            "CREATE TABLE t(a DEFAULT 7 REFERENCES o ON DELETE SET DEFAULT ON UPDATE SET NULL, b REFERENCES o ON DELETE SET DEFAULT, \
             c REFERENCES o ON UPDATE SET DEFAULT NOT NULL, d REFERENCES o ON DELETE SET DEFAULT)",
        );
        let found: Vec<_> =
            table.columns.iter().map(|of| (&of.name[..], of.default.clone(), of.not_null)).collect();
        let (seven, null) = (Some(Value::Integer(7)), Some(Value::Null));
        assert_eq!(
            found,
            [("a", seven, false), ("b", null.clone(), false), ("c", null.clone(), true), ("d", null, false)]
        );
    }

    #[test]
    fn a_column_is_a_name_for_the_rowid_where_sqlite_says_so() {
        for (sql, alias) in [
            ("CREATE TABLE t(a INTEGER PRIMARY KEY)", Some(0)),
            ("CREATE TABLE t(a integer primary key asc)", Some(0)),
            ("CREATE TABLE t(a INTEGER PRIMARY KEY DESC)", None),
            ("CREATE TABLE t(a INT PRIMARY KEY)", None),
            ("CREATE TABLE t(a \"INTEGER\" PRIMARY KEY)", None),
            ("CREATE TABLE t(b, a INTEGER, PRIMARY KEY(a DESC))", Some(1)),
            ("CREATE TABLE t(b AS (1), a INTEGER, PRIMARY KEY(a COLLATE nocase))", Some(0)),
            ("CREATE TABLE t(a INTEGER, b, PRIMARY KEY(a, b))", None),
            ("CREATE TABLE t(a INTEGER(8) PRIMARY KEY)", None),
        ] {
            assert_eq!(table(sql).key, Key::Rowid { alias }, "{sql}");
        }
    }

    #[test]
    fn a_table_without_rowids_stores_its_key_first() {
        for (sql, storage) in [
            ("CREATE TABLE t(a, b, c, PRIMARY KEY(c, a)) WITHOUT ROWID", &[2, 0, 1][..]),
            ("CREATE TABLE t(a INTEGER PRIMARY KEY, b) STRICT, WITHOUT ROWID", &[0, 1]),
            ("CREATE TABLE t(a, v AS (a), b, PRIMARY KEY(b, b)) without rowid", &[1, 0]),
        ] {
            let table = table(sql);
            assert_eq!((table.key, &table.storage[..]), (Key::PrimaryKey, storage), "{sql}");
        }
        // SQLite stores such a column twice, in a key that is the table's.
        for key in ["a, a COLLATE nocase", "a COLLATE nocase, a"] {
            let sql = format!("CREATE TABLE t(a, b, PRIMARY KEY({key}))");
            assert_eq!(table(&sql).storage, [0, 1], "{sql}");
            assert!(parse(&format!("{sql} WITHOUT ROWID")).is_err(), "{sql}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for sql in [
            "",
            "CREATE TABLE",
            "CREATE TABLE t",
            "CREATE TABLE t(",
            "CREATE TABLE t(a",
            "CREATE TABLE t(a,",
            "CREATE TABLE t(a) x",
            "CREATE TABLE t(a CHECK(1)",
            "CREATE VIRTUAL TABLE t USING fts5(a)",
            "CREATE TABLE t(a PRIMARY KEY, PRIMARY KEY(a))",
            "CREATE TABLE t(a, PRIMARY KEY(b))",
            "CREATE TABLE t(a, A)",
            "CREATE TABLE t(a) WITHOUT ROWID",
            "CREATE TABLE t(a 'no end)",
        ] {
            assert!(parse(sql).is_err(), "{sql}");
        }
    }
}
