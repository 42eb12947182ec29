//! Graph search in SQL.

#![allow(clippy::unwrap_used)]

use litefoot::Connection;
use litefoot_pagestore::ops::graph::{Order, Text, load};
use litefoot_pagestore::pagefile::Builder;
use litefoot_storage::os::OsMedium;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

struct Fixture {
    directory: tempfile::TempDir,
    db: Connection,
}

impl Fixture {
    fn new() -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        let db = Connection::open(directory.path().join("app.db")).unwrap();
        litefoot::graph::register(&db).unwrap();
        Fixture { directory, db }
    }

    /// Makes a graph of a text, and fills the table `edges` with the same edges.
    fn graph(&self, name: &str, text: &str, order: Order) -> PathBuf {
        let path = self.directory.path().join(name);
        store(&path, text, order);
        self.db
            .execute_batch(
                "DROP TABLE IF EXISTS edges; CREATE TABLE edges(source INTEGER, target INTEGER); BEGIN",
            )
            .unwrap();
        let mut insert = self.db.prepare("INSERT INTO edges VALUES (?1, ?2)").unwrap();
        for line in text.lines().skip(1) {
            let (source, target) = line.split_once(' ').unwrap();
            insert.execute((source.parse::<i64>().unwrap(), target.parse::<i64>().unwrap())).unwrap();
        }
        self.db.execute_batch("COMMIT; CREATE INDEX i ON edges(source)").unwrap();
        path
    }

    fn rows(&self, sql: &str, graph: &Path) -> Vec<(i64, i64)> {
        let mut statement = self.db.prepare(sql).unwrap();
        let graph = graph.to_str().unwrap();
        let arguments = &[&graph as &dyn rusqlite::ToSql][..statement.parameter_count()];
        let rows = statement.query_map(arguments, |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    }

    fn error(&self, sql: &str) -> String {
        let error = self.db.prepare(sql).and_then(|mut statement| {
            let mut rows = statement.query([])?;
            while rows.next()?.is_some() {}
            Ok(())
        });
        error.unwrap_err().to_string()
    }
}

fn store(path: &Path, text: &str, order: Order) {
    let builder = Builder::create(Arc::new(OsMedium::new()), path, 4096).unwrap();
    let mut text = Text::new(BufReader::new(text.as_bytes()), path).unwrap();
    load(&builder, &mut text, order, &mut |_| Ok(())).unwrap();
    builder.finish().unwrap();
}

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/graph").join(name);
    std::fs::read_to_string(path).unwrap()
}

const SEARCH_IN_SQL: &str = "
    WITH RECURSIVE reached(node, depth) AS (
        SELECT 0, 0 UNION SELECT target, depth + 1 FROM reached JOIN edges ON source = node WHERE depth < 20
    ) SELECT node, min(depth) FROM reached GROUP BY node ORDER BY node";

#[test]
fn searches_and_neighbors_are_those_of_the_edges() {
    let fixture = Fixture::new();
    for name in ["karate.txt", "openflights.txt"] {
        for order in [Order::Text, Order::Locality] {
            let graph = fixture.graph(&format!("{name}-{order:?}"), &data(name), order);
            let expected = fixture.rows(SEARCH_IN_SQL, &graph);
            assert!(expected.len() > 30);
            let found = fixture.rows("SELECT node, depth FROM litefoot_bfs(?1, 0) ORDER BY node", &graph);
            assert_eq!(found, expected, "{name}, {order:?}");
            // A join with the arguments out of another table, the table of the function on either side.
            let sql = "SELECT source, neighbor FROM (SELECT DISTINCT source FROM edges) AS s
                JOIN litefoot_neighbors(?1, s.source) ORDER BY source, neighbor";
            let edges = fixture.rows("SELECT source, target FROM edges ORDER BY source, target", &graph);
            assert_eq!(fixture.rows(sql, &graph), edges, "{name}, {order:?}");
            let sql = "SELECT depth, count(*) FROM litefoot_bfs JOIN (SELECT ?1 AS g)
                ON graph = g AND start = 0 GROUP BY depth ORDER BY depth";
            let counts = fixture.rows(sql, &graph);
            assert_eq!(counts[0], (0, 1));
            assert_eq!(counts.iter().map(|(_, count)| *count as usize).sum::<usize>(), expected.len());
        }
    }
}

#[test]
fn a_statement_may_be_left_early_and_run_again() {
    let fixture = Fixture::new();
    let graph = fixture.graph("g", &data("karate.txt"), Order::Text);
    for _ in 0..3 {
        let found = fixture.rows("SELECT node, depth FROM litefoot_bfs(?1, 5) LIMIT 3", &graph);
        assert_eq!(found[0], (5, 0));
        assert_eq!(found.len(), 3);
    }
    // Null in, nothing out, as with SQLite's own functions.
    assert!(fixture.rows("SELECT node, depth FROM litefoot_bfs(?1, NULL)", &graph).is_empty());
    let hidden = fixture.rows("SELECT start, length(graph) FROM litefoot_bfs(?1, 3) LIMIT 1", &graph);
    assert_eq!(hidden, [(3, graph.to_str().unwrap().len() as i64)]);
}

#[test]
fn a_graph_that_was_replaced_is_opened_again() {
    let fixture = Fixture::new();
    let graph = fixture.graph("g", "2 1\n0 1\n", Order::Text);
    let sql = "SELECT neighbor, place FROM litefoot_neighbors(?1, 0)";
    assert_eq!(fixture.rows(sql, &graph), [(1, 0)]);
    let other = fixture.directory.path().join("other");
    store(&other, "3 2\n0 2\n0 1\n", Order::Text);
    std::fs::rename(&other, &graph).unwrap();
    assert_eq!(fixture.rows(sql, &graph), [(2, 0), (1, 1)]);
}

#[test]
fn wrong_calls_say_what_is_wrong() {
    let fixture = Fixture::new();
    let graph = fixture.graph("g", "2 1\n0 1\n", Order::Text);
    let graph = graph.display();
    let app = fixture.directory.path().join("app.db");
    for (call, words) in [
        ("litefoot_bfs".to_owned(), "graph is missing"),
        (format!("litefoot_bfs('{graph}')"), "start is missing"),
        (format!("litefoot_bfs('{graph}', 2)"), "there is no node 2"),
        (format!("litefoot_bfs('{graph}', -1)"), "numbered from 0"),
        (format!("litefoot_bfs('{graph}', 'a')"), "must be an integer"),
        ("litefoot_neighbors(1, 1)".to_owned(), "must be a text"),
        ("litefoot_neighbors('nowhere.graph', 1)".to_owned(), "nowhere.graph: no such file"),
        (format!("litefoot_neighbors('{}', 1)", app.display()), "is not a page file"),
        (format!("litefoot_neighbors('{graph}', 1, 2)"), "too many arguments"),
    ] {
        let error = fixture.error(&format!("SELECT * FROM {call}"));
        assert!(error.contains(words), "{call}: {error}");
    }
    // A schema that came from elsewhere must not read files.
    let view = format!("CREATE VIEW v AS SELECT * FROM litefoot_bfs('{graph}', 0)");
    fixture.db.execute_batch(&view).unwrap();
    let error = fixture.error("SELECT * FROM v");
    assert!(error.contains("unsafe use of virtual table"), "{error}");
}

/// A connection has the functions only after `register`.
#[test]
fn other_connections_do_not_have_the_functions() {
    let fixture = Fixture::new();
    let other = Connection::open(fixture.directory.path().join("app.db")).unwrap();
    for function in ["litefoot_bfs", "litefoot_neighbors"] {
        let error = other.prepare(&format!("SELECT * FROM {function}('g', 0)")).map(drop).unwrap_err();
        assert!(error.to_string().contains("no such table"), "{error}");
    }
}
