//! Origin of a change: a browser sends any request that a page asks for, with the credentials of its user, whatever
//! server the page comes from. The user knows nothing of it.

use std::net::{Ipv4Addr, Ipv6Addr};

use freerun_http::request::Request;
use freerun_http::settings::server::ServerSettings;

/// The name of the machine itself (RFC 6761 section 6.3), which no name server answers for.
const LOCALHOST: &str = "localhost";

/// Whether the request was made by a page of another server. A browser says where the page is from (the field `Origin` of the
/// Fetch standard); other programs say nothing.
///
/// A page whose name its owner lets stand for an address of this machine (DNS rebinding) counts as a page of another
/// server, though `Origin` and `Host` agree. This server does not have that name.
pub fn is_of_other_origin(request: &Request) -> bool {
    let values = |name: &'static [u8]| request.head.values_named(name);
    if values(b"sec-fetch-site").any(|site| !matches!(site, b"same-origin" | b"none")) {
        return true;
    }
    let host = values(b"host").next().unwrap_or_default();
    let is_own = |origin: &[u8]| {
        let behind = [&b"http://"[..], b"https://"].into_iter().find_map(|scheme| origin.strip_prefix(scheme));
        behind.is_some_and(|origin| origin.eq_ignore_ascii_case(host))
    };
    if values(b"origin").any(|origin| !is_own(origin)) {
        return true;
    }
    let is_of_page = values(b"origin").next().is_some() || values(b"sec-fetch-site").any(|site| site != b"none");
    is_of_page && !request.asked.host.as_deref().is_some_and(|host| is_name_of(request, host))
}

/// Whether only the owner of this machine decides what a name stands for, or `server_name` has it. Regular expressions
/// there count for nothing, because an expression that matches every name is common.
fn is_name_of(request: &Request, host: &str) -> bool {
    is_address(host)
        || host == LOCALHOST
        || host.strip_suffix(LOCALHOST).is_some_and(|rest| rest.ends_with('.'))
        || request
            .place
            .server
            .entry
            .settings
            .get::<ServerSettings>()
            .server_name
            .names
            .iter()
            .any(|name| name.is_text_of(host))
}

/// Whether a host is an IP address, as it is written in a URL.
fn is_address(host: &str) -> bool {
    let inside = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    host.parse::<Ipv4Addr>().is_ok() || inside.is_some_and(|inside| inside.parse::<Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_in_urls() {
        for host in ["127.0.0.1", "[::1]", "[2001:db8::1]"] {
            assert!(is_address(host), "{host}");
        }
        for host in ["::1", "[127.0.0.1]", "127.0.0.1.example", "1", "[::1", "localhost"] {
            assert!(!is_address(host), "{host}");
        }
    }
}
