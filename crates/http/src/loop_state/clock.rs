//! Times as HTTP writes them, made once for many requests.

use std::cell::{Cell, RefCell};

use freerun_proto::date;
use freerun_runtime::log::clock;
use freerun_runtime::loops;

use crate::content::error_page::server_name;
use crate::settings::core::ServerTokens;

/// How many times of files are kept as they are sent; more take each other's place.
const DATES: usize = 64;

/// What a loop knows of times as fields have them.
pub struct Clock {
    /// The value of `Date`.
    date: Cell<[u8; 29]>,
    /// Until when it holds: nanoseconds since the process began.
    date_until: Cell<u64>,
    /// How heads begin while that holds: with the version in `Server`, and without.
    starts: RefCell<[Vec<u8>; 2]>,
    dates: RefCell<[(i64, [u8; 29]); DATES]>,
    /// Times that other servers have written lately.
    times: RefCell<[(i64, [u8; 29]); DATES]>,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock {
            date: Cell::new([0; 29]),
            date_until: Cell::new(0),
            starts: RefCell::default(),
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
            self.starts.take();
        }
    }

    /// Hands the beginning of the head of a response with status 200 to `use_it`: the status line of HTTP/1, `Server` and
    /// `Date`.
    pub fn head_start(&self, tokens: ServerTokens, use_it: impl FnOnce(&[u8])) {
        self.see_to_date();
        let start = &mut self.starts.borrow_mut()[usize::from(tokens == ServerTokens::Off)];
        if start.is_empty() {
            let (name, date) = (server_name(tokens).as_bytes(), &self.date.get());
            start.extend_from_slice(&[b"HTTP/1.1 200 OK\r\nServer: ", name, b"\r\nDate: ", date, b"\r\n"].concat());
        }
        use_it(start);
    }
}
