//! Options of a database: URI parameters, `PRAGMA litefoot_*`, the CLI's `--set`, Python's keywords.
//!
//! One table has them all; `docs/options.md` comes from it as well (`cargo xtask docs`). An unknown name is an error: a typo
//! must not silently cost durability. A URI may hold parameters of others, too (`uri_parameters.rs`).

mod choices;
mod values;

pub use choices::{AtomicWrites, CommitLogForm, Direct, GroupSocket, PageCleaner, Sharing};

use litefoot_tier::{Latencies, PolicyKind};
use std::path::PathBuf;
use std::time::Duration;
use values::{
    MILLISECONDS, PATH, SECONDS, SIZE, SIZE_OR_AUTO, milliseconds, path, share, short, size, size_or_auto,
};

/// The options of a database.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// What is done where other processes use the database, too.
    pub sharing: Sharing,
    /// Where the processes of a group meet.
    pub group_socket: GroupSocket,
    /// Most bytes of the write-ahead log, and of a transaction's pages, in memory; `None` for what is free of the
    /// process's budget.
    pub write_buffer_size: Option<usize>,
    /// The guarantee behind transactions of one page that are written in place.
    pub atomic: AtomicWrites,
    /// Bytes of the redo log at which a rollback-journal database is checkpointed.
    pub max_wal_size: usize,
    /// The form of a commit in the log.
    pub commit_log: CommitLogForm,
    /// Most bytes of the commit log; 0 writes pages only.
    pub commit_log_size: usize,
    /// The path of the commit log; `None` for one beside the database.
    pub commit_log_path: Option<PathBuf>,
    /// The tier: a file on a fast non-volatile device, for hot chunks of the database.
    pub tier: Option<PathBuf>,
    /// Bytes of the tier.
    pub tier_size: usize,
    /// The policy that chooses the chunks on the tier.
    pub tier_policy: PolicyKind,
    /// The costs of writing a chunk to flash, to the tier, and of reading it there.
    pub tier_latencies: Latencies,
    /// The longest time from a commit at `synchronous=NORMAL` until it is durable.
    pub flush_interval: Duration,
    /// The least time between two checkpoints of a database at rest.
    pub checkpoint_timeout: Duration,
    /// The longest wait of a writer in the writer queue, before SQLite's busy handling.
    pub writer_timeout: Duration,
    /// Most bytes of pages in memory: 0 for none, `None` for what suits the machine.
    pub buffer_pool_size: Option<usize>,
    /// Reads past the system's cache.
    pub direct_io: Direct,
    /// The thread that spills pages of a large transaction.
    pub page_cleaner: PageCleaner,
    /// Thousandths of a transaction's memory that dirty pages fill before they are spilled.
    pub max_dirty_ratio: u16,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            sharing: Sharing::default(),
            group_socket: GroupSocket::default(),
            write_buffer_size: None,
            atomic: AtomicWrites::Auto,
            max_wal_size: 4 << 20,
            commit_log: CommitLogForm::Auto,
            commit_log_size: 4 << 20,
            commit_log_path: None,
            tier: None,
            tier_size: 8 << 20,
            tier_policy: PolicyKind::Ewma,
            tier_latencies: Latencies::default(),
            flush_interval: Duration::from_millis(10),
            checkpoint_timeout: Duration::from_secs(300),
            writer_timeout: Duration::from_secs(5),
            buffer_pool_size: None,
            direct_io: Direct::Auto,
            page_cleaner: PageCleaner::Auto,
            max_dirty_ratio: 800,
        }
    }
}

/// An option: its parser, and its documentation.
struct Known {
    name: &'static str,
    /// The kind of value, as it follows the word "takes" in an error.
    takes: &'static str,
    meaning: &'static str,
    /// The reason for a user to leave the default.
    change_when: &'static str,
    /// Sets a value; `None` for one that makes no sense.
    set: fn(&mut Options, &str) -> Option<()>,
    get: fn(&Options) -> String,
}

/// The documentation of an option (`docs/options.md`, by `cargo xtask docs`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The name that users write.
    pub name: &'static str,
    /// The default value, as a user would write it.
    pub default: String,
    /// The unit, or the words that can be set.
    pub takes: &'static str,
    /// The meaning, in Markdown.
    pub meaning: &'static str,
    /// The reason for a user to leave the default, in Markdown.
    pub change_when: &'static str,
}

/// An option that takes one of a few words, each of which stands for one value.
macro_rules! one_of {
    ($name:ident, $takes:literal, $meaning:literal, $change_when:literal, $($word:literal => $value:path),+ $(,)?) => {
        Known {
            name: stringify!($name),
            takes: $takes,
            meaning: $meaning,
            change_when: $change_when,
            set: |options, value| {
                options.$name = match value {
                    $($word => $value,)+
                    _ => return None,
                };
                Some(())
            },
            get: |options| match options.$name { $($value => $word,)+ }.to_owned(),
        }
    };
}

/// The table of all options: the parser, the PRAGMAs and `docs/options.md` come from here.
const KNOWN: &[Known] = &[
    Known {
        name: "buffer_pool_size",
        takes: SIZE_OR_AUTO,
        meaning: "most bytes of pages in memory, at least 1M, for all connections of the process together; SQLite's own \
                  caches come on top. `auto`: a quarter of what is free, at most 256M. `0`: SQLite's own caches only",
        change_when: "memory is scarce, or the database is larger and there is plenty",
        set: |options, value| size_or_auto(value).map(|bytes| options.buffer_pool_size = bytes),
        get: |options| options.buffer_pool_size.map_or("auto".to_owned(), |bytes| bytes.to_string()),
    },
    one_of!(
        direct_io,
        "auto, on or off",
        "`on`: read pages past the system's cache, so that memory holds one copy of them. `auto`: where it is larger than \
         half of the free memory. `off`: nowhere",
        "two copies hurt (`on`; the system then cannot read a fragmented file in its own order, and a long scan is some \
         times slower), or other programs read the same file (`off`); no effect with `tier`",
        "auto" => Direct::Auto,
        "on" => Direct::On,
        "off" => Direct::Off,
    ),
    Known {
        name: "write_buffer_size",
        takes: SIZE_OR_AUTO,
        meaning: "most bytes of SQLite's write-ahead log, and of a transaction's pages, in memory. `auto`: 16M of the log \
                  between transactions (a quarter of `buffer_pool_size` where that is less), and for a transaction under way what \
                  is free of `buffer_pool_size`. The rest of a transaction goes where it will stay: new pages into the database \
                  file, others to the redo log",
        change_when: "a part of the memory must stay free for readers",
        set: |options, value| size_or_auto(value).map(|bytes| options.write_buffer_size = bytes),
        get: |options| options.write_buffer_size.map_or("auto".to_owned(), |bytes| bytes.to_string()),
    },
    one_of!(
        page_cleaner,
        "auto, background or foreground",
        "which thread writes pages of a transaction that is too large for memory: one of its own (`background`), the one \
         of the statement (`foreground`), or what suits the transaction (`auto`)",
        "the processor has one core (`foreground`)",
        "auto" => PageCleaner::Auto,
        "background" => PageCleaner::Background,
        "foreground" => PageCleaner::Foreground,
    ),
    Known {
        name: "max_dirty_ratio",
        takes: "a number from 0.1 to 1, such as 0.8",
        meaning: "the part of a transaction's memory that changed pages fill before they are written, in sorted batches, \
                  the ones longest unchanged first",
        change_when: "commits after large transactions must be shorter (smaller)",
        set: |options, value| share(value).map(|value| options.max_dirty_ratio = value),
        get: |options| (f64::from(options.max_dirty_ratio) / 1000.0).to_string(),
    },
    one_of!(
        commit_log,
        "auto, deltas, pages or statements",
        "the form of a commit. `deltas`: how its pages differ from the versions before, in WAL mode and with rollback journals. \
         `pages`: whole pages in the redo log. `auto`: deltas in WAL mode, once commits keep coming; pages with rollback \
         journals. With `tier` rollback journals have pages in any case. `statements`: in WAL mode its statements, where that is exact; this puts \
         SQLite's trace hook into the application's connection, and only the same build of SQLite can recover such a log",
        "stock SQLite must see the newest commit of a WAL database after a crash (`pages`); a database with a rollback journal \
         shall write less, and stock SQLite may see an older commit after a crash (`deltas`); transactions are small, the \
         application is known, and bytes written count most (`statements`)",
        "auto" => CommitLogForm::Auto,
        "deltas" => CommitLogForm::Deltas,
        "pages" => CommitLogForm::Pages,
        "statements" => CommitLogForm::Statements,
    ),
    Known {
        name: "commit_log_size",
        takes: SIZE,
        meaning: "most bytes of the commit log. `0`: commits write pages only",
        change_when: "opening after a crash must be quicker (smaller), or pages shall be checkpointed less often (larger)",
        set: |options, value| size(value).map(|value| options.commit_log_size = value),
        get: |options| options.commit_log_size.to_string(),
    },
    Known {
        name: "max_wal_size",
        takes: SIZE,
        meaning: "bytes of the redo log at which a rollback-journal database is checkpointed",
        change_when: "as for the commit log",
        set: |options, value| size(value).map(|value| options.max_wal_size = value),
        get: |options| options.max_wal_size.to_string(),
    },
    Known {
        name: "flush_interval_ms",
        takes: MILLISECONDS,
        meaning: "milliseconds until a commit at `synchronous=NORMAL` is durable, or eight times as long as a sync takes \
                  where that is longer; a power cut loses no more",
        change_when: "more may be lost for fewer syncs",
        set: |options, value| milliseconds(value).map(|value| options.flush_interval = value),
        get: |options| options.flush_interval.as_millis().to_string(),
    },
    Known {
        name: "checkpoint_timeout",
        takes: SECONDS,
        meaning: "least seconds between two checkpoints of a database at rest. A second after its last commit a database whose \
                  deltas wait is checkpointed, so that stock SQLite sees the newest commit, and a crash finds nothing to recover",
        change_when: "stock SQLite looks at the file often (smaller), or single commits that are far apart shall write \
                      less (larger)",
        set: |options, value| {
            value.parse().ok().map(|secs| options.checkpoint_timeout = Duration::from_secs(secs))
        },
        get: |options| options.checkpoint_timeout.as_secs().to_string(),
    },
    Known {
        name: "writer_timeout_ms",
        takes: MILLISECONDS,
        meaning: "milliseconds that a writer waits for its turn inside the process, in order, before SQLite's busy handling",
        change_when: "the application wants `SQLITE_BUSY` soon",
        set: |options, value| milliseconds(value).map(|value| options.writer_timeout = value),
        get: |options| options.writer_timeout.as_millis().to_string(),
    },
    one_of!(
        atomic,
        "auto, off or assume4k",
        "`auto`: write a transaction of one page in place where the device guarantees that it never tears the page. \
         `off`: never. `assume4k`: take that for granted; a device that does tear 4 KiB corrupts the database at a \
         power cut",
        "the device's data sheet promises it (`assume4k`)",
        "auto" => AtomicWrites::Auto,
        "assume4k" => AtomicWrites::Assume4k,
        "off" => AtomicWrites::Off,
    ),
    Known {
        name: "commit_log_path",
        takes: PATH,
        meaning: "a file on a fast non-volatile device for the commit log of this one database; it is needed whenever \
                  the database is opened after a crash. On a DAX file system it is mapped, and a commit flushes cache \
                  lines instead of syncing",
        change_when: "there is such a device",
        set: |options, value| {
            options.commit_log_path = path(value);
            Some(())
        },
        get: |options| {
            options.commit_log_path.as_ref().map_or(String::new(), |path| path.display().to_string())
        },
    },
    Known {
        name: "tier",
        takes: PATH,
        meaning: "a file on a fast non-volatile device for the chunks of this one database that are written most, and \
                  its logs; it is needed whenever the database is opened, until a clean close or `litefoot tier drain`. \
                  Each database needs its own ([tier](tier.md))",
        change_when: "there is such a device, and flash is slow or wears",
        set: |options, value| {
            options.tier = path(value);
            Some(())
        },
        get: |options| options.tier.as_ref().map_or(String::new(), |path| path.display().to_string()),
    },
    Known {
        name: "tier_size",
        takes: SIZE,
        meaning: "bytes of that file; it keeps its size while chunks live on it. The logs take up to `max_wal_size` or \
                  `write_buffer_size`, and `commit_log_size`, in addition",
        change_when: "the chunks that are written often are more, or fewer",
        set: |options, value| size(value).map(|value| options.tier_size = value),
        get: |options| options.tier_size.to_string(),
    },
    one_of!(
        tier_policy,
        "ewma, lru or none",
        "which chunks live there: those that commits change most (`ewma`), those written last (`lru`), or none, so that the \
         device has the logs alone (`none`)",
        "the set of hot chunks changes quickly, or fits as a whole (`lru`); the device has little room beside the logs (`none`)",
        "ewma" => PolicyKind::Ewma,
        "lru" => PolicyKind::Lru,
        "none" => PolicyKind::None,
    ),
    Known {
        name: "tier_latencies",
        takes: "three numbers of microseconds, such as 800,204.8,40.96",
        meaning: "what 2 KiB cost: written to flash, written to the device, read there. By these `ewma` weighs what a chunk \
                  saves there against moving it",
        change_when: "the devices are known, and differ from NAND flash beside phase-change memory",
        set: |options, value| value.parse().map(|value| options.tier_latencies = value).ok(),
        get: |options| options.tier_latencies.to_string(),
    },
    one_of!(
        sharing,
        "auto, group, separate, exclusive or passthrough",
        "`auto`: litefoot's commits while this process is the only one that has the database open, SQLite's own protocol \
         while others have. Outside of WAL mode, and where commits wait for flushes of a millisecond or more, other processes of litefoot's are no \
         others: the first of them commits for all. `group`: the same everywhere, with processes that say `group`. `separate`: all others are others. `exclusive`: other processes find the database locked. \
         `passthrough`: SQLite's own VFS, without litefoot's commits",
        "several processes with litefoot write the database (`group`), and some without it all the time (`passthrough`); nobody \
         else shall read or write it (`exclusive`)",
        "auto" => Sharing::Auto,
        "group" => Sharing::Group,
        "separate" => Sharing::Separate,
        "exclusive" => Sharing::Exclusive,
        "passthrough" => Sharing::Passthrough,
    ),
    one_of!(
        group_socket,
        "name or file",
        "where the processes of `sharing=group` meet: at a name that is no file (`name`), or at the file `<database>-group` (`file`). \
         All of them say the same",
        "they are in several containers that share the database's directory and no network (`file`)",
        "name" => GroupSocket::Name,
        "file" => GroupSocket::File,
    ),
];

impl Options {
    /// True where commits may be logged as statements.
    pub fn logs_statements(&self) -> bool {
        self.commit_log == CommitLogForm::Statements && self.commit_log_size > 0
    }

    /// True where commits of a database in WAL mode may be logged as deltas.
    pub fn logs_deltas(&self) -> bool {
        matches!(self.commit_log, CommitLogForm::Auto | CommitLogForm::Deltas) && self.commit_log_size > 0
    }

    /// The same for databases with rollback journals, where deltas must be chosen. With a tier they have pages.
    pub fn logs_rollback_deltas(&self) -> bool {
        self.commit_log == CommitLogForm::Deltas && self.logs_deltas() && self.tier.is_none()
    }

    /// Sets one option by name.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match KNOWN.iter().find(|known| known.name == name) {
            Some(known) => (known.set)(self, value)
                .ok_or_else(|| format!("option {name}={value:?}: {name} takes {}", known.takes)),
            None => Err(format!("unknown option {name:?}; litefoot knows {}", Options::names())),
        }
    }

    /// The value of an option, as it would be set; `None` for an unknown name.
    pub fn get(&self, name: &str) -> Option<String> {
        KNOWN.iter().find(|known| known.name == name).map(|known| (known.get)(self))
    }

    /// Sets the options of a list `name=value&name=value`.
    pub fn set_list(&mut self, list: &str) -> Result<(), String> {
        for item in list.split('&').filter(|item| !item.is_empty()) {
            let (name, value) = item
                .split_once('=')
                .ok_or_else(|| format!("option {item:?} has no value: write {item}=…"))?;
            self.set(name, value)?;
        }
        Ok(())
    }

    /// The names of all options.
    pub fn names() -> String {
        Options::all().collect::<Vec<_>>().join(", ")
    }

    /// The name of each option.
    pub(crate) fn all() -> impl Iterator<Item = &'static str> {
        KNOWN.iter().map(|known| known.name)
    }

    /// True for the name of an option.
    pub(crate) fn known(name: &str) -> bool {
        Options::all().any(|known| known == name)
    }

    /// The documentation of each option.
    pub fn described() -> impl Iterator<Item = Described> {
        let defaults = Options::default();
        KNOWN.iter().map(move |known| Described {
            name: known.name,
            default: short((known.get)(&defaults), known.takes),
            takes: known.takes,
            meaning: known.meaning,
            change_when: known.change_when,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_values_and_mistakes() {
        let cases: &[(&str, Result<bool, &str>)] = &[
            ("", Ok(false)),
            ("sharing=passthrough", Ok(true)),
            ("sharing=passthrough&sharing=auto", Ok(false)),
            ("sharing=maybe", Err("sharing takes auto, group, separate, exclusive or passthrough")),
            ("shard=1", Err("unknown option \"shard\"")),
            ("mode=ro", Err("unknown option \"mode\"")),
            ("sharing", Err("has no value")),
        ];
        for (list, expected) in cases {
            let mut options = Options::default();
            match (options.set_list(list), expected) {
                (Ok(()), Ok(shared)) => {
                    assert_eq!(options.sharing == Sharing::Passthrough, *shared, "{list}")
                }
                (Err(message), Err(part)) => assert!(message.contains(part), "{list}: {message}"),
                (result, expected) => panic!("{list}: {result:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn every_option_takes_its_default_and_is_described() {
        for option in Options::described() {
            let mut options = Options::default();
            assert_eq!(options.set(option.name, &option.default), Ok(()), "{option:?}");
            assert_eq!(options, Options::default(), "{option:?}");
            assert!(option.meaning.len() > 20 && !option.change_when.is_empty(), "{option:?}");
            let cells = format!("{}{}{}", option.takes, option.meaning, option.change_when);
            assert!(!cells.contains(['|', '\n']), "a cell of a table: {cells}");
        }
    }

    #[test]
    fn values_are_read_by_their_unit() {
        for (name, value, expected) in [
            ("buffer_pool_size", "auto", Ok("auto")),
            ("buffer_pool_size", "4M", Ok("4194304")),
            (
                "buffer_pool_size",
                "much",
                Err("buffer_pool_size takes a number of bytes, such as 4M, or auto"),
            ),
            ("commit_log_size", "1k", Ok("1024")),
            ("commit_log_size", "auto", Err("commit_log_size takes a number of bytes, such as 4M")),
            ("commit_log_size", "99999999999999999999", Err("commit_log_size takes a number of bytes")),
            ("writer_timeout_ms", "500", Ok("500")),
            ("writer_timeout_ms", "-1", Err("writer_timeout_ms takes a number of milliseconds")),
            ("max_dirty_ratio", "0.25", Ok("0.25")),
            ("max_dirty_ratio", "2", Err("max_dirty_ratio takes a number from 0.1 to 1")),
            ("commit_log", "deltas", Ok("deltas")),
            ("direct_io", "sometimes", Err("direct_io takes auto, on or off")),
            ("tier", "", Ok("")),
        ] {
            let mut options = Options::default();
            match (options.set(name, value), expected) {
                (Ok(()), Ok(set)) => assert_eq!(options.get(name).as_deref(), Some(set), "{name}={value}"),
                (Err(message), Err(part)) => assert!(message.contains(part), "{name}={value}: {message}"),
                (result, expected) => panic!("{name}={value}: {result:?}, expected {expected:?}"),
            }
        }
    }
}
