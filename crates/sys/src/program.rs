//! The program's own code in memory.

use std::ffi::c_void;
use std::io;

/// The most bytes that are locked: several times what the program needs, so that an unusual mapping cannot take the
/// machine's memory.
pub const MAX_LOCKED: usize = 128 << 20;

/// Locks code and constants of the running program and its libraries in memory (`mlock(2)`), and returns how many bytes
/// these are.
///
/// They are pages of files like any other. If memory is short, the kernel drops those that were not used for a while,
/// and a thread that needs one waits for the disk. Private pages are not locked: without swap they stay anyway.
///
/// # Errors
/// `/proc/self/maps` cannot be read, or nothing could be locked (`RLIMIT_MEMLOCK`, for an unprivileged process).
pub fn lock() -> io::Result<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let mut locked = 0;
    let mut failure = None;
    for (start, len) in maps.lines().filter_map(file_pages) {
        if locked + len > MAX_LOCKED {
            break;
        }
        // SAFETY: mlock changes no contents and no permissions. For a range that is not mapped any more it returns
        // ENOMEM.
        match unsafe { rustix::mm::mlock(start as *mut c_void, len) } {
            Ok(()) => locked += len,
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) if locked == 0 => Err(error.into()),
        _ => Ok(locked),
    }
}

/// The start and the length of a line's range, if it maps a file that is not written to.
fn file_pages(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (range, rights) = (words.next()?, words.next()?);
    let path = words.nth(3)?;
    if !path.starts_with('/') || !rights.starts_with('r') || rights.contains('w') {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let end = usize::from_str_radix(end, 16).ok()?;
    Some((start, end.checked_sub(start)?))
}

// What `lock` does is tested in `tests/program.rs`, in a process without other tests: they map and unmap files.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_constants_are_chosen_and_nothing_that_is_written() {
        let code = "55d0c0a00000-55d0c0a02000 r-xp 00010000 fe:00 1234  /usr/sbin/freerun";
        assert_eq!(file_pages(code), Some((0x55d0_c0a0_0000, 0x2000)));
        for other in [
            "55d0c0a00000-55d0c0a02000 rw-p 00010000 fe:00 1234  /usr/sbin/freerun",
            "55d0c0a00000-55d0c0a02000 ---p 00010000 fe:00 1234  /usr/lib/x.so",
            "7f00-7f10 r-xp 00000000 00:00 0  [vdso]",
            "7f00-7f10 rw-p 00000000 00:00 0",
            "",
        ] {
            assert_eq!(file_pages(other), None, "{other}");
        }
    }
}
