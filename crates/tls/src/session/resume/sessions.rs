//! Resumption of the sessions of a listening address.

use super::{SessionStore, TicketFigures, TicketKeys};
use std::sync::Arc;
use std::time::Duration;

/// Store for a server's sessions (`ssl_session_cache`).
#[derive(Debug, Clone)]
pub enum SessionCache {
    /// Sessions are kept nowhere, and clients learn it: they get no id (`off`).
    Off,
    /// Sessions are kept nowhere, but clients get an id as if they were (`none`).
    None,
    /// Sessions are kept in a store, which other servers may use as well (`builtin`, `shared`).
    Kept(SessionStore),
}

/// Resumption of the sessions of a listening address. It is cheap to clone.
#[derive(Debug, Clone)]
pub struct SessionSettings {
    /// The store of sessions for clients without tickets.
    pub cache: SessionCache,
    /// The keys that seal tickets; without keys there are no tickets.
    pub tickets: Option<TicketKeys>,
    /// The time after its full handshake within which a session may be resumed, in whole seconds.
    pub timeout: Duration,
    /// The counters of tickets.
    pub figures: Arc<TicketFigures>,
}

impl SessionSettings {
    /// Whether a session that began then may still be resumed.
    pub(crate) fn in_time(&self, began: Duration, now: Duration) -> bool {
        now.saturating_sub(began) <= self.timeout
    }
}
