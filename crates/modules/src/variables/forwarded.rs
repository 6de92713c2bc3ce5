//! The address behind proxies that are trusted (`X-Forwarded-For`), for variables.

use std::net::IpAddr;

use freerun_conf::parse_address;
use freerun_http::request::Request;
use freerun_proto::HeaderId;

/// The address for which a proxy asks, if `address` is one: the last one of `X-Forwarded-For`, or with `recursive` the
/// last one there that is no proxy itself.
pub fn forwarded(request: &Request, mut address: IpAddr, is_proxy: impl Fn(IpAddr) -> bool, recursive: bool) -> IpAddr {
    let texts = request
        .head
        .values(HeaderId::XForwardedFor)
        .rev()
        .flat_map(|text| text.rsplit(|byte| matches!(byte, b',' | b' ')).filter(|text| !text.is_empty()));
    for text in texts {
        if !is_proxy(address) {
            break;
        }
        // Here, unlike in realip, brackets come with a port only.
        let before = std::str::from_utf8(text).ok().filter(|_| !text.ends_with(b"]")).and_then(parse_address);
        let Some(before) = before else { break };
        address = before.ip();
        if !recursive {
            break;
        }
    }
    address
}
