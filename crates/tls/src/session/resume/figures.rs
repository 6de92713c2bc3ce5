//! Counters of tickets.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of the tickets of any number of servers.
#[derive(Debug, Default)]
pub struct TicketFigures {
    issued: AtomicU64,
    accepted: AtomicU64,
    unknown_key: AtomicU64,
    expired: AtomicU64,
    damaged: AtomicU64,
}

/// Fate of a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TicketFate {
    /// The ticket was given to a client.
    Issued,
    /// A client has shown it, and it could be opened.
    Accepted,
    /// The ticket was sealed with a key that is not there (any more).
    UnknownKey,
    /// Its session is over.
    Expired,
    /// The ticket was changed, or belongs to another server with the same keys.
    Damaged,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TicketCounts {
    /// Tickets that clients were given.
    pub issued: u64,
    /// Tickets that clients have shown and that could be opened; their sessions may still not fit.
    pub accepted: u64,
    /// Tickets whose key is not there (any more).
    pub unknown_key: u64,
    /// Tickets whose sessions are over.
    pub expired: u64,
    /// Tickets that were changed, or that another server has given which has the same keys.
    pub damaged: u64,
}

impl TicketFigures {
    /// Counts a ticket.
    pub(crate) fn add(&self, fate: TicketFate) {
        let counter = match fate {
            TicketFate::Issued => &self.issued,
            TicketFate::Accepted => &self.accepted,
            TicketFate::UnknownKey => &self.unknown_key,
            TicketFate::Expired => &self.expired,
            TicketFate::Damaged => &self.damaged,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts as they are now.
    pub fn counts(&self) -> TicketCounts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TicketCounts {
            issued: get(&self.issued),
            accepted: get(&self.accepted),
            unknown_key: get(&self.unknown_key),
            expired: get(&self.expired),
            damaged: get(&self.damaged),
        }
    }
}
