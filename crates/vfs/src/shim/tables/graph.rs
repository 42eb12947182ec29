//! `litefoot_bfs` and `litefoot_neighbors`.

use crate::shim::table_function::{Cell, Row, Rows, TableFunction};
use litefoot_engine::device::{FileId, Medium, OsMedium};
use litefoot_engine::ops::graph::{GRAPH_PAGE, Graph, Search};
use litefoot_engine::pagefile::{Options, PageFile};
use litefoot_engine::task::io::{IoConfig, IoQueue};
use litefoot_engine::task::{Config, Workers};
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of pages that a function keeps in memory for each graph.
const CACHE_BYTES: usize = 4 << 20;
/// Graphs that a connection keeps open for each function: a join calls it once for each row.
const MOST_OPEN: usize = 4;

/// Graphs that are open, the one used last in front.
#[derive(Default)]
struct Opened {
    /// Started when the first graph is opened.
    io: Option<Arc<IoQueue>>,
    files: Vec<(PathBuf, FileId, Arc<PageFile>)>,
}

impl Opened {
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

/// The two arguments of both functions.
fn graph_and_node(arguments: &[Cell], what: &str) -> Result<Option<(String, u64)>, String> {
    match arguments {
        // As SQLite's own functions: nothing is known of nothing.
        [Cell::Null, _] | [_, Cell::Null] => Ok(None),
        [Cell::Text(graph), Cell::Integer(node)] => match u64::try_from(*node) {
            Ok(node) => Ok(Some((graph.clone(), node))),
            Err(_) => Err(format!("{what} is {node}; nodes are numbered from 0")),
        },
        [Cell::Text(_), _] => Err(format!("{what} must be an integer")),
        _ => Err("graph must be a text: the path of a file made by `litefoot graph load`".to_owned()),
    }
}

fn nothing() -> Rows {
    Box::new(|| Ok(None))
}

/// SQLite's integers are signed.
fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// `litefoot_bfs(graph, start)`: the nodes that can be reached from `start`, with their depths.
#[derive(Default)]
pub(crate) struct Bfs {
    opened: Opened,
    /// Started by the first search.
    workers: Option<Arc<Workers>>,
}

impl TableFunction for Bfs {
    const NAME: &'static CStr = c"litefoot_bfs";
    const COLUMNS: &'static [&'static str] = &["node INTEGER", "depth INTEGER"];
    const PARAMETERS: &'static [&'static str] = &["graph", "start"];

    fn call(&mut self, arguments: &[Cell]) -> Result<Rows, String> {
        let Some((path, start)) = graph_and_node(arguments, "start")? else { return Ok(nothing()) };
        let file = self.opened.get(&path)?;
        let workers = match &self.workers {
            Some(workers) => workers.clone(),
            None => self.workers.insert(Arc::new(Workers::start(Config::default()).map_err(text)?)).clone(),
        };
        let named = move |error: litefoot_engine::ops::Error| format!("{path}: {error}");
        let graph = Graph::open(&*file, GRAPH_PAGE).map_err(&named)?;
        let mut search = Search::from(&graph, start).map_err(&named)?;
        let (mut level, mut depth): (std::vec::IntoIter<u64>, u64) = Default::default();
        Ok(Box::new(move || {
            loop {
                if let Some(node) = level.next() {
                    return Ok(Some([Cell::Integer(integer(node)), Cell::Integer(integer(depth))]));
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

/// `litefoot_neighbors(graph, node)`: where the edges of a node lead.
#[derive(Default)]
pub(crate) struct Neighbors {
    opened: Opened,
}

impl TableFunction for Neighbors {
    const NAME: &'static CStr = c"litefoot_neighbors";
    const COLUMNS: &'static [&'static str] = &["neighbor INTEGER", "place INTEGER"];
    const PARAMETERS: &'static [&'static str] = &["graph", "node"];

    fn call(&mut self, arguments: &[Cell]) -> Result<Rows, String> {
        let Some((path, node)) = graph_and_node(arguments, "node")? else { return Ok(nothing()) };
        let file = self.opened.get(&path)?;
        let neighbors = Graph::open(&*file, GRAPH_PAGE).and_then(|graph| graph.neighbors(node));
        let mut neighbors = neighbors.map_err(|error| format!("{path}: {error}"))?.into_iter().zip(0..);
        Ok(Box::new(move || {
            let next = neighbors.next();
            Ok(next.map(|(neighbor, place): (u64, i64)| -> Row {
                [Cell::Integer(integer(neighbor)), Cell::Integer(place)]
            }))
        }))
    }
}
