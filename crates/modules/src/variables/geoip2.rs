//! `geoip2`: variables from a MaxMind database, looked up by the client's address. Directives and variables are the
//! same as in the third-party module for nginx with this name.

use std::net::IpAddr;

use freerun_conf::{Cidr, Cx, Many, Node, Problem, Shape, Value, group, settings};
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_serve::Subject as _;
use freerun_serve::values::lookups::{ClientAddress, Databases};

settings! {
    /// Variables from MaxMind databases (`.mmdb`), as in the third-party module geoip2.
    #[module = "geoip2"]
    pub struct GeoIp2Settings {
        /// A database, and the variables with values from it: `$name [default=value] [source=$address] path …;`. The
        /// path leads to a value in the record of the client's address, or of the address in another variable.
        ///
        /// `$name metadata build_epoch | last_check | last_change;` gives a time, in seconds since 1970. `auto_reload
        /// time;` checks at that interval whether the file has changed. The path of the file is relative to the folder
        /// of the configuration.
        ///
        /// The database is in memory, at most 1 GB, and stays there over a reload if its file has not changed. It is
        /// read before the worker gives up its privileges; afterwards, for a reload and `auto_reload`, its user has to
        /// be able to read it. While the file is read again, the old database is used.
        geoip2: Databases<Request, BehindProxies>, in HTTP,
            fidelity = Differs("the file is read into memory and not mapped; `auto_reload` needs a valid time, `metadata` one of the three names; numbers over 64 bits are 32 hexadecimal digits");
        /// A network of trusted proxies: for a client in one of them the last address in `X-Forwarded-For` counts.
        geoip2_proxy: Many<Proxy>, in HTTP;
        /// Whether addresses of trusted proxies in `X-Forwarded-For` are skipped, too: the last address that is not
        /// trusted counts.
        geoip2_proxy_recursive: bool = "off", in HTTP;
    }
}

/// The module `geoip2`.
pub static MODULE: Module = Module { name: "geoip2", groups: &[group::<GeoIp2Settings>()], ..Module::EMPTY };

/// A network of proxies.
#[derive(Debug, Clone, Copy)]
pub struct Proxy(Cidr);

impl Value for Proxy {
    const SHAPE: Shape = Shape::exactly(1, "address | CIDR");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Proxy, Problem> {
        let word = &directive.args[0];
        let invalid = || Problem::new(format!("invalid network \"{}\"", word.text)).at_node(directive).at(word.place);
        Cidr::of_word(directive, word, cx).map(Proxy).ok_or_else(invalid)
    }
}

/// Looks up addresses that trusted proxies (`geoip2_proxy`) have sent.
#[derive(Debug, Clone, Copy)]
pub struct BehindProxies;

impl ClientAddress<Request> for BehindProxies {
    fn of(request: &Request, peer: IpAddr) -> IpAddr {
        let settings = request.settings().get::<GeoIp2Settings>();
        if settings.geoip2_proxy.is_empty() {
            return peer;
        }
        let is_proxy = |address| settings.geoip2_proxy.iter().any(|proxy| proxy.0.contains(address));
        request.forwarded(peer, is_proxy, settings.geoip2_proxy_recursive)
    }
}
