//! Local time: the offset of the local time zone from UTC, and its name.

use std::ffi::CStr;
use std::mem::MaybeUninit;

/// The local time zone at some moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalZone {
    /// Seconds to add to UTC for local time.
    pub offset: i32,
    /// The abbreviation of the zone's name (`CET`, `JST`, `-03`).
    pub name: String,
}

/// The zone at `unix` (seconds since 1970, UTC), by the rules of `TZ` or `/etc/localtime` (tzset(3), localtime_r(3)). It is UTC
/// if the C library cannot find out.
///
/// It may read the zone file from disk and takes the C library's time zone lock: never call it on an event loop.
pub fn local_zone(unix: i64) -> LocalZone {
    unsafe extern "C" {
        fn tzset();
    }
    let mut out = MaybeUninit::<libc::tm>::zeroed();
    let time = unix as libc::time_t;
    // SAFETY: tzset takes nothing and is thread-safe apart from a concurrent setenv, which the workspace never does
    // (`std::env::set_var` is unsafe, hence forbidden outside this crate). Both pointers are to live locals of the
    // right types; a zeroed tm is valid, so `out` is initialised whether or not localtime_r fills it. After success
    // `tm_zone` is a NUL-terminated string that the C library keeps until the zone is changed, or null; it is copied at once,
    // and no other thread calls `tzset`.
    unsafe {
        tzset();
        if libc::localtime_r(&time, out.as_mut_ptr()).is_null() {
            return LocalZone { offset: 0, name: "UTC".to_owned() };
        }
        let out = out.assume_init();
        // Names of zones are ASCII (POSIX, the variable TZ); what is not is no name.
        let name = if out.tm_zone.is_null() { "" } else { CStr::from_ptr(out.tm_zone).to_str().unwrap_or_default() };
        let name = name.to_owned();
        LocalZone { offset: out.tm_gmtoff as i32, name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_is_a_plausible_number_of_whole_minutes_and_the_zone_has_a_name() {
        let LocalZone { offset, name } = local_zone(1_790_000_000);
        assert!(name.len() >= 3 && name.is_ascii(), "{name}");
        assert!(offset.abs() <= 14 * 3600, "{offset}");
        assert_eq!(offset % 60, 0);
    }
}
