//! A zone of pairs that nodes share.
//!
//! The engine has a table of all pairs and a log of their changes. A node reads the whole table once, and follows the log from
//! then on. A change goes to the engine first, and comes back by the log, so that all nodes see all changes in the same order.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use freerun_runtime::log::ErrorLog;
use freerun_serve::configuration::unsaved_states;
use freerun_serve::values::keyvals::{KeyvalZone, New, PairChange, PairRefusal, PairsAlone};
use tokio::sync::oneshot;

use super::known_engine::REMEMBERED;
use crate::engine::{LogEnds, PairCommand};
use crate::figures::ZoneReport;
use crate::log_entry::{EnginePair, EntryId, PairCodec, PairEntry};
use crate::seal::Sealer;
use crate::state::PairWriteError;

/// The most keys whose changes wait for the engine. A change beyond is refused.
const MAX_WAITING: usize = 10_000;

/// The number of pairs that are sent to an engine at once which does not have them.
const MERGED: usize = 256;

/// A change of the engine since a node has followed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EngineLoss {
    /// The engine has what it had.
    None,
    /// The engine has lost what it had.
    Lost,
    /// The engine has come back with an old state, and this node gives it the present one.
    Old,
}

/// The pairs that the engine gets before its table is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PairsGiven {
    /// None.
    None,
    /// The pairs that the engine does not have.
    Missing,
    /// All, in the place of its own.
    All,
}

/// The way of a zone into its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JoinStep {
    /// The log has everything since the last entry that was applied.
    GoOn(EntryId),
    /// The whole table has to be read. The log is followed from this entry on.
    ReadAll {
        /// The newest entry before the table was read.
        from: EntryId,
        /// The pairs that the engine gets first.
        given: PairsGiven,
    },
}

/// A shared zone.
pub(super) struct SharedPairs {
    name: Arc<str>,
    zone: Option<KeyvalZone>,
    pub(super) codec: PairCodec,
    /// The last entry that was applied, once the whole table was read.
    applied: Option<EntryId>,
    /// The keys that were changed while the engine was away, each with the number of its last change.
    waiting: BTreeMap<String, u64>,
    /// All pairs were removed while the engine was away, before those changes: the number of that.
    cleared: Option<u64>,
    changes: u64,
    /// The last time at which the engine has answered for the log.
    read_at: Option<Instant>,
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
            waiting: BTreeMap::new(),
            cleared: None,
            changes: 0,
            read_at: None,
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
        let pairs = zone.pairs.clone();
        let keys: Vec<&String> = match change {
            PairChange::Add(all) => all.iter().map(|new| &new.key).collect(),
            PairChange::Set { key, .. } | PairChange::Remove(key) => vec![key],
            PairChange::Clear => Vec::new(),
        };
        let is_alone = zone.sync.is_none_or(|sync| sync.alone == PairsAlone::Refuse);
        if is_alone || self.waiting.len() + keys.len() > MAX_WAITING {
            return Err(PairWriteError::Away);
        }
        pairs.change(change, zone.timeout)?;
        self.changes += 1;
        if *change == PairChange::Clear {
            self.waiting.clear();
            self.cleared = Some(self.changes);
        }
        let changed = keys.into_iter().filter_map(|key| pairs.canonical(key));
        self.waiting.extend(changed.map(|key| (key, self.changes)));
        self.is_unsaved = true;
        Ok(())
    }

    /// The next change that the engine does not have, as a command, with its key and its number; `offset` is the engine's clock
    /// less this node's, in milliseconds. It waits until [`SharedPairs::note_told`] is called.
    pub(super) fn next_waiting(&self, offset: i64) -> Option<(Option<String>, u64, PairCommand)> {
        if let Some(number) = self.cleared {
            return Some((None, number, PairCommand::Clear));
        }
        let pairs = &self.zone.as_ref()?.pairs;
        let (key, number) = self.waiting.first_key_value()?;
        let field = self.codec.field(key);
        let command = match pairs.entry(key) {
            Some((value, until)) => PairCommand::Put(field, self.stored(key, &value, until, offset)?),
            None => PairCommand::Remove(field, self.codec.payload(key, "")?, false),
        };
        Some((Some(key.clone()), *number, command))
    }

    /// Notes that the engine has the change with this number: of this key, or, without a key, the removal of all pairs.
    pub(super) fn note_told(&mut self, key: Option<&str>, number: u64) {
        match key {
            // The key may have been changed again meanwhile.
            Some(key) if self.waiting.get(key) == Some(&number) => drop(self.waiting.remove(key)),
            None if self.cleared == Some(number) => self.cleared = None,
            _ => {}
        }
    }

    /// All pairs of this node, as commands for an engine that does not have them.
    pub(super) fn all(&self, offset: i64) -> Vec<PairCommand> {
        let Some(zone) = &self.zone else { return Vec::new() };
        let entries = zone.pairs.entries();
        let each = |(key, value, until): &(String, String, Option<u64>)| {
            let key = zone.pairs.canonical(key)?;
            Some((self.codec.field(&key), self.stored(&key, value, *until, offset)?))
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
        let canonical = |key: &str| zone.pairs.canonical(key).ok_or(PairRefusal::Key);
        // A value that no random number can be had for is not sent.
        let payload = |key: &str, value: &str| self.codec.payload(key, value).ok_or(PairWriteError::Away);
        let command = match change {
            PairChange::Add(all) => {
                let each = |new: &New| {
                    let key = canonical(&new.key)?;
                    Ok((self.codec.field(&key), payload(&key, &new.value)?, new.lasts.or(zone.timeout)))
                };
                PairCommand::Add(all.iter().map(each).collect::<Result<_, PairWriteError>>()?)
            }
            PairChange::Set { key, value, lasts } => {
                let key = canonical(key)?;
                let text = value.as_deref().map(|value| payload(&key, value)).transpose()?;
                let lasts: Option<Option<Duration>> = match (lasts, value) {
                    (Some(_), _) => Some(*lasts),
                    (None, Some(_)) => Some(zone.timeout),
                    (None, None) => None,
                };
                PairCommand::Set { field: self.codec.field(&key), payload: text, lasts }
            }
            PairChange::Remove(key) => {
                let key = canonical(key)?;
                PairCommand::Remove(self.codec.field(&key), payload(&key, "")?, true)
            }
            PairChange::Clear => PairCommand::Clear,
        };
        if zone.pairs.has_room(change) { Ok(command) } else { Err(PairRefusal::Full.into()) }
    }

    /// The way to join the log with these ends. `None` as ends: nothing was ever written to it. `is_same`: it is the log that was
    /// followed before.
    pub(super) fn join(&self, ends: Option<LogEnds>, is_same: bool, loss: EngineLoss) -> JoinStep {
        // A node that was away for longer may have pairs that others have removed meanwhile.
        let is_present = self.read_at.is_some_and(|at| at.elapsed() <= REMEMBERED);
        let from = ends.unwrap_or_default().newest;
        let given = match (ends, loss) {
            (None, _) => PairsGiven::Missing,
            (_, EngineLoss::Old) if is_present => PairsGiven::All,
            (_, EngineLoss::Lost) if is_present => PairsGiven::Missing,
            _ => PairsGiven::None,
        };
        match (self.applied, ends) {
            (Some(applied), Some(ends))
                if is_same && loss == EngineLoss::None && !ends.may_lack(applied) && ends.newest >= applied =>
            {
                JoinStep::GoOn(applied)
            }
            _ => JoinStep::ReadAll { from, given },
        }
    }

    /// Notes that the engine has answered for the log.
    pub(super) fn note_read(&mut self) {
        self.read_at = Some(Instant::now());
    }

    /// Takes the whole table: pairs that it does not have are gone, but those that wait to be told. `offset` is the engine's
    /// clock less this node's, in milliseconds. `strange` is the number of texts that are none of this cluster.
    pub(super) fn replace(&mut self, all: Vec<EnginePair>, strange: u64, from: EntryId, offset: i64) {
        let Some(zone) = &self.zone else { return };
        let pairs = zone.pairs.clone();
        self.left_out = strange;
        let canonical = |pair: EnginePair| Some((pairs.canonical(&pair.key)?, pair));
        let count = all.len();
        let all: HashMap<String, EnginePair> = all.into_iter().filter_map(canonical).collect();
        self.left_out += (count - all.len()) as u64;
        for (key, ..) in pairs.entries() {
            let is_there =
                pairs.canonical(&key).is_none_or(|form| all.contains_key(&form) || self.waiting.contains_key(&form));
            if !is_there {
                pairs.forget(&key);
            }
        }
        for (key, pair) in &all {
            if !self.waiting.contains_key(key) {
                self.store(pair, offset);
            }
        }
        self.applied = Some(from);
        self.is_unsaved = true;
        self.note_read();
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
        let pairs = zone.pairs.clone();
        // What was changed here meanwhile will be told, and counts then.
        let waits = |key: &str| pairs.canonical(key).is_some_and(|key| self.waiting.contains_key(&key));
        match change {
            Some(PairEntry::Set(pair)) if !waits(&pair.key) => self.store(&pair, offset),
            Some(PairEntry::Remove(key)) if !waits(&key) => pairs.forget(&key),
            Some(PairEntry::Set(_) | PairEntry::Remove(_)) => {}
            Some(PairEntry::Clear) => {
                for (key, ..) in pairs.entries() {
                    if !waits(&key) {
                        pairs.forget(&key);
                    }
                }
            }
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
            pending: self.waiting.len() + usize::from(self.cleared.is_some()),
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
        use EngineLoss::{Lost, None as Nothing, Old};
        let (mut shared, _) = zone(PairsAlone::Refuse);
        let ends = |newest, oldest: Option<u64>, is_trimmed| {
            Some(LogEnds { newest: id(newest), oldest: oldest.map(id), is_trimmed })
        };
        let all = |from, given| JoinStep::ReadAll { from: id(from), given };
        assert_eq!(shared.join(None, false, Nothing), all(0, PairsGiven::Missing), "it has never had this zone");
        assert_eq!(shared.join(ends(9, Some(5), false), false, Nothing), all(9, PairsGiven::None));
        assert_eq!(
            shared.join(ends(9, Some(5), false), false, Lost),
            all(9, PairsGiven::None),
            "nobody knows how old they are"
        );
        shared.replace(Vec::new(), 0, id(7), 0);
        assert_eq!(shared.join(ends(9, Some(5), true), true, Nothing), JoinStep::GoOn(id(7)));
        assert_eq!(shared.join(ends(7, None, true), true, Nothing), JoinStep::GoOn(id(7)));
        assert_eq!(
            shared.join(ends(9, Some(8), true), true, Nothing),
            all(9, PairsGiven::None),
            "the log is too short"
        );
        assert_eq!(shared.join(ends(9, None, true), true, Nothing), all(9, PairsGiven::None));
        assert_eq!(shared.join(ends(6, Some(5), false), true, Nothing), all(6, PairsGiven::None), "its end is lost");
        assert_eq!(shared.join(ends(9, Some(5), false), false, Nothing), all(9, PairsGiven::None), "another primary");
        assert_eq!(shared.join(ends(9, Some(5), false), false, Lost), all(9, PairsGiven::Missing));
        assert_eq!(shared.join(ends(9, Some(5), false), false, Old), all(9, PairsGiven::All));
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
        let (key, number, command) = shared.next_waiting(0).expect("a change");
        assert!(key.as_deref() == Some("a") && matches!(command, PairCommand::Put(..)), "{command:?}");
        // What others change meanwhile does not undo it.
        shared.apply(id(1), set("a", "of others", None), 0);
        shared.apply(id(2), Some(PairEntry::Clear), 0);
        assert_eq!(pairs.get("a").as_deref(), Some("1"));
        let again = PairChange::Set { key: "a".into(), value: Some("2".into()), lasts: None };
        assert_eq!(shared.change_alone(&again), Ok(()));
        shared.note_told(key.as_deref(), number);
        let (key, number, _) = shared.next_waiting(0).expect("it was changed again");
        assert_eq!(key.as_deref(), Some("a"));
        shared.note_told(key.as_deref(), number);
        let (key, _, command) = shared.next_waiting(0).expect("a removal");
        assert!(key.as_deref() == Some("b") && matches!(command, PairCommand::Remove(..)), "{command:?}");
        assert_eq!(shared.change_alone(&PairChange::Clear), Ok(()));
        let (key, number, command) = shared.next_waiting(0).expect("all of them");
        assert!(key.is_none() && matches!(command, PairCommand::Clear));
        shared.note_told(None, number);
        assert!(pairs.is_empty() && shared.next_waiting(0).is_none());
    }

    #[test]
    fn no_more_changes_are_kept_than_there_is_room_for() {
        let (mut shared, pairs) = zone(PairsAlone::Local);
        shared.waiting = (0..MAX_WAITING).map(|number| (number.to_string(), 1)).collect();
        let one = PairChange::Add(vec![New { key: "a".into(), value: "1".into(), lasts: None }]);
        assert_eq!((shared.change_alone(&one), pairs.len()), (Err(PairWriteError::Away), 0));
        assert_eq!(shared.change_alone(&PairChange::Clear), Ok(()), "that makes room");
        assert_eq!(shared.change_alone(&one), Ok(()));
    }

    #[test]
    fn addresses_are_one_pair_however_they_are_written() {
        let pairs = Arc::new(Keyvals::new(KeyvalType::Address, 1 << 20));
        let sync = Some(PairSync { alone: PairsAlone::Refuse });
        let mut shared = SharedPairs::new(&"nets".into());
        shared.follow(&KeyvalZone { pairs: pairs.clone(), timeout: None, state: None, sync }, None);
        let field = |key: &str| match shared.command(&PairChange::Remove(key.into())) {
            Ok(PairCommand::Remove(field, ..)) => field,
            other => panic!("{other:?}"),
        };
        assert_eq!((field("10.1.2.3/8"), field("::ffff:10.0.0.1")), (b"10.0.0.0/8".to_vec(), b"10.0.0.1".to_vec()));
        assert!(matches!(
            shared.command(&PairChange::Remove("x".into())),
            Err(PairWriteError::Refused(PairRefusal::Key))
        ));
    }
}
