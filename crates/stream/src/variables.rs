//! The variables of nginx's stream core module.
//!
//! <https://nginx.org/en/docs/stream/ngx_stream_core_module.html#variables>

use std::borrow::Cow;

use freerun_serve::values::{Value, Variable};

use crate::session::Session;

/// The table of the core's variables, besides those that all subjects have.
pub const CORE_VARIABLES: &[Variable<Session>] = &[
    // As in nginx, these two keep the value of their first use.
    Variable::<Session>::named("bytes_received", |s, _| number(s.received.get())).kept(),
    Variable::<Session>::named("bytes_sent", |s, _| number(s.sent.get())).kept(),
    Variable::named("connection", |s, _| number(s.number)),
    Variable::named("protocol", |s, _| Some(Cow::Borrowed(s.client.protocol().as_bytes()))),
    Variable::named("server_name", |s, _| Some(Cow::Owned(s.server().name.as_bytes().to_vec()))),
    Variable::named("server_port", |s, _| match &s.listen.ip {
        Some(address) => number(u64::from(address.port())),
        None => Some(Cow::Borrowed(b"")),
    }),
    Variable::named("session_time", |s, _| {
        let time = s.time();
        owned(format!("{}.{:03}", time.as_secs(), time.subsec_millis()))
    }),
    Variable::named("status", |s, _| owned(format!("{:03}", s.status()))),
];

fn owned<'s>(value: String) -> Value<'s> {
    Some(Cow::Owned(value.into_bytes()))
}

fn number<'s>(value: u64) -> Value<'s> {
    owned(value.to_string())
}
