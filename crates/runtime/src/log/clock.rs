//! The wall clock as logs print it.
//!
//! nginx logs in local time. Asking the C library for the zone's offset takes a lock and may read a file. So the offset
//! is kept in an atomic, and the loops do the arithmetic themselves. The log thread refreshes it at each full minute,
//! since zones change on minute boundaries. Formatted times are cached per thread for the second they belong to.

use std::cell::Cell;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::clock::nanos_here;

/// Seconds between local time and UTC, as of the last [`refresh_offset`].
static OFFSET: AtomicI32 = AtomicI32::new(0);

/// A moment: seconds since 1970 (UTC) and the milliseconds within that second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Seconds since 1970-01-01 00:00:00 UTC.
    pub secs: i64,
    /// 0..=999.
    pub millis: u16,
}

/// The time since 1970-01-01 00:00:00 UTC; nothing if the machine's clock is before that. One vDSO call, no system call.
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The time now. One vDSO call, no system call.
pub fn now() -> Moment {
    let since = since_1970();
    Moment { secs: since.as_secs() as i64, millis: since.subsec_millis() as u16 }
}

/// The current second. A loop asks for it once a second and otherwise computes it from its own clock, so it may begin
/// as late as the current poll.
pub fn second() -> i64 {
    thread_local! {
        /// The end of the current second, in nanoseconds of [`nanos_here`], and the second.
        static SECOND: Cell<(u64, i64)> = const { Cell::new((0, 0)) };
    }
    let Some(nanos) = nanos_here() else { return now().secs };
    let (until, second) = SECOND.get();
    if nanos < until {
        return second;
    }
    let now = now();
    SECOND.set((nanos + (1000 - u64::from(now.millis)) * 1_000_000, now.secs));
    now.secs
}

/// The abbreviation of the local zone's name, in the bytes of a number; names have three to six letters, rarely more. 0: it is
/// not known, or too long.
static ZONE: AtomicU64 = AtomicU64::new(0);

/// The abbreviation of the local zone's name (`CET`), from the cache; `+0100`, made of the offset, if there is none.
pub fn zone_name() -> String {
    let bytes = ZONE.load(Ordering::Relaxed).to_ne_bytes();
    let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    match std::str::from_utf8(&bytes[..len]) {
        Ok(name) if !name.is_empty() => name.to_owned(),
        _ => {
            let offset = utc_offset();
            let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs() / 60);
            format!("{sign}{:02}{:02}", minutes / 60, minutes % 60)
        }
    }
}

/// Seconds to add to UTC for local time, from the cache.
pub fn utc_offset() -> i32 {
    OFFSET.load(Ordering::Relaxed)
}

/// Asks the C library for the local offset and the zone's name, and caches them. This may wait for a disk: call it at start,
/// before loops exist; the log thread calls it each minute.
pub fn refresh_offset() {
    let zone = freerun_sys::time::local_zone(now().secs);
    let mut name = [0; 8];
    if let Some(room) = name.get_mut(..zone.name.len()) {
        room.copy_from_slice(zone.name.as_bytes());
    }
    ZONE.store(u64::from_ne_bytes(name), Ordering::Relaxed);
    OFFSET.store(zone.offset, Ordering::Relaxed);
}

pub use freerun_proto::date::{Civil, civil};

/// The functions that format, and take the offset from UTC as an argument; those below know the offset and keep the
/// text for a second.
pub use freerun_proto::date::{
    error_log_time as format_error_time, syslog_time as format_syslog_time, time_iso8601 as format_iso8601,
    time_local as format_time_local,
};

macro_rules! cached {
    ($name:ident, $format:ident, $len:literal, $what:literal) => {
        #[doc = $what]
        #[doc = "\nFormatted once a second and thread; `secs` is [`Moment::secs`]."]
        pub fn $name(secs: i64) -> [u8; $len] {
            thread_local! {
                static CACHE: Cell<(i64, i32, [u8; $len])> = const { Cell::new((i64::MIN, 0, [0; $len])) };
            }
            let offset = utc_offset();
            CACHE.with(|cache| {
                let (for_secs, for_offset, text) = cache.get();
                if for_secs == secs && for_offset == offset {
                    return text;
                }
                let text = $format(secs, offset);
                cache.set((secs, offset, text));
                text
            })
        }
    };
}

cached!(error_time, format_error_time, 19, "Local time as an error log line starts with it.");
cached!(time_local, format_time_local, 26, "nginx's `$time_local`.");
cached!(syslog_time, format_syslog_time, 15, "Local time as a syslog message starts with it.");
cached!(time_iso8601, format_iso8601, 25, "nginx's `$time_iso8601`.");

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn formats_of_one_moment() {
        // date -u -d @1795244700 : Sat Nov 21 07:05:00 UTC 2026
        assert_eq!(text(&format_error_time(1_795_244_700, 0)), "2026/11/21 07:05:00");
        assert_eq!(text(&format_time_local(1_795_244_700, 3600)), "21/Nov/2026:08:05:00 +0100");
        assert_eq!(text(&format_iso8601(1_795_244_700, -12_600)), "2026-11-21T03:35:00-03:30");
    }

    #[test]
    fn leap_days_and_turns_of_years() {
        assert_eq!(text(&format_error_time(951_782_399, 0)), "2000/02/28 23:59:59");
        assert_eq!(text(&format_error_time(951_782_400, 0)), "2000/02/29 00:00:00");
        assert_eq!(text(&format_error_time(0, -1)), "1969/12/31 23:59:59");
        assert_eq!(text(&format_error_time(4_107_542_399, 0)), "2100/02/28 23:59:59");
        assert_eq!(text(&format_error_time(4_107_542_400, 0)), "2100/03/01 00:00:00");
    }

    #[test]
    fn the_cache_follows_the_second() {
        let a = time_local(1_000_000_000);
        assert_eq!(a, time_local(1_000_000_000));
        assert_ne!(a, time_local(1_000_000_001));
    }
}
