//! The facts of an ELF file: loader, libraries, and the SQLite inside.
//!
//! Headers, symbols and relocations are read by the crate `object`. A SQLite without symbols is known by two texts that every
//! build has in its data and no other program needs: the statement by which it makes its schema table, and the source id of its
//! release. The magic of database files does not do: programs that only look at databases have it as well.

use object::elf::{DF_1_PIE, DT_FLAGS_1, DT_NEEDED, DT_STRTAB};
use object::read::elf::{Dyn, ElfFile, FileHeader, ProgramHeader};
use object::read::{ReadCache, ReadRef};
use object::{
    Architecture, Endianness, Object, ObjectSection, ObjectSegment, ObjectSymbol, ObjectSymbolTable,
};
use object::{RelocationTarget, SymbolIndex};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// The function that preloading replaces.
const INITIALISER: &str = "sqlite3_os_init";
/// The library's entry point, by which it is known under any name.
const OURS: &str = "sqlite3_litefoot_init";
/// From the statement that every SQLite compiles before it reads a schema (`sqlite3InitOne`). The shell links to the library and has
/// the magic and the source id, but not this.
const SCHEMA_TABLE: &[u8] = b"rootpage int,sql text)\0";
/// Bytes that a search takes at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// Bytes of a chunk that are looked at again with the next one: more than any text that is searched for.
const OVERLAP_BYTES: usize = 128;
/// Most bytes of the list of modules of a Go program.
const MOST_GO_BYTES: u64 = 4 << 20;

/// How thoroughly a file is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Headers, and the list of modules of a Go program.
    Headers,
    /// Symbols and data, too.
    Whole,
}

/// A program or a library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The machine it is for.
    pub machine: Machine,
    /// The loader that it asks for; a program without one is static, and a library has none.
    pub loader: Option<String>,
    /// A program, and not a library.
    pub is_program: bool,
    /// The libraries that it is linked with, by name.
    pub needed: Vec<String>,
    /// Modules of a Go program that are SQLites, with their versions.
    pub go: Vec<(GoSqlite, String)>,
    /// The SQLite inside. Known only where the whole file was looked at.
    pub sqlite: Option<Inside>,
    /// It is litefoot's own library.
    pub is_litefoot: bool,
}

/// The machine that a file is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine(Option<Architecture>);

/// A SQLite inside a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The version, where the file tells it.
    pub version: Option<String>,
    /// The day of its source, `YYYY-MM-DD`.
    pub source_day: Option<String>,
    /// How its parts are tied together.
    pub binding: Binding,
}

/// How a SQLite inside a file calls `sqlite3_os_init`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Through the procedure linkage table: preloading replaces it.
    Open,
    /// Its functions can be seen, and it calls them directly.
    Fixed,
    /// Nothing of it can be seen.
    Hidden,
}

/// Packages of Go that are a SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoSqlite {
    /// C inside the program, or the system's library with the tag `libsqlite3`.
    Mattn,
    /// SQLite translated into Go.
    Modernc,
    /// SQLite as WebAssembly.
    Ncruces,
}

impl GoSqlite {
    const ALL: [GoSqlite; 3] = [GoSqlite::Mattn, GoSqlite::Modernc, GoSqlite::Ncruces];

    /// The path of the module.
    pub fn module(self) -> &'static str {
        match self {
            GoSqlite::Mattn => "github.com/mattn/go-sqlite3",
            GoSqlite::Modernc => "modernc.org/sqlite",
            GoSqlite::Ncruces => "github.com/ncruces/go-sqlite3",
        }
    }
}

impl Image {
    /// Looks at a file; `None` if it is no ELF file that can be understood.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn read(path: &Path, depth: Depth) -> io::Result<Option<Image>> {
        let mut file = File::open(path)?;
        let cache = ReadCache::new(&mut file);
        let Ok(parsed) = object::File::parse(&cache) else { return Ok(None) };
        let Some(mut image) = headers(&parsed) else { return Ok(None) };
        image.go = go_modules(&parsed);
        if depth == Depth::Whole {
            let symbols = Symbols::of(&parsed);
            image.is_litefoot = symbols.is_litefoot;
            let ranges: Vec<_> = parsed.segments().map(|segment| segment.file_range()).collect();
            drop(parsed);
            drop(cache);
            let marks = Marks::search(&mut file, &ranges)?;
            image.sqlite = inside(symbols, marks).filter(|_| !image.is_litefoot);
        }
        Ok(Some(image))
    }

    /// A program that no loader links: nothing can be preloaded.
    pub fn is_static(&self) -> bool {
        self.is_program && self.loader.is_none()
    }

    /// True where it is linked with a library of that name, such as `libsqlite3.so`, of any version.
    pub fn needs(&self, name: &str) -> bool {
        self.needed.iter().any(|needed| {
            needed.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    /// True where its C library is musl.
    pub fn is_musl(&self) -> bool {
        self.loader.as_ref().is_some_and(|loader| loader.contains("/ld-musl-"))
            || self.needed.iter().any(|name| name.starts_with("libc.musl-"))
    }
}

/// What symbols and relocations say.
#[derive(Debug, Default)]
struct Symbols {
    has_initialiser: bool,
    is_called_by_table: bool,
    is_litefoot: bool,
    version: Option<String>,
}

impl Symbols {
    fn of<'data, R: ReadRef<'data>>(file: &object::File<'data, R>) -> Symbols {
        let mut found = Symbols::default();
        let Some(table) = file.dynamic_symbol_table() else { return found };
        let mut initialiser: Option<SymbolIndex> = None;
        for symbol in table.symbols().filter(|symbol| !symbol.is_undefined()) {
            match symbol.name() {
                Ok(INITIALISER) => initialiser = Some(symbol.index()),
                Ok(OURS) => found.is_litefoot = true,
                Ok("sqlite3_version") => found.version = text_at(file, symbol.address()),
                _ => {}
            }
        }
        found.has_initialiser = initialiser.is_some();
        if let (Some(wanted), Some(relocations)) = (initialiser, file.dynamic_relocations()) {
            found.is_called_by_table = relocations
                .map(|(_, relocation)| relocation.target())
                .any(|target| target == RelocationTarget::Symbol(wanted));
        }
        found
    }
}

/// The text at an address: a version, or nothing that is one.
fn text_at<'data, R: ReadRef<'data>>(file: &object::File<'data, R>, address: u64) -> Option<String> {
    const MOST_BYTES: u64 = 16;
    let mut segments = file
        .segments()
        .filter(|segment| (segment.address()..segment.address() + segment.size()).contains(&address));
    let bytes = segments.find_map(|segment| {
        let left = segment.address() + segment.size() - address;
        segment.data_range(address, left.min(MOST_BYTES)).ok().flatten()
    })?;
    let end = bytes.iter().position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
        .then(|| text.to_owned())
}

/// What symbols and data say together.
fn inside(symbols: Symbols, marks: Marks) -> Option<Inside> {
    let binding = match (symbols.has_initialiser, symbols.is_called_by_table) {
        (true, true) => Binding::Open,
        (true, false) => Binding::Fixed,
        (false, _) if marks.schema_table && marks.source_day.is_some() => Binding::Hidden,
        (false, _) => return None,
    };
    Some(Inside { version: symbols.version, source_day: marks.source_day, binding })
}

/// Texts of SQLite in the data of a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Marks {
    schema_table: bool,
    source_day: Option<String>,
}

impl Marks {
    fn search(file: &mut File, ranges: &[(u64, u64)]) -> io::Result<Marks> {
        let mut marks = Marks::default();
        let mut buffer = Vec::with_capacity(CHUNK_BYTES + OVERLAP_BYTES);
        for (offset, bytes) in ranges {
            file.seek(SeekFrom::Start(*offset))?;
            let mut segment = file.take(*bytes);
            buffer.clear();
            loop {
                let kept = buffer.len();
                if segment.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut buffer)? == 0 {
                    break;
                }
                marks.look(&buffer);
                if marks.schema_table && marks.source_day.is_some() {
                    return Ok(marks);
                }
                debug_assert!(kept <= OVERLAP_BYTES);
                buffer.drain(..buffer.len().saturating_sub(OVERLAP_BYTES));
            }
        }
        Ok(marks)
    }

    fn look(&mut self, bytes: &[u8]) {
        self.schema_table = self.schema_table || memchr::memmem::find(bytes, SCHEMA_TABLE).is_some();
        if self.source_day.is_none() {
            self.source_day = memchr::memmem::find_iter(bytes, b"20").find_map(|at| source_day(&bytes[at..]));
        }
    }
}

/// The day in a source id, `YYYY-MM-DD HH:MM:SS` and a hash, at the beginning of these bytes.
fn source_day(bytes: &[u8]) -> Option<String> {
    const SHAPE: &[u8] = b"dddd-dd-dd dd:dd:dd hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh";
    let text = bytes.get(..SHAPE.len())?;
    let fits = text.iter().zip(SHAPE).all(|(byte, shape)| match shape {
        b'd' => byte.is_ascii_digit(),
        b'h' => byte.is_ascii_digit() || (b'a'..=b'f').contains(byte),
        exact => byte == exact,
    });
    fits.then(|| String::from_utf8_lossy(&text[..10]).into_owned())
}

fn headers<'data, R: ReadRef<'data>>(file: &object::File<'data, R>) -> Option<Image> {
    let mut image = Image { machine: Machine(Some(file.architecture())), ..Image::default() };
    match file {
        object::File::Elf32(elf) => dynamic(elf, &mut image),
        object::File::Elf64(elf) => dynamic(elf, &mut image),
        _ => return None,
    }?;
    Some(image)
}

/// The loader and the libraries, from the program headers: sections may be stripped.
fn dynamic<'data, Elf: FileHeader<Endian = Endianness>, R: ReadRef<'data>>(
    elf: &ElfFile<'data, Elf, R>,
    image: &mut Image,
) -> Option<()> {
    let (endian, data) = (elf.endian(), elf.data());
    let segments = elf.elf_program_headers();
    let is_executable = elf.elf_header().e_type(endian) == object::elf::ET_EXEC;
    let loader = segments.iter().find_map(|segment| segment.interpreter(endian, data).ok().flatten());
    image.loader = loader.map(|name| String::from_utf8_lossy(name).into_owned());
    let Some(table) = segments.iter().find_map(|segment| segment.dynamic(endian, data).ok().flatten()) else {
        image.is_program = is_executable;
        return Some(());
    };
    let value = |tag: u32| {
        let mut entries = table.iter().filter(|entry| entry.tag32(endian) == Some(tag));
        entries.next().map(|entry| entry.d_val(endian).into())
    };
    let is_pie = value(DT_FLAGS_1).is_some_and(|flags: u64| flags & u64::from(DF_1_PIE) != 0);
    image.is_program = is_executable || is_pie;
    let strings = value(DT_STRTAB)?;
    let text = |at: u64| {
        let address = strings.checked_add(at)?;
        segments.iter().find_map(|segment| {
            let begin: u64 = segment.p_vaddr(endian).into();
            let (offset, bytes) = segment.file_range(endian);
            let from = address.checked_sub(begin).filter(|from| *from < bytes)?;
            let text = data.read_bytes_at_until(offset + from..offset + bytes, 0).ok()?;
            (segment.p_type(endian) == object::elf::PT_LOAD)
                .then(|| String::from_utf8_lossy(text).into_owned())
        })
    };
    image.needed = table
        .iter()
        .filter(|entry| entry.tag32(endian) == Some(DT_NEEDED))
        .filter_map(|entry| text(entry.d_val(endian).into()))
        .collect();
    Some(())
}

/// The SQLites in the list of modules that the Go compiler leaves in a program.
fn go_modules<'data, R: ReadRef<'data>>(file: &object::File<'data, R>) -> Vec<(GoSqlite, String)> {
    let Some(section) = file.section_by_name(".go.buildinfo") else { return Vec::new() };
    if section.size() > MOST_GO_BYTES {
        return Vec::new();
    }
    section.data().map_or_else(|_| Vec::new(), |data| modules_in(&String::from_utf8_lossy(data)))
}

/// The same, from its text: a line for each module, `dep`, path and version.
fn modules_in(text: &str) -> Vec<(GoSqlite, String)> {
    // Without cgo this module compiles to an error message.
    let has_c = !text.contains("build\tCGO_ENABLED=0");
    text.lines()
        .filter_map(|line| {
            let mut words = line.split('\t').skip_while(|word| !word.ends_with("dep")).skip(1);
            let (module, version) = (words.next()?, words.next()?);
            let found = GoSqlite::ALL.into_iter().find(|known| known.module() == module)?;
            (found != GoSqlite::Mattn || has_c).then(|| (found, version.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_id_is_known_by_its_shape() {
        let debian = b"2022-12-28 14:03:47 df5c253c0b3dd24916e4ec7cf77d3db5294cc9fd45ae7b9c5e82ad8197f3alt1";
        assert_eq!(source_day(debian).as_deref(), Some("2022-12-28"));
        for other in [
            &b"2022-12-28 14:03:47 "[..],
            b"2022-12-28 14:03:47 DF5C253C0B3DD24916E4EC7CF77D3DB5294CC9FD",
            b"",
        ] {
            assert_eq!(source_day(other), None);
        }
    }

    #[test]
    fn a_mark_is_found_across_two_chunks() {
        for begin in [0, CHUNK_BYTES - 40, CHUNK_BYTES - 5, CHUNK_BYTES, 2 * CHUNK_BYTES - 60] {
            let mut file = tempfile::tempfile().unwrap();
            let mut bytes = vec![b'.'; 3 * CHUNK_BYTES];
            let text =
                b"rootpage int,sql text)\0\x002022-12-28 14:03:47 df5c253c0b3dd24916e4ec7cf77d3db5294cc9fd45";
            bytes[begin..begin + text.len()].copy_from_slice(text);
            io::Write::write_all(&mut file, &bytes).unwrap();
            let found = Marks::search(&mut file, &[(0, bytes.len() as u64)]).unwrap();
            assert_eq!(
                found,
                Marks { schema_table: true, source_day: Some("2022-12-28".to_owned()) },
                "{begin}"
            );
            let elsewhere = Marks::search(&mut file, &[(2 * CHUNK_BYTES as u64 + 100, 1 << 20)]).unwrap();
            assert_eq!(elsewhere, Marks::default(), "{begin}");
        }
    }

    #[test]
    fn modules_of_go_are_found_in_its_list() {
        let list = "path\tx\nmod\tx\t(devel)\ndep\tgithub.com/mattn/go-sqlite3\tv1.14.22\th1:2gZY6PC6kBnID23Tichd1K+Z0oS6nE/XwU+Vz/5o4kU=\n\
                    dep\tmodernc.org/sqlite\tv1.29.0\th1:x=\ndep\tmodernc.org/sqliteutil\tv1.0.0\n";
        let cases = [
            (format!("{list}build\tCGO_ENABLED=1\n"), vec![GoSqlite::Mattn, GoSqlite::Modernc]),
            (format!("{list}build\tCGO_ENABLED=0\n"), vec![GoSqlite::Modernc]),
            (String::new(), vec![]),
            ("dep\tmodernc.org/sqlite".to_owned(), vec![]),
        ];
        for (text, expected) in cases {
            let found: Vec<_> = modules_in(&text).into_iter().map(|(module, _)| module).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn this_test_is_a_program_with_a_hidden_sqlite() {
        let image = Image::read(&std::env::current_exe().unwrap(), Depth::Whole).unwrap().unwrap();
        assert!(image.is_program && !image.is_static() && image.needs("libc.so"), "{image:?}");
        assert_eq!(image.sqlite.map(|inside| inside.binding), Some(Binding::Hidden));
        let headers = Image::read(&std::env::current_exe().unwrap(), Depth::Headers).unwrap().unwrap();
        assert_eq!((headers.sqlite, headers.machine), (None, image.machine));
    }

    #[test]
    fn other_files_are_none_of_ours() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        for bytes in [
            &b""[..],
            b"#!/bin/sh\n",
            b"\x7fELF",
            b"\x7fELF\x02\x01\x01aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(Image::read(&path, Depth::Whole).unwrap(), None);
        }
    }
}
