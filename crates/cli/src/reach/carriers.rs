//! Every SQLite that a program carries.
//!
//! The program's file and its libraries are looked at, as the system's loader resolves them. Languages load more while they run:
//! Python's module is asked for, and PHP's folder of extensions. The native parts of Node's packages are found beside the script, and the
//! archives of a Java class path are searched for the driver.

use super::elf::{Binding, Depth, GoSqlite, Image};
use super::program::{Program, search};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The oldest SQLite that litefoot serves.
const OLDEST: (u32, u32) = (3, 40);
/// How long an interpreter may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// Directories where loaders lie. One that a program brings along is not run.
const LOADERS: [&str; 4] = ["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"];
/// Folders within a Node package, at most.
const MOST_DEPTH: usize = 5;
/// Longest archive of a Java class path that is searched.
const MOST_ARCHIVE_BYTES: u64 = 1 << 30;
/// The folder of sqlite-jdbc's native libraries, as an archive's directory names it.
const JDBC: &[u8] = b"org/sqlite/native/Linux/";

/// A SQLite, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carrier {
    /// The file that has it inside.
    pub file: PathBuf,
    /// The manner in which it is there.
    pub kind: Kind,
    /// The version, where it can be told.
    pub version: Option<String>,
    /// The day of its source, where the file tells it.
    pub source_day: Option<String>,
}

/// The manner in which a file carries SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A library or a program whose `sqlite3_os_init` can be replaced.
    Open,
    /// The same, of a release that litefoot does not serve.
    TooOld,
    /// Its functions can be seen and not replaced.
    Fixed,
    /// Inside, and unseen.
    Hidden,
    /// A module of a Go program.
    Go(GoSqlite),
    /// In an archive of Java, from which it is unpacked.
    Java,
}

impl Kind {
    /// The kind as an identifier, for machines.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Open => "open",
            Kind::TooOld => "too_old",
            Kind::Fixed => "fixed",
            Kind::Hidden => "hidden",
            Kind::Go(GoSqlite::Mattn) => "go_mattn",
            Kind::Go(GoSqlite::Modernc) => "go_modernc",
            Kind::Go(GoSqlite::Ncruces) => "go_ncruces",
            Kind::Java => "java",
        }
    }

    /// True where preloading reaches it.
    pub fn is_reached(self) -> bool {
        self == Kind::Open
    }
}

impl Carrier {
    /// The SQLites of one file.
    pub fn of(file: &Path, image: &Image) -> Vec<Carrier> {
        let go =
            image.go.iter().filter(|(module, _)| *module != GoSqlite::Mattn || !image.needs("libsqlite3.so"));
        let mut found: Vec<Carrier> = go
            .map(|(module, version)| Carrier {
                file: file.to_owned(),
                kind: Kind::Go(*module),
                version: Some(format!("module {version}")),
                source_day: None,
            })
            .collect();
        // The C of mattn is told by its module; modernc has SQLite's texts in its data, too.
        if let Some(inside) = image.sqlite.as_ref().filter(|_| found.is_empty()) {
            let kind = match inside.binding {
                Binding::Open if inside.version.as_deref().is_some_and(is_too_old) => Kind::TooOld,
                Binding::Open => Kind::Open,
                Binding::Fixed => Kind::Fixed,
                Binding::Hidden => Kind::Hidden,
            };
            let (version, source_day) = (inside.version.clone(), inside.source_day.clone());
            found.push(Carrier { file: file.to_owned(), kind, version, source_day });
        }
        found
    }
}

fn is_too_old(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < OLDEST
}

/// The SQLites that were found, and what could not be told.
#[derive(Debug, Default)]
pub struct Found {
    /// Each file once.
    pub carriers: Vec<Carrier>,
    /// Sentences about what is unknown, or good to know.
    pub notes: Vec<String>,
    /// The Python may load extensions; `None` where there is no Python.
    pub python_loads_extensions: Option<bool>,
}

impl Found {
    /// Looks at a program, its libraries, and what its language will load.
    pub fn of(program: &Program, image: Option<&Image>) -> Found {
        let mut found = Found::default();
        if let Some(image) = image {
            found.look(&program.image, image.loader.as_deref());
        }
        let name = program.image_name();
        let word = Path::new(&program.word).file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(php) = command_line_php(&name) {
            found.php(&program.image, &name, &php);
            return found;
        }
        match (is_python(&word), is_python(&name)) {
            (true, _) => found.python(&program.file),
            (false, true) => found.python(&program.image),
            _ if name.starts_with("node") || name == "bun" || name == "deno" => found.node(&program.arguments),
            _ if name == "java" => found.java(&program.arguments),
            _ if program.is_script() => found.notes.push(format!(
                "{} is a script of {name}: which programs it starts is not known before. Preloading passes on to them; look at a \
                 running one: litefoot doctor PID",
                program.name()
            )),
            _ => {}
        }
        found
    }

    /// Looks at a file and the libraries that the loader finds for it.
    fn look(&mut self, file: &Path, loader: Option<&str>) {
        for file in std::iter::once(file.to_owned()).chain(libraries(file, loader)) {
            self.add(&file);
        }
    }

    fn add(&mut self, file: &Path) {
        let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        if self.carriers.iter().any(|carrier| carrier.file == file) {
            return;
        }
        match Image::read(&file, Depth::Whole) {
            Ok(Some(image)) => self.carriers.extend(Carrier::of(&file, &image)),
            Ok(None) => {}
            Err(error) => self.notes.push(format!("{}: cannot be looked at: {error}", file.display())),
        }
    }

    /// Asks a Python where its module is.
    fn python(&mut self, interpreter: &Path) {
        let question = ["-c", include_str!("ask.py")];
        let answer = ask(interpreter, question);
        let Some(answer) = answer.and_then(|text| serde_json::from_str::<Value>(&text).ok()) else {
            self.notes.push(format!("{}: does not say which SQLite it has", interpreter.display()));
            return;
        };
        let executable = answer["executable"].as_str().map(PathBuf::from);
        let loader =
            executable.as_ref().and_then(|file| Image::read(file, Depth::Headers).ok().flatten()?.loader);
        let files = answer["files"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for file in executable.iter().map(PathBuf::as_path).chain(files.map(Path::new)) {
            self.look(file, loader.as_deref());
        }
        self.python_loads_extensions = answer["extensions"].as_bool();
        if answer["version"].is_null() {
            self.notes.push("this Python has no module sqlite3".to_owned());
        }
    }

    /// Asks a PHP where its extensions are: that of the command line, since a server runs none of its scripts.
    fn php(&mut self, image: &Path, name: &str, command_line: &str) {
        let php =
            if name == command_line { Some(image.to_owned()) } else { search(OsStr::new(command_line)) };
        // Without its settings it loads no extension.
        let folder = php.and_then(|php| ask(&php, ["-n", "-r", "echo PHP_EXTENSION_DIR;"]));
        let Some(folder) = folder.map(PathBuf::from).filter(|folder| folder.is_dir()) else {
            self.notes.push(format!("{name}: does not say where its extensions are"));
            return;
        };
        let loader = Image::read(image, Depth::Headers).ok().flatten().and_then(|image| image.loader);
        let extensions = ["pdo_sqlite.so", "sqlite3.so"].map(|file| folder.join(file));
        extensions.iter().filter(|file| file.exists()).for_each(|file| self.look(file, loader.as_deref()));
        if self.carriers.is_empty() {
            self.notes.push(format!("no extension for SQLite is in {}", folder.display()));
        }
    }

    /// The native parts of packages that carry SQLite, in the `node_modules` above the script.
    fn node(&mut self, arguments: &[OsString]) {
        let script = arguments.iter().map(Path::new).find(|word| word.is_file());
        let script = script.and_then(|script| fs::canonicalize(script).ok());
        let begin = script.or_else(|| std::env::current_dir().ok().map(|directory| directory.join("script")));
        let folders = begin
            .iter()
            .flat_map(|script| script.ancestors().skip(1))
            .map(|above| above.join("node_modules"));
        let mut files = Vec::new();
        for package in folders.filter(|folder| folder.is_dir()).flat_map(|folder| packages(&folder)) {
            native_parts(&package, MOST_DEPTH, &mut files);
        }
        files.sort();
        let before = self.carriers.len();
        files.iter().for_each(|file| self.add(file));
        if self.carriers.len() == before {
            self.notes.push("no package with a SQLite inside is in node_modules here".to_owned());
        }
    }

    /// The archives of the class path that have sqlite-jdbc inside.
    fn java(&mut self, arguments: &[OsString]) {
        let archives = class_path(arguments);
        let is_driver = |path: &PathBuf| {
            fs::metadata(path).is_ok_and(|metadata| metadata.len() <= MOST_ARCHIVE_BYTES)
                && fs::read(path).is_ok_and(|bytes| memchr::memmem::find(&bytes, JDBC).is_some())
        };
        let found = archives.into_iter().filter(is_driver);
        self.carriers.extend(found.map(|file| Carrier {
            file,
            kind: Kind::Java,
            version: None,
            source_day: None,
        }));
        if self.carriers.is_empty() {
            self.notes.push("no archive of the class path has sqlite-jdbc inside; archives within archives are not searched".to_owned());
        }
    }
}

fn is_python(name: &str) -> bool {
    name.strip_prefix("python").or_else(|| name.strip_prefix("pypy")).is_some_and(is_version)
}

/// The PHP that runs scripts of the command line, of the same version as a PHP of this name: itself, or the one beside a server.
fn command_line_php(name: &str) -> Option<String> {
    let rest = name.strip_prefix("php")?;
    let version = rest.strip_prefix("-fpm").or(rest.strip_prefix("-cgi")).unwrap_or(rest);
    is_version(version).then(|| format!("php{version}"))
}

/// True for what may follow the name of a language: `3.11`, or nothing.
fn is_version(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// The libraries of a file, as the system's loader finds them. It lists them, and runs nothing of them.
fn libraries(file: &Path, loader: Option<&str>) -> Vec<PathBuf> {
    let Some(loader) = loader.filter(|loader| LOADERS.iter().any(|place| loader.starts_with(place))) else {
        return Vec::new();
    };
    let mut command = Command::new(loader);
    let output = command.arg("--list").arg(file).env_remove("LD_PRELOAD").stdin(Stdio::null()).output();
    output.map_or_else(|_| Vec::new(), |output| listed(&String::from_utf8_lossy(&output.stdout)))
}

/// The paths in a loader's list: `name => /path (0x…)`, or `/path (0x…)` where the path is linked itself.
fn listed(text: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        let rest = line.split_once("=> ").map_or(line, |(_, path)| path);
        let path = rest.rsplit_once(" (0x").map_or(rest, |(path, _)| path).trim();
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    text.lines().filter_map(path).collect()
}

/// The answer of an interpreter to a question.
fn ask<const N: usize>(interpreter: &Path, question: [&str; N]) -> Option<String> {
    let mut command = Command::new(interpreter);
    command.args(question).env_remove("LD_PRELOAD");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let began = Instant::now();
    // The answer is shorter than a pipe: the child does not wait for its reader.
    while child.try_wait().ok()?.is_none() {
        if began.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut answer = String::new();
    child.stdout.take()?.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Packages of Node that are a SQLite, in a folder `node_modules`, with or without a scope before the name.
fn packages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in entries(folder) {
        let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('@') {
            found.extend(packages(&entry));
        } else if name.contains("sqlite") || name.contains("libsql") {
            found.push(entry);
        }
    }
    found
}

fn native_parts(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    for entry in entries(folder) {
        if entry.extension() == Some(OsStr::new("node")) && entry.is_file() {
            // Leftovers of the build are not what is loaded.
            if !entry.to_string_lossy().contains("/obj.target/") {
                files.push(entry);
            }
        } else if depth > 0 && entry.is_dir() && !entry.is_symlink() {
            native_parts(&entry, depth - 1, files);
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// The archives that a command line of Java names.
fn class_path(arguments: &[OsString]) -> Vec<PathBuf> {
    let mut words = arguments.iter();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("-cp" | "-classpath" | "--class-path") => {
                let paths = words.next().cloned().unwrap_or_default();
                for path in std::env::split_paths(&paths) {
                    if path.file_name() == Some(OsStr::new("*")) {
                        found.extend(entries(path.parent().unwrap_or(&path)));
                    } else {
                        found.push(path);
                    }
                }
            }
            Some("-jar") => found.extend(words.next().map(PathBuf::from)),
            _ => {}
        }
    }
    found.retain(|path| path.extension() == Some(OsStr::new("jar")));
    found
}

#[cfg(test)]
mod tests {
    use super::super::elf::Inside;
    use super::*;

    #[test]
    fn what_a_file_has_inside_decides() {
        let inside = |version: &str, binding| {
            Some(Inside { version: Some(version.to_owned()), source_day: None, binding })
        };
        let mattn = vec![(GoSqlite::Mattn, "v1".to_owned())];
        for (image, expected) in [
            (Image::default(), vec![]),
            (Image { sqlite: inside("3.40.1", Binding::Open), ..Image::default() }, vec![Kind::Open]),
            (Image { sqlite: inside("3.39.4", Binding::Open), ..Image::default() }, vec![Kind::TooOld]),
            (Image { sqlite: inside("3.39.4", Binding::Hidden), ..Image::default() }, vec![Kind::Hidden]),
            (Image { sqlite: inside("4.0.0", Binding::Fixed), ..Image::default() }, vec![Kind::Fixed]),
            (
                Image { go: mattn.clone(), sqlite: inside("3.46.0", Binding::Hidden), ..Image::default() },
                vec![Kind::Go(GoSqlite::Mattn)],
            ),
            (Image { go: mattn, needed: vec!["libsqlite3.so.0".to_owned()], ..Image::default() }, vec![]),
        ] {
            let kinds: Vec<_> =
                Carrier::of(Path::new("a"), &image).iter().map(|carrier| carrier.kind).collect();
            assert_eq!(kinds, expected, "{image:?}");
        }
    }

    #[test]
    fn a_loaders_list_is_read() {
        let text = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibsqlite3.so.0 => /usr/lib/x (y)/libsqlite3.so.0 (0x00007f)\n\
                    \tlibgone.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(
            listed(text),
            ["/usr/lib/x (y)/libsqlite3.so.0", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from)
        );
    }

    #[test]
    fn pythons_are_known_by_their_names() {
        for (name, expected) in [
            ("python", true),
            ("python3", true),
            ("python3.11", true),
            ("python3-config", false),
            ("perl", false),
        ] {
            assert_eq!(is_python(name), expected, "{name}");
        }
    }

    #[test]
    fn a_class_path_names_archives() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(
            class_path(&words("-cp a.jar:classes:b.jar Main")),
            [PathBuf::from("a.jar"), PathBuf::from("b.jar")]
        );
        assert_eq!(class_path(&words("-Xmx1g -jar app.jar x.jar")), [PathBuf::from("app.jar")]);
        assert!(class_path(&words("Main")).is_empty());
    }

    #[test]
    fn native_parts_of_packages_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let modules = directory.path().join("node_modules");
        for file in [
            "better-sqlite3/build/Release/b.node",
            "@louislam/sqlite3/lib/a.node",
            "sharp/c.node",
            "sqlite3/build/obj.target/d.node",
        ] {
            let path = modules.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let mut files = Vec::new();
        packages(&modules).iter().for_each(|package| native_parts(package, MOST_DEPTH, &mut files));
        files.sort();
        assert_eq!(
            files,
            [
                modules.join("@louislam/sqlite3/lib/a.node"),
                modules.join("better-sqlite3/build/Release/b.node")
            ]
        );
    }
}
