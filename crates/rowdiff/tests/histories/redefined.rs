//! Tables that are made anew under their names between two looks: equal bytes may be other rows by then.

use super::image::{Image, truth};
use litefoot_rowdiff::{Changed, Collect, Error, Failure, Map, Pages};
use rusqlite::Connection;
use std::cell::Cell;

/// The changes that statements make, by the pages that have changed; the rows are those that SQL tells.
fn changes(before: &str, statements: &str, expected: &[u32]) -> Result<u64, Error> {
    let mut database = Connection::open_in_memory().unwrap();
    database.execute_batch(before).unwrap();
    let (old_image, old) = (Image::of(&mut database), truth(&database));
    let mut map = Map::of(&old_image).unwrap();
    database.execute_batch(statements).unwrap();
    let (new_image, new) = (Image::of(&mut database), truth(&database));
    let (mut found, pages) = (Collect::default(), old_image.changed(&new_image));
    assert_eq!(pages, expected, "{statements}");
    map.apply(map.diff(&old_image, &new_image, &Changed::Pages(&pages), &mut found)?);
    assert_eq!(map.verify(&new_image).unwrap(), None, "{statements}");
    Ok(super::compare(&old, &new, &found.tables, statements))
}

#[test]
fn rows_of_a_table_that_was_made_anew_are_those_of_its_definition() {
    let made = |columns: &str, more: &str| {
        format!("CREATE TABLE t({columns}); INSERT INTO t VALUES (NULL, 2), (NULL, 3), (NULL, 7); {more}")
    };
    // The leaf with the rows has not changed.
    let rows = 3;
    // The table `sqlite_schema` has a change of its own.
    for (before, after, expected) in [
        (made("a, b INT", ""), made("a, b REAL", ""), rows + 1),
        (made("a, b", ""), made("b, a", ""), rows + 1),
        (made("a, b", ""), made("b, c", ""), rows + 1),
        (made("a, b", "ALTER TABLE t ADD c"), made("a, d", ""), rows + 1),
        (made("a INTEGER PRIMARY KEY, b", ""), made("a INT, b", ""), rows + 1),
        (
            made("a, b", "ALTER TABLE t ADD c DEFAULT '123'"),
            made("a, b", "ALTER TABLE t ADD c DEFAULT -123.0"),
            rows + 1,
        ),
        // Nothing but the statement is another one.
        (made("a, b", ""), made("a, b CHECK (b > 0)", ""), 1),
        (made("a, b", ""), made("a, c", ""), 1),
        (made("a, b", ""), made("a, b", "ALTER TABLE t ADD c DEFAULT 5"), 1),
    ] {
        assert_eq!(changes(&before, &format!("DROP TABLE t; {after}"), &[1]).unwrap(), expected, "{after}");
    }
}

#[test]
fn a_new_column_without_a_known_default_is_refused_where_rows_lack_it() {
    let before = "CREATE TABLE t(a); INSERT INTO t VALUES (1)";
    let error =
        changes(before, "ALTER TABLE t ADD b INTEGER DEFAULT (-(-9223372036854775808))", &[1]).unwrap_err();
    assert!(matches!(&error, Error::Default { column, .. } if column == "b"), "{error}");
}

#[test]
fn a_table_that_can_be_read_from_now_on_has_all_rows() {
    let before = "CREATE TABLE t(a, b, PRIMARY KEY(a, a COLLATE nocase)) WITHOUT ROWID";
    let after = "DROP TABLE t; CREATE TABLE t(a, b); INSERT INTO t VALUES (1, 2), (3, 4)";
    assert_eq!(changes(before, after, &[1, 2]).unwrap(), 2 + 1);
}

/// An image that counts what is read of it.
struct Counting(Image, Cell<u32>);

impl Pages for Counting {
    fn page_bytes(&self) -> usize {
        self.0.page_bytes()
    }

    fn count(&self) -> u32 {
        self.0.count()
    }

    fn read(&self, number: u32, page: &mut [u8]) -> Result<(), Failure> {
        self.1.set(self.1.get() + 1);
        self.0.read(number, page)
    }
}

#[test]
fn rows_are_not_read_for_a_new_column_with_a_known_default() {
    let mut database = Connection::open_in_memory().unwrap();
    let rows =
        "CREATE TABLE t(a); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
                INSERT INTO t SELECT randomblob(400) FROM n";
    database.execute_batch(rows).unwrap();
    let before = Image::of(&mut database);
    let map = Map::of(&before).unwrap();
    database.execute_batch("ALTER TABLE t ADD b INTEGER DEFAULT 7").unwrap();
    let [before, after] = [before, Image::of(&mut database)].map(|image| Counting(image, Cell::new(0)));
    map.diff(&before, &after, &Changed::Pages(&[1]), &mut Collect::default()).unwrap();
    let read = before.1.get() + after.1.get();
    assert!(read < 10 && after.count() > 40, "{read} of {} pages", after.count());
}
