//! Statistics of one open database: `litefoot_stats` and `PRAGMA litefoot_stats` show them inside the process, `litefoot
//! stat` from outside.
//!
//! | file | holds |
//! |---|---|
//! | `figures` | the figures, by name, kind and meaning |
//! | `fallback` | the causes for which a commit writes pages |
//! | `page` | the statistics page: the memory of the figures, which other processes can read |
//! | `published` | reading the statistics page of another process |
//! | `processes` | which processes there are, and which of them have a file open |
//! | `meter` | counting writes to the companion files of a database |

mod fallback;
mod figures;
mod meter;
mod page;
mod processes;
mod published;

pub(crate) use fallback::FallbackCause;
pub(crate) use figures::Stats;
pub use figures::{Described, FigureKind, described, described_causes, figures};
pub(crate) use meter::{Meter, MeteredFile};
pub use page::{DatabaseState, KEEP_VARIABLE};
pub(crate) use page::{PAGE_BYTES, StatsPage, image, now_ms};
pub(crate) use processes::name_of_group;
pub use processes::{groups_of, process_that_opened, processes_of_group, processes_that_opened, program};
pub use published::{Published, Reading};
