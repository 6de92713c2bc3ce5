//! What the thread does, round after round. Time is an argument.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use freerun_runtime::log::Level;
use rustc_hash::FxHashSet;

use super::disk;
use super::sweep::Sweep;
use super::walk::Walk;
use crate::fill::Fills;
use crate::health::Running;
use crate::index::policy::{Item, Place, Policy};
use crate::index::{Entry, Event, State};
use crate::journal::{Journal, purges};
use crate::key::Key;
use crate::store::Store;
use crate::tell::Tell;

/// Changes looked at in one round.
const EVENTS: usize = 8192;
/// Files removed to make room in one round.
const EVICTIONS: usize = 256;
/// So many files in a row that cannot be removed are the disk's fault: others are not tried for a while.
const FAILURES: usize = 16;
/// For how long the end waits for those who give a file its name at this moment.
const NAMING: Duration = Duration::from_millis(500);
/// Files that could not be removed and are tried again; beyond, they stay where they are until the next start, and what
/// they take up stays taken.
const MAX_STUBBORN: usize = 65_536;
/// When files that could not be removed or read, and a journal that could not be written, are tried again.
pub(super) const RETRY: Duration = Duration::from_secs(10);
/// While there is something to do, the thread looks so often what else there is.
const PAUSE: Duration = Duration::from_millis(20);
/// What is done every so often even if nothing happens: asking the file system, looking for inactive objects.
const TICK: Duration = Duration::from_secs(1);
/// Each tick takes one in so many bytes of what is kept free for reservations like those that were refused.
const AHEAD_FADES: u64 = 64;
/// A look for variants of purged keys, which goes through all objects, is followed by a rest so many times as long.
const VARIANTS_REST: u32 = 4;
/// Counts of keys without objects are cleaned out so often.
const COUNTS: Duration = Duration::from_secs(60);
/// So many objects are looked at for inactivity in one tick, however many there are.
const SURVEYED: usize = 4096;
/// One round over all objects takes at most so many seconds.
const MAX_PASS: u64 = 600;
/// An index of this size is written down anew at the end, with what is known of each object; a larger one has its log.
const SMALL: usize = 65_536;

/// When a round is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// Seconds since 1970.
    pub(super) unix: u64,
    /// Since the thread began.
    pub(super) clock: Duration,
}

/// When the next round is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// At once.
    Now,
    /// After this time, or when somebody is in a hurry.
    Within(Duration),
    /// After this time, or when anything happens.
    Idle(Duration),
}

/// All that is the thread's own.
pub(super) struct Manager {
    pub(super) store: Arc<Store>,
    /// What is being fetched. It is for others to keep: the thread ends when it is gone.
    pub(super) fills: Weak<Fills>,
    tell: Tell,
    pub(super) journal: Journal,
    pub(super) policy: Policy<Arc<Entry>>,
    pub(super) walk: Option<Walk>,
    pub(super) sweep: Option<Sweep>,
    /// Purges came while a sweep was under way.
    pub(super) sweep_again: bool,
    /// The newest purge whose objects are gone.
    pub(super) swept: u64,
    /// There are new purges, which are to be written down in this round.
    purges_changed: bool,
    /// The list of purges could not be written.
    purges_unsaved: bool,
    /// The largest reservation that was refused and may be tried again.
    wanted: u64,
    /// Room that is kept for such reservations; it shrinks as long as there are none.
    ahead: u64,
    stubborn: VecDeque<Arc<Entry>>,
    /// Files had to be left behind.
    left_behind: bool,
    /// Keys that were purged, as their variants know them, and whether there may be such.
    purged: FxHashSet<u32>,
    has_variants: bool,
    /// The last request to be told when all is done.
    asked: Option<u64>,
    /// Something was given back in this round.
    freed: bool,
    /// Something was written into the queues or the journal in this round.
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
        tell: Tell,
        journal: Journal,
        policy: Policy<Arc<Entry>>,
        walk: Option<Walk>,
    ) -> Manager {
        let sweep_again = store.purges.len() > 0;
        Manager {
            store,
            fills,
            tell,
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

    /// Does what there is to do now.
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
        if more { Next::Now } else { self.rest(at) }
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

    /// Many that come at once are written down once.
    fn take_purges(&mut self) {
        if std::mem::take(&mut self.purges_changed) {
            self.save_purges();
            self.sweep_again = true;
        }
    }

    /// Looks at what happened. True: there is more.
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
                    main = Item::place(&old) == Place::Main;
                    self.policy.forget(&old);
                    index.space.release(old.disk());
                    self.freed = true;
                }
                // Where it is gone already, that is told, too.
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
            Event::Purges => self.purges_changed = true,
            Event::Settle(number) => self.asked = self.asked.max(Some(number)),
        }
    }

    /// Removes the variants of keys that were purged. They are not used any more, so there is no hurry.
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

    /// Removes an entry of the queues and the index, with its file. False: it was gone, or the file is still there.
    pub(super) fn drop_entry(&mut self, entry: &Arc<Entry>) -> bool {
        if !self.store.index.remove(entry, true) {
            return false;
        }
        self.policy.forget(entry);
        self.remove_file(entry)
    }

    /// Removes the file of an entry that is out of the index, and gives back what it took up. False: it is still there.
    fn remove_file(&mut self, entry: &Arc<Entry>) -> bool {
        self.worked = true;
        let key = entry.key();
        if self.store.index.peek(key).is_some() {
            // The file is another object's by now, and the old one went when that got the name.
            self.release(entry);
            return true;
        }
        // Open files would keep what they take up.
        self.store.memory.forget(key);
        self.journal.removed(key, entry.sequence());
        match self.unlink(key) {
            // Another one has taken its place at this moment.
            None | Some(Ok(_)) => {
                self.release(entry);
                true
            }
            Some(Err(error)) => {
                self.store.work.failed_removals.fetch_add(1, Relaxed);
                if !self.told_removal {
                    self.told_removal = true;
                    let path = self.store.path_of(key);
                    (self.tell)(Level::Crit, &format!("unlink() \"{}\" failed ({error})", path.display()));
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

    /// Removes the file of a key; says whether it was there. `None`: the key has an object, whose file it is.
    pub(super) fn unlink(&self, key: Key) -> Option<io::Result<bool>> {
        let _own = self.store.naming.of(key);
        if self.store.index.peek(key).is_some() {
            return None;
        }
        let _running = self.at_work();
        Some(disk::remove(&self.store.path_of(key)))
    }

    /// The thread is about to wait for the disk: if it waits for too long, requests do without it.
    fn at_work(&self) -> Option<Running<'_>> {
        self.store.disk.get().map(|disk| disk.health.begin())
    }

    fn release(&mut self, entry: &Entry) {
        self.store.index.space.release(entry.disk());
        self.freed = true;
    }

    /// Makes room. True: there is more to do.
    fn evict(&mut self, at: Moment) -> bool {
        let space = self.store.index.space.clone();
        self.wanted = self.wanted.max(space.take_wanted());
        // The file system may have become too small for it meanwhile.
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
                    // The disk lets go of none: no use to try the others now.
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
        if let Some(disk) = self.store.disk.get() {
            // One that is out is tried again, though nobody asks for anything.
            disk.health.is_in();
        }
        if at.clock >= self.next_counts || index.counts_are_full() {
            self.next_counts = at.clock + COUNTS;
            index.forget_counts(at.unix, config.inactive);
        }
        if self.journal.is_broken() {
            if !self.told_journal {
                self.told_journal = true;
                (self.tell)(Level::Error, &format!("the journal of cache \"{}\" cannot be written", config.name));
            }
        } else {
            self.told_journal = false;
            if self.journal.wants_snapshot(self.policy.len()) {
                self.snapshot();
            }
        }
    }

    /// Begins to write down everything.
    fn snapshot(&mut self) -> bool {
        let entries = self.policy.items().cloned().collect();
        let begun = self.journal.begin_snapshot(entries, self.store.index.sequence());
        if begun {
            // What is out of the index while its file is still there would be forgotten with the old log.
            for entry in &self.stubborn {
                self.journal.removed(entry.key(), entry.sequence());
            }
        }
        begun
    }

    /// Removes what nobody has asked for, at the pace of `manager_files` and its like.
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

    /// Tries again what the disk refused.
    fn retry(&mut self, at: Moment) {
        let mut failures = 0;
        for _ in 0..self.stubborn.len() {
            let Some(entry) = self.stubborn.pop_front() else { break };
            if self.unlink(entry.key()).is_none_or(|removed| removed.is_ok()) {
                self.release(&entry);
                self.told_removal = false;
                self.resume_evicting = at.clock;
                failures = 0;
                continue;
            }
            // The next time it is the others' turn first.
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
                (self.tell)(Level::Error, &format!("purges in \"{}\" cannot be written: {error}", folder.display()));
                false
            }
        }
    }

    /// The index is whole.
    pub(super) fn walked(&mut self) {
        self.store.index.set_state(State::Ready, false);
        // What the walk has found was not there for the sweeps before.
        self.sweep_again |= self.store.purges.len() > 0;
    }

    /// The end: everything is written down. True if the next process will find all of it.
    pub(super) fn end(mut self, at: Moment) -> bool {
        self.store.index.space.close();
        // What gets its name after the last look would be known to nobody.
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
