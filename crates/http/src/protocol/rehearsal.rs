//! A request that no client has sent, on its way through the server while an observer looks on.
//!
//! It takes the steps of a request of HTTP/1 up to its response, which nobody gets. It is not counted, and has no line in the
//! access log.

use std::rc::Rc;
use std::sync::Arc;

use freerun_proto::head::parse_request;
use freerun_proto::{HeadRules, RequestError, Status};
use freerun_runtime::loops;
use freerun_serve::listen::ListenSpec;
use freerun_serve::loops::local::LoopLocal;
use freerun_serve::loops::state::LoopState;
use freerun_serve::tls::client_facts::TlsFacts;

use crate::arrive;
use crate::http_loop::HttpLoop;
use crate::message::scratch::RequestScratch;
use crate::phases::{self, Answer};
use crate::protocol::h1::read;
use crate::request::generation::AnsweringServers;
use crate::request::observer::Observer;
use crate::request::{Address, ClientStream, ConnectionFacts, Head, Request};
use crate::settings::server::ServerSettings;

/// A request that no client has sent.
pub struct Rehearsal {
    /// The head of the request, in the form of HTTP/1.
    pub head: Vec<u8>,
    /// The address of the client.
    pub peer: Address,
    /// The listening socket that the client has connected to.
    pub listen: Arc<ListenSpec>,
    /// The address that the client has connected to.
    pub local: Address,
    /// The TLS of the connection.
    pub tls: Option<TlsFacts>,
}

/// The reason why a request cannot be rehearsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RehearsalError {
    /// The loop serves no http, or not at this address.
    #[error("there is no server at this address")]
    NoServer,
    /// The head is not complete.
    #[error("the head of the request is not complete")]
    Incomplete,
    /// The head is wrong.
    #[error("{0}")]
    Head(#[from] RequestError),
}

/// Takes a request through the server. The request is in the location where it was answered.
///
/// # Errors
/// The request has not come to a server.
pub async fn rehearse<O: Observer>(
    loop_state: &Rc<LoopState>,
    rehearsal: Rehearsal,
    observer: O,
) -> Result<(Box<Request>, Answer), RehearsalError> {
    let Rehearsal { head, peer, listen, local, tls } = rehearsal;
    let http = HttpLoop::of(loop_state).ok_or(RehearsalError::NoServer)?;
    let facts = ConnectionFacts::new(1, peer, LoopLocal::new(listen), loop_state.clone());
    facts.set_local(local.clone());
    if let Some(tls) = tls {
        facts.set_tls(tls);
    }
    let (generation, servers, _) = http.servers_of(&facts, || local).ok_or(RehearsalError::NoServer)?;
    let settings = servers.entry.settings.get::<ServerSettings>();
    let rules = read::rules(settings);
    let parsed = parse_request(&head, &rules)?.ok_or(RehearsalError::Incomplete)?;
    let client = ClientStream::nobody(Rc::new(facts));
    let place = (servers.server.clone(), servers.entry.clone());
    let mut request = Box::new(Request::new(client, generation, place, Head::new(head, parsed), 1, loops::now()));
    let judged = judge(&mut request, &servers, &rules, settings.merge_slashes);
    let answer = phases::respond_observed(&mut request, judged, observer).await;
    Ok((request, answer))
}

/// The steps before the phases.
///
/// # Errors
/// The status of the response.
fn judge(
    request: &mut Request,
    servers: &AnsweringServers,
    rules: &HeadRules,
    merge_slashes: bool,
) -> Result<(), Status> {
    arrive::route_server(request, servers, true, merge_slashes, &mut RequestScratch::default())?;
    if !request.place.server.is_same(&servers.server) {
        let chosen = request.place.server.clone();
        let chosen = chosen.entry.settings.get::<ServerSettings>();
        read::apply_rules_of_chosen(&mut request.head, rules, chosen).map_err(|error| error.status())?;
    }
    arrive::refuse_methods(request)?;
    arrive::judge_tls(request, servers)
}
