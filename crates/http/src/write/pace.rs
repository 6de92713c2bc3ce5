//! `limit_rate`: how many bytes of a response may be sent by now.

use std::time::{Duration, Instant};

use crate::request::Request;
use crate::settings::rate::LimitRate;
use crate::settings::rate::{Bytes, RateSettings};

/// In how many pieces a second a limited response is sent at most: each costs a timer and a system call.
const PIECES: u64 = 4;

/// The pace of one response.
#[derive(Debug)]
pub struct Pace {
    /// The rate in bytes a second; 0 is no limit.
    rate: u64,
    /// The number of bytes that are sent without a limit first.
    after: u64,
    began: Instant,
}

impl Pace {
    /// The pace by `$limit_rate`, if it was set, or by the settings. `$limit_rate` has this value from here on.
    pub fn of(request: &Request, now: Instant) -> Pace {
        let settings = request.settings().get::<RateSettings>();
        let set = request.own.find::<LimitRate>().and_then(|rate| rate.get());
        if set.is_none() && matches!(settings.limit_rate, Bytes::Fixed(0)) {
            return Pace { rate: 0, after: 0, began: now };
        }
        let rate = match set {
            Some(rate) => rate,
            None => {
                let rate = settings.limit_rate.of(request);
                if rate > 0 {
                    request.own.get::<LimitRate>().set(rate);
                }
                rate
            }
        };
        let after = if rate == 0 { 0 } else { settings.limit_rate_after.of(request) };
        Pace { rate, after, began: now }
    }

    /// Whether there may be a limit; variables are not evaluated yet.
    pub fn is_expected(request: &Request) -> bool {
        match request.own.find::<LimitRate>().and_then(|rate| rate.get()) {
            Some(rate) => rate > 0,
            None => !matches!(request.settings().get::<RateSettings>().limit_rate, Bytes::Fixed(0)),
        }
    }

    /// Whether there is no limit.
    pub fn is_free(&self) -> bool {
        self.rate == 0
    }

    /// Number of the `wanted` bytes that may be sent now, after `sent` bytes.
    ///
    /// # Errors
    /// No byte may be sent now: ask again after this time.
    pub fn room(&self, sent: u64, wanted: u64, now: Instant) -> Result<u64, Duration> {
        if self.rate == 0 || wanted == 0 {
            return Ok(wanted);
        }
        // The bytes of one second are sent at once, as in nginx, and then a piece whenever there is room for one.
        let elapsed = now.saturating_duration_since(self.began).as_millis() + 1000;
        let allowed = u128::from(self.after) + u128::from(self.rate) * elapsed / 1000;
        let room = u64::try_from(allowed.saturating_sub(u128::from(sent))).unwrap_or(u64::MAX);
        let piece = (self.rate / PIECES).max(1).min(wanted);
        if room >= piece {
            return Ok(room.min(wanted));
        }
        let due = (u128::from(sent) + u128::from(piece)).saturating_sub(u128::from(self.after));
        let due = (due * 1000).div_ceil(u128::from(self.rate));
        Err(Duration::from_millis(u64::try_from(due.saturating_sub(elapsed)).unwrap_or(u64::MAX).max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(rate: u64, after: u64) -> Pace {
        Pace { rate, after, began: Instant::now() }
    }

    /// Sends `bytes` at this pace; returns when each piece is sent (ms) and how large it is.
    fn pieces(pace: &Pace, bytes: u64) -> Vec<(u64, u64)> {
        let (mut sent, mut ms, mut out) = (0, 0, Vec::new());
        while sent < bytes {
            match pace.room(sent, bytes - sent, pace.began + Duration::from_millis(ms)) {
                Ok(piece) => {
                    sent += piece;
                    out.push((ms, piece));
                }
                Err(wait) => ms += wait.as_millis() as u64,
            }
        }
        out
    }

    #[test]
    fn a_second_s_worth_goes_at_once_and_then_four_pieces_a_second() {
        assert_eq!(pieces(&pace(1000, 0), 1600), [(0, 1000), (250, 250), (500, 250), (600, 100)]);
        assert_eq!(pieces(&pace(1000, 500), 1600), [(0, 1500), (100, 100)]);
        assert_eq!(pieces(&pace(1, 0), 3), [(0, 1), (1000, 1), (2000, 1)]);
        assert_eq!(pieces(&pace(3, 0), 5), [(0, 3), (334, 1), (667, 1)]);
        assert_eq!(pieces(&pace(0, 0), 5_000_000), [(0, 5_000_000)]);
        assert_eq!(pieces(&pace(10_000, 0), 100_000).last(), Some(&(9000, 2500)));
    }

    #[test]
    fn what_could_not_be_sent_may_be_sent_later() {
        let pace = pace(1000, 0);
        assert_eq!(pace.room(10, 100_000, pace.began + Duration::from_secs(9)), Ok(9990));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let later = Duration::from_secs(u32::MAX.into());
        for (rate, after) in [(u64::MAX, u64::MAX), (1, u64::MAX), (u64::MAX, 0)] {
            let pace = pace(rate, after);
            assert_eq!(pace.room(0, u64::MAX, pace.began + later), Ok(u64::MAX));
            assert!(pace.room(u64::MAX, 1, pace.began).is_ok() || rate == 1 || after == 0);
        }
        assert!(pace(1, 0).room(u64::MAX, 1, Instant::now()).is_err());
    }
}
