//! A cache whose purges nodes share.
//!
//! The engine has a log of the purges. A node keeps the place up to which it has applied them on the disk, beside the cache, so
//! that it goes on there after any pause. Where purges may have been missed, everything is purged.

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use freerun_cache::purge::Purge;
use freerun_runtime::log::{ErrorLog, Level};

use super::known_engine::{KnownEngine, REMEMBERED, unix_ms};
use crate::engine::LogEnds;
use crate::figures::{CacheReport, LOG_WORD};
use crate::log_entry::{EntryId, PurgeCodec};
use crate::purge_record::{MAX_UNTOLD, MAX_UNTOLD_TEXTS, PurgePlace, PurgeRecord, RecordStamp, parts};
use crate::seal::Sealer;
use crate::settings::PurgeTarget;

/// The part of the log that is read again after a change of the primary, in milliseconds: its clock may be another one.
pub(super) const READ_AGAIN: u64 = 120_000;

/// The interval in which the time of the last read is written down, in milliseconds, where nothing else is.
const READ_AT_STEP: u64 = 20_000;

/// A purge that other nodes have not been told.
struct UntoldPurge {
    /// A number of its own: the same may be purged again while others are being told.
    number: u64,
    what: Purge,
    /// Whether a task is telling it.
    is_claimed: bool,
}

/// A cache whose purges are shared.
pub(super) struct SharedPurges {
    name: Arc<str>,
    target: Arc<dyn PurgeTarget>,
    log: ErrorLog,
    pub(super) codec: PurgeCodec,
    /// The place in the log.
    place: PurgePlace,
    /// The place as it is on the disk, or will be: the purges up to it are on the disk, too.
    written: PurgePlace,
    /// A place in the log, and the number that the cache has given for the purges up to it.
    settling: Option<(PurgePlace, u64)>,
    untold: VecDeque<UntoldPurge>,
    numbers: u64,
    /// The record on the disk is another one.
    is_unsaved: bool,
    /// The state of the record when this process has read or written it last.
    stamp: Option<RecordStamp>,
    /// The last attempt to write the record has failed.
    is_failing: bool,
    /// Purges that were told, and when.
    recent: VecDeque<(Instant, Purge)>,
    /// The last entry that other nodes know to be applied.
    pub(super) acknowledged: Option<EntryId>,
    purges: u64,
    full_purges: u64,
}

/// The bytes of the texts of purges.
fn texts<'p>(all: impl Iterator<Item = &'p Purge>) -> usize {
    all.map(|what| parts(what).1.len()).sum()
}

impl SharedPurges {
    /// A cache with what its folder says of the log.
    pub(super) fn new(name: &Arc<str>, target: &Arc<dyn PurgeTarget>, log: &ErrorLog) -> SharedPurges {
        let stamp = RecordStamp::of(&target.folder());
        let read = PurgeRecord::read(&target.folder());
        let is_broken = read.is_none();
        let PurgeRecord { place, untold } = read.unwrap_or_default();
        let mut shared = SharedPurges {
            name: name.clone(),
            target: target.clone(),
            log: log.clone(),
            codec: PurgeCodec::new(name, None),
            written: place.clone(),
            place,
            settling: None,
            untold: VecDeque::new(),
            numbers: 0,
            is_unsaved: false,
            stamp,
            is_failing: false,
            recent: VecDeque::new(),
            acknowledged: None,
            purges: 0,
            full_purges: 0,
        };
        for what in untold {
            shared.add_untold(what, false);
        }
        shared.is_unsaved = false;
        if is_broken {
            let text = format_args!("the record of purges of cache \"{name}\" cannot be read, so all of it is purged");
            shared.note(Level::Error, text);
            shared.purge_all();
        }
        shared
    }

    /// The folder of the cache.
    pub(super) fn folder(&self) -> PathBuf {
        self.target.folder()
    }

    /// Takes what a configuration says of the cache.
    pub(super) fn follow(&mut self, target: &Arc<dyn PurgeTarget>, sealer: Option<Arc<Sealer>>, log: &ErrorLog) {
        self.target = target.clone();
        self.log = log.clone();
        self.codec = PurgeCodec::new(&self.name, sealer);
    }

    /// Writes a line to the log.
    fn note(&self, level: Level, text: std::fmt::Arguments<'_>) {
        self.log.write(level, None, format_args!("{LOG_WORD} {text}"));
    }

    fn purge_all(&mut self) {
        self.full_purges += 1;
        self.target.purge(&Purge::Prefix(Bytes::new()));
    }

    /// Finds the place in the log with these ends from which it is followed; `None`: there is no log. `now` is the engine.
    pub(super) fn join(&mut self, ends: Option<LogEnds>, now: &KnownEngine) {
        let (applied, is_first) = (self.place.applied, self.place.mark.is_empty());
        let is_gone = ends.is_none() && applied != EntryId::default();
        let ends = ends.unwrap_or_default();
        let missed = unix_ms().saturating_sub(self.place.read_at) > REMEMBERED.as_millis() as u64;
        let is_other = self.place.mark != now.mark;
        let has_other_past = self.place.history != now.history.as_bytes();
        let mut why = None;
        let from = if is_first {
            let is_late = ends.newest != EntryId::default() && !self.target.is_empty();
            why = is_late.then_some("it was filled before it followed their log");
            ends.newest
        } else if is_other {
            why = missed.then_some("the engine has lost the log meanwhile, or is another one");
            EntryId::default()
        } else if is_gone || ends.may_lack(applied) {
            why = Some("the log does not go back as far");
            ends.newest
        } else if ends.newest < applied || has_other_past {
            applied.earlier(READ_AGAIN)
        } else {
            applied
        };
        if let Some(why) = why {
            let name = &self.name;
            let text = format_args!("purges for cache \"{name}\" were missed, so all of it is purged: {why}");
            self.note(Level::Warn, text);
            self.purge_all();
        }
        if is_other || has_other_past {
            self.tell_again();
        }
        // Up to here nothing is missing; otherwise the time of the last read stays as it was.
        let read_at = if is_first || why.is_some() { unix_ms() } else { self.place.read_at };
        let history = now.history.clone().into_bytes();
        self.place = PurgePlace { applied: from, read_at, mark: now.mark.clone(), history };
        self.settling = None;
        if is_first && why.is_none() {
            // Nothing has to be on the disk before.
            self.written = self.place.clone();
            self.is_unsaved = true;
        }
        self.acknowledged = None;
        self.untold.iter_mut().for_each(|untold| untold.is_claimed = false);
    }

    /// The place from which the log is followed.
    pub(super) fn applied(&self) -> EntryId {
        self.place.applied
    }

    /// Whether the cache has followed a log of the engine with this mark.
    pub(super) fn has_followed(&self, mark: &[u8]) -> bool {
        !mark.is_empty() && self.place.mark == mark
    }

    /// Applies an entry of the log. `None` as the purge: it is this node's own, or none of this cluster.
    pub(super) fn apply(&mut self, id: EntryId, what: Option<Purge>) {
        if let Some(what) = what {
            self.target.purge(&what);
            self.purges += 1;
        }
        self.place.applied = self.place.applied.max(id);
    }

    /// Notes that the log was read to its end.
    pub(super) fn note_read(&mut self) {
        self.place.read_at = unix_ms();
    }

    /// Adds a purge that other nodes have to be told; `is_claimed`: a task tells it at once. Its number.
    pub(super) fn add_untold(&mut self, what: Purge, is_claimed: bool) -> u64 {
        self.numbers += 1;
        self.is_unsaved = true;
        let bytes = texts(self.untold.iter().map(|untold| &untold.what)) + parts(&what).1.len();
        if self.untold.len() >= MAX_UNTOLD || bytes > MAX_UNTOLD_TEXTS {
            // A purge of everything stands for all of them.
            self.untold.clear();
            self.untold.push_back(UntoldPurge {
                number: self.numbers,
                what: Purge::Prefix(Bytes::new()),
                is_claimed: false,
            });
        } else {
            self.untold.push_back(UntoldPurge { number: self.numbers, what, is_claimed });
        }
        self.numbers
    }

    /// The next purge that other nodes have to be told and that no task tells; a task tells it from now on.
    pub(super) fn claim_untold(&mut self) -> Option<(u64, Purge)> {
        let untold = self.untold.iter_mut().find(|untold| !untold.is_claimed)?;
        untold.is_claimed = true;
        Some((untold.number, untold.what.clone()))
    }

    /// Notes that no task tells this purge any more.
    pub(super) fn release_untold(&mut self, number: u64) {
        self.untold.iter_mut().filter(|untold| untold.number == number).for_each(|untold| untold.is_claimed = false);
    }

    /// Notes that other nodes have been told of the purge with this number.
    pub(super) fn note_told(&mut self, number: u64) {
        let Some(place) = self.untold.iter().position(|untold| untold.number == number) else { return };
        let Some(UntoldPurge { what, .. }) = self.untold.remove(place) else { return };
        self.is_unsaved = true;
        while self.recent.front().is_some_and(|(at, _)| at.elapsed() > REMEMBERED) {
            self.recent.pop_front();
        }
        let bytes = texts(self.recent.iter().map(|(_, what)| what)) + parts(&what).1.len();
        if self.recent.len() >= MAX_UNTOLD || bytes > MAX_UNTOLD_TEXTS {
            self.recent = VecDeque::from([(Instant::now(), Purge::Prefix(Bytes::new()))]);
        } else {
            self.recent.push_back((Instant::now(), what));
        }
    }

    /// Has the purges of the last minute told again: the engine may have lost them.
    fn tell_again(&mut self) {
        for (at, what) in std::mem::take(&mut self.recent) {
            if at.elapsed() <= REMEMBERED {
                self.add_untold(what, false);
            }
        }
    }

    /// Takes in the purges that another process has left in the record. While the binary is being changed, the old process and the
    /// new one write the same record, and what either has answered must stay.
    fn take_in(&mut self) {
        let stamp = RecordStamp::of(&self.target.folder());
        if stamp == self.stamp {
            return;
        }
        self.stamp = stamp;
        let read = PurgeRecord::read(&self.target.folder());
        self.is_unsaved |= read.is_none();
        let others = read.unwrap_or_default().untold;
        let known = |all: &mut dyn Iterator<Item = &Purge>| -> HashSet<(u8, Bytes)> {
            all.map(parts).map(|(kind, text)| (kind, text.clone())).collect()
        };
        let own = known(&mut self.untold.iter().map(|untold| &untold.what));
        let theirs = known(&mut others.iter());
        // A record that lacks what waits here is written again.
        self.is_unsaved |= !own.is_subset(&theirs);
        for what in others {
            let (kind, text) = parts(&what);
            if !own.contains(&(kind, text.clone())) {
                self.add_untold(what, false);
            }
        }
    }

    /// Writes the record, if the one on the disk is another one. Whether the disk has it.
    pub(super) fn save(&mut self) -> bool {
        match &self.settling {
            Some((place, number)) if self.target.is_written(*number) => {
                self.written = place.clone();
                self.settling = None;
                self.is_unsaved = true;
            }
            Some(_) => {}
            // The purges come first: after a power cut those from the place of the record on are applied again.
            None => {
                let is_read = self.place.read_at.saturating_sub(self.written.read_at) >= READ_AT_STEP;
                let as_written = PurgePlace { read_at: self.place.read_at, ..self.written.clone() };
                if self.place != as_written || is_read {
                    self.settling = Some((self.place.clone(), self.target.ask_written()));
                }
            }
        }
        if !self.is_unsaved && RecordStamp::of(&self.target.folder()) == self.stamp {
            return true;
        }
        // A folder that cannot be locked is no reason for not writing.
        let lock = PurgeRecord::lock(&self.target.folder());
        self.take_in();
        if !self.is_unsaved {
            return true;
        }
        let untold = self.untold.iter().map(|untold| untold.what.clone()).collect();
        let record = PurgeRecord { place: self.written.clone(), untold };
        let saved = record.save(&self.target.folder());
        self.is_unsaved = saved.is_err();
        self.stamp = RecordStamp::of(&self.target.folder());
        drop(lock);
        if let Err(error) = &saved
            && !self.is_failing
        {
            let name = &self.name;
            self.note(
                Level::Error,
                format_args!("the record of purges of cache \"{name}\" cannot be written: {error}"),
            );
        }
        self.is_failing = saved.is_err();
        saved.is_ok()
    }

    /// The figures of the cache.
    pub(super) fn report(&self) -> CacheReport {
        CacheReport {
            name: self.name.to_string(),
            pending: self.untold.len(),
            applied: (!self.place.mark.is_empty()).then(|| self.place.applied.to_string()),
            purges: self.purges,
            full_purges: self.full_purges,
        }
    }
}
