//! Memory of the process, and bytes that it has read.

/// Bytes of memory that are this process's own: not of files, which the system may take away at any time.
pub fn resident_bytes() -> u64 {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return 0 };
    ["RssAnon:", "RssShmem:"].iter().map(|name| number_after(&status, name) * 1024).sum()
}

/// Bytes that the disk has given this process, those that the system has read ahead included. 0 if the system does not
/// count them.
pub fn disk_bytes() -> u64 {
    std::fs::read_to_string("/proc/self/io").map_or(0, |io| number_after(&io, "read_bytes:"))
}

fn number_after(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Gives the system what the allocator keeps, so that it does not serve what is measured next.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: needs nothing.
    let _ = unsafe { libc::malloc_trim(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_names() {
        let text = "VmRSS:\t  10 kB\nRssAnon:\t    1234 kB\n";
        assert_eq!(number_after(text, "RssAnon:"), 1234);
        assert_eq!(number_after(text, "RssShmem:"), 0);
        assert!(resident_bytes() > 0);
    }
}
