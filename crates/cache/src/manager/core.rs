//! The work of the cache's thread, round after round. Time is an argument.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use freerun_conf::text_of_os;
use freerun_runtime::log::Level;
use rustc_hash::FxHashSet;

use super::START_WAIT;
use super::disk;
use super::sweep::Sweep;
use super::walk::Walk;
use crate::fill::Fills;
use crate::folder_watch;
use crate::health::DiskOperation;
use crate::index::policy::{Item, Place, Policy};
use crate::index::{Entry, Event, LoadState, MAX_PENDING};
use crate::journal::{Journal, purges};
use crate::key::Key;
use crate::store::Store;

/// Changes that are looked at in one round.
const EVENTS: usize = 8192;
/// Files that are removed in one round to make room.
const EVICTIONS: usize = 256;
/// After this many files in a row that cannot be removed, the disk is to blame: no others are tried for a while.
const FAILURES: usize = 16;
/// Time that the end waits for tasks that give a file its name at this moment.
const NAMING: Duration = Duration::from_millis(500);
/// The most files that could not be removed and are tried again; others stay where they are until the next start, and
/// their space stays taken.
const MAX_STUBBORN: usize = 65_536;
/// The time after which files that could not be removed or read, and a journal that could not be written, are tried
/// again.
pub(super) const RETRY: Duration = Duration::from_secs(10);
/// While it has work to do, the thread looks for other work this often.
const PAUSE: Duration = Duration::from_millis(20);
/// The interval of work that is done even if nothing happens: asking the file system, looking for inactive objects.
const TICK: Duration = Duration::from_secs(1);
/// Each tick takes away one in this many bytes of the room that is kept free for reservations like those that were
/// refused.
const AHEAD_FADES: u64 = 64;
/// A look for variants of purged keys, which goes through all objects, is followed by a rest that is this many times as
/// long.
const VARIANTS_REST: u32 = 4;
/// Interval at which the counts of keys without objects are cleaned out.
const COUNTS: Duration = Duration::from_secs(60);
/// Number of objects that are examined for inactivity in one tick, whatever their number.
const SURVEYED: usize = 4096;
/// The longest time of one round over all objects, in seconds.
const MAX_PASS: u64 = 600;
/// An index of at most this many objects is written anew at the end, with the state of each object; a larger one has
/// its log.
const SMALL: usize = 65_536;

const _: () = assert!(EVICTIONS < EVENTS, "a round takes in more changes than it makes itself");
const _: () = assert!(EVENTS < MAX_PENDING, "the thread is behind after more changes than it takes in at a time");
const _: () = assert!(PAUSE.as_millis() < TICK.as_millis() && TICK.as_millis() < RETRY.as_millis(), "waits only grow");
const _: () = assert!(NAMING.as_millis() < START_WAIT.as_millis(), "the next process waits for the end of this one");
const _: () = assert!(FAILURES < EVICTIONS, "a disk that refuses everything is noticed within a round");

/// The time of a round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// Seconds since 1970.
    pub(super) unix: u64,
    /// The time since the thread began.
    pub(super) clock: Duration,
}

/// Moment of the next round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// At once.
    Now,
    /// After this time, or when a caller hurries the thread.
    Within(Duration),
    /// After this time, or when anything happens.
    Idle(Duration),
}

/// The state of the cache's thread.
///
/// Invariants between two rounds: waiting requests hear of space that was given back. Purges are written down or will be
/// tried again. The sweep is for purges that exist. Files that could not be removed belong to entries that have left the
/// index and all queues.
pub(super) struct Manager {
    pub(super) store: Arc<Store>,
    /// The fills, which others keep alive: the thread ends when they are gone.
    pub(super) fills: Weak<Fills>,
    pub(super) journal: Journal,
    pub(super) policy: Policy<Arc<Entry>>,
    pub(super) walk: Option<Walk>,
    pub(super) sweep: Option<Sweep>,
    /// Purges came while a sweep was under way, so another sweep follows.
    pub(super) sweep_again: bool,
    /// The newest purge whose objects are all gone.
    pub(super) swept: u64,
    /// There are new purges, which have to be written down in this round.
    purges_changed: bool,
    /// The list of purges could not be written.
    purges_unsaved: bool,
    /// The largest reservation that was refused and may be tried again.
    wanted: u64,
    /// Room that is kept for such reservations; it shrinks as long as none is refused.
    ahead: u64,
    stubborn: VecDeque<Arc<Entry>>,
    /// The removal of some files was given up.
    left_behind: bool,
    /// Purged keys, in the form in which variants have them, while there may be variants of them.
    purged: FxHashSet<u32>,
    has_variants: bool,
    /// The last request to report that all work is done.
    asked: Option<u64>,
    /// Space was given back in this round.
    freed: bool,
    /// A queue or the journal was changed in this round.
    worked: bool,
    resume_evicting: Duration,
    next_tick: Duration,
    next_variants: Duration,
    next_counts: Duration,
    next_survey: Duration,
    next_retry: Duration,
    pub(super) next_walk: Duration,
    pub(super) next_sweep: Duration,
    told_journal: bool,
    told_removal: bool,
}

impl Manager {
    pub(super) fn new(
        store: Arc<Store>,
        fills: Weak<Fills>,
        journal: Journal,
        policy: Policy<Arc<Entry>>,
        walk: Option<Walk>,
    ) -> Manager {
        let sweep_again = store.purges.len() > 0;
        Manager {
            store,
            fills,
            journal,
            policy,
            walk,
            sweep: None,
            sweep_again,
            swept: 0,
            purges_changed: false,
            purges_unsaved: sweep_again,
            wanted: 0,
            ahead: 0,
            stubborn: VecDeque::new(),
            left_behind: false,
            purged: FxHashSet::default(),
            has_variants: true,
            asked: None,
            freed: false,
            worked: false,
            resume_evicting: Duration::ZERO,
            next_tick: Duration::ZERO,
            next_variants: Duration::ZERO,
            next_counts: COUNTS,
            next_survey: Duration::ZERO,
            next_retry: if sweep_again { Duration::ZERO } else { RETRY },
            next_walk: Duration::ZERO,
            next_sweep: Duration::ZERO,
            told_journal: false,
            told_removal: false,
        }
    }

    /// Does the work of one round.
    pub(super) fn round(&mut self, at: Moment) -> Next {
        self.worked = false;
        let mut more = self.events();
        self.take_purges();
        more |= self.evict(at);
        if at.clock >= self.next_tick {
            self.next_tick = at.clock + TICK;
            self.tick(at);
        }
        self.survey(at);
        self.walk(at);
        self.sweep(at);
        if at.clock >= self.next_retry {
            self.next_retry = at.clock + RETRY;
            self.retry(at);
        }
        self.purge_variants(at);
        more |= self.journal.step();
        self.journal.flush();
        if self.freed {
            self.freed = false;
            self.store.index.space.freed.notify_waiters();
        }
        if let Some(number) = self.asked.filter(|_| !self.purges_unsaved && self.purged.is_empty()) {
            self.asked = None;
            self.store.index.set_settled(number);
            self.store.index.settle.notify_waiters();
        }
        self.check_invariants(at);
        if more { Next::Now } else { self.rest(at) }
    }

    fn check_invariants(&self, at: Moment) {
        let newest = self.store.purges.newest();
        debug_assert!(!self.freed && !self.purges_changed, "the round has left something over");
        debug_assert!(self.swept <= newest, "purge {} is done and was never made", self.swept);
        debug_assert!(self.sweep.as_ref().is_none_or(|sweep| sweep.upto() <= newest), "a sweep for purges to come");
        debug_assert!(self.has_variants || self.purged.is_empty(), "variants are looked for, and there are none");
        debug_assert!(self.stubborn.len() <= MAX_STUBBORN, "more files are tried again than the limit says");
        let has_left = |entry: &Arc<Entry>| entry.is_gone() && Item::place(entry) == Place::None;
        debug_assert!(self.stubborn.back().is_none_or(has_left), "the file of an object in use is removed");
        debug_assert!(self.next_tick > at.clock && self.next_retry > at.clock, "the thread would not rest");
    }

    fn rest(&self, at: Moment) -> Next {
        let mut next = self.next_tick.min(self.next_survey);
        if !self.purged.is_empty() {
            next = next.min(self.next_variants);
        }
        if self.walk.is_some() {
            next = next.min(self.next_walk);
        }
        if self.sweep.is_some() {
            next = next.min(self.next_sweep);
        }
        let pause = next.saturating_sub(at.clock);
        if self.worked { Next::Within(pause.min(PAUSE)) } else { Next::Idle(pause) }
    }

    /// Writes the list of purges once for all purges that came at once.
    fn take_purges(&mut self) {
        if std::mem::take(&mut self.purges_changed) {
            self.save_purges();
            self.sweep_again = true;
        }
    }

    /// Handles the changes in the queue. True: there are more.
    fn events(&mut self) -> bool {
        for _ in 0..EVENTS {
            let Some(event) = self.store.index.events.pop() else { return false };
            self.worked = true;
            self.event(event);
        }
        true
    }

    fn event(&mut self, event: Event) {
        let index = &self.store.index;
        match event {
            Event::Stored { entry, replaced } => {
                let mut main = false;
                if let Some(old) = replaced {
                    debug_assert!(old.is_gone() && old.key() == entry.key(), "another key's entry was replaced");
                    main = Item::place(&old) == Place::Main;
                    self.policy.forget(&old);
                    index.space.release(old.disk());
                    self.freed = true;
                }
                // If the entry is already gone, an event about that follows.
                if entry.is_gone() {
                    return;
                }
                self.has_variants |= entry.variant_of() != 0;
                if main {
                    self.policy.insert_main(entry.clone());
                } else {
                    self.policy.insert(entry.clone());
                }
                self.journal.stored(&entry);
            }
            Event::Removed(entry) => {
                debug_assert!(entry.is_gone(), "an entry in use is removed");
                self.policy.forget(&entry);
                self.remove_file(&entry);
            }
            Event::Purged(key) => {
                if self.has_variants {
                    self.purged.insert(key);
                }
            }
            Event::Unwanted(key) => {
                if self.unlink(key).is_some_and(|removed| removed.is_ok_and(|was| was)) {
                    self.store.work.orphans.fetch_add(1, Relaxed);
                }
            }
            Event::Renewed(entry) => {
                entry.written_down();
                if !entry.is_gone() {
                    self.journal.stored(&entry);
                }
            }
            Event::Watch(key) => {
                let config = self.store.config.load_full();
                let _running = self.at_work();
                self.store.folders.watch(key, &config.levels, &config.path);
            }
            Event::Purges => self.purges_changed = true,
            Event::Settle(number) => self.asked = self.asked.max(Some(number)),
        }
    }

    /// Removes the variants of purged keys. They are not used any more, so there is no hurry.
    fn purge_variants(&mut self, at: Moment) {
        if self.purged.is_empty() || (at.clock < self.next_variants && self.asked.is_none()) {
            return;
        }
        let begun = Instant::now();
        let purged = std::mem::take(&mut self.purged);
        self.has_variants = false;
        let mut meant = Vec::new();
        for entry in self.policy.items().filter(|entry| entry.variant_of() != 0) {
            self.has_variants = true;
            if purged.contains(&entry.variant_of()) && self.store.index.is_marked(entry) {
                meant.push(entry.clone());
            }
        }
        for entry in meant {
            if self.drop_entry(&entry) {
                self.store.work.purged.fetch_add(1, Relaxed);
            }
        }
        self.next_variants = at.clock + begun.elapsed() * VARIANTS_REST;
    }

    /// Removes an entry from the queues and the index, with its file. False: it was already gone, or the file is still
    /// there.
    pub(super) fn drop_entry(&mut self, entry: &Arc<Entry>) -> bool {
        if !self.store.index.remove(entry, true) {
            return false;
        }
        self.policy.forget(entry);
        self.remove_file(entry)
    }

    /// Removes the file of an entry that is out of the index, and gives back its space. False: the file is still there.
    fn remove_file(&mut self, entry: &Arc<Entry>) -> bool {
        debug_assert!(entry.is_gone() && Item::place(entry) == Place::None, "the entry is still in use");
        self.worked = true;
        let key = entry.key();
        if self.store.index.peek(key).is_some() {
            // The file is another object's by now, and the old file was replaced when that one got the name.
            self.release(entry);
            return true;
        }
        // Open files would keep their space on the disk taken.
        self.store.memory.forget(key);
        self.journal.removed(key, entry.sequence());
        match self.unlink(key) {
            // Another object has taken its place at this moment.
            None | Some(Ok(_)) => {
                self.release(entry);
                true
            }
            Some(Err(error)) => {
                self.store.work.failed_removals.fetch_add(1, Relaxed);
                if !self.told_removal {
                    self.told_removal = true;
                    let path = self.store.path_of(key);
                    let text = format!("unlink() \"{}\" failed ({error})", text_of_os(&path));
                    self.store.reporter.tell(Level::Crit, &text);
                }
                if self.stubborn.len() < MAX_STUBBORN {
                    self.stubborn.push_back(entry.clone());
                } else {
                    self.left_behind = true;
                }
                false
            }
        }
    }

    /// Removes the file of a key, and returns whether it was there. `None`: the key has an object, which the file
    /// belongs to.
    pub(super) fn unlink(&self, key: Key) -> Option<io::Result<bool>> {
        let _own = self.store.naming.of(key);
        if self.store.index.peek(key).is_some() {
            return None;
        }
        let _running = self.at_work();
        Some(disk::remove(&self.store.path_of(key)))
    }

    /// Notes that the thread is about to wait for the disk: if it waits too long, requests do without the disk.
    fn at_work(&self) -> Option<DiskOperation<'_>> {
        self.store.disk.get().map(|disk| disk.health.begin())
    }

    fn release(&mut self, entry: &Entry) {
        self.store.index.space.release(entry.disk());
        self.freed = true;
    }

    /// Makes room. True: there is more to remove.
    fn evict(&mut self, at: Moment) -> bool {
        let space = self.store.index.space.clone();
        self.wanted = self.wanted.max(space.take_wanted());
        // The file system may have become too small for this reservation meanwhile.
        if self.wanted > space.capacity() {
            self.wanted = 0;
        }
        self.ahead = self.ahead.max(self.wanted).min(space.max_ahead());
        if at.clock < self.resume_evicting {
            return false;
        }
        let mut failures = 0;
        for _ in 0..EVICTIONS {
            if !space.is_short(self.wanted.max(self.ahead)) {
                self.wanted = 0;
                return false;
            }
            let Some(entry) = self.policy.evict() else {
                self.wanted = 0;
                return false;
            };
            if !self.store.index.remove(&entry, true) {
                continue;
            }
            if !self.remove_file(&entry) {
                failures += 1;
                if failures >= FAILURES {
                    // The disk refuses every removal: it is of no use to try other files now.
                    self.resume_evicting = at.clock + RETRY;
                    return false;
                }
                continue;
            }
            failures = 0;
            self.store.work.evicted.fetch_add(1, Relaxed);
        }
        true
    }

    fn tick(&mut self, at: Moment) {
        let config = self.store.config.load_full();
        if self.store.purges.len() > 0 {
            self.drop_purges();
        }
        let index = &self.store.index;
        self.ahead -= (self.ahead / AHEAD_FADES).max(self.ahead.min(1));
        {
            let _running = self.at_work();
            disk::measure(&config.path, config.min_free, &index.space);
        }
        folder_watch::apply();
        if let Some(disk) = self.store.disk.get() {
            // A disk that is out is tried again, even if no request comes.
            disk.health.is_in();
        }
        if at.clock >= self.next_counts || index.counts_are_full() {
            self.next_counts = at.clock + COUNTS;
            index.forget_counts(at.unix, config.inactive);
        }
        if self.journal.is_broken() {
            if !self.told_journal {
                self.told_journal = true;
                let text = format!("the journal of cache \"{}\" cannot be written", config.name);
                self.store.reporter.tell(Level::Error, &text);
            }
        } else {
            self.told_journal = false;
            if self.journal.wants_snapshot(self.policy.len()) {
                self.snapshot();
            }
        }
    }

    /// Begins a snapshot of the whole index.
    fn snapshot(&mut self) -> bool {
        let entries = self.policy.items().cloned().collect();
        let begun = self.journal.begin_snapshot(entries, self.store.index.sequence());
        if begun {
            // Entries that are out of the index while their files are still there would be forgotten with the old log.
            for entry in &self.stubborn {
                self.journal.removed(entry.key(), entry.sequence());
            }
        }
        begun
    }

    /// Removes inactive objects, at the pace of `manager_files` and its like.
    fn survey(&mut self, at: Moment) {
        if at.clock < self.next_survey {
            return;
        }
        let config = self.store.config.load_full();
        let pass = u64::from(config.inactive / 8).clamp(1, MAX_PASS);
        let share = self.policy.len() as u64 / pass + 1;
        let count = usize::try_from(share).unwrap_or(usize::MAX).max(SURVEYED);
        let most = config.manager.files.max(1) as usize;
        let mut inactive = Vec::new();
        self.policy.survey(count, |entry| {
            if at.unix.saturating_sub(entry.accessed()) >= u64::from(config.inactive) {
                inactive.push(entry.clone());
            }
            inactive.len() < most
        });
        let full = inactive.len() >= most;
        for entry in inactive {
            if self.drop_entry(&entry) {
                self.store.work.inactive.fetch_add(1, Relaxed);
            }
        }
        self.next_survey = at.clock + if full { config.manager.sleep.min(TICK) } else { TICK };
    }

    /// Tries operations again that the disk refused.
    fn retry(&mut self, at: Moment) {
        self.store.folders.retry();
        let mut failures = 0;
        for _ in 0..self.stubborn.len() {
            let Some(entry) = self.stubborn.pop_front() else { break };
            debug_assert!(entry.is_gone(), "the file of an object in use is removed");
            if self.unlink(entry.key()).is_none_or(|removed| removed.is_ok()) {
                self.release(&entry);
                self.told_removal = false;
                self.resume_evicting = at.clock;
                failures = 0;
                continue;
            }
            // The next time the other entries come first.
            self.stubborn.push_back(entry);
            failures += 1;
            if failures >= FAILURES {
                break;
            }
        }
        if self.purges_unsaved {
            self.save_purges();
        }
        if self.journal.is_broken() && !self.journal.is_busy() {
            self.snapshot();
        }
    }

    pub(super) fn save_purges(&mut self) {
        let folder = self.store.config.load().path.clone();
        self.purges_unsaved = !self.write_purges(&folder);
    }

    fn write_purges(&self, folder: &Path) -> bool {
        match purges::save(folder, &self.store.purges.list()) {
            Ok(()) => true,
            Err(error) => {
                let text = format!("purges in \"{}\" cannot be written: {error}", text_of_os(&folder));
                self.store.reporter.tell(Level::Error, &text);
                false
            }
        }
    }

    /// Notes that the walk is over and the index is whole.
    pub(super) fn walked(&mut self) {
        self.store.index.set_state(LoadState::Ready, false);
        // Files that the walk has found were not seen by earlier sweeps.
        self.sweep_again |= self.store.purges.len() > 0;
    }

    /// Ends the work: everything is written down. True if the next process will find all of it.
    pub(super) fn end(mut self, at: Moment) -> bool {
        self.store.index.space.close();
        self.store.folders.end();
        // A file that gets its name after the last look would be missing from the journal.
        let named = self.store.naming.close(NAMING);
        while self.events() {}
        self.take_purges();
        if self.journal.is_broken() || self.policy.len() <= SMALL {
            self.journal_anew();
        }
        if self.purges_unsaved {
            self.save_purges();
        }
        self.round(at);
        let space = self.store.index.space.figures();
        let left_over = !named || space.reserved > 0 && self.store.named_early.load(Relaxed);
        let removed = self.stubborn.is_empty() && !self.left_behind && !left_over;
        let whole = self.walk.is_none() && removed && !self.purges_unsaved;
        if whole {
            return self.journal.end();
        }
        self.journal.flush();
        false
    }

    /// Writes a snapshot from beginning to end.
    fn journal_anew(&mut self) {
        while self.journal.step() {}
        if self.snapshot() {
            while self.journal.step() {}
        }
    }
}
