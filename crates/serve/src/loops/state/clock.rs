//! Times in the format of HTTP, made once for many requests.

use std::cell::{Cell, RefCell};

use freerun_proto::date;
use freerun_runtime::log::clock;
use freerun_runtime::loops;

/// Number of times of files that are kept in the format that is sent; further ones replace them.
const DATES: usize = 64;

/// Number of texts with the date that are kept.
pub const DATED: usize = 2;

/// The times that a loop keeps in the format of header fields.
pub struct Clock {
    /// The value of `Date`.
    date: Cell<[u8; 29]>,
    /// The time until which it is valid: nanoseconds since the process began.
    date_until: Cell<u64>,
    /// Texts that contain the date, which are valid as long.
    dated: RefCell<[Vec<u8>; DATED]>,
    dates: RefCell<[(i64, [u8; 29]); DATES]>,
    /// Times in recent responses of other servers.
    times: RefCell<[(i64, [u8; 29]); DATES]>,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock {
            date: Cell::new([0; 29]),
            date_until: Cell::new(0),
            dated: RefCell::default(),
            dates: RefCell::new([(i64::MIN, [0; 29]); DATES]),
            times: RefCell::new([(0, [0; 29]); DATES]),
        }
    }
}

impl Clock {
    /// Passes a time, given in Unix seconds, to `use_it` in the format of header fields; recently used times are kept.
    pub fn http_date(&self, secs: i64, use_it: impl FnOnce(&[u8; 29])) {
        let mut dates = self.dates.borrow_mut();
        let (known, text) = &mut dates[secs.rem_euclid(DATES as i64) as usize];
        if *known != secs {
            *text = date::imf_fixdate(secs);
            *known = secs;
        }
        use_it(text);
    }

    /// The time of a text in the format of [`Clock::http_date`]; recently used times are known.
    pub fn time_of(&self, text: &[u8]) -> Option<i64> {
        let text: &[u8; 29] = text.try_into().ok()?;
        // The last digits of the day, the minute and the second in "Sun, 06 Nov 1994 08:49:37 GMT".
        let place = text[6].wrapping_mul(29) ^ text[21].wrapping_mul(5) ^ text[24];
        let mut times = self.times.borrow_mut();
        let (time, known) = &mut times[usize::from(place) % DATES];
        if known != text {
            let parsed = date::parse_http_date(text).filter(|parsed| date::imf_fixdate(*parsed) == *text)?;
            (*time, *known) = (parsed, *text);
        }
        Some(*time)
    }

    /// Passes the value of `Date` to `use_it`; it is made once a second.
    pub fn date(&self, use_it: impl FnOnce(&[u8; 29])) {
        self.see_to_date();
        use_it(&self.date.get());
    }

    fn see_to_date(&self) {
        let now = loops::nanos();
        if now >= self.date_until.get() {
            let time = clock::now();
            self.date.set(date::imf_fixdate(time.secs));
            self.date_until.set(now + u64::from(1000 - time.millis.min(999)) * 1_000_000);
            self.dated.take();
        }
    }

    /// Passes a text that contains the date to `use_it`, such as the first lines of heads; `make` makes it once a
    /// second from the value of `Date`. `which`, less than [`DATED`], chooses one of several texts.
    pub fn dated(&self, which: usize, make: impl FnOnce(&[u8; 29], &mut Vec<u8>), use_it: impl FnOnce(&[u8])) {
        self.see_to_date();
        let text = &mut self.dated.borrow_mut()[which];
        if text.is_empty() {
            make(&self.date.get(), text);
        }
        use_it(text);
    }
}
