//! Options of an experiment.

use std::path::PathBuf;

/// Which journals an experiment covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Journals {
    /// Write-ahead logs.
    Wal,
    /// Rollback journals.
    Rollback,
    /// Both families.
    #[default]
    Both,
}

/// Options of an experiment.
#[derive(Clone, Debug)]
pub struct Options {
    /// The short form: at most 45 seconds.
    pub quick: bool,
    /// The seed of everything random.
    pub seed: u64,
    /// A directory on the device to be measured; what is made there is removed at the end.
    pub directory: PathBuf,
    /// How many power cuts, where the experiment takes [`Flag::Cuts`].
    pub cuts: Option<u64>,
    /// Which journals, where the experiment takes [`Flag::Journal`].
    pub journals: Journals,
    /// True if the database has a tier device, where the experiment takes [`Flag::Tier`].
    pub tier: bool,
    /// True if stock SQLite comes to the database, where the experiment takes [`Flag::Visitors`].
    pub visitors: bool,
    /// How many rounds, or processes that are killed, where the experiment takes [`Flag::Rounds`].
    pub rounds: Option<u64>,
    /// Rows of a transaction, one or more numbers, where the experiment takes [`Flag::Rows`]; none for its own.
    pub rows: Vec<u64>,
    /// Names of journal modes, where the experiment takes [`Flag::Modes`]; none for its own.
    pub modes: Vec<String>,
    /// How many histories, where the experiment takes [`Flag::Count`].
    pub count: Option<u64>,
    /// How many sequences of statements, where the experiment takes [`Flag::Sequences`].
    pub sequences: Option<u64>,
    /// The beginning of the names of the cases that are run, where the experiment takes [`Flag::Case`].
    pub case: Option<String>,
    /// Names of patterns, `a,b`, where the experiment takes [`Flag::Patterns`]; all without them.
    pub patterns: Option<String>,
    /// How many commits a run makes, where the experiment takes [`Flag::Commits`].
    pub commits: Option<u64>,
    /// True if libraries of others are fetched first, where the experiment takes [`Flag::Install`].
    pub install: bool,
    /// How long it runs, where the experiment takes [`Flag::Seconds`].
    pub seconds: Option<u64>,
    /// True if stock SQLite is in litefoot's place, where the experiment takes [`Flag::Stock`].
    pub stock: bool,
    /// True if the application makes no pauses, where the experiment takes [`Flag::Tight`].
    pub tight: bool,
    /// True if the application is killed, where the experiment takes [`Flag::OwnerKill`].
    pub owner_kill: bool,
    /// True if the application is killed at every call of a change of state, where the experiment takes [`Flag::KillAtCalls`].
    pub kill_at_calls: bool,
    /// True if a process is killed at every store that others can see, where the experiment takes [`Flag::KillAtStores`].
    pub kill_at_stores: bool,
    /// liblitefoot.so, for experiments that load it into other programs.
    pub library: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            quick: false,
            seed: 1,
            directory: PathBuf::from("."),
            cuts: None,
            journals: Journals::default(),
            tier: false,
            visitors: false,
            rounds: None,
            rows: Vec::new(),
            modes: Vec::new(),
            count: None,
            sequences: None,
            case: None,
            patterns: None,
            commits: None,
            install: false,
            seconds: None,
            stock: false,
            tight: false,
            owner_kill: false,
            kill_at_calls: false,
            kill_at_stores: false,
            library: None,
        }
    }
}

/// An option that only some experiments take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// [`Options::cuts`].
    Cuts,
    /// [`Options::journals`].
    Journal,
    /// [`Options::tier`].
    Tier,
    /// [`Options::visitors`].
    Visitors,
    /// [`Options::case`].
    Case,
    /// [`Options::patterns`].
    Patterns,
    /// [`Options::commits`].
    Commits,
    /// [`Options::install`].
    Install,
    /// [`Options::rounds`].
    Rounds,
    /// [`Options::rows`].
    Rows,
    /// [`Options::modes`].
    Modes,
    /// [`Options::count`].
    Count,
    /// [`Options::sequences`].
    Sequences,
    /// [`Options::seconds`].
    Seconds,
    /// [`Options::stock`].
    Stock,
    /// [`Options::tight`].
    Tight,
    /// [`Options::owner_kill`].
    OwnerKill,
    /// [`Options::kill_at_calls`].
    KillAtCalls,
    /// [`Options::kill_at_stores`].
    KillAtStores,
}
