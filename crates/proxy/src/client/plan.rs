//! The state that all tries of a request share, and the preparation of a try: conditions, the connection.

use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::core_settings::CoreSettings;
use freerun_runtime::loops;
use freerun_runtime::timer::Timer;
use freerun_serve::tls::handshake::{HandshakeError, Helpers};
use freerun_serve::tls::outgoing::OutgoingError;
use freerun_transport::Transport;
use freerun_upstream::Lease;
use freerun_upstream::connect::{ConnectOptions, connect};
use freerun_upstream::pool::{Exclusive, Pool, Scope, Slot};

use crate::client::client_watch::ClientWatch;
use crate::client::connection::UpstreamConnection;
use crate::client::error::{Stage, UpstreamError};
use crate::client::request_body::OutgoingBody;
use crate::client::tls;
use crate::exchange::family::Family;
use crate::exchange::target::{Servers, Target};
use crate::settings::options::Options;
use crate::state::record::Record;

/// The state that all tries of a request share.
pub struct Plan {
    /// The member of the family.
    pub family: &'static dyn Family,
    /// The target that the request is passed to.
    pub target: Target,
    /// The member's directives.
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
pub struct Sharing {
    /// The scope of requests that share connections.
    pub scope: Scope,
    /// The client's own connections, if it shares them with no other client.
    pub own: Option<Rc<Pool>>,
}

/// A try that failed.
pub struct Failed {
    /// The reason of the failure.
    pub error: UpstreamError,
    /// The stage at which the try failed.
    pub stage: Stage,
    /// Whether something of the request was sent.
    pub sent: bool,
}

impl Plan {
    /// Evaluates the settings that the configuration wants evaluated anew for each chosen server.
    ///
    /// # Errors
    /// The server may not be asked.
    #[inline]
    pub fn prepare(&mut self, request: &Request, body: &mut OutgoingBody) -> Result<(), Failed> {
        let Options { conditional, request_dynamic, bind_dynamic, .. } = self.options;
        if conditional || request_dynamic || bind_dynamic { self.prepare_anew(request, body) } else { Ok(()) }
    }

    #[cold]
    fn prepare_anew(&mut self, request: &Request, body: &mut OutgoingBody) -> Result<(), Failed> {
        let table = self.family.table(request.settings());
        if !table.proxy_allow_upstream.all_hold(request) {
            return Err(Failed { error: UpstreamError::Denied, stage: Stage::Connecting, sent: false });
        }
        if self.options.bind_dynamic {
            self.options.connect = table.connect_options(request);
        }
        if self.options.request_dynamic {
            body.set_anew(request, self.family);
        }
        Ok(())
    }

    /// The servers that the request may be passed to.
    pub fn servers(&self) -> Option<&dyn Servers> {
        self.target.whom().servers.as_deref()
    }

    /// The connections to the chosen server that the request may share: those that use the same protocol.
    pub fn sharing(&self, request: &Request, lease: &Lease) -> Sharing {
        let Some(servers) = self.servers() else { return Sharing { scope: Scope::SHARED, own: None } };
        let (keepalive, _) = servers.keepalive();
        let family = self.family.name();
        let secured = tls::secured(self.family, request, &self.target);
        let connect = self.options.connect.as_deref();
        let (bind, transparent) = connect.map_or((None, false), |connect| (connect.bind, connect.transparent));
        let own = servers.tied_pool(request, lease.peer());
        // A client that has authenticated its connection to a server is known there in all locations.
        let is_local = own.is_none() && (keepalive.local || secured.is_some());
        let local = is_local.then_some(request.place.location.identity);
        let is_ordinary = own.is_none() && local.is_none() && bind.is_none() && family == "proxy";
        let scope = if is_ordinary { Scope::SHARED } else { Scope::of((family, local, bind, transparent, secured)) };
        Sharing { scope, own }
    }

    /// Takes an idle connection, if there is one.
    pub fn idle(&self, lease: &Lease, sharing: &Sharing, surely: bool) -> Option<UpstreamConnection> {
        let pool = sharing.own.as_deref().unwrap_or(&lease.peer().pool);
        let slot = pool.acquire(sharing.scope, surely).and_then(Slot::exclusive)?;
        lease.connected(true, Duration::ZERO);
        self.record.with(|last| last.connect = Duration::ZERO.into());
        Some(UpstreamConnection::new(slot, sharing.own.clone(), true))
    }

    /// Makes a new connection, with a TLS session if the target's scheme asks for one.
    ///
    /// # Errors
    /// There is no connection; the stage tells what was done last.
    pub async fn connect(
        &self,
        request: &Request,
        lease: &Lease,
        sharing: &Sharing,
    ) -> Result<UpstreamConnection, (UpstreamError, Stage)> {
        let peer = lease.peer();
        let nodelay = request.settings().get::<CoreSettings>().tcp_nodelay;
        let options = ConnectOptions { nodelay, ..self.options.connect.as_deref().copied().unwrap_or_default() };
        let began = loops::now();
        let mut timer = Timer::default();
        let connecting = self.client.unless_gone(connect(&peer.address, &options));
        let mut transport = match timer.within(self.options.connect_timeout, connecting).await {
            None => return Err((UpstreamError::TimedOut, Stage::Connecting)),
            Some(Err(gone)) => return Err((gone, Stage::Connecting)),
            Some(Ok(Err(error))) => return Err((UpstreamError::Connect(error), Stage::Connecting)),
            Some(Ok(Ok(transport))) => transport,
        };
        if self.target.whom().is_secure {
            transport = transport.into_tls();
            let secured = self.secure(request, lease, &transport, &mut timer).await;
            secured.map_err(|error| (error, Stage::Handshaking))?;
        }
        let took = loops::now().saturating_duration_since(began);
        lease.connected(false, took);
        self.record.with(|last| last.connect = took.into());
        Ok(UpstreamConnection::new(Exclusive::new(transport, sharing.scope), sharing.own.clone(), false))
    }

    /// Has a TLS session on a new connection.
    async fn secure(
        &self,
        request: &Request,
        lease: &Lease,
        transport: &Transport,
        timer: &mut Timer,
    ) -> Result<(), UpstreamError> {
        // Whether the client is still there is looked at here.
        let outgoing = tls::outgoing(self.family, request, &self.target, &lease.peer().name, pending);
        // A certificate whose name has variables is read now, maybe from a disk that does not answer.
        let outgoing = timer.within(self.options.connect_timeout, self.client.unless_gone(Box::pin(outgoing)));
        let outgoing = outgoing.await.ok_or(UpstreamError::TimedOut)??.map_err(|line| {
            log_error!(request, Error, "{line} while connecting to upstream");
            UpstreamError::Ours
        })?;
        let helpers = Helpers {
            pool: request.generation.pools.handshakes(),
            lane: request.place.location.identity,
            figures: &request.client.loop_state.shared.upstream_tls,
        };
        let opening = outgoing.open(transport, timer, self.options.connect_timeout, helpers);
        match self.client.unless_gone(Box::pin(opening)).await? {
            Ok(()) => Ok(()),
            Err(OutgoingError::Handshake(HandshakeError::TimedOut)) => Err(UpstreamError::TimedOut),
            Err(error) => Err(UpstreamError::Tls(error)),
        }
    }
}
