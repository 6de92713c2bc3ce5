//! Reaching a server of the group: tries, one after the other, until there is a connection.

use std::fmt;
use std::future::pending;
use std::net::SocketAddr;

use freerun_conf::text_of;
use freerun_proto::Status;
use freerun_proto::proxy_protocol::write::Carrier;
use freerun_runtime::log::Level;
use freerun_runtime::loops;
use freerun_runtime::net::udp::Datagrams;
use freerun_runtime::timer::Timer;
use freerun_serve::Subject;
use freerun_serve::tls::computed::PairReader;
use freerun_serve::tls::handshake::outgoing_session::OutgoingError;
use freerun_serve::tls::handshake::{HandshakeError, HandshakeHelpers};
use freerun_serve::tls::upstream::{UpstreamTls, without_port};
use freerun_serve::upstream::tries::{Tries, wait_within};
use freerun_transport::Transport;
use freerun_upstream::connect::{ConnectOptions, connect, connect_datagrams};
use freerun_upstream::{Lease, NoPeer, now};

use super::error::{TryError, step, tell_consequence};
use super::pass::SessionTarget;
use super::record::Record;
use super::settings::ProxySettings;
use crate::client::ClientSide;
use crate::session::Session;
use crate::upstream::StreamUpstream;

/// A server that was reached.
pub(super) struct ReachedServer {
    /// The connection.
    pub(super) connection: ServerConnection,
    /// The server.
    pub(super) lease: Lease,
    /// The bytes to send before the client's bytes: the header of the PROXY protocol, unless it was sent already.
    pub(super) header: Vec<u8>,
}

/// The way to a server.
pub(super) enum ServerConnection {
    /// A byte stream.
    Stream(Transport),
    /// A socket whose datagrams go to the server alone.
    Datagrams(Datagrams),
}

/// The tries of one session, and what they all use.
pub(super) struct SessionTries<'s> {
    pub(super) session: &'s Session,
    pub(super) settings: &'s ProxySettings,
    pub(super) target: &'s SessionTarget,
    pub(super) tls: Option<&'s UpstreamTls>,
    pub(super) record: &'s Record,
    /// The value of `tcp_nodelay`.
    pub(super) nodelay: bool,
    tries: Tries,
    /// The settings of connections, once they are known.
    options: Option<ConnectOptions>,
}

impl<'s> SessionTries<'s> {
    pub(super) fn new(
        session: &'s Session,
        settings: &'s ProxySettings,
        target: &'s SessionTarget,
        tls: Option<&'s UpstreamTls>,
        (record, nodelay): (&'s Record, bool),
    ) -> SessionTries<'s> {
        SessionTries { session, settings, target, tls, record, nodelay, tries: Tries::new(), options: None }
    }

    /// Reaches a server.
    ///
    /// # Errors
    /// `$status` of the session: no server could be reached, which was logged.
    pub(super) async fn reach(&mut self) -> Result<ReachedServer, Status> {
        let mut lease = match self.pick().await {
            Ok(lease) => lease,
            Err(_) => return Err(self.without_server()),
        };
        loop {
            // Many servers that refuse at once are many tries without a wait.
            loops::consume_budget().await;
            debug_assert!(self.record.is_over(), "two tries go on");
            self.record.begin(lease.peer().clone(), loops::nanos(), ());
            self.tries.begin();
            self.session.set_step(step::CONNECTING);
            let error = match self.attempt(&lease).await {
                Ok((connection, header)) => return Ok(ReachedServer { connection, lease, header }),
                Err(error) => error,
            };
            self.tell(&error);
            self.record.end(loops::nanos());
            let status = error.status();
            let Some(failure) = error.failure() else { return Err(status) };
            tell_consequence(self.session, lease.failed(failure, now()));
            if !(self.settings.proxy_next_upstream && self.tries.allow(self.settings.try_limits())) {
                return Err(status);
            }
            lease = match self.pick().await {
                Ok(lease) => lease,
                Err(NoPeer::AllTried | NoPeer::Wait) => return Err(status),
                Err(_) => return Err(self.without_server()),
            };
        }
    }

    /// Logs an error.
    fn tell(&self, error: &TryError) {
        if let Some(level) = error.level() {
            self.session.log(level, format_args!("{error}"));
        }
    }

    /// The status when there is no server to ask.
    fn without_server(&self) -> Status {
        let now = loops::nanos();
        self.record.begin(&**self.target.upstream.name(), now, ());
        let error = TryError::NoPeer;
        self.session.set_step(step::CONNECTING);
        self.tell(&error);
        self.record.end(now);
        error.status()
    }

    /// Chooses a server that was not tried yet. The group's `queue` waits until a server has room, but for a further
    /// try no longer than `proxy_next_upstream_timeout` allows.
    async fn pick(&mut self) -> Result<Lease, NoPeer> {
        let upstream: &StreamUpstream = &self.target.upstream;
        let asking = upstream.asking(self.session);
        let ties = upstream.extra.as_ref().and_then(|sticky| sticky.ties(self.session, asking.now));
        let bound = ties.as_ref().map(|ties| ties.bound());
        if let Some(picked) = upstream.pick_now(&asking, bound, &mut self.tries.tried) {
            return picked;
        }
        let longest = self.tries.longest_wait(|| self.settings.try_limits());
        let later = Box::pin(upstream.pick_later(&asking, bound, &mut self.tries.tried));
        wait_within(longest, later).await.unwrap_or(Err(NoPeer::Wait))
    }

    /// Connects to a server, and has a TLS session with it if there is to be one. Returns what is still to be sent before the
    /// client's bytes.
    async fn attempt(&mut self, lease: &Lease) -> Result<(ServerConnection, Vec<u8>), TryError> {
        let mut header = self.header()?;
        if self.session.client.datagrams().is_some() {
            return Ok((self.attempt_datagrams(lease).await?, header));
        }
        let timeout = self.settings.proxy_connect_timeout;
        let options = self.options();
        let mut timer = Timer::default();
        let paths = self.session.services().socket_paths(self.session.client_key());
        let connected = timer.within(timeout, connect(&lease.peer().address, &options, paths)).await;
        let mut transport = connected.ok_or(TryError::TimedOut)?.map_err(TryError::Connect)?;
        let name = &lease.peer().name;
        self.session.log_bare(Level::Info, format_args!("proxy {} connected to {name}", LocalEnd(&transport)));
        if let Some(tls) = self.tls {
            if !header.is_empty() {
                self.session.set_step(step::SENDING_HEADER);
                let sent = timer.within(timeout, transport.write_all(&header)).await;
                sent.ok_or(TryError::TimedOut)?.map_err(TryError::Send)?;
                let len = header.len() as u64;
                self.record.with(|last| last.sent += len);
                header = Vec::new();
            }
            self.session.set_step(step::HANDSHAKING);
            transport = transport.into_tls();
            Box::pin(self.secure(tls, lease, &transport, &mut timer)).await?;
        }
        self.opened(lease);
        Ok((ServerConnection::Stream(transport), header))
    }

    /// Notes that the way to the server is open.
    fn opened(&self, lease: &Lease) {
        let took = self.record.since(loops::nanos());
        self.record.with(|last| last.connect = took.into());
        lease.opened(took, now());
    }

    /// Makes a socket for datagrams to a server. Whether it is there shows later.
    async fn attempt_datagrams(&mut self, lease: &Lease) -> Result<ServerConnection, TryError> {
        let options = self.options();
        let paths = self.session.services().socket_paths(self.session.client_key());
        let (timeout, peer) = (self.settings.proxy_connect_timeout, lease.peer());
        let connected = Timer::default().within(timeout, connect_datagrams(&peer.address, &options, paths)).await;
        let socket = connected.ok_or(TryError::TimedOut)?.map_err(TryError::Connect)?;
        self.session.log_bare(
            Level::Info,
            format_args!("udp proxy {} connected to {}", LocalAddress(&socket), lease.peer().name),
        );
        self.opened(lease);
        Ok(ServerConnection::Datagrams(socket))
    }

    /// The settings of the connection.
    fn options(&mut self) -> ConnectOptions {
        if let Some(options) = self.options.filter(|_| !self.settings.proxy_bind_dynamic) {
            return options;
        }
        let local = self.settings.proxy_bind.of(self.session);
        let options = ConnectOptions { nodelay: self.nodelay, ..self.settings.connect_from(local) };
        *self.options.insert(options)
    }

    /// The header of the PROXY protocol.
    fn header(&self) -> Result<Vec<u8>, TryError> {
        let mut header = Vec::new();
        let carrier = match self.session.client {
            ClientSide::Stream(_) => Carrier::Stream,
            ClientSide::Datagrams(_) => Carrier::Datagrams,
        };
        let ProxySettings { proxy_protocol, proxy_protocol_tlv, .. } = self.settings;
        let written = proxy_protocol.write(self.session, proxy_protocol_tlv, carrier, &mut header);
        written.map_err(|error| {
            self.session.set_step(step::SENDING_HEADER);
            self.session.log(Level::Error, format_args!("{error}"));
            TryError::Ours
        })?;
        Ok(header)
    }

    /// The name that the server is told, and that its certificate has to be for (`proxy_ssl_name`).
    fn tls_name(&self) -> String {
        match &self.settings.proxy_ssl_name {
            Some(name) => without_port(&text_of(&name.render(self.session))).to_owned(),
            None => without_port(&self.target.text).to_owned(),
        }
    }

    /// Has a TLS session on a new connection.
    async fn secure(
        &self,
        tls: &UpstreamTls,
        lease: &Lease,
        transport: &Transport,
        timer: &mut Timer,
    ) -> Result<(), TryError> {
        let (session, timeout) = (self.session, self.settings.proxy_connect_timeout);
        let services = session.services();
        let reader = PairReader::of(services, session.client_key(), pending::<()>);
        let names = tls.is_computed().then(|| self.settings.certificate_names(session)).flatten();
        let alpn = self.settings.proxy_ssl_alpn.computed(session);
        let name = self.tls_name();
        let outgoing = tls.outgoing(&name, &lease.peer().name, names.as_ref(), alpn, &reader);
        // A certificate whose name has variables is read now, maybe from a disk that does not answer.
        let outgoing = timer.within(timeout, Box::pin(outgoing)).await.ok_or(TryError::TimedOut)?.map_err(|line| {
            session.log(Level::Error, format_args!("{line}"));
            TryError::Ours
        })?;
        let helpers = HandshakeHelpers {
            pool: services.pools.handshakes(),
            lane: session.listen.place() as u64,
            figures: &session.loop_state.shared.upstream_tls,
        };
        match outgoing.open(transport, timer, timeout, helpers).await {
            Ok(()) => Ok(()),
            Err(OutgoingError::Handshake(HandshakeError::TimedOut)) => Err(TryError::TimedOut),
            Err(error) => Err(TryError::Tls(error)),
        }
    }
}

/// The address that a socket sends from. Printing it asks the kernel.
struct LocalAddress<'s>(&'s Datagrams);

impl fmt::Display for LocalAddress<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = rustix::net::getsockname(self.0).ok().and_then(|address| SocketAddr::try_from(address).ok());
        address.map_or(Ok(()), |address| address.fmt(to))
    }
}

/// Prints the address that a connection comes from. The kernel is asked only if it is printed.
struct LocalEnd<'t>(&'t Transport);

impl fmt::Display for LocalEnd<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.local_address() {
            Some(address) => write!(to, "{address}"),
            None => to.write_str("unix:"),
        }
    }
}
