//! Facts that rustls's callbacks need about the session whose step runs: they have no argument for it. A step runs on
//! one thread from its beginning to its end, so they stand in a variable of the thread meanwhile.

use super::ShownCertificate;
use super::concealment::ConcealedName;
use super::resume::{PeerSessions, SessionContext, SessionStore};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

thread_local! {
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static KEPT: RefCell<CallbackData> = RefCell::default();
}

/// Data that a session keeps for the callbacks, and learns from them.
#[derive(Default)]
pub(super) struct CallbackData {
    /// The name that the client asks for; only on the server's side.
    pub(super) server_name: Option<Box<str>>,
    /// The certificate that was chosen to be shown; only on the server's side.
    pub(super) shown: Option<ShownCertificate>,
    /// The client can use none of the certificates; only on the server's side.
    pub(super) has_no_certificate: bool,
    /// The limits that a client remembers with its session for early data; only on the server's side.
    pub(super) limits: Option<Arc<[u64]>>,
    /// Earlier sessions with the same peer; only on the client's side.
    pub(super) peer: Option<PeerSessions>,
    /// The name of the server that the library sees in another form.
    pub(super) concealed: Option<Arc<ConcealedName>>,
    /// The resumption of an earlier session; only on the server's side.
    pub(super) resumption: ResumedSession,
}

/// Place where an earlier session was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionPlace {
    /// The client has shown a ticket.
    Ticket,
    /// The server has kept it.
    Store,
}

/// Resumption of an earlier session.
#[derive(Default)]
pub(super) struct ResumedSession {
    /// An earlier session was resumed, as far as it was known before the step.
    pub(super) is_resumed: bool,
    /// The moment of the earlier session's full handshake, since 1970.
    began: Option<Duration>,
    /// The earlier session was found within this step.
    found_now: bool,
    /// The place where it was found.
    place: Option<SessionPlace>,
    /// A session was given to the client, for later.
    gave: bool,
    /// Its id.
    id: Option<[u8; 32]>,
    /// The store that has the session, as long as it may have to be forgotten.
    kept: Option<Box<KeptSessions>>,
    /// Whether the session is a good one, once that is known.
    is_good: Option<bool>,
}

/// The entries of a store that are of one session.
struct KeptSessions {
    store: SessionStore,
    context: SessionContext,
    ids: Vec<[u8; 32]>,
}

impl ResumedSession {
    /// The id of the session that was given to the client last.
    pub(super) fn id(&self) -> Option<&[u8]> {
        self.id.as_ref().map(<[u8; 32]>::as_slice)
    }

    /// The place where the earlier session was found.
    pub(super) fn place(&self) -> Option<SessionPlace> {
        self.place
    }

    /// The session is a good one, so it stays where it is kept; or it is forgotten there.
    pub(super) fn settle(&mut self, is_good: bool) {
        self.is_good = Some(is_good);
        let Some(kept) = self.kept.take().filter(|_| !is_good) else { return };
        for id in &kept.ids {
            kept.store.take(kept.context, id);
        }
    }
}

/// The time that the running step was given.
#[derive(Debug)]
pub(super) struct StepTime;

impl TimeProvider for StepTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(now()))
    }
}

/// Runs a step, or a part of one, at a time since 1970.
pub(super) fn run<T>(now: Duration, mut kept: CallbackData, work: impl FnOnce() -> T) -> (T, CallbackData) {
    kept.resumption.found_now = false;
    NOW.set(now);
    KEPT.replace(kept);
    let done = work();
    (done, KEPT.take())
}

/// The time that the running step was given, since 1970.
pub(super) fn now() -> Duration {
    NOW.get()
}

/// Notes the name that the client asks for.
pub(super) fn asked_for(name: Option<&str>) {
    KEPT.with_borrow_mut(|kept| {
        let concealed = kept.concealed.as_ref().and_then(|concealed| concealed.name());
        kept.server_name = name.or(concealed).map(Box::from);
    });
}

/// The name of the server that the library sees in another form, if there is one.
pub(super) fn concealed() -> Option<Arc<ConcealedName>> {
    KEPT.with_borrow(|kept| kept.concealed.clone())
}

/// The limits that the client remembers with its session for early data. There are none over TCP.
pub(super) fn limits() -> Arc<[u64]> {
    KEPT.with_borrow(|kept| kept.limits.clone()).unwrap_or_default()
}

/// Notes that the client can use none of the certificates.
pub(super) fn has_no_certificate() {
    KEPT.with_borrow_mut(|kept| kept.has_no_certificate = true);
}

/// Whether the client can use none of the certificates.
pub(super) fn is_without_certificate() -> bool {
    KEPT.with_borrow(|kept| kept.has_no_certificate)
}

/// Notes the certificate that was chosen to be shown.
pub(super) fn shows(shown: ShownCertificate) {
    KEPT.with_borrow_mut(|kept| kept.shown = Some(shown));
}

/// Looks at the earlier sessions with the peer, if there may be any.
pub(super) fn with_peer<T>(look: impl FnOnce(&PeerSessions) -> T) -> Option<T> {
    KEPT.with_borrow(|kept| kept.peer.as_ref().map(look))
}

/// Notes an earlier session, with the moment of its full handshake. It may turn out not to fit.
pub(super) fn found(began: Duration, place: SessionPlace) {
    KEPT.with_borrow_mut(|kept| {
        kept.resumption.began = Some(began);
        kept.resumption.found_now = true;
        kept.resumption.place = Some(place);
    });
}

/// The moment of the full handshake for the session that is being given to the client. A resumed one does not live
/// longer than the session that it goes on with.
pub(super) fn began() -> Duration {
    KEPT.with_borrow(|kept| {
        // Whoever gives a session within the step in which one was found goes on with it, in TLS 1.2: after a full handshake
        // it takes another step.
        let resumption = &kept.resumption;
        resumption.began.filter(|_| resumption.is_resumed || resumption.found_now).unwrap_or_else(now)
    })
}

/// Whether the client may get a session for later. After a full handshake it gets all tickets. After a resumed one it
/// gets one, for the ticket which it has used. It gets none for a session that is not good.
pub(super) fn may_give() -> bool {
    KEPT.with_borrow(|CallbackData { resumption, .. }| {
        !(resumption.is_resumed && resumption.gave) && resumption.is_good != Some(false)
    })
}

/// Notes that the session is kept under this id, and may have to be forgotten there.
pub(super) fn kept(store: &SessionStore, context: SessionContext, id: &[u8]) {
    let Ok(id) = id.try_into() else { return };
    KEPT.with_borrow_mut(|kept| {
        if kept.resumption.is_good.is_some() {
            return;
        }
        let new = || Box::new(KeptSessions { store: store.clone(), context, ids: Vec::new() });
        kept.resumption.kept.get_or_insert_with(new).ids.push(id);
    });
}

/// Notes the id of a session that the client gets for later.
pub(super) fn gave(id: &[u8]) {
    KEPT.with_borrow_mut(|kept| {
        kept.resumption.gave = true;
        kept.resumption.id = id.try_into().ok();
    });
}
