//! A request whose connection has left HTTP: all that its log line may ask for, in little memory.
//!
//! A request has room for what may become of it, and its parsed head for sixteen fields: together more than a kilobyte,
//! of which an idle tunnel would use a tenth.

use std::fmt::Display;
use std::mem::take;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use freerun_proto::head::{HeadParser, parse_request};
use freerun_proto::{BodyFraming, Method, RequestHead};
use freerun_serve::loop_local::LoopLocal;

use crate::body::ClientBody;
use crate::protocol::h1::read;
use crate::regex::{Captures, Groups};
use crate::request::ClientStream;
use crate::request::Connection;
use crate::request::generation::LoopGeneration;
use crate::request::location::{Location, Server};
use crate::request::{Address, Head, Request, Sent, State, States};
use crate::settings::server::ServerSettings;
use crate::variables::Values;

/// What is left of a request.
pub struct TunnelRequest {
    generation: Rc<LoopGeneration>,
    server: LoopLocal<Server>,
    location: LoopLocal<Location>,
    /// The bytes of the head, and nothing behind them.
    head: Box<[u8]>,
    own: Box<[State]>,
    shared: Option<Rc<States>>,
    values: Option<Rc<Values>>,
    real_peer: Option<Rc<Address>>,
    passed_to: Option<Rc<dyn Display>>,
    started: Instant,
    id: Option<u64>,
    sent: Sent,
    method: Method,
    rewritten_here: bool,
    path_behind_alias: bool,
    internal: bool,
    pipelined: bool,
    rare: Option<Box<Rare>>,
}

/// What most requests that lead to a tunnel do not have, and others do not have all of.
#[derive(Default)]
struct Rare {
    /// The parsed head, where the bytes do not give it again.
    parsed: Option<Box<RequestHead>>,
    /// What was asked for, where it is not what the head says.
    asked: Option<Box<Asked>>,
    groups: Option<Box<Groups>>,
    /// A body that had something in it.
    body: Option<Box<ClientBody>>,
    sent_head: Box<[u8]>,
    sent_location: Option<Bytes>,
}

impl Rare {
    fn if_any(self) -> Option<Box<Rare>> {
        let Rare { parsed, asked, groups, body, sent_head, sent_location } = &self;
        let any = parsed.is_some()
            || asked.is_some()
            || groups.is_some()
            || body.is_some()
            || !sent_head.is_empty()
            || sent_location.is_some();
        any.then(|| Box::new(self))
    }
}

/// What a request asks for and whom, as far as it may be rewritten.
#[derive(PartialEq)]
struct Asked {
    path: Vec<u8>,
    args: Option<Vec<u8>>,
    host: Option<String>,
}

impl Asked {
    /// As the head has it, where the path is its own normal form.
    fn by(head: &Head) -> Asked {
        let uri = head.parsed.target.uri(&head.buffer);
        let (path, args) = match memchr::memchr(b'?', uri) {
            Some(at) => (&uri[..at], &uri[at + 1..]),
            None => (uri, &b""[..]),
        };
        Asked {
            path: path.to_vec(),
            args: (!args.is_empty()).then(|| args.to_vec()),
            host: head.parsed.host.map(|host| host.name(&head.buffer).into_owned()),
        }
    }
}

/// What the bytes of a head say, by the rules of the virtual server. These are not always the ones that it was read by,
/// which are those of the address's default server.
fn parse(head: &[u8], server: &Server) -> Option<Box<RequestHead>> {
    parse_request(head, &read::rules(server.entry.settings.get::<ServerSettings>())).ok().flatten()
}

impl TunnelRequest {
    /// Takes what is needed out of the request, whose response has been sent.
    pub fn of(request: &mut Request) -> TunnelRequest {
        let len = (request.head.parsed.len as usize).min(request.head.buffer.len());
        let head: Box<[u8]> = request.head.buffer[..len].into();
        let again = parse(&head, &request.server);
        let asked = Asked { path: take(&mut request.path), args: request.args.take(), host: request.host.take() };
        let (groups, values) = take(&mut request.captures).into_parts();
        let over = ClientBody::new(BodyFraming::None, len, false);
        let rare = Rare {
            asked: (asked != Asked::by(&request.head)).then(|| Box::new(asked)),
            parsed: (again.as_ref() != Some(&request.head.parsed)).then(|| request.head.parsed.clone()),
            groups: groups.map(Box::new),
            body: (request.body.received() > 0).then(|| Box::new(std::mem::replace(&mut request.body, over))),
            sent_head: take(&mut request.sent_head).into(),
            sent_location: request.sent_location.take(),
        };
        TunnelRequest {
            generation: request.generation.clone(),
            server: request.server.clone(),
            location: request.location.clone(),
            head,
            own: take(&mut request.own).pack(),
            shared: request.shared.take(),
            values,
            real_peer: request.real_peer.take(),
            passed_to: request.passed_to.take(),
            started: request.started,
            id: request.id.get(),
            sent: request.sent,
            method: request.method,
            rewritten_here: request.rewritten_here,
            path_behind_alias: request.path_behind_alias,
            internal: request.internal,
            pipelined: request.pipelined,
            rare: rare.if_any(),
        }
    }

    /// The request as the log wants it: it has no body to be read, and nothing can be sent for it.
    pub fn unpack(self, connection: &Rc<Connection>) -> Request {
        let rare = self.rare.map(|rare| *rare).unwrap_or_default();
        let parsed = rare.parsed.or_else(|| parse(&self.head, &self.server));
        let head = Head { buffer: self.head.into(), parsed: parsed.unwrap_or_else(|| HeadParser::new().into_head()) };
        let len = head.buffer.len();
        let asked = rare.asked.map_or_else(|| Asked::by(&head), |asked| *asked);
        // The last one of its connection.
        let serial = connection.requests.get();
        let place = (self.server, self.location);
        let mut request = Request::new(
            ClientStream::of_connection(connection.clone()),
            self.generation,
            place,
            head,
            serial,
            self.started,
        );
        request.path = asked.path;
        request.args = asked.args;
        request.host = asked.host;
        request.body = rare.body.map_or_else(|| ClientBody::new(BodyFraming::None, len, false), |body| *body);
        request.own = States::unpack(self.own);
        if let Some(shared) = self.shared {
            request.shared = shared.into();
        }
        request.captures = Captures::from_parts(rare.groups.map(|groups| *groups), self.values);
        request.real_peer = self.real_peer;
        request.passed_to = self.passed_to;
        request.id.set(self.id);
        request.sent = self.sent;
        request.sent_head = rare.sent_head.into();
        request.sent_location = rare.sent_location;
        request.method = self.method;
        request.rewritten_here = self.rewritten_here;
        request.path_behind_alias = self.path_behind_alias;
        request.internal = self.internal;
        request.pipelined = self.pipelined;
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::h1::upgraded::Upgraded;

    /// Ten thousand tunnels are idle at once: who adds a field here, does so ten thousand times.
    #[test]
    fn what_is_left_of_a_request_stays_small() {
        assert!(size_of::<TunnelRequest>() <= 168, "{}", size_of::<TunnelRequest>());
        assert!(size_of::<Upgraded>() <= 192, "{}", size_of::<Upgraded>());
        assert!(size_of::<Rare>() <= 80, "{}", size_of::<Rare>());
    }
}
