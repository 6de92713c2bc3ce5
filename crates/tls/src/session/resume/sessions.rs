//! How the sessions of a listening address are resumed.

use super::{SessionStore, TicketFigures, TicketKeys};
use std::sync::Arc;
use std::time::Duration;

/// Where a server keeps sessions (`ssl_session_cache`).
#[derive(Debug, Clone)]
pub enum SessionCache {
    /// Sessions are kept nowhere, and clients are told so: they get no id (`off`).
    Off,
    /// Sessions are kept nowhere, but clients get an id as if they were (`none`).
    None,
    /// Sessions are kept in a store, which other servers may use as well (`builtin`, `shared`).
    Kept(SessionStore),
}

/// How the sessions of a listening address are resumed. It is cheap to clone.
#[derive(Debug, Clone)]
pub struct Sessions {
    /// Where sessions are kept for clients without tickets.
    pub cache: SessionCache,
    /// What tickets are sealed with; without keys there are no tickets.
    pub tickets: Option<TicketKeys>,
    /// How long after its full handshake a session may be resumed, in whole seconds.
    pub timeout: Duration,
    /// Where tickets are counted.
    pub figures: Arc<TicketFigures>,
}

impl Sessions {
    /// Whether a session that began then may still be resumed.
    pub(crate) fn in_time(&self, began: Duration, now: Duration) -> bool {
        now.saturating_sub(began) <= self.timeout
    }
}
