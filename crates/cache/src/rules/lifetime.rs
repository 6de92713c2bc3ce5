//! Time for which a stored response may be used.

/// Time for which a stored response may be used, and its age. All times are seconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lifetime {
    /// The response is fresh while the time is not greater than this.
    pub fresh_until: u64,
    /// Moment at which the response's age was zero: `Age` is the time since then (RFC 9111 section 4.2.3).
    pub born: u64,
    /// Seconds after `fresh_until` in which the response may be used while a fresh one is fetched (RFC 5861 section 3).
    pub stale_while_revalidate: u32,
    /// Seconds after `fresh_until` in which the response may be used if the upstream fails (RFC 5861 section 4).
    pub stale_if_error: u32,
    /// The response may not be used stale, whatever `*_cache_use_stale` and a client's `max-stale` say:
    /// `must-revalidate`, `proxy-revalidate`, `s-maxage` (RFC 9111 section 5.2.2). Never set by nginx's rules.
    pub must_revalidate: bool,
    /// The response may not be used at all before the upstream was asked: `no-cache` (RFC 9111 section 5.2.2.4). Never
    /// set by nginx's rules: they do not store such a response.
    pub no_cache: bool,
}

impl Lifetime {
    /// Whether the response may be used without asking the upstream.
    pub fn is_fresh(&self, now: u64) -> bool {
        !self.no_cache && now <= self.fresh_until
    }

    /// Whether `stale-while-revalidate` allows the response's use at that time.
    pub fn may_refresh_behind(&self, now: u64) -> bool {
        !self.no_cache && now <= self.fresh_until.saturating_add(self.stale_while_revalidate.into())
    }

    /// Whether `stale-if-error` allows the response's use at that time.
    pub fn may_cover_errors(&self, now: u64) -> bool {
        !self.no_cache && now <= self.fresh_until.saturating_add(self.stale_if_error.into())
    }

    /// The response's age in seconds (RFC 9111 section 4.2.3).
    pub fn age(&self, now: u64) -> u64 {
        now.saturating_sub(self.born)
    }

    /// The seconds for which the response stays fresh.
    pub fn remaining(&self, now: u64) -> u64 {
        self.fresh_until.saturating_sub(now)
    }
}
