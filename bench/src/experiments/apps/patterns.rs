//! The patterns, and the settings in which each runs.

use crate::{Error, Result};

/// What runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// `python3`, whose SQLite is a library of its own: litefoot is preloaded.
    Python,
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
    /// The modules beyond the language's own that it imports.
    pub modules: &'static [&'static str],
    /// It makes one commit where others make so many: each takes so much longer.
    pub slower: u64,
}

const PLAIN: Pattern = Pattern {
    name: "",
    about: "",
    runtime: Runtime::Python,
    program: "plain.py",
    modules: &["sqlite3"],
    slower: 1,
};

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
        slower: 4,
        ..PLAIN
    },
];

/// A journal mode, and how durable a commit is.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    pub name: &'static str,
    pub journal: &'static str,
    pub synchronous: &'static str,
}

/// All of them.
pub const MODES: [Mode; 3] = [
    Mode { name: "wal_full", journal: "wal", synchronous: "full" },
    Mode { name: "wal_normal", journal: "wal", synchronous: "normal" },
    Mode { name: "delete_full", journal: "delete", synchronous: "full" },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_chosen_by_name_and_run_in_their_order() {
        let names = |list| chosen(list).unwrap().iter().map(|pattern| pattern.name).collect::<Vec<_>>();
        assert_eq!(names(None).len(), ALL.len());
        assert_eq!(names(Some("python_kept")), ["python_kept"]);
        assert_eq!(
            names(Some("python_per_connection,python_kept,python_kept")),
            ["python_kept", "python_per_connection"]
        );
        for wrong in ["", "python", "python_kept,", "python_kept, python_per_connection"] {
            let said = chosen(Some(wrong)).unwrap_err().to_string();
            assert!(said.contains("there is no pattern") && said.contains("python_kept"), "{said}");
        }
    }

    #[test]
    fn names_differ_and_can_stand_in_figures() {
        for (index, pattern) in ALL.iter().enumerate() {
            assert!(pattern.name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_')));
            assert!(ALL[..index].iter().all(|other| other.name != pattern.name), "{}", pattern.name);
            assert!(!pattern.about.is_empty() && pattern.slower > 0, "{}", pattern.name);
        }
    }
}
