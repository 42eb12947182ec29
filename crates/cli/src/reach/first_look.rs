//! The one line that `litefoot run` says about a program that it does not reach.
//!
//! It reads the headers of the program's file and, where the file is small, its data. A larger program without a SQLite that can be
//! seen from its headers gets no line: `litefoot doctor` takes the time.

use super::elf::{Binding, Depth, GoSqlite, Image};
use super::obstacle::Obstacle;
use super::program::Program;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Longest file that is read whole. An SD card reads it in 0.1 s, and the program reads most of it anyway.
const MOST_BYTES: u64 = 4 << 20;

/// The line for a command line, where something of it is certainly not reached.
pub fn line(word: &OsStr, arguments: &[OsString], library: &Path) -> Option<String> {
    let program = Program::find(word, arguments)?;
    let length = std::fs::metadata(&program.image).ok()?.len();
    let depth = if length <= MOST_BYTES { Depth::Whole } else { Depth::Headers };
    let image = Image::read(&program.image, depth).ok().flatten();
    let library = Image::read(library, Depth::Headers).ok().flatten();
    let shown = if program.is_script() { program.image.display().to_string() } else { program.name() };
    let says = sentence(image.as_ref(), Obstacle::of(&program, image.as_ref(), library.as_ref()))?;
    Some(format!("{shown} {says}; see litefoot doctor -- {}", program.name()))
}

/// What is certain, behind the name of the program.
fn sentence(image: Option<&Image>, obstacle: Option<Obstacle>) -> Option<String> {
    let inside = image.and_then(|image| {
        let go =
            image.go.iter().find(|(module, _)| *module != GoSqlite::Mattn || !image.needs("libsqlite3.so"));
        let is_closed = image.sqlite.as_ref().is_some_and(|inside| inside.binding != Binding::Open);
        match go {
            Some((module, _)) => {
                Some(format!("carries {}, which preloading does not reach", module.module()))
            }
            None => is_closed
                .then(|| "has a SQLite of its own inside, which preloading does not reach".to_owned()),
        }
    });
    inside.or_else(|| obstacle.map(|obstacle| obstacle.says().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::elf::Inside;
    use super::*;

    #[test]
    fn only_what_is_certain_is_said() {
        let image = |needed: &[&str], go: &[GoSqlite], binding: Option<Binding>| Image {
            is_program: true,
            loader: Some("/lib64/ld-linux-x86-64.so.2".to_owned()),
            needed: needed.iter().map(|name| (*name).to_owned()).collect(),
            go: go.iter().map(|module| (*module, "v1".to_owned())).collect(),
            sqlite: binding.map(|binding| Inside { version: None, source_day: None, binding }),
            ..Image::default()
        };
        let dynamic = ["libsqlite3.so.0", "libc.so.6"];
        for (image, obstacle, expected) in [
            (image(&dynamic, &[], None), None, None),
            (image(&dynamic, &[], None), Some(Obstacle::Static), Some("linked statically")),
            (image(&[], &[], None), None, None),
            (image(&[], &[], Some(Binding::Open)), None, None),
            (image(&[], &[], Some(Binding::Fixed)), None, Some("of its own inside")),
            (image(&[], &[], Some(Binding::Hidden)), Some(Obstacle::Static), Some("of its own inside")),
            (image(&[], &[GoSqlite::Mattn], None), None, Some("mattn/go-sqlite3")),
            // Built with -tags libsqlite3.
            (image(&dynamic, &[GoSqlite::Mattn], None), None, None),
            (image(&dynamic, &[GoSqlite::Mattn, GoSqlite::Modernc], None), None, Some("modernc.org/sqlite")),
        ] {
            let said = sentence(Some(&image), obstacle);
            assert_eq!(said.is_some(), expected.is_some(), "{image:?}: {said:?}");
            assert!(said.unwrap_or_default().contains(expected.unwrap_or_default()), "{image:?}");
        }
        assert_eq!(sentence(None, None), None);
    }
}
