//! Times at which a certificate is ordered. Pure: the time comes with each call.
//!
//! | what | when |
//! |---|---|
//! | renewal, the CA gives a window (RFC 9773) | at a point of the window that the certificate's own digest says |
//! | renewal otherwise | after two thirds of the lifetime |
//! | in every case | before 19 twentieths of the lifetime have passed |
//! | after a failure | a minute, doubled with each further one, up to six hours; longer where the CA says so |
//! | after a success | an hour or half of the lifetime at least, whichever is less, whatever clock and window say |
//! | asking for the window | as the CA says, between 3 hours and a day; 6 hours after a failure |

use std::time::{Duration, SystemTime};

/// The pause after a first failure.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
/// The longest pause after failures, unless the CA wants a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(6 * 3600);
/// The longest pause that a CA may ask for: rate limits of public CAs last a week at most.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(7 * 86400);
/// The shortest time between a certificate that was issued and the next order, unless half of its lifetime is shorter.
const AFTER_SUCCESS: Duration = Duration::from_secs(3600);
/// The shortest time between a certificate that was issued and the next order, however short its lifetime is.
const AFTER_SHORTEST: Duration = Duration::from_secs(10);
/// The shortest and the longest time between two questions for a window.
const WINDOW_PAUSES: (Duration, Duration) = (Duration::from_secs(3 * 3600), Duration::from_secs(24 * 3600));
/// The time to the next question for a window where this one had no answer.
const WINDOW_FAILED: Duration = Duration::from_secs(6 * 3600);

const _: () = assert!(FIRST_PAUSE.as_secs() < LONGEST_PAUSE.as_secs(), "pauses grow with each failure");
const _: () = assert!(LONGEST_PAUSE.as_secs() < LONGEST_RETRY_AFTER.as_secs(), "a CA may ask for a longer pause");
const _: () = assert!(AFTER_SHORTEST.as_secs() < AFTER_SUCCESS.as_secs(), "a pause between them can be chosen");
const _: () = assert!(WINDOW_PAUSES.0.as_secs() < WINDOW_PAUSES.1.as_secs(), "a pause between them can be chosen");

/// A time before which something is not done again. It lasts for `length` at most, whatever the clock does.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    until: Option<SystemTime>,
    length: Duration,
}

impl Pause {
    fn begin(now: SystemTime, length: Duration) -> Pause {
        Pause { until: now.checked_add(length), length }
    }

    /// The end of the pause. A clock that was put back would make it longer, so it is shortened then.
    fn end(&mut self, now: SystemTime) -> SystemTime {
        let Some(until) = self.until else { return now };
        let latest = now.checked_add(self.length).unwrap_or(now);
        let until = until.min(latest);
        self.until = Some(until);
        until
    }
}

/// Validity that a certificate states, and the point of a window at which it is renewed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Validity {
    /// Since when it is valid.
    pub(crate) from: SystemTime,
    /// The end of the validity.
    pub(crate) to: SystemTime,
    /// A number of 0 to 1 that is the certificate's own, so that a window is spread over many of them.
    pub(crate) share: f64,
}

/// Next step for a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Order a certificate.
    Order,
    /// Ask the CA when it wants the certificate to be renewed.
    AskWindow,
    /// Nothing before this time.
    Wait(SystemTime),
}

/// Facts about one certificate that decide when it is ordered.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    held: Option<Validity>,
    window: Option<(SystemTime, SystemTime)>,
    ask: Pause,
    attempt: Backoff,
}

/// Attempts at something that fails, and the pauses between them.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    pause: Pause,
    failures: u32,
}

impl Backoff {
    /// The moment at which the next attempt may be made.
    pub(crate) fn end(&mut self, now: SystemTime) -> SystemTime {
        self.pause.end(now)
    }

    /// Notes a failure. `retry_after` is what the CA asked for, `jitter` a random number of 0 to 1.
    pub(crate) fn failed(&mut self, now: SystemTime, retry_after: Option<Duration>, jitter: f64) {
        self.failures = self.failures.saturating_add(1);
        let pause = pause(self.failures, jitter).max(retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER));
        self.pause = Pause::begin(now, pause);
    }
}

impl Schedule {
    /// The step to take now.
    pub(crate) fn next(&mut self, now: SystemTime) -> Step {
        let order = self.next_attempt(now);
        if order <= now {
            return Step::Order;
        }
        if self.held.is_none() {
            return Step::Wait(order);
        }
        let ask = self.ask.end(now);
        if ask <= now { Step::AskWindow } else { Step::Wait(order.min(ask)) }
    }

    /// The moment at which a certificate is ordered, as things are.
    pub(crate) fn next_attempt(&mut self, now: SystemTime) -> SystemTime {
        let due = self.held.map_or(now, |held| renewal(held, self.window));
        due.max(self.attempt.end(now))
    }

    /// The time in which the CA wants the certificate to be renewed.
    pub(crate) fn window(&self) -> Option<(SystemTime, SystemTime)> {
        self.window
    }

    /// The end of the certificate in use.
    pub(crate) fn not_after(&self) -> Option<SystemTime> {
        self.held.map(|held| held.to)
    }

    /// Takes a certificate of an earlier run.
    pub(crate) fn found(&mut self, validity: Validity) {
        self.held = Some(validity);
    }

    /// Takes a certificate that was just issued.
    pub(crate) fn issued(&mut self, now: SystemTime, validity: Validity) {
        let lifetime = validity.to.duration_since(validity.from).unwrap_or_default();
        let pause = (lifetime / 2).clamp(AFTER_SHORTEST, AFTER_SUCCESS);
        let attempt = Backoff { pause: Pause::begin(now, pause), failures: 0 };
        *self = Schedule { held: Some(validity), attempt, ..Schedule::default() };
    }

    /// Notes that an order failed. `retry_after` is what the CA asked for, `jitter` a random number of 0 to 1.
    pub(crate) fn failed(&mut self, now: SystemTime, retry_after: Option<Duration>, jitter: f64) {
        self.attempt.failed(now, retry_after, jitter);
    }

    /// Notes that an order has to wait for something else, which is no failure of its own.
    pub(crate) fn waits(&mut self, now: SystemTime, until: SystemTime) {
        self.attempt.pause = Pause::begin(now, until.duration_since(now).unwrap_or_default());
    }

    /// Notes the CA's answer about its window: when to ask again, and the window itself, if it makes sense.
    pub(crate) fn asked(&mut self, now: SystemTime, answer: Option<(SystemTime, SystemTime, Duration)>) {
        match answer {
            Some((from, to, again)) => {
                self.window = (from <= to).then_some((from, to));
                self.ask = Pause::begin(now, again.clamp(WINDOW_PAUSES.0, WINDOW_PAUSES.1));
            }
            // The window of an earlier answer stays what the CA wants.
            None => self.ask = Pause::begin(now, WINDOW_FAILED),
        }
    }
}

/// The moment at which a certificate is renewed.
fn renewal(held: Validity, window: Option<(SystemTime, SystemTime)>) -> SystemTime {
    let lifetime = held.to.duration_since(held.from).unwrap_or_default();
    let latest = held.from + lifetime / 20 * 19;
    let wanted = match window {
        Some((from, to)) => {
            let width = to.duration_since(from).unwrap_or_default();
            from + Duration::from_secs((width.as_secs() as f64 * held.share.clamp(0.0, 1.0)) as u64)
        }
        None => held.from + lifetime / 3 * 2,
    };
    wanted.min(latest)
}

/// The pause after this number of failures in a row: doubled each time, and a quarter shorter or longer by chance. So
/// servers which failed together do not come back together.
fn pause(failures: u32, jitter: f64) -> Duration {
    let doubled = FIRST_PAUSE * 2_u32.pow(failures.saturating_sub(1).min(16));
    doubled.min(LONGEST_PAUSE).mul_f64(0.75 + jitter.clamp(0.0, 1.0) / 2.0).clamp(FIRST_PAUSE, LONGEST_PAUSE)
}

/// A random number of 0 to 1; good enough for pauses, and nothing else.
pub(crate) fn jitter() -> f64 {
    use std::hash::{BuildHasher, Hasher};
    let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use Step::{AskWindow, Order, Wait};

    const HOUR: u64 = 3600;
    const DAY: u64 = 86400;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 * DAY + seconds)
    }

    fn days(from: u64, to: u64) -> Validity {
        Validity { from: at(from * DAY), to: at(to * DAY), share: 0.5 }
    }

    /// A schedule for which nobody asks for windows.
    fn found(validity: Validity) -> Schedule {
        let mut schedule = Schedule::default();
        schedule.found(validity);
        schedule.ask = Pause::begin(at(0), Duration::from_secs(10_000 * DAY));
        schedule
    }

    #[test]
    fn without_a_certificate_one_is_ordered_at_once() {
        assert_eq!(Schedule::default().next(at(0)), Order);
    }

    #[test]
    fn it_is_renewed_after_two_thirds_of_its_lifetime() {
        let mut schedule = found(days(0, 90));
        assert_eq!(schedule.next(at(0)), Wait(at(60 * DAY)));
        assert_eq!(schedule.next(at(60 * DAY - 1)), Wait(at(60 * DAY)));
        assert_eq!(schedule.next(at(60 * DAY)), Order);
        // It has ended long ago.
        assert_eq!(schedule.next(at(1_000 * DAY)), Order);
    }

    #[test]
    fn a_window_says_when_it_is_renewed() {
        let mut schedule = Schedule::default();
        schedule.found(days(0, 90));
        assert_eq!(schedule.next(at(0)), AskWindow);
        schedule.asked(at(0), Some((at(70 * DAY), at(72 * DAY), Duration::from_secs(6 * HOUR))));
        assert_eq!(schedule.next_attempt(at(0)), at(71 * DAY));
        assert_eq!(schedule.next(at(0)), Wait(at(6 * HOUR)));
        assert_eq!(schedule.next(at(6 * HOUR)), AskWindow);
        // The certificate will be revoked: the window is past.
        schedule.asked(at(6 * HOUR), Some((at(0), at(HOUR), Duration::ZERO)));
        assert_eq!(schedule.next(at(6 * HOUR)), Order);
    }

    #[test]
    fn a_window_that_makes_no_sense_is_not_followed() {
        let mut schedule = found(days(0, 90));
        schedule.asked(at(0), Some((at(80 * DAY), at(70 * DAY), Duration::ZERO)));
        assert_eq!(schedule.next_attempt(at(0)), at(60 * DAY));
        schedule.asked(at(0), Some((at(200 * DAY), at(300 * DAY), Duration::ZERO)));
        assert!(schedule.next_attempt(at(0)) < at(90 * DAY));
    }

    #[test]
    fn windows_are_not_asked_for_all_the_time() {
        let mut schedule = Schedule::default();
        schedule.found(days(0, 90));
        schedule.asked(at(0), Some((at(70 * DAY), at(72 * DAY), Duration::ZERO)));
        assert_eq!(schedule.next(at(1)), Wait(at(3 * HOUR)));
        schedule.asked(at(0), Some((at(70 * DAY), at(72 * DAY), Duration::from_secs(90 * DAY))));
        assert_eq!(schedule.next(at(1)), Wait(at(DAY)));
        // A failure leaves the window that is known.
        schedule.asked(at(0), None);
        assert_eq!(schedule.next(at(1)), Wait(at(6 * HOUR)));
        assert_eq!(schedule.next_attempt(at(1)), at(71 * DAY));
    }

    #[test]
    fn pauses_grow_to_a_bound() {
        let mut schedule = Schedule::default();
        let mut now = at(0);
        let mut lengths = Vec::new();
        for _ in 0..12 {
            assert_eq!(schedule.next(now), Order);
            schedule.failed(now, None, 0.5);
            let Wait(until) = schedule.next(now) else { panic!("a failed order is tried again at once") };
            lengths.push(until.duration_since(now).expect("a time to come").as_secs());
            now = until;
        }
        assert_eq!(lengths, [60, 120, 240, 480, 960, 1920, 3840, 7680, 15360, 21600, 21600, 21600]);
        for jitter in [0.0, 1.0, f64::NAN] {
            for failures in [0, 1, 2, 40, u32::MAX] {
                let pause = pause(failures, if jitter.is_nan() { 0.0 } else { jitter });
                assert!((FIRST_PAUSE..=LONGEST_PAUSE).contains(&pause), "{failures} {jitter}");
            }
        }
        assert!((0.0..1.0).contains(&super::jitter()));
    }

    #[test]
    fn a_ca_may_ask_for_a_longer_pause() {
        let mut schedule = Schedule::default();
        schedule.failed(at(0), Some(Duration::from_secs(2 * DAY)), 0.5);
        assert_eq!(schedule.next(at(0)), Wait(at(2 * DAY)));
        schedule.failed(at(0), Some(Duration::from_secs(1)), 0.5);
        assert_eq!(schedule.next(at(0)), Wait(at(120)));
        schedule.failed(at(0), Some(Duration::MAX), 0.5);
        assert_eq!(schedule.next(at(0)), Wait(at(7 * DAY)));
    }

    #[test]
    fn a_success_forgets_failures_and_is_not_followed_by_another_order_at_once() {
        let mut schedule = Schedule::default();
        schedule.failed(at(0), None, 0.5);
        schedule.failed(at(60), None, 0.5);
        // By this clock the new certificate has ended long ago.
        let earlier = |days: u64| at(0) - Duration::from_secs(days * DAY);
        schedule.issued(at(180), Validity { from: earlier(200), to: earlier(110), share: 0.5 });
        schedule.asked(at(180), None);
        assert_eq!(schedule.next(at(180)), Wait(at(180 + HOUR)));
        schedule.failed(at(180 + HOUR), None, 0.5);
        assert_eq!(schedule.next(at(180 + HOUR)), Wait(at(180 + HOUR + 60)));
    }

    #[test]
    fn a_certificate_with_a_short_life_is_renewed_within_it() {
        for (lifetime, wanted) in [(24, 16), (90 * 60, 3600), (3600, 2400), (DAY, 16 * HOUR), (0, 10), (1, 10)] {
            let mut schedule = Schedule::default();
            schedule.issued(at(0), Validity { from: at(0), to: at(lifetime), share: 0.5 });
            schedule.asked(at(0), None);
            assert_eq!(schedule.next_attempt(at(0)), at(wanted), "{lifetime}");
        }
    }

    #[test]
    fn a_clock_that_jumps_makes_no_pause_longer() {
        let mut schedule = Schedule::default();
        schedule.failed(at(500 * DAY), None, 0.5);
        // It is put back by 500 days.
        assert_eq!(schedule.next(at(0)), Wait(at(60)));
        assert_eq!(schedule.next(at(60)), Order);
        let mut schedule = found(days(0, 90));
        assert_eq!(schedule.next(at(59 * DAY)), Wait(at(60 * DAY)));
        // It is put forward.
        assert_eq!(schedule.next(at(400 * DAY)), Order);
    }
}
