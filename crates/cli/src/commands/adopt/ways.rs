//! How a database is opened through litefoot, in the language of the application.

use litefoot_terminal::installed;
use std::path::{Path, PathBuf};

/// Characters of a name that mean nothing to a shell.
const PLAIN: &[u8] = b"/._-+=:@%,";

/// A line for each way, with this database and the library of this installation in it.
pub fn lines(database: &Path) -> Vec<String> {
    let path = std::path::absolute(database).unwrap_or_else(|_| database.to_owned());
    let path = path.to_string_lossy();
    let uri = format!("file:{}?vfs=litefoot", uri_path(&path));
    // SQLite finds the file with its ending.
    let library = installed::library().unwrap_or_else(|_| PathBuf::from("./liblitefoot.so"));
    let library = library.with_extension("").to_string_lossy().into_owned();
    let ways = [
        ("any program", "litefoot run -- PROGRAM ARGS…, and nothing else".to_owned()),
        ("a shell", format!("litefoot sql {}", quoted(&path))),
        ("Python", format!("litefoot.connect({path:?})")),
        ("Rust", format!("litefoot::Connection::open({path:?})")),
        ("Node", "new Database(\":memory:\").loadExtension(LIBRARY, \"sqlite3_litefootdefault_init\"), then as always".to_owned()),
        ("Go", "SQLiteDriver{Extensions: []string{LIBRARY}}, ping :memory: once, then open URI".to_owned()),
        ("C, others", "load the extension LIBRARY, then open URI".to_owned()),
        ("", format!("LIBRARY  {library}")),
        ("", format!("URI      {uri}")),
    ];
    ways.into_iter().map(|(from, how)| format!("{from:<12} {how}")).collect()
}

/// A path as SQLite reads it in a URI.
fn uri_path(path: &str) -> String {
    path.replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}

/// A word as a shell reads it.
pub fn quoted(word: &str) -> String {
    if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || PLAIN.contains(&byte)) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::path_of;

    #[test]
    fn names_survive_shells_and_uris() {
        for (word, shell) in
            [("app.db", "app.db"), ("my app.db", "'my app.db'"), ("it's", "'it'\\''s'"), ("", "''")]
        {
            assert_eq!(quoted(word), shell);
        }
        for path in ["/a b.db", "/50%.db", "/what?.db", "/#1.db"] {
            assert_eq!(path_of(&format!("file:{}?vfs=litefoot", uri_path(path))), Path::new(path));
        }
    }
}
