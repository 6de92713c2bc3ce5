//! Times as HTTP writes them, made once for many requests.

use std::cell::{Cell, RefCell};

use freerun_proto::date;
use freerun_runtime::log::clock;
use freerun_runtime::loops;

/// How many times of files are kept as they are sent; more take each other's place.
const DATES: usize = 64;

/// How many texts with the date in them are kept.
pub const DATED: usize = 2;

/// What a loop knows of times as fields have them.
pub struct Clock {
    /// The value of `Date`.
    date: Cell<[u8; 29]>,
    /// Until when it holds: nanoseconds since the process began.
    date_until: Cell<u64>,
    /// Texts with the date in them, which hold as long.
    dated: RefCell<[Vec<u8>; DATED]>,
    dates: RefCell<[(i64, [u8; 29]); DATES]>,
    /// Times that other servers have written lately.
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
    /// Hands a time, in unix seconds, to `use_it` as fields have it; what was asked for before is often kept.
    pub fn http_date(&self, secs: i64, use_it: impl FnOnce(&[u8; 29])) {
        let mut dates = self.dates.borrow_mut();
        let (known, text) = &mut dates[secs.rem_euclid(DATES as i64) as usize];
        if *known != secs {
            *text = date::imf_fixdate(secs);
            *known = secs;
        }
        use_it(text);
    }

    /// The time of a text, if that is written as [`Clock::http_date`] writes it; what was asked for before is often known.
    pub fn time_of(&self, text: &[u8]) -> Option<i64> {
        let text: &[u8; 29] = text.try_into().ok()?;
        // Of "Sun, 06 Nov 1994 08:49:37 GMT" the last digits of day, minute and second.
        let place = text[6].wrapping_mul(29) ^ text[21].wrapping_mul(5) ^ text[24];
        let mut times = self.times.borrow_mut();
        let (time, known) = &mut times[usize::from(place) % DATES];
        if known != text {
            let parsed = date::parse_http_date(text).filter(|parsed| date::imf_fixdate(*parsed) == *text)?;
            (*time, *known) = (parsed, *text);
        }
        Some(*time)
    }

    /// Hands the value of `Date` to `use_it`; it is made once a second.
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

    /// Hands a text with the date in it to `use_it`, such as the lines that heads begin with; `make` makes it once a second, of
    /// the value of `Date`. `which`, less than [`DATED`], says which of several texts it is.
    pub fn dated(&self, which: usize, make: impl FnOnce(&[u8; 29], &mut Vec<u8>), use_it: impl FnOnce(&[u8])) {
        self.see_to_date();
        let text = &mut self.dated.borrow_mut()[which];
        if text.is_empty() {
            make(&self.date.get(), text);
        }
        use_it(text);
    }
}
