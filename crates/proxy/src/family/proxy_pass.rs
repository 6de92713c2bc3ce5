//! `proxy_pass`: the target of requests.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use freerun_conf::{Contexts, Cx, Node, Place, Problem, Shape, Value, bytes_of, text_of};
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::location::Within;
use freerun_http::template::Template;
use freerun_http::variables;
use freerun_http::variables::{Reference, VariableTable};
use freerun_proto::Status;
use freerun_serve::tls::upstream::UpstreamTls;

use crate::exchange::target::{PassTarget, Servers, TargetLookup, UpstreamTarget};
use crate::family::uri;
use crate::family::uri::{RequestUri, UriRule};
use crate::upstream;
use crate::upstream::UpstreamRef;

/// The port of `http://` if none is written.
const HTTP_PORT: u16 = 80;
/// The port of an address with `https` without one.
const HTTPS_PORT: u16 = 443;

/// The value of `proxy_pass`.
#[derive(Debug, Clone)]
pub struct ProxyPass {
    /// The destination that it names.
    pub to: PassTo,
    /// The place of the address in the configuration.
    pub place: Place,
    /// The name of the location that it is in: the part of the path that a URI replaces.
    pub location: Arc<str>,
    /// A reference to `$proxy_host`, which the configuration may set to another value: `Host` has that value then.
    host: Reference,
    /// TLS of the location, if the scheme is `https` or not known; set when the location's directives are known.
    pub tls: Arc<OnceLock<Arc<UpstreamTls>>>,
}

/// The destination that a `proxy_pass` names.
#[derive(Debug, Clone)]
pub enum PassTo {
    /// A server or group that is known when the configuration is read.
    Fixed(Arc<FixedUrl>),
    /// A text with variables.
    Computed(Template),
}

/// A URL without variables.
#[derive(Debug)]
pub struct FixedUrl {
    /// The whole URL, for `proxy_redirect default`.
    pub url: String,
    /// The number of bytes of a request's path that are replaced: the length of the location's name.
    pub location_len: usize,
    /// The value of `$proxy_host`.
    pub host: Bytes,
    /// The value of `$proxy_port`.
    pub port: Bytes,
    /// The part after host and port.
    pub uri: Option<Bytes>,
    /// Whether the scheme is `https`.
    pub secure: bool,
    /// The group of servers.
    pub group: UpstreamRef,
    /// The target of requests, which the first request makes.
    pub upstream: OnceLock<Arc<UpstreamTarget>>,
}

/// A parsed URL.
#[derive(Debug, PartialEq, Eq)]
pub struct Url<'u> {
    /// Whether the scheme is `https`.
    pub secure: bool,
    /// The host and port, or `unix:/path`.
    pub authority: &'u str,
    /// The rest, from the `/` or `?` on.
    pub uri: Option<&'u str>,
}

impl<'u> Url<'u> {
    /// Parses a URL; `None` if it does not begin with `http://` or `https://`.
    pub fn parse(text: &'u str) -> Option<Url<'u>> {
        let after = |scheme: &str| {
            text.get(..scheme.len()).filter(|start| start.eq_ignore_ascii_case(scheme)).map(|_| &text[scheme.len()..])
        };
        let (secure, rest) = match after("http://") {
            Some(rest) => (false, rest),
            None => (true, after("https://")?),
        };
        if rest.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("unix:")) {
            let (path, uri) = match rest[5..].split_once(':') {
                Some((path, uri)) => (&rest[..5 + path.len()], Some(uri).filter(|uri| !uri.is_empty())),
                None => (rest, None),
            };
            return Some(Url { secure, authority: path, uri });
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        Some(Url { secure, authority: &rest[..end], uri: Some(&rest[end..]).filter(|uri| !uri.is_empty()) })
    }

    /// The values of `$proxy_host` and `$proxy_port`: the port is left out of the first if it is the default of the
    /// scheme.
    pub fn host_and_port(&self) -> (Bytes, Bytes) {
        let copy = |text: &str| Bytes::from(bytes_of(text).into_owned());
        let own_port = if self.secure { "443" } else { "80" };
        if self.authority.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("unix:")) {
            return (Bytes::from_static(b"localhost"), Bytes::new());
        }
        let after_brackets = self.authority.rfind(']').unwrap_or(0);
        match self.authority[after_brackets..].rfind(':').map(|at| after_brackets + at) {
            Some(colon) if &self.authority[colon + 1..] == own_port => (copy(&self.authority[..colon]), copy(own_port)),
            Some(colon) => (copy(self.authority), copy(&self.authority[colon + 1..])),
            None => (copy(self.authority), copy(own_port)),
        }
    }
}

/// Records that the location being read passes requests on: a path without the slash at the end of its name is
/// redirected to the one with it. Whether the directive may have a URI in such a location is checked by the caller.
pub fn passes_on(with_variables: bool, cx: &mut Cx) {
    let in_location = cx.context == Contexts::LOCATION;
    let within = cx.extensions.get_or_default::<Within>();
    if in_location {
        within.passes_on = true;
        within.with_variables = with_variables;
    }
}

impl Value for ProxyPass {
    const SHAPE: Shape = Shape::exactly(1, "URL");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<ProxyPass, Problem> {
        let word = &directive.args[0];
        let within = cx.extensions.get_or_default::<Within>().clone();
        let location: Arc<str> = within.location.as_deref().unwrap_or_default().into();
        let host_variable = cx.extensions.get_or_default::<VariableTable>().resolve("proxy_host", word.place);
        if word.text.contains('$') {
            let to = PassTo::Computed(Template::parse(word, cx)?);
            passes_on(true, cx);
            return Ok(ProxyPass { to, place: word.place, location, host: host_variable, tls: Arc::default() });
        }
        let Some(url) = Url::parse(&word.text) else {
            let help = "an address begins with \"http://\" or \"https://\"";
            return Err(Problem::new("invalid URL prefix").at(word.place).hint(help));
        };
        let secure = url.secure;
        let group = upstream::refer(url.authority, Some(default_port(secure)), directive, word, cx).map_err(
            |mut problem| {
                // nginx names everything after the scheme.
                let short = format!("in upstream \"{}\"", url.authority);
                if let Some(what) = problem.message.strip_suffix(&short) {
                    problem.message = format!("{what}in upstream \"{}\"", &word.text[scheme(secure).len()..]);
                }
                problem
            },
        )?;
        let plain = cx.context == Contexts::LOCATION && !within.regex && !within.named;
        if url.uri.is_some() && !plain {
            let message = "\"proxy_pass\" cannot have URI part in location given by regular expression, or inside named \
                           location, or inside \"if\" statement, or inside \"limit_except\" block";
            return Err(Problem::new(message).at(word.place));
        }
        let (host, port) = url.host_and_port();
        let uri = url.uri.map(|uri| Bytes::from(bytes_of(uri).into_owned()));
        passes_on(false, cx);
        let to = PassTo::Fixed(Arc::new(FixedUrl {
            url: word.text.clone(),
            location_len: bytes_of(&location).len(),
            secure,
            host,
            port,
            uri,
            group,
            upstream: OnceLock::new(),
        }));
        Ok(ProxyPass { to, place: word.place, location, host: host_variable, tls: Arc::default() })
    }
}

impl ProxyPass {
    /// Whether requests may be passed on by TLS.
    pub fn may_be_secure(&self) -> bool {
        match &self.to {
            PassTo::Fixed(fixed) => fixed.secure,
            PassTo::Computed(_) => true,
        }
    }

    /// The target of a request.
    pub fn resolve_target<'r>(&'r self, request: &'r Request) -> TargetLookup<'r> {
        match &self.to {
            PassTo::Fixed(fixed) => {
                let rule = match &fixed.uri {
                    Some(uri) => UriRule::Replace(fixed.location_len, uri),
                    None => UriRule::AsAsked,
                };
                let Some(group) = fixed.group.get() else {
                    return TargetLookup::Now(Err(Outcome::Status(Status::INTERNAL_SERVER_ERROR)));
                };
                let upstream = fixed.upstream.get_or_init(|| {
                    let (host, port) = (fixed.host.clone(), fixed.port.clone());
                    Arc::new(target(fixed.secure, host, port, group.clone()))
                });
                TargetLookup::Now(Ok(PassTarget::new(upstream.clone(), uri::kept(rule, RequestUri::of(request)))))
            }
            PassTo::Computed(template) => TargetLookup::Later(Box::pin(look_up(template, request))),
        }
    }

    /// Appends the URL that is asked for, without looking a name up: scheme, host and URI.
    ///
    /// # Errors
    /// Variables give a text that is not a URL; it is logged, and answered with 500.
    pub fn describe(&self, request: &Request, out: &mut Vec<u8>) -> Result<(), Outcome> {
        match &self.to {
            PassTo::Fixed(fixed) => {
                out.extend_from_slice(scheme(fixed.secure).as_bytes());
                let rule = match &fixed.uri {
                    Some(uri) => UriRule::Replace(fixed.location_len, uri),
                    None => UriRule::AsAsked,
                };
                out.extend_from_slice(&fixed.host);
                uri::append(rule, RequestUri::of(request), out);
            }
            PassTo::Computed(template) => {
                let text = template.render(request);
                let text = text_of(&text);
                let Some(url) = Url::parse(&text) else {
                    log_error!(request, Error, "invalid URL prefix in \"{text}\"");
                    return Err(Outcome::Status(Status::INTERNAL_SERVER_ERROR));
                };
                let uri = url.uri.map(bytes_of);
                let rule = uri.as_deref().map_or(UriRule::AsAsked, UriRule::Exactly);
                out.extend_from_slice(scheme(url.secure).as_bytes());
                out.extend_from_slice(&url.host_and_port().0);
                uri::append(rule, RequestUri::of(request), out);
            }
        }
        Ok(())
    }

    /// The values of `$proxy_host` and `$proxy_port`, if they are known when the configuration is read.
    pub(super) fn fixed_host(&self) -> Option<(&Bytes, &Bytes)> {
        match &self.to {
            PassTo::Fixed(fixed) => Some((&fixed.host, &fixed.port)),
            PassTo::Computed(_) => None,
        }
    }

    /// The value of `$proxy_host` that the configuration sets, if it does.
    pub fn assigned_host<'r>(&'r self, request: &'r Request) -> Option<variables::VariableValue<'r>> {
        self.host.is_assigned().then(|| self.host.get(request))
    }

    /// The text that `proxy_redirect default` replaces, and its replacement. `None` if there are variables.
    pub fn default_redirect(&self) -> Option<(Cow<'_, str>, &str)> {
        match &self.to {
            PassTo::Computed(_) => None,
            PassTo::Fixed(fixed) if fixed.uri.is_some() => Some((Cow::Borrowed(&fixed.url), &self.location)),
            PassTo::Fixed(fixed) => Some((Cow::Owned(format!("{}/", fixed.url)), "/")),
        }
    }
}

/// The scheme of addresses, with TLS or without.
fn scheme(secure: bool) -> &'static str {
    if secure { "https://" } else { "http://" }
}

/// The port of addresses that have none.
fn default_port(secure: bool) -> u16 {
    if secure { HTTPS_PORT } else { HTTP_PORT }
}

/// The target of requests with this scheme.
fn target(is_secure: bool, host: Bytes, port: Bytes, servers: Arc<dyn Servers>) -> UpstreamTarget {
    UpstreamTarget { scheme: scheme(is_secure), is_secure, host, port, servers: Some(servers) }
}

/// Looks up the target that variables give.
async fn look_up(template: &Template, request: &Request) -> Result<PassTarget, Outcome> {
    let text = template.render(request);
    let text = text_of(&text);
    let Some(url) = Url::parse(&text) else {
        log_error!(request, Error, "invalid URL prefix in \"{text}\"");
        return Err(Outcome::Status(Status::INTERNAL_SERVER_ERROR));
    };
    let group = upstream::find(request, url.authority, Some(default_port(url.secure))).await.map_err(|why| {
        log_error!(request, Error, "{why}");
        Outcome::Status(why.status())
    })?;
    let (host, port) = url.host_and_port();
    let uri = url.uri.map(bytes_of);
    let rule = uri.as_deref().map_or(UriRule::AsAsked, UriRule::Exactly);
    let uri = uri::kept(rule, RequestUri::of(request));
    Ok(PassTarget::new(Arc::new(target(url.secure, host, port, group)), uri))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (text, secure, authority, uri, host, port) in [
            ("http://127.0.0.1:80/", false, "127.0.0.1:80", Some("/"), "127.0.0.1", "80"),
            ("http://127.0.0.1", false, "127.0.0.1", None, "127.0.0.1", "80"),
            ("HTTP://Back:8080?x", false, "Back:8080", Some("?x"), "Back:8080", "8080"),
            ("http://[::1]", false, "[::1]", None, "[::1]", "80"),
            ("http://[::1]:80/a/b", false, "[::1]:80", Some("/a/b"), "[::1]", "80"),
            ("http://[::1]:81", false, "[::1]:81", None, "[::1]:81", "81"),
            ("http://unix:/run/x.sock", false, "unix:/run/x.sock", None, "localhost", ""),
            ("http://unix:/run/x:/uri/", false, "unix:/run/x", Some("/uri/"), "localhost", ""),
            ("http://unix:/run/x:", false, "unix:/run/x", None, "localhost", ""),
            ("https://a:443", true, "a:443", None, "a", "443"),
            ("https://a:80/x", true, "a:80", Some("/x"), "a:80", "80"),
            ("http://", false, "", None, "", "80"),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!((url.secure, url.authority, url.uri), (secure, authority, uri), "{text}");
            assert_eq!(url.host_and_port(), (host.into(), port.into()), "{text}");
        }
        for text in ["", "127.0.0.1", "ftp://x", "http:/x", "unix:/x", "htt\u{e4}p://"] {
            assert_eq!(Url::parse(text), None, "{text}");
        }
    }
}
