//! Removing the objects that purges by prefix, tag or key text mean: the heads of all files are looked at, at the pace
//! of `purger_files` and its like. The purges are in force meanwhile, see [`crate::purge`].

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::core::{Manager, Moment, RETRY};
use super::disk;
use crate::index::Entry;

/// A pass over all objects.
pub(super) struct Sweep {
    entries: std::vec::IntoIter<Arc<Entry>>,
    /// The newest purge that this sweep is for.
    upto: u64,
    /// Entries with unreadable files; they are tried once more.
    unread: Vec<Arc<Entry>>,
    /// Whether the attempt is the second one.
    again: bool,
}

impl Sweep {
    /// The newest purge that this sweep is for.
    pub(super) fn upto(&self) -> u64 {
        self.upto
    }
}

/// The most objects that are passed over in one run because nothing has to be done about them.
const PASSED: usize = 16_384;

impl Manager {
    /// Continues a sweep, or begins one if there is a purge to sweep for.
    pub(super) fn sweep(&mut self, at: Moment) {
        if self.sweep.is_none() {
            if !self.sweep_again {
                return;
            }
            self.sweep_again = false;
            let upto = self.store.purges.newest();
            let entries: Vec<_> = self.policy.items().filter(|entry| entry.checked() < upto).cloned().collect();
            self.sweep = Some(Sweep { entries: entries.into_iter(), upto, unread: Vec::new(), again: false });
            self.next_sweep = at.clock;
        }
        if at.clock < self.next_sweep {
            return;
        }
        let pace = self.store.config.load().purger;
        let Some(mut sweep) = self.sweep.take() else { return };
        let begun = Instant::now();
        let mut looked = 0;
        for _ in 0..PASSED {
            let Some(entry) = sweep.entries.next() else {
                if sweep.unread.is_empty() {
                    self.swept(&sweep);
                } else {
                    debug_assert!(!sweep.again, "entries are tried once more, and no third time");
                    let entries = std::mem::take(&mut sweep.unread).into_iter();
                    self.sweep = Some(Sweep { entries, again: true, ..sweep });
                    self.next_sweep = at.clock + RETRY;
                }
                return;
            };
            if entry.is_gone() || entry.is_foreign() || entry.checked() >= sweep.upto {
                continue;
            }
            if !self.compare(&entry, sweep.upto) {
                // Only this sweep knows that the purge may mean the object: the next process does not know the purge.
                if sweep.again { self.damaged(&entry) } else { sweep.unread.push(entry) }
            }
            looked += 1;
            if looked >= pace.files.max(1) || begun.elapsed() >= pace.threshold {
                break;
            }
        }
        self.sweep = Some(sweep);
        self.next_sweep = at.clock + pace.sleep;
    }

    /// Compares an object with the purges. False: its file cannot be read.
    fn compare(&mut self, entry: &Arc<Entry>, upto: u64) -> bool {
        let store = self.store.clone();
        match disk::look(&store.path_of(entry.key())) {
            Ok(looked) => match looked.head {
                Ok((head, _)) => {
                    if !store.purges.means(entry.checked(), &head.key, &head.tags) {
                        entry.set_checked(upto);
                    } else if self.drop_entry(entry) {
                        store.work.purged.fetch_add(1, Relaxed);
                    }
                }
                Err(_) => self.damaged(entry),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.damaged(entry),
            Err(_) => return false,
        }
        true
    }

    fn damaged(&mut self, entry: &Arc<Entry>) {
        if self.drop_entry(entry) {
            self.store.work.damaged.fetch_add(1, Relaxed);
        }
    }

    fn swept(&mut self, sweep: &Sweep) {
        // The purges may also mean files that the index does not know yet: they wait for the walk.
        if self.walk.is_none() {
            self.swept = self.swept.max(sweep.upto);
            self.sweep_again |= self.store.purges.newest() > sweep.upto;
            self.drop_purges();
        }
    }

    /// Takes purges from the list whose objects are gone. Objects that are being fetched since before are compared with
    /// the purges when they are stored, so the purges wait for them.
    pub(super) fn drop_purges(&mut self) {
        let upto =
            self.fills.upgrade().and_then(|fills| fills.oldest()).map_or(self.swept, |oldest| oldest.min(self.swept));
        if self.store.purges.list().first().is_some_and(|purge| purge.sequence <= upto) {
            self.store.purges.done(upto);
            self.save_purges();
        }
    }
}
