//! The variables of nginx's stream core module.
//!
//! <https://nginx.org/en/docs/stream/ngx_stream_core_module.html#variables>

use std::borrow::Cow;

use freerun_conf::{bytes_of, into_bytes};
use freerun_serve::values::{Variable, VariableValue};

use crate::session::Session;

/// The table of the core's variables, besides those that all subjects have.
pub const CORE_VARIABLES: &[Variable<Session>] = &[
    // As in nginx, these two keep the value of their first use.
    Variable::<Session>::named("bytes_received", "Bytes that were received of the client.", |s, _| {
        number(s.received.get())
    })
    .kept(),
    Variable::<Session>::named("bytes_sent", "Bytes that were sent to the client.", |s, _| number(s.sent.get())).kept(),
    Variable::named("connection", "The number of the connection, counted since the start.", |s, _| number(s.number)),
    Variable::named("protocol", "The protocol of the session: `TCP` or `UDP`.", |s, _| {
        Some(Cow::Borrowed(s.client.protocol().as_bytes()))
    }),
    Variable::named(
        "server_name",
        "The name of the server that the session was given to: the first one of its `server_name`.",
        |s, _| Some(Cow::Owned(bytes_of(&s.server().name).into_owned())),
    ),
    Variable::named("server_port", "The port of the address that took the session.", |s, _| match &s.listen.ip {
        Some(address) => number(u64::from(address.port())),
        None => Some(Cow::Borrowed(b"")),
    }),
    Variable::named("session_time", "How long the session has existed, in seconds with milliseconds.", |s, _| {
        let time = s.time();
        owned(format!("{}.{:03}", time.as_secs(), time.subsec_millis()))
    }),
    Variable::named(
        "status",
        "The status of the session: 200 if it ended well, 400 if what the client sent was not understood, 403 \
         if access was denied, 500 for an error of the server, 502 if no upstream server was there, 503 if \
         limits refused it.",
        |s, _| owned(format!("{:03}", s.status())),
    ),
];

fn owned<'s>(value: String) -> VariableValue<'s> {
    Some(Cow::Owned(into_bytes(value)))
}

fn number<'s>(value: u64) -> VariableValue<'s> {
    owned(value.to_string())
}
