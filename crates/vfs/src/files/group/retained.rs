//! What a process retains of its owner between connections: the file that it has borrowed, and pages.
//!
//! # Why
//! Many programs open a connection for each request. Each would borrow the file with three messages and a thread, and read the same pages once more.
//!
//! # Promises
//! 1. It is retained for [`LINGER`], or up to twice that. Then the file is given back, unless a connection uses it.
//! 2. One connection at a time has the pages. It asks the owner what has changed since.
//! 3. A forked child has nothing of its parent's.

use crate::files::group::kept_pages::KeptPages;
use crate::files::group::lent_pages::LentPages;
use litefoot_storage::sync::{AcrossFork, Global};
use litefoot_storage::thread;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long something is retained behind the last connection that has used it.
const LINGER: Duration = Duration::from_secs(1);
/// Most databases of which something is retained.
const MOST_DATABASES: usize = 4;

/// What is retained of one owner.
struct Retained {
    path: PathBuf,
    lent: Arc<LentPages>,
    kept: KeptPages,
    until: Instant,
}

#[derive(Default)]
struct All {
    retained: Vec<Retained>,
    /// True while a thread gives back what is over.
    is_watched: bool,
}

impl AcrossFork for All {
    fn inherit(parents: All) -> All {
        // To give it back would end the parent's stream.
        std::mem::forget(parents);
        All::default()
    }
}

static ALL: Global<All> = Global::new(All { retained: Vec::new(), is_watched: false });

/// A connection to the database at a path is closed, which has used that file, and has had these pages.
pub(super) fn retain(path: &Path, lent: Arc<LentPages>, kept: KeptPages) {
    let next = Retained { path: path.to_owned(), lent, kept, until: Instant::now() + LINGER };
    let mut all = ALL.lock();
    // Dropped behind the lock: to give a file back is a system call.
    let mut over: Vec<Retained> = all.retained.extract_if(.., |other| other.path == path).collect();
    if all.retained.len() >= MOST_DATABASES {
        over.push(all.retained.remove(0));
    }
    if !all.is_watched {
        // Without a thread nothing is retained.
        all.is_watched = thread::spawn("litefoot-retain", give_back).is_ok();
    }
    if all.is_watched {
        all.retained.push(next)
    } else {
        over.push(next)
    }
    drop(all);
}

/// The pages of an earlier connection to the database at a path, and the number of the marks of their owner, which lives.
pub(super) fn take_pages(path: &Path) -> Option<(u64, KeptPages)> {
    let mut all = ALL.lock();
    let found =
        all.retained.iter_mut().find(|retained| retained.path == path && retained.lent.has_owner())?;
    Some((found.lent.id(), std::mem::take(&mut found.kept)))
}

/// Gives back what nobody has used for a while, until there is nothing.
fn give_back() {
    loop {
        std::thread::sleep(LINGER);
        let mut all = ALL.lock();
        let now = Instant::now();
        let over: Vec<Retained> = all.retained.extract_if(.., |retained| retained.until <= now).collect();
        all.is_watched = !all.retained.is_empty();
        let goes_on = all.is_watched;
        drop(all);
        drop(over);
        if !goes_on {
            return;
        }
    }
}
