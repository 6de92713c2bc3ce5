//! The view that a request has of its client.

use std::future::{pending, poll_fn};
use std::io::IoSlice;
use std::ops::Deref;
use std::rc::Rc;

use freerun_proto::encode;
use freerun_transport::{TcpInfo, Transport};

use super::stream::{ResponseHead, Stream};
use super::{Connection, Facts};
use freerun_serve::Address;
use freerun_serve::limits::ConnPlaces;
use freerun_serve::tls::agreed_session::AgreedSession;
use freerun_serve::tls::client_facts::{CertificateHolder, TlsFacts};

/// The client of a request: the properties of the connection that it came on, the source of its body, and whether the
/// client is still there. Sending the response is the task of the protocol's driver, which knows the connection or
/// stream that it has made.
///
/// Subrequests share the client of their request. A request that goes on in the background has no client that could
/// leave, nor has a request that no client has sent.
pub struct ClientView<C> {
    carried_by: CarriedBy<C>,
    is_background: bool,
}

/// The connection or stream that carries a request.
enum CarriedBy<C> {
    /// The connection carries one request at a time: HTTP/1.
    Connection(Rc<Connection<C>>),
    /// The connection is a byte stream and carries several requests at once: HTTP/2.
    StreamOfConnection(Rc<Connection<C>>, Rc<dyn Stream>),
    /// The connection is no byte stream, such as one of datagrams. Requests know its facts alone.
    Stream(Rc<Facts<C>>, Rc<dyn Stream>),
    /// The server has made the request itself, for a health check.
    Nobody(Rc<Facts<C>>),
}

impl<C> Clone for ClientView<C> {
    #[inline]
    fn clone(&self) -> ClientView<C> {
        let carried_by = match &self.carried_by {
            CarriedBy::Connection(connection) => CarriedBy::Connection(connection.clone()),
            CarriedBy::StreamOfConnection(connection, stream) => {
                CarriedBy::StreamOfConnection(connection.clone(), stream.clone())
            }
            CarriedBy::Stream(facts, stream) => CarriedBy::Stream(facts.clone(), stream.clone()),
            CarriedBy::Nobody(facts) => CarriedBy::Nobody(facts.clone()),
        };
        ClientView { carried_by, is_background: self.is_background }
    }
}

impl<C> Deref for ClientView<C> {
    type Target = Facts<C>;

    #[inline]
    fn deref(&self) -> &Facts<C> {
        match &self.carried_by {
            CarriedBy::Connection(connection) | CarriedBy::StreamOfConnection(connection, _) => connection,
            CarriedBy::Stream(facts, _) | CarriedBy::Nobody(facts) => facts,
        }
    }
}

impl<C> ClientView<C> {
    /// The client of a connection that carries one request at a time.
    #[inline]
    pub fn of_connection(connection: Rc<Connection<C>>) -> ClientView<C> {
        ClientView { carried_by: CarriedBy::Connection(connection), is_background: false }
    }

    /// The client of a byte stream that carries several requests at once.
    pub fn of_stream(connection: Rc<Connection<C>>, stream: Rc<dyn Stream>) -> ClientView<C> {
        ClientView { carried_by: CarriedBy::StreamOfConnection(connection, stream), is_background: false }
    }

    /// The client of a connection that carries several requests at once, and is no byte stream.
    pub fn of_facts(facts: Rc<Facts<C>>, stream: Rc<dyn Stream>) -> ClientView<C> {
        ClientView { carried_by: CarriedBy::Stream(facts, stream), is_background: false }
    }

    /// A request without a client, made by the server itself.
    pub fn nobody(facts: Rc<Facts<C>>) -> ClientView<C> {
        ClientView { carried_by: CarriedBy::Nobody(facts), is_background: true }
    }

    /// The client of a request that goes on even if the client has gone.
    pub fn in_background(&self) -> ClientView<C> {
        ClientView { is_background: true, ..self.clone() }
    }

    /// Whether the request goes on when the client has gone.
    #[inline]
    pub fn is_background(&self) -> bool {
        self.is_background
    }

    /// The byte stream of the connection, if the request has it for itself.
    #[inline]
    pub(crate) fn transport(&self) -> Option<&Transport> {
        match &self.carried_by {
            CarriedBy::Connection(connection) => Some(&connection.transport),
            CarriedBy::StreamOfConnection(..) | CarriedBy::Stream(..) | CarriedBy::Nobody(_) => None,
        }
    }

    /// The byte stream that carries the request, alone or with others.
    pub(crate) fn carrier(&self) -> Option<&Transport> {
        match &self.carried_by {
            CarriedBy::Connection(connection) | CarriedBy::StreamOfConnection(connection, _) => {
                Some(&connection.transport)
            }
            CarriedBy::Stream(..) | CarriedBy::Nobody(_) => None,
        }
    }

    /// The facts about the client's TLS, as they are now. A session that has begun with early data is looked at again: its
    /// handshake may be complete meanwhile. The driver of a connection that is no byte stream notes that itself.
    pub fn tls_facts(&self) -> Option<&TlsFacts> {
        let facts = self.tls()?;
        if facts.is_early()
            && let Some(session) = self.carrier().and_then(Transport::tls)
            && session.with_agreed(|agreed| !agreed.early_data) == Some(true)
            && let Some(agreed) = session.with_session(AgreedSession::of).flatten()
        {
            facts.establish(agreed);
        }
        Some(facts)
    }

    /// The stream of a multiplexed protocol, if the request came by one.
    #[inline]
    pub(crate) fn stream(&self) -> Option<&Rc<dyn Stream>> {
        match &self.carried_by {
            CarriedBy::StreamOfConnection(_, stream) | CarriedBy::Stream(_, stream) => Some(stream),
            CarriedBy::Connection(_) | CarriedBy::Nobody(_) => None,
        }
    }

    /// Whether the protocol marks the ends of messages itself, outside of the messages that it carries (HTTP/2,
    /// HTTP/3).
    #[inline]
    pub fn is_multiplexed(&self) -> bool {
        self.stream().is_some()
    }

    /// The address that the connection came from when the request began. It changes where the client of a connection of
    /// datagrams moves.
    #[inline]
    pub fn peer(&self) -> &Address {
        match &self.carried_by {
            CarriedBy::Stream(facts, stream) => stream.peer().unwrap_or(&facts.first_peer),
            CarriedBy::Connection(_) | CarriedBy::StreamOfConnection(..) | CarriedBy::Nobody(_) => &self.first_peer,
        }
    }

    /// The address that the client connected to: the listening address, unless that is a wildcard.
    pub fn local(&self) -> Address {
        match &self.carried_by {
            CarriedBy::Connection(connection) | CarriedBy::StreamOfConnection(connection, _) => connection.local(),
            CarriedBy::Stream(facts, _) | CarriedBy::Nobody(facts) => facts.local(),
        }
    }

    /// The scheme that the client has used: `$scheme`.
    #[inline]
    pub fn scheme(&self) -> &'static str {
        if self.tls().is_some() { "https" } else { "http" }
    }

    /// The kernel's information about the client's connection, if that is a TCP connection.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        self.carrier()?.tcp_info().ok()
    }

    /// Resolves when the client has gone. It never resolves for a request that goes on without its client.
    pub async fn gone(&self) {
        if self.is_background {
            return pending().await;
        }
        match &self.carried_by {
            CarriedBy::Connection(connection) => connection.transport.gone().await,
            CarriedBy::StreamOfConnection(_, stream) | CarriedBy::Stream(_, stream) => {
                poll_fn(|context| stream.poll_gone(context)).await
            }
            CarriedBy::Nobody(_) => pending().await,
        }
    }

    /// Resolves as [`ClientView::gone`] does, but for the task that otherwise reads from the client: waiting costs
    /// less there.
    pub async fn gone_for_reader(&self) {
        if self.is_background {
            return pending().await;
        }
        match &self.carried_by {
            CarriedBy::Connection(connection) => connection.transport.gone_for_reader().await,
            CarriedBy::StreamOfConnection(_, stream) | CarriedBy::Stream(_, stream) => {
                poll_fn(|context| stream.poll_gone(context)).await
            }
            CarriedBy::Nobody(_) => pending().await,
        }
    }

    /// Keeps places in the counts of limits until the response has ended or the client ends its side. It does so if the
    /// connection carries one request at a time; otherwise it returns them.
    pub(crate) fn keep_places(&self, places: ConnPlaces) -> Option<ConnPlaces> {
        match &self.carried_by {
            CarriedBy::Connection(connection) => {
                connection.keep_places(places);
                None
            }
            CarriedBy::StreamOfConnection(..) | CarriedBy::Stream(..) | CarriedBy::Nobody(_) => Some(places),
        }
    }

    /// Number of bytes of a response that the client would certainly accept now.
    #[inline]
    pub fn certain_room(&self) -> usize {
        match &self.carried_by {
            CarriedBy::Connection(connection) => connection.transport.certain_room(),
            CarriedBy::StreamOfConnection(_, stream) | CarriedBy::Stream(_, stream) => stream.certain_room(),
            CarriedBy::Nobody(_) => 0,
        }
    }

    /// Sends `100 Continue` to a client that waits for it before it sends its body. Returns how many bytes were sent.
    pub(crate) fn send_continue(&self) -> usize {
        match &self.carried_by {
            // A socket that cannot take 25 bytes has a client that does not read: such a client may go without.
            CarriedBy::Connection(connection) => {
                connection.transport.try_write(&[IoSlice::new(encode::CONTINUE)], false).unwrap_or(0)
            }
            CarriedBy::StreamOfConnection(_, stream) | CarriedBy::Stream(_, stream) => {
                stream.send_interim(&ResponseHead { status: 100, fields: Default::default() });
                0
            }
            CarriedBy::Nobody(_) => 0,
        }
    }
}

impl<C> CertificateHolder for ClientView<C> {
    fn gone(&self) -> impl Future<Output = ()> {
        self.gone_for_reader()
    }

    fn settle(&self, is_good: bool) {
        match &self.carried_by {
            CarriedBy::Connection(connection) | CarriedBy::StreamOfConnection(connection, _) => {
                connection.transport.settle(is_good);
            }
            CarriedBy::Stream(_, stream) => stream.settle_session(is_good),
            CarriedBy::Nobody(_) => {}
        }
    }
}
