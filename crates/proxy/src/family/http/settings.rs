//! The directives that only `proxy` has.

use std::sync::Arc;

use bytes::Bytes;
use freerun_conf::{Cx, Many, Node, Problem, Setting, Shape, Value, settings};
use freerun_http::request::Request;
use freerun_http::template::Template;
use freerun_proto::HeaderId;
use freerun_proto::encode::field;
use freerun_serve::upstream::{OwnTlv, ProxyProtocol};

use crate::family::cookies::{Attribute, FlagRules};
use crate::family::proxy_pass::ProxyPass;
use crate::family::redirect::Redirects;

settings! {
    /// HTTP: the directives that only this member of the family has.
    ///
    /// The directives that it shares with the others are on [the page of the family](proxy.md).
    #[module = "proxy_http"]
    pub struct HttpSettings {
        /// Passes requests on to a server, given as an address, or to a group (`upstream`).
        ///
        /// A URI after host and port replaces the location's name in the path; without one the request's URI is passed
        /// on as it came, or as `rewrite` has changed it. A URI made of variables is passed on unchanged, except for
        /// spaces and control characters, which are escaped.
        proxy_pass: Option<ProxyPass>, in LOCATION | LOCATION_IF | LIMIT_EXCEPT, content,
            fidelity = Differs("names that cannot be found out do not prevent starting; in a URI of variables, spaces and control characters are \
                escaped; 101 is an error where neither the client nor `proxy_set_header` has asked for an upgrade; an answer that begins \
                neither with a status line of HTTP/1 nor with that of SHOUTcast (`ICY`) is 502, and so are more than 63 interim answers \
                (1xx) within a second");
        /// Changes the domain in `Set-Cookie` of the upstream server. A dot at the beginning is ignored.
        proxy_cookie_domain: Attribute, in HTTP | SERVER | LOCATION;
        /// Changes the flags in `Set-Cookie` of the upstream server: `secure`, `httponly`, `samesite=strict|lax|none`;
        /// with `no` in front a flag is removed.
        proxy_cookie_flags: FlagRules, in HTTP | SERVER | LOCATION;
        /// Changes the path in `Set-Cookie` of the upstream server.
        proxy_cookie_path: Attribute, in HTTP | SERVER | LOCATION;
        /// Accepted for old configurations.
        proxy_headers_hash_bucket_size: usize = "64", in HTTP | SERVER | LOCATION, fidelity = NoEffect("tables size themselves");
        /// Accepted for old configurations.
        proxy_headers_hash_max_size: usize = "512", in HTTP | SERVER | LOCATION, fidelity = NoEffect("tables size themselves");
        /// The version of HTTP that is used with upstream servers. With `2`, connections to the servers of an
        /// `upstream` block carry many requests at a time. A server with TLS has to agree to HTTP/2 by ALPN, a server
        /// without TLS has to speak it from the start (prior knowledge).
        ///
        /// With `3`, connections carry requests in the same way, over QUIC, and `proxy_pass` has to name `https://`. The
        /// settings of `proxy_ssl_…` apply to it, with TLS 1.3. A server that has not answered by UDP within 250 ms is
        /// asked by TCP, too. There it agrees by ALPN to HTTP/2 or HTTP/1.1, and the first connection that is there is
        /// used. A server that answers by TCP alone is not asked by UDP for 10 seconds, and for twice as long each further
        /// time, up to 320 seconds. A connection that is kept meanwhile is used until it ends. Servers on Unix sockets are
        /// always asked without QUIC.
        proxy_http_version: HttpVersion = "1.1", in HTTP | SERVER | LOCATION,
            fidelity = Differs("with 2, a connection carries up to 100 requests at a time, in nginx it carries one; nginx has no 3");
        /// The method of the request that is passed on, instead of the client's.
        proxy_method: Option<Template>, in HTTP | SERVER | LOCATION,
            fidelity = Differs("an empty value leaves the client's method, one that is no method is answered with 500");
        /// Whether trailer fields are passed on to the client.
        proxy_pass_trailers: bool = "off", in HTTP | SERVER | LOCATION, since = "1.27.2";
        /// Begins each connection to an upstream server with a header of the PROXY protocol, which names the client: version
        /// 1 (`on`, `1`) or 2 (`2`), as `proxy_protocol` of stream does.
        ///
        /// Such a connection carries requests of the client's connection alone, one after the other; with
        /// `proxy_http_version 2`, several at a time. A health check says that it is for no client (`UNKNOWN`, `LOCAL`).
        proxy_protocol: ProxyProtocol = "off", in HTTP | SERVER | LOCATION, fidelity = Own;
        /// Adds a field to headers of version 2: its type and its value, which may have variables. The type is a name
        /// (`alpn`, `authority`, `unique_id`, `netns`) or a number such as `0xe0`. The field replaces the one of this type
        /// that the header would have by itself. A field with an empty value is left out.
        proxy_protocol_tlv: Many<OwnTlv<Request>>, in HTTP | SERVER | LOCATION, fidelity = Own;
        /// Changes `Location` and `Refresh` of the upstream server: a prefix, or a text that an expression matches, is
        /// replaced. `default` replaces the URL of `proxy_pass` by the location's name; `off` changes nothing.
        proxy_redirect: Redirects, in HTTP | SERVER | LOCATION,
            fidelity = Differs("in a location within another one, both with `proxy_pass`, `default` goes by the inner one's; nginx takes what the outer one's has become");
        /// A body that is passed on instead of the client's.
        proxy_set_body: Option<Template>, in HTTP | SERVER | LOCATION;
        /// Sets a field of the request that is passed on; with an empty value the field is left out. These directives
        /// are inherited from an outer level only if a level has none. If `Host` is not set, it is `$proxy_host`, and so it
        /// is where variables have no value for it because a client of HTTP/1.0 has sent none.
        proxy_set_header: SetHeaders, in HTTP | SERVER | LOCATION,
            fidelity = Differs("Content-Length and Transfer-Encoding always say what the body really is, whatever is set for them; line ends in a value become spaces");
    }
}

/// The value of `proxy_http_version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
    /// HTTP/2
    Http2,
    /// HTTP/3
    Http3,
}

impl HttpVersion {
    /// The protocols that servers with TLS are offered over TCP, best first. With none they speak HTTP/1.
    pub fn alpn(self) -> Vec<Vec<u8>> {
        match self {
            HttpVersion::Http10 | HttpVersion::Http11 => Vec::new(),
            HttpVersion::Http2 => vec![b"h2".to_vec()],
            HttpVersion::Http3 => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        }
    }
}

impl Value for HttpVersion {
    const SHAPE: Shape = Shape::exactly(1, "1.0 | 1.1 | 2 | 3");

    fn parse(directive: &Node, _: &mut Cx) -> Result<HttpVersion, Problem> {
        let word = &directive.args[0];
        match word.text.as_str() {
            "1.0" => Ok(HttpVersion::Http10),
            "1.1" => Ok(HttpVersion::Http11),
            "2" => Ok(HttpVersion::Http2),
            "3" => Ok(HttpVersion::Http3),
            text => Err(Problem::new(format!("invalid value \"{text}\"")).at(word.place)),
        }
    }
}

/// A `proxy_set_header` directive.
#[derive(Debug, Clone)]
pub struct SetHeader {
    /// The name as written.
    pub name: Bytes,
    /// The value.
    pub value: Template,
    /// The complete line, if it is the same for all requests.
    line: Option<Box<[u8]>>,
}

impl SetHeader {
    fn new(name: Bytes, value: Template) -> SetHeader {
        let left_out = name.is_empty() || is_framing(HeaderId::of(&name));
        let fixed = if left_out { Some(&b""[..]) } else { value.constant() };
        let line = fixed.map(|value| {
            let mut line = Vec::new();
            if !value.is_empty() {
                field(&mut line, &name, value);
            }
            line.into()
        });
        SetHeader { name, value, line }
    }

    /// Appends the field. It is not sent if its value is empty.
    #[inline]
    pub fn append(&self, request: &Request, out: &mut Vec<u8>) {
        if let Some(line) = &self.line {
            out.extend_from_slice(line);
            return;
        }
        let value = self.value.render(request);
        if !value.is_empty() {
            field(out, &self.name, &value);
        }
    }
}

/// Whether this field frames the body of a request, so that only this server sets it.
fn is_framing(id: HeaderId) -> bool {
    matches!(id, HeaderId::ContentLength | HeaderId::TransferEncoding)
}

/// All `proxy_set_header` directives of a level.
#[derive(Debug, Clone, Default)]
pub struct SetHeaders(Arc<List>);

#[derive(Debug, Clone, Default)]
struct List {
    items: Vec<SetHeader>,
    /// The set of known names among them, a bit each.
    known: u64,
    /// Whether there are other names among them.
    others: bool,
    /// Whether `Connection` is set to something else than nothing.
    has_connection: bool,
}

impl SetHeaders {
    /// The directives in the order written.
    pub fn iter(&self) -> impl Iterator<Item = &SetHeader> {
        self.0.items.iter()
    }

    /// Whether one of them sets the field with this known name.
    pub fn has(&self, id: HeaderId) -> bool {
        self.0.known & (1 << id as u8) != 0
    }

    /// Whether `Host` is to be set, but variables have no value for it.
    #[cold]
    pub fn lacks_host(&self, request: &Request) -> bool {
        let mut named = self.0.items.iter().filter(|item| HeaderId::of(&item.name) == HeaderId::Host);
        named.all(|item| item.line.is_none() && item.value.render(request).is_empty())
    }

    /// Whether the request says that the connection ends with it: by `Connection: close`.
    #[inline]
    pub fn closes_connection(&self, request: &Request) -> bool {
        self.0.has_connection && self.has_connection_option(b"close", request)
    }

    /// Whether a server of HTTP/1.0 is asked to keep the connection: by `Connection: keep-alive`.
    pub fn keeps_connection(&self, request: &Request) -> bool {
        self.0.has_connection && self.has_connection_option(b"keep-alive", request)
    }

    /// Whether the value of `Connection` that is sent has this option (RFC 9110 section 7.6.1).
    fn has_connection_option(&self, option: &[u8], request: &Request) -> bool {
        let is = |part: &[u8]| part.trim_ascii().eq_ignore_ascii_case(option);
        let named = self.0.items.iter().filter(|item| HeaderId::of(&item.name) == HeaderId::Connection);
        named.into_iter().any(|item| item.value.render(request).split(|byte| *byte == b',').any(is))
    }

    /// Whether one of them sets the field with this name; `id` is its identifier.
    pub fn replaces(&self, id: HeaderId, name: &[u8]) -> bool {
        match id {
            HeaderId::Other => self.0.others && self.0.items.iter().any(|item| item.name.eq_ignore_ascii_case(name)),
            id => self.has(id),
        }
    }

    /// Whether the request is passed on with this field, given the values set here.
    pub fn sets(&self, id: HeaderId, request: &Request) -> bool {
        let named = |item: &&SetHeader| HeaderId::of(&item.name) == id;
        self.has(id) && self.0.items.iter().filter(named).any(|item| !item.value.render(request).is_empty())
    }
}

impl Setting for SetHeaders {
    const SHAPE: Shape = Shape::exactly(2, "field value");

    fn set(previous: Option<SetHeaders>, directive: &Node, cx: &mut Cx) -> Result<SetHeaders, Problem> {
        let mut headers = previous.unwrap_or_default();
        let list = Arc::make_mut(&mut headers.0);
        let name = Bytes::from(directive.args[0].bytes().into_owned());
        match HeaderId::of(&name) {
            HeaderId::Other => list.others = true,
            id => list.known |= 1 << id as u8,
        }
        let item = SetHeader::new(name, Template::parse(&directive.args[1], cx)?);
        list.has_connection |= HeaderId::of(&item.name) == HeaderId::Connection && item.line.as_deref() != Some(b"");
        list.items.push(item);
        Ok(headers)
    }
}
