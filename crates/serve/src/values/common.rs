//! The variables that every subject has.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::net::IpAddr;

use freerun_conf::bytes_of;
use freerun_runtime::host;
use freerun_runtime::log::clock;

use super::variable::{Variable, VariableValue};
use crate::listen::address::{Address, Peer};
use crate::values::subject::Subject;

/// The version of nginx whose documented behaviour is followed: `$nginx_version`.
pub const NGINX_VERSION: &str = "1.31.5";

/// The variables that a kind of subject shares with all others.
pub struct Common<S>(PhantomData<fn(&S)>);

/// The value of a variable with a client's address, such as `$remote_addr`.
pub fn address_value<'s>(client: &Address) -> VariableValue<'s> {
    owned(Peer(client).to_string().into_bytes())
}

/// The value of a variable with a client's port, such as `$remote_port`; empty if it is not known, or there is none.
pub fn port_value<'s>(client: &Address) -> VariableValue<'s> {
    match client {
        Address::Ip(address) if address.port() != 0 => owned(address.port().to_string().into_bytes()),
        _ => text(""),
    }
}

impl<S: Subject> Common<S> {
    /// The table of these variables.
    pub const VARIABLES: &'static [Variable<S>] = &[
        Variable::named(
            "binary_remote_addr",
            "The client's address as bytes, 4 or 16 of them: short keys for `limit_req_zone` and its kin.",
            |s, _| match s.peer() {
                Address::Ip(address) => owned(match address.ip() {
                    IpAddr::V4(ip) => ip.octets().to_vec(),
                    IpAddr::V6(ip) => ip.octets().to_vec(),
                }),
                Address::Unix(_) => owned(Peer(s.peer()).to_string().into_bytes()),
            },
        ),
        Variable::named("hostname", "The name of the machine.", |_, _| Some(Cow::Borrowed(host::name()))),
        Variable::named("msec", "The time in seconds since 1970 with milliseconds.", |_, _| {
            let now = clock::now();
            owned(format!("{}.{:03}", now.secs, now.millis).into_bytes())
        }),
        Variable::named("nginx_version", "The version of nginx whose behaviour this program follows.", |_, _| {
            text(NGINX_VERSION)
        }),
        Variable::named("pid", "The number of the worker process.", |_, _| {
            owned(std::process::id().to_string().into_bytes())
        }),
        Variable::named(
            "remote_addr",
            "The client's address; that of an IPv4 client of an IPv6 socket is its IPv4 address.",
            |s, _| address_value(s.peer()),
        ),
        Variable::named("remote_port", "The client's port.", |s, _| port_value(s.peer())),
        Variable::named("server_addr", "The address of this machine that the client's connection came to.", |s, _| {
            match s.local() {
                Address::Ip(address) => owned(address.ip().to_canonical().to_string().into_bytes()),
                Address::Unix(name) => owned(bytes_of(&name).into_owned()),
            }
        }),
        Variable::named(
            "time_iso8601",
            "The local time as ISO 8601 writes it: `2026-01-31T12:00:00+00:00`.",
            |_, _| owned(clock::time_iso8601(clock::now().secs).to_vec()),
        ),
        Variable::named(
            "time_local",
            "The local time as access logs write it: `31/Jan/2026:12:00:00 +0000`.",
            |_, _| owned(clock::time_local(clock::now().secs).to_vec()),
        ),
    ];
}

fn text<'s>(value: &'static str) -> VariableValue<'s> {
    Some(Cow::Borrowed(value.as_bytes()))
}

fn owned<'s>(value: Vec<u8>) -> VariableValue<'s> {
    Some(Cow::Owned(value))
}
