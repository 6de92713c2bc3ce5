//! Memory that goes back to the system. This is the only test of its process: others would take and free memory meanwhile.

#[cfg(target_env = "gnu")]
#[test]
fn what_was_freed_between_what_is_kept_goes_back() {
    // Blocks that are smaller than a page and stay below the limit from which each is a mapping of its own.
    let mut blocks: Vec<Option<Box<[u8]>>> = (0..32_768).map(|n| Some(vec![n as u8; 2048].into())).collect();
    let full = resident();
    for (n, block) in blocks.iter_mut().enumerate() {
        // One of each four megabytes is kept.
        if n % 2048 != 0 {
            *block = None;
        }
    }
    freerun_sys::memory::give_back();
    let (freed, left) = (full - resident(), blocks.iter().flatten().count());
    assert!(left == 16 && freed > 48 << 20, "{freed} of 64 MiB are free again");
}

/// How many bytes of the process are in memory.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("what the kernel says of the process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}
