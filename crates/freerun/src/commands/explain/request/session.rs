//! The explanation of a session of stream.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;

use freerun_runtime::loops;
use freerun_serve::configuration::generation::Generation;
use freerun_serve::listen::ListenSpec;
use freerun_serve::listen::Protocol;
use freerun_serve::listen::address::{Address, Peer};
use freerun_serve::loops::local::LoopLocal;
use freerun_serve::loops::state::LoopState;
use freerun_stream::client::ClientSide;
use freerun_stream::path::named;
use freerun_stream::proxy::ProxySettings;
use freerun_stream::session::generation::{LoopGeneration, StreamConfiguration};
use freerun_stream::session::handler::{HandlerRun, Phase, PhaseOutcome, PrereadProgress};
use freerun_stream::session::{Session, SessionParts};

use super::asked::{AskedSession, address_of};
use super::directives::{WrittenDirective, WrittenDirectives};
use super::explanation::{ExplainedStep, Explanation};
use super::http::{CLIENT_PORT, named_server, session as tls_session};
use super::{CLIENT, Loop, listeners};
use crate::cli::ExplainRequest;
use crate::configuration::stream_modules;

/// Explains a session.
///
/// # Errors
/// The session does not come to a server.
pub fn explain(
    rehearsal: &Loop,
    generation: &Arc<Generation>,
    asked: &AskedSession,
    options: &ExplainRequest,
    directives: Arc<WrittenDirectives>,
) -> Result<Explanation, String> {
    if !options.fields.is_empty() {
        return Err("\"-H\" goes with a request of HTTP".to_owned());
    }
    let stream = generation.parts.get::<StreamConfiguration>().unwrap_or_default();
    let protocol = if asked.is_udp { Protocol::Datagram } else { Protocol::Stream };
    let specs = stream.listens.iter().map(|listen| &listen.spec).filter(|spec| spec.protocol == protocol);
    let reached = listeners::reach(specs, Some(asked.port), address_of(&asked.host), options.to.as_deref())?;
    let peer = Address::Ip(SocketAddr::new(options.from.unwrap_or(CLIENT), CLIENT_PORT));
    let name = (asked.is_tls && address_of(&asked.host).is_none()).then(|| asked.host.clone());
    let client = ExplainedClient { peer, name, is_tls: asked.is_tls, is_udp: asked.is_udp };
    let spec = reached.spec.clone();
    let mut explanation = rehearsal.ask(move |services, sender| {
        let loop_state = services.loop_state.clone();
        loops::spawn(0, "explaining a session", async move {
            // Nobody waits any more if it took too long.
            let _ = sender.send(walk(&loop_state, spec, &client, &directives));
        });
    })??;
    let to = match &reached.local {
        Address::Ip(address) => address.to_string(),
        Address::Unix(_) => reached.spec.name.clone(),
    };
    explanation.request = format!("{} from {} to {to}", options.request, options.from.unwrap_or(CLIENT));
    let listen =
        ExplainedStep { kind: "listen".to_owned(), text: reached.spec.name.clone(), ..ExplainedStep::default() };
    explanation.steps.insert(0, listen);
    Ok(explanation)
}

/// The client of the session.
struct ExplainedClient {
    peer: Address,
    /// The name in its TLS handshake.
    name: Option<String>,
    is_tls: bool,
    is_udp: bool,
}

/// A step about directives that apply in a server.
fn step(kind: &str, written: &[&WrittenDirective], result: String) -> ExplainedStep {
    let (text, place) = written.first().map(|first| (first.text.clone(), first.place.clone())).unwrap_or_default();
    let line = |written: &&WrittenDirective| match &written.place {
        Some(place) => format!("{}  ({place})", written.text),
        None => written.text.clone(),
    };
    let details = written.iter().skip(1).map(line).collect();
    ExplainedStep { kind: kind.to_owned(), text, place, result, details }
}

/// Leads a session through the phases before its content.
///
/// # Errors
/// It cannot be made.
fn walk(
    loop_state: &Rc<LoopState>,
    spec: Arc<ListenSpec>,
    client: &ExplainedClient,
    directives: &WrittenDirectives,
) -> Result<Explanation, String> {
    let cannot = |error: std::io::Error| format!("the client's side cannot be made: {error}");
    // The other end is the client's, which sends nothing.
    let (server_end, _client_end) = UnixStream::pair().map_err(cannot)?;
    server_end.set_nonblocking(true).map_err(cannot)?;
    let parts = SessionParts {
        number: 1,
        client: ClientSide::plain(server_end.into()),
        peer: client.peer.clone(),
        listen: LoopLocal::new(spec),
        received: Vec::new(),
        tls: None,
        passes: 0,
        proxied: None,
    };
    let generation = LoopGeneration::new(loop_state.generation());
    let session = Session::new(parts, generation, loop_state.clone()).ok_or("nothing listens there")?;
    let mut explanation = Explanation::default();
    if client.is_udp {
        let assumption = "variables about the protocol have the values of TCP here";
        explanation.assumptions.push(assumption.to_owned());
    }
    let hello = if client.is_tls { client_hello(client.name.as_deref()) } else { Vec::new() };
    let mut steps = Vec::new();
    let ended = phases(&session, client, &hello, directives, (&mut steps, &mut explanation.assumptions));
    let server = session.server();
    let names = directives.children(server.order).filter(|directive| directive.name == "server_name");
    let names: Vec<&String> = names.flat_map(|names| &names.args).collect();
    let is_default = Arc::as_ptr(&session.servers.default) == std::ptr::from_ref(&*server);
    let place = directives.get(server.order).and_then(|written| written.place.clone());
    let host = client.name.as_deref().unwrap_or_default().to_ascii_lowercase();
    steps.insert(0, named_server(&names, &host, (is_default, session.servers.all.len()), place));
    explanation.server = Some(server.name.to_string());
    match ended {
        Some(status) => explanation.status = Some(status),
        None => content(&session, directives, (&mut steps, &mut explanation)),
    }
    let logs = directives.in_force(server.order, "access_log");
    if !logs.is_empty() {
        steps.push(step("access_log", &logs, String::new()));
    }
    explanation.steps = steps;
    Ok(explanation)
}

/// Runs the handlers of the phases before the content, in the order in which the server runs them. Returns the status with which
/// the session ends before that.
fn phases(
    session: &Rc<Session>,
    client: &ExplainedClient,
    hello: &[u8],
    directives: &WrittenDirectives,
    (steps, assumptions): (&mut Vec<ExplainedStep>, &mut Vec<String>),
) -> Option<u16> {
    for phase in [Phase::PostAccept, Phase::PreAccess, Phase::Access, Phase::Preread] {
        if phase == Phase::Preread && session.servers.tls {
            if !client.is_tls {
                let text = "the client has to begin a TLS handshake, which this one does not".to_owned();
                steps.push(ExplainedStep { kind: "tls".to_owned(), text, ..ExplainedStep::default() });
                return Some(500);
            }
            session.set_server(session.generation.server(&named(session, client.name.as_deref())));
            session.set_tls(tls_session(client.name.as_deref()));
        }
        // Handlers may give the session another server, whose own handlers of this phase do not run then.
        let server = session.server();
        for module in stream_modules() {
            let wanted = |handler: &&freerun_stream::session::handler::Handler| {
                handler.phase == phase && (handler.wanted)(&server.settings)
            };
            for handler in module.handlers.iter().filter(wanted) {
                let names: Vec<&str> =
                    module.groups.iter().flat_map(|group| group.directives()).map(|known| known.name).collect();
                let written: Vec<_> = names.iter().flat_map(|name| directives.in_force(server.order, name)).collect();
                let outcome = match handler.run {
                    HandlerRun::Now(run) => run(session),
                    HandlerRun::NowOrAfterEvents(now, later) => now(session).unwrap_or_else(|| later(session)),
                    HandlerRun::Preread(see) => match see(session, hello) {
                        PrereadProgress::Done => PhaseOutcome::Declined,
                        PrereadProgress::End(status) => PhaseOutcome::End(status),
                        PrereadProgress::NeedMore => {
                            assumptions.push("the first bytes of the client are no TLS handshake".to_owned());
                            PhaseOutcome::Declined
                        }
                    },
                };
                let kind = module.name.strip_prefix("stream/").unwrap_or(module.name);
                let result = match outcome {
                    PhaseOutcome::End(status) => format!("ends the session with status {}", status.code()),
                    PhaseOutcome::Declined if kind == "realip" => {
                        format!("the client's address is {}", Peer(session.peer()))
                    }
                    PhaseOutcome::Declined => "the session goes on".to_owned(),
                };
                if !written.is_empty() {
                    steps.push(step(kind, &written, result));
                }
                if let PhaseOutcome::End(status) = outcome {
                    return Some(status.code());
                }
            }
        }
    }
    None
}

/// Says what the content handler would do.
fn content(
    session: &Rc<Session>,
    directives: &WrittenDirectives,
    (steps, explanation): (&mut Vec<ExplainedStep>, &mut Explanation),
) {
    let server = session.server();
    let Some(content) = server.content else {
        let text = "no directive says what the session is for".to_owned();
        steps.push(ExplainedStep { kind: "content".to_owned(), text, ..ExplainedStep::default() });
        explanation.status = Some(500);
        return;
    };
    let written = directives.in_force(server.order, content.directive);
    let pass = server.settings.get::<ProxySettings>().proxy_pass.as_ref().filter(|_| content.directive == "proxy_pass");
    let Some(pass) = pass else {
        steps.push(step(content.directive, &written, String::new()));
        return;
    };
    let to = pass.text(session);
    let mut passed = step(content.directive, &written, format!("to {to}"));
    if let Some(group) = directives.named_block("upstream", &to) {
        for server in directives.children(group) {
            let place = server.place.as_ref().map(|place| format!("  ({place})")).unwrap_or_default();
            passed.details.push(format!("upstream {to}: {}{place}", server.text));
        }
        let assumption = "which server of the group is chosen depends on the sessions before, and on their health";
        explanation.assumptions.push(assumption.to_owned());
    }
    steps.push(passed);
    explanation.is_passed_on = true;
    explanation.upstream = Some(to);
}

/// A ClientHello of TLS 1.2 and 1.3 (RFC 8446 section 4.1.2) that asks for this name (RFC 6066 section 3).
fn client_hello(name: Option<&str>) -> Vec<u8> {
    fn sized<const BYTES: usize>(content: &[u8]) -> Vec<u8> {
        let len = (content.len() as u32).to_be_bytes();
        [&len[4 - BYTES..], content].concat()
    }
    let mut extensions = Vec::new();
    if let Some(name) = name {
        let entry = [&[0][..], &sized::<2>(name.as_bytes())].concat();
        extensions.extend([&[0, 0][..], &sized::<2>(&sized::<2>(&entry))].concat());
    }
    // The versions 1.3 and 1.2.
    extensions.extend([&[0, 43][..], &sized::<2>(&sized::<1>(&[3, 4, 3, 3]))].concat());
    let suites = sized::<2>(&[0x13, 0x01, 0xc0, 0x2b]);
    let hello = [&[3, 3][..], &[0; 32], &[0], &suites, &[1, 0], &sized::<2>(&extensions)].concat();
    let handshake = [&[1][..], &sized::<3>(&hello)].concat();
    [&[22, 3, 1][..], &sized::<2>(&handshake)].concat()
}
