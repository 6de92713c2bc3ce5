//! CUBIC (RFC 9438), in bytes.
//!
//! The library has a CUBIC, too. Its estimate of the window of Reno (section 4.3) begins below the window where losses come
//! before that has grown back. Behind the former window it grows as slowly as before. Where losses are not caused by a full
//! queue, both cost a part of the rate.

use std::time::{Duration, Instant};

/// The part of the window that is left after a loss (section 4.6).
const BETA: f64 = 0.7;

/// The speed of the growth, in datagrams for each cubed second (section 5).
const C: f64 = 0.4;

/// The growth in a round trip, in datagrams, at which Reno with [`BETA`] would have the same rate (section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// The largest growth in a round trip, in windows (section 4.2).
const MOST_GROWTH: f64 = 1.5;

/// The least window, in datagrams (RFC 9002 section 7.2).
const LEAST_DATAGRAMS: f64 = 2.0;

/// The size of datagrams that every path takes (RFC 9000 section 14), and the number of them in the first window
/// (RFC 9002 section 7.2).
const FIRST_DATAGRAM: u64 = 1200;
const FIRST_DATAGRAMS: u64 = 10;

/// The window that a connection begins with, in bytes.
pub(crate) const FIRST_WINDOW: u64 = FIRST_DATAGRAMS * FIRST_DATAGRAM;

/// The congestion window of a path.
///
/// Invariants: the window is at least two datagrams; there is an epoch only while the window grows as CUBIC says.
#[derive(Debug, Clone)]
pub(crate) struct CubicWindow {
    /// The size of datagrams.
    datagram: f64,
    window: f64,
    /// The window up to which it grows by as much as was acknowledged (slow start).
    threshold: f64,
    /// The window before the last loss, or less for those who began later (section 4.7).
    window_max: f64,
    /// The moment of the last loss. Datagrams that were sent before say nothing new.
    lost_at: Option<Instant>,
    epoch: Option<CubicEpoch>,
}

/// The growth since a loss, or since the end of slow start.
#[derive(Debug, Clone)]
struct CubicEpoch {
    /// The time of use, without silence, and the moment until which it is counted.
    time: Duration,
    counted: Instant,
    /// The time in seconds after which the window is where it was (section 4.2).
    k: f64,
    /// The window before the loss.
    prior: f64,
    /// The window that Reno would have.
    estimate: f64,
}

impl CubicWindow {
    /// The first window of a path that takes datagrams of this size.
    pub(crate) fn new(datagram: u16) -> CubicWindow {
        let window = FIRST_WINDOW as f64;
        CubicWindow {
            datagram: datagram.into(),
            window,
            threshold: f64::INFINITY,
            window_max: 0.0,
            lost_at: None,
            epoch: None,
        }
    }

    /// The window in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.window as u64
    }

    /// Takes the acknowledgement of `bytes` that were sent at this moment. A window that could not be used does not grow.
    pub(crate) fn acknowledged(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        was_used: bool,
        round_trip: Duration,
    ) {
        if self.lost_at.is_some_and(|at| sent <= at) {
            return;
        }
        if self.window < self.threshold {
            if was_used {
                self.window += bytes as f64;
            }
            return;
        }
        let (window, datagram) = (self.window, self.datagram);
        let epoch = self.epoch.get_or_insert_with(|| {
            self.window_max = window;
            CubicEpoch { time: Duration::ZERO, counted: now, k: 0.0, prior: window, estimate: window }
        });
        // Between two acknowledgements of a full window there is a round trip at most: the rest was silence.
        let passed = now.saturating_duration_since(epoch.counted).min(round_trip);
        epoch.counted = now;
        if !was_used {
            return;
        }
        epoch.time += passed;
        let part = bytes as f64 / window;
        epoch.estimate += if epoch.estimate < epoch.prior { ALPHA } else { 1.0 } * part * datagram;
        let (time, k, window_max) = (epoch.time, epoch.k, self.window_max);
        let cubic = |time: Duration| C * (time.as_secs_f64() - k).powi(3) * datagram + window_max;
        if cubic(time) < epoch.estimate {
            self.window = window.max(epoch.estimate);
        } else {
            let target = cubic(time + round_trip).clamp(window, window * MOST_GROWTH);
            self.window += (target - window) * part;
        }
        self.check_invariants();
    }

    /// Takes the loss of a datagram that was sent at this moment, or a mark of congestion. `is_persistent` says that nothing
    /// came through for long (RFC 9002 section 7.6).
    pub(crate) fn lost(&mut self, now: Instant, sent: Instant, is_persistent: bool) {
        if self.lost_at.is_none_or(|at| sent > at) {
            let prior = self.window;
            self.window_max = if prior < self.window_max { prior * (1.0 + BETA) / 2.0 } else { prior };
            self.window = (prior * BETA).max(self.least());
            self.threshold = self.window;
            self.lost_at = Some(now);
            let missing = (self.window_max - self.window).max(0.0) / self.datagram;
            self.epoch = Some(CubicEpoch {
                time: Duration::ZERO,
                counted: now,
                k: (missing / C).cbrt(),
                prior,
                estimate: self.window,
            });
        }
        if is_persistent {
            self.window = self.least();
            self.lost_at = None;
            self.epoch = None;
        }
        self.check_invariants();
    }

    /// Takes another size of datagrams.
    pub(crate) fn set_datagram(&mut self, datagram: u16) {
        self.datagram = datagram.into();
        self.window = self.window.max(self.least());
    }

    fn least(&self) -> f64 {
        LEAST_DATAGRAMS * self.datagram
    }

    fn check_invariants(&self) {
        debug_assert!(self.window >= self.least(), "a path always takes two datagrams");
        debug_assert!(self.epoch.is_none() || self.window >= self.threshold, "slow start has no epoch");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATAGRAM: u16 = 1_000;
    const ROUND_TRIP: Duration = Duration::from_millis(100);

    /// A window of so many datagrams that has just had its first loss.
    fn after_loss(datagrams: f64) -> (CubicWindow, Instant) {
        let (mut window, now) = (CubicWindow::new(DATAGRAM), Instant::now());
        window.window = datagrams * f64::from(DATAGRAM);
        window.lost(now, now, false);
        (window, now)
    }

    /// Acknowledges the whole window in each of so many round trips. Returns the window in datagrams.
    fn grow(window: &mut CubicWindow, now: &mut Instant, round_trips: u32) -> f64 {
        for _ in 0..round_trips {
            let (sent, count) = (*now + Duration::from_nanos(1), window.bytes() / u64::from(DATAGRAM));
            for number in 1..=count {
                let at = *now + ROUND_TRIP * u32::try_from(number).unwrap() / u32::try_from(count).unwrap();
                window.acknowledged(at, sent, DATAGRAM.into(), true, ROUND_TRIP);
            }
            *now += ROUND_TRIP;
        }
        window.window / f64::from(DATAGRAM)
    }

    #[test]
    fn slow_start_doubles_the_window_and_a_loss_leaves_seven_tenths() {
        let (mut window, mut now) = (CubicWindow::new(DATAGRAM), Instant::now());
        assert_eq!(grow(&mut window, &mut now, 3), 96.0);
        let sent = now;
        window.lost(now, sent, false);
        window.lost(now + ROUND_TRIP, sent, false);
        assert_eq!(window.bytes(), 67_200, "losses of one flight count once");
    }

    #[test]
    fn a_large_window_is_back_after_the_time_that_the_cube_says() {
        let (mut window, mut now) = after_loss(1_000.0);
        // K is (300 / 0.4)^(1/3) = 9.09 s.
        let at_half = grow(&mut window, &mut now, 45);
        assert!((950.0..970.0).contains(&at_half), "{at_half}: steep at first");
        let at_k = grow(&mut window, &mut now, 46);
        assert!((995.0..1_001.0).contains(&at_k), "{at_k}: then flat");
        assert!(grow(&mut window, &mut now, 60) > 1_060.0, "and steep again");
    }

    #[test]
    fn a_small_window_grows_as_reno_would() {
        let (mut window, mut now) = after_loss(10.0);
        // 7 datagrams, and 0.53 in each round trip until there are 10, then 1.
        let before = grow(&mut window, &mut now, 4);
        assert!((8.6..9.3).contains(&before), "{before}");
        let behind = grow(&mut window, &mut now, 6);
        assert!((12.4..14.6).contains(&behind), "{behind}");
    }

    #[test]
    fn losses_before_the_window_is_back_do_not_hold_up_its_growth() {
        let (mut window, mut now) = after_loss(12.0);
        now += ROUND_TRIP;
        window.lost(now, now, false);
        let before = window.window / f64::from(DATAGRAM);
        let after = grow(&mut window, &mut now, 4);
        assert!(after > before + 1.7, "{before} to {after}");
    }

    #[test]
    fn time_without_use_lets_nothing_grow() {
        let (mut window, mut now) = after_loss(100.0);
        grow(&mut window, &mut now, 1);
        let before = window.window;
        now += Duration::from_secs(100);
        window.acknowledged(now, now, DATAGRAM.into(), false, ROUND_TRIP);
        assert_eq!(window.window, before);
        now += Duration::from_secs(100);
        window.acknowledged(now, now, DATAGRAM.into(), true, ROUND_TRIP);
        assert!(window.window < before + f64::from(DATAGRAM), "{before} to {}", window.window);
    }

    #[test]
    fn persistent_congestion_begins_again_with_two_datagrams() {
        let (mut window, mut now) = after_loss(100.0);
        window.lost(now, now, true);
        assert_eq!(window.bytes(), 2 * u64::from(DATAGRAM));
        assert_eq!(grow(&mut window, &mut now, 2), 8.0, "slow start");
        assert!(grow(&mut window, &mut now, 8) < 100.0, "up to the threshold");
        window.set_datagram(60_000);
        assert_eq!(window.bytes(), 120_000);
    }
}
