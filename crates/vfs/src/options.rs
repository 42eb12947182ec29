//! Options of a database: URI parameters, `PRAGMA litefoot_*`, the CLI's `--set`, Python's keywords.
//!
//! One table names them all. An unknown name is an error, so that a typo cannot silently cost durability; in a URI there
//! are names of others, too (`parameters.rs`).

use litefoot_engine::tier::Kind;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// What a database is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Give up ownership: the platform's own VFS serves this database, for ordinary multi-process use.
    pub shared: bool,
    /// Most bytes of the write-ahead log, and of a transaction's pages, in memory; `None` for what is free of the
    /// memory of the process.
    pub wal_memory: Option<usize>,
    /// Which single-page transactions are written in place.
    pub atomic: AtomicWrites,
    /// Bytes of the redo log at which a rollback-journal database begins it anew.
    pub log_bytes: usize,
    /// Whether a commit of a database in WAL mode may be logged as its statements. They are watched by SQLite's trace hook.
    pub statements: bool,
    /// Most bytes of the statement log of a database in WAL mode; 0 writes pages only.
    pub sla_size: usize,
    /// Where the statement log lies, if not beside the database.
    pub nvram: Option<PathBuf>,
    /// The file on a fast non-volatile device that hot chunks of the database live on.
    pub tier: Option<PathBuf>,
    /// Bytes of it.
    pub tier_size: usize,
    /// Which chunks live there.
    pub tier_policy: Kind,
    /// How long what was committed at `synchronous=NORMAL` may take to be durable.
    pub normal_window: Duration,
    /// How long a writer waits for its turn inside the process.
    pub busy_wait: Duration,
    /// Most bytes of pages in memory: 0 for none, `None` for what suits the machine.
    pub pool: Option<usize>,
    /// Whether reads bypass the system's cache.
    pub direct: Direct,
    /// Who writes away what a large transaction holds back.
    pub cleaner: Cleaner,
    /// Thousandths of the memory for changed pages at which cleaning begins.
    pub clean_threshold: u16,
}

/// Who cleans: writes pages of a transaction away while it goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cleaner {
    /// A thread where the pages leave for good, the transaction itself where they come back.
    #[default]
    Auto,
    /// A thread.
    Background,
    /// The transaction itself.
    Caller,
}

/// Whether pages are read past the system's cache, so that memory holds one copy of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direct {
    /// Where the system could not keep the database in memory anyway.
    #[default]
    Auto,
    /// Wherever the file can be read like that.
    On,
    /// Nowhere.
    Off,
}

/// What is taken for a write that reaches the medium whole or not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtomicWrites {
    /// What the device guarantees.
    #[default]
    Auto,
    /// Any aligned write of 4 KiB, guaranteed or not.
    Assume4k,
    /// Nothing.
    Off,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            shared: false,
            wal_memory: None,
            atomic: AtomicWrites::Auto,
            log_bytes: 4 << 20,
            statements: false,
            sla_size: 4 << 20,
            nvram: None,
            tier: None,
            tier_size: 8 << 20,
            tier_policy: Kind::Ewma,
            normal_window: Duration::from_millis(10),
            busy_wait: Duration::from_secs(5),
            pool: None,
            direct: Direct::Auto,
            cleaner: Cleaner::Auto,
            clean_threshold: 800,
        }
    }
}

struct Known {
    name: &'static str,
    help: &'static str,
    set: fn(&mut Options, &str) -> Result<(), &'static str>,
    get: fn(&Options) -> String,
}

/// An option that takes one of a few words, each of which stands for one value.
macro_rules! one_of {
    ($name:ident, $help:literal, $mistake:literal, $($word:literal => $value:path),+ $(,)?) => {
        Known {
            name: stringify!($name),
            help: $help,
            set: |options, value| {
                options.$name = match value {
                    $($word => $value,)+
                    _ => return Err($mistake),
                };
                Ok(())
            },
            get: |options| match options.$name { $($value => $word,)+ }.to_owned(),
        }
    };
}

const KNOWN: &[Known] = &[
    Known {
        name: "shared",
        help: "0 or 1: leave the database to SQLite's own VFS, so that several processes can use it",
        set: |options, value| boolean(value).map(|value| options.shared = value),
        get: |options| u8::from(options.shared).to_string(),
    },
    Known {
        name: "wal_memory",
        help: "most bytes (K, M, G) of the write-ahead log, and of a transaction's pages, in memory; auto: 16M of the \
               log between transactions, and for one under way what is free of the memory of the process (pool)",
        set: |options, value| {
            options.wal_memory = if value == "auto" { None } else { Some(size(value)?) };
            Ok(())
        },
        get: |options| options.wal_memory.map_or("auto".to_owned(), |bytes| bytes.to_string()),
    },
    one_of!(
        atomic,
        "auto, off or assume4k: write a transaction of one page in place where the device guarantees \
         that it is never torn; assume4k takes that for granted, and a device that does tear 4 KiB \
         corrupts the database at a power cut",
        "takes auto, off or assume4k",
        "auto" => AtomicWrites::Auto,
        "assume4k" => AtomicWrites::Assume4k,
        "off" => AtomicWrites::Off,
    ),
    Known {
        name: "log_bytes",
        help: "bytes (K, M, G) of the redo log at which a rollback-journal database begins it anew",
        set: |options, value| size(value).map(|value| options.log_bytes = value),
        get: |options| options.log_bytes.to_string(),
    },
    Known {
        name: "statements",
        help: "off or on: log a commit of a database in WAL mode as its statements, where that is exact; SQLite's trace \
               hook then tells of the application's statements",
        set: |options, value| boolean(value).map(|value| options.statements = value),
        get: |options| if options.statements { "on" } else { "off" }.to_owned(),
    },
    Known {
        name: "sla_size",
        help: "most bytes (K, M, G) of the statement log (statements=on); 0: commits write pages only",
        set: |options, value| size(value).map(|value| options.sla_size = value),
        get: |options| options.sla_size.to_string(),
    },
    Known {
        name: "nvram",
        help: "a file on a fast non-volatile device for the statement log, which else lies beside the database; \
               needed whenever the database is opened after a crash",
        set: |options, value| {
            options.nvram = (!value.is_empty()).then(|| PathBuf::from(value));
            Ok(())
        },
        get: |options| options.nvram.as_ref().map_or(String::new(), |path| path.display().to_string()),
    },
    Known {
        name: "tier",
        help: "a file on a fast non-volatile device on which the chunks live that are written most, and the logs; \
               needed whenever the database is opened, until a clean close or `litefoot tier drain` has brought \
               them home; each database needs its own",
        set: |options, value| {
            options.tier = (!value.is_empty()).then(|| PathBuf::from(value));
            Ok(())
        },
        get: |options| options.tier.as_ref().map_or(String::new(), |path| path.display().to_string()),
    },
    Known {
        name: "tier_size",
        help: "bytes (K, M, G) of that file; it keeps the size it has while chunks live on it",
        set: |options, value| size(value).map(|value| options.tier_size = value),
        get: |options| options.tier_size.to_string(),
    },
    one_of!(
        tier_policy,
        "ewma or lru: which chunks live there, those written most over the last transactions, or those \
         written last",
        "takes ewma or lru",
        "ewma" => Kind::Ewma,
        "lru" => Kind::Lru,
    ),
    Known {
        name: "normal_window",
        help: "milliseconds until what was committed at synchronous=NORMAL is durable; a power cut loses no more",
        set: |options, value| milliseconds(value).map(|value| options.normal_window = value),
        get: |options| options.normal_window.as_millis().to_string(),
    },
    Known {
        name: "busy_wait",
        help: "milliseconds that a writer waits for its turn inside the process before SQLite's busy handling",
        set: |options, value| milliseconds(value).map(|value| options.busy_wait = value),
        get: |options| options.busy_wait.as_millis().to_string(),
    },
    Known {
        name: "pool",
        help: "most bytes (K, M, G) of pages in memory, at least 1M, for all connections of the process together; \
               auto: a quarter of what is free, at most 256M; 0: SQLite's own caches only",
        set: |options, value| {
            options.pool = if value == "auto" { None } else { Some(size(value)?) };
            Ok(())
        },
        get: |options| options.pool.map_or("auto".to_owned(), |bytes| bytes.to_string()),
    },
    one_of!(
        direct,
        "auto, on or off: read pages past the system's cache, so that memory holds one copy of them; \
         auto does where the database is larger than half of the memory that is free",
        "takes auto, on or off",
        "auto" => Direct::Auto,
        "on" => Direct::On,
        "off" => Direct::Off,
    ),
    one_of!(
        cleaner,
        "auto, background or caller: who writes pages away of a transaction that is too large for memory: a \
         thread, the statement that finds too many changed, or what suits the transaction",
        "takes auto, background or caller",
        "auto" => Cleaner::Auto,
        "background" => Cleaner::Background,
        "caller" => Cleaner::Caller,
    ),
    Known {
        name: "clean_threshold",
        help: "0.1 to 1: the part of a transaction's memory that changed pages fill before they are written away, \
               in sorted batches, the ones longest unchanged first",
        set: |options, value| share(value).map(|value| options.clean_threshold = value),
        get: |options| (f64::from(options.clean_threshold) / 1000.0).to_string(),
    },
];

/// A part of one, in thousandths.
fn share(value: &str) -> Result<u16, &'static str> {
    let share = value.parse().ok().filter(|share: &f64| (0.1..=1.0).contains(share));
    share.map(|share| (share * 1000.0).round() as u16).ok_or("takes a number from 0.1 to 1, such as 0.8")
}

/// A number of bytes, with a suffix for 1,024 of them and so on.
fn size(value: &str) -> Result<usize, &'static str> {
    let suffix = value.trim_start_matches(|c: char| c.is_ascii_digit());
    let shift = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err("takes a number of bytes, such as 4M"),
    };
    let number = value[..value.len() - suffix.len()].parse::<usize>().ok();
    number.and_then(|number| number.checked_mul(1 << shift)).ok_or("takes a number of bytes, such as 4M")
}

fn milliseconds(value: &str) -> Result<Duration, &'static str> {
    value.parse().map(Duration::from_millis).map_err(|_| "takes a number of milliseconds, such as 10")
}

fn boolean(value: &str) -> Result<bool, &'static str> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => Ok(true),
        "0" | "off" | "no" | "false" => Ok(false),
        _ => Err("takes 0 or 1"),
    }
}

impl Options {
    /// Whether commits are logged as statements at all.
    pub fn logs_statements(&self) -> bool {
        self.statements && self.sla_size > 0
    }

    /// Sets one option by name.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match KNOWN.iter().find(|known| known.name == name) {
            Some(known) => {
                (known.set)(self, value).map_err(|why| format!("option {name}={value:?}: {name} {why}"))
            }
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

    /// Each of them.
    pub(crate) fn all() -> impl Iterator<Item = &'static str> {
        KNOWN.iter().map(|known| known.name)
    }

    /// Whether there is an option of this name.
    pub(crate) fn known(name: &str) -> bool {
        Options::all().any(|known| known == name)
    }

    /// One line of help for each option.
    pub fn help() -> String {
        KNOWN.iter().fold(String::new(), |mut text, known| {
            let _ = writeln!(text, "{:<14} {}", known.name, known.help);
            text
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
            ("shared=1", Ok(true)),
            ("shared=1&shared=off", Ok(false)),
            ("shared=maybe", Err("shared takes 0 or 1")),
            ("shard=1", Err("unknown option \"shard\"")),
            ("mode=ro", Err("unknown option \"mode\"")),
            ("shared", Err("has no value")),
        ];
        for (list, expected) in cases {
            let mut options = Options::default();
            match (options.set_list(list), expected) {
                (Ok(()), Ok(shared)) => assert_eq!(options.shared, *shared, "{list}"),
                (Err(message), Err(part)) => assert!(message.contains(part), "{list}: {message}"),
                (result, expected) => panic!("{list}: {result:?}, expected {expected:?}"),
            }
        }
    }
}
