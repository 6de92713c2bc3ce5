//! Formats times with the format of strftime(3), in the C locale, as nginx does where a text is shown.

use std::fmt::Write;

use freerun_runtime::log::clock;

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The format if the page sets none.
pub const DEFAULT: &str = "%A, %d-%b-%Y %H:%M:%S %Z";

/// A point in time in a time zone, split into its parts.
struct Time {
    civil: clock::Civil,
    /// The time in unix seconds.
    secs: i64,
    /// The offset of the zone in seconds east of Greenwich.
    offset: i64,
    zone: String,
    /// The day of the week, from Sunday, 0.
    weekday: i64,
    /// The day of the year, from 0.
    yearday: i64,
}

/// Formats `secs` in the local zone of this moment.
pub fn local(format: &str, secs: i64) -> String {
    in_zone(format, secs, clock::utc_offset(), clock::zone_name())
}

/// Formats `secs` in the zone with this name, which is `offset` seconds east of Greenwich.
fn in_zone(format: &str, secs: i64, offset: i32, name: String) -> String {
    text(format, secs, i64::from(offset), name)
}

/// Formats `secs` in GMT.
pub fn gmt(format: &str, secs: i64) -> String {
    text(format, secs, 0, "GMT".to_owned())
}

fn text(format: &str, secs: i64, offset: i64, zone: String) -> String {
    let local = secs + offset;
    let civil = clock::civil(local);
    let days = local.div_euclid(86_400);
    let january = i64::from(civil.year) - 1;
    // The days from 1970 to the first of January: the years before, and a day for each leap year among them.
    let first =
        (january - 1969) * 365 + january.div_euclid(4) - january.div_euclid(100) + january.div_euclid(400) - 477;
    let time = Time { civil, secs, offset, zone, weekday: (days + 4).rem_euclid(7), yearday: days - first };
    let mut out = String::with_capacity(64);
    let mut rest = format.chars();
    while let Some(letter) = rest.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let mut conversion = rest.clone();
        let letter = match conversion.next() {
            Some('E' | 'O') => conversion.next(),
            letter => letter,
        };
        match letter {
            Some(letter) if time.convert(letter, &mut out).is_some() => rest = conversion,
            // An unknown conversion is left unchanged.
            _ => out.push('%'),
        }
    }
    out
}

impl Time {
    fn convert(&self, letter: char, out: &mut String) -> Option<()> {
        let civil = &self.civil;
        let year = i64::from(civil.year);
        let (month, day) = (i64::from(civil.month), i64::from(civil.day));
        let (hour, minute, second) = (i64::from(civil.hour), i64::from(civil.minute), i64::from(civil.second));
        let twelve = (hour + 11) % 12 + 1;
        let day_name = DAYS[usize::try_from(self.weekday).ok()? % 7];
        let month_name = MONTHS[usize::try_from(month - 1).ok()? % 12];
        let monday = (self.weekday + 6) % 7;
        let (iso_year, iso_week) = self.iso_week(year, monday);
        let mut format = |format: &str| out.push_str(&text(format, self.secs, self.offset, self.zone.clone()));
        match letter {
            'c' => format("%a %b %e %H:%M:%S %Y"),
            'D' | 'x' => format("%m/%d/%y"),
            'F' => format("%Y-%m-%d"),
            'R' => format("%H:%M"),
            'r' => format("%I:%M:%S %p"),
            'T' | 'X' => format("%H:%M:%S"),
            _ => {
                match letter {
                    'a' => write!(out, "{}", &day_name[..3]),
                    'A' => write!(out, "{day_name}"),
                    'b' | 'h' => write!(out, "{}", &month_name[..3]),
                    'B' => write!(out, "{month_name}"),
                    'C' => write!(out, "{:02}", year / 100),
                    'd' => write!(out, "{day:02}"),
                    'e' => write!(out, "{day:2}"),
                    'G' => write!(out, "{iso_year}"),
                    'g' => write!(out, "{:02}", iso_year.rem_euclid(100)),
                    'H' => write!(out, "{hour:02}"),
                    'I' => write!(out, "{twelve:02}"),
                    'j' => write!(out, "{:03}", self.yearday + 1),
                    'k' => write!(out, "{hour:2}"),
                    'l' => write!(out, "{twelve:2}"),
                    'm' => write!(out, "{month:02}"),
                    'M' => write!(out, "{minute:02}"),
                    'n' => writeln!(out),
                    'p' => write!(out, "{}", if hour < 12 { "AM" } else { "PM" }),
                    'P' => write!(out, "{}", if hour < 12 { "am" } else { "pm" }),
                    's' => write!(out, "{}", self.secs),
                    'S' => write!(out, "{second:02}"),
                    't' => write!(out, "\t"),
                    'u' => write!(out, "{}", monday + 1),
                    'U' => write!(out, "{:02}", (self.yearday + 7 - self.weekday) / 7),
                    'V' => write!(out, "{iso_week:02}"),
                    'w' => write!(out, "{}", self.weekday),
                    'W' => write!(out, "{:02}", (self.yearday + 7 - monday) / 7),
                    'y' => write!(out, "{:02}", year.rem_euclid(100)),
                    'Y' => write!(out, "{year}"),
                    'z' => {
                        let minutes = self.offset.abs() / 60;
                        let sign = if self.offset < 0 { '-' } else { '+' };
                        write!(out, "{sign}{:02}{:02}", minutes / 60, minutes % 60)
                    }
                    'Z' => write!(out, "{}", self.zone),
                    '%' => write!(out, "%"),
                    _ => return None,
                }
                .ok()?;
            }
        }
        Some(())
    }

    /// The year and week of ISO 8601: weeks begin on Monday, and the first week has the year's first Thursday.
    fn iso_week(&self, year: i64, monday: i64) -> (i64, i64) {
        let leap = |year: i64| i64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
        // The day of the year of this week's Thursday decides.
        let thursday = self.yearday - monday + 3;
        let length = 365 + leap(year);
        if thursday < 0 {
            (year - 1, (thursday + 365 + leap(year - 1)) / 7 + 1)
        } else if thursday >= length {
            (year + 1, 1)
        } else {
            (year, thursday / 7 + 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        // Sun, 06 Nov 1994 08:49:37 GMT, checked with date(1).
        let at = 784_111_777;
        for (format, text) in [
            (DEFAULT, "Sunday, 06-Nov-1994 08:49:37 GMT"),
            ("%a %b %e %c", "Sun Nov  6 Sun Nov  6 08:49:37 1994"),
            ("%C %D %F %g %G %V", "19 11/06/94 1994-11-06 94 1994 44"),
            ("%h|%I|%j|%k|%l|%n|%p|%P|%r|%R|%s", "Nov|08|310| 8| 8|\n|AM|am|08:49:37 AM|08:49|784111777"),
            ("%t%T %u %U %w %W %x %X %y %z %Z", "\t08:49:37 7 45 0 44 11/06/94 08:49:37 94 +0000 GMT"),
            ("%Ey %Od %Q %5 % %% %", "94 06 %Q %5 % % %"),
            ("", ""),
        ] {
            assert_eq!(gmt(format, at), text, "{format}");
        }
        assert_eq!(in_zone("%H:%M %z %Z", at, -5400, "XYT".to_owned()), "07:19 -0130 XYT");
    }

    #[test]
    fn weeks_at_the_ends_of_years() {
        for (secs, text) in [
            (0, "1970-01-01 001 1970 01 00 00"),
            (951_782_400, "2000-02-29 060 2000 09 09 09"),
            (978_220_800, "2000-12-31 366 2000 52 53 52"),
            (1_104_537_600, "2005-01-01 001 2004 53 00 00"),
            (1_230_681_600, "2008-12-31 366 2009 01 52 52"),
            (-1, "1969-12-31 365 1970 01 52 52"),
        ] {
            assert_eq!(gmt("%F %j %G %V %U %W", secs), text);
        }
    }
}
