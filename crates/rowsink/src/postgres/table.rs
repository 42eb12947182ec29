//! The statements for a table: pure text, from the definition of SQLite's table and what is there.

use super::fit::{Cells, Kind, misfit};
use litefoot_rowdiff::encode::changeset;
use litefoot_rowdiff::{Row, Table};
use serde_json::{Map, Value as Json};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Longest name that PostgreSQL takes, in bytes; it would cut longer ones off.
const MOST_NAME: usize = 63;

/// A name in quotes.
pub(super) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A table at the destination.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Target {
    /// Its name, quoted, with that of the schema.
    pub name: String,
    has_rowid: bool,
    /// The columns of SQLite's table: the name at the destination, and the type.
    columns: Vec<(String, Kind)>,
}

impl Target {
    /// The target of a table; `found` has the columns that are there, with the names of their types.
    ///
    /// # Errors
    /// The reason for which the table cannot be there, and what to do.
    pub(super) fn new(schema: &str, table: &Table, found: &[(String, String)]) -> Result<Target, String> {
        if let Some(why) = &table.unreadable {
            return Err(format!("its definition is not understood: {why}"));
        }
        let mut columns = Vec::new();
        for column in &table.columns {
            let name = column_name(&column.name);
            if name.len() > MOST_NAME || name.contains('\0') {
                return Err(format!(
                    "the name of column {} is no name for PostgreSQL: rename it",
                    column.name
                ));
            }
            let kind = match found.iter().find(|(there, _)| *there == name) {
                None => Kind::of(column),
                Some((_, declared)) => Kind::from_name(declared).ok_or_else(|| {
                    format!(
                        "column {name} is {declared} there, and {} was expected: change its type",
                        Kind::of(column).name()
                    )
                })?,
            };
            if columns.iter().any(|(other, _)| *other == name) {
                return Err(format!("two columns are called {name}: rename one"));
            }
            columns.push((name, kind));
        }
        if table.name.len() > MOST_NAME || table.name.contains('\0') {
            return Err("its name is no name for PostgreSQL: rename it".to_owned());
        }
        let target = Target {
            name: format!("{}.{}", quote(schema), quote(&table.name)),
            has_rowid: table.has_rowid(),
            columns,
        };
        match found.is_empty() || found.iter().any(|(name, _)| name == target.key()) {
            true => Ok(target),
            false => {
                Err(format!("the table that is there has no column {}: rename it, or drop it", target.key()))
            }
        }
    }

    /// The column that tells rows apart.
    fn key(&self) -> &'static str {
        if self.has_rowid { "_rowid" } else { "_key" }
    }

    fn key_kind(&self) -> Kind {
        if self.has_rowid { Kind::Bigint } else { Kind::Bytea }
    }

    /// The columns of SQLite's table with their types, each with a comma behind it.
    fn typed_columns(&self) -> String {
        self.columns.iter().map(|(name, kind)| format!("{} {}, ", quote(name), kind.name())).collect()
    }

    /// The clause by which a row that is put replaces one that is there.
    fn on_conflict(&self) -> String {
        let names = self.columns.iter().map(|(name, _)| quote(name));
        let excluded: String = names.map(|name| format!("{name} = excluded.{name}, ")).collect();
        format!("ON CONFLICT (_source, {}) DO UPDATE SET {excluded}_misfit = excluded._misfit", self.key())
    }

    /// Statements that make the table, or widen it.
    pub(super) fn definition(&self, found: &[(String, String)]) -> String {
        if !found.is_empty() {
            let is_new = |(name, _): &&(String, Kind)| !found.iter().any(|(there, _)| there == name);
            let add = |(name, kind): &(String, Kind)| {
                format!("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} {};", self.name, quote(name), kind.name())
            };
            return self.columns.iter().filter(is_new).map(add).collect();
        }
        let columns = self.typed_columns();
        format!(
            "CREATE TABLE IF NOT EXISTS {} (_source uuid NOT NULL, {key} {} NOT NULL, {columns}_misfit jsonb, PRIMARY KEY (_source, {key}));",
            self.name,
            self.key_kind().name(),
            key = self.key(),
        )
    }

    /// The statement that gives all rows of source `$1` the first value of `$2` in a column, and of `$3` in `_misfit`.
    pub(super) fn fill(&self, at: usize) -> String {
        format!(
            "UPDATE {} SET {} = ($2::{})[1], _misfit = CASE WHEN ($3::text[])[1] IS NULL THEN _misfit \
             ELSE coalesce(_misfit, '{{}}'::jsonb) || ($3::text[])[1]::jsonb END WHERE _source = $1::text::uuid",
            self.name,
            quote(&self.columns[at].0),
            self.array(at),
        )
    }

    /// The type of an array of a column's values, as a cast of a parameter.
    fn array(&self, at: usize) -> String {
        match self.columns[at].1 {
            Kind::Numeric => "text[]::numeric[]".to_owned(),
            kind => format!("{}[]", kind.name()),
        }
    }

    /// The statement that deletes rows: of source `$1`, with the keys `$2`.
    pub(super) fn delete(&self) -> String {
        let (key, kind) = (self.key(), self.key_kind().name());
        format!(
            "DELETE FROM {} t USING unnest($2::{kind}[]) d(k) WHERE t._source = $1::text::uuid AND t.{key} = d.k",
            self.name
        )
    }

    /// The statement that forgets rows: of source `$1`, with rowids above `$2`, up to `$3`.
    pub(super) fn forget(&self) -> String {
        format!(
            "DELETE FROM {} WHERE _source = $1::text::uuid AND ($2::bigint IS NULL OR _rowid > $2) AND ($3::bigint IS NULL OR _rowid <= $3)",
            self.name
        )
    }

    /// The statement that puts rows: of source `$1`, with the keys `$2`, the columns from `$3` on, and `_misfit` last.
    pub(super) fn upsert(&self) -> String {
        let arrays: String =
            (0..self.columns.len()).map(|at| format!("${}::{}, ", at + 3, self.array(at))).collect();
        format!(
            "INSERT INTO {} ({}) SELECT $1::text::uuid, u.* FROM unnest($2::{}[], {arrays}${}::text[]::jsonb[]) u {}",
            self.name,
            self.all_columns(),
            self.key_kind().name(),
            self.columns.len() + 3,
            self.on_conflict(),
        )
    }

    /// The statement that deletes rows: of the sources `$1`, with the keys `$2`.
    pub(super) fn delete_many(&self) -> String {
        let (key, kind) = (self.key(), self.key_kind().name());
        format!(
            "DELETE FROM {} t USING unnest($1::text[]::uuid[], $2::{kind}[]) d(s, k) WHERE t._source = d.s AND t.{key} = d.k",
            self.name
        )
    }

    /// The columns of a row of [`copy::put`](super::copy::put).
    pub(super) fn all_columns(&self) -> String {
        let columns: String = self.columns.iter().map(|(name, _)| format!("{}, ", quote(name))).collect();
        format!("_source, {}, {columns}_misfit", self.key())
    }

    /// The types of the columns of SQLite's table.
    pub(super) fn kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        self.columns.iter().map(|(_, kind)| *kind)
    }

    /// The name of the session's own table for rows on their way into this one.
    pub(super) fn stage(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        format!("pg_temp.litefoot_{:016x}", hasher.finish())
    }

    /// The statement that makes the session's table. It is empty behind each transaction.
    pub(super) fn stage_definition(&self, stage: &str) -> String {
        let columns = self.typed_columns();
        format!(
            "CREATE TEMPORARY TABLE IF NOT EXISTS {stage} (_source uuid, {} {}, {columns}_misfit jsonb) ON COMMIT DELETE ROWS",
            self.key(),
            self.key_kind().name(),
        )
    }

    /// The statement that puts the rows of the session's table.
    pub(super) fn upsert_from(&self, stage: &str) -> String {
        let columns = self.all_columns();
        format!("INSERT INTO {} ({columns}) SELECT {columns} FROM {stage} {}", self.name, self.on_conflict())
    }

    /// The keys of rows.
    pub(super) fn keys<'a>(&self, table: &Table, rows: impl Iterator<Item = &'a Row>) -> Cells {
        let key = table.primary_key();
        match self.has_rowid {
            true => Cells::Bigint(rows.map(|row| row.rowid).collect()),
            false => Cells::Bytea(
                rows.map(|row| Some(changeset::values(key.iter().map(|at| &row.values[*at])))).collect(),
            ),
        }
    }

    /// The columns of rows, and `_misfit`.
    pub(super) fn cells<'a>(&self, table: &Table, rows: impl Iterator<Item = &'a Row>) -> Vec<Cells> {
        let mut cells: Vec<Cells> = self.columns.iter().map(|(_, kind)| Cells::new(*kind)).collect();
        let mut misfits = Vec::new();
        for row in rows {
            let mut odd = Map::new();
            for ((cells, value), column) in cells.iter_mut().zip(&row.values).zip(&table.columns) {
                if !cells.push(value) {
                    odd.insert(column.name.clone(), misfit(value));
                }
            }
            misfits.push((!odd.is_empty()).then(|| Json::Object(odd).to_string()));
        }
        cells.push(Cells::Text(misfits));
        cells
    }
}

/// The name of a column at the destination: our own names have a second line before them.
fn column_name(name: &str) -> String {
    match ["_source", "_rowid", "_key", "_misfit"].contains(&name) {
        true => format!("_{name}"),
        false => name.to_owned(),
    }
}

/// Whether a table was altered in a way that its rows at the destination follow: columns were added, and nothing else.
///
/// # Errors
/// The reason, and what to do.
pub(super) fn follows(before: &Table, after: &Table) -> Result<(), String> {
    let renamed = || {
        format!(
            "it was {} before, and has another name or another key: run litefoot ship resync",
            before.name
        )
    };
    let is_there = |name: &str| after.columns.iter().any(|column| column.name == name);
    match before.columns.iter().find(|column| !is_there(&column.name)) {
        _ if before.name != after.name || before.has_rowid() != after.has_rowid() => Err(renamed()),
        Some(column) => {
            Err(format!("its column {} was renamed or dropped: run litefoot ship resync", column.name))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_rowdiff::Value;

    fn table(sql: &str) -> Table {
        Table::from_sql("t\"x".into(), 2, sql.into())
    }

    #[test]
    fn a_table_is_made_and_widened() {
        let made = table("CREATE TABLE t(id INTEGER PRIMARY KEY, _rowid TEXT, \"a b\" REAL)");
        let target = Target::new("public", &made, &[]).unwrap();
        assert_eq!(
            target.definition(&[]),
            "CREATE TABLE IF NOT EXISTS \"public\".\"t\"\"x\" (_source uuid NOT NULL, _rowid bigint NOT NULL, \"id\" bigint, \
             \"__rowid\" text, \"a b\" double precision, _misfit jsonb, PRIMARY KEY (_source, _rowid));"
        );
        let there =
            [("_rowid", "bigint"), ("id", "bigint")].map(|(name, kind)| (name.to_owned(), kind.to_owned()));
        let target = Target::new("public", &made, &there).unwrap();
        assert!(
            target
                .definition(&there)
                .starts_with("ALTER TABLE \"public\".\"t\"\"x\" ADD COLUMN IF NOT EXISTS \"__rowid\" text;")
        );
        let other = [("id".to_owned(), "uuid".to_owned())];
        assert!(Target::new("public", &made, &other).is_err_and(|why| why.contains("uuid")));
        assert!(Target::new("public", &table("CREATE VIRTUAL TABLE t USING x(a)"), &[]).is_err());
    }

    #[test]
    fn rows_become_columns() {
        let made = table("CREATE TABLE t(k TEXT PRIMARY KEY, n INT) WITHOUT ROWID");
        let target = Target::new("s", &made, &[]).unwrap();
        let rows = [
            Row { rowid: None, values: vec!["a".into(), Value::Integer(1)] },
            Row { rowid: None, values: vec!["b".into(), "odd".into()] },
        ];
        let Cells::Bytea(keys) = target.keys(&made, rows.iter()) else { panic!() };
        assert_eq!(keys, [Some(vec![3, 1, b'a']), Some(vec![3, 1, b'b'])]);
        let cells = target.cells(&made, rows.iter());
        assert_eq!(cells[1], Cells::Bigint(vec![Some(1), None]));
        assert_eq!(cells[2], Cells::Text(vec![None, Some("{\"n\":\"odd\"}".into())]));
        assert!(
            target.upsert().contains("unnest($2::bytea[], $3::text[], $4::bigint[], $5::text[]::jsonb[])")
        );
    }

    #[test]
    fn only_added_columns_are_followed() {
        let before = table("CREATE TABLE t(a, b)");
        for (sql, follow) in [
            ("CREATE TABLE t(a, b, c)", true),
            ("CREATE TABLE t(a, c)", false),
            ("CREATE TABLE t(a)", false),
            ("CREATE TABLE t(a PRIMARY KEY, b) WITHOUT ROWID", false),
        ] {
            assert_eq!(follows(&before, &table(sql)).is_ok(), follow, "{sql}");
        }
        let mut renamed = before.clone();
        renamed.name = "u".into();
        assert!(follows(&before, &renamed).is_err());
    }
}
