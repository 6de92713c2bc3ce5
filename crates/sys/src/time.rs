//! Local time: the offset of the local time zone from UTC.

use std::mem::MaybeUninit;

/// Seconds to add to `unix` (seconds since 1970, UTC) for local time, by the rules of `TZ` or `/etc/localtime`
/// (tzset(3), localtime_r(3)). 0 if the C library cannot find out.
///
/// It may read the zone file from disk and takes the C library's time zone lock: never call it on an event loop.
pub fn local_offset(unix: i64) -> i32 {
    unsafe extern "C" {
        fn tzset();
    }
    let mut out = MaybeUninit::<libc::tm>::zeroed();
    let time = unix as libc::time_t;
    // SAFETY: tzset takes nothing and is thread-safe apart from a concurrent setenv, which the workspace never does
    // (`std::env::set_var` is unsafe, hence forbidden outside this crate). Both pointers are to live locals of the
    // right types; a zeroed tm is valid, so `out` is initialised whether or not localtime_r fills it.
    unsafe {
        tzset();
        if libc::localtime_r(&time, out.as_mut_ptr()).is_null() {
            return 0;
        }
        out.assume_init().tm_gmtoff as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_is_a_plausible_number_of_whole_minutes() {
        let offset = local_offset(1_790_000_000);
        assert!(offset.abs() <= 14 * 3600, "{offset}");
        assert_eq!(offset % 60, 0);
    }
}
