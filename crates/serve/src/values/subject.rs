//! The subject of all shared parts: a request of HTTP, or a session of TCP or UDP.

use std::fmt;
use std::net::IpAddr;

use freerun_runtime::log::Level;

use crate::configuration::services::Services;
use crate::listen::address::Address;
use crate::tls::client_facts::TlsFacts;
use crate::values::captures::{Captures, Values};

/// The properties of a request or session that variables, maps, limits, access rules, logs and the choice of an
/// upstream server need.
///
/// It is a bound of generic code, never a trait object.
pub trait Subject: Sized + 'static {
    /// The client's address, which may come from a trusted proxy.
    fn peer(&self) -> &Address;

    /// The address that the client has connected to.
    fn local(&self) -> Address;

    /// The captures of regular expressions, and the values of variables.
    fn captures(&self) -> &Captures;

    /// The values of variables.
    fn values(&self) -> &Values {
        self.captures().values()
    }

    /// The logs, pools and files of the configuration that serves it.
    fn services(&self) -> &Services;

    /// Writes a message about it to its error log. The message is formatted only if its level is written.
    fn log(&self, level: Level, message: fmt::Arguments<'_>);

    /// The end of its messages in the error log: client, server and request.
    fn context(&self) -> String;

    /// Whether its log lines are being written: nothing about it changes any more, so no value has to be kept.
    fn is_logged(&self) -> bool;

    /// Whether a warning is logged when a variable is used before `set` has given it a value.
    fn warns_of_uninitialized(&self) -> bool {
        false
    }

    /// The client's address, if `address` is a trusted proxy: the last address that the proxy has named, or with
    /// `recursive` the last address of no proxy. It is `address` if the protocol cannot name another one.
    fn forwarded(&self, address: IpAddr, is_proxy: impl Fn(IpAddr) -> bool, recursive: bool) -> IpAddr {
        let _ = (is_proxy, recursive);
        address
    }
}

/// A subject whose client may have a TLS session.
pub trait TlsSubject: Subject {
    /// The facts about the client's TLS, as they are now. No session need be established yet.
    fn tls_facts(&self) -> Option<&TlsFacts>;
}
