//! `sticky`: clients stay with the server that they had before.

use freerun_conf::{Cx, Node, Problem, Shape, Value, Word, into_bytes, parse_seconds};
use freerun_http::request::Request;
use freerun_http::request::response::Response;
use freerun_http::template::Template;
use freerun_proto::date::cookie_date;
use freerun_runtime::log::clock;
use freerun_serve::upstream::{StickyValues, Ties, part_of, sticky_variable};
use freerun_upstream::{Millis, Peer};

/// The seconds in `max-age` beside `expires=max`: ten years.
const MAX_AGE: u64 = 315_360_000;

/// The way in which clients are bound to servers.
#[derive(Debug, Clone)]
pub enum Sticky {
    /// A cookie names the server.
    Cookie(Box<StickyCookie>),
    /// Values of requests name the server, as its route or as a session of the application.
    Values(StickyValues<Request>),
}

/// The cookie of `sticky cookie`.
#[derive(Debug, Clone)]
pub struct StickyCookie {
    name: String,
    expires: Option<Expires>,
    domain: Option<Template>,
    path: Option<Template>,
    http_only: bool,
    secure: bool,
    same_site: Option<SameSite>,
}

#[derive(Debug, Clone, Copy)]
enum Expires {
    /// The cookie expires at the end of 2037.
    Max,
    /// The cookie expires after this number of seconds.
    After(i64),
}

#[derive(Debug, Clone)]
enum SameSite {
    Always(&'static str),
    Computed(Template),
}

impl Value for Sticky {
    const SHAPE: Shape = Shape::at_least(2, "cookie name … | route $variable … | learn create=… lookup=… zone=…");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Sticky, Problem> {
        let (kind, rest) = (&directive.args[0], &directive.args[1..]);
        match kind.text.as_str() {
            "cookie" => StickyCookie::parse(directive, rest, cx).map(|cookie| Sticky::Cookie(Box::new(cookie))),
            _ => match StickyValues::parse(directive, cx)? {
                Some(values) => Ok(Sticky::Values(values)),
                None => Err(Problem::invalid_parameter(directive, kind)),
            },
        }
    }
}

impl StickyCookie {
    fn parse(directive: &Node, words: &[Word], cx: &mut Cx) -> Result<StickyCookie, Problem> {
        let [name, rest @ ..] = words else { return Err(Problem::wrong_count(directive)) };
        let mut cookie = StickyCookie {
            name: name.text.clone(),
            expires: None,
            domain: None,
            path: None,
            http_only: false,
            secure: false,
            same_site: None,
        };
        for word in rest {
            let invalid = || Problem::invalid_parameter(directive, word);
            match word.text.split_once('=').unwrap_or((&word.text, "")) {
                ("expires", "max") => cookie.expires = Some(Expires::Max),
                ("expires", value) => {
                    let seconds = parse_seconds(value).and_then(|seconds| i64::try_from(seconds).ok());
                    cookie.expires = Some(Expires::After(seconds.ok_or_else(invalid)?));
                }
                (name @ ("domain" | "path"), "") if word.text.ends_with('=') => {
                    let problem = Problem::directive(directive, &format!("no value for \"{name}\""));
                    return Err(problem.at(word.place));
                }
                ("domain" | "path", "") => return Err(invalid()),
                ("domain", value) => cookie.domain = Some(Template::parse(&part_of(word, value), cx)?),
                ("path", value) => cookie.path = Some(Template::parse(&part_of(word, value), cx)?),
                ("samesite", value) if value.starts_with('$') => {
                    cookie.same_site = Some(SameSite::Computed(sticky_variable(&part_of(word, value), cx)?));
                }
                ("samesite", value) => {
                    cookie.same_site = Some(SameSite::Always(same_site(value.as_bytes()).ok_or_else(invalid)?));
                }
                _ if word.text == "httponly" => cookie.http_only = true,
                _ if word.text == "secure" => cookie.secure = true,
                _ => return Err(invalid()),
            }
        }
        Ok(cookie)
    }

    /// The value of `Set-Cookie` for a client of this server.
    fn text(&self, request: &Request, route: &str) -> Vec<u8> {
        let mut text = into_bytes(format!("{}={route}", self.name));
        let mut attribute = |name: &str, value: &[u8]| {
            text.extend_from_slice(name.as_bytes());
            text.extend_from_slice(value);
        };
        match self.expires {
            None => {}
            Some(Expires::Max) => {
                attribute("; expires=", b"Thu, 31-Dec-37 23:55:55 GMT");
                attribute("; max-age=", MAX_AGE.to_string().as_bytes());
            }
            Some(Expires::After(seconds)) => {
                attribute("; expires=", &cookie_date(clock::now().secs.saturating_add(seconds)));
                attribute("; max-age=", seconds.to_string().as_bytes());
            }
        }
        if let Some(domain) = &self.domain {
            attribute("; domain=", &domain.render(request));
        }
        if self.http_only {
            attribute("; httponly", b"");
        }
        let same_site = match &self.same_site {
            None => None,
            Some(SameSite::Always(site)) => Some(*site),
            Some(SameSite::Computed(value)) => {
                let value = value.render(request);
                // An unknown value is treated as the strictest one.
                (!value.is_empty()).then(|| same_site(&value).unwrap_or("Strict"))
            }
        };
        if let Some(site) = same_site {
            attribute("; samesite=", site.to_ascii_lowercase().as_bytes());
        }
        if self.secure {
            attribute("; secure", b"");
        }
        if let Some(path) = &self.path {
            attribute("; path=", &path.render(request));
        }
        text
    }
}

fn same_site(value: &[u8]) -> Option<&'static str> {
    ["Strict", "Lax", "None"].into_iter().find(|site| site.as_bytes().eq_ignore_ascii_case(value))
}

impl Sticky {
    /// The server that the client of a request is bound to.
    pub(super) fn ties<'r>(&'r self, request: &'r Request, now: Millis) -> Option<Ties<'r>> {
        match self {
            Sticky::Cookie(cookie) => request.head.cookie(&cookie.name).map(|route| Ties::Route(route.into())),
            Sticky::Values(values) => values.ties(request, now),
        }
    }

    /// Handles a server's answer: sends the client a cookie, or learns the session that the server has made, or notes that
    /// the one it knows was used.
    pub(super) fn answered(&self, request: &Request, peer: &Peer, response: &mut Response, now: Millis) {
        match self {
            // A client that has the cookie gets it again, so that its time counts from the last request.
            Sticky::Cookie(cookie) => response.add(&b"Set-Cookie"[..], cookie.text(request, &peer.route)),
            Sticky::Values(values) => values.answered(request, peer, now),
        }
    }
}
