//! Locking the program in memory. This is the only test of its process: others would map and unmap files meanwhile, and what
//! was locked of those is not locked any more when it is counted.

use freerun_sys::program::lock;

#[test]
fn what_is_said_to_be_locked_is() {
    let before = locked_kib();
    match lock() {
        Ok(bytes) => assert!(locked_kib() >= before + (bytes as u64) / 1024, "{bytes}"),
        // A sandbox may allow no locking: then nothing was locked.
        Err(_) => assert_eq!(locked_kib(), before),
    }
}

fn locked_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("what the kernel says of the process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
