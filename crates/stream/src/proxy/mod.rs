//! `proxy_pass` of stream: sessions are passed on to a server of a group.
//!
//! `server_tries.rs` has a server reached: it is chosen, connected to, told of the client by the PROXY protocol, and has a
//! TLS session; `error.rs` has the consequences of errors. From then on a session is a `relayed_stream.rs`, which is small,
//! or one of `datagrams.rs`. `record.rs` has `$upstream_addr` and its kin.

mod datagrams;
mod error;
mod pass;
mod record;
mod relayed_stream;
mod server_tries;
mod settings;

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use freerun_conf::{Cx, Problem, SettingsSet, group};
use freerun_proto::Status;
use freerun_runtime::log::Level;
use freerun_runtime::loops;
use freerun_serve::Subject;
use freerun_serve::upstream::ProxyProtocol;

use self::datagrams::RelayedDatagrams;
use self::error::step;
pub use self::pass::ProxyPass;
use self::record::Record;
use self::relayed_stream::RelayedStream;
use self::server_tries::{ReachedServer, ServerConnection, SessionTries};
pub use self::settings::ProxySettings;
use crate::client::datagrams::Header;
use crate::module::Module;
use crate::session::Session;
use crate::session::handler::{ContentFuture, ContentHandler, SessionEnd, status};
use crate::settings::core::CoreSettings;

/// Sessions that are passed on.
pub static MODULE: Module = Module {
    name: "stream/proxy",
    groups: &[group::<ProxySettings>()],
    content: &[ContentHandler { directive: "proxy_pass", start }],
    variables: record::VARIABLES,
    settle: Some(settle),
    ..Module::EMPTY
};

/// Makes what servers need for TLS, when the directives of a server are known.
fn settle(settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let own = settings.get::<ProxySettings>();
    if let Some(pass) = own.proxy_pass.as_ref().filter(|_| own.proxy_ssl) {
        let _ = pass.tls.set(own.upstream_tls(cx)?);
    }
    Ok(())
}

fn start(session: Rc<Session>) -> ContentFuture {
    let reaching = Box::pin(reach(session.clone()));
    Box::pin(ProxySession { session, stage: ProxyStage::Reaching(reaching) })
}

/// A session that is passed on. It is written by hand, as polls, so that what is needed to reach a server costs nothing any
/// more when it was reached.
struct ProxySession {
    session: Rc<Session>,
    stage: ProxyStage,
}

enum ProxyStage {
    Reaching(Pin<Box<dyn Future<Output = Result<ProxyStage, Status>>>>),
    Relayed(RelayedStream),
    Datagrams(Box<RelayedDatagrams>),
}

impl Future for ProxySession {
    type Output = SessionEnd;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<SessionEnd> {
        let ProxySession { session, stage } = &mut *self;
        loops::note(session.number, "proxying a session");
        if let ProxyStage::Reaching(reaching) = stage {
            // One of datagrams may have to end before.
            if session.client.datagrams().is_some_and(|datagrams| datagrams.poll_ending(context).is_ready()) {
                return Poll::Ready(SessionEnd::Status(status::OK));
            }
            match ready!(reaching.as_mut().poll(context)) {
                Ok(reached) => *stage = reached,
                Err(status) => return Poll::Ready(SessionEnd::Status(status)),
            }
        }
        let relayed = match stage {
            ProxyStage::Relayed(relayed) => relayed,
            ProxyStage::Datagrams(relayed) => return relayed.poll(session, context).map(SessionEnd::Status),
            ProxyStage::Reaching(_) => return Poll::Pending,
        };
        let Some(client) = session.client.transport() else {
            debug_assert!(false, "a session of datagrams has a connection to a server");
            return Poll::Ready(SessionEnd::Status(status::INTERNAL_SERVER_ERROR));
        };
        ready!(relayed.poll(client, context));
        relayed.end(session);
        Poll::Ready(SessionEnd::Status(status::OK))
    }
}

impl Drop for ProxySession {
    fn drop(&mut self) {
        // The worker may end before the session.
        match &mut self.stage {
            ProxyStage::Relayed(relayed) => relayed.end(&self.session),
            ProxyStage::Datagrams(relayed) => relayed.stop(&self.session),
            ProxyStage::Reaching(_) => {}
        }
    }
}

/// Reaches a server for the session. Fails with the status of the session; the reason was logged.
async fn reach(session: Rc<Session>) -> Result<ProxyStage, Status> {
    let all = session.settings();
    let settings = all.get::<ProxySettings>();
    // The handler is chosen by the directive.
    let Some(pass) = &settings.proxy_pass else { return Err(status::INTERNAL_SERVER_ERROR) };
    // What was read before counts, whatever comes of the session.
    let preread = session.take_preread();
    session.received.set(session.received.get() + preread.len() as u64);
    let record = session.states.get::<Record>();
    session.set_log_context(record.clone());
    session.set_step(step::CONNECTING);
    let target = match pass.known() {
        Some(target) => target,
        None => Box::pin(pass.look_up(&session)).await.map_err(|error| {
            session.log(Level::Error, format_args!("{error}"));
            status::INTERNAL_SERVER_ERROR
        })?,
    };
    let tls = pass.tls.get().map(|tls| &**tls);
    let nodelay = all.get::<CoreSettings>().tcp_nodelay;
    let reached = SessionTries::new(&session, settings, &target, tls, (&*record, nodelay)).reach().await?;
    if let Some(sticky) = &target.upstream.extra {
        sticky.answered(&*session, reached.lease.peer(), freerun_upstream::now());
    }
    session.set_step(step::PROXYING);
    let ReachedServer { connection, lease, header } = reached;
    match (connection, session.client.datagrams()) {
        (ServerConnection::Stream(transport), _) => {
            let reached = (transport, lease, header);
            Ok(ProxyStage::Relayed(RelayedStream::new(&session, settings, &target.upstream, reached, record, &preread)))
        }
        (ServerConnection::Datagrams(socket), Some(client)) => {
            let header = Header { bytes: header, in_each: settings.proxy_protocol == ProxyProtocol::V2 };
            let reached = (socket, lease, header);
            Ok(ProxyStage::Datagrams(Box::new(RelayedDatagrams::new(
                &session,
                client.clone(),
                settings,
                reached,
                record,
            ))))
        }
        (ServerConnection::Datagrams(_), None) => {
            debug_assert!(false, "a connection's client has a socket for datagrams to a server");
            Err(status::INTERNAL_SERVER_ERROR)
        }
    }
}
