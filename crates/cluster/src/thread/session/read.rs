//! Reading the logs: the changes of other nodes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::context::{SessionContext, SessionEnd};
use crate::engine::LogPage;
use crate::log_entry::{EntryFields, EntryId};

/// The pause after entries have come, so that many nodes do not wake for each entry alone.
const READ_PAUSE: Duration = Duration::from_millis(20);

impl SessionContext {
    /// Follows the logs.
    pub(super) async fn read(&mut self) -> SessionEnd {
        let zones: HashMap<String, Arc<str>> =
            self.node.zones.borrow().keys().map(|zone| (self.names.pairs_log(zone), zone.clone())).collect();
        let caches: HashMap<String, Arc<str>> =
            self.node.caches.borrow().keys().map(|cache| (self.names.purges_log(cache), cache.clone())).collect();
        if zones.is_empty() && caches.is_empty() {
            return std::future::pending().await;
        }
        loop {
            let places: Vec<(String, EntryId)> = {
                let all_zones = self.node.zones.borrow();
                let all_caches = self.node.caches.borrow();
                let of_zones = zones
                    .iter()
                    .filter_map(|(log, zone)| Some((log.clone(), all_zones.get(zone)?.applied().unwrap_or_default())));
                let of_caches =
                    caches.iter().filter_map(|(log, cache)| Some((log.clone(), all_caches.get(cache)?.applied())));
                of_zones.chain(of_caches).collect()
            };
            let pages = match self.link.read_logs(&places).await {
                Ok(pages) => pages,
                Err(error) => return SessionEnd::Away(error),
            };
            // Where a node reads more slowly than others write, the engine may have removed entries that it has not read.
            let behind: Vec<&LogPage> = pages.iter().filter(|page| page.is_full()).collect();
            for page in &behind {
                let place = places.iter().find(|(log, _)| *log == page.log).map(|(_, place)| *place);
                match self.link.log_ends(&page.log).await {
                    Ok(ends) if ends.unwrap_or_default().may_lack(place.unwrap_or_default()) => {
                        return SessionEnd::Changed;
                    }
                    Ok(_) => {}
                    Err(error) => return SessionEnd::Away(error),
                }
            }
            let (is_quiet, is_behind) = (pages.is_empty(), !behind.is_empty());
            let unread: Vec<String> = behind.iter().map(|page| page.log.clone()).collect();
            for page in pages {
                self.apply(page, &zones, &caches);
            }
            for (_, zone) in zones.iter().filter(|(log, _)| !unread.contains(log)) {
                self.node.zones.borrow_mut().get_mut(zone).into_iter().for_each(|zone| zone.note_read());
            }
            for (_, cache) in caches.iter().filter(|(log, _)| !unread.contains(log)) {
                self.node.caches.borrow_mut().get_mut(cache).into_iter().for_each(|cache| cache.note_read());
            }
            if !is_quiet && !is_behind {
                sleep(READ_PAUSE).await;
            }
        }
    }

    /// Applies the entries of a log.
    fn apply(&self, page: LogPage, zones: &HashMap<String, Arc<str>>, caches: &HashMap<String, Arc<str>>) {
        let LogPage { log, entries } = page;
        let size =
            |fields: &EntryFields| -> usize { fields.iter().map(|(name, value)| name.len() + value.len()).sum() };
        let counts = &self.node.shared.counts;
        if let Some(zone) = zones.get(&log)
            && let Some(shared) = self.node.zones.borrow_mut().get_mut(zone)
        {
            for (id, fields) in &entries {
                counts.received(size(fields));
                let change = shared.codec.entry(fields);
                shared.apply(*id, change, self.node.clock_offset.get());
            }
            shared.wake();
        } else if let Some(cache) = caches.get(&log)
            && let Some(shared) = self.node.caches.borrow_mut().get_mut(cache)
        {
            for (id, fields) in &entries {
                counts.received(size(fields));
                let is_own = fields.iter().any(|(name, value)| name == b"n" && value == self.node.id.as_bytes());
                let what = if is_own { None } else { shared.codec.entry(fields) };
                shared.apply(*id, what);
            }
        }
    }
}
