//! The tests of the pool, and of the tier, on other builds of SQLite.
//!
//! One checks itself at every step. It notices a change of a page that it was lent, and an answer that no file may
//! give. The other maps no file, as builds for some systems do, and reads every page. Each has a target directory of
//! its own, since SQLite takes a minute to compile.

use crate::process::{self, Result, Tally};

/// Name of the build, and what it is compiled with besides.
const BUILDS: [(&str, &str); 2] =
    [("sqlite-debug", "-DSQLITE_DEBUG"), ("sqlite-unmapped", "-DSQLITE_MAX_MMAP_SIZE=0")];

/// Runs them.
pub fn check() -> Result<Tally> {
    let mut total = Tally::default();
    for (name, flags) in BUILDS {
        println!("{name}: {flags}");
        let tests = ["test", "--locked", "-p", "litefoot", "--test", "pool", "--test", "tier"];
        let mut command = process::cargo_command(&tests);
        command
            .arg("--target-dir")
            .arg(process::target_directory().join(name))
            .env("LIBSQLITE3_FLAGS", flags);
        total.add(process::tally(&mut command)?);
    }
    Ok(total)
}
