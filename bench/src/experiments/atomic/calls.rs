//! Table 1: the system calls of an insert, by kind, and of all threads.
//!
//! The program is traced from behind its warm-up until its database is closed, so that work which litefoot puts off counts.
//! The lines by which the program is told and heard do not.

use super::program::{Inserts, Way};
use crate::experiments::apps::program::PATIENCE;
use crate::harness::tracer::{Made, Tracer};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

/// The rows, in the paper's order, and what it has none of.
pub const ROWS: [&str; 15] = [
    "read",
    "write",
    "open",
    "close",
    "unlink",
    "lseek",
    "fdatasync",
    "stat",
    "fstat",
    "getuid",
    "fchown",
    "fcntl",
    // A write that is durable when it returns, in one call.
    "durable_write",
    "futex",
    "other",
];

const AT_EMPTY_PATH: u64 = libc::AT_EMPTY_PATH as u64;
const DSYNC: u64 = (libc::RWF_DSYNC | libc::RWF_SYNC) as u64;

/// The row of a call.
fn row(call: &Made) -> &'static str {
    let number = call.number.cast_signed();
    #[cfg(target_arch = "x86_64")]
    match number {
        libc::SYS_open => return "open",
        libc::SYS_stat | libc::SYS_lstat | libc::SYS_access => return "stat",
        libc::SYS_unlink => return "unlink",
        _ => {}
    }
    #[cfg(target_pointer_width = "64")]
    match number {
        libc::SYS_newfstatat if call.arguments[3] & AT_EMPTY_PATH == 0 => return "stat",
        libc::SYS_newfstatat | libc::SYS_fstat => return "fstat",
        libc::SYS_getuid | libc::SYS_geteuid => return "getuid",
        libc::SYS_fchown => return "fchown",
        libc::SYS_fcntl => return "fcntl",
        _ => {}
    }
    match number {
        libc::SYS_read | libc::SYS_pread64 | libc::SYS_readv | libc::SYS_preadv => "read",
        // The flags are behind both halves of the offset.
        libc::SYS_pwritev2 if call.arguments[5] & DSYNC != 0 => "durable_write",
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => {
            "write"
        }
        libc::SYS_openat => "open",
        libc::SYS_close => "close",
        libc::SYS_unlinkat => "unlink",
        libc::SYS_lseek => "lseek",
        libc::SYS_fdatasync | libc::SYS_fsync => "fdatasync",
        libc::SYS_statx if call.arguments[2] & AT_EMPTY_PATH == 0 => "stat",
        libc::SYS_statx => "fstat",
        libc::SYS_faccessat => "stat",
        libc::SYS_futex => "futex",
        _ => "other",
    }
}

/// Calls of one insert, by [`ROWS`].
pub fn run(inserts: &Inserts, way: &Way, path: &Path, count: u64) -> Result<BTreeMap<&'static str, f64>> {
    let failed = |what: String| Error::Peer { name: way.name.to_owned(), what };
    let io = |error: std::io::Error| failed(error.to_string());
    let mut command = inserts.command(way, path, count);
    // A Ctrl-C is the experiment's alone.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).process_group(0);
    let mut child = command.spawn().map_err(io)?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(failed("it has no input".to_owned()));
    };
    let mut output = BufReader::new(output);
    let mut line = String::new();
    output.read_line(&mut line).map_err(io)?;
    if line.trim() != "ready" {
        return Err(failed(format!("it said {line:?}")));
    }
    let mut tracer = Tracer::attach(child.id()).map_err(|error| {
        // It ends with its input; both fail where it has ended.
        let _ = child.kill();
        let _ = child.wait();
        Error::Missing(format!("the right to trace its own processes, ptrace(2): {error}"))
    })?;
    tracer.record();
    // Both lines that it will wait for.
    input.write_all(b"\n\n").map_err(io)?;
    if !tracer.run_until(|_| false, PATIENCE, PATIENCE).map_err(io)? {
        return Err(failed("it hangs".to_owned()));
    }
    count_calls(&tracer.recorded(), count).ok_or_else(|| failed("it did not come to its end".to_owned()))
}

/// Calls of one insert: those before the line of figures, which is the second that the program says.
fn count_calls(made: &[Made], inserts: u64) -> Option<BTreeMap<&'static str, f64>> {
    let says = |call: &Made| call.number.cast_signed() == libc::SYS_write && call.arguments[0] == 1;
    let hears = |call: &Made| call.number.cast_signed() == libc::SYS_read && call.arguments[0] == 0;
    let mut counts: BTreeMap<&'static str, f64> = ROWS.iter().map(|row| (*row, 0.0)).collect();
    let mut said = 0;
    for call in made {
        said += u32::from(says(call));
        if said == 2 {
            counts.values_mut().for_each(|count| *count /= inserts as f64);
            return Some(counts);
        }
        if !says(call) && !hears(call) {
            *counts.entry(row(call)).or_default() += 1.0;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(number: libc::c_long, arguments: [u64; 6]) -> Made {
        Made { number: number.cast_unsigned(), arguments }
    }

    #[test]
    fn calls_have_their_rows() {
        let empty = AT_EMPTY_PATH;
        for (number, arguments, expected) in [
            (libc::SYS_pread64, [7; 6], "read"),
            (libc::SYS_pwrite64, [7; 6], "write"),
            (libc::SYS_pwritev2, [3, 0, 1, 0, 0, 0], "write"),
            (libc::SYS_pwritev2, [3, 0, 1, 0, 0, libc::RWF_DSYNC as u64], "durable_write"),
            (libc::SYS_statx, [3, 0, empty, 0, 0, 0], "fstat"),
            (libc::SYS_statx, [3, 0, 0, 0, 0, 0], "stat"),
            (libc::SYS_fdatasync, [3; 6], "fdatasync"),
            (libc::SYS_mmap, [3; 6], "other"),
        ] {
            assert_eq!(row(&made(number, arguments)), expected, "{number} {arguments:?}");
        }
    }

    #[test]
    fn what_the_program_says_and_hears_does_not_count() {
        let (says, hears) = (made(libc::SYS_write, [1; 6]), made(libc::SYS_read, [0; 6]));
        let (write, close) = (made(libc::SYS_pwrite64, [3; 6]), made(libc::SYS_close, [3; 6]));
        let calls = [hears, write, write, says, close, says, hears, close];
        let counts = count_calls(&calls, 2).unwrap();
        assert_eq!((counts["write"], counts["close"], counts["read"]), (1.0, 0.5, 0.0));
        assert!(count_calls(&calls[..5], 2).is_none(), "it died");
    }
}
