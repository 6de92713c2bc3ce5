//! A cache whose purges nodes share.
//!
//! The engine has a log of the purges. A node keeps the place up to which it has applied them on the disk, beside the cache, so
//! that it goes on there after any pause. Where purges may have been missed, everything is purged.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use freerun_cache::purge::Purge;
use freerun_runtime::log::{ErrorLog, Level};

use super::node::{KnownEngine, Node, unix_ms};
use crate::engine::LogEnds;
use crate::figures::CacheReport;
use crate::log_entry::{EntryId, PurgeCodec};
use crate::purge_record::{MAX_MARK, MAX_UNTOLD, PurgeRecord};
use crate::seal::Sealer;
use crate::settings::PurgeTarget;

/// The time for which a node remembers what it has told, to tell it again to an engine that may have lost it.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The part of the log that is read again after a change of the primary, in milliseconds: its clock may be another one.
const READ_AGAIN: u64 = 120_000;

/// A cache whose purges are shared.
pub(super) struct SharedPurges {
    name: Arc<str>,
    target: Arc<dyn PurgeTarget>,
    pub(super) codec: PurgeCodec,
    /// The record as it is on the disk, or will be: its place in the log is one up to which the purges are on the disk, too.
    record: PurgeRecord,
    /// The last entry that was applied.
    applied: EntryId,
    /// A place in the log, and the number that the cache has given for the purges up to it.
    settling: Option<(EntryId, u64)>,
    /// The record on the disk is another one.
    is_unsaved: bool,
    /// Purges that were told, and when.
    recent: VecDeque<(Instant, Purge)>,
    /// The last entry that other nodes know to be applied.
    pub(super) acknowledged: Option<EntryId>,
    purges: u64,
    whole: u64,
}

impl SharedPurges {
    /// A cache with what its folder says of the log.
    pub(super) fn new(name: &Arc<str>, target: &Arc<dyn PurgeTarget>, log: &ErrorLog) -> SharedPurges {
        let read = PurgeRecord::read(&target.folder());
        let is_broken = read.is_none();
        let record = read.unwrap_or_default();
        let mut shared = SharedPurges {
            name: name.clone(),
            target: target.clone(),
            codec: PurgeCodec::new(name, None),
            applied: record.applied,
            record,
            settling: None,
            is_unsaved: false,
            recent: VecDeque::new(),
            acknowledged: None,
            purges: 0,
            whole: 0,
        };
        if is_broken {
            let text = format_args!(
                "cluster: the record of purges of cache \"{name}\" cannot be read, so all of it is purged"
            );
            log.write(Level::Error, None, text);
            shared.purge_all();
        }
        shared
    }

    /// The folder of the cache.
    pub(super) fn folder(&self) -> PathBuf {
        self.target.folder()
    }

    /// Takes what a configuration says of the cache.
    pub(super) fn follow(&mut self, target: &Arc<dyn PurgeTarget>, sealer: Option<Arc<Sealer>>) {
        self.target = target.clone();
        self.codec = PurgeCodec::new(&self.name, sealer);
    }

    fn purge_all(&mut self) {
        self.whole += 1;
        self.target.purge(&Purge::Prefix(Bytes::new()));
    }

    /// Finds the place in the log with these ends from which it is followed. `known` is the engine that was followed before in
    /// this process, if there was one, and `now` is the engine of now.
    pub(super) fn join(&mut self, ends: Option<LogEnds>, known: Option<&KnownEngine>, now: &KnownEngine, node: &Node) {
        let ends = ends.unwrap_or_default();
        let applied = self.applied;
        let is_new = self.record.mark.is_empty();
        let missed = unix_ms().saturating_sub(self.record.read_at) > REMEMBERED.as_millis() as u64;
        let mut why = None;
        let from = if is_new {
            ends.newest
        } else if self.record.mark != now.mark {
            why = missed.then_some("the engine has lost the log meanwhile, or is another one");
            EntryId::default()
        } else if ends.may_lack(applied) {
            why = Some("the log does not go back as far");
            ends.newest
        } else if ends.newest < applied || known.is_some_and(|known| known.history != now.history) {
            applied.earlier(READ_AGAIN)
        } else {
            applied
        };
        if let Some(why) = why {
            let name = &self.name;
            node.log(
                Level::Warn,
                format_args!("purges for cache \"{name}\" were missed, so all of it is purged: {why}"),
            );
            self.purge_all();
        }
        self.applied = from;
        if is_new {
            // What the cache has is older than the first purge that it follows, so nothing has to be on the disk before.
            self.record.applied = from;
        } else {
            // A purge of everything is on the disk before this place is.
            self.settling = Some((from, self.target.ask_written()));
        }
        self.record.mark = now.mark.clone();
        self.record.mark.truncate(MAX_MARK);
        self.record.read_at = unix_ms();
        self.is_unsaved = true;
        self.acknowledged = None;
    }

    /// The place from which the log is followed.
    pub(super) fn applied(&self) -> EntryId {
        self.applied
    }

    /// Applies an entry of the log. `None` as the purge: it is this node's own, or none of this cluster.
    pub(super) fn apply(&mut self, id: EntryId, what: Option<Purge>) {
        if let Some(what) = what {
            self.target.purge(&what);
            self.purges += 1;
        }
        self.applied = self.applied.max(id);
        self.record.read_at = unix_ms();
    }

    /// Notes that the log was read to its end.
    pub(super) fn note_read(&mut self) {
        self.record.read_at = unix_ms();
    }

    /// Notes purges that other nodes have not been told, on the disk.
    pub(super) fn note_untold(&mut self, purges: Vec<Purge>, node: &Node) {
        for what in purges {
            self.record.add(what);
        }
        self.is_unsaved = true;
        self.save(node);
    }

    /// The purges that other nodes have to be told, the oldest first.
    pub(super) fn untold(&self) -> Vec<Purge> {
        self.record.untold.clone()
    }

    /// Notes that other nodes have been told of a purge.
    pub(super) fn note_told(&mut self, what: &Purge) {
        let before = self.record.untold.len();
        self.record.untold.retain(|untold| untold != what);
        self.is_unsaved |= self.record.untold.len() != before;
        self.forget_old();
        if self.recent.len() >= MAX_UNTOLD {
            self.recent.pop_front();
        }
        self.recent.push_back((Instant::now(), what.clone()));
    }

    fn forget_old(&mut self) {
        while self.recent.front().is_some_and(|(at, _)| at.elapsed() > REMEMBERED) {
            self.recent.pop_front();
        }
    }

    /// Has the purges of the last minute told again: the engine may have lost them.
    pub(super) fn tell_again(&mut self) {
        self.forget_old();
        for (_, what) in std::mem::take(&mut self.recent) {
            self.record.add(what);
        }
        self.is_unsaved = true;
    }

    /// Writes the record, if the one on the disk is another one.
    pub(super) fn save(&mut self, node: &Node) {
        match self.settling {
            Some((place, number)) if self.target.is_written(number) => {
                self.record.applied = place;
                self.settling = None;
                self.is_unsaved = true;
            }
            Some(_) => {}
            // The purges come first: after a power cut those from the place of the record on are applied again.
            None if self.applied != self.record.applied => {
                self.settling = Some((self.applied, self.target.ask_written()));
            }
            None => {}
        }
        if !self.is_unsaved {
            return;
        }
        match self.record.save(&self.target.folder()) {
            Ok(()) => self.is_unsaved = false,
            Err(error) => {
                let name = &self.name;
                node.log(
                    Level::Error,
                    format_args!("the record of purges of cache \"{name}\" cannot be written: {error}"),
                );
            }
        }
    }

    /// The figures of the cache.
    pub(super) fn report(&self) -> CacheReport {
        CacheReport {
            name: self.name.to_string(),
            pending: self.record.untold.len(),
            applied: (!self.record.mark.is_empty()).then(|| self.applied.to_string()),
            purges: self.purges,
            whole: self.whole,
        }
    }
}
