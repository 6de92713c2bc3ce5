//! What all tries of a request have in common, and what is done before one: conditions, the connection.

use std::rc::Rc;
use std::time::Duration;

use freerun_http::request::Request;
use freerun_http::request::core_settings::CoreSettings;
use freerun_runtime::loops;
use freerun_runtime::timer::Timer;
use freerun_upstream::Lease;
use freerun_upstream::connect::{ConnectOptions, connect};
use freerun_upstream::idle::{Kept, Scope};

use crate::client::client_watch::ClientWatch;
use crate::client::connection::UpstreamConnection;
use crate::client::error::{Stage, UpstreamError};
use crate::client::request_body::OutgoingBody;
use crate::exchange::family::Family;
use crate::exchange::target::{Servers, Target};
use crate::settings::options::Options;
use crate::state::record::Record;

/// What all tries of a request have in common.
pub struct Plan {
    /// The member of the family.
    pub family: &'static dyn Family,
    /// What the request is passed to.
    pub target: Target,
    /// The member's directives.
    pub options: Options,
    /// The client, while it is waited for.
    pub client: ClientWatch,
    /// What is noted.
    pub record: Rc<Record>,
    /// The request may be sent twice without harm.
    pub idempotent: bool,
    /// The response is passed on from its head on, and does not wait for a small body behind it.
    pub head_at_once: bool,
}

/// A try that failed.
pub struct Failed {
    /// Why.
    pub error: UpstreamError,
    /// In what.
    pub stage: Stage,
    /// Whether something of the request was sent.
    pub sent: bool,
}

impl Plan {
    /// Does what the configuration wants done anew for each server, when one was chosen.
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

    /// The servers that the request is passed to.
    pub fn servers(&self) -> Option<&dyn Servers> {
        self.target.whom().servers.as_deref()
    }

    /// Whose idle connections may be used: those that speak the same protocol.
    pub fn scope(&self, request: &Request) -> Scope {
        let Some(servers) = self.servers() else { return Scope::SHARED };
        let (keepalive, _) = servers.keepalive();
        let family = self.family.name();
        let connect = self.options.connect.as_deref();
        let (bind, transparent) = connect.map_or((None, false), |connect| (connect.bind, connect.transparent));
        if let Some(scope) = servers.tied_scope(request, &|| Scope::of((family, bind, transparent))) {
            return scope;
        }
        if !keepalive.local && bind.is_none() && family == "proxy" {
            return Scope::SHARED;
        }
        let local = keepalive.local.then_some(request.place.location.identity);
        Scope::of((family, local, bind, transparent))
    }

    /// An idle connection, if there is one.
    pub fn idle(&self, lease: &Lease, scope: Scope, surely: bool) -> Option<UpstreamConnection> {
        let kept = lease.peer().idle.take(scope, surely)?;
        lease.connected(true, Duration::ZERO);
        self.record.with(|last| last.connect = Duration::ZERO.into());
        Some(UpstreamConnection::new(kept, true))
    }

    /// A new connection.
    pub async fn connect(
        &self,
        request: &Request,
        lease: &Lease,
        scope: Scope,
    ) -> Result<UpstreamConnection, UpstreamError> {
        let peer = lease.peer();
        let nodelay = request.settings().get::<CoreSettings>().tcp_nodelay;
        let options = ConnectOptions { nodelay, ..self.options.connect.as_deref().copied().unwrap_or_default() };
        let began = loops::now();
        let mut timer = Timer::default();
        let connecting = self.client.unless_gone(connect(&peer.address, &options));
        let transport = match timer.within(self.options.connect_timeout, connecting).await {
            None => return Err(UpstreamError::TimedOut),
            Some(Err(gone)) => return Err(gone),
            Some(Ok(Err(error))) => return Err(UpstreamError::Connect(error)),
            Some(Ok(Ok(transport))) => transport,
        };
        let took = loops::now().saturating_duration_since(began);
        lease.connected(false, took);
        self.record.with(|last| last.connect = took.into());
        Ok(UpstreamConnection::new(Kept::new(transport, scope), false))
    }
}
