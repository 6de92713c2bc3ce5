//! Who is asked for: a request of HTTP, a session of TCP or UDP.

use std::fmt;
use std::net::IpAddr;

use freerun_runtime::log::Level;

use crate::address::Address;
use crate::captures::{Captures, Values};
use crate::services::Services;

/// What variables, maps, limits, access rules, logs and the choice of an upstream server need to know of whom they are about.
///
/// It is a bound of generic code, never a trait object.
pub trait Subject: Sized + 'static {
    /// The client's address, which may be one that a trusted proxy has told.
    fn peer(&self) -> &Address;

    /// The address that the client has connected to.
    fn local(&self) -> Address;

    /// What expressions have captured, and the values of variables.
    fn captures(&self) -> &Captures;

    /// The values of variables.
    fn values(&self) -> &Values {
        self.captures().values()
    }

    /// Logs, pools and files of the configuration that it is served by.
    fn services(&self) -> &Services;

    /// Writes a message about it to its error log. Nothing is formatted when the level is not written.
    fn log(&self, level: Level, message: fmt::Arguments<'_>);

    /// Whether its log lines are being written: nothing about it changes any more, so no value has to be kept.
    fn is_logged(&self) -> bool;

    /// Whether a variable that is used before `set` has given it a value is worth a warning.
    fn warns_of_uninitialized(&self) -> bool {
        false
    }

    /// The address for which a proxy asks, if `address` is one: the last one that it has told, or with `recursive` the last
    /// one that is no proxy itself. Where a protocol cannot tell, it is `address`.
    fn forwarded(&self, address: IpAddr, is_proxy: impl Fn(IpAddr) -> bool, recursive: bool) -> IpAddr {
        let _ = (is_proxy, recursive);
        address
    }
}
