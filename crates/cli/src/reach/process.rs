//! The same questions about a process that runs: its mappings say what it carries, its descriptors which databases it has open.
//!
//! Everything is read from `/proc`. A process of another user shows nothing, and the reader is told so.

use super::carriers::Carrier;
use super::elf::{Depth, Image};
use crate::inspect::{Presence, is_shared_on_demand};
use litefoot::stats::{groups_of, processes_that_opened, program};
use litefoot_storage::file::FileId;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The magic of a database file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// The capability by which a process may take leases on files of others (`CAP_LEASE`).
const CAP_LEASE: u32 = 28;
/// Names of file systems, by their magic numbers, that grant no lease (`statfs(2)`).
const WITHOUT_LEASES: &[(i64, &str)] =
    &[(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0xfe53_4d42, "SMB"), (0x6573_5546, "FUSE")];

/// A process, as far as it shows itself.
#[derive(Debug)]
pub struct Running {
    /// Its number.
    pub process: u32,
    /// Its name.
    pub name: String,
    /// The program's file.
    pub program: PathBuf,
    /// Litefoot's library, where it is loaded.
    pub library: Option<PathBuf>,
    /// The SQLites that are loaded.
    pub carriers: Vec<Carrier>,
    /// The databases that it has open.
    pub databases: Vec<OpenDatabase>,
    /// Sentences about what is unknown.
    pub notes: Vec<String>,
}

/// A database that a process has open.
#[derive(Debug, PartialEq, Eq)]
pub struct OpenDatabase {
    /// Where it is.
    pub path: PathBuf,
    /// Who serves it there.
    pub state: State,
    /// Other processes that have it open, with their names.
    pub others: Vec<(u32, String)>,
    /// The reason why the system grants no lease, where it does not: it would be shared from its first lock on.
    pub no_lease: Option<&'static str>,
}

/// Who serves a database in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Litefoot, and the process owns it.
    Owned,
    /// Litefoot, and it is shared with others.
    MultiProcess,
    /// Litefoot, in the process of that number: this one is a member of its group.
    Member(u32),
    /// Litefoot, in another process.
    Elsewhere,
    /// SQLite's own VFS.
    Stock,
}

impl State {
    /// The state as an identifier, for machines.
    pub fn name(self) -> &'static str {
        match self {
            State::Owned => "owned",
            State::MultiProcess => "multi_process",
            State::Member(_) => "member",
            State::Elsewhere => "elsewhere",
            State::Stock => "stock",
        }
    }
}

impl Running {
    /// Looks at a process; `None` if there is none of that number.
    pub fn look(process: u32) -> Option<Running> {
        let folder = PathBuf::from(format!("/proc/{process}"));
        let name = fs::read_to_string(folder.join("comm")).ok()?.trim_end().to_owned();
        let mut running = Running {
            process,
            name,
            program: fs::read_link(folder.join("exe")).unwrap_or_default(),
            library: None,
            carriers: Vec::new(),
            databases: Vec::new(),
            notes: Vec::new(),
        };
        match fs::read_to_string(folder.join("maps")) {
            Ok(maps) => running.look_at_files(&folder, &maps),
            Err(error) => running.notes.push(format!(
                "process {process} does not show its files: {error}; ask as its user, or as root"
            )),
        }
        running.databases = databases(process, &folder);
        Some(running)
    }

    fn look_at_files(&mut self, folder: &Path, maps: &str) {
        for (path, is_gone) in executable_files(maps) {
            // The file as the process sees it, also from outside of a container.
            let seen = folder.join("root").join(path.strip_prefix("/").unwrap_or(&path));
            let image = if is_gone { Ok(None) } else { Image::read(&seen, Depth::Whole) };
            match image {
                Ok(Some(image)) if image.is_litefoot => self.library = Some(path),
                Ok(Some(image)) => self.carriers.extend(Carrier::of(&path, &image)),
                Ok(None) if is_gone => {
                    self.notes.push(format!(
                        "{} was replaced or removed since, and cannot be looked at",
                        path.display()
                    ));
                }
                Ok(None) => {}
                Err(error) => self.notes.push(format!("{}: cannot be looked at: {error}", path.display())),
            }
        }
    }
}

/// The files that a process has code of, and whether they are gone.
fn executable_files(maps: &str) -> Vec<(PathBuf, bool)> {
    // 7f12a0000000-7f12a0001000 r-xp 00000000 fe:00 131073   /usr/lib/a.so
    let mut found: Vec<(PathBuf, bool)> = Vec::new();
    for line in maps.lines() {
        let Some(begin) = line.find(" /") else { continue };
        let is_code = line.split_whitespace().nth(1).is_some_and(|rights| rights.contains('x'));
        let path = &line[begin + 1..];
        let (path, is_gone) = path.strip_suffix(" (deleted)").map_or((path, false), |path| (path, true));
        if is_code && !found.iter().any(|(known, _)| known == Path::new(path)) {
            found.push((PathBuf::from(path), is_gone));
        }
    }
    found
}

/// The databases that a process has open, and who else has them.
fn databases(process: u32, folder: &Path) -> Vec<OpenDatabase> {
    let (mut files, groups) = (open_files(folder), groups_of(process));
    // A member may have the file open in its owner only.
    for group in &groups {
        let key = (group.device, group.inode);
        let leader = Presence::find(*group).published().filter(|_| !files.contains_key(&key));
        let there = leader.map(|leader| open_files(Path::new(&format!("/proc/{}", leader.process))));
        files.extend(there.and_then(|mut there| there.remove(&key)).map(|found| (key, found)));
    }
    let state = |descriptor: &Path, id: FileId| match Presence::find(id) {
        Presence::Owned(found) if found.as_ref().is_none_or(|found| found.process == process) => {
            Some(State::Owned)
        }
        Presence::MultiProcess(found) if found.process == process => Some(State::MultiProcess),
        Presence::Owned(Some(found)) | Presence::MultiProcess(found) if groups.contains(&id) => {
            Some(State::Member(found.process))
        }
        Presence::Owned(_) | Presence::MultiProcess(_) => Some(State::Elsewhere),
        Presence::None => (!is_shared_on_demand(id) && is_database(descriptor)).then_some(State::Stock),
    };
    let found = files.into_iter().filter_map(|((device, inode), (descriptor, owner))| {
        let id = FileId { device, inode };
        let state = state(&descriptor, id)?;
        let path = fs::read_link(&descriptor).ok()?;
        let no_lease = without_lease(&descriptor, process, owner);
        Some(OpenDatabase { path, state, others: others(process, id), no_lease })
    });
    found.collect()
}

/// The files that a process has open, by their identities: a link to each, and its owner.
fn open_files(folder: &Path) -> BTreeMap<(u64, u64), (PathBuf, u32)> {
    let mut files = BTreeMap::new();
    for descriptor in entries(&folder.join("fd")) {
        let Ok(metadata) = fs::metadata(&descriptor) else { continue };
        if metadata.is_file() && metadata.nlink() > 0 {
            files.entry((metadata.dev(), metadata.ino())).or_insert((descriptor, metadata.uid()));
        }
    }
    files
}

/// True for a database file. It is opened, so nobody may hold a lease on it.
fn is_database(descriptor: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    File::open(descriptor).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok()) && &magic == MAGIC
}

/// The other processes that have a file open and show it.
fn others(process: u32, file: FileId) -> Vec<(u32, String)> {
    let mut found = processes_that_opened(file);
    found.retain(|other| *other != process);
    found.sort_unstable();
    found.into_iter().map(|other| (other, program(other).unwrap_or_default())).collect()
}

/// The reason why the process is granted no lease on a file.
fn without_lease(descriptor: &Path, process: u32, owner: u32) -> Option<&'static str> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    file_system_without_leases(descriptor).or_else(|| {
        let is_allowed = may_lease(&status, owner)?;
        (!is_allowed).then_some("the process neither owns the file nor has CAP_LEASE")
    })
}

/// Whether a process of this status may take a lease on a file of that owner; `None` where the status does not say.
fn may_lease(status: &str, owner: u32) -> Option<bool> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    // Real, effective, saved and file system's.
    let user: u32 = field("Uid:")?.split_whitespace().nth(3)?.parse().ok()?;
    let capabilities = u64::from_str_radix(field("CapEff:")?.trim(), 16).ok()?;
    Some(user == owner || capabilities & (1 << CAP_LEASE) != 0)
}

fn file_system_without_leases(descriptor: &Path) -> Option<&'static str> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(descriptor.as_os_str().as_bytes()).ok()?;
    // SAFETY: statfs is plain data.
    let mut info: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the name ends with NUL, and `info` can be written.
    if unsafe { libc::statfs(path.as_ptr(), &raw mut info) } != 0 {
        return None;
    }
    #[allow(clippy::unnecessary_cast)] // narrower on 32-bit machines
    let kind = info.f_type as i64 & 0xffff_ffff;
    WITHOUT_LEASES.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_code_are_listed_once() {
        let maps = "7f12-7f13 r--p 00000000 fe:00 1   /usr/lib/data.so\n\
                    7f13-7f14 r-xp 00001000 fe:00 2   /usr/lib/a b.so\n\
                    7f14-7f15 r-xp 00002000 fe:00 2   /usr/lib/a b.so\n\
                    7f15-7f16 r-xp 00000000 fe:00 3   /tmp/gone.so (deleted)\n\
                    7f16-7f17 r-xp 00000000 00:00 0   [vdso]\n";
        let expected = [(PathBuf::from("/usr/lib/a b.so"), false), (PathBuf::from("/tmp/gone.so"), true)];
        assert_eq!(executable_files(maps), expected);
    }

    #[test]
    fn a_lease_needs_the_owner_or_a_capability() {
        let status = |user: u32, capabilities: &str| {
            format!("Name:\ta\nUid:\t0\t0\t0\t{user}\nCapEff:\t{capabilities}\n")
        };
        for (status, expected) in [
            (status(1000, "0000000000000000"), Some(true)),
            (status(1001, "0000000000000000"), Some(false)),
            (status(1001, "0000000010000000"), Some(true)),
            (status(0, "000001ffffffffff"), Some(true)),
            (String::new(), None),
        ] {
            assert_eq!(may_lease(&status, 1000), expected, "{status}");
        }
    }

    #[test]
    fn this_process_shows_a_database_that_it_has_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let db = rusqlite::Connection::open(&path).unwrap();
        db.execute_batch("CREATE TABLE t(a)").unwrap();
        let running = Running::look(std::process::id()).unwrap();
        let found = running.databases.iter().find(|found| found.path == path.canonicalize().unwrap());
        assert_eq!(
            found.map(|found| (found.state, found.others.len())),
            Some((State::Stock, 0)),
            "{running:?}"
        );
        assert!(running.carriers.iter().any(|carrier| carrier.file == running.program), "{running:?}");
        assert!(Running::look(u32::MAX).is_none());
    }
}
