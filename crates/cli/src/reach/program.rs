//! Which file a command line runs: found as the shell finds it, scripts followed to their interpreters.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Scripts whose interpreters are scripts, at most; the kernel follows as many.
const MOST_SCRIPTS: usize = 4;
/// Bytes of a script's first line that the kernel reads.
const LINE_BYTES: u64 = 256;

/// A command line, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The word that was given.
    pub word: OsString,
    /// The file that the word names.
    pub file: PathBuf,
    /// The file that the system runs: `file`, or its interpreter.
    pub image: PathBuf,
    /// The arguments of `image`: those of the script's first line and the script, then the user's.
    pub arguments: Vec<OsString>,
}

impl Program {
    /// Finds the program of a command line; `None` where there is none.
    pub fn find(word: &OsStr, arguments: &[OsString]) -> Option<Program> {
        let file = search(word)?;
        let mut program =
            Program { word: word.to_owned(), image: file.clone(), file, arguments: arguments.to_vec() };
        for _ in 0..MOST_SCRIPTS {
            let Some((interpreter, argument)) = interpreter(&program.image) else { break };
            // `/usr/bin/env NAME`, with or without -S: the program is NAME.
            let is_env = interpreter.file_name() == Some(OsStr::new("env"));
            let is_of_env = |word: &&str| is_env && (word.starts_with('-') || word.contains('='));
            let words: Vec<&str> = argument.split_whitespace().skip_while(is_of_env).collect();
            let (image, rest) = match (is_env, words.split_first()) {
                (true, Some((name, rest))) => (search(OsStr::new(name))?, rest.to_vec()),
                (true, None) => return None,
                (false, _) if argument.is_empty() => (interpreter, Vec::new()),
                (false, _) => (interpreter, vec![argument.as_str()]),
            };
            let script = std::mem::replace(&mut program.image, image).into_os_string();
            let before = rest.iter().map(OsString::from).chain([script]);
            program.arguments.splice(0..0, before);
        }
        Some(program)
    }

    /// The word, as it is shown.
    pub fn name(&self) -> String {
        self.word.to_string_lossy().into_owned()
    }

    /// The name of the file that runs, links followed, without its directory: `python3.11`.
    pub fn image_name(&self) -> String {
        let real = fs::canonicalize(&self.image).unwrap_or_else(|_| self.image.clone());
        real.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// True where the file is a script.
    pub fn is_script(&self) -> bool {
        self.file != self.image
    }
}

/// The file that a shell would run for a word.
pub fn search(word: &OsStr) -> Option<PathBuf> {
    let path = Path::new(word);
    if word.as_bytes().contains(&b'/') {
        return is_executable(path).then(|| path.to_owned());
    }
    let directories = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    std::env::split_paths(&directories).map(|directory| directory.join(path)).find(|file| is_executable(file))
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The interpreter of a script, and what its first line says behind it.
fn interpreter(path: &Path) -> Option<(PathBuf, String)> {
    let mut line = Vec::new();
    File::open(path).ok()?.take(LINE_BYTES).read_to_end(&mut line).ok()?;
    first_line(&line)
}

fn first_line(bytes: &[u8]) -> Option<(PathBuf, String)> {
    let line = bytes.strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?.trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (interpreter, argument) = line.split_at(end);
    let interpreter = PathBuf::from(OsString::from_vec(interpreter.to_vec()));
    (!interpreter.as_os_str().is_empty())
        .then(|| (interpreter, String::from_utf8_lossy(argument.trim_ascii()).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_script_names_its_interpreter() {
        for (text, interpreter, argument) in [
            ("#!/bin/sh\necho", "/bin/sh", ""),
            ("#! /usr/bin/env  -S python3 -u \r\n", "/usr/bin/env", "-S python3 -u"),
            ("#!/usr/bin/perl", "/usr/bin/perl", ""),
        ] {
            assert_eq!(first_line(text.as_bytes()), Some((PathBuf::from(interpreter), argument.to_owned())));
        }
        for text in ["", "#!", "#!  \n", "\x7fELF", "# !/bin/sh"] {
            assert_eq!(first_line(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn scripts_are_followed_to_the_program_that_runs() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let inner = write("inner", "#!/bin/sh -e\n");
        let outer = write("outer", &format!("#!{} -x\n", inner.display()));
        let endless = write("endless", &format!("#!{}\n", directory.path().join("endless").display()));
        let by_env = write("by_env", "#!/usr/bin/env -S sh -e\n");
        let find = |path: &Path| Program::find(path.as_os_str(), &[OsString::from("last")]).unwrap();
        let words = |program: &Program| {
            program.arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };

        let found = find(&outer);
        assert_eq!(found.image, Path::new("/bin/sh"));
        assert_eq!(words(&found), ["-e", inner.to_str().unwrap(), "-x", outer.to_str().unwrap(), "last"]);
        assert!(found.is_script());
        assert_eq!(words(&find(&by_env)), ["-e", by_env.to_str().unwrap(), "last"]);
        // The kernel refuses this one; here it only must end.
        find(&endless);
        assert_eq!(Program::find(OsStr::new("no-such-program-anywhere"), &[]), None);
    }
}
