//! Sessions with upstream servers. Nothing here waits for more than one look into the shard of a table.

use arc_swap::ArcSwapOption;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, UnitWeighter};
use rustc_hash::FxBuildHasher;
use rustls::NamedGroup;
use rustls::client::{Tls12ClientSessionValue, Tls13ClientSessionValue};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

/// The number of sessions of TLS 1.3 that are kept for one peer. Each is used once, and servers give two for each
/// handshake.
const TLS13_SESSIONS: usize = 4;

/// The number of address tokens of QUIC that are kept for one peer. Each is used once, and servers give one or two for each
/// connection. The most bytes of a token leave room for the handshake in a first packet of 1,200 bytes.
const TOKENS: usize = 4;
const LONGEST_TOKEN: usize = 512;

type PeerTable = Cache<Box<[u8]>, PeerSessions, UnitWeighter, FxBuildHasher>;

/// Sessions with the peers of a group of clients, to be resumed. It is cheap to clone, and all clones are the same; all loops
/// use one.
#[derive(Clone)]
pub struct ClientSessions(Option<Arc<PeerTable>>);

/// The sessions with one peer. It is cheap to clone, and all clones are the same.
#[derive(Clone)]
pub struct PeerSessions(Arc<PeerEntry>);

struct PeerEntry {
    tls12: ArcSwapOption<Tls12ClientSessionValue>,
    tls13: SingleUse<Tls13ClientSessionValue, TLS13_SESSIONS>,
    tokens: SingleUse<Vec<u8>, TOKENS>,
    /// The group that the peer has last agreed to, or zero.
    group: AtomicU16,
}

/// Things that are used once each. There is room for those added last.
struct SingleUse<T, const MOST: usize> {
    places: [ArcSwapOption<T>; MOST],
    /// The number of things so far; the next one takes the place of this number.
    added: AtomicUsize,
}

impl<T, const MOST: usize> SingleUse<T, MOST> {
    fn new() -> SingleUse<T, MOST> {
        SingleUse { places: std::array::from_fn(|_| ArcSwapOption::empty()), added: AtomicUsize::new(0) }
    }

    /// Takes the thing that was added last: it is the least likely one to have expired.
    fn take(&self) -> Option<T> {
        let added = self.added.load(Ordering::Relaxed);
        (1..=MOST).find_map(|back| {
            let thing = self.places[added.wrapping_sub(back) % MOST].swap(None)?;
            // Things are only ever swapped, so nobody else has this one.
            Arc::into_inner(thing)
        })
    }

    /// Keeps a thing, and forgets the oldest one if there is no room.
    fn add(&self, thing: T) {
        let place = self.added.fetch_add(1, Ordering::Relaxed) % MOST;
        self.places[place].store(Some(Arc::new(thing)));
    }
}

impl ClientSessions {
    /// Sessions with at most this number of peers; peers that are seldom asked for are forgotten first.
    ///
    /// The number of peers is bounded, not the memory: rustls does not say how large a session is. With tickets of
    /// usual servers a peer takes a few KiB. At worst a peer has one session of TLS 1.2 and four of TLS 1.3. Each has a
    /// ticket and a chain of certificates of up to 64 KiB, the longest that their messages can have. That makes some
    /// 640 KiB.
    pub fn new(max: usize) -> Self {
        let mut options = OptionsBuilder::new();
        options.estimated_items_capacity(max).weight_capacity(max as u64);
        // Building fails only where one of these two is missing.
        let options = options.build().ok().filter(|_| max > 0);
        let table = |options| Cache::with_options(options, UnitWeighter, FxBuildHasher, DefaultLifecycle::default());
        Self(options.map(|options| Arc::new(table(options))))
    }

    /// The sessions with one peer. There are none yet if its key is new. The key has everything that distinguishes
    /// peers: an address and a name, and whatever of the settings must not change between a session and its resumption.
    pub fn peer(&self, key: &[u8]) -> PeerSessions {
        let Some(table) = &self.0 else { return PeerSessions::new() };
        if let Some(peer) = table.get(key) {
            return peer;
        }
        let peer = PeerSessions::new();
        table.insert(key.into(), peer.clone());
        peer
    }
}

impl std::fmt::Debug for ClientSessions {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let peers = self.0.as_ref().map_or(0, |table| table.len());
        to.debug_struct("ClientSessions").field("peers", &peers).finish()
    }
}

impl PeerSessions {
    /// No sessions yet, with a peer whose sessions are kept by the caller alone.
    pub fn new() -> Self {
        Self(Arc::new(PeerEntry {
            tls12: ArcSwapOption::empty(),
            tls13: SingleUse::new(),
            tokens: SingleUse::new(),
            group: AtomicU16::new(0),
        }))
    }

    pub(crate) fn group(&self) -> Option<NamedGroup> {
        match self.0.group.load(Ordering::Relaxed) {
            0 => None,
            group => Some(NamedGroup::from(group)),
        }
    }

    pub(crate) fn set_group(&self, group: NamedGroup) {
        self.0.group.store(u16::from(group), Ordering::Relaxed);
    }

    pub(crate) fn tls12(&self) -> Option<Tls12ClientSessionValue> {
        self.0.tls12.load().as_deref().cloned()
    }

    pub(crate) fn set_tls12(&self, session: Option<Tls12ClientSessionValue>) {
        self.0.tls12.store(session.map(Arc::new));
    }

    pub(crate) fn take_tls13(&self) -> Option<Tls13ClientSessionValue> {
        self.0.tls13.take()
    }

    pub(crate) fn add_tls13(&self, session: Tls13ClientSessionValue) {
        self.0.tls13.add(session);
    }

    /// Takes an address token of the peer (NEW_TOKEN, RFC 9000 section 8.1.3): with it, a connection of QUIC begins without
    /// showing that this side has its address.
    pub fn take_address_token(&self) -> Option<Vec<u8>> {
        self.0.tokens.take()
    }

    /// Keeps an address token for a later connection, unless it is too long for one.
    pub fn add_address_token(&self, token: &[u8]) {
        if token.len() <= LONGEST_TOKEN {
            self.0.tokens.add(token.to_vec());
        }
    }
}

impl Default for PeerSessions {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for PeerSessions {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("PeerSessions").field("tls12", &self.0.tls12.load().is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_tokens_are_used_once_and_the_last_ones_are_kept() {
        let peer = PeerSessions::new();
        assert_eq!(peer.take_address_token(), None);
        for number in 0..6 {
            peer.add_address_token(&[number]);
        }
        peer.add_address_token(&[7; LONGEST_TOKEN + 1]);
        let taken: Vec<_> = std::iter::from_fn(|| peer.take_address_token()).collect();
        assert_eq!(taken, [[5], [4], [3], [2]]);
    }
}
