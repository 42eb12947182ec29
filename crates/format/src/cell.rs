//! The part of a payload that its page holds (file format, section 1.6).

/// Bytes of a payload that lie in its cell, on a page with so many usable bytes. The rest lies on overflow pages.
pub fn local_bytes(payload: u64, usable: usize, table: bool) -> usize {
    let usable = usable.max(480);
    let most = if table { usable - 35 } else { (usable - 12) * 64 / 255 - 23 };
    if payload <= most as u64 {
        return payload as usize;
    }
    let least = (usable - 12) * 32 / 255 - 23;
    let even = least + ((payload - least as u64) % (usable as u64 - 4)) as usize;
    if even <= most { even } else { least }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_leave_their_page_where_the_format_says() {
        for (payload, usable, table, local) in [
            (4061, 4096, true, 4061),
            (4062, 4096, true, 489),
            (4096 + 489 - 4, 4096, true, 489),
            (4096 + 489 + 100 - 4, 4096, true, 589),
            (1002, 4096, false, 1002),
            (1003, 4096, false, 489 + 514 - 514),
            (u64::MAX, 512, true, 39 + ((u64::MAX - 39) % 508) as usize),
        ] {
            assert_eq!(local_bytes(payload, usable, table), local, "{payload} of {usable}");
        }
    }
}
