//! The name of a file behind all symbolic links, whether the file exists or not.
//!
//! # Why
//! The companion files of a database belong beside the file that the links lead to: another program may open it by that
//! name. The same is true of a file that does not exist yet, where the C library's `realpath` gives up.
//!
//! # What it promises
//! 1. Links are followed wherever they stand in the path, the last element included. The last link may name a file that
//!    does not exist.
//! 2. `.` and `..` are gone, and `..` means the directory above the one that a link has led to.
//! 3. More than [`MOST_LINKS`] links are an error, and so is a directory that cannot be read.

use crate::file::Resolved;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Most links on the way to one file, as SQLite has it.
const MOST_LINKS: u32 = 100;

/// An absolute path without links, and whether there were any on the way.
pub(super) fn resolve(path: &Path) -> io::Result<Resolved> {
    let mut resolved = PathBuf::from("/");
    // The elements still to be looked at, the next one last.
    let mut rest = Vec::new();
    push(&mut rest, path);
    if path.is_relative() {
        push(&mut rest, &std::env::current_dir()?);
    }
    let mut links = 0;
    while let Some(element) = rest.pop() {
        if element == ".." {
            resolved.pop();
            continue;
        }
        resolved.push(&element);
        match fs::symlink_metadata(&resolved) {
            Ok(found) if found.is_symlink() => {
                links += 1;
                if links > MOST_LINKS {
                    return Err(io::Error::from_raw_os_error(libc::ELOOP));
                }
                let target = fs::read_link(&resolved)?;
                resolved.pop();
                if target.is_absolute() {
                    resolved = PathBuf::from("/");
                }
                push(&mut rest, &target);
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Resolved { path: resolved, through_link: links > 0 })
}

fn push(rest: &mut Vec<OsString>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => rest.push(name.to_owned()),
            Component::ParentDir => rest.push("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_to_files_that_exist_and_to_files_that_do_not() {
        let directory = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(directory.path()).unwrap();
        for made in ["real", "links", "links/deep"] {
            fs::create_dir(base.join(made)).unwrap();
        }
        fs::write(base.join("real/there.db"), "").unwrap();
        symlink("../real/there.db", base.join("links/there.db")).unwrap();
        symlink("../real/new.db", base.join("links/new.db")).unwrap();
        symlink(base.join("links/new.db"), base.join("links/twice.db")).unwrap();
        symlink("../links/deep", base.join("real/down")).unwrap();
        let cases = [
            ("real/there.db", "real/there.db", false),
            ("real/../real/./none.db", "real/none.db", false),
            ("links/there.db", "real/there.db", true),
            ("links/new.db", "real/new.db", true),
            ("links/twice.db", "real/new.db", true),
            // The directory above the one that the link leads to.
            ("real/down/../x.db", "links/x.db", true),
            ("missing/x.db", "missing/x.db", false),
        ];
        for (path, expected, through_link) in cases {
            let found = resolve(&base.join(path)).unwrap();
            assert_eq!(found, Resolved { path: base.join(expected), through_link }, "{path}");
        }
        let here = std::env::current_dir().unwrap();
        assert_eq!(resolve(Path::new("x.db")).unwrap().path, fs::canonicalize(here).unwrap().join("x.db"));
    }

    #[test]
    fn links_without_an_end_and_paths_through_files_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path();
        symlink("loop", base.join("loop")).unwrap();
        fs::write(base.join("file"), "").unwrap();
        assert_eq!(resolve(&base.join("loop")).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        assert_eq!(resolve(&base.join("file/x")).unwrap_err().raw_os_error(), Some(libc::ENOTDIR));
    }

    #[test]
    fn a_hundred_links_are_followed_and_not_one_more() {
        let directory = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(directory.path()).unwrap();
        for number in 0..=MOST_LINKS {
            symlink(format!("{}", number + 1), base.join(number.to_string())).unwrap();
        }
        let end = base.join((MOST_LINKS + 1).to_string());
        assert_eq!(resolve(&base.join("1")).unwrap().path, end);
        assert!(resolve(&base.join("0")).is_err());
    }
}
