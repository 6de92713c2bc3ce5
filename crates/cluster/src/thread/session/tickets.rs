//! The keys of session tickets that nodes share.

use std::time::Duration;

use freerun_runtime::log::{Level, clock};
use freerun_serve::tls::server::poll_interval;
use freerun_tls::session::{OwnKeyBytes, TicketKeys, new_key};
use tokio::time::sleep;

use super::context::SessionContext;
use crate::engine::EngineError;

impl SessionContext {
    /// Gets the ticket keys that other nodes have made, and makes new ones when it is time.
    pub(super) async fn share_tickets(&mut self) -> EngineError {
        let all = self.plan.tickets.clone();
        let Some(interval) = all.iter().map(|(period, _)| poll_interval(Duration::from_secs(*period))).min() else {
            return std::future::pending().await;
        };
        let mut is_told = false;
        loop {
            for (period, keys) in &all {
                match self.update_tickets(Duration::from_secs(*period), keys).await {
                    Ok(true) => {}
                    Ok(false) if is_told => {}
                    Ok(false) => {
                        is_told = true;
                        self.node
                            .log(Level::Error, format_args!("keys of session tickets in the engine cannot be used"));
                    }
                    Err(error) if error.ends_session() => return error,
                    Err(error) => self.note_error(error),
                }
            }
            sleep(interval).await;
        }
    }

    /// Gets the keys of a period, and makes a new one when it is time. Whether all of them can be used.
    async fn update_tickets(&mut self, period: Duration, keys: &TicketKeys) -> Result<bool, EngineError> {
        let Some(sealer) = self.node.sealer.borrow().clone() else { return Ok(false) };
        // A sealed key cannot be given out for one of another period.
        let place = self.names.tickets(period.as_secs());
        let mut stored = self.link.ticket_keys(&self.names, period, &[]).await?;
        if stored.are_old(period)
            && let Some(sealed) = new_key().ok().and_then(|new| sealer.seal(&place, &new[..]))
        {
            stored = self.link.ticket_keys(&self.names, period, &sealed).await?;
        }
        let now = clock::since_1970();
        let count = stored.keys.len();
        let read = |(made, sealed): (u64, Vec<u8>)| {
            let bytes = sealer.open(&place, &sealed)?;
            let age = Duration::from_millis(stored.now.saturating_sub(made));
            Some((now.saturating_sub(age), OwnKeyBytes::new(bytes.try_into().ok()?)))
        };
        let shared: Vec<_> = stored.keys.into_iter().filter_map(read).collect();
        Ok(keys.install(&shared, now).is_ok() && shared.len() == count)
    }
}
