//! Figures of the requests or sessions of a zone.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU16, fence};
use std::time::Duration;

use freerun_runtime::per_loop::{OwnCounters, PerLoop};
use freerun_runtime::stats::{Counter, Histogram, HistogramSnapshot};

use super::exemplars::{Exemplar, Exemplars};
use crate::tls::agreed_session::AgreedSession;
use crate::tls::handshake::figures::TlsFigures;

/// The number of status classes: 1xx, 2xx, 3xx, 4xx, 5xx.
pub const CLASSES: usize = 5;

/// Number of statuses that a loop counts one by one in a zone. Further ones are counted in their classes alone.
const MAX_CODES: usize = 32;

/// Figures of the requests or sessions of a zone. Each loop has its own counters.
#[derive(Debug, Default)]
pub struct ZoneFigures {
    each: PerLoop<LoopCounters>,
    /// The handshakes of its clients, from the first one on.
    tls: OnceLock<Box<TlsFigures>>,
    /// Traces of its requests, from the first traced one on.
    exemplars: OnceLock<Box<Exemplars>>,
}

/// The counters of one loop.
#[derive(Debug, Default)]
struct LoopCounters {
    begun: Counter,
    ended: Counter,
    discarded: Counter,
    received: Counter,
    sent: Counter,
    classes: [Counter; CLASSES],
    codes: Codes,
    times: Histogram,
}

/// The counters of single statuses: each of the first statuses takes a place.
#[derive(Debug)]
struct Codes {
    /// The status of each place; 0: it is free.
    names: [AtomicU16; MAX_CODES],
    counts: [Counter; MAX_CODES],
}

impl Default for Codes {
    fn default() -> Codes {
        Codes { names: [const { AtomicU16::new(0) }; MAX_CODES], counts: std::array::from_fn(|_| Counter::default()) }
    }
}

impl Codes {
    /// The counter of a status; `None`: all places are taken. The status 0 is the mark of a free place.
    fn of(&self, status: u16) -> Option<&Counter> {
        if status == 0 {
            return None;
        }
        self.names.iter().zip(&self.counts).find_map(|(name, count)| {
            let known = match name.load(Relaxed) {
                0 => name.compare_exchange(0, status, Relaxed, Relaxed).err().unwrap_or(status),
                known => known,
            };
            (known == status).then_some(count)
        })
    }

    fn each(&self) -> impl Iterator<Item = (u16, u64)> {
        let all = self.names.iter().zip(&self.counts).map(|(name, count)| (name.load(Relaxed), count.get()));
        all.filter(|(name, _)| *name != 0)
    }
}

/// The end of a request or a session.
#[derive(Debug, Clone, Copy)]
pub struct SubjectEnd {
    /// The status of the response, or of the session; `None`: it has ended without one.
    pub status: Option<u16>,
    /// Number of bytes that have come from the client.
    pub received: u64,
    /// Number of bytes that were sent to the client.
    pub sent: u64,
    /// Duration of the request or session.
    pub took: Duration,
}

/// Figures of a zone at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneSnapshot {
    /// Requests or sessions that have begun.
    pub begun: u64,
    /// Requests or sessions that have begun and not ended.
    pub processing: u64,
    /// Requests or sessions that have ended with a status, by its class: 1xx, 2xx, 3xx, 4xx, 5xx.
    pub classes: [u64; CLASSES],
    /// The same by statuses; those that came after many other ones are missing.
    pub codes: BTreeMap<u16, u64>,
    /// Requests or sessions that have ended without a status.
    pub discarded: u64,
    /// Bytes from clients.
    pub received: u64,
    /// Bytes to clients.
    pub sent: u64,
    /// Durations of the requests or sessions that have ended.
    pub times: HistogramSnapshot,
}

impl ZoneFigures {
    /// Counts a request or session that begins. Its end has to be counted by the same thread.
    pub fn begin(&self) {
        let mine = self.each.mine();
        mine.add(&mine.part().begun, 1);
    }

    /// Counts the end of one whose beginning was counted.
    pub fn end(&self, how: &SubjectEnd) {
        end(self.each.mine(), how);
    }

    /// Counts a request or session that has ended, and whose beginning was not counted.
    pub fn pass(&self, how: &SubjectEnd) {
        let mine = self.each.mine();
        mine.add(&mine.part().begun, 1);
        end(mine, how);
    }

    /// Keeps a traced request as an example of its duration, in the place of an earlier one.
    pub fn note_exemplar(&self, exemplar: Exemplar) {
        self.exemplars.get_or_init(Box::default).put(exemplar);
    }

    /// Traced requests as examples of durations: one for each bucket at most, from the shortest to the longest.
    pub fn exemplars(&self) -> Vec<Exemplar> {
        self.exemplars.get().map(|exemplars| exemplars.all()).unwrap_or_default()
    }

    /// Figures of the handshakes of its clients.
    pub fn tls(&self) -> &TlsFigures {
        self.tls.get_or_init(Box::default)
    }

    /// The same, if there was any handshake.
    pub fn tls_if_any(&self) -> Option<&TlsFigures> {
        self.tls.get().map(|figures| &**figures)
    }

    /// Counts the handshake that has established the session of a client.
    pub fn established(&self, agreed: &AgreedSession) {
        self.tls().established(agreed);
    }

    /// The figures of this moment. Loops go on counting meanwhile.
    pub fn snapshot(&self) -> ZoneSnapshot {
        // In this order nothing has ended that has not begun, and all that is ended is in every other figure.
        let ended = self.each.sum(|part| &part.ended);
        fence(Acquire);
        let begun = self.each.sum(|part| &part.begun);
        let mut codes = BTreeMap::new();
        for (status, count) in self.each.parts().flat_map(|part| part.codes.each()) {
            *codes.entry(status).or_default() += count;
        }
        ZoneSnapshot {
            begun,
            processing: begun.saturating_sub(ended),
            classes: std::array::from_fn(|class| self.each.sum(|part| &part.classes[class])),
            codes,
            discarded: self.each.sum(|part| &part.discarded),
            received: self.each.sum(|part| &part.received),
            sent: self.each.sum(|part| &part.sent),
            times: self.each.times(|part| &part.times),
        }
    }
}

fn end(mine: OwnCounters<'_, LoopCounters>, how: &SubjectEnd) {
    let part = mine.part();
    mine.add(&part.received, how.received);
    mine.add(&part.sent, how.sent);
    mine.record(&part.times, how.took);
    count_status(mine, how.status);
    // This comes last: whoever finds a request ended finds everything else of it counted.
    fence(Release);
    mine.add(&part.ended, 1);
}

fn count_status(mine: OwnCounters<'_, LoopCounters>, status: Option<u16>) {
    let part = mine.part();
    let Some(status) = status else { return mine.add(&part.discarded, 1) };
    if let Some(class) = part.classes.get((usize::from(status) / 100).wrapping_sub(1)) {
        mine.add(class, 1);
    }
    if let Some(code) = part.codes.of(status) {
        mine.add(code, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(status: Option<u16>) -> SubjectEnd {
        SubjectEnd { status, received: 3, sent: 5, took: Duration::from_micros(7) }
    }

    #[test]
    fn what_has_begun_and_not_ended_is_being_processed() {
        let zone = ZoneFigures::default();
        (0..3).for_each(|_| zone.begin());
        zone.end(&ended(Some(204)));
        zone.end(&ended(None));
        zone.pass(&ended(Some(404)));
        let shown = zone.snapshot();
        assert_eq!((shown.begun, shown.processing, shown.discarded), (4, 1, 1));
        assert_eq!(shown.classes, [0, 1, 0, 1, 0]);
        assert_eq!(shown.codes, BTreeMap::from([(204, 1), (404, 1)]));
        assert_eq!((shown.received, shown.sent), (9, 15));
        assert_eq!((shown.times.count(), shown.times.sum_us), (3, 21));
        assert!(zone.tls_if_any().is_none());
    }

    #[test]
    fn statuses_beyond_the_places_count_in_their_classes() {
        let zone = ZoneFigures::default();
        for status in 400..450 {
            zone.pass(&ended(Some(status)));
            zone.pass(&ended(Some(status)));
        }
        let shown = zone.snapshot();
        assert_eq!(shown.classes, [0, 0, 0, 100, 0]);
        assert_eq!((shown.codes.len(), shown.codes[&400], shown.codes.get(&449)), (MAX_CODES, 2, None));
    }

    /// Thousands of servers have counters (`status_servers`), and each loop has its own.
    #[test]
    fn counters_of_a_loop_are_small() {
        assert!(size_of::<LoopCounters>() <= 1024, "{}", size_of::<LoopCounters>());
    }

    #[test]
    fn a_status_without_a_class_has_a_code() {
        let zone = ZoneFigures::default();
        zone.pass(&ended(Some(600)));
        zone.pass(&ended(Some(0)));
        zone.pass(&ended(Some(7)));
        let shown = zone.snapshot();
        assert_eq!(shown.classes, [0; CLASSES]);
        assert_eq!(shown.codes, BTreeMap::from([(7, 1), (600, 1)]));
    }
}
