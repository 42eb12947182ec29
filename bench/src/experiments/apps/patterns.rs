//! The patterns, and the settings in which each runs.

use crate::{Error, Result};

/// What runs a program, and how its SQLite is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// `python3` with these modules. SQLite is a library of its own: litefoot is preloaded.
    Python(&'static [&'static str]),
    /// Node.js with this package, which has an SQLite inside: litefoot is an extension.
    Node(&'static str),
    /// A program in Go, built by `--install`, with an SQLite inside: litefoot is an extension.
    Go,
    /// Python's, which runs `svn`: litefoot is preloaded.
    Subversion,
}

/// What an application does with its database.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// Its name in figures, and that of the program's subcommand.
    pub name: &'static str,
    /// A description of a few words.
    pub about: &'static str,
    pub runtime: Runtime,
    /// The program's file.
    pub program: &'static str,
    pub modes: &'static [Mode],
    pub length: Length,
    /// True if the program's own connection can be asked for litefoot's figures.
    pub answers: bool,
}

/// How many commits a run makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// What the experiment says, over this: a commit takes so much longer than others.
    Over(u64),
    /// So many, none to warm up; in the short form one.
    Always(u64),
}

/// A journal mode, and how durable a commit is.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    pub name: &'static str,
    pub journal: &'static str,
    pub synchronous: &'static str,
}

const MODES: &[Mode] = &[
    Mode { name: "wal_full", journal: "wal", synchronous: "full" },
    Mode { name: "wal_normal", journal: "wal", synchronous: "normal" },
    Mode { name: "delete_full", journal: "delete", synchronous: "full" },
];

/// Of a program that chooses itself.
const OWN: &[Mode] = &[Mode { name: "own", journal: "truncate", synchronous: "off" }];

const PLAIN: Pattern = Pattern {
    name: "",
    about: "",
    runtime: Runtime::Python(&["sqlite3"]),
    program: "plain.py",
    modes: MODES,
    length: Length::Over(1),
    answers: true,
};

const DJANGO: Pattern =
    Pattern { runtime: Runtime::Python(&["django", "sqlite3"]), program: "django_orders.py", ..PLAIN };

/// All patterns, in the order of the table.
pub const ALL: &[Pattern] = &[
    Pattern {
        name: "python_kept",
        about: "one row, one index; Python's sqlite3, a kept connection",
        ..PLAIN
    },
    Pattern {
        name: "python_per_connection",
        about: "the same, a connection for each commit",
        length: Length::Over(4),
        ..PLAIN
    },
    Pattern {
        name: "django_kept",
        about: "an order (AUTOINCREMENT, RETURNING, two indexes), then a session's update; a kept connection",
        ..DJANGO
    },
    Pattern {
        name: "django_per_request",
        about: "the same, a connection for each request: for two commits",
        length: Length::Over(4),
        ..DJANGO
    },
    Pattern {
        name: "sqlalchemy",
        about: "an order and its two items, by the ORM",
        runtime: Runtime::Python(&["sqlalchemy", "sqlite3"]),
        program: "orm.py",
        ..PLAIN
    },
    Pattern {
        name: "peewee",
        about: "an order and its two items, by the ORM",
        runtime: Runtime::Python(&["peewee", "sqlite3"]),
        program: "orm.py",
        ..PLAIN
    },
    Pattern {
        name: "better_sqlite3",
        about: "an order and its customer's balance; Node's better-sqlite3",
        runtime: Runtime::Node("better-sqlite3"),
        program: "better.js",
        ..PLAIN
    },
    Pattern {
        name: "node_sqlite3",
        about: "a message (AUTOINCREMENT, one index); npm's sqlite3",
        runtime: Runtime::Node("sqlite3"),
        program: "callbacks.js",
        ..PLAIN
    },
    Pattern {
        name: "mattn_go",
        about: "an entry (AUTOINCREMENT, CURRENT_TIMESTAMP, one index) and two balances; Go's mattn/go-sqlite3",
        runtime: Runtime::Go,
        program: "",
        ..PLAIN
    },
    Pattern {
        name: "rails",
        about: "Active Record's SQL: an order with RETURNING and its counter cache",
        ..PLAIN
    },
    Pattern { name: "recorder", about: "Home Assistant's recorder: five rows, five indexes", ..PLAIN },
    Pattern { name: "fts5", about: "a document of twenty words, by FTS5", ..PLAIN },
    Pattern { name: "json", about: "a JSON document of 1.5 KB replaced by another", ..PLAIN },
    Pattern { name: "queue", about: "a job comes, then the oldest is removed", ..PLAIN },
    Pattern { name: "ten_rows", about: "ten rows, and their places all over an index", ..PLAIN },
    Pattern {
        name: "svn",
        about: "Subversion: commits of 300 files, as the working copy's database sees them",
        runtime: Runtime::Subversion,
        program: "svn.py",
        modes: OWN,
        length: Length::Always(7),
        answers: false,
    },
];

/// The patterns of a list of names, `a,b`; all of them where there is no list.
///
/// # Errors
/// [`Error::Unknown`] for a name that there is not.
pub fn chosen(names: Option<&str>) -> Result<Vec<&'static Pattern>> {
    let Some(names) = names else { return Ok(ALL.iter().collect()) };
    for name in names.split(',') {
        if !ALL.iter().any(|pattern| pattern.name == name) {
            let known: Vec<&str> = ALL.iter().map(|pattern| pattern.name).collect();
            return Err(Error::Unknown { what: "pattern", name: name.to_owned(), known: known.join(", ") });
        }
    }
    Ok(ALL.iter().filter(|pattern| names.split(',').any(|name| name == pattern.name)).collect())
}

/// One commit in so many warms up.
const WARM_UP: u64 = 10;
/// Fewer say nothing: of the patterns that are slower, some connections are asked only.
const FEWEST_COMMITS: u64 = 20;

impl Length {
    /// Commits of a run, and those before that warm up.
    pub fn commits(self, usual: u64, quick: bool) -> [u64; 2] {
        match self {
            Length::Over(slower) => {
                let commits = (usual / slower).max(FEWEST_COMMITS);
                [commits, commits / WARM_UP]
            }
            Length::Always(commits) => [if quick { 1 } else { commits }, 0],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_chosen_by_name_and_run_in_their_order() {
        let names = |list| chosen(list).unwrap().iter().map(|pattern| pattern.name).collect::<Vec<_>>();
        assert_eq!(names(None).len(), ALL.len());
        assert_eq!(names(Some("python_kept")), ["python_kept"]);
        assert_eq!(names(Some("queue,python_kept,python_kept")), ["python_kept", "queue"]);
        for wrong in ["", "python", "python_kept,", "python_kept, queue"] {
            let said = chosen(Some(wrong)).unwrap_err().to_string();
            assert!(said.contains("there is no pattern") && said.contains("python_kept"), "{said}");
        }
    }

    #[test]
    fn names_differ_and_can_stand_in_figures() {
        for (index, pattern) in ALL.iter().enumerate() {
            assert!(pattern.name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_')));
            assert!(ALL[..index].iter().all(|other| other.name != pattern.name), "{}", pattern.name);
            assert!(!pattern.about.is_empty() && !pattern.modes.is_empty(), "{}", pattern.name);
        }
    }

    #[test]
    fn a_slower_pattern_makes_fewer_commits() {
        for (length, usual, quick, commits) in [
            (Length::Over(1), 2000, false, [2000, 200]),
            (Length::Over(4), 2000, true, [500, 50]),
            (Length::Over(4), 10, false, [20, 2]),
            (Length::Always(7), 2000, false, [7, 0]),
            (Length::Always(7), 2000, true, [1, 0]),
        ] {
            assert_eq!(length.commits(usual, quick), commits, "{length:?} {usual}");
        }
    }
}
