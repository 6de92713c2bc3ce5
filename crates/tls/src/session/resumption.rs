//! Storage and search of a server's sessions for rustls.

use super::early_limits::{with_limits, within_limits};
use super::resume::{SessionCache, SessionContext, SessionSettings, SessionStore, StoredSession, TicketFate};
use super::step::{self, SessionPlace};
use rustls::server::{ProducesTickets, StoresServerSessions};

/// The longest life of a ticket, in seconds (RFC 8446 section 4.6.1): clients refuse a ticket that is to live longer.
const MAX_LIFETIME: u32 = 7 * 86_400;

/// The sessions of one server at a listening address.
#[derive(Debug)]
pub(super) struct ResumptionStore {
    pub(super) sessions: SessionSettings,
    pub(super) context: SessionContext,
    /// Clients may send early data.
    pub(super) early_data: bool,
    /// Clients are asked for certificates, and the sessions of those whose certificates turn out to be bad are forgotten.
    pub(super) may_forget: bool,
}

impl ResumptionStore {
    /// The context of the session whose step runs. rustls resumes a session only with the name that it began with (RFC 6066 section
    /// 3); where it does not see the name, the context has it.
    fn context(&self) -> SessionContext {
        match step::concealed() {
            Some(name) => self.context.with_name(name.sent()),
            None => self.context,
        }
    }

    fn store(&self) -> Option<&SessionStore> {
        match &self.sessions.cache {
            SessionCache::Kept(store) => Some(store),
            SessionCache::Off | SessionCache::None => None,
        }
    }

    /// Notes where the session is kept, if it may have to be forgotten.
    fn note(&self, store: &SessionStore, id: &[u8]) {
        if self.may_forget {
            step::kept(store, self.context(), id);
        }
    }

    fn found(&self, found: &StoredSession, place: SessionPlace) -> Option<Vec<u8>> {
        if !self.sessions.in_time(found.began, step::now()) {
            return None;
        }
        // Its client would send early data by limits that it has no more. Without the session, that is not taken.
        let session = within_limits(&step::limits(), &found.session)?.to_vec();
        step::found(found.began, place);
        Some(session)
    }
}

impl StoresServerSessions for ResumptionStore {
    /// Keeps a session of TLS 1.2 under its id, or one of TLS 1.3 under what is its ticket.
    fn put(&self, id: Vec<u8>, session: Vec<u8>) -> bool {
        let Some(store) = self.store().filter(|_| step::may_give()) else { return false };
        let session = if self.early_data { with_limits(&step::limits(), session) } else { session };
        let is_kept = store.put(self.context(), &id, step::began(), session);
        if is_kept {
            step::gave(&id);
            self.note(store, &id);
        }
        is_kept
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        let store = self.store()?;
        let found = self.found(&*store.get(self.context(), id)?, SessionPlace::Store)?;
        self.note(store, id);
        Some(found)
    }

    /// A session of TLS 1.3 that may bring early data is used once, so that nobody can send that data again. If another
    /// process may have the session, too, it is not used at all. Others stay, as they do in nginx.
    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        if !self.early_data {
            return self.get(id);
        }
        let found = self.store()?.take(self.context(), id).filter(|found| !found.is_elsewhere)?;
        self.found(&found, SessionPlace::Store)
    }

    fn can_cache(&self) -> bool {
        !matches!(self.sessions.cache, SessionCache::Off)
    }
}

impl ProducesTickets for ResumptionStore {
    fn enabled(&self) -> bool {
        self.sessions.tickets.is_some()
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(self.sessions.timeout.as_secs()).unwrap_or(u32::MAX).min(MAX_LIFETIME)
    }

    fn encrypt(&self, session: &[u8]) -> Option<Vec<u8>> {
        let keys = self.sessions.tickets.as_ref().filter(|_| step::may_give())?;
        let ticket = keys.seal(step::now(), self.context(), step::began(), session)?;
        self.sessions.figures.add(TicketFate::Issued);
        step::gave(&crate::digest::sha256(&ticket));
        Some(ticket)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let opened = self.sessions.tickets.as_ref()?.open(step::now(), self.context(), ticket);
        let session = opened.and_then(|found| self.found(&found, SessionPlace::Ticket).ok_or(TicketFate::Expired));
        self.sessions.figures.add(session.as_ref().err().copied().unwrap_or(TicketFate::Accepted));
        session.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn tickets_live_a_week_at_most() {
        let lifetime = |seconds| {
            let sessions = SessionSettings {
                cache: SessionCache::None,
                tickets: None,
                timeout: Duration::from_secs(seconds),
                figures: Default::default(),
            };
            ResumptionStore {
                sessions,
                context: SessionContext::of(b""),
                early_data: false,
                may_forget: Default::default(),
            }
            .lifetime()
        };
        assert_eq!([300, 604_800, 30 * 86_400, u64::MAX].map(lifetime), [300, 604_800, 604_800, 604_800]);
    }

    /// Both processes would take the same early data once.
    #[test]
    fn a_session_of_another_process_brings_no_early_data() {
        let (old, new) = (SessionStore::new(1 << 20), SessionStore::new(1 << 20));
        let context = SessionContext::of(b"server");
        let id = [7; 32];
        let side = |store: &SessionStore, early_data| {
            let (tickets, timeout) = (None, Duration::from_secs(300));
            let sessions = SessionSettings {
                cache: SessionCache::Kept(store.clone()),
                tickets,
                timeout,
                figures: Default::default(),
            };
            ResumptionStore { sessions, context, early_data, may_forget: false }
        };
        assert!(old.put(context, &id, step::now(), vec![1]));
        new.restore(&old.save());
        assert!(side(&new, false).take(&id).is_some());
        assert!(side(&new, true).take(&id).is_none());
        assert!(side(&old, true).take(&id).is_some());
        assert!(side(&old, true).take(&id).is_none());
    }
}
