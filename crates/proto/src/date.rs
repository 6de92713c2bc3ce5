//! Dates: RFC 9110 section 5.6.7, and the forms of nginx's logs. No clock and no time zone is read: seconds since the epoch
//! and the offset come from the caller.

/// Seconds of a day.
const DAY: i64 = 86_400;
/// The first second of the year 10000: later times are printed as the last second before it.
const END: i64 = 253_402_300_800;

const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
const DAYS: &[u8; 21] = b"SunMonTueWedThuFriSat";

/// A date of the Gregorian calendar and a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// The year.
    pub year: i32,
    /// The month, 1 to 12.
    pub month: u32,
    /// The day of the month, 1 to 31.
    pub day: u32,
    /// The hour, 0 to 23.
    pub hour: u32,
    /// The minute, 0 to 59.
    pub minute: u32,
    /// The second, 0 to 59.
    pub second: u32,
    /// The day of the week; 0 is Sunday.
    pub weekday: usize,
}

/// The date and time of seconds since 1970 in the zone wanted: add the offset first.
///
/// The day arithmetic is Howard Hinnant's public-domain `civil_from_days`.
pub fn civil(unix: i64) -> Civil {
    let (days, second) = (unix.div_euclid(DAY), unix.rem_euclid(DAY) as u32);
    // Days counted from 0000-03-01, in eras of 400 years: leap days then come last in their year.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + i64::from(month <= 2);
    Civil {
        year: year as i32,
        month: month as u32,
        day: (doy - (153 * mp + 2) / 5 + 1) as u32,
        hour: second / 3600,
        minute: second / 60 % 60,
        second: second % 60,
        weekday: (days + 4).rem_euclid(7) as usize,
    }
}

/// The date and time, limited to the years 0 to 9999, which four digits can show.
fn civil_of_four_digits(unix: i64) -> Civil {
    civil(unix.clamp(-62_167_219_200, END - 1))
}

/// Days from the epoch to a civil date.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = year - i64::from(month <= 2);
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let doy = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468
}

/// Writes the two last digits of a number.
fn two(out: &mut [u8], n: u32) {
    out[0] = b'0' + (n / 10 % 10) as u8;
    out[1] = b'0' + (n % 10) as u8;
}

/// Writes four digits.
fn four(out: &mut [u8], n: u32) {
    two(out, n / 100);
    two(&mut out[2..], n);
}

/// Writes `hh:mm:ss`.
fn clock(out: &mut [u8], t: &Civil) {
    two(out, t.hour);
    two(&mut out[3..], t.minute);
    two(&mut out[6..], t.second);
}

/// Writes the offset as a sign and `hh` and `mm` at the given places.
fn zone(out: &mut [u8], offset: i32, minute_at: usize) {
    let minutes = offset.unsigned_abs() / 60;
    out[0] = if offset < 0 { b'-' } else { b'+' };
    two(&mut out[1..], minutes / 60);
    two(&mut out[minute_at..], minutes % 60);
}

fn month_name(t: &Civil) -> &'static [u8] {
    let at = (t.month as usize - 1) * 3;
    &MONTHS[at..at + 3]
}

/// The form of `Date` and `Last-Modified`: `Sun, 06 Nov 1994 08:49:37 GMT`. As in nginx, a time before 1970 is the beginning of
/// that year.
pub fn imf_fixdate(unix: i64) -> [u8; 29] {
    let mut out = *b"Sun, 06 Nov 1994 08:49:37 GMT";
    let t = civil_of_four_digits(unix.max(0));
    out[..3].copy_from_slice(&DAYS[t.weekday * 3..t.weekday * 3 + 3]);
    two(&mut out[5..], t.day);
    out[8..11].copy_from_slice(month_name(&t));
    four(&mut out[12..], t.year as u32);
    clock(&mut out[17..], &t);
    out
}

/// nginx's `$time_local`: `21/Nov/2026:07:05:00 +0000`; `offset` in seconds east of UTC.
pub fn time_local(unix: i64, offset: i32) -> [u8; 26] {
    let mut out = *b"21/Nov/2026:07:05:00 +0000";
    let t = civil_of_four_digits(unix.saturating_add(i64::from(offset)));
    two(&mut out, t.day);
    out[3..6].copy_from_slice(month_name(&t));
    four(&mut out[7..], t.year as u32);
    clock(&mut out[12..], &t);
    zone(&mut out[21..], offset, 3);
    out
}

/// nginx's `$time_iso8601`: `2026-11-21T07:05:00+00:00`; `offset` in seconds east of UTC.
pub fn time_iso8601(unix: i64, offset: i32) -> [u8; 25] {
    let mut out = *b"2026-11-21T07:05:00+00:00";
    let t = civil_of_four_digits(unix.saturating_add(i64::from(offset)));
    four(&mut out, t.year as u32);
    two(&mut out[5..], t.month);
    two(&mut out[8..], t.day);
    clock(&mut out[11..], &t);
    zone(&mut out[19..], offset, 4);
    out
}

/// The start of an error log line: `2026/11/21 07:05:00`; `offset` in seconds east of UTC.
pub fn error_log_time(unix: i64, offset: i32) -> [u8; 19] {
    let mut out = *b"2026/11/21 07:05:00";
    let t = civil_of_four_digits(unix.saturating_add(i64::from(offset)));
    four(&mut out, t.year as u32);
    two(&mut out[5..], t.month);
    two(&mut out[8..], t.day);
    clock(&mut out[11..], &t);
    out
}

/// The time of a syslog message (RFC 3164 section 4.1.2): `Nov  1 07:05:00`; `offset` in seconds east of UTC.
pub fn syslog_time(unix: i64, offset: i32) -> [u8; 15] {
    let mut out = *b"Nov 21 07:05:00";
    let t = civil_of_four_digits(unix.saturating_add(i64::from(offset)));
    out[..3].copy_from_slice(month_name(&t));
    two(&mut out[4..], t.day);
    if out[4] == b'0' {
        out[4] = b' ';
    }
    clock(&mut out[7..], &t);
    out
}

/// Parses the three forms of RFC 9110: `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT` and `Sun Nov
/// 6 08:49:37 1994`. `None` if it has none of these forms, or is before 1970.
///
/// As in nginx the name of the day is not checked, text behind the time is ignored, and a year of two digits below 70
/// is one of this century.
pub fn parse_http_date(text: &[u8]) -> Option<i64> {
    let mut text = text.trim_ascii_start();
    let name = text.iter().position(|&b| b == b',' || b == b' ')?;
    let comma = text[name] == b',';
    text = text[name + 1..].trim_ascii_start();
    let (year, month, day, time);
    if comma {
        day = number(text.get(..2)?)?;
        let separator = *text.get(2)?;
        month = month_number(text.get(3..6)?)?;
        if text.get(6) != Some(&separator) {
            return None;
        }
        let year_len = match separator {
            b' ' => 4,
            b'-' => 2,
            _ => return None,
        };
        let digits = number(text.get(7..7 + year_len)?)?;
        year = match (year_len, digits) {
            (2, 0..70) => digits + 2000,
            (2, _) => digits + 1900,
            _ => digits,
        };
        if text.get(7 + year_len) != Some(&b' ') {
            return None;
        }
        time = text.get(8 + year_len..16 + year_len)?;
    } else {
        month = month_number(text.get(..3)?)?;
        day = match text.get(3..6)? {
            [b' ', b' ', d] => number(&[*d])?,
            [b' ', rest @ ..] => number(rest)?,
            _ => return None,
        };
        if text.get(6) != Some(&b' ') || text.get(15) != Some(&b' ') {
            return None;
        }
        time = text.get(7..15)?;
        year = number(text.get(16..20)?)?;
    }
    if time[2] != b':' || time[5] != b':' {
        return None;
    }
    let (hour, minute, second) = (number(&time[..2])?, number(&time[3..5])?, number(&time[6..8])?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let month_days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if year < 1970 || day == 0 || day > month_days || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(days_from_civil(year, month, day) * DAY + hour * 3600 + minute * 60 + second)
}

/// The value of up to four digits.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |n, b| b.is_ascii_digit().then(|| n * 10 + i64::from(b - b'0')))
}

fn month_number(name: &[u8]) -> Option<i64> {
    MONTHS.chunks_exact(3).position(|m| m == name).map(|at| at as i64 + 1)
}

/// The form of a date in the first cookies: `Tue, 01-Dec-26 11:22:04 GMT`; years after 2037 have four digits.
pub fn cookie_date(unix: i64) -> Vec<u8> {
    let mut date = imf_fixdate(unix).to_vec();
    (date[7], date[11]) = (b'-', b'-');
    if date[12..16] <= b"2037"[..] {
        date.drain(12..14);
    }
    date
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dates_of_cookies_have_two_digits_of_the_year_up_to_2037() {
        assert_eq!(cookie_date(784_111_777), b"Sun, 06-Nov-94 08:49:37 GMT");
        assert_eq!(cookie_date(2_145_916_555), b"Thu, 31-Dec-37 23:55:55 GMT");
        assert_eq!(cookie_date(2_145_916_800), b"Fri, 01-Jan-2038 00:00:00 GMT");
    }

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn known_times() {
        assert_eq!(text(&imf_fixdate(784_111_777)), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(text(&imf_fixdate(0)), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(text(&imf_fixdate(1_709_164_800)), "Thu, 29 Feb 2024 00:00:00 GMT");
        assert_eq!(text(&time_local(1_795_244_700, 0)), "21/Nov/2026:07:05:00 +0000");
        assert_eq!(text(&time_local(1_795_244_700, 19_800)), "21/Nov/2026:12:35:00 +0530");
        assert_eq!(text(&time_iso8601(1_795_244_700, -12_600)), "2026-11-21T03:35:00-03:30");
        assert_eq!(text(&error_log_time(1_795_244_700, 3600)), "2026/11/21 08:05:00");
        assert_eq!(text(&syslog_time(1_795_244_700, 3600)), "Nov 21 08:05:00");
        assert_eq!(text(&syslog_time(784_111_777, 0)), "Nov  6 08:49:37");
    }

    #[test]
    fn times_beyond_four_digits_do_not_panic() {
        for t in [i64::MIN, i64::MAX, -1, END] {
            let _ = (imf_fixdate(t), time_local(t, i32::MIN), time_iso8601(t, i32::MAX), error_log_time(t, 0));
        }
        assert_eq!(text(&imf_fixdate(i64::MAX)), "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn three_forms() {
        for form in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun,06 Nov 1994 08:49:37",
            "Mon, 06 Nov 1994 08:49:37 UTC; length=10",
            "Sun,  06 Nov 1994 08:49:37 GMT",
            "Sun Nov 06 08:49:37 1994 x",
        ] {
            assert_eq!(parse_http_date(form.as_bytes()), Some(784_111_777), "{form}");
        }
        assert_eq!(parse_http_date(b"Sunday, 06-Nov-69 08:49:37 GMT"), Some(3_150_953_377));
    }

    #[test]
    fn refused() {
        for form in [
            "",
            "junk",
            "06 Nov 1994 08:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 31 Feb 2023 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49",
            "Sun, 06  Nov 1994 08:49:37",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(parse_http_date(form.as_bytes()), None, "{form}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read(t in 0..END) {
            prop_assert_eq!(parse_http_date(&imf_fixdate(t)), Some(t));
        }

        #[test]
        fn any_bytes(raw: Vec<u8>, cut in 0usize..30, with in any::<u8>()) {
            let _ = parse_http_date(&raw);
            let mut date = *b"Sunday, 06-Nov-94 08:49:37 GMT";
            date[cut] = with;
            let _ = parse_http_date(&date);
        }
    }
}
