//! Processor time, in the kernel, too.

use std::time::Duration;

/// Processor time of all threads of this process so far.
pub fn process_cpu() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Processor time of the calling thread so far.
pub fn thread_cpu() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure lives through the call; both clocks exist since Linux 2.6.12.
    let _ = unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_run_while_somebody_works() {
        let (process, thread) = (process_cpu(), thread_cpu());
        let mut sum = 0u64;
        while process_cpu() == process || thread_cpu() == thread {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(process_cpu() > process && thread_cpu() > thread);
    }
}
