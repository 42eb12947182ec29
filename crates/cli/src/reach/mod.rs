//! Which programs carry which SQLite, and whether litefoot reaches it.
//!
//! Preloading replaces one function, `sqlite3_os_init`, in every SQLite that calls it through its procedure linkage table. So a
//! file is reached where it has that function **and** a relocation for it; that is read from the file, and nothing of it runs.
//!
//! | module | decides |
//! |---|---|
//! | [`elf`] | the facts of a program or a library: loader, libraries, SQLite inside, modules of Go |
//! | [`program`] | which file a command line runs: the search of the shell, scripts and their interpreters |
//! | [`obstacle`] | what takes the preload away before SQLite begins: static programs, setuid, `sudo`, `env -i` |
//! | [`first_look`] | the one line of `litefoot run`, from few reads |
//! | [`carriers`] | every SQLite that a program carries, by its libraries and its language |
//! | [`ways`] | the way in for each kind of carrier: a table |
//! | [`process`] | the same of a process that runs, and of its databases |
//!
//! # Invariants
//! 1. A claim is certain, or it is not made: what cannot be read is said to be unknown.
//! 2. Nothing of the user's runs, but for interpreters of Python and PHP, which are asked where their modules are, and the system's loader,
//!    which lists libraries.
//! 3. A database file that somebody holds a lease on is never opened: its owner would have to share it.

pub mod carriers;
pub mod elf;
pub mod first_look;
pub mod obstacle;
pub mod process;
pub mod program;
pub mod ways;
