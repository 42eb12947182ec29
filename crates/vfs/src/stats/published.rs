//! Reading the statistics page of a database that another process has open. `page` has the layout.
//!
//! Another process has written the page: nothing in it is trusted, and everything is read, never mapped. The system
//! copies aligned words whole on machines of 64 bits. On smaller machines a figure beyond 4 GiB may be read half
//! carried over, and be wrong until the next reading.

use crate::stats::figures::FigureKind;
use crate::stats::page::{
    DatabaseState, FIGURES, HEAD_WORDS, MAGIC, NAMES_BYTES, OPENED, PAGE_BYTES, PROCESS, STATE, VISITOR,
    VISITOR_BYTES, name_of,
};
use crate::stats::processes::{PROCESSES, listed_as, processes};
use litefoot_storage::file::FileId;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The figures of a database in the memory of the process that has it open.
#[derive(Debug)]
pub struct Published {
    /// The process, as this one sees it.
    pub process: u32,
    /// The system's link to the memory file, and the link's expected target.
    link: PathBuf,
    name: PathBuf,
    file: File,
}

/// The figures at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The state of the database in that process.
    pub state: DatabaseState,
    /// When it was opened.
    pub opened: SystemTime,
    /// The figures in their order: name, kind, value.
    pub figures: Vec<(String, FigureKind, u64)>,
    /// The program because of which the database was last shared, where it is known.
    pub visitor: Option<String>,
    /// The process, as it calls itself.
    process: u64,
}

impl Published {
    /// The process that owns the database of that identity, or one that shares it with others, as far as this process may
    /// know: those of other users show nothing. Processes that merely have it open are not answered.
    pub fn find(database: FileId) -> Option<Published> {
        let name = listed_as(&name_of(database));
        let mut best: Option<((bool, bool), Published)> = None;
        for found in processes().flat_map(|process| memory_files(process, &name)) {
            let Some(reading) = found.read().filter(Reading::is_in_use) else { continue };
            // A forked child has its parent's files, and calls itself otherwise.
            let itself = u64::from(found.process) == reading.process;
            let rank = (reading.state == DatabaseState::Owned, itself);
            if best.as_ref().is_none_or(|(known, _)| rank > *known) {
                best = Some((rank, found));
            }
        }
        best.map(|(_, found)| found)
    }

    /// The process that owns the database of that identity, as far as this process may know.
    pub fn find_owner(database: FileId) -> Option<Published> {
        Published::find(database)
            .filter(|found| found.read().is_some_and(|reading| reading.state == DatabaseState::Owned))
    }

    /// The figures now; `None` when the process is gone or has closed the database.
    pub fn read(&self) -> Option<Reading> {
        // The memory file that is open here outlives its process.
        if fs::read_link(&self.link).ok()? != self.name {
            return None;
        }
        let mut bytes = [0; PAGE_BYTES];
        self.file.read_exact_at(&mut bytes, 0).ok()?;
        Reading::parse(&bytes)
    }
}

impl Reading {
    /// A reading of figures that come from elsewhere.
    pub fn new(state: DatabaseState, opened: SystemTime, figures: Vec<(String, FigureKind, u64)>) -> Reading {
        Reading { state, opened, figures, visitor: None, process: 0 }
    }

    /// Reads the figures that an opening has left in a file, by `LITEFOOT_FIGURES`.
    ///
    /// # Errors
    /// The file cannot be read, or is none of these.
    pub fn of_file(path: &Path) -> io::Result<Reading> {
        let mut bytes = [0; PAGE_BYTES];
        File::open(path)?.read_exact_at(&mut bytes, 0)?;
        Reading::parse_in_any_state(&bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Reads a page; `None` for one that is closed or of a layout that is not known.
    pub(crate) fn parse(bytes: &[u8; PAGE_BYTES]) -> Option<Reading> {
        Reading::parse_in_any_state(bytes).filter(|reading| reading.state != DatabaseState::Closed)
    }

    fn parse_in_any_state(bytes: &[u8; PAGE_BYTES]) -> Option<Reading> {
        let word = |place: usize| -> Option<u64> {
            Some(u64::from_ne_bytes(bytes.get(8 * place..8 * place + 8)?.try_into().ok()?))
        };
        if !bytes.starts_with(&MAGIC) {
            return None;
        }
        let state = match word(STATE)? {
            0 => DatabaseState::Closed,
            2 => DatabaseState::Owned,
            3 => DatabaseState::MultiProcess,
            _ => DatabaseState::Open,
        };
        let count = usize::try_from(word(FIGURES)?).ok().filter(|count| *count <= PAGE_BYTES / 8)?;
        let names_at = 8 * (HEAD_WORDS + count);
        let names_end = usize::try_from(word(NAMES_BYTES)?).ok()?.checked_add(names_at)?;
        let names = std::str::from_utf8(bytes.get(names_at..names_end)?).ok()?;
        let figures = names.lines().take(count).enumerate().filter_map(|(place, line)| {
            let (kind, name) = match line.split_once(' ')? {
                ("c", name) => (FigureKind::Counter, name),
                ("g", name) => (FigureKind::Gauge, name),
                _ => return None,
            };
            let known = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte));
            (known && !name.is_empty()).then_some(())?;
            Some((name.to_owned(), kind, word(HEAD_WORDS + place)?))
        });
        Some(Reading {
            state,
            opened: UNIX_EPOCH.checked_add(Duration::from_millis(word(OPENED)?))?,
            figures: figures.collect(),
            visitor: visitor(bytes.get(8 * VISITOR..8 * VISITOR + VISITOR_BYTES)?),
            process: word(PROCESS)?,
        })
    }

    /// True where the process has read the database, and keeps others out or shares it with them.
    fn is_in_use(&self) -> bool {
        matches!(self.state, DatabaseState::Owned | DatabaseState::MultiProcess)
    }

    /// The value of a figure; 0 where it is not known.
    pub fn get(&self, name: &str) -> u64 {
        self.figures.iter().find(|(known, _, _)| known == name).map_or(0, |(_, _, value)| *value)
    }
}

/// The name of a program, behind which zeros stand.
fn visitor(bytes: &[u8]) -> Option<String> {
    let name = bytes.split(|byte| *byte == 0).next().filter(|name| !name.is_empty())?;
    // Nothing that a terminal would take for a command.
    let shown = |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '?' };
    Some(name.iter().map(shown).collect())
}

/// The open files of a process that have this name; none where it is not ours to know.
fn memory_files(process: u32, name: &Path) -> Vec<Published> {
    let entries = fs::read_dir(format!("{PROCESSES}/{process}/fd")).into_iter().flatten().flatten();
    let mut seen = Vec::new();
    entries
        .map(|entry| entry.path())
        .filter(|link| fs::read_link(link).is_ok_and(|target| target == name))
        .filter_map(|link| {
            // Another file may carry the name, or take its place meanwhile: opening it must neither wait nor take a
            // terminal.
            let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
            let file = OpenOptions::new().read(true).custom_flags(flags).open(&link).ok()?;
            let found = file.metadata().ok().filter(Metadata::is_file)?;
            let inode = found.ino();
            if seen.contains(&inode) {
                return None;
            }
            seen.push(inode);
            Some(Published { process, link, name: name.to_owned(), file })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::figures::Stats;
    use crate::stats::page::StatsPage;

    fn page() -> [u8; PAGE_BYTES] {
        let mut bytes = [0; PAGE_BYTES];
        let words = [u64::from_ne_bytes(MAGIC), 2, 77, 1000, 2, 14, 0, 0, 5, 6];
        for (place, word) in words.into_iter().enumerate() {
            bytes[8 * place..8 * place + 8].copy_from_slice(&word.to_ne_bytes());
        }
        bytes[80..94].copy_from_slice(b"c new.a\ng old\n");
        bytes
    }

    #[test]
    fn a_page_of_another_version_of_litefoot_is_understood() {
        let reading = Reading::parse(&page()).unwrap();
        let figures =
            [("new.a".to_owned(), FigureKind::Counter, 5), ("old".to_owned(), FigureKind::Gauge, 6)];
        assert_eq!(reading.figures, figures);
        assert!(
            reading.state == DatabaseState::Owned
                && reading.process == 77
                && reading.get("old") == 6
                && reading.get("x") == 0
        );
    }

    #[test]
    fn figures_that_stay_are_read_when_the_database_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let kept = StatsPage::kept(folder.path()).unwrap();
        Stats::add(&kept.commits_pages, 3);
        drop(kept);
        let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        let reading = Reading::of_file(&files[0]).unwrap();
        assert_eq!((files.len(), reading.state, reading.get("commits_pages")), (1, DatabaseState::Closed, 3));
        fs::write(&files[0], "short").unwrap();
        assert!(Reading::of_file(&files[0]).is_err());
    }

    #[test]
    fn what_cannot_be_right_is_not_believed() {
        type Spoil = fn(&mut [u8; PAGE_BYTES]);
        let cases: [(&str, Spoil); 7] = [
            ("another layout", |bytes| bytes[7] = 2),
            ("closed", |bytes| bytes[8..16].fill(0)),
            ("too many figures", |bytes| bytes[32..40].fill(0xff)),
            ("names behind the end", |bytes| bytes[40..48].fill(0xff)),
            ("names of more than there is", |bytes| bytes[41] = 0x10),
            ("no text", |bytes| bytes[80] = 0xff),
            ("opened never", |bytes| bytes[24..32].fill(0xff)),
        ];
        for (name, spoil) in cases {
            let mut bytes = page();
            spoil(&mut bytes);
            // A time beyond what the system can say is refused, and must not panic.
            let reading = Reading::parse(&bytes);
            assert!(reading.is_none() || name == "opened never", "{name}: {reading:?}");
        }
        let mut other = page();
        other[8] = 9;
        assert_eq!(Reading::parse(&other).unwrap().state, DatabaseState::Open, "a state of a later version");
        let mut odd = page();
        odd[82] = 0x1b;
        assert_eq!(Reading::parse(&odd).unwrap().figures.len(), 1, "no escape reaches a terminal");
    }

    #[test]
    fn the_name_of_a_visitor_is_text() {
        for (bytes, name) in [
            (*b"sqlite3\0\0\0\0\0\0\0\0\0", Some("sqlite3")),
            (*b"\0sqlite3\0\0\0\0\0\0\0\0", None),
            (*b"a\x1b[2J\xff 3456789 b", Some("a?[2J? 3456789 b")),
        ] {
            assert_eq!(visitor(&bytes).as_deref(), name);
        }
    }

    #[test]
    fn what_a_process_counts_is_found_until_it_is_closed() {
        let database = FileId { device: 0xabc, inode: u64::from(std::process::id()) };
        assert!(Published::find(database).is_none());
        let counted = StatsPage::shared(database);
        if counted.is_private() {
            return eprintln!("skipped: no memory files here");
        }
        assert!(Published::find(database).is_none(), "it is open, and nobody owns it");
        counted.set_state(DatabaseState::Owned);
        Stats::add(&counted.commits_pages, 3);
        let found = Published::find(database).unwrap();
        assert_eq!(found.process, std::process::id());
        assert_eq!(found.read().unwrap().get("commits_pages"), 3);
        Stats::add(&counted.commits_pages, 1);
        assert_eq!(found.read().unwrap().get("commits_pages"), 4);
        assert!(Published::find_owner(database).is_some());
        counted.note_shared(Some(std::process::id()));
        let reading = Published::find(database).unwrap().read().unwrap();
        assert_eq!((reading.state, reading.get("sharing_changes")), (DatabaseState::MultiProcess, 1));
        assert!(reading.visitor.is_some_and(|program| !program.is_empty()));
        assert!(Published::find_owner(database).is_none(), "it keeps nobody out");
        counted.note_alone();
        assert!(Published::find_owner(database).is_some());
        drop(counted);
        assert!(found.read().is_none() && Published::find(database).is_none());
    }
}
