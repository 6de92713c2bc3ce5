//! A connection: datagrams and time go in; datagrams, events and bytes of streams come out.

use std::time::Instant;

use quinn_proto::{Connection, ConnectionHandle, DatagramEvent, Endpoint, Transmit};

pub use quinn_proto::{
    ClosedStream, ConnectionError, Event, FinishError, ReadError, ReadableError, StreamEvent, WriteError,
};

use crate::datagram::Datagram;

/// A connection with the endpoint that gives it its connection IDs.
pub struct QuicConnection {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
}

impl QuicConnection {
    pub(crate) fn new(mut endpoint: Endpoint, handle: ConnectionHandle, connection: Connection) -> QuicConnection {
        // The endpoint has this connection and no other one.
        endpoint.set_server_config(None);
        let mut this = QuicConnection { endpoint, handle, connection };
        this.exchange();
        this
    }

    /// Takes a datagram. An answer that is not the connection's (a stateless reset) is appended to `output`.
    pub fn receive(&mut self, now: Instant, datagram: Datagram, output: &mut Vec<u8>) -> Option<Transmit> {
        match datagram.give(&mut self.endpoint, now, output)? {
            DatagramEvent::ConnectionEvent(handle, event) => {
                debug_assert_eq!(handle, self.handle, "the endpoint has one connection");
                self.connection.handle_event(event);
                self.exchange();
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
        let transmit = self.connection.poll_transmit(now, most, output);
        self.exchange();
        transmit
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
