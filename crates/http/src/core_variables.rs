//! The variables of nginx's core module.

use std::borrow::Cow;
use std::io::Write;
use std::num::{NonZeroU16, NonZeroU64};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use freerun_conf::{bytes_of, text_of};
use freerun_proto::{BodyFraming, Credentials, HeaderId, Method, Version, uri};
use freerun_transport::TcpInfo;

use crate::body::collect::{CollectedBody, KeptBody};
use crate::content::path;
use crate::log_error;
use crate::request::Request;
use crate::settings::rate::LimitRate;
use crate::variables::{Variable, VariableValue};

/// The table of the core's variables.
pub const CORE_VARIABLES: &[Variable] = &[
    Variable::family(
        "arg_",
        "The value of the argument `NAME` in the request's query string, as it was sent: `$arg_page` is `2` \
         for `/list?page=2`. The name is compared without regard to case.",
        |r, name| uri::argument(r.asked.args.as_deref()?, name.as_bytes()).map(Cow::Borrowed),
    ),
    Variable::named("args", "The query string of the request; `set` may change it.", |r, _| {
        some(r.asked.args.as_deref())
    })
    .settable(|r, value| {
        r.asked.args = Some(value.to_vec());
        r.asked.uri_kept = false;
    }),
    Variable::named(
        "body_bytes_sent",
        "Bytes of the response's body that were sent to the client, the head not counted.",
        |r, _| number(r.sent.body_bytes),
    ),
    Variable::named("bytes_sent", "Bytes that were sent to the client.", |r, _| number(r.sent.bytes)),
    Variable::named("connection", "The number of the connection, counted since the start.", |r, _| {
        number(r.client.number)
    }),
    Variable::named(
        "connection_requests",
        "How many requests have come over the connection so far, this one included.",
        |r, _| number(r.arrival.serial),
    ),
    Variable::named("connection_time", "How long the connection has existed, in seconds with milliseconds.", |r, _| {
        seconds(r.client.accepted.elapsed())
    }),
    Variable::named("content_length", "The request's field `Content-Length`.", content_length),
    // Two of them make no media type, but they are not hidden from those who look at this variable.
    Variable::named("content_type", "The request's field `Content-Type`.", |r, _| http(r, "content_type")),
    Variable::family("cookie_", "The value of the request's cookie `NAME`.", cookie),
    Variable::named("document_root", "The value of `root` or `alias` for the request.", |r, _| {
        owned(path::document_root(r))
    }),
    Variable::named("document_uri", "The same as `$uri`.", |r, _| path(r)),
    Variable::named(
        "host",
        "In this order: the host of the request line, the host of the field `Host`, the name of the server \
         that the request was given to. In lower case, without the port.",
        host,
    ),
    Variable::family(
        "http_",
        "The request's field of this name, in lower case and with `_` for `-`: `$http_user_agent`. Several \
         fields of one name are joined by `, `.",
        http,
    )
    .but_fixed(&["cookie", "host", "referer", "user_agent", "via", "x_forwarded_for"]),
    Variable::named(
        "http2",
        "The version of HTTP/2 that the request came by: `h2` over TLS, `h2c` without; empty otherwise.",
        http2,
    ),
    Variable::named(
        "http3",
        "The protocol of a request that came over QUIC: `h3`, or `hq` (`http3_hq`); empty otherwise.",
        http3,
    ),
    Variable::named("https", "`on` if the connection uses TLS; empty otherwise.", |r, _| {
        text(if r.client.tls().is_some() { "on" } else { "" })
    }),
    Variable::named("is_args", "`?` if the request has a query string that is not empty; empty otherwise.", |r, _| {
        text(if r.asked.args.as_ref().is_some_and(|args| !args.is_empty()) { "?" } else { "" })
    }),
    Variable::named(
        "is_request_port",
        "`:` if the request names a port; empty otherwise. `$host$is_request_port$request_port` is what the \
         client asked for.",
        |r, _| text(if r.head.host().is_some_and(|host| host.port.is_some()) { ":" } else { "" }),
    ),
    Variable::named(
        "limit_rate",
        "How many bytes a second of the response are sent at most, 0: no limit; `set` changes it.",
        |r, _| number(r.own.find::<LimitRate>().map_or(0, |rate| rate.get().unwrap_or(0))),
    )
    .settable(set_limit_rate),
    Variable::named(
        "pipe",
        "`p` if the request came before the response to the one before it was sent; `.` otherwise.",
        |r, _| text(if r.arrival.pipelined { "p" } else { "." }),
    ),
    Variable::named("query_string", "The same as `$args`.", |r, _| some(r.asked.args.as_deref())),
    Variable::named(
        "realpath_root",
        "The folder of `root` or `alias` for the request, with all symbolic links resolved.",
        |r, _| path::real_root(r).map(Cow::Owned),
    ),
    Variable::named("remote_user", "The user name of the field `Authorization` for the scheme Basic.", remote_user),
    Variable::named("request", "The whole request line, as it was sent.", |r, _| some(request_line(r))),
    // The variable has a value only where a module reads the body (`dav`, `mirror`, the proxy family).
    Variable::named(
        "request_body",
        "The request's body, where a module reads it (`proxy_pass` and its kin, `dav_methods`, `mirror`) and \
         it is in memory.",
        request_body,
    ),
    Variable::named(
        "request_body_file",
        "The name of the temporary file with the request's body, if it was written to one.",
        request_body_file,
    ),
    Variable::named("request_completion", "`OK` if the request has come to its end; empty otherwise.", |r, _| {
        text(if r.sent.complete { "OK" } else { "" })
    })
    .kept(),
    Variable::named(
        "request_filename",
        "The path of the file for the request, by `root` or `alias` and the URI.",
        |r, _| Some(path::file_name(r)).filter(|name| name != path::NO_NAME).map(Cow::Owned),
    ),
    Variable::named("request_id", "An identifier of the request: 16 random bytes in hexadecimal.", |r, _| {
        owned(request_id(r).into_bytes())
    }),
    // The value is empty for a subrequest, because nothing was received for it.
    Variable::named("request_length", "Bytes of the request: its line, its fields and its body.", |r, _| {
        number(if r.is_subrequest() { 0 } else { u64::from(r.head.told_len()) + r.body.length() })
    }),
    Variable::named("request_method", "The method of the request, such as `GET`.", |r, _| {
        let own = |method: &Method| understood(r) && *method == r.head.method();
        some(match r.lineage.main_method.unwrap_or(r.asked.method) {
            method if own(&method) => Some(r.head.method_text()),
            // The method of the page that stands for an error.
            Method::Get if understood(r) || r.place.internal => Some(&b"GET"[..]),
            _ => understood(r).then_some(b""),
        })
    }),
    Variable::named(
        "request_port",
        "The port that the request names in its line or in the field `Host`; empty if it names none.",
        |r, _| match r.head.host().and_then(|host| host.port) {
            Some(port) => number(u64::from(port)),
            None => text(""),
        },
    ),
    Variable::named(
        "request_time",
        "How long the request has taken since its first bytes came, in seconds with milliseconds.",
        |r, _| seconds(r.arrival.started.elapsed()),
    ),
    Variable::named("request_uri", "The URI of the request with its arguments, as it was sent.", |r, _| {
        some((understood(r) && r.head.parsed.target.is_known()).then(|| r.head.uri()))
    }),
    Variable::named("scheme", "`http` or `https`.", |r, _| text(r.client.scheme())),
    Variable::family(
        "sent_http_",
        "The response's field of this name, in lower case and with `_` for `-`, as it is sent to the client.",
        sent_http,
    )
    .but_fixed(SENT_BY_ITSELF)
    .kept(),
    Variable::family("sent_trailer_", "The field of this name at the end of the response.", sent_trailer).kept(),
    Variable::named(
        "server_name",
        "The name of the server that the request was given to: the first one of its `server_name`.",
        |r, _| Some(bytes_of(&r.place.server.name)),
    ),
    Variable::named("server_port", "The port of the address that took the connection.", |r, _| {
        match &r.client.listen.ip {
            Some(address) => number(u64::from(address.port())),
            None => text(""),
        }
    }),
    Variable::named("server_protocol", "The protocol of the request: `HTTP/1.0`, `HTTP/1.1` or `HTTP/2.0`.", |r, _| {
        some(Some(r.head.version_text()).filter(|version| !version.is_empty()))
    }),
    Variable::named("status", "The status of the response, three digits.", |r, _| {
        owned(format!("{:03}", status(r)).into_bytes())
    }),
    Variable::named(
        "tcpinfo_rcv_space",
        "From the kernel about the client's connection: the room for received bytes (tcp(7), `TCP_INFO`).",
        |r, _| number(tcp(r)?.rcv_space.into()),
    ),
    Variable::named(
        "tcpinfo_rtt",
        "From the kernel about the client's connection: the round-trip time in microseconds (tcp(7), `TCP_INFO`).",
        |r, _| number(tcp(r)?.rtt.into()),
    ),
    Variable::named(
        "tcpinfo_rttvar",
        "From the kernel about the client's connection: how much the round-trip time varies, in microseconds \
         (tcp(7), `TCP_INFO`).",
        |r, _| number(tcp(r)?.rttvar.into()),
    ),
    Variable::named(
        "tcpinfo_snd_cwnd",
        "From the kernel about the client's connection: the congestion window in segments (tcp(7), `TCP_INFO`).",
        |r, _| number(tcp(r)?.snd_cwnd.into()),
    ),
    Variable::named(
        "uri",
        "The path of the request in its normal form: decoded, without `.`, `..` and repeated slashes. \
         Internal redirects and `rewrite` change it.",
        |r, _| path(r),
    ),
];

/// The `$sent_http_…` variables that no module may change.
const SENT_BY_ITSELF: &[&str] = &[
    "cache_control",
    "connection",
    "content_length",
    "content_type",
    "keep_alive",
    "last_modified",
    "link",
    "location",
    "transfer_encoding",
];

/// Whether the request line was understood; otherwise the requested method and path are not known.
fn understood(request: &Request) -> bool {
    request.head.is_understood()
}

/// The path. The path of an error page is known even where the request's own is not.
fn path(request: &Request) -> VariableValue<'_> {
    (understood(request) || request.place.internal).then_some(Cow::Borrowed(&request.asked.path))
}

fn set_limit_rate(request: &mut Request, value: &[u8]) {
    let text = text_of(value);
    match freerun_conf::parse_size(&text) {
        Some(rate) => request.own.get::<LimitRate>().set(rate),
        None => log_error!(request, Error, "invalid $limit_rate \"{text}\""),
    }
}

/// The status as it was sent; before that, the status that an error page has to be sent with.
fn status(request: &Request) -> u16 {
    match request.sent.code() {
        0 => request.place.forced_status.map_or(0, NonZeroU16::get),
        status => status,
    }
}

/// `$request_body`: the body, if it was read into memory.
fn request_body<'r>(request: &'r Request, _: &str) -> VariableValue<'r> {
    let kept = request.find_shared::<KeptBody>()?;
    match kept.0.borrow().as_deref()? {
        CollectedBody::Memory(bytes) if !bytes.is_empty() => owned(bytes.to_vec()),
        _ => None,
    }
}

/// `$request_body_file`: the name of the file that the body was read into, if it has one.
fn request_body_file<'r>(request: &'r Request, _: &str) -> VariableValue<'r> {
    let kept = request.find_shared::<KeptBody>()?;
    match kept.0.borrow().as_deref()? {
        CollectedBody::File(file) => owned(file.path()?.to_bytes().to_vec()),
        CollectedBody::Memory(_) => None,
    }
}

fn some(value: Option<&[u8]>) -> VariableValue<'_> {
    value.map(Cow::Borrowed)
}

fn text<'r>(value: &'static str) -> VariableValue<'r> {
    Some(Cow::Borrowed(value.as_bytes()))
}

fn owned<'r>(value: Vec<u8>) -> VariableValue<'r> {
    Some(Cow::Owned(value))
}

fn number<'r>(value: u64) -> VariableValue<'r> {
    let mut out = Vec::with_capacity(20);
    freerun_proto::encode::push_number(&mut out, value);
    owned(out)
}

/// The kernel's information about the client's TCP connection.
fn tcp(request: &Request) -> Option<TcpInfo> {
    request.client.tcp_info()
}

fn seconds<'r>(time: std::time::Duration) -> VariableValue<'r> {
    owned(format!("{}.{:03}", time.as_secs(), time.subsec_millis()).into_bytes())
}

/// `$request`: with HTTP/1 it exists even if nothing of it has come, while the fields of HTTP/2 may not make one.
fn request_line(request: &Request) -> Option<&[u8]> {
    Some(request.head.request_line()).filter(|line| !line.is_empty() || request.head.version() < Version::Http2)
}

/// `$http2`: `h2` over TLS, `h2c` without it.
fn http2<'r>(request: &'r Request, _: &str) -> VariableValue<'r> {
    if request.head.version() != Version::Http2 {
        return None;
    }
    text(if request.client.tls().is_some() { "h2" } else { "h2c" })
}

/// `$http3`: `h3`, or `hq` for what is older than HTTP/3 on a connection of QUIC.
fn http3<'r>(request: &'r Request, _: &str) -> VariableValue<'r> {
    if !request.client.listen.quic {
        return None;
    }
    text(if request.head.version() == Version::Http3 { "h3" } else { "hq" })
}

fn header(request: &Request, id: HeaderId) -> VariableValue<'_> {
    request.head.value(id).map(Cow::Borrowed)
}

/// `$content_length`: for a chunked body the number of bytes that were kept, as soon as its end is known.
fn content_length<'r>(request: &'r Request, _: &str) -> VariableValue<'r> {
    let in_chunks = request.head.body() == BodyFraming::Chunked && request.body.is_done();
    header(request, HeaderId::ContentLength).or_else(|| number(request.body.received()).filter(|_| in_chunks))
}

fn host<'r>(request: &'r Request, _: &str) -> VariableValue<'r> {
    match &request.asked.host {
        Some(host) => Some(Cow::Borrowed(host.as_bytes())),
        None => Some(bytes_of(&request.place.server.name)),
    }
}

/// `$http_name`: repeated fields are joined, with a semicolon for cookies and a comma for all others (as in nginx
/// 1.23.0).
fn http<'r>(request: &'r Request, name: &str) -> VariableValue<'r> {
    let name = name.as_bytes();
    let mut values = request.head.values_of_variable(name);
    let first = values.next()?;
    let mut joined: Option<Vec<u8>> = None;
    for value in values {
        let separator: &[u8] = if name == b"cookie" { b"; " } else { b", " };
        let joined = joined.get_or_insert_with(|| first.to_vec());
        joined.extend_from_slice(separator);
        joined.extend_from_slice(value);
    }
    Some(joined.map_or(Cow::Borrowed(first), Cow::Owned))
}

/// `$cookie_name`.
fn cookie<'r>(request: &'r Request, name: &str) -> VariableValue<'r> {
    request.head.cookie(name).map(Cow::Borrowed)
}

/// `$sent_http_name`, from the head as it was sent.
fn sent_http<'r>(request: &'r Request, name: &str) -> VariableValue<'r> {
    // A page that stands for a redirect has its `Location` too.
    if name == "location"
        && let Some(location) = request.answered.location.as_ref().or(request.answered.carried.location.as_ref())
    {
        return Some(Cow::Borrowed(location));
    }
    let lines = request.answered.head.split(|byte| *byte == b'\n');
    let fields = lines.filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    });
    // A field that the response has itself is not joined with fields that `add_header` added.
    let single = ["connection", "content_length", "content_type", "keep_alive", "last_modified", "location"];
    if single.contains(&name) || name == "transfer_encoding" {
        joined(fields.filter(|(field, _)| means(field, name)).take(1), name)
    } else {
        joined(fields, name)
    }
}

/// `$sent_trailer_name`, from what was sent after the body.
fn sent_trailer<'r>(request: &'r Request, name: &str) -> VariableValue<'r> {
    joined(request.answered.trailers.iter().map(|(name, value)| (&**name, &**value)), name)
}

/// Whether a variable's name means this field.
fn means(field: &[u8], name: &str) -> bool {
    field.len() == name.len()
        && field.iter().zip(name.bytes()).all(|(byte, wanted)| match byte {
            b'-' => wanted == b'_',
            byte => byte.eq_ignore_ascii_case(&wanted),
        })
}

/// The values of the fields that a variable's name means, joined with commas.
fn joined<'f, 'r>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>, name: &str) -> VariableValue<'r> {
    let mut found: Option<Vec<u8>> = None;
    for (_, value) in fields.filter(|(field, _)| means(field, name)) {
        match &mut found {
            Some(joined) => {
                joined.extend_from_slice(b", ");
                joined.extend_from_slice(value);
            }
            None => found = Some(value.to_vec()),
        }
    }
    found.map(Cow::Owned)
}

/// The user name of `Authorization: Basic` (or of `Proxy-Authorization`), which may be unchecked.
fn remote_user<'r>(request: &'r Request, _: &str) -> VariableValue<'r> {
    let value = request.head.value(request.authorization())?;
    owned(Credentials::parse(value)?.user().to_vec())
}

/// The value of `$request_id`: 32 hexadecimal digits that no other request has, made of a random key of the process and a
/// counter.
pub fn request_id(request: &Request) -> String {
    use std::hash::{BuildHasher, RandomState};
    static KEYS: OnceLock<(RandomState, RandomState)> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let (high, low) = KEYS.get_or_init(|| (RandomState::new(), RandomState::new()));
    let known = request.arrival.id.get().unwrap_or_else(|| {
        // The counter wraps around after more requests than there will ever be.
        let count = NonZeroU64::new(COUNT.fetch_add(1, Relaxed)).unwrap_or(NonZeroU64::MIN);
        request.arrival.id.set(Some(count));
        count
    });
    let mut out = Vec::with_capacity(32);
    let _ = write!(out, "{:016x}{:016x}", high.hash_one(known), low.hash_one(known));
    text_of(&out).into_owned()
}
