//! The keys that tell the clients at an address for datagrams apart: their addresses, or the connection IDs of QUIC.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;

use freerun_quic::connection_id::LENGTH;
use freerun_quic::packet::{LONGEST_ID, PacketHead};
use freerun_runtime::net::udp::ReceivedDatagrams;
use rustc_hash::FxHasher;
use smallvec::SmallVec;

/// A connection ID that a client has chosen for its first datagrams.
pub type FirstId = SmallVec<[u8; LONGEST_ID]>;

/// A client at an address for datagrams, as far as it has something to do with one loop.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClientKey {
    /// Both ends of a client's datagrams: its address, and the address that it sends to, where there are several.
    Ends(SocketAddr, Option<IpAddr>),
    /// The ID that a client of QUIC has chosen: its first datagrams have it, until it knows an ID of the server.
    FirstId(FirstId),
}

/// The way to tell clients apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientKind {
    /// Sessions are known by the addresses of their clients.
    #[default]
    Sessions,
    /// Connections of QUIC are known by their IDs.
    Connections,
}

impl ClientKind {
    /// The client of a datagram. `None` if it has none, or belongs to a connection of QUIC that has begun.
    pub fn key(self, received: &ReceivedDatagrams<'_>) -> Option<ClientKey> {
        match self {
            ClientKind::Sessions => Some(ClientKey::Ends(received.from?, received.to)),
            ClientKind::Connections => {
                let head = PacketHead::parse(received.bytes, LENGTH).filter(|head| head.version.is_some())?;
                (head.destination.len() <= LONGEST_ID)
                    .then(|| ClientKey::FirstId(FirstId::from_slice(head.destination)))
            }
        }
    }

    /// The parts of what was received together that have one client each. Connections of QUIC may share addresses.
    pub fn separate(self, received: ReceivedDatagrams<'_>) -> impl Iterator<Item = ReceivedDatagrams<'_>> {
        let (run, single) = match self {
            ClientKind::Sessions => (Some(received), None),
            ClientKind::Connections => (None, Some(received.each())),
        };
        run.into_iter().chain(single.into_iter().flatten())
    }
}

/// A hash of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ClientHash(pub(super) u64);

impl ClientHash {
    /// The hash of this client.
    pub(super) fn of(client: &ClientKey) -> ClientHash {
        // Whoever knew the hashes could have all clients kept waiting.
        static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
        let mut hasher = FxHasher::default();
        (*SEED, client).hash(&mut hasher);
        ClientHash(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_one_address_are_told_apart_by_their_first_ids() {
        let first = |id: u8| [0xc3, 0, 0, 0, 1, 4, id, 7, 7, 7, 0, 0];
        let bytes = [first(1), first(2)].concat();
        let from = Some(SocketAddr::from(([192, 0, 2, 1], 5)));
        let run = ReceivedDatagrams { bytes: &bytes, from, to: None, ecn: 0, segment: Some(12), is_truncated: false };
        let keys = |kind: ClientKind| kind.separate(run).map(|one| kind.key(&one)).collect::<Vec<_>>();
        let id = |id: u8| Some(ClientKey::FirstId(FirstId::from_slice(&[id, 7, 7, 7])));
        assert_eq!(keys(ClientKind::Connections), [id(1), id(2)]);
        assert_eq!(keys(ClientKind::Sessions), [from.map(|from| ClientKey::Ends(from, None))]);
        // Of a connection that has begun.
        let short = ReceivedDatagrams { bytes: &[0x40; 40], segment: None, ..run };
        assert_eq!(ClientKind::Connections.key(&short), None);
        let long = [&[0xc3, 0, 0, 0, 1, 21][..], &[7; 40]].concat();
        assert_eq!(ClientKind::Connections.key(&ReceivedDatagrams { bytes: &long, segment: None, ..run }), None);
    }
}
