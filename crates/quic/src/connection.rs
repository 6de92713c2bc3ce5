//! A connection: datagrams and time go in; datagrams, events and bytes of streams come out.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use quinn_proto::{Connection, ConnectionHandle, ConnectionStats, DatagramEvent, Endpoint, Transmit};

pub use quinn_proto::{
    ClosedStream, ConnectionError, Event, FinishError, ReadError, ReadableError, StreamEvent, TransportErrorCode,
    WriteError,
};

use crate::datagram::Datagram;

/// A connection with the endpoint that gives it its connection IDs.
pub struct QuicConnection {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    /// The address that the client has shown to have last. Its first address counts as shown.
    peer: SocketAddr,
    progress: MoveProgress,
    /// Bytes to and from another address that the client may have. Figures of former addresses are forgotten.
    elsewhere: Option<UnknownAddress>,
}

/// The most bytes that an address may get for each byte from there, before the client has shown to have it (RFC 9000 section 8).
const MOST_AMPLIFICATION: usize = 3;

/// An address that nobody has shown to have.
struct UnknownAddress {
    ip: IpAddr,
    received: usize,
    sent: usize,
}

/// The progress of a client's way to another address. The library tells nobody whether the client has shown that it has the
/// address: as long as it has not, all datagrams that go there ask for that (PATH_CHALLENGE).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MoveProgress {
    /// There is no other address, or nothing has come from there that answers.
    Unanswered,
    /// An answer has come from there. If it is right, the next datagram does not ask.
    Answered,
    /// The client has shown that it has the address.
    Arrived,
}

impl QuicConnection {
    pub(crate) fn new(mut endpoint: Endpoint, handle: ConnectionHandle, connection: Connection) -> QuicConnection {
        // The endpoint has this connection and no other one.
        endpoint.set_server_config(None);
        let peer = connection.remote_address();
        let mut this =
            QuicConnection { endpoint, handle, connection, peer, progress: MoveProgress::Unanswered, elsewhere: None };
        this.exchange();
        this
    }

    /// Takes a datagram. An answer that is not the connection's (a stateless reset) is appended to `output`.
    pub fn receive(&mut self, now: Instant, datagram: Datagram, output: &mut Vec<u8>) -> Option<Transmit> {
        let from = datagram.from;
        if from.ip() != self.peer.ip() {
            self.note_received(from.ip(), datagram.bytes.len());
        }
        match datagram.give(&mut self.endpoint, now, output)? {
            DatagramEvent::ConnectionEvent(handle, event) => {
                debug_assert_eq!(handle, self.handle, "the endpoint has one connection");
                let answers = self.is_away().then(|| self.answers());
                self.connection.handle_event(event);
                self.exchange();
                if let Some(before) = answers {
                    self.note_answer(from, before);
                }
                None
            }
            DatagramEvent::NewConnection(incoming) => {
                debug_assert!(false, "an endpoint without settings begins no connection");
                self.endpoint.ignore(incoming);
                None
            }
            DatagramEvent::Response(transmit) => Some(transmit),
        }
    }

    /// Lets the connection notice that time has passed.
    pub fn advance(&mut self, now: Instant) {
        self.connection.handle_timeout(now);
        self.exchange();
    }

    /// The time at which [`QuicConnection::advance`] is to be called next.
    pub fn deadline(&mut self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    /// The next event, if there is one.
    pub fn next_event(&mut self) -> Option<Event> {
        self.connection.poll()
    }

    /// Appends datagrams that are to be sent to `output`: at most `most` of one size, and the last may be shorter. `None` if
    /// there are none for now.
    pub fn transmit(&mut self, now: Instant, most: usize, output: &mut Vec<u8>) -> Option<Transmit> {
        let before = self.is_moving().then(|| self.connection.stats());
        let transmit = self.next_datagrams(now, most, output);
        self.exchange();
        if let (Some(before), Some(transmit)) = (before, &transmit)
            && transmit.destination == self.connection.remote_address()
        {
            self.note_question(&before);
        }
        transmit
    }

    /// The most bytes of a datagram, by what the way has taken so far.
    pub fn datagram_size(&self) -> usize {
        self.connection.current_mtu().into()
    }

    // ---- a client that moves -----------------------------------------------------------------------------------------

    /// The next datagrams, without those that an address must not get. For the client these are lost.
    fn next_datagrams(&mut self, now: Instant, most: usize, output: &mut Vec<u8>) -> Option<Transmit> {
        let begin = output.len();
        loop {
            let is_elsewhere = self.connection.remote_address().ip() != self.peer.ip();
            let transmit = self.connection.poll_transmit(now, if is_elsewhere { 1 } else { most }, output)?;
            let ip = transmit.destination.ip();
            if ip == self.peer.ip() || self.may_send(ip, transmit.size) {
                return Some(transmit);
            }
            output.truncate(begin);
        }
    }

    /// Notes bytes from an address that the client has not shown to have.
    fn note_received(&mut self, ip: IpAddr, count: usize) {
        match &mut self.elsewhere {
            Some(known) if known.ip == ip => known.received += count,
            other => *other = Some(UnknownAddress { ip, received: count, sent: 0 }),
        }
    }

    /// Whether bytes may go to such an address. They are counted then.
    fn may_send(&mut self, ip: IpAddr, count: usize) -> bool {
        let Some(known) = self.elsewhere.as_mut().filter(|known| known.ip == ip) else { return false };
        let may = known.sent + count <= MOST_AMPLIFICATION.saturating_mul(known.received);
        if may {
            known.sent += count;
        }
        may
    }

    /// Whether the client seems to have moved, and the next datagram shows whether it has the new address.
    pub fn is_moving(&self) -> bool {
        self.progress == MoveProgress::Answered
    }

    /// The address that the client has moved to, once, when it has shown to have it.
    pub fn take_move(&mut self) -> Option<SocketAddr> {
        (self.progress == MoveProgress::Arrived).then(|| {
            self.progress = MoveProgress::Unanswered;
            self.peer
        })
    }

    /// Whether datagrams go to an address that the client has not shown to have.
    fn is_away(&self) -> bool {
        self.connection.remote_address() != self.peer
    }

    /// Number of answers of the client to the question whether it has an address (PATH_RESPONSE).
    fn answers(&self) -> u64 {
        self.connection.stats().frame_rx.path_response
    }

    /// Notes whether a datagram from there has answered the question. There were as many answers before. The answer may be
    /// about the former address, so a datagram has to go there that shows that.
    fn note_answer(&mut self, from: SocketAddr, before: u64) {
        if self.is_away() && self.connection.remote_address() == from && self.answers() > before {
            self.progress = MoveProgress::Answered;
            self.connection.ping();
        }
    }

    /// Notes whether the datagrams that have just left for the new address have asked again. There were these figures before.
    /// Probes of the path's size ask nothing in any case.
    fn note_question(&mut self, before: &ConnectionStats) {
        let after = self.connection.stats();
        if after.path.sent_plpmtud_probes > before.path.sent_plpmtud_probes {
            return;
        }
        if after.frame_tx.path_challenge > before.frame_tx.path_challenge {
            self.progress = MoveProgress::Unanswered;
        } else {
            self.progress = MoveProgress::Arrived;
            self.peer = self.connection.remote_address();
            self.elsewhere = None;
        }
    }

    /// Whether nothing has to be done for the connection any more: its memory may be freed.
    pub fn is_drained(&self) -> bool {
        self.connection.is_drained()
    }

    /// The connection in the library, for its streams and its state.
    pub fn inner(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// The connection in the library, to be looked at.
    pub fn look(&self) -> &Connection {
        &self.connection
    }

    /// Gives the endpoint what the connection has for it, and the other way round.
    fn exchange(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
    }
}
