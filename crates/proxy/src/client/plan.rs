//! The state that all tries of a request share, and the preparation of a try: conditions, the connection.

use std::any::Any;
use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::core_settings::CoreSettings;
use freerun_http::request::location::Location;
use freerun_runtime::loops;
use freerun_runtime::timer::Timer;
use freerun_serve::loops::local::LoopLocal;
use freerun_serve::tls::handshake::outgoing_session::OutgoingError;
use freerun_serve::tls::handshake::{HandshakeError, HandshakeHelpers};
use freerun_transport::Transport;
use freerun_upstream::connect::{ConnectOptions, connect};
use freerun_upstream::exchange::LossReason;
use freerun_upstream::http2::Http2Connection;
use freerun_upstream::http3::Http3Connection;
use freerun_upstream::link::{ExchangeStream, Link, LoneConnection};
use freerun_upstream::pool::new_connection::{JoinResult, NewConnection, WakeReason};
use freerun_upstream::pool::{ExchangeSlot, Exclusive, MultiplexedConnection, Pool, Scope, SharedSlot};
use freerun_upstream::{Lease, UpstreamAddress};

use crate::client::client_watch::ClientWatch;
use crate::client::connection::{UpstreamConnection, receive_error};
use crate::client::error::{TryStage, UpstreamError};
use crate::client::http3::{NewTransport, QuicError, QuicTry};
use crate::client::request_body::OutgoingBody;
use crate::client::tls;
use crate::exchange::Fault;
use crate::exchange::family::{Family, UpstreamProtocol};
use crate::exchange::target::{PassTarget, Servers};
use crate::settings::FamilySettings;
use crate::settings::options::Options;
use crate::state::record::Record;

/// The error of a connection that has ended before its first request.
const ENDED: (UpstreamError, TryStage) = (UpstreamError::Fault(Fault::Cut), TryStage::Connecting);

/// The state that all tries of a request share.
pub struct Plan {
    /// The member of the family.
    pub family: &'static dyn Family,
    /// The location whose directives apply.
    pub location: LoopLocal<Location>,
    /// The target that the request is passed to.
    pub target: PassTarget,
    /// The settings that are not rows of the member's table.
    pub options: Options,
    /// The watch over the client during the waits.
    pub client: ClientWatch,
    /// The record of the tries.
    pub record: Rc<Record>,
    /// Whether the request may be sent twice without harm.
    pub idempotent: bool,
    /// Whether the response is passed on from its head on, and does not wait for a small body after it.
    pub head_at_once: bool,
}

/// The connections that a request may share.
pub struct ConnectionSharing {
    /// The scope of requests that share connections.
    pub scope: Scope,
    /// The client's own connections, if it shares them with no other client.
    pub own: Option<Rc<Pool>>,
    /// The header of the PROXY protocol that new connections begin with. It names the client's connection, so that only
    /// requests on that share connections.
    pub header: Vec<u8>,
}

/// A try that failed.
pub struct FailedTry {
    /// The reason of the failure.
    pub error: UpstreamError,
    /// The stage at which the try failed.
    pub stage: TryStage,
    /// Whether something of the request was sent.
    pub sent: bool,
    /// Whether the server has not looked at the request, so that it may be sent again, whatever it asks for.
    pub is_unprocessed: bool,
}

impl FailedTry {
    /// A try that failed before anything was sent.
    pub fn before(error: UpstreamError, stage: TryStage) -> FailedTry {
        FailedTry { error, stage, sent: false, is_unprocessed: false }
    }
}

impl Plan {
    /// The member's settings from the shared table.
    pub fn table(&self) -> &FamilySettings {
        self.family.table(&self.location.settings)
    }

    /// Evaluates the settings that the configuration wants evaluated anew for each chosen server.
    ///
    /// # Errors
    /// The server may not be asked.
    #[inline]
    pub fn prepare(&mut self, request: &Request, body: &mut OutgoingBody) -> Result<(), FailedTry> {
        let table = self.table();
        let is_usual =
            table.proxy_allow_upstream.is_empty() && !table.proxy_request_dynamic && !table.proxy_bind_dynamic;
        if is_usual { Ok(()) } else { self.prepare_anew(request, body) }
    }

    #[cold]
    fn prepare_anew(&mut self, request: &Request, body: &mut OutgoingBody) -> Result<(), FailedTry> {
        let table = self.family.table(&self.location.settings);
        if !table.proxy_allow_upstream.all_hold(request) {
            return Err(FailedTry::before(UpstreamError::Denied, TryStage::Connecting));
        }
        if table.proxy_bind_dynamic {
            self.options.connect = table.connect_options(request);
        }
        if table.proxy_request_dynamic {
            body.set_anew(request, self.family);
        }
        Ok(())
    }

    /// The servers that the request may be passed to.
    pub fn servers(&self) -> Option<&dyn Servers> {
        self.target.upstream().servers.as_deref()
    }

    /// The connections to the chosen server that the request may share: those that use the same protocol.
    ///
    /// # Errors
    /// There can be no connection that the request may use, which is logged.
    pub fn sharing(&self, request: &Request, lease: &Lease) -> Result<ConnectionSharing, UpstreamError> {
        let servers = self.servers().ok_or(UpstreamError::Ours)?;
        let header = self.family.proxy_header(request).map_err(|error| {
            log_error!(request, Error, "{error} while connecting to upstream");
            UpstreamError::Ours
        })?;
        let (keepalive, _) = servers.keepalive();
        let family = self.family.name();
        let protocol = self.family.protocol(request);
        let secured = tls::secured(self.family, request, &self.target);
        let connect = self.options.connect.as_deref();
        let (bind, transparent) = connect.map_or((None, false), |connect| (connect.bind, connect.transparent));
        let own = servers.tied_pool(request, lease.peer());
        // A client that has authenticated its connection to a server is known there in all locations.
        let is_local = own.is_none() && (keepalive.local || secured.is_some());
        let local = is_local.then_some(request.place.location.identity);
        let is_plain = own.is_none() && local.is_none() && bind.is_none() && header.is_empty();
        let scope = match protocol {
            UpstreamProtocol::Sequential if is_plain && family == "proxy" => Scope::SHARED,
            UpstreamProtocol::Http2 if is_plain && family == "proxy" => Scope::SHARED_HTTP2,
            UpstreamProtocol::Http2 if is_plain && family == "grpc" => Scope::SHARED_GRPC,
            UpstreamProtocol::Sequential => Scope::of((family, local, bind, transparent, secured, &header)),
            UpstreamProtocol::Http2 => Scope::of(("h2", family, local, bind, transparent, secured, &header)),
            UpstreamProtocol::Http3 => Scope::of(("h3", family, local, bind, transparent, secured)),
        };
        Ok(ConnectionSharing { scope, own, header })
    }

    /// Takes an idle connection, if there is one.
    pub fn idle(&self, lease: &Lease, sharing: &ConnectionSharing, surely: bool) -> Option<UpstreamConnection> {
        let pool = sharing.own.as_deref().unwrap_or(&lease.peer().pool);
        let slot = pool.acquire(sharing.scope, surely).and_then(ExchangeSlot::exclusive)?;
        lease.connected(true, Duration::ZERO);
        self.record.with(|last| last.connect = Duration::ZERO.into());
        Some(UpstreamConnection::new(Link::Own(slot), sharing.own.clone(), true))
    }

    /// Makes a new connection, with a TLS session if the target's scheme asks for one.
    ///
    /// # Errors
    /// There is no connection; the stage tells what was done last.
    pub async fn connect(
        &self,
        request: &Request,
        lease: &Lease,
        sharing: &ConnectionSharing,
    ) -> Result<UpstreamConnection, (UpstreamError, TryStage)> {
        let transport = self.transport(request, lease, &sharing.header).await?;
        let link = Link::Own(Exclusive::new(transport, sharing.scope));
        Ok(UpstreamConnection::new(link, sharing.own.clone(), false))
    }

    /// Makes a new connection, which begins with the header, and has a TLS session if the target's scheme asks for one.
    async fn transport(
        &self,
        request: &Request,
        lease: &Lease,
        header: &[u8],
    ) -> Result<Transport, (UpstreamError, TryStage)> {
        let peer = lease.peer();
        let nodelay = request.settings().get::<CoreSettings>().tcp_nodelay;
        let options = ConnectOptions { nodelay, ..self.options.connect.as_deref().copied().unwrap_or_default() };
        let timeout = self.table().proxy_connect_timeout;
        let began = loops::now();
        let mut timer = Timer::default();
        let paths = request.generation.services.socket_paths(request.client_key());
        let connecting = self.client.unless_gone(connect(&peer.address, &options, paths));
        let mut transport = match timer.within(timeout, connecting).await {
            None => return Err((UpstreamError::TimedOut, TryStage::Connecting)),
            Some(Err(gone)) => return Err((gone, TryStage::Connecting)),
            Some(Ok(Err(error))) => return Err((UpstreamError::Connect(error), TryStage::Connecting)),
            Some(Ok(Ok(transport))) => transport,
        };
        if !header.is_empty() {
            let sending = self.client.unless_gone(transport.write_all(header));
            match timer.within(timeout, sending).await {
                None => return Err((UpstreamError::TimedOut, TryStage::Sending)),
                Some(Err(gone)) => return Err((gone, TryStage::Sending)),
                Some(Ok(sent)) => sent.map_err(|error| (UpstreamError::Send(error), TryStage::Sending))?,
            }
        }
        if self.target.upstream().is_secure {
            transport = transport.into_tls();
            let secured = self.secure(request, lease, &transport, &mut timer).await;
            secured.map_err(|error| (error, TryStage::Handshaking))?;
        }
        let took = loops::now().saturating_duration_since(began);
        lease.connected(false, took);
        self.record.with(|last| last.connect = took.into());
        Ok(transport)
    }

    // ---- streams of shared connections -----------------------------------------------------------------------------

    /// Has a stream of a connection of HTTP/2 to the chosen server. The connection is there already, or another request
    /// makes it, or it is a new one. With `surely` the kernel is asked whether the server is closing the connection.
    ///
    /// # Errors
    /// There is no connection; the stage tells what was done last.
    pub async fn stream(
        &self,
        request: &Request,
        lease: &Lease,
        sharing: &ConnectionSharing,
        surely: bool,
    ) -> Result<UpstreamConnection, (UpstreamError, TryStage)> {
        let Some(servers) = self.servers() else { return Err((UpstreamError::Ours, TryStage::Connecting)) };
        let pool = sharing.own.as_deref().unwrap_or(&lease.peer().pool);
        let is_kept = servers.keepalive().0.connections > 0;
        let began = loops::now();
        let mut timer = Timer::default();
        loop {
            loops::consume_budget().await;
            let found = if is_kept { Some(pool.find(sharing.scope)) } else { None };
            let slot = match found {
                None => return self.begin_stream(request, lease, sharing, None).await,
                Some(JoinResult::Make(making)) => {
                    return self.begin_stream(request, lease, sharing, Some(making)).await;
                }
                Some(JoinResult::Slot(slot)) => slot,
                Some(JoinResult::Wait(waiting)) => {
                    let waited = loops::now().saturating_duration_since(began);
                    let left = self.table().proxy_connect_timeout.saturating_sub(waited);
                    match timer.within(left, self.client.unless_gone(waiting)).await {
                        None => return Err((UpstreamError::TimedOut, TryStage::Connecting)),
                        Some(Err(gone)) => return Err((gone, TryStage::Connecting)),
                        Some(Ok(WakeReason::Slot(slot))) => slot,
                        Some(Ok(WakeReason::Again)) => continue,
                        Some(Ok(WakeReason::Failed(why))) => return Err(common(&why)),
                    }
                }
            };
            if let Some(stream) = self.stream_of(slot, surely).await {
                let waited = loops::now().saturating_duration_since(began);
                lease.connected(true, waited);
                self.record.with(|last| last.connect = waited.into());
                return Ok(self.carried(stream, sharing, true));
            }
        }
    }

    /// The stream for a slot, unless the connection is ending.
    async fn stream_of(&self, slot: SharedSlot, surely: bool) -> Option<ExchangeStream> {
        let stream = ExchangeStream::of(slot)?;
        if surely && !stream.is_quiet() {
            // What has come may be the end.
            loops::after_events().await;
        }
        (!stream.is_over()).then_some(stream)
    }

    /// Makes a connection for this request, and for those that have waited for it.
    async fn begin_stream(
        &self,
        request: &Request,
        lease: &Lease,
        sharing: &ConnectionSharing,
        making: Option<NewConnection>,
    ) -> Result<UpstreamConnection, (UpstreamError, TryStage)> {
        let is_http3 = self.family.protocol(request) == UpstreamProtocol::Http3;
        let made = if is_http3 {
            Box::pin(self.http3_transport(request, lease, sharing)).await
        } else {
            match self.transport(request, lease, &sharing.header).await {
                Ok(transport) if self.target.upstream().is_secure && !tls::speaks_http2(&transport) => {
                    Err((UpstreamError::NoHttp2, TryStage::Handshaking))
                }
                made => made.map(NewTransport::Stream),
            }
        };
        let made = match made {
            Ok(made) => made,
            Err((error, stage)) if error.is_common() => {
                let error = Rc::new(error);
                if let Some(making) = making {
                    let why: Rc<dyn Any> = Rc::new((error.clone(), stage));
                    making.failed(&why);
                }
                return Err((UpstreamError::Common(error), stage));
            }
            Err(failed) => return Err(failed),
        };
        if is_http3 {
            lease.peer().udp.count(matches!(made, NewTransport::Quic(_)));
        }
        let is_kept = making.is_some();
        let stream = match made {
            NewTransport::Stream(transport) if is_http3 && !tls::speaks_http2(&transport) => {
                lease.peer().udp.set_sequential(true);
                let link = Link::Own(Exclusive::new(transport, sequential(sharing)));
                return Ok(UpstreamConnection::new(link, sharing.own.clone(), false));
            }
            NewTransport::Stream(transport) => {
                let connection = Http2Connection::begin(transport, making);
                if is_kept {
                    ExchangeStream::of(self.share(connection, lease, sharing).ok_or(ENDED)?)
                } else {
                    ExchangeStream::alone(LoneConnection::Http2(connection.into()))
                }
            }
            NewTransport::Quic(quic) => {
                let connection = Http3Connection::begin(*quic, making);
                if is_kept {
                    ExchangeStream::of(self.share(connection, lease, sharing).ok_or(ENDED)?)
                } else {
                    ExchangeStream::alone(LoneConnection::Http3(connection.into()))
                }
            }
        };
        Ok(self.carried(stream.ok_or(ENDED)?, sharing, false))
    }

    /// Adds a new connection to those that requests share.
    fn share(
        &self,
        connection: impl MultiplexedConnection,
        lease: &Lease,
        sharing: &ConnectionSharing,
    ) -> Option<SharedSlot> {
        let pool = sharing.own.as_deref().unwrap_or(&lease.peer().pool);
        let (settings, count) = self.servers()?.keepalive();
        Some(pool.share(connection, sharing.scope, settings, count))
    }

    // ---- HTTP/3 ----------------------------------------------------------------------------------------------------

    /// Has a connection for a request of HTTP/3: a stream of a shared connection, or a connection of HTTP/1.1 to a server that
    /// speaks nothing else. With `surely`, a connection that is about to end is not used; with `is_again`, no idle one is.
    ///
    /// # Errors
    /// There is no connection; the stage tells what was done last.
    pub async fn http3(
        &self,
        request: &Request,
        lease: &Lease,
        sharing: &ConnectionSharing,
        surely: bool,
        is_again: bool,
    ) -> Result<UpstreamConnection, (UpstreamError, TryStage)> {
        if !self.target.upstream().is_secure {
            log_error!(request, Error, "\"proxy_http_version 3\" needs \"https://\" while connecting to upstream");
            return Err((UpstreamError::Ours, TryStage::Connecting));
        }
        let udp = &lease.peer().udp;
        if !(udp.is_closed(freerun_upstream::now()) && udp.is_sequential()) {
            return self.stream(request, lease, sharing, surely || is_again).await;
        }
        let sharing = ConnectionSharing { scope: sequential(sharing), own: sharing.own.clone(), header: Vec::new() };
        if !is_again && let Some(idle) = self.idle(lease, &sharing, surely) {
            return Ok(idle);
        }
        let transport = self.transport(request, lease, &[]).await?;
        udp.count(false);
        if tls::speaks_http2(&transport) {
            // It has been changed since.
            udp.set_sequential(false);
            let stream = ExchangeStream::alone(LoneConnection::Http2(Http2Connection::begin(transport, None).into()));
            return Ok(self.carried(stream.ok_or(ENDED)?, &sharing, false));
        }
        let link = Link::Own(Exclusive::new(transport, sharing.scope));
        Ok(UpstreamConnection::new(link, sharing.own, false))
    }

    /// Makes a connection of QUIC, or another one to a server that cannot be reached by UDP.
    async fn http3_transport(
        &self,
        request: &Request,
        lease: &Lease,
        sharing: &ConnectionSharing,
    ) -> Result<NewTransport, (UpstreamError, TryStage)> {
        let peer = lease.peer();
        let stream = Box::pin(self.transport(request, lease, &sharing.header));
        let UpstreamAddress::Ip(address) = peer.address else { return stream.await.map(NewTransport::Stream) };
        if peer.udp.is_closed(freerun_upstream::now()) {
            return stream.await.map(NewTransport::Stream);
        }
        let began = loops::now();
        let quic = QuicTry {
            family: self.family,
            request,
            target: &self.target,
            server: &peer.name,
            address,
            options: self.options.connect.as_deref().copied().unwrap_or_default(),
            heard: Cell::default(),
        };
        let racing = Box::pin(quic.race(&peer.udp, stream, |error| failure(request, error)));
        let racing = self.client.unless_gone(racing);
        let made = Timer::default().within(self.table().proxy_connect_timeout, racing).await;
        let stage = if quic.heard.get() { TryStage::Handshaking } else { TryStage::Connecting };
        let made = made.ok_or((UpstreamError::TimedOut, stage))?.map_err(|gone| (gone, stage))??;
        if let NewTransport::Quic(_) = made {
            let took = loops::now().saturating_duration_since(began);
            lease.connected(false, took);
            self.record.with(|last| last.connect = took.into());
        }
        Ok(made)
    }

    fn carried(&self, stream: ExchangeStream, sharing: &ConnectionSharing, reused: bool) -> UpstreamConnection {
        let mut connection = UpstreamConnection::new(Link::Stream(stream), sharing.own.clone(), reused);
        connection.is_kept_by_ping = self.options.kept_by_ping;
        connection
    }

    /// Has a TLS session on a new connection.
    async fn secure(
        &self,
        request: &Request,
        lease: &Lease,
        transport: &Transport,
        timer: &mut Timer,
    ) -> Result<(), UpstreamError> {
        let timeout = self.table().proxy_connect_timeout;
        // Whether the client is still there is looked at here.
        let outgoing = tls::outgoing(self.family, request, &self.target, &lease.peer().name, None, pending);
        // A certificate whose name has variables is read now, maybe from a disk that does not answer.
        let outgoing = timer.within(timeout, self.client.unless_gone(Box::pin(outgoing)));
        let outgoing = outgoing.await.ok_or(UpstreamError::TimedOut)??.map_err(|line| {
            log_error!(request, Error, "{line} while connecting to upstream");
            UpstreamError::Ours
        })?;
        let helpers = HandshakeHelpers {
            pool: request.generation.pools.handshakes(),
            lane: request.place.location.identity,
            figures: &request.client.loop_state.shared.upstream_tls,
        };
        let opening = outgoing.open(transport, timer, timeout, helpers);
        match self.client.unless_gone(Box::pin(opening)).await? {
            Ok(()) => Ok(()),
            Err(OutgoingError::Handshake(HandshakeError::TimedOut)) => Err(UpstreamError::TimedOut),
            Err(error) => Err(UpstreamError::Tls(error)),
        }
    }
}

/// The scope of connections that carry one exchange at a time, to a server that is asked over HTTP/3 where that is possible.
fn sequential(sharing: &ConnectionSharing) -> Scope {
    Scope::of((sharing.scope, "sequential"))
}

/// The error of a request whose connection of QUIC has failed.
fn failure(request: &Request, error: QuicError) -> (UpstreamError, TryStage) {
    match error {
        QuicError::Session(OutgoingError::Handshake(HandshakeError::TimedOut)) => {
            (UpstreamError::TimedOut, TryStage::Handshaking)
        }
        QuicError::Session(error) => (UpstreamError::Tls(error), TryStage::Handshaking),
        QuicError::Settings(line) => {
            log_error!(request, Error, "{line} while connecting to upstream");
            (UpstreamError::Ours, TryStage::Connecting)
        }
        QuicError::Unreachable | QuicError::Unavailable => (UpstreamError::Fault(Fault::Cut), TryStage::Connecting),
    }
}

/// The error of a connection that this request has waited for.
fn common(why: &Rc<dyn Any>) -> (UpstreamError, TryStage) {
    if let Some((error, stage)) = why.downcast_ref::<(Rc<UpstreamError>, TryStage)>() {
        return (UpstreamError::Common(error.clone()), *stage);
    }
    let error = match why.downcast_ref::<LossReason>().and_then(LossReason::error) {
        Some(error) => receive_error(error),
        None => UpstreamError::Fault(Fault::Cut),
    };
    (error, TryStage::Connecting)
}
