//! The request or session that `--request` names.

use std::net::IpAddr;

/// The subject of an explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExplainedSubject {
    /// A request of HTTP.
    Http(AskedRequest),
    /// A session of stream.
    Stream(AskedSession),
}

/// A request of HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedRequest {
    /// The method.
    pub method: String,
    /// Whether the scheme is https.
    pub is_secure: bool,
    /// Host and port as they stand in the URL; empty if it is a path alone.
    pub authority: String,
    /// The host alone.
    pub host: String,
    /// The port that the client connects to; none if the URL is a path alone.
    pub port: Option<u16>,
    /// The path with its arguments.
    pub target: String,
}

/// A session of stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedSession {
    /// Whether it consists of datagrams.
    pub is_udp: bool,
    /// Whether the client begins a TLS handshake.
    pub is_tls: bool,
    /// The address, or the name in the handshake.
    pub host: String,
    /// The port that the client connects to.
    pub port: u16,
}

/// The form that is expected.
const FORM: &str = "write a request as 'GET https://www.example.com/a?b', or a session as 'tcp ADDRESS:PORT', 'udp ADDRESS:PORT' or \
                    'tls NAME:PORT'";

/// Reads the value of `--request`.
///
/// # Errors
/// A sentence with the expected form.
pub fn parse(text: &str) -> Result<ExplainedSubject, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        [protocol @ ("tcp" | "udp" | "tls"), address] => session(protocol, address).map(ExplainedSubject::Stream),
        [url] => http("GET", url).map(ExplainedSubject::Http),
        [method, url] | [method, url, "HTTP/1.0" | "HTTP/1.1"] => http(method, url).map(ExplainedSubject::Http),
        _ => Err(FORM.to_owned()),
    }
}

fn session(protocol: &str, address: &str) -> Result<AskedSession, String> {
    let (host, port) = host_and_port(address).ok_or_else(|| format!("\"{address}\" is no address: {FORM}"))?;
    let port = port.ok_or_else(|| format!("\"{address}\" has no port: {FORM}"))?;
    Ok(AskedSession { is_udp: protocol == "udp", is_tls: protocol == "tls", host, port })
}

fn http(method: &str, url: &str) -> Result<AskedRequest, String> {
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_method {
        return Err(format!("\"{method}\" is no method: {FORM}"));
    }
    let method = method.to_owned();
    let lower = url.to_ascii_lowercase();
    let (is_secure, rest) = if lower.starts_with("https://") {
        (true, &url["https://".len()..])
    } else if lower.starts_with("http://") {
        (false, &url["http://".len()..])
    } else if url.starts_with('/') {
        let (authority, host) = Default::default();
        return Ok(AskedRequest { method, is_secure: false, authority, host, port: None, target: url.to_owned() });
    } else {
        return Err(format!("\"{url}\" is no URL: {FORM}"));
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(end);
    // A client sends no fragment.
    let target = target.split('#').next().unwrap_or_default();
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    let (host, port) = host_and_port(authority).ok_or_else(|| format!("\"{url}\" is no URL: {FORM}"))?;
    let port = Some(port.unwrap_or(if is_secure { 443 } else { 80 }));
    Ok(AskedRequest { method, is_secure, authority: authority.to_owned(), host, port, target })
}

/// The text in front of the last colon, and the one behind it, which is a port if the text is an address. The colons of an
/// IPv6 address stand in brackets and do not count.
pub fn split_port(text: &str) -> (&str, Option<&str>) {
    let end = text.rfind(']').map_or(0, |bracket| bracket + 1);
    match text[end..].rfind(':') {
        Some(colon) => (&text[..end + colon], Some(&text[end + colon + 1..])),
        None => (text, None),
    }
}

/// Host and port; an IPv6 address stands in brackets. `None` if the text is neither.
pub fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = split_port(text);
    let port = match port {
        Some(port) => Some(port.parse().ok()?),
        None => None,
    };
    (!host.is_empty() && !host.contains(['@', ' '])).then(|| (host.to_owned(), port))
}

/// The IP address that a host is, if it is one.
pub fn address_of(host: &str) -> Option<IpAddr> {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_are_written() {
        let of = |text: &str| match parse(text) {
            Ok(ExplainedSubject::Http(request)) => (request.method, request.host, request.port, request.target),
            other => panic!("{text}: {other:?}"),
        };
        for (text, method, host, port, target) in [
            ("GET https://shop.example.com/a.php?x=1", "GET", "shop.example.com", Some(443), "/a.php?x=1"),
            ("http://a:8080?x", "GET", "a", Some(8080), "/?x"),
            ("POST HTTP://[::1]:81/a#b HTTP/1.1", "POST", "[::1]", Some(81), "/a"),
            ("/a", "GET", "", None, "/a"),
        ] {
            assert_eq!(of(text), (method.into(), host.into(), port, target.into()), "{text}");
        }
        for text in ["", "GET", "GET a.example/", "G@T http://a/", "http://", "http://a:x/", "tcp 127.0.0.1", "a b c d"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sessions_have_an_address_or_a_name() {
        let of = |text: &str| match parse(text) {
            Ok(ExplainedSubject::Stream(session)) => (session.is_udp, session.is_tls, session.host, session.port),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(of("tcp 127.0.0.1:3306"), (false, false, "127.0.0.1".into(), 3306));
        assert_eq!(of("udp [::1]:53"), (true, false, "[::1]".into(), 53));
        assert_eq!(of("tls db.example.com:5432"), (false, true, "db.example.com".into(), 5432));
        assert_eq!(address_of("[::1]"), "::1".parse().ok());
        assert_eq!(address_of("a.example"), None);
    }
}
