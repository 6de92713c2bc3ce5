//! The limit of a rate, as nginx counts it: by whole seconds.

/// The limit of a direction's rate.
#[derive(Debug)]
pub struct RatePace {
    /// Bytes a second, from 1.
    rate: u64,
    /// The moment at which it began, in milliseconds since the process began.
    began: u64,
    /// Number of bytes that were read before, which count as read in the first second.
    before: u64,
}

impl RatePace {
    /// A limit of `rate` bytes a second from now on, when `before` bytes were read already; `None`: with 0 there is none. The
    /// time is in milliseconds since the process began.
    pub fn new(rate: u64, now: u64, before: u64) -> Option<RatePace> {
        (rate > 0).then_some(RatePace { rate, began: now, before })
    }

    /// Number of bytes that may be read now, after `read` bytes.
    pub fn allows(&self, read: u64, now: u64) -> u64 {
        let seconds = now.saturating_sub(self.began) / 1000;
        self.rate.saturating_mul(seconds.saturating_add(1)).saturating_sub(self.before.saturating_add(read))
    }

    /// The moment from which on more may be read, after `read` bytes.
    pub fn next(&self, read: u64) -> u64 {
        self.began.saturating_add((self.before.saturating_add(read) / self.rate).saturating_mul(1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_count_by_whole_seconds() {
        let pace = RatePace::new(250, 10_000, 0).unwrap();
        for (read, now, allowed, next) in [
            (0, 10_000, 250, 10_000),
            (100, 10_000, 150, 10_000),
            (250, 10_999, 0, 11_000),
            (250, 11_000, 250, 11_000),
            (250, 20_000, 2500, 11_000),
            (900, 12_000, 0, 13_000),
            (1000, 13_999, 0, 14_000),
        ] {
            assert_eq!((pace.allows(read, now), pace.next(read)), (allowed, next), "{read} {now}");
            assert!(pace.allows(read, pace.next(read)) > 0, "{read}");
        }
        let late = RatePace::new(250, 10_000, 300).unwrap();
        assert_eq!((late.allows(0, 10_999), late.allows(0, 11_000), late.next(0)), (0, 200, 11_000));
        let huge = RatePace::new(u64::MAX, 0, 0).unwrap();
        assert_eq!((huge.allows(7, u64::MAX), huge.next(u64::MAX)), (u64::MAX - 7, 1000));
        assert!(RatePace::new(0, 0, 0).is_none());
    }
}
