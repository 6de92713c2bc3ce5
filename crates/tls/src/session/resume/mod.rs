//! Sessions kept so that later ones need no full handshake. Nothing here knows a session that runs: the time and
//! everything else is an argument. Nothing waits for more than a look into the shard of a table.

mod figures;
mod peers;
mod sessions;
mod store;
mod tickets;

pub(crate) use figures::TicketFate;
pub use figures::{TicketCounts, TicketFigures};
pub use peers::{ClientSessions, PeerSessions};
pub use sessions::{SessionCache, SessionSettings};
pub use store::{SessionStore, StoreCounts};
pub use tickets::{OwnKeyBytes, TicketKeyError, TicketKeys, new_key};

use std::time::Duration;
use zeroize::Zeroizing;

/// The largest session that is kept or put into a ticket, in bytes as rustls writes it. Only the certificates of a client make
/// one larger than a few hundred.
const MAX_SESSION: usize = 8 << 10;

/// Sessions with different contexts are not resumed with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SessionContext([u8; 16]);

impl SessionContext {
    /// The context of these words, which may be long.
    pub(crate) fn of(words: &[u8]) -> Self {
        let mut context = [0; 16];
        context.copy_from_slice(&crate::digest::sha256(words)[..16]);
        Self(context)
    }

    /// The context of the sessions among these that began with a name.
    pub(crate) fn with_name(self, name: &[u8]) -> Self {
        Self::of(&[&self.0[..], name].concat())
    }
}

/// A session that was kept.
pub(crate) struct StoredSession {
    /// The moment of its full handshake, since 1970.
    pub(crate) began: Duration,
    /// The session came from another process, which may still have it.
    pub(crate) is_elsewhere: bool,
    /// The session as rustls writes it.
    pub(crate) session: Zeroizing<Vec<u8>>,
}
