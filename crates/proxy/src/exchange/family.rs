//! The interface of a member of the family (`proxy_pass`, `fastcgi_pass`, …) to the code that has requests answered: a
//! uniform view of its directives, and a factory of exchanges.

use std::ops::{Deref, DerefMut};

use bytes::Bytes;
use freerun_conf::{SettingsSet, text_of};
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::Response;
use freerun_http::values::temp_path::TempPath;
use freerun_proto::HeaderId;
use freerun_proto::proxy_protocol::write::TooLarge;
use freerun_serve::tls::computed::PairNames;
use freerun_serve::tls::upstream::{UpstreamTls, without_port};

use crate::exchange::http1::{HttpExchange, WriteHead};
use crate::exchange::target::{PassTarget, TargetLookup};
use crate::exchange::{Exchange, Fault, UpstreamHead};
use crate::settings::FamilySettings;
use crate::settings::options::Options;

/// An exchange; boxed unless it is of the most frequent type.
pub enum AnyExchange {
    /// The exchange of `proxy`.
    Http(HttpExchange<WriteHead>),
    /// The exchange of another member.
    Boxed(Box<dyn Exchange>),
}

impl Deref for AnyExchange {
    type Target = dyn Exchange;

    fn deref(&self) -> &(dyn Exchange + 'static) {
        match self {
            AnyExchange::Http(exchange) => exchange,
            AnyExchange::Boxed(exchange) => &**exchange,
        }
    }
}

impl DerefMut for AnyExchange {
    fn deref_mut(&mut self) -> &mut (dyn Exchange + 'static) {
        match self {
            AnyExchange::Http(exchange) => exchange,
            AnyExchange::Boxed(exchange) => &mut **exchange,
        }
    }
}

/// The body that is sent to the upstream server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestBody {
    /// No body (`proxy_pass_request_body off`).
    None,
    /// The client's body.
    Client,
    /// The body of `proxy_set_body`.
    Set(Bytes),
}

/// The result that a member makes of a response's head.
pub enum PassedHead {
    /// The response for the client, without its body, which is put in later.
    Response(Box<Response>, Advice),
    /// The request goes elsewhere inside the server (`X-Accel-Redirect`); the body of the upstream server is not used.
    Elsewhere(Outcome),
}

/// The instructions of a response to this server (`X-Accel-…`), unless they are ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Advice {
    /// The value of `X-Accel-Buffering`.
    pub buffering: Option<bool>,
    /// The value of `X-Accel-Limit-Rate`, bytes a second to the client; 0: no limit.
    pub limit_rate: Option<u64>,
}

/// Sharing of connections by the requests of a location.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UpstreamProtocol {
    /// A connection carries one exchange at a time, whatever its protocol: HTTP/1, FastCGI and the others.
    #[default]
    Sequential,
    /// A connection of HTTP/2 carries several exchanges at a time. [`Family::exchange`] makes an
    /// [`Http2Exchange`](crate::exchange::http2::Http2Exchange).
    Http2,
    /// A connection of HTTP/3 carries several exchanges at a time. A server that cannot be reached by UDP is asked over HTTP/2 or
    /// HTTP/1.1 instead.
    Http3,
}

/// A member of the family. All its methods use the settings of the request's current location.
pub trait Family: Sync {
    /// The prefix of the directives without its underscore: `proxy`, `fastcgi`.
    fn name(&self) -> &'static str;

    /// The settings that are not rows of the table as they stand.
    fn options(&self, request: &Request) -> Options;

    /// The member's settings from the shared table. Directives that it lacks have their defaults.
    fn table<'s>(&self, settings: &'s SettingsSet) -> &'s FamilySettings;

    /// The shared settings, if the member has all the shared directives.
    fn shared<'s>(&self, settings: &'s SettingsSet) -> Option<&'s FamilySettings> {
        let _ = settings;
        None
    }

    /// The value of `proxy_temp_path`: the folder for the part of a response that the client does not take as fast as
    /// it comes.
    fn temp_path<'s>(&self, settings: &'s SettingsSet) -> Option<&'s TempPath> {
        let _ = settings;
        None
    }

    /// The target that the request is passed to.
    fn target<'r>(&'r self, request: &'r Request) -> TargetLookup<'r>;

    /// TLS of the location, for servers of a target with TLS.
    fn tls<'r>(&self, request: &'r Request) -> Option<&'r UpstreamTls> {
        let _ = request;
        None
    }

    /// The name that a server with TLS is told, and that its certificate has to be for (`proxy_ssl_name`).
    fn tls_name(&self, request: &Request, target: &PassTarget) -> String {
        let without_port = |name: &[u8]| without_port(&text_of(name)).to_owned();
        match &self.table(request.settings()).proxy_ssl_name {
            Some(name) => without_port(&name.render(request)),
            None => without_port(&target.upstream().host),
        }
    }

    /// The names of the certificate that servers with TLS are shown (`proxy_ssl_certificate`), if they have variables. An empty
    /// name stands for no certificate.
    fn tls_certificate(&self, request: &Request) -> Option<PairNames> {
        if !self.tls(request)?.is_computed() {
            return None;
        }
        self.table(request.settings()).certificate_names(request)
    }

    /// The header of the PROXY protocol that connections for this request begin with (`proxy_protocol`); empty if there is
    /// none.
    ///
    /// # Errors
    /// Fields of the configuration are too long for a header.
    fn proxy_header(&self, request: &Request) -> Result<Vec<u8>, TooLarge> {
        let _ = request;
        Ok(Vec::new())
    }

    /// The header of the PROXY protocol for connections that are made for no client: health checks.
    fn own_proxy_header(&self, settings: &SettingsSet) -> Vec<u8> {
        let _ = settings;
        Vec::new()
    }

    /// Appends the key of a response if `cache_key` gives none: the target and the URI. `false`: there is no key.
    ///
    /// # Errors
    /// The URI cannot be determined; the reason is logged.
    fn cache_key(&self, request: &Request, out: &mut Vec<u8>) -> Result<bool, Outcome> {
        let _ = (request, out);
        Ok(false)
    }

    /// Whether HEAD is passed on as GET where responses are cached: `cache_convert_head`.
    fn converts_head(&self, request: &Request) -> bool {
        let _ = request;
        false
    }

    /// Whether the configuration itself asks the server for a part of the response (`Range`).
    fn asks_for_part(&self, request: &Request) -> bool {
        let _ = request;
        false
    }

    /// The body that is passed on.
    fn body(&self, request: &Request) -> RequestBody {
        let _ = request;
        RequestBody::Client
    }

    /// Sharing of connections by this request and others.
    fn protocol(&self, request: &Request) -> UpstreamProtocol {
        let _ = request;
        UpstreamProtocol::Sequential
    }

    /// Makes an exchange for a try, to the target that [`Family::target`] gave. `is_stream` says that it is carried by a stream of
    /// a shared connection. The response's head may have `max_head` bytes: the value of `buffer_size`.
    fn exchange(&self, request: &Request, is_stream: bool, target: &PassTarget, max_head: usize) -> AnyExchange;

    /// Makes the client's response from a final head: fields are hidden, passed and changed here. Decisions by the
    /// status and the like (retries, `proxy_intercept_errors`) are made before.
    ///
    /// # Errors
    /// The response cannot be passed on: the answer is 502, and the text is logged.
    fn respond(&self, request: &mut Request, target: &PassTarget, head: UpstreamHead) -> Result<PassedHead, Fault>;

    /// Whether a field is hidden from the client, in a final head, an interim head or a trailer.
    fn hides(&self, request: &Request, id: HeaderId, name: &[u8]) -> bool {
        let _ = (request, id, name);
        false
    }

    /// Whether a body of unknown length can be streamed in the way this request is passed on: by chunks. If not, it is
    /// read completely before, whatever `proxy_request_buffering` says.
    fn passes_unknown_length(&self, request: &Request) -> bool {
        let _ = request;
        false
    }

    /// Whether the request may be sent again, by the method that the upstream server sees (`proxy_method`), or `GET` if
    /// the protocol has no methods.
    fn is_idempotent(&self, request: &Request) -> bool;

    /// Whether the client's request asks to leave the protocol (`Upgrade`), and was passed on as such (in `proxy`):
    /// only then is 101 an answer.
    fn upgrades(&self, request: &Request) -> bool {
        let _ = request;
        false
    }
}
