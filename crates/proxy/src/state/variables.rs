//! The variables that show a request's tries at upstream servers: `$upstream_addr` and the other `$upstream_…`
//! variables.
//!
//! If a request was tried several times, the values are separated by `, `; after an internal redirect (`error_page`,
//! `X-Accel-Redirect`) to another group of servers, by ` : `.

use std::borrow::Cow;
use std::fmt::Write;

use bytes::Bytes;
use freerun_conf::{bytes_of, into_bytes};
use freerun_http::request::Request;
use freerun_http::request::response::Field;
use freerun_http::variables::{Variable, VariableValue};
use freerun_upstream::Peer;

use crate::state::cache_fetch::{CacheFetch, Validators};
use crate::state::cache_status::{self, CacheStatus};
use crate::state::record::{Inner, Record, Try};

/// The variables.
pub const VARIABLES: &[Variable] = &[
    Variable::named(
        "upstream_addr",
        "The address of the upstream server. Those of several tries are separated by commas, those of several groups \
         (by an internal redirect) by colons; the other variables of upstream servers are written in the same way.",
        |r, _| list(r, |try_, out| out.push_str(try_.server.name())),
    ),
    Variable::named("upstream_bytes_received", "Bytes that were received of the upstream server.", |r, _| {
        list(r, |try_, out| number(try_.received, out))
    }),
    Variable::named("upstream_bytes_sent", "Bytes that were sent to the upstream server.", |r, _| {
        list(r, |try_, out| number(try_.sent, out))
    }),
    Variable::named(
        "upstream_connect_time",
        "How long the connection to the upstream server took, with the handshake of TLS, in seconds with \
         milliseconds.",
        |r, _| list(r, |try_, out| try_.connect.append(out)),
    ),
    Variable::family(
        "upstream_cookie_",
        "The value of the cookie `NAME` that the upstream server sets by `Set-Cookie`; of the last server only.",
        cookie,
    ),
    Variable::named(
        "upstream_header_time",
        "How long it took until the head of the upstream server's response was there, in seconds with \
         milliseconds.",
        |r, _| list(r, |try_, out| try_.answer.append(out)),
    ),
    Variable::family(
        "upstream_http_",
        "The field of this name in the upstream server's response, in lower case and with `_` for `-`; of the \
         last server only.",
        |r, name| field(r, name, |inner| &inner.fields, counts_once(name)),
    ),
    Variable::named(
        "upstream_queue_time",
        "How long the request waited in the group's `queue`, in seconds with milliseconds.",
        |r, _| list(r, |try_, out| try_.own.queue.append(out)),
    ),
    Variable::named(
        "upstream_response_length",
        "Bytes of the upstream server's response, its head not counted.",
        |r, _| list(r, |try_, out| number(try_.own.length, out)),
    ),
    Variable::named(
        "upstream_response_time",
        "How long it took until the upstream server's response was complete, in seconds with milliseconds.",
        |r, _| list(r, |try_, out| try_.whole.append(out)),
    ),
    Variable::named(
        "upstream_status",
        "The status of the upstream server's response; `502` or `504` if there was none.",
        |r, _| {
            list(r, |try_, out| match try_.own.status {
                0 => out.push('-'),
                status => number(status.into(), out),
            })
        },
    ),
    Variable::family(
        "upstream_trailer_",
        "The field of this name at the end of the upstream server's response.",
        |r, name| field(r, name, |inner| &inner.trailers, false),
    ),
    Variable::named(
        "upstream_cache_status",
        "How the cache answered: `MISS`, `BYPASS`, `EXPIRED`, `STALE`, `UPDATING`, `REVALIDATED` or `HIT`; no \
         value if no cache was asked.",
        |request, _| cache_status::of(request).map(|status| status.word().as_bytes().into()),
    ),
    // The validators of a stale response: nginx sets these variables only while it revalidates.
    Variable::named(
        "upstream_cache_last_modified",
        "The field `Last-Modified` of the stored response that is too old, while it is revalidated.",
        |request, _| validator(request, |known| known.last_modified),
    ),
    Variable::named(
        "upstream_cache_etag",
        "The field `ETag` of the stored response that is too old, while it is revalidated.",
        |request, _| validator(request, |known| known.etag),
    ),
    Variable::named("upstream_last_addr", "The address of the upstream server that was chosen last.", |request, _| {
        last(request, address)
    }),
    Variable::named(
        "upstream_last_server_name",
        "The name of the upstream server that was chosen last, as the configuration writes it.",
        |request, _| last(request, |peer| &peer.server),
    ),
];

/// A validator of the stale response that was revalidated or replaced.
fn validator(request: &Request, which: fn(Validators) -> Option<Bytes>) -> VariableValue<'_> {
    if cache_status::of(request) != Some(CacheStatus::Expired) {
        return None;
    }
    Some(which(CacheFetch::validators(request)?)?.to_vec().into())
}

/// The values of `show` for each try.
fn list<'r>(request: &'r Request, show: fn(&Try, &mut String)) -> VariableValue<'r> {
    let record = request.own.find::<Record>()?;
    let between = |one: &Try| if one.own.redirected { " : " } else { ", " };
    record.list(record.shown(), between, show).map(|text| Cow::Owned(into_bytes(text)))
}

/// The value of `show` for the server that was chosen last.
fn last<'r>(request: &'r Request, show: fn(&Peer) -> &str) -> VariableValue<'r> {
    let record = request.own.find::<Record>()?;
    let shown = record.shown();
    record.look(|tries| {
        let peer = tries[..shown.min(tries.len())].last()?.server.peer()?;
        Some(Cow::Owned(bytes_of(show(peer)).into_owned()))
    })
}

/// An address without its port, or the path of a Unix socket as `$upstream_addr` has it.
fn address(peer: &Peer) -> &str {
    let name = &*peer.name;
    match name.rsplit_once(':') {
        Some((ip, _)) if !name.starts_with("unix:") => ip.trim_start_matches('[').trim_end_matches(']'),
        _ => name,
    }
}

fn number(number: u64, out: &mut String) {
    let _ = write!(out, "{number}");
}

/// Whether only the first of several fields with this name counts.
fn counts_once(name: &str) -> bool {
    matches!(name, "content_type" | "etag" | "expires" | "last_modified" | "location" | "refresh" | "x_accel_expires")
}

/// The values of all fields with this name, or only the first, where `-` in the field's name is `_`.
fn field<'r>(request: &'r Request, name: &str, fields: fn(&Inner) -> &[Field], only_first: bool) -> VariableValue<'r> {
    let record = request.own.find::<Record>()?;
    let inner = record.inner.borrow();
    let same = |field: &[u8]| {
        field.len() == name.len()
            && field.iter().zip(name.bytes()).all(|(a, b)| match a {
                b'-' => b == b'_',
                a => a.eq_ignore_ascii_case(&b),
            })
    };
    let mut values = fields(&inner).iter().filter(|(field, _)| same(field)).map(|(_, value)| value);
    let mut joined = values.next()?.to_vec();
    for value in values.take_while(|_| !only_first) {
        joined.extend_from_slice(b", ");
        joined.extend_from_slice(value);
    }
    Some(Cow::Owned(joined))
}

/// The value of a cookie that the upstream server set; if there are several, the first one counts.
fn cookie<'r>(request: &'r Request, name: &str) -> VariableValue<'r> {
    let record = request.own.find::<Record>()?;
    let inner = record.inner.borrow();
    let set = inner.fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(b"set-cookie"));
    let found = set.filter_map(|(_, value)| cookie_value(value, name.as_bytes())).next()?;
    Some(Cow::Owned(found.to_vec()))
}

/// The value in a `Set-Cookie` without the blanks around it, if the cookie has this name. An empty value is none.
fn cookie_value(set_cookie: &Bytes, name: &[u8]) -> Option<Bytes> {
    let end = set_cookie.iter().position(|byte| *byte == b';').unwrap_or(set_cookie.len());
    let equals = set_cookie[..end].iter().position(|byte| *byte == b'=')?;
    if !trim_spaces(&set_cookie[..equals]).eq_ignore_ascii_case(name) {
        return None;
    }
    let value = trim_spaces(&set_cookie[equals + 1..end]);
    (!value.is_empty()).then(|| set_cookie.slice_ref(value))
}

/// The text without the spaces around it; tabs belong to it.
fn trim_spaces(text: &[u8]) -> &[u8] {
    let is_other = |byte: &u8| *byte != b' ';
    let begin = text.iter().position(is_other).unwrap_or(text.len());
    let end = text.iter().rposition(is_other).map_or(begin, |last| last + 1);
    &text[begin..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_that_are_set() {
        for (set, value) in [
            ("a=1; Path=/", Some("1")),
            ("A=1", Some("1")),
            ("a=", None),
            ("a= ; Path=/", None),
            (" a =  1 2 ; Path=/", Some("1 2")),
            ("a\t=1", None),
            ("a=\t1\t", Some("\t1\t")),
            ("a=b=c", Some("b=c")),
            ("b=1", None),
            ("a", None),
            ("; a=1", None),
            ("", None),
        ] {
            let found = cookie_value(&Bytes::from_static(set.as_bytes()), b"a");
            assert_eq!(found.as_deref(), value.map(str::as_bytes), "{set}");
        }
    }
}
