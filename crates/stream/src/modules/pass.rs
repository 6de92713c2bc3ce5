//! `pass`: hands the client's connection to another listening socket of this process, of `http` too.
//!
//! <https://nginx.org/en/docs/stream/ngx_stream_pass_module.html>

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Shape, Value, group, settings, text_of};
use freerun_runtime::log::Level;
use freerun_serve::Subject;
use freerun_serve::listen::{ListenSpec, Protocol, specs};
use freerun_serve::loops::local::LoopLocal;
use freerun_serve::values::Template;
use freerun_upstream::UpstreamAddress;
use freerun_upstream::place::{self, ServerPlace};

use crate::module::Module;
use crate::session::Session;
use crate::session::handler::{ContentFuture, ContentHandler, SessionEnd, status};
use crate::settings::listen::SERVICE;

/// The most times that a connection may be passed on, because listening sockets may pass it to each other in a circle.
const MAX_PASSES: u8 = 10;

settings! {
    /// Passing connections to other listening sockets of this process.
    #[module = "stream/pass"]
    pub struct PassSettings {
        /// Hands the client's connection to a listening socket of this process: address and port, or `unix:` and a path, with
        /// variables or without.
        ///
        /// The socket may belong to `http`. A TLS session that this server has established goes with the connection,
        /// and so do bytes that `ssl_preread` has read. If there is no session yet, a socket with `ssl` has a handshake
        /// with the client. A connection is passed on 10 times at most.
        pass: Option<PassAddress>, in STREAM_SERVER, local, since = "1.25.5";
    }
}

/// The value of `pass`.
#[derive(Debug, Clone)]
pub enum PassAddress {
    /// The addresses. The first address with a socket is taken.
    Known(Arc<[ListenSpec]>, Box<str>),
    /// A text with variables.
    Computed(Template<Session>),
}

impl Value for PassAddress {
    const SHAPE: Shape = Shape::exactly(1, "address");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<PassAddress, Problem> {
        let word = &directive.args[0];
        let template = Template::parse(word, cx)?;
        if template.constant().is_none() {
            return Ok(PassAddress::Computed(template));
        }
        let addresses = specs(SERVICE, &word.text, None, cx.extensions.get_or_default())
            .map_err(|why| Problem::new(format!("{why} in pass \"{}\"", word.text)).at(word.place))?;
        Ok(PassAddress::Known(addresses.into(), word.text.as_str().into()))
    }
}

/// The module.
pub static MODULE: Module = Module {
    name: "stream/pass",
    groups: &[group::<PassSettings>()],
    content: &[ContentHandler { directive: "pass", start }],
    ..Module::EMPTY
};

fn start(session: Rc<Session>) -> ContentFuture {
    let end = match target(&session) {
        Some(listen) => SessionEnd::Pass(listen),
        None => SessionEnd::Status(status::INTERNAL_SERVER_ERROR),
    };
    drop(session);
    Box::pin(std::future::ready(end))
}

/// The listening socket that the session's connection is passed to; why there is none is logged.
fn target(session: &Session) -> Option<LoopLocal<ListenSpec>> {
    if session.client.datagrams().is_some() {
        session.log(Level::Error, format_args!("datagrams cannot be passed to another listening socket"));
        return None;
    }
    if session.passes() >= MAX_PASSES {
        session.log(Level::Error, format_args!("the connection was passed on {MAX_PASSES} times, which is a circle"));
        return None;
    }
    let settings = session.settings();
    let find = |wanted: &ListenSpec| {
        let all = &session.generation.listeners;
        let exact = all.iter().find(|listen| listen.is_same_socket(wanted));
        exact.or_else(|| all.iter().find(|listen| covers(listen, wanted.ip)))
    };
    let (found, shown) = match settings.get::<PassSettings>().pass.as_ref()? {
        PassAddress::Known(addresses, text) => (addresses.iter().find_map(find), text.to_string()),
        PassAddress::Computed(template) => {
            let text = text_of(&template.render(session)).into_owned();
            match address(&text) {
                Ok(address) => (find(&address), text),
                Err(why) => {
                    session.log(Level::Error, format_args!("{why} in pass \"{text}\""));
                    return None;
                }
            }
        }
    };
    if found.is_none() {
        session.log(Level::Error, format_args!("port not found for \"{shown}\""));
    }
    found.map(|listen| LoopLocal::new(listen.clone()))
}

/// The address that a computed text names. No names are looked up while sessions are served.
fn address(text: &str) -> Result<ListenSpec, &'static str> {
    match place::parse(text, None)?.place {
        ServerPlace::Address(UpstreamAddress::Ip(ip)) => Ok(ListenSpec::new(SERVICE, Some(ip), ip.to_string())),
        ServerPlace::Address(path @ UpstreamAddress::Unix(_)) => Ok(ListenSpec::new(SERVICE, None, path.to_string())),
        ServerPlace::Name(_) => Err("host not found"),
    }
}

/// Whether a wildcard socket takes the connections of an address.
fn covers(listen: &ListenSpec, wanted: Option<SocketAddr>) -> bool {
    let (Some(own), Some(wanted)) = (listen.ip, wanted) else { return false };
    listen.protocol == Protocol::Stream
        && listen.is_wildcard()
        && own.port() == wanted.port()
        && (own.is_ipv4() == wanted.is_ipv4() || (own.is_ipv6() && !listen.ipv6only))
}
