//! `sticky route` and `sticky learn`: clients stay with the server that values of their requests or sessions name, or that
//! was learned for such a value.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{Cx, Node, Problem, Word, parse_time};
use freerun_upstream::sessions::BoundSessions;
use freerun_upstream::{ClientBinding, Millis, Peer};

use crate::configuration::zones::{Zone, ZoneName, ZoneTable};
use crate::values::Template;
use crate::values::subject::Subject;

/// The kind of the zone that sessions are kept in.
const KIND: &str = "sticky";

/// Time for which a session without requests is remembered.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The way in which values bind a client to a server.
pub enum StickyValues<S> {
    /// The first of these values that is not empty is the server's route.
    Route(Arc<[Template<S>]>),
    /// The server was learned for the first of some values that is not empty.
    Learn(Arc<Learn<S>>),
}

// Not derived, because that would demand the trait of the subject.
impl<S> Clone for StickyValues<S> {
    fn clone(&self) -> StickyValues<S> {
        match self {
            StickyValues::Route(routes) => StickyValues::Route(routes.clone()),
            StickyValues::Learn(learn) => StickyValues::Learn(learn.clone()),
        }
    }
}

impl<S> fmt::Debug for StickyValues<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StickyValues::Route(routes) => formatter.debug_tuple("Route").field(routes).finish(),
            StickyValues::Learn(learn) => formatter.debug_tuple("Learn").field(&learn.lookup).finish(),
        }
    }
}

/// The settings of `sticky learn`.
pub struct Learn<S> {
    create: Vec<Template<S>>,
    lookup: Vec<Template<S>>,
    zone: Zone<Arc<BoundSessions>>,
    timeout: Duration,
}

/// Parses a word that is a variable.
///
/// # Errors
/// It is none, in nginx's words.
pub fn sticky_variable<S: Subject>(word: &Word, cx: &mut Cx) -> Result<Template<S>, Problem> {
    if !word.text.starts_with('$') {
        return Err(Problem::new(format!("invalid variable name \"{}\"", word.text)).at(word.place));
    }
    Template::parse(word, cx)
}

/// A word with another text at the same place.
pub fn part_of(word: &Word, text: &str) -> Word {
    let mut part = word.clone();
    part.text = text.to_owned();
    part
}

impl<S: Subject> StickyValues<S> {
    /// Parses a directive `sticky route …` or `sticky learn …`; `None` if it begins with another word.
    ///
    /// # Errors
    /// What is wrong with its words.
    pub fn parse(directive: &Node, cx: &mut Cx) -> Result<Option<StickyValues<S>>, Problem> {
        let (kind, rest) = (&directive.args[0], &directive.args[1..]);
        match kind.text.as_str() {
            "route" => {
                let routes: Result<Vec<_>, Problem> = rest.iter().map(|word| sticky_variable(word, cx)).collect();
                Ok(Some(StickyValues::Route(routes?.into())))
            }
            "learn" => Learn::parse(directive, rest, cx).map(|learn| Some(StickyValues::Learn(Arc::new(learn)))),
            _ => Ok(None),
        }
    }

    /// The server that the client is bound to.
    pub fn ties<'s>(&'s self, subject: &'s S, now: Millis) -> Option<Ties<'s>> {
        match self {
            StickyValues::Route(routes) => first(routes, subject).map(Ties::Route),
            StickyValues::Learn(learn) => {
                let session = first(&learn.lookup, subject)?;
                learn.zone.get()?.find(&session, now, learn.timeout).map(Ties::Id)
            }
        }
    }

    /// Learns the session that the server has made, or notes that the known one was used.
    pub fn answered(&self, subject: &S, peer: &Peer, now: Millis) {
        let StickyValues::Learn(learn) = self else { return };
        let Some(sessions) = learn.zone.get() else { return };
        // A server that makes another session has given up the session that the client has shown.
        match (first(&learn.create, subject), first(&learn.lookup, subject)) {
            (Some(made), _) => sessions.learn(&made, peer.id, now),
            (None, Some(shown)) => sessions.prolong(&shown, peer.id, now),
            (None, None) => {}
        }
    }
}

impl<S: Subject> Learn<S> {
    fn parse(directive: &Node, words: &[Word], cx: &mut Cx) -> Result<Learn<S>, Problem> {
        let (mut create, mut lookup, mut timeout, mut zone) = (Vec::new(), Vec::new(), TIMEOUT, None);
        for word in words {
            let invalid = || Problem::invalid_parameter(directive, word);
            match word.text.split_once('=').unwrap_or((&word.text, "")) {
                ("create", value) => create.push(sticky_variable(&part_of(word, value), cx)?),
                ("lookup", value) => lookup.push(sticky_variable(&part_of(word, value), cx)?),
                ("timeout", value) => timeout = parse_time(value).ok_or_else(invalid)?,
                ("zone", value) => zone = Some(ZoneName::parse(directive, word, value)?),
                _ if word.text == "header" => {}
                _ => return Err(invalid()),
            }
        }
        let missing =
            |name| Problem::directive(directive, &format!("must have \"{name}\" parameter")).at_node(directive);
        let named = zone.ok_or_else(|| ZoneName::missing(directive))?;
        if create.is_empty() {
            return Err(missing("create"));
        }
        if lookup.is_empty() {
            return Err(missing("lookup"));
        }
        let zones = cx.extensions.get_or_default::<ZoneTable>();
        zones.declare(directive, KIND, &named, "", || Some(BoundSessions::new(named.size)), |sessions| sessions)?;
        let zone = zones.refer(&named.name, KIND, named.place)?;
        Ok(Learn { create, lookup, zone, timeout })
    }
}

/// The first value that is not empty.
fn first<'s, S: Subject>(templates: &'s [Template<S>], subject: &'s S) -> Option<Cow<'s, [u8]>> {
    templates.iter().map(|template| template.render(subject)).find(|value| !value.is_empty())
}

/// The way in which a client names the server that it is bound to.
#[derive(Debug, Clone)]
pub enum Ties<'s> {
    /// By the server's route.
    Route(Cow<'s, [u8]>),
    /// By the server's number.
    Id(u32),
}

impl Ties<'_> {
    /// For the choice.
    pub fn bound(&self) -> ClientBinding<'_> {
        match self {
            Ties::Route(route) => ClientBinding::Route(route),
            Ties::Id(id) => ClientBinding::Id(*id),
        }
    }
}
