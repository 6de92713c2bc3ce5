//! Responders of OCSP: where they are.

use std::fmt;

use freerun_conf::{Cx, text_of};
use freerun_upstream::UpstreamAddress;
use freerun_upstream::place::{self, ServerPlace};

use crate::listen::hosts::Hosts;

/// The longest URL in bytes: those in certificates are anybody's bytes.
const MAX_URL: usize = 4096;

/// The port of HTTP.
const PORT: u16 = 80;

/// Address of a responder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Responder {
    /// The host without its port, as requests name it.
    pub(super) host: Box<str>,
    /// The host with its port.
    pub(super) place: ServerPlace,
    /// The path that requests begin with; it ends with a slash.
    pub(super) path: Box<str>,
    /// The addresses that were found when the configuration was read.
    pub(super) known: Vec<UpstreamAddress>,
}

/// Reason why a URL is of no use. The text is nginx's, to be followed by the place that the URL comes from.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why} in OCSP responder \"{shown}\"")]
pub(super) struct BadUrl {
    why: &'static str,
    /// The part of the URL that was looked at.
    shown: String,
}

impl Responder {
    /// The responder that a directive names. Its addresses are looked up, if it has a name.
    pub(super) fn of_directive(url: &str, cx: &mut Cx) -> Result<Responder, BadUrl> {
        Responder::parse(url.as_bytes(), true)?.looked_up(url, cx)
    }

    /// The responder that a certificate of the server names. Its addresses are looked up, if it has a name.
    pub(super) fn of_own_certificate(url: &[u8], cx: &mut Cx) -> Result<Responder, BadUrl> {
        Responder::parse(url, false)?.looked_up(&text_of(url), cx)
    }

    /// The responder that a client's certificate names. No address of it is known.
    pub(super) fn of_client_certificate(url: &[u8]) -> Result<Responder, BadUrl> {
        Responder::parse(url, false)
    }

    /// Sockets of this machine are for directives alone: a certificate may not choose one.
    fn parse(url: &[u8], may_be_unix: bool) -> Result<Responder, BadUrl> {
        let bad =
            |why, shown: &[u8]| BadUrl { why, shown: shown[..shown.len().min(MAX_URL)].escape_ascii().to_string() };
        // Whatever else is there could end the request's line, or the log's.
        let text = std::str::from_utf8(url).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()));
        let text = text.filter(|text| text.len() <= MAX_URL);
        let rest = text.filter(|text| text.len() > 7 && text.as_bytes()[..7].eq_ignore_ascii_case(b"http://"));
        let Some(rest) = rest.map(|text| &text[7..]) else { return Err(bad("invalid URL prefix", url)) };
        let is_unix = rest.len() > 5 && rest.as_bytes()[..5].eq_ignore_ascii_case(b"unix:");
        if is_unix && !may_be_unix {
            return Err(bad("invalid host", rest.as_bytes()));
        }
        let end = if is_unix { rest[5..].find(':').map(|colon| 5 + colon) } else { rest.find(['/', '?', '#']) };
        let (host, path) = rest.split_at(end.unwrap_or(rest.len()));
        let path = if is_unix { path.strip_prefix(':').unwrap_or(path) } else { path };
        let place = place::parse(host, Some(PORT)).map_err(|why| bad(why, rest.as_bytes()))?;
        let first = if path.starts_with('/') { "" } else { "/" };
        let last = if path.ends_with('/') || path.is_empty() { "" } else { "/" };
        let known = match &place.place {
            ServerPlace::Address(address) => vec![address.clone()],
            ServerPlace::Name(_) => Vec::new(),
        };
        Ok(Responder {
            host: if is_unix { "localhost".into() } else { place.host },
            place: place.place,
            path: format!("{first}{path}{last}").into(),
            known,
        })
    }

    fn looked_up(mut self, url: &str, cx: &mut Cx) -> Result<Responder, BadUrl> {
        if let ServerPlace::Name(name) = &self.place {
            let found = cx.extensions.get_or_default::<Hosts>().addresses(&name.host);
            if found.is_empty() {
                let shown = url.get(7..).unwrap_or_default().escape_default().to_string();
                return Err(BadUrl { why: "host not found", shown });
            }
            self.known = found.into_iter().map(|ip| std::net::SocketAddr::new(ip, name.port).into()).collect();
        }
        Ok(self)
    }
}

impl fmt::Display for Responder {
    /// Only the host, as nginx names a responder in the log.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<(String, String, String), String> {
        let responder = Responder::parse(url.as_bytes(), true).map_err(|bad| bad.to_string())?;
        Ok((responder.host.to_string(), responder.place.to_string(), responder.path.to_string()))
    }

    #[test]
    fn urls_are_read_as_nginx_reads_them() {
        for (url, host, place, path) in [
            ("http://127.0.0.1:9701/base", "127.0.0.1", "127.0.0.1:9701", "/base/"),
            ("http://127.0.0.1/base/", "127.0.0.1", "127.0.0.1:80", "/base/"),
            ("HTTP://Example.com", "example.com", "example.com:80", "/"),
            ("http://[::1]:81/", "[::1]", "[::1]:81", "/"),
            ("http://localhost/a?q=1", "localhost", "localhost:80", "/a?q=1/"),
            ("http://localhost?q=1", "localhost", "localhost:80", "/?q=1/"),
            ("http://unix:/run/a:/b", "localhost", "unix:/run/a", "/b/"),
            ("http://unix:/run/a", "localhost", "unix:/run/a", "/"),
        ] {
            assert_eq!(parse(url), Ok((host.to_owned(), place.to_owned(), path.to_owned())), "{url}");
        }
    }

    #[test]
    fn urls_that_are_of_no_use_are_refused_in_nginx_words() {
        for (url, message) in [
            ("https://a/x", "invalid URL prefix in OCSP responder \"https://a/x\""),
            ("localhost", "invalid URL prefix in OCSP responder \"localhost\""),
            ("http://", "invalid URL prefix in OCSP responder \"http://\""),
            ("http:///x", "no host in OCSP responder \"/x\""),
            ("http://a:99999/", "invalid port in OCSP responder \"a:99999/\""),
            ("http://a:x/", "invalid port in OCSP responder \"a:x/\""),
            ("http://a/b c", "invalid URL prefix in OCSP responder \"http://a/b c\""),
            ("http://a/\r\nX: y", "invalid URL prefix in OCSP responder \"http://a/\\r\\nX: y\""),
        ] {
            assert_eq!(parse(url), Err(message.to_owned()), "{url:?}");
        }
        let long = format!("http://a/{}", "x".repeat(MAX_URL));
        assert!(parse(&long).is_err_and(|message| message.len() < MAX_URL + 100));
        let local = Responder::of_client_certificate(b"http://unix:/run/secret:/").map_err(|bad| bad.to_string());
        assert_eq!(local, Err("invalid host in OCSP responder \"unix:/run/secret:/\"".to_owned()));
    }

    #[test]
    fn names_are_looked_up_when_a_directive_names_them() {
        let mut cx = Cx::new(freerun_conf::Sources::default());
        cx.extensions.get_or_default::<Hosts>().known.insert("there".to_owned(), vec!["192.0.2.1".parse().unwrap()]);
        let found = Responder::of_directive("http://there:8080/x", &mut cx).unwrap();
        assert_eq!(found.known, ["192.0.2.1:8080".parse::<std::net::SocketAddr>().unwrap().into()]);
        let failed = Responder::of_own_certificate(b"http://nowhere/x", &mut cx).unwrap_err();
        assert_eq!(failed.to_string(), "host not found in OCSP responder \"nowhere/x\"");
        assert!(Responder::of_client_certificate(b"http://there/").is_ok_and(|responder| responder.known.is_empty()));
    }
}
