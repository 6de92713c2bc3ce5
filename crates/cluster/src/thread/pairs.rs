//! A zone of pairs that nodes share.
//!
//! The engine has a table of all pairs and a log of their changes. A node reads the whole table once, and follows the log from
//! then on. A change goes to the engine first, and comes back by the log, so that all nodes see all changes in the same order.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use freerun_runtime::log::ErrorLog;
use freerun_serve::configuration::unsaved_states;
use freerun_serve::values::keyvals::{KeyvalZone, PairChange, PairRefusal, PairsAlone};
use tokio::sync::oneshot;

use crate::engine::{LogEnds, PairCommand};
use crate::figures::ZoneReport;
use crate::log_entry::{EnginePair, EntryId, PairCodec, PairEntry};
use crate::seal::Sealer;
use crate::state::PairWriteError;

/// The most keys whose changes wait for the engine. A change beyond is refused.
const MAX_WAITING: usize = 10_000;

/// The number of pairs that are sent to an engine at once which does not have them.
const MERGED: usize = 256;

/// The place of a zone in its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JoinStep {
    /// The log has everything since the last entry that was applied.
    GoOn(EntryId),
    /// The whole table has to be read. The log is followed from this entry on.
    ReadAll {
        /// The newest entry before the table was read.
        from: EntryId,
        /// Whether the engine gets the pairs of this node first that it does not have: it has never had any, or it has lost
        /// them.
        merges: bool,
    },
}

/// A shared zone.
pub(super) struct SharedPairs {
    name: Arc<str>,
    zone: Option<KeyvalZone>,
    pub(super) codec: PairCodec,
    /// The last entry that was applied, once the whole table was read.
    applied: Option<EntryId>,
    /// The keys that were changed while the engine was away.
    waiting: BTreeSet<String>,
    /// All pairs were removed while the engine was away, before those changes.
    was_cleared: bool,
    /// The changes that wait until an entry is applied.
    waiters: Vec<(EntryId, oneshot::Sender<()>)>,
    left_out: u64,
    /// The state file does not have the present pairs.
    is_unsaved: bool,
}

impl SharedPairs {
    /// A zone that has not seen the engine yet.
    pub(super) fn new(name: &Arc<str>) -> SharedPairs {
        SharedPairs {
            name: name.clone(),
            zone: None,
            codec: PairCodec::new(name, None),
            applied: None,
            waiting: BTreeSet::new(),
            was_cleared: false,
            waiters: Vec::new(),
            left_out: 0,
            is_unsaved: false,
        }
    }

    /// Whether this is the zone of these pairs.
    pub(super) fn has_pairs_of(&self, zone: &KeyvalZone) -> bool {
        self.zone.as_ref().is_some_and(|own| Arc::ptr_eq(&own.pairs, &zone.pairs))
    }

    /// Takes what a configuration says of the zone.
    pub(super) fn follow(&mut self, zone: &KeyvalZone, sealer: Option<Arc<Sealer>>) {
        self.zone = Some(zone.clone());
        self.codec = PairCodec::new(&self.name, sealer);
    }

    /// Changes pairs while the engine is away.
    ///
    /// # Errors
    /// The zone is not changed without the engine, or the change is refused.
    pub(super) fn change_alone(&mut self, change: &PairChange) -> Result<(), PairWriteError> {
        let Some(zone) = &self.zone else { return Err(PairWriteError::Away) };
        if zone.sync.is_none_or(|sync| sync.alone == PairsAlone::Refuse) || self.waiting.len() >= MAX_WAITING {
            return Err(PairWriteError::Away);
        }
        zone.pairs.change(change, zone.timeout)?;
        match change {
            PairChange::Add(all) => self.waiting.extend(all.iter().map(|new| new.key.clone())),
            PairChange::Set { key, .. } | PairChange::Remove(key) => drop(self.waiting.insert(key.clone())),
            PairChange::Clear => {
                self.waiting.clear();
                self.was_cleared = true;
            }
        }
        self.is_unsaved = true;
        Ok(())
    }

    /// Whether there are changes that the engine does not have.
    pub(super) fn has_waiting(&self) -> bool {
        self.was_cleared || !self.waiting.is_empty()
    }

    /// The changes that the engine does not have, as commands, each with its key; `offset` is the engine's clock less this
    /// node's, in milliseconds. They wait until [`SharedPairs::note_told`] is called for each.
    pub(super) fn waiting(&self, offset: i64) -> Vec<(Option<String>, PairCommand)> {
        let Some(zone) = &self.zone else { return Vec::new() };
        let mut commands = Vec::new();
        if self.was_cleared {
            commands.push((None, PairCommand::Clear));
        }
        if self.waiting.is_empty() {
            return commands;
        }
        let there: HashMap<String, (String, Option<u64>)> =
            zone.pairs.entries().into_iter().map(|(key, value, until)| (key, (value, until))).collect();
        for key in &self.waiting {
            let field = self.codec.field(key);
            let command = match there.get(key) {
                Some((value, until)) => {
                    self.stored(key, value, *until, offset).map(|stored| PairCommand::Put(field, stored))
                }
                None => self.codec.payload(key, "").map(|payload| PairCommand::Remove(field, payload, false)),
            };
            commands.extend(command.map(|command| (Some(key.clone()), command)));
        }
        commands
    }

    /// Notes that the engine has the change of this key, or, without a key, the removal of all pairs.
    pub(super) fn note_told(&mut self, key: Option<&str>) {
        match key {
            Some(key) => drop(self.waiting.remove(key)),
            None => self.was_cleared = false,
        }
    }

    /// All pairs of this node, as commands for an engine that does not have them.
    pub(super) fn all(&self, offset: i64) -> Vec<PairCommand> {
        let Some(zone) = &self.zone else { return Vec::new() };
        let entries = zone.pairs.entries();
        let each = |(key, value, until): &(String, String, Option<u64>)| {
            Some((self.codec.field(key), self.stored(key, value, *until, offset)?))
        };
        entries.chunks(MERGED).map(|part| PairCommand::Merge(part.iter().filter_map(each).collect())).collect()
    }

    /// The end and the text of a pair, as the engine has them.
    fn stored(&self, key: &str, value: &str, until: Option<u64>, offset: i64) -> Option<Vec<u8>> {
        let until = until.map_or(0, |until| until.saturating_add_signed(offset).max(1));
        Some([until.to_string().as_bytes(), b"|", &self.codec.payload(key, value)?].concat())
    }

    /// A change in words that the engine understands.
    ///
    /// # Errors
    /// A text is no key of the zone's kind, or there is no room.
    pub(super) fn command(&self, change: &PairChange) -> Result<PairCommand, PairWriteError> {
        let zone = self.zone.as_ref().ok_or(PairWriteError::Away)?;
        if !zone.pairs.takes_keys(change) {
            return Err(PairRefusal::Key.into());
        }
        if !zone.pairs.has_room(change) {
            return Err(PairRefusal::Full.into());
        }
        let no_random = PairWriteError::Away;
        Ok(match change {
            PairChange::Add(all) => {
                let each = |new: &freerun_serve::values::keyvals::New| {
                    let payload = self.codec.payload(&new.key, &new.value).ok_or(no_random)?;
                    Ok((self.codec.field(&new.key), payload, new.lasts.or(zone.timeout)))
                };
                PairCommand::Add(all.iter().map(each).collect::<Result<_, PairWriteError>>()?)
            }
            PairChange::Set { key, value, lasts } => {
                let payload = value.as_deref().map(|value| self.codec.payload(key, value).ok_or(no_random));
                let lasts: Option<Option<Duration>> = match (lasts, value) {
                    (Some(_), _) => Some(*lasts),
                    (None, Some(_)) => Some(zone.timeout),
                    (None, None) => None,
                };
                PairCommand::Set { field: self.codec.field(key), payload: payload.transpose()?, lasts }
            }
            PairChange::Remove(key) => {
                let payload = self.codec.payload(key, "").ok_or(no_random)?;
                PairCommand::Remove(self.codec.field(key), payload, true)
            }
            PairChange::Clear => PairCommand::Clear,
        })
    }

    /// The way to join the log with these ends. `None` as ends: nothing was ever written to it. `is_same`: it is the log that was
    /// followed before; `was_lost`: the engine has lost what it had.
    pub(super) fn join(&self, ends: Option<LogEnds>, is_same: bool, was_lost: bool) -> JoinStep {
        let newest = ends.unwrap_or_default().newest;
        match (self.applied, ends) {
            (Some(applied), Some(ends)) if is_same && !ends.may_lack(applied) && ends.newest >= applied => {
                JoinStep::GoOn(applied)
            }
            (_, ends) => JoinStep::ReadAll { from: newest, merges: was_lost || ends.is_none() },
        }
    }

    /// Takes the whole table: pairs that it does not have are gone. `offset` is the engine's clock less this node's, in
    /// milliseconds. Texts that are none of this cluster are counted.
    pub(super) fn replace(&mut self, all: &HashMap<String, EnginePair>, strange: u64, from: EntryId, offset: i64) {
        let Some(zone) = &self.zone else { return };
        let pairs = zone.pairs.clone();
        self.left_out = strange;
        for (key, ..) in pairs.entries() {
            if !all.contains_key(&key) {
                pairs.forget(&key);
            }
        }
        for pair in all.values() {
            self.store(pair, offset);
        }
        self.applied = Some(from);
        self.is_unsaved = true;
        self.wake();
    }

    fn store(&mut self, pair: &EnginePair, offset: i64) {
        let Some(zone) = &self.zone else { return };
        let until = pair.until.map(|until| until.saturating_add_signed(offset.saturating_neg()));
        if zone.pairs.store(&pair.key, &pair.value, until).is_err() {
            self.left_out += 1;
        }
    }

    /// Applies an entry of the log. `None` as the change: the entry is none of this cluster.
    pub(super) fn apply(&mut self, id: EntryId, change: Option<PairEntry>, offset: i64) {
        if self.applied.is_some_and(|applied| applied >= id) {
            return;
        }
        self.applied = Some(id);
        let Some(zone) = &self.zone else { return };
        match change {
            Some(PairEntry::Set(pair)) => self.store(&pair, offset),
            Some(PairEntry::Remove(key)) => zone.pairs.forget(&key),
            // It cannot be refused.
            Some(PairEntry::Clear) => drop(zone.pairs.change(&PairChange::Clear, None)),
            None => self.left_out += 1,
        }
        self.is_unsaved = true;
    }

    /// The last entry that was applied.
    pub(super) fn applied(&self) -> Option<EntryId> {
        self.applied
    }

    /// Tells `waiter` when this entry is applied.
    pub(super) fn wait_for(&mut self, id: EntryId, waiter: oneshot::Sender<()>) {
        self.waiters.retain(|(_, waiter)| !waiter.is_closed());
        self.waiters.push((id, waiter));
        self.wake();
    }

    /// Tells those whose entry is applied.
    pub(super) fn wake(&mut self) {
        let Some(applied) = self.applied else { return };
        let (ready, waiting) = std::mem::take(&mut self.waiters).into_iter().partition(|(id, _)| *id <= applied);
        self.waiters = waiting;
        let ready: Vec<_> = ready;
        for (_, waiter) in ready {
            // Whoever has waited may have given up.
            let _ = waiter.send(());
        }
    }

    /// Writes the state file, if it does not have the present pairs.
    pub(super) fn save(&mut self, log: &ErrorLog) {
        let zone = self.zone.as_ref().filter(|_| std::mem::take(&mut self.is_unsaved));
        if let Some((state, pairs)) = zone.and_then(|zone| Some((zone.state.as_ref()?, zone.pairs.clone()))) {
            unsaved_states::write(state, log, move || pairs.save());
        }
    }

    /// The figures of the zone.
    pub(super) fn report(&self) -> ZoneReport {
        ZoneReport {
            name: self.name.to_string(),
            pairs: self.zone.as_ref().map_or(0, |zone| zone.pairs.len()),
            pending: self.waiting.len() + usize::from(self.was_cleared),
            applied: self.applied.map(|id| id.to_string()),
            left_out: self.left_out,
        }
    }
}

#[cfg(test)]
mod tests {
    use freerun_serve::values::keyvals::{KeyvalType, Keyvals, New, PairSync};

    use super::*;

    fn zone(alone: PairsAlone) -> (SharedPairs, Arc<Keyvals>) {
        let pairs = Arc::new(Keyvals::new(KeyvalType::Text, 1 << 20));
        let sync = Some(PairSync { alone });
        let mut shared = SharedPairs::new(&"flags".into());
        shared.follow(&KeyvalZone { pairs: pairs.clone(), timeout: None, state: None, sync }, None);
        (shared, pairs)
    }

    fn id(milliseconds: u64) -> EntryId {
        EntryId { milliseconds, number: 0 }
    }

    fn set(key: &str, value: &str, until: Option<u64>) -> Option<PairEntry> {
        Some(PairEntry::Set(EnginePair { key: key.into(), value: value.into(), until }))
    }

    #[test]
    fn a_log_is_read_on_only_where_nothing_can_be_missing() {
        let (mut shared, _) = zone(PairsAlone::Refuse);
        let ends = |newest, oldest: Option<u64>, is_trimmed| {
            Some(LogEnds { newest: id(newest), oldest: oldest.map(id), is_trimmed })
        };
        let all = |from, merges| JoinStep::ReadAll { from: id(from), merges };
        assert_eq!(shared.join(None, false, false), all(0, true), "the engine has never had this zone");
        assert_eq!(shared.join(ends(9, Some(5), false), false, false), all(9, false));
        shared.replace(&HashMap::new(), 0, id(7), 0);
        assert_eq!(shared.join(ends(9, Some(5), true), true, false), JoinStep::GoOn(id(7)));
        assert_eq!(shared.join(ends(7, None, true), true, false), JoinStep::GoOn(id(7)));
        assert_eq!(shared.join(ends(9, Some(8), true), true, false), all(9, false), "the log is too short");
        assert_eq!(shared.join(ends(9, None, true), true, false), all(9, false));
        assert_eq!(shared.join(ends(6, Some(5), false), true, false), all(6, false), "the log has lost its end");
        assert_eq!(shared.join(ends(9, Some(5), false), false, false), all(9, false), "another primary");
        assert_eq!(shared.join(ends(9, Some(5), false), false, true), all(9, true), "another engine");
    }

    #[test]
    fn entries_are_applied_once_and_in_order() {
        let (mut shared, pairs) = zone(PairsAlone::Refuse);
        shared.apply(id(2), set("x", "2", None), 0);
        shared.apply(id(1), set("x", "1", None), 0);
        assert_eq!(pairs.get("x").as_deref(), Some("2"));
        let (waiter, mut told) = oneshot::channel();
        shared.wait_for(id(3), waiter);
        assert!(told.try_recv().is_err());
        shared.apply(id(3), Some(PairEntry::Remove("x".into())), 0);
        shared.wake();
        assert_eq!((told.try_recv(), pairs.get("x")), (Ok(()), None));
        shared.apply(id(4), None, 0);
        assert_eq!((shared.report().left_out, shared.report().applied.as_deref()), (1, Some("4-0")));
    }

    #[test]
    fn the_end_of_a_pair_is_the_engines_time() {
        let (mut shared, pairs) = zone(PairsAlone::Refuse);
        let far = 4_000_000_000_000;
        // The engine's clock is an hour ahead.
        shared.apply(id(1), set("x", "1", Some(far)), 3_600_000);
        assert_eq!(pairs.entries(), [("x".into(), "1".into(), Some(far - 3_600_000))]);
        let PairCommand::Merge(sent) = &shared.all(3_600_000)[0] else { panic!("pairs are merged") };
        assert_eq!(sent, &[(b"x".to_vec(), format!("{far}|1").into_bytes())]);
    }

    #[test]
    fn changes_without_the_engine_are_refused_or_kept() {
        let add = |key: &str| PairChange::Add(vec![New { key: key.into(), value: "1".into(), lasts: None }]);
        let (mut shared, pairs) = zone(PairsAlone::Refuse);
        assert_eq!((shared.change_alone(&add("a")), pairs.len()), (Err(PairWriteError::Away), 0));
        let (mut shared, pairs) = zone(PairsAlone::Local);
        for key in ["a", "b"] {
            assert_eq!(shared.change_alone(&add(key)), Ok(()));
        }
        assert_eq!(shared.change_alone(&add("a")), Err(PairRefusal::Exists.into()));
        assert_eq!(shared.change_alone(&PairChange::Remove("b".into())), Ok(()));
        assert_eq!(shared.report().pending, 2);
        let commands = format!("{:?}", shared.waiting(0));
        assert!(commands.contains("Put") && commands.contains("Remove") && !commands.contains("Clear"), "{commands}");
        assert_eq!(shared.waiting(0).len(), 2, "they wait until the engine has them");
        shared.note_told(Some("a"));
        assert_eq!(shared.waiting(0).len(), 1);
        assert_eq!(shared.change_alone(&PairChange::Clear), Ok(()));
        assert_eq!(format!("{:?}", shared.waiting(0)), "[(None, Clear)]");
        shared.note_told(None);
        assert!(pairs.is_empty() && !shared.has_waiting());
    }

    #[test]
    fn no_more_changes_are_kept_than_there_is_room_for() {
        let (mut shared, _) = zone(PairsAlone::Local);
        let many = (0..MAX_WAITING).map(|number| New { key: number.to_string(), value: String::new(), lasts: None });
        // The zone itself has less room than that.
        shared.waiting = many.map(|new| new.key).collect();
        assert_eq!(shared.change_alone(&PairChange::Clear), Err(PairWriteError::Away));
    }
}
