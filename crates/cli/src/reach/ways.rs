//! The way in for each kind of carrier.

use super::carriers::{Carrier, Kind};
use super::elf::GoSqlite;

/// A way for files of these names. `LIBRARY` stands for the path of litefoot's library, without its ending.
struct ByName {
    /// A part of the names of the file and of its folder; of a runtime, its name.
    part: &'static str,
    way: &'static str,
}

/// Carriers that hide their SQLite, and let their users load extensions.
const HIDDEN: &[ByName] = &[
    ByName {
        part: "better_sqlite3",
        way: "first of all: new Database(\":memory:\").loadExtension(\"LIBRARY\", \"sqlite3_litefootdefault_init\"); then as always",
    },
    ByName { part: "libsqlitejdbc", way: JDBC },
    ByName {
        part: "e_sqlite3",
        way: "first of all, on a :memory: connection: LoadExtension(\"LIBRARY\", \"sqlite3_litefootdefault_init\"); then as always",
    },
    ByName {
        part: "apsw",
        way: "first of all: apsw.Connection(\":memory:\"), enable_load_extension(True), load_extension(\"LIBRARY\", \
              \"sqlite3_litefootdefault_init\"); then as always",
    },
    ByName {
        part: "cipher",
        way: "none: it encrypts pages by a SQLite of its own, and litefoot is not tried with it",
    },
    ByName {
        part: "libsql",
        way: "none: libSQL is another database engine, and litefoot is not tried with it",
    },
];

/// Programs that have it inside for their scripts, by their whole name.
const RUNTIMES: &[ByName] = &[
    ByName {
        part: "node",
        way: "node:sqlite: new DatabaseSync(\":memory:\", { allowExtension: true }).loadExtension(\"LIBRARY\"), then open \
              \"file:app.db?vfs=litefoot\"",
    },
    ByName {
        part: "bun",
        way: "first of all: new Database(\":memory:\").loadExtension(\"LIBRARY\", \"sqlite3_litefootdefault_init\"); then as always",
    },
];

const JDBC: &str = "first of all, on a jdbc:sqlite::memory: connection with enable_load_extension=true: SELECT \
                    load_extension('LIBRARY', 'sqlite3_litefootdefault_init'); then as always";
const ANY: &str = "let it load LIBRARY as an extension (sqlite3_load_extension) on a :memory: connection first, or build it with the \
                   system's SQLite";

/// The way in. `python_loads_extensions` is known where a Python carries it.
pub fn way(carrier: &Carrier, python_loads_extensions: Option<bool>, library: &str) -> String {
    let name = carrier.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let folder =
        carrier.file.parent().and_then(|folder| folder.file_name()).unwrap_or_default().to_string_lossy();
    let tail = format!("{folder}/{name}");
    let is_python =
        name.starts_with("python") || name.starts_with("libpython") || name.starts_with("_sqlite3");
    let way = match carrier.kind {
        Kind::Open => "litefoot run -- PROGRAM",
        Kind::TooOld => "none: litefoot serves SQLite from 3.40 on; install a newer one",
        Kind::Java => JDBC,
        Kind::Go(GoSqlite::Mattn) => {
            "build with -tags libsqlite3, then litefoot run; or SQLiteDriver{Extensions: []string{\"LIBRARY\"}}, and open \
             file:app.db?vfs=litefoot"
        }
        Kind::Go(GoSqlite::Modernc) => {
            "none: it is SQLite translated into Go. Some programs can be built with github.com/mattn/go-sqlite3 instead"
        }
        Kind::Go(GoSqlite::Ncruces) => "none: it is SQLite as WebAssembly, in a memory of its own",
        Kind::Fixed | Kind::Hidden => match (is_python, python_loads_extensions) {
            (true, Some(false)) => {
                "none: this Python can neither be preloaded nor load extensions; take another, such as the system's"
            }
            (true, _) => "import litefoot; litefoot.connect(\"app.db\"), from the Python package",
            (false, _) => {
                let runtime = RUNTIMES.iter().find(|known| known.part == name);
                let known = runtime.or_else(|| HIDDEN.iter().find(|known| tail.contains(known.part)));
                known.map_or(ANY, |known| known.way)
            }
        },
    };
    way.replace("LIBRARY", library)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn each_carrier_has_a_way_that_fits() {
        for (file, kind, python, part) in [
            ("/usr/lib/libsqlite3.so.0", Kind::Open, None, "litefoot run"),
            ("/usr/lib/libsqlite3.so.0", Kind::TooOld, None, "3.40"),
            (
                "/a/node_modules/better-sqlite3/build/Release/better_sqlite3.node",
                Kind::Hidden,
                None,
                "loadExtension(\"/x/liblitefoot\"",
            ),
            ("/a/node_sqlite3.node", Kind::Open, None, "litefoot run"),
            ("/a/app.jar", Kind::Java, None, "load_extension('/x/liblitefoot'"),
            ("/a/python3.12", Kind::Hidden, Some(true), "litefoot.connect"),
            ("/a/python3.12", Kind::Fixed, Some(false), "neither"),
            ("/a/apsw/__init__.so", Kind::Hidden, Some(true), "apsw.Connection"),
            ("/a/node", Kind::Hidden, None, "node:sqlite"),
            ("/a/server", Kind::Go(GoSqlite::Mattn), None, "-tags libsqlite3"),
            ("/a/server", Kind::Go(GoSqlite::Modernc), None, "none"),
            ("/a/server", Kind::Hidden, None, "sqlite3_load_extension"),
        ] {
            let carrier = Carrier { file: PathBuf::from(file), kind, version: None, source_day: None };
            let way = way(&carrier, python, "/x/liblitefoot");
            assert!(way.contains(part) && !way.contains("LIBRARY"), "{file}: {way}");
        }
    }
}
