//! A network path as a model: rate, delay, a bounded queue and random losses. Time is an argument.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::random::RandomNumbers;

/// Packets in a million.
pub const MILLION: u64 = 1_000_000;

/// The properties of one direction of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathSettings {
    /// Bytes a second.
    pub rate: u64,
    /// The time from the end of the queue to the other side.
    pub delay: Duration,
    /// The most bytes that wait to be sent. Packets that find no room are dropped, the newest first.
    pub queue: u64,
}

/// Figures of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PathFigures {
    /// Packets that were dropped by chance.
    pub lost: u64,
    /// Packets that found no room in the queue.
    pub overflowed: u64,
    /// Packets that have left at the other side.
    pub delivered: u64,
}

/// A direction of a path.
#[derive(Debug)]
pub struct PathDirection {
    settings: PathSettings,
    /// Each run drops the same packets by their numbers.
    random: RandomNumbers,
    /// The moment at which all packets of the queue are sent.
    sent_at: Instant,
    /// Packets under way, and when each is at the other side.
    packets: VecDeque<(Instant, Vec<u8>)>,
    figures: PathFigures,
}

impl PathDirection {
    /// An empty direction.
    pub fn new(settings: PathSettings, seed: u64, now: Instant) -> PathDirection {
        PathDirection {
            settings,
            random: RandomNumbers::new(seed),
            sent_at: now,
            packets: VecDeque::new(),
            figures: PathFigures::default(),
        }
    }

    /// Takes a packet, or drops it. `losses` in a million are dropped by chance.
    pub fn push(&mut self, now: Instant, packet: Vec<u8>, losses: u64) {
        if self.random.next() % MILLION < losses {
            self.figures.lost += 1;
            return;
        }
        let begin = self.sent_at.max(now);
        let transmission = self.transmission(packet.len() as u64);
        if begin + transmission > now + self.transmission(self.settings.queue) {
            self.figures.overflowed += 1;
            return;
        }
        self.sent_at = begin + transmission;
        self.packets.push_back((self.sent_at + self.settings.delay, packet));
    }

    /// The next packet that is at the other side by now.
    pub fn pop(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.packets.front().filter(|(at, _)| *at <= now)?;
        let (_, packet) = self.packets.pop_front()?;
        self.figures.delivered += 1;
        Some(packet)
    }

    /// The moment at which the next packet is at the other side.
    pub fn next(&self) -> Option<Instant> {
        self.packets.front().map(|(at, _)| *at)
    }

    /// The figures so far.
    pub fn figures(&self) -> PathFigures {
        self.figures
    }

    fn transmission(&self, bytes: u64) -> Duration {
        Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / self.settings.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: PathSettings = PathSettings { rate: 1_000_000, delay: Duration::from_millis(50), queue: 3_000 };

    fn drain(path: &mut PathDirection, now: Instant) -> Vec<u8> {
        std::iter::from_fn(|| path.pop(now)).map(|packet| packet[0]).collect()
    }

    #[test]
    fn packets_leave_in_order_after_their_transmission_and_the_delay() {
        let begin = Instant::now();
        let mut path = PathDirection::new(SETTINGS, 1, begin);
        path.push(begin, vec![1; 1_000], 0);
        path.push(begin, vec![2; 1_000], 0);
        assert_eq!(path.next(), Some(begin + Duration::from_millis(51)));
        assert!(drain(&mut path, begin + Duration::from_micros(50_999)).is_empty());
        assert_eq!(drain(&mut path, begin + Duration::from_millis(51)), [1]);
        assert_eq!(drain(&mut path, begin + Duration::from_millis(52)), [2]);
        assert_eq!(path.next(), None);
    }

    #[test]
    fn a_packet_without_room_is_dropped_and_room_comes_with_time() {
        let begin = Instant::now();
        let mut path = PathDirection::new(SETTINGS, 1, begin);
        (1..=4).for_each(|packet| path.push(begin, vec![packet; 1_000], 0));
        path.push(begin + Duration::from_millis(1), vec![5; 1_000], 0);
        assert_eq!(drain(&mut path, begin + Duration::from_secs(1)), [1, 2, 3, 5]);
        assert_eq!(path.figures(), PathFigures { lost: 0, overflowed: 1, delivered: 4 });
    }

    #[test]
    fn losses_keep_to_their_part_and_depend_on_the_seed_alone() {
        let lost = |seed| {
            let now = Instant::now();
            let mut path = PathDirection::new(PathSettings { queue: u64::MAX / 1_000_000_000, ..SETTINGS }, seed, now);
            (0..100_000).for_each(|_| path.push(now, vec![0], 10_000));
            path.figures().lost
        };
        assert!((900..1_100).contains(&lost(1)), "{}", lost(1));
        assert_eq!(lost(7), lost(7));
    }
}
