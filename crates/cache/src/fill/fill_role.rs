//! The decision, when a request finds no object, whether it leads a fill or follows one.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

use freerun_runtime::files::Aio;

use super::fill_writer::FillWriter;
use super::table::{ActiveFill, Fill, Fills, MAX_FILLS};
use crate::index::Entry;
use crate::key::Key;

/// The way in which a request for an absent object continues.
#[derive(Debug)]
pub enum Lead {
    /// The request asks the origin and gives the bytes of the response to the fill.
    Leader(FillWriter),
    /// Another request leads the fill; this one follows it.
    Follow(Arc<Fill>),
    /// The object has changed since it was looked up: look again.
    Changed,
    /// The request asks the origin for itself, and stores nothing. Either there are [`MAX_FILLS`], or the cache has not
    /// been started. Or another request had come or gone each time that this one tried to lead.
    Alone,
}

/// Number of tries to lead a fill while other requests do the same. Beyond that the request asks the origin itself.
const MAX_ROUNDS: usize = 12;

impl Fills {
    /// Leads or follows the fill of a key, see [`Cache::lead`](crate::cache::Cache::lead).
    pub(crate) fn lead(
        self: &Arc<Self>,
        (key, main): (Key, Key),
        known: Option<&Arc<Entry>>,
        age: Option<Duration>,
        aio: &Aio,
        client: u64,
    ) -> Lead {
        let Some(disk) = self.store.disk.get() else { return Lead::Alone };
        let map = self.map.pin();
        let mut spare: Option<Arc<Fill>> = None;
        // A round fails only if another request has come or gone in between. Under load that may go on for any number
        // of rounds, and the loop must not wait for its end.
        for _ in 0..MAX_ROUNDS {
            let there = map.get(&key);
            if let Some(fill) = there
                && fill.is_open()
                && !age.is_some_and(|age| fill.is_overdue(age))
            {
                return Lead::Follow(fill.clone());
            }
            if map.len() + self.replaced.len() >= MAX_FILLS {
                return Lead::Alone;
            }
            let fill = spare.take().unwrap_or_else(|| {
                let pool = aio.pool().unwrap_or(&disk.pool).clone();
                Arc::new(Fill::new(self, disk.clone(), (key, main), pool, client))
            });
            let before = there.cloned();
            if let Some(before) = &before {
                self.set_aside(before);
            }
            self.count(&fill, true);
            let placed = map.compute(key, |there| match (there, &before) {
                (None, None) => papaya::Operation::Insert(fill.clone()),
                (Some((_, there)), Some(before)) if Arc::ptr_eq(there, before) => {
                    papaya::Operation::Insert(fill.clone())
                }
                _ => papaya::Operation::Abort(()),
            });
            if matches!(placed, papaya::Compute::Aborted(())) {
                self.count(&fill, false);
                spare = Some(fill);
                continue;
            }
            fill.sequence.store(self.store.index.sequence(), Release);
            // A fill that was there a moment ago may just have stored the wanted object.
            if self.store.has_changed(key, known) {
                // A request that has found this fill meanwhile looks again, too.
                FillWriter::new(ActiveFill { fills: self.clone(), fill }).not_storable();
                return Lead::Changed;
            }
            self.counts.begun.fetch_add(1, Relaxed);
            return Lead::Leader(FillWriter::new(ActiveFill { fills: self.clone(), fill }));
        }
        Lead::Alone
    }
}
