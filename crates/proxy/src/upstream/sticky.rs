//! `sticky`: clients stay with the server that they had before.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{Cx, Node, Problem, Shape, Value, Word, parse_seconds, parse_time};
use freerun_http::request::Request;
use freerun_http::request::response::Response;
use freerun_http::template::Template;
use freerun_runtime::log::clock;
use freerun_serve::zones::{Named, Zone, ZoneTable};
use freerun_upstream::Bound;
use freerun_upstream::sessions::Sessions;
use freerun_upstream::{Millis, Peer};

use freerun_proto::date::cookie_date;

/// The kind of the zone that sessions are kept in.
const KIND: &str = "sticky";

/// The seconds in `max-age` beside `expires=max`: ten years.
const MAX_AGE: u64 = 315_360_000;

/// How long a session without requests is remembered.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The way in which clients are bound to servers.
#[derive(Debug, Clone)]
pub enum Sticky {
    /// A cookie names the server.
    Cookie(Box<Cookie>),
    /// The first of these values that is not empty is the server's route.
    Route(Arc<[Template]>),
    /// The application's sessions name the server.
    Learn(Arc<Learn>),
}

/// The cookie of `sticky cookie`.
#[derive(Debug, Clone)]
pub struct Cookie {
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
    /// The cookie expires after so many seconds.
    After(i64),
}

#[derive(Debug, Clone)]
enum SameSite {
    Always(&'static str),
    Computed(Template),
}

/// The settings of `sticky learn`.
#[derive(Debug)]
pub struct Learn {
    create: Vec<Template>,
    lookup: Vec<Template>,
    zone: Zone<Arc<Sessions>>,
    timeout: Duration,
}

impl Value for Sticky {
    const SHAPE: Shape = Shape::at_least(2, "cookie name … | route $variable … | learn create=… lookup=… zone=…");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Sticky, Problem> {
        let (kind, rest) = (&directive.args[0], &directive.args[1..]);
        match kind.text.as_str() {
            "cookie" => Cookie::parse(directive, rest, cx).map(|cookie| Sticky::Cookie(Box::new(cookie))),
            "route" => {
                let routes: Result<Vec<Template>, Problem> = rest.iter().map(|word| variable(word, cx)).collect();
                Ok(Sticky::Route(routes?.into()))
            }
            "learn" => Learn::parse(directive, rest, cx).map(|learn| Sticky::Learn(Arc::new(learn))),
            _ => Err(Problem::invalid_parameter(directive, kind)),
        }
    }
}

/// Parses a word that is a variable.
fn variable(word: &Word, cx: &mut Cx) -> Result<Template, Problem> {
    if !word.text.starts_with('$') {
        return Err(Problem::new(format!("invalid variable name \"{}\"", word.text)).at(word.place));
    }
    Template::parse(word, cx)
}

/// A word with another text at the same place.
fn part(word: &Word, text: &str) -> Word {
    let mut part = word.clone();
    part.text = text.to_owned();
    part
}

impl Cookie {
    fn parse(directive: &Node, words: &[Word], cx: &mut Cx) -> Result<Cookie, Problem> {
        let [name, rest @ ..] = words else { return Err(Problem::wrong_count(directive)) };
        let mut cookie = Cookie {
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
                ("domain", value) => cookie.domain = Some(Template::parse(&part(word, value), cx)?),
                ("path", value) => cookie.path = Some(Template::parse(&part(word, value), cx)?),
                ("samesite", value) if value.starts_with('$') => {
                    cookie.same_site = Some(SameSite::Computed(variable(&part(word, value), cx)?));
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
        let mut text = format!("{}={route}", self.name).into_bytes();
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

impl Learn {
    fn parse(directive: &Node, words: &[Word], cx: &mut Cx) -> Result<Learn, Problem> {
        let (mut create, mut lookup, mut timeout, mut zone) = (Vec::new(), Vec::new(), TIMEOUT, None);
        for word in words {
            let invalid = || Problem::invalid_parameter(directive, word);
            match word.text.split_once('=').unwrap_or((&word.text, "")) {
                ("create", value) => create.push(variable(&part(word, value), cx)?),
                ("lookup", value) => lookup.push(variable(&part(word, value), cx)?),
                ("timeout", value) => timeout = parse_time(value).ok_or_else(invalid)?,
                ("zone", value) => zone = Some(Named::parse(directive, word, value)?),
                _ if word.text == "header" => {}
                _ => return Err(invalid()),
            }
        }
        let missing =
            |name| Problem::directive(directive, &format!("must have \"{name}\" parameter")).at_node(directive);
        let named = zone.ok_or_else(|| Named::missing(directive))?;
        if create.is_empty() {
            return Err(missing("create"));
        }
        if lookup.is_empty() {
            return Err(missing("lookup"));
        }
        let zones = cx.extensions.get_or_default::<ZoneTable>();
        zones.declare(directive, KIND, &named, "", || Some(Sessions::new(named.size)), |sessions| sessions)?;
        let zone = zones.refer(&named.name, KIND, named.place)?;
        Ok(Learn { create, lookup, zone, timeout })
    }
}

/// The first value that is not empty.
fn first<'r>(templates: &'r [Template], request: &'r Request) -> Option<Cow<'r, [u8]>> {
    templates.iter().map(|template| template.render(request)).find(|value| !value.is_empty())
}

/// The way in which a client names the server that it is bound to.
#[derive(Debug, Clone)]
pub(super) enum Ties<'r> {
    Route(Cow<'r, [u8]>),
    Id(u32),
}

impl Ties<'_> {
    pub(super) fn bound(&self) -> Bound<'_> {
        match self {
            Ties::Route(route) => Bound::Route(route),
            Ties::Id(id) => Bound::Id(*id),
        }
    }
}

impl Sticky {
    /// The server that the client of a request is bound to.
    pub(super) fn ties<'r>(&'r self, request: &'r Request, now: Millis) -> Option<Ties<'r>> {
        match self {
            Sticky::Cookie(cookie) => request.head.cookie(&cookie.name).map(|route| Ties::Route(route.into())),
            Sticky::Route(routes) => first(routes, request).map(Ties::Route),
            Sticky::Learn(learn) => {
                let session = first(&learn.lookup, request)?;
                learn.zone.get()?.find(&session, now, learn.timeout).map(Ties::Id)
            }
        }
    }

    /// Handles a server's answer: sends the client a cookie, or learns the session that the server has made, or notes that
    /// the one it knows was used.
    pub(super) fn answered(&self, request: &Request, peer: &Peer, response: &mut Response, now: Millis) {
        match self {
            // A client that has the cookie gets it again, so that its time counts from the last request.
            Sticky::Cookie(cookie) => response.add(&b"Set-Cookie"[..], cookie.text(request, &peer.route)),
            Sticky::Route(_) => {}
            Sticky::Learn(learn) => {
                let Some(sessions) = learn.zone.get() else { return };
                // A server that makes another session has given up the one that the client has shown.
                match (first(&learn.create, request), first(&learn.lookup, request)) {
                    (Some(made), _) => sessions.learn(&made, peer.id, now),
                    (None, Some(shown)) => sessions.prolong(&shown, peer.id, now),
                    (None, None) => {}
                }
            }
        }
    }
}
