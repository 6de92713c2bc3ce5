//! A request whose connection has left HTTP: all data that its log line may ask for, in little memory.
//!
//! A request has room for all that may happen to it, and its parsed head has room for sixteen fields. Together they are
//! more than a kilobyte, and an idle tunnel would use a tenth of it.

use std::cell::Cell;
use std::fmt::Display;
use std::mem::take;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use freerun_proto::head::{HeadParser, parse_request};
use freerun_proto::{BodyFraming, Method, RequestHead};

use crate::message::body::ClientBody;
use crate::protocol::h1::read;
use crate::regex::{Captures, Groups};
use crate::request::ClientConnection;
use crate::request::ClientStream;
use crate::request::generation::LoopGeneration;
use crate::request::location::{RequestPlace, Server};
use crate::request::processing_count::ProcessingCount;
use crate::request::{
    Address, Arrival, Head, Lineage, ModuleState, Request, RequestTarget, ResponseState, SentAmounts, States,
};
use crate::settings::server::ServerSettings;
use crate::variables::Values;

/// The part of a request that is kept for its log line.
pub struct TunnelRequest {
    generation: Rc<LoopGeneration>,
    place: RequestPlace,
    started: Instant,
    id: Option<NonZeroU64>,
    /// The bytes of the head alone.
    head: Box<[u8]>,
    own: Box<[ModuleState]>,
    shared: Option<Rc<States>>,
    values: Option<Rc<Values>>,
    real_peer: Option<Rc<Address>>,
    passed_to: Option<Rc<dyn Display>>,
    sent: SentAmounts,
    method: Method,
    pipelined: bool,
    rare: Option<Box<Rare>>,
}

/// Data that most requests which lead to a tunnel do not have, and the others have only in part.
#[derive(Default)]
struct Rare {
    /// The parsed head, if parsing the bytes again would give another one.
    parsed: Option<Box<RequestHead>>,
    /// The target, if it is another than the head's.
    uri: Option<Box<Uri>>,
    groups: Option<Box<Groups>>,
    /// A body that was not empty.
    body: Option<Box<ClientBody>>,
    sent_head: Box<[u8]>,
    sent_location: Option<Bytes>,
}

impl Rare {
    fn if_any(self) -> Option<Box<Rare>> {
        let Rare { parsed, uri, groups, body, sent_head, sent_location } = &self;
        let any = parsed.is_some()
            || uri.is_some()
            || groups.is_some()
            || body.is_some()
            || !sent_head.is_empty()
            || sent_location.is_some();
        any.then(|| Box::new(self))
    }
}

/// The path, the arguments and the host of a request, which may be rewritten.
#[derive(PartialEq)]
struct Uri {
    path: Vec<u8>,
    args: Option<Vec<u8>>,
    host: Option<String>,
}

impl Uri {
    /// The target of a head whose path is in normal form.
    fn of(head: &Head) -> Uri {
        let uri = head.parsed.target.uri(&head.buffer);
        let (path, args) = match memchr::memchr(b'?', uri) {
            Some(at) => (&uri[..at], &uri[at + 1..]),
            None => (uri, &b""[..]),
        };
        Uri {
            path: path.to_vec(),
            args: (!args.is_empty()).then(|| args.to_vec()),
            host: head.parsed.host.map(|host| host.name(&head.buffer).into_owned()),
        }
    }
}

/// Parses the bytes of a head by the rules of the virtual server. It was read by the rules of the address's default
/// server, which may be others.
fn parse(head: &[u8], server: &Server) -> Option<Box<RequestHead>> {
    parse_request(head, &read::rules(server.entry.settings.get::<ServerSettings>())).ok().flatten()
}

impl TunnelRequest {
    /// Takes the needed data out of the request, whose response has been sent.
    pub fn of(request: &mut Request) -> TunnelRequest {
        let len = (request.head.parsed.len as usize).min(request.head.buffer.len());
        let head: Box<[u8]> = request.head.buffer[..len].into();
        let again = parse(&head, &request.place.server);
        let uri = Uri {
            path: take(&mut request.asked.path),
            args: request.asked.args.take(),
            host: request.asked.host.take(),
        };
        request.pack_processing();
        let (groups, values) = take(&mut request.captures).into_parts();
        let over = ClientBody::new(BodyFraming::None, len, false);
        let rare = Rare {
            uri: (uri != Uri::of(&request.head)).then(|| Box::new(uri)),
            parsed: (again.as_ref() != Some(&request.head.parsed)).then(|| request.head.parsed.clone()),
            groups: groups.map(Box::new),
            body: (request.body.received() > 0).then(|| Box::new(std::mem::replace(&mut request.body, over))),
            sent_head: take(&mut request.answered.head).into(),
            sent_location: request.answered.location.take(),
        };
        TunnelRequest {
            generation: request.generation.clone(),
            place: request.place.clone(),
            started: request.arrival.started,
            id: request.arrival.id.get(),
            head,
            own: take(&mut request.own).pack(),
            shared: request.shared.take(),
            values,
            real_peer: request.asked.real_peer.take(),
            passed_to: request.answered.passed_to.take(),
            sent: request.sent,
            method: request.asked.method,
            pipelined: request.arrival.pipelined,
            rare: rare.if_any(),
        }
    }

    /// The number of the generation that it has begun with.
    pub fn generation(&self) -> u64 {
        self.generation.number
    }

    /// The request for the log: it has no body to be read, and no bytes can be sent for it.
    pub fn unpack(self, connection: &Rc<ClientConnection>) -> Request {
        let rare = self.rare.map(|rare| *rare).unwrap_or_default();
        let parsed = rare.parsed.or_else(|| parse(&self.head, &self.place.server));
        let head = Head { buffer: self.head.into(), parsed: parsed.unwrap_or_else(|| HeadParser::new().into_head()) };
        let len = head.buffer.len();
        let Uri { path, args, host } = rare.uri.map_or_else(|| Uri::of(&head), |uri| *uri);
        let asked = RequestTarget { path, args, host, real_peer: self.real_peer, ..RequestTarget::new(self.method) };
        let mut request = Request {
            client: ClientStream::of_connection(connection.clone()),
            generation: self.generation,
            head,
            asked,
            arrival: Arrival {
                // It is the last request of its connection.
                serial: connection.requests.get(),
                started: self.started,
                pipelined: self.pipelined,
                id: Cell::new(self.id),
            },
            // It is the client's own request.
            lineage: Lineage::default(),
            place: self.place,
            naming_file: Cell::default(),
            // Only a handler makes a tunnel.
            is_handled: true,
            captures: Captures::from_parts(rare.groups.map(|groups| *groups), self.values),
            body: rare.body.map_or_else(|| ClientBody::new(BodyFraming::None, len, false), |body| *body),
            sent: self.sent,
            answered: ResponseState {
                head: rare.sent_head.into(),
                location: rare.sent_location,
                passed_to: self.passed_to,
                ..ResponseState::default()
            },
            processing: ProcessingCount::default(),
            own: States::unpack(self.own),
            shared: self.shared.map_or_else(Default::default, Into::into),
        };
        request.unpack_processing();
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::h1::upgraded_connection::UpgradedConnection;

    /// Ten thousand tunnels may be idle at once: a new field here costs ten thousand times its size.
    #[test]
    fn what_is_left_of_a_request_stays_small() {
        assert!(size_of::<TunnelRequest>() <= 168, "{}", size_of::<TunnelRequest>());
        assert!(size_of::<UpgradedConnection>() <= 192, "{}", size_of::<UpgradedConnection>());
        assert!(size_of::<Rare>() <= 80, "{}", size_of::<Rare>());
    }
}
