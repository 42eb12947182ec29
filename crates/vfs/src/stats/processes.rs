//! The processes of this machine, as far as the system shows them, and which of them have a file open.
//!
//! # Why
//! A person who finds a database shared wants to know because of whom. The system does not tell the holder of a lease which
//! process asked, but it lists the open files of each process.
//!
//! # What it promises
//! 1. Nothing is opened: a link is followed to the identity of its file, and no further. The file is not asked for anything that a
//!    server of a network file system would have to answer.
//! 2. The work is bounded: [`LINKS_MAX`] links are followed in a search.
//!
//! A process that still waits in its `open` is not found: it has no descriptor yet. Processes of other users are found by root.

use litefoot_storage::file::FileId;
#[cfg(target_os = "linux")]
use litefoot_storage::os::statx;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The directory in which the system lists processes.
pub(super) const PROCESSES: &str = "/proc";

/// Links of open files that one search follows. A link costs about a microsecond.
pub const LINKS_MAX: usize = 20_000;

/// What the system writes before the name of a memory file, and behind it: it has no place in a directory.
const MEMORY_FILE: &str = "/memfd:";
const GONE: &str = " (deleted)";

/// How the memory of a group is named, before the numbers of its database.
const GROUP: &str = "litefoot-group:";

/// Looks at the youngest processes before the search of all, the pause behind each, and how many they are. A process that was
/// woken in its `open` returns from it within microseconds.
const GLANCES: u32 = 5;
const MOMENT: Duration = Duration::from_micros(100);
const YOUNGEST: usize = 16;

/// The processes that this one can see.
pub(super) fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(PROCESSES).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Another process that has this file open, as far as this one may know: the youngest, if there are several. One that the
/// system has just let go on from its `open` gets a moment to have its descriptor, and may be gone soon after.
pub fn process_that_opened(file: FileId) -> Option<u32> {
    for _ in 0..GLANCES {
        let found = search(file, YOUNGEST).next();
        if found.is_some() {
            return found;
        }
        std::thread::sleep(MOMENT);
    }
    search(file, usize::MAX).next()
}

/// The other processes that have this file open, as far as this one may know.
pub fn processes_that_opened(file: FileId) -> Vec<u32> {
    search(file, usize::MAX).collect()
}

/// The target of the link to a memory file of that name.
pub(super) fn listed_as(name: &str) -> PathBuf {
    format!("{MEMORY_FILE}{name}{GONE}").into()
}

/// The name of the memory that all processes of a database's group have (`sync::group_board`).
pub(crate) fn name_of_group(database: FileId) -> String {
    format!("{GROUP}{:x}:{:x}", database.device, database.inode)
}

/// The processes of a database's group, as far as this one may know: members, and the one that leads. Ascending.
pub fn processes_of_group(database: FileId) -> Vec<u32> {
    let name = listed_as(&name_of_group(database));
    let mut left = LINKS_MAX;
    let is_in = |process: &u32| {
        open_files(*process, &mut left).any(|link| fs::read_link(link).is_ok_and(|target| target == name))
    };
    let mut found: Vec<u32> = processes().filter(is_in).collect();
    found.sort_unstable();
    found
}

/// The databases in whose groups a process is.
pub fn groups_of(process: u32) -> Vec<FileId> {
    let mut left = LINKS_MAX;
    let target = |link: PathBuf| Some(fs::read_link(link).ok()?.to_str()?.to_owned());
    let mut found = Vec::new();
    for id in open_files(process, &mut left).filter_map(target).filter_map(|target| group_named(&target)) {
        if !found.contains(&id) {
            found.push(id);
        }
    }
    found
}

/// The database of a group, from the target of the link to its memory.
fn group_named(target: &str) -> Option<FileId> {
    let name = target.strip_prefix(MEMORY_FILE)?.strip_suffix(GONE)?;
    let (device, inode) = name.strip_prefix(GROUP)?.split_once(':')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(FileId { device: number(device)?, inode: number(inode)? })
}

/// The name of the program that a process runs, where the system tells.
pub fn program(process: u32) -> Option<String> {
    let name = fs::read_to_string(format!("{PROCESSES}/{process}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// The youngest first, and no more than `most`: those who come for a moment have come last, mostly.
fn search(file: FileId, most: usize) -> impl Iterator<Item = u32> {
    let own = std::process::id();
    let mut found: Vec<u32> = processes().filter(|process| *process != own).collect();
    let newest = newest();
    found.sort_unstable_by_key(|process| newest.wrapping_sub(*process));
    found.truncate(most);
    let mut left = LINKS_MAX;
    found.into_iter().filter(move |process| open_files(*process, &mut left).any(|link| leads_to(&link, file)))
}

/// The number that the system gave last. Numbers begin again from below when they are used up.
fn newest() -> u32 {
    let load = fs::read_to_string(format!("{PROCESSES}/loadavg")).unwrap_or_default();
    load.split_whitespace().last().and_then(|number| number.parse().ok()).unwrap_or(u32::MAX)
}

/// The links of the files that a process has open.
fn open_files(process: u32, left: &mut usize) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(format!("{PROCESSES}/{process}/fd")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).take_while(move |_| {
        let more = *left > 0;
        *left = left.saturating_sub(1);
        more
    })
}

/// True for a link to that file. Sockets, pipes and the like have no path.
fn leads_to(link: &Path, file: FileId) -> bool {
    let is_path = fs::read_link(link).is_ok_and(|target| target.as_os_str().as_bytes().starts_with(b"/"));
    is_path && identity(link) == Some(file)
}

/// The identity of the file behind a link, as the system knows it already.
#[cfg(target_os = "linux")]
fn identity(link: &Path) -> Option<FileId> {
    let name = std::ffi::CString::new(link.as_os_str().as_bytes()).ok()?;
    let found = statx(libc::AT_FDCWD, &name, libc::AT_STATX_DONT_SYNC, libc::STATX_INO).ok()?;
    let device = libc::makedev(found.stx_dev_major, found.stx_dev_minor);
    Some(FileId { device, inode: found.stx_ino })
}

#[cfg(not(target_os = "linux"))]
fn identity(_link: &Path) -> Option<FileId> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_storage::os::NamelessMemory;
    use std::os::unix::fs::MetadataExt;
    use std::process::{Command, Stdio};

    #[test]
    fn another_process_is_found_while_it_has_the_file_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let file = fs::File::create(&path).unwrap();
        let metadata = file.metadata().unwrap();
        let id = FileId { device: metadata.dev(), inode: metadata.ino() };
        assert_eq!(process_that_opened(id), None, "this process does not count");
        let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(file).spawn().unwrap();
        assert_eq!(process_that_opened(id), Some(cat.id()));
        assert_eq!(processes_that_opened(id), [cat.id()]);
        assert!(program(cat.id()).is_some_and(|name| !name.is_empty()));
        drop(cat.stdin.take());
        cat.wait().unwrap();
        assert_eq!(process_that_opened(id), None);
    }

    #[test]
    fn the_processes_of_a_group_are_found_by_its_memory() {
        let id = FileId { device: 0xfe05, inode: u64::from(std::process::id()) << 32 };
        let other = FileId { device: 1, ..id };
        let own = std::process::id();
        assert!(processes_of_group(id).is_empty());
        let memory = [id, other].map(|id| NamelessMemory::listed(&name_of_group(id)).unwrap());
        assert_eq!((processes_of_group(id), processes_of_group(other)), (vec![own], vec![own]));
        let groups = groups_of(own);
        assert!(groups.contains(&id) && groups.contains(&other), "{groups:?}");
        drop(memory);
        assert!(processes_of_group(id).is_empty() && !groups_of(own).contains(&id));
        for target in ["/memfd:litefoot (deleted)", "/memfd:litefoot-group:1 (deleted)", "/a", ""] {
            assert_eq!(group_named(target), None, "{target}");
        }
    }

    #[test]
    fn no_more_links_are_followed_than_agreed() {
        let mut left = 2;
        let own = std::process::id();
        assert_eq!((open_files(own, &mut left).count(), left), (2, 0));
        assert_eq!((open_files(own, &mut left).count(), left), (0, 0));
    }
}
