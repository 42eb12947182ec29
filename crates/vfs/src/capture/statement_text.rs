//! Statement texts: what a statement means for its transaction, read from its first words.

/// The meaning of a statement for its transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StatementKind {
    /// Writes nothing.
    #[default]
    Read,
    /// BEGIN, COMMIT, ROLLBACK.
    Boundary,
    /// SAVEPOINT, RELEASE, ROLLBACK TO.
    Savepoint,
    /// Changes rows.
    Write,
}

/// True for SAVEPOINT, RELEASE and ROLLBACK TO; every other recorded text changes rows.
pub(crate) fn is_savepoint(sql: &str) -> bool {
    kind_of(sql, true) == StatementKind::Savepoint
}

/// The kind of a statement; `read_only` is SQLite's own judgement.
pub(super) fn kind_of(sql: &str, read_only: bool) -> StatementKind {
    let word = first_word(sql);
    let is = |keyword: &str| word.eq_ignore_ascii_case(keyword);
    if is("BEGIN") || is("COMMIT") || is("END") || is("ROLLBACK") && !rolls_back_to(sql) {
        return StatementKind::Boundary;
    }
    if is("SAVEPOINT") || is("RELEASE") || is("ROLLBACK") {
        return StatementKind::Savepoint;
    }
    if read_only { StatementKind::Read } else { StatementKind::Write }
}

/// True if a text is a `SELECT` in its usual form: nothing stands in front of the word, and a common character follows.
///
/// # Safety
/// `sql` is a text that ends with a zero.
#[inline]
pub(super) unsafe fn begins_with_select(sql: *const u8) -> bool {
    // SAFETY: by contract; all before was a letter, and not the end.
    let is = |place: usize, letter: u8| unsafe { *sql.add(place) | 0x20 == letter };
    let word = is(0, b's') && is(1, b'e') && is(2, b'l') && is(3, b'e') && is(4, b'c') && is(5, b't');
    // SAFETY: as above. Any other character is rare, and `is_query` decides.
    word && unsafe { matches!(*sql.add(6), b' ' | b'\n' | b'*' | b'\0') }
}

/// True if a text begins with the keyword of a query.
pub(super) fn is_query(sql: &str) -> bool {
    let word = first_word(sql);
    ["SELECT", "WITH", "VALUES"].iter().any(|query| word.eq_ignore_ascii_case(query))
}

/// True if a text is a query, or what SQLite tells of a query in a trigger: the query as a comment.
pub(super) fn is_query_of_trigger(sql: &str) -> bool {
    // A comment of the application may stand in front of another statement.
    let inner = sql.strip_prefix("-- ").filter(|_| !may_change_settings(first_word(sql))).unwrap_or(sql);
    is_query(inner)
}

/// True if a statement with this first word may change how other statements compile.
fn may_change_settings(word: &str) -> bool {
    ["PRAGMA", "ATTACH", "DETACH"].iter().any(|one| word.eq_ignore_ascii_case(one))
}

/// True for a PRAGMA.
pub(super) fn is_pragma(sql: &str) -> bool {
    first_word(sql).eq_ignore_ascii_case("PRAGMA")
}

/// `ROLLBACK [TRANSACTION] TO …`
fn rolls_back_to(sql: &str) -> bool {
    let mut words = words(sql).skip(1);
    match words.next() {
        Some(word) if word.eq_ignore_ascii_case("TRANSACTION") => {
            words.next().is_some_and(|word| word.eq_ignore_ascii_case("TO"))
        }
        Some(word) => word.eq_ignore_ascii_case("TO"),
        None => false,
    }
}

/// The first word of a statement, or nothing.
fn first_word(sql: &str) -> &str {
    words(sql).next().unwrap_or_default()
}

/// The same of the beginning of a text, which may be cut anywhere behind the word.
pub(crate) fn first_word_of(begin: &[u8]) -> &str {
    let text = std::str::from_utf8(begin).or_else(|cut| std::str::from_utf8(&begin[..cut.valid_up_to()]));
    text.map_or("", first_word)
}

/// The words of a statement, without its comments.
fn words(sql: &str) -> impl Iterator<Item = &str> {
    let mut rest = sql;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ';');
            if let Some(comment) = rest.strip_prefix("--") {
                rest = comment.split_once('\n').map_or("", |(_, behind)| behind);
            } else if let Some(comment) = rest.strip_prefix("/*") {
                rest = comment.split_once("*/").map_or("", |(_, behind)| behind);
            } else {
                break;
            }
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (word, behind) =
            rest.split_at(end.max(usize::from(!rest.is_empty() && rest.is_char_boundary(1))));
        rest = behind;
        (!word.is_empty()).then_some(word)
    })
}

/// True if a compiled statement is a query by its first three letters: no other statement begins with them.
///
/// # Safety
/// `sql` is a text that ends with a zero.
#[inline]
pub(super) unsafe fn can_only_select(sql: *const u8) -> bool {
    // SAFETY: by contract; all before was a letter, and not the end.
    let is = |place: usize, letter: u8| unsafe { *sql.add(place) | 0x20 == letter };
    is(0, b's') && is(1, b'e') && is(2, b'l')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_known_by_their_first_word() {
        for (sql, is_one) in [
            (c"SELECT 1", true),
            (c"select*from t", true),
            (c"Select", true),
            (c"SELECT(1)", false),
            (c"SELECT_1", false),
            (c"SELECTs", false),
            (c"SELECT\u{e9}", false),
            (c"SELEC", false),
            (c"", false),
            (c" SELECT 1", false),
            (c"-- SELECT", false),
            (c"WITH a AS (SELECT 1) DELETE FROM t", false),
        ] {
            // SAFETY: it ends with a zero.
            assert_eq!(unsafe { begins_with_select(sql.as_ptr().cast()) }, is_one, "{sql:?}");
            assert!(!is_one || is_query(sql.to_str().unwrap()), "{sql:?}");
        }
    }

    #[test]
    fn statements_are_told_apart_by_their_words() {
        let cases = [
            ("BEGIN IMMEDIATE", false, StatementKind::Boundary),
            (" /* a */ -- b\n commit;", true, StatementKind::Boundary),
            ("ROLLBACK", true, StatementKind::Boundary),
            ("ROLLBACK TRANSACTION TO SAVEPOINT x", true, StatementKind::Savepoint),
            ("rollback to x", true, StatementKind::Savepoint),
            ("RELEASE x", true, StatementKind::Savepoint),
            ("SELECT 1", true, StatementKind::Read),
            ("", true, StatementKind::Read),
            ("é", true, StatementKind::Read),
            ("INSERT INTO t VALUES(1)", false, StatementKind::Write),
            ("WITH a AS (SELECT 1) DELETE FROM t", false, StatementKind::Write),
        ];
        for (sql, read_only, kind) in cases {
            assert_eq!(kind_of(sql, read_only), kind, "{sql}");
        }
    }

    #[test]
    fn queries_of_triggers_are_told_as_comments() {
        for (sql, is_one) in [
            ("SELECT 1", true),
            ("with a as (select 1) select * from a", true),
            ("-- SELECT a FROM t", true),
            ("-- INSERT INTO t VALUES(1)", false),
            ("-- SELECT\nPRAGMA recursive_triggers=1", false),
            ("-- SELECT\nATTACH 'a' AS b", false),
            ("UPDATE t SET a = 1", false),
            ("", false),
        ] {
            assert_eq!(is_query_of_trigger(sql), is_one, "{sql}");
        }
    }

    #[test]
    fn the_first_letters_tell_queries_and_pragmas() {
        for (sql, select, pragma) in [
            (c"SELECT 1", true, false),
            (c"selected", true, false),
            (c"SE", false, false),
            (c"", false, false),
            (c"SAVEPOINT a", false, false),
            (c"/* a */ pragma cache_size", false, true),
            (c"PRAGMAS", false, false),
        ] {
            // SAFETY: it ends with a zero.
            assert_eq!(unsafe { can_only_select(sql.as_ptr().cast()) }, select, "{sql:?}");
            assert_eq!(is_pragma(sql.to_str().unwrap()), pragma, "{sql:?}");
        }
    }
}
