//! Graph search in SQL, for the connections that ask for it.
//!
//! | function | rows |
//! |---|---|
//! | `litefoot_bfs(graph, start)` | `node`, `depth`: the nodes that can be reached, level by level |
//! | `litefoot_neighbors(graph, node)` | `neighbor`, `place`: where the edges of a node lead, in the order of the text |
//!
//! `graph` is the path of a page file that `litefoot graph load` has made. The functions cannot be used in views,
//! triggers or other parts of a schema: a database that came from elsewhere must not read other files.
//!
//! ```
//! # fn main() -> Result<(), litefoot::Error> {
//! let db = litefoot::Connection::open("file:app.db?mode=memory")?;
//! litefoot::graph::register(&db)?;
//! let sql = "SELECT node FROM litefoot_bfs('roads.graph', 0)";
//! assert!(db.query_row(sql, [], |row| row.get::<_, i64>(0)).is_err(), "there is no such file");
//! # Ok(())
//! # }
//! ```

use litefoot_pagestore::ops::graph::{GRAPH_PAGE, Graph, Search};
use litefoot_pagestore::pagefile::{Options, PageFile};
use litefoot_pagestore::task::{Config, Workers};
use litefoot_storage::file::{FileId, Medium};
use litefoot_storage::io::{IoConfig, IoQueue};
use litefoot_storage::os::OsMedium;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConfig, VTabConnection, VTabCursor,
};
use rusqlite::{Error, ffi};
use std::borrow::Cow;
use std::ffi::{CStr, c_int};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of pages that a function keeps in memory for each graph.
const CACHE_BYTES: usize = 4 << 20;
/// Graphs that a connection keeps open for each function: a join calls it once for each row.
const MOST_OPEN: usize = 4;
/// Columns in front of the two parameters.
const RESULT_COLUMNS: c_int = 2;

/// Puts `litefoot_bfs` and `litefoot_neighbors` on one connection.
///
/// # Errors
/// When SQLite refuses the functions.
pub fn register(connection: &rusqlite::Connection) -> rusqlite::Result<()> {
    const BFS: Module<'_, Table<Bfs>> = Module::eponymous_only_module();
    const NEIGHBORS: Module<'_, Table<Neighbors>> = Module::eponymous_only_module();
    connection.create_module(Bfs::NAME, &BFS, None)?;
    connection.create_module(Neighbors::NAME, &NEIGHBORS, None)
}

/// The graphs that a function has open, the one used last in front.
#[derive(Default)]
struct OpenGraphs {
    /// Started when the first graph is opened.
    io: Option<Arc<IoQueue>>,
    files: Vec<(PathBuf, FileId, Arc<PageFile>)>,
}

impl OpenGraphs {
    /// The graph at a path; opened again when another file has taken its place.
    fn get(&mut self, path: &str) -> Result<Arc<PageFile>, String> {
        let path = Path::new(path);
        let info = OsMedium.info(path).map_err(text)?;
        let id = info.ok_or_else(|| format!("{}: no such file", path.display()))?.id;
        let place = match self.files.iter().position(|(known, of, _)| known == path && *of == id) {
            Some(place) => place,
            None => {
                let file = Arc::new(self.open(path)?);
                self.files.retain(|(known, _, _)| known != path);
                self.files.truncate(MOST_OPEN - 1);
                self.files.push((path.to_owned(), id, file));
                self.files.len() - 1
            }
        };
        self.files[..=place].rotate_right(1);
        Ok(self.files[0].2.clone())
    }

    fn open(&mut self, path: &Path) -> Result<PageFile, String> {
        let io = match &self.io {
            Some(io) => io.clone(),
            None => {
                let io = Arc::new(IoQueue::start(&IoConfig::default()).map_err(text)?);
                self.io.insert(io).clone()
            }
        };
        let options = Options { cache_bytes: CACHE_BYTES, ..Options::default() };
        PageFile::open(&OsMedium, path, io, &options).map_err(text)
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A row of either function.
type Row = (u64, u64);
/// The rows of one call, made as SQLite asks for them.
type Rows = Box<dyn FnMut() -> Result<Option<Row>, String>>;

/// A function of a graph and a node.
trait GraphFunction: Default {
    const NAME: &'static CStr;
    const SCHEMA: &'static CStr;
    /// The parameters' names, for messages.
    const PARAMETERS: [&'static str; 2];

    fn call(&mut self, path: String, node: u64) -> Result<Rows, String>;
}

/// `litefoot_bfs(graph, start)`.
#[derive(Default)]
struct Bfs {
    open: OpenGraphs,
    /// Started by the first search.
    workers: Option<Arc<Workers>>,
}

impl GraphFunction for Bfs {
    const NAME: &'static CStr = c"litefoot_bfs";
    const SCHEMA: &'static CStr = c"CREATE TABLE x(node INTEGER, depth INTEGER, graph HIDDEN, start HIDDEN)";
    const PARAMETERS: [&'static str; 2] = ["graph", "start"];

    fn call(&mut self, path: String, start: u64) -> Result<Rows, String> {
        let file = self.open.get(&path)?;
        let workers = match &self.workers {
            Some(workers) => workers.clone(),
            None => self.workers.insert(Arc::new(Workers::start(Config::default()).map_err(text)?)).clone(),
        };
        let named = move |error: litefoot_pagestore::ops::Error| format!("{path}: {error}");
        let graph = Graph::open(&*file, GRAPH_PAGE).map_err(&named)?;
        let mut search = Search::from(&graph, start).map_err(&named)?;
        let (mut level, mut depth): (std::vec::IntoIter<u64>, u64) = Default::default();
        Ok(Box::new(move || {
            loop {
                if let Some(node) = level.next() {
                    return Ok(Some((node, depth)));
                }
                let graph = Graph::open(&*file, GRAPH_PAGE).map_err(&named)?;
                let Some(next) = search.next_level(&workers, &graph).map_err(&named)? else {
                    return Ok(None);
                };
                depth = next.depth;
                let nodes = next.nodes.to_vec();
                level = nodes.into_iter();
            }
        }))
    }
}

/// `litefoot_neighbors(graph, node)`.
#[derive(Default)]
struct Neighbors {
    open: OpenGraphs,
}

impl GraphFunction for Neighbors {
    const NAME: &'static CStr = c"litefoot_neighbors";
    const SCHEMA: &'static CStr =
        c"CREATE TABLE x(neighbor INTEGER, place INTEGER, graph HIDDEN, node HIDDEN)";
    const PARAMETERS: [&'static str; 2] = ["graph", "node"];

    fn call(&mut self, path: String, node: u64) -> Result<Rows, String> {
        let file = self.open.get(&path)?;
        let neighbors = Graph::open(&*file, GRAPH_PAGE).and_then(|graph| graph.neighbors(node));
        let mut neighbors = neighbors.map_err(|error| format!("{path}: {error}"))?.into_iter().zip(0..);
        Ok(Box::new(move || Ok(neighbors.next())))
    }
}

/// The two arguments of a call; `None` where one is NULL, as SQLite's own functions take it.
fn arguments(graph: ValueRef<'_>, node: ValueRef<'_>, what: &str) -> Result<Option<(String, u64)>, String> {
    match (graph, node) {
        (ValueRef::Null, _) | (_, ValueRef::Null) => Ok(None),
        (ValueRef::Text(graph), ValueRef::Integer(node)) => match u64::try_from(node) {
            Ok(node) => Ok(Some((String::from_utf8_lossy(graph).into_owned(), node))),
            Err(_) => Err(format!("{what} is {node}; nodes are numbered from 0")),
        },
        (ValueRef::Text(_), _) => Err(format!("{what} must be an integer")),
        _ => Err("graph must be a text: the path of a file made by `litefoot graph load`".to_owned()),
    }
}

/// Runs a call that SQLite has made: a panic must not unwind through SQLite.
fn guarded<T>(call: impl FnOnce() -> Result<T, String>) -> rusqlite::Result<T> {
    let result = catch_unwind(AssertUnwindSafe(call));
    result.unwrap_or_else(|_| Err("internal error (please report it)".to_owned())).map_err(Error::ModuleError)
}

/// SQLite's integers are signed.
fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A function as SQLite's virtual table.
#[repr(C)]
struct Table<F> {
    /// The part that SQLite knows; it must be the first field.
    base: ffi::sqlite3_vtab,
    /// Several cursors of one statement call it in turns.
    function: Arc<Mutex<F>>,
}

// SAFETY: the struct has C's layout, with SQLite's in front.
unsafe impl<'vtab, F: GraphFunction + 'vtab> VTab<'vtab> for Table<F> {
    type Aux = ();
    type Cursor = Cursor<'vtab, F>;

    fn connect(
        db: &mut VTabConnection,
        _aux: Option<&()>,
        _module_name: &[u8],
        _database_name: &[u8],
        _table_name: &[u8],
        _args: &[&[u8]],
    ) -> rusqlite::Result<(Cow<'static, CStr>, Self)> {
        db.config(VTabConfig::DirectOnly)?;
        let table = Table { base: ffi::sqlite3_vtab::default(), function: Arc::default() };
        Ok((Cow::Borrowed(F::SCHEMA), table))
    }

    fn best_index(&self, info: &mut IndexInfo) -> rusqlite::Result<bool> {
        let mut places: [Option<usize>; 2] = [None; 2];
        let mut given = [false; 2];
        for (index, constraint) in info.constraints().enumerate() {
            let parameter = match constraint.column() - RESULT_COLUMNS {
                0 => 0,
                1 => 1,
                _ => continue,
            };
            if constraint.operator() == IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ {
                given[parameter] = true;
                if constraint.is_usable() {
                    places[parameter] = Some(index);
                }
            }
        }
        if let Some(missing) = given.iter().position(|given| !given) {
            return Err(Error::ModuleError(format!("{} is missing", F::PARAMETERS[missing])));
        }
        let [Some(graph), Some(node)] = places else { return Ok(false) };
        for (place, argument) in [(graph, 1), (node, 2)] {
            let mut usage = info.constraint_usage(place);
            usage.set_argv_index(argument);
            usage.set_omit(true);
        }
        info.set_estimated_cost(1.0);
        Ok(true)
    }

    fn open(&'vtab mut self) -> rusqlite::Result<Cursor<'vtab, F>> {
        Ok(Cursor {
            base: ffi::sqlite3_vtab_cursor::default(),
            function: self.function.clone(),
            arguments: (String::new(), 0),
            rows: None,
            row: None,
            number: 0,
            table: PhantomData,
        })
    }
}

/// One call of a function.
#[repr(C)]
struct Cursor<'vtab, F> {
    /// The part that SQLite knows; it must be the first field.
    base: ffi::sqlite3_vtab_cursor,
    function: Arc<Mutex<F>>,
    /// SQLite reads them back as the hidden columns.
    arguments: (String, u64),
    rows: Option<Rows>,
    row: Option<Row>,
    number: i64,
    table: PhantomData<&'vtab Table<F>>,
}

// SAFETY: the struct has C's layout, with SQLite's in front.
unsafe impl<F: GraphFunction> VTabCursor for Cursor<'_, F> {
    fn filter(&mut self, _: c_int, _: Option<&str>, args: &Filters<'_>) -> rusqlite::Result<()> {
        (self.rows, self.row, self.number) = (None, None, 0);
        let mut values = args.iter();
        let (Some(graph), Some(node)) = (values.next(), values.next()) else { return Ok(()) };
        guarded(|| {
            let Some((path, node)) = arguments(graph, node, F::PARAMETERS[1])? else { return Ok(()) };
            self.arguments = (path.clone(), node);
            let mut function = self.function.lock().unwrap_or_else(PoisonError::into_inner);
            self.rows = Some(function.call(path, node)?);
            Ok(())
        })?;
        self.next()
    }

    fn next(&mut self) -> rusqlite::Result<()> {
        self.row = match &mut self.rows {
            Some(rows) => guarded(rows)?,
            None => None,
        };
        self.number += 1;
        Ok(())
    }

    fn eof(&self) -> bool {
        self.row.is_none()
    }

    fn column(&self, context: &mut Context, column: c_int) -> rusqlite::Result<()> {
        let Some((first, second)) = self.row else { return Ok(()) };
        let (path, node) = &self.arguments;
        match column {
            0 => context.set_result(integer(first)),
            1 => context.set_result(integer(second)),
            2 => context.set_result(ToSqlOutput::Borrowed(ValueRef::Text(path.as_bytes()))),
            _ => context.set_result(integer(*node)),
        }
    }

    fn rowid(&self) -> rusqlite::Result<i64> {
        Ok(self.number)
    }
}
