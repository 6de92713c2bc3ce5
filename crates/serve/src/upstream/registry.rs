//! The groups of a configuration, and the references to them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use freerun_conf::{Cx, Node, Place as At, Problem, Word};
use freerun_proto::Status;
use freerun_upstream::place::{self, PlaceText, ServerPlace};
use freerun_upstream::pool::KeepAlive;
use freerun_upstream::resolve::{ResolveError, Resolver};
use freerun_upstream::{PeerSettings, PeerSpec};

use super::SubjectProtocol;
use super::any_group::GroupsByProtocol;
use super::computed::ComputedGroups;
use super::group::{Plan, Upstream};
use super::method;
use super::server::ServerSetting;
use crate::configuration::parts::Parts;
use crate::configuration::zones::ZoneTable;
use crate::upstream::resolver;
use crate::values::subject::Subject;

/// A directive's reference to a group. The group may be declared below the directive, so it is known only when the
/// whole configuration has been read.
#[derive(Debug, Clone)]
pub struct UpstreamRef<P: SubjectProtocol>(Arc<OnceLock<Arc<Upstream<P>>>>);

impl<P: SubjectProtocol> UpstreamRef<P> {
    /// The group. `None` only while the configuration is being read.
    pub fn get(&self) -> Option<&Arc<Upstream<P>>> {
        self.0.get()
    }
}

struct Reference<P: SubjectProtocol> {
    written: PlaceText,
    group: UpstreamRef<P>,
    word: At,
    end: At,
    order: u32,
}

/// The groups and references of the configuration that is being read; lives in its context.
#[derive(Default)]
struct GroupRegistry<P: SubjectProtocol> {
    declared: HashMap<String, Arc<Upstream<P>>>,
    /// The places where these are declared.
    places: HashMap<String, At>,
    references: Vec<Reference<P>>,
}

/// The groups of a configuration; a part of its generation.
#[derive(Debug, Default)]
pub struct Upstreams<P: SubjectProtocol> {
    /// The groups by name (`upstream` blocks), or by host and port.
    by_name: HashMap<String, Arc<Upstream<P>>>,
    /// The groups that subjects have computed; they survive reloads.
    computed: Arc<ComputedGroups<P>>,
}

impl<P: SubjectProtocol> Upstreams<P> {
    /// All groups of the configuration, in no fixed order.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Upstream<P>>> {
        self.by_name.values()
    }

    /// The groups that subjects have computed, by name, without those whose names the configuration declares by now.
    pub fn computed(&self) -> Vec<Arc<Upstream<P>>> {
        let mut all = self.computed.all();
        all.retain(|group| !self.by_name.contains_key(&**group.name()));
        all
    }

    /// The group that an `upstream` block with this name declares.
    pub fn declared(&self, name: &str) -> Option<&Arc<Upstream<P>>> {
        self.by_name.get(&name.to_ascii_lowercase()).filter(|group| group.declared)
    }

    fn known(&self, written: &PlaceText) -> Option<&Arc<Upstream<P>>> {
        let declared = written.port.is_none().then(|| self.by_name.get(&*written.host)).flatten();
        declared.or_else(|| self.by_name.get(&written.place.to_string()))
    }
}

/// Refers to the group of `text`, an argument (or a part of one) of `directive`: the name of an `upstream` block, or
/// `host[:port]`, `[v6][:port]`, `unix:/path`. `default_port` is the port of the scheme; without one the port is
/// required, unless the text is the name of a block.
///
/// # Errors
/// The text is wrong, in nginx's words.
pub fn refer<P: SubjectProtocol>(
    text: &str,
    default_port: Option<u16>,
    directive: &Node,
    word: &Word,
    cx: &mut Cx,
) -> Result<UpstreamRef<P>, Problem> {
    // Whether a port is missing is known only when all blocks have been read.
    let written = place::parse(text, default_port.or(Some(0)));
    let written = written.map_err(|why| refused(why, text).at(word.place))?;
    let group = UpstreamRef(Arc::default());
    cx.extensions.get_or_default::<GroupRegistry<P>>().references.push(Reference {
        written,
        group: group.clone(),
        word: word.place,
        end: directive.end,
        order: directive.order,
    });
    Ok(group)
}

fn refused(why: &str, text: &str) -> Problem {
    Problem::new(format!("{why} in upstream \"{text}\""))
}

/// Declares the group of an `upstream` block. A block without servers is wrong, unless they `may_be_elsewhere`: in a
/// file.
///
/// # Errors
/// The block is wrong, in nginx's words.
pub fn declare<P: SubjectProtocol>(
    node: &Node,
    plan: Plan<P>,
    may_be_elsewhere: bool,
    cx: &mut Cx,
) -> Result<(), Problem> {
    let name = &node.args[0];
    method::warn_of_order(node, cx);
    let mut refuses = false;
    for directive in node.children() {
        refuses = method::refuses_backup(&directive.name.text).unwrap_or(refuses);
        if refuses
            && directive.name.text == "server"
            && let Some(word) = directive.args.iter().skip(1).find(|word| is_refused(&word.text))
        {
            let message = format!("balancing method does not support parameter \"{}\"", word.text);
            cx.report(Problem::new(message).at_node(directive).at(word.place))?;
        }
    }
    let key = name.text.to_ascii_lowercase();
    let places = &mut cx.extensions.get_or_default::<GroupRegistry<P>>().places;
    if let Some(first) = places.get(&key) {
        let problem = Problem::new(format!("duplicate upstream \"{}\"", name.text)).at_node(node).at(name.place);
        return Err(problem.first_at(*first));
    }
    places.insert(key.clone(), node.name.place);
    // Problems that are found only at the end of the block come after those inside.
    let whole = |message: String| {
        let mut problem = Problem::new(message).at_node(node).at(name.place);
        problem.order = node.children().last().map(|last| last.order).or(problem.order);
        problem
    };
    // A block that is cut off has no end: the syntax error reports that.
    let is_whole = node.close != node.end;
    // A server that is wrong was told of, and so was anything else in the block that is not allowed there.
    let has_servers = node.children().iter().any(|directive| directive.name.text == "server");
    let told = has_servers || cx.has_problems_in(node);
    if is_whole && plan.servers.is_empty() && !told && !may_be_elsewhere {
        return Err(whole("no servers are inside upstream".to_owned()).reported_at(node.close));
    }
    // A file may have lost the others one by one: that is a group whose only servers are the backup.
    let is_left = may_be_elsewhere || plan.servers.iter().any(|server| !server.settings.backup);
    if is_whole && !plan.servers.is_empty() && !is_left && !cx.has_problems_in(node) {
        let problem = whole(format!("no servers in upstream \"{}\"", name.text));
        return Err(problem.hint("at least one of them must not be \"backup\""));
    }
    // An address is not looked up, so it needs no resolver.
    let looks_up = |server: &ServerSetting| server.resolve && matches!(server.place, ServerPlace::Name(_));
    if is_whole && plan.servers.iter().any(looks_up) && plan.resolver.is_none() {
        let message = format!("no resolver defined to resolve names at run time in upstream \"{}\"", name.text);
        return Err(whole(message).hint("write: resolver ADDRESS;"));
    }
    let group = Upstream::new(&name.text, true, plan, cx.extensions.get_or_default::<ZoneTable>());
    cx.extensions.get_or_default::<GroupRegistry<P>>().declared.insert(key, group);
    Ok(())
}

/// Whether the parameter only goes with methods in which servers take turns.
fn is_refused(parameter: &str) -> bool {
    parameter == "backup" || parameter.starts_with("slow_start=")
}

/// Gives every reference its group, and the generation all groups and resolvers, when all of the protocol's
/// configuration has been read.
///
/// # Errors
/// There are more problems than are collected.
pub fn finish<P: SubjectProtocol>(cx: &mut Cx) -> Result<(), Problem> {
    let GroupRegistry { declared, places, references } = cx.extensions.remove::<GroupRegistry<P>>().unwrap_or_default();
    let mut by_name = declared;
    for Reference { written, group, word, end, order } in references {
        let fail = |message: String| {
            let mut problem = Problem::new(message).at(word).reported_at(end);
            problem.order = Some(order);
            problem
        };
        let block = by_name.get(&*written.host).filter(|block| block.declared);
        let found = match (block, written.port) {
            (Some(block), None) => block.clone(),
            (Some(_), Some(port)) => {
                cx.report(fail(format!("upstream \"{}\" may not have port {port}", written.host)))?;
                continue;
            }
            // The block is wrong, which was reported: whoever names it is not.
            (None, None) if places.contains_key(&*written.host) => continue,
            (None, _) if has_no_port(&written.place) => {
                cx.report(fail(format!("no port in upstream \"{}\"", written.host)))?;
                continue;
            }
            (None, _) => match by_name.entry(written.place.to_string()) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(place) => {
                    let zones = cx.extensions.get_or_default::<ZoneTable>();
                    place.insert(implied::<P>(written.place, word, zones)).clone()
                }
            },
        };
        // No other place sets the cell.
        let _ = group.0.set(found);
    }
    let computed = cx.extensions.get_or_default::<ZoneTable>().keep("computed upstreams", ComputedGroups::<P>::default);
    let upstreams = Arc::new(Upstreams { by_name, computed });
    let shown = cx.extensions.get_or_default::<GroupsByProtocol>();
    shown.add(&upstreams);
    let shown = Arc::new(shown.clone());
    let parts = cx.extensions.get_or_default::<Parts>();
    parts.insert(upstreams);
    parts.insert(shown);
    resolver::finish(cx);
    Ok(())
}

fn has_no_port(place: &ServerPlace) -> bool {
    match place {
        ServerPlace::Address(freerun_upstream::UpstreamAddress::Ip(address)) => address.port() == 0,
        ServerPlace::Address(freerun_upstream::UpstreamAddress::Unix(_)) => false,
        ServerPlace::Name(name) => name.port == 0,
    }
}

/// The group of an address or a name that no block declares.
fn implied<P: SubjectProtocol>(place: ServerPlace, written: At, zones: &mut ZoneTable) -> Arc<Upstream<P>> {
    let name = place.to_string();
    let servers = vec![ServerSetting::plain(place, written)];
    let plan = Plan { servers, keepalive: KeepAlive::off(), ..Plan::default() };
    Upstream::new(&name, false, plan, zones)
}

/// The reason that no group exists for a text that a subject has computed. Printed in nginx's words, for the error log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// The text names no server.
    #[error("{0} in upstream \"{1}\"")]
    Invalid(&'static str, String),
    /// The text is a name, and there is no resolver for its addresses.
    #[error("no resolver defined to resolve {0}")]
    NoResolver(String),
    /// The name has no address.
    #[error("{0} could not be resolved ({1})")]
    NotResolved(String, ResolveError),
}

impl NotFound {
    /// The status that the subject ends with: the status of a response, or `$status` of a session.
    pub fn status(&self) -> Status {
        match self {
            NotFound::Invalid(..) => Status::INTERNAL_SERVER_ERROR,
            NotFound::NoResolver(_) | NotFound::NotResolved(..) => Status::BAD_GATEWAY,
        }
    }
}

/// Finds the group of `text`, which variables of the subject have given: the name of an `upstream` block, an address,
/// or a name that `resolver` looks up. Never waits in a system call; a name may take as long as the given time.
///
/// # Errors
/// [`NotFound`].
pub async fn find<P: SubjectProtocol>(
    subject: &P::Subject,
    resolver: Option<(&Arc<Resolver>, Duration)>,
    text: &str,
    default_port: Option<u16>,
) -> Result<Arc<Upstream<P>>, NotFound> {
    let invalid = |why| NotFound::Invalid(why, text.to_owned());
    let written = place::parse(text, default_port.or(Some(0))).map_err(invalid)?;
    let upstreams = subject.services().parts.get::<Upstreams<P>>().unwrap_or_default();
    if let Some(known) = upstreams.known(&written) {
        return Ok(known.clone());
    }
    if has_no_port(&written.place) {
        return Err(invalid("no port"));
    }
    let key = written.place.to_string();
    let server: Arc<str> = key.as_str().into();
    // As in nginx, what fails for one request says nothing to the next one.
    let settings = PeerSettings { max_fails: 0, ..PeerSettings::default() };
    let spec = |address| PeerSpec { address, server: server.clone(), settings: settings.clone() };
    let (asked, peers) = match &written.place {
        ServerPlace::Address(address) => (0, vec![spec(address.clone())]),
        ServerPlace::Name(name) => {
            let (resolver, timeout) = resolver.ok_or_else(|| NotFound::NoResolver(name.host.to_string()))?;
            let answer = resolver.addresses(&name.host, timeout).await;
            let answer = answer.map_err(|why| NotFound::NotResolved(name.host.to_string(), why))?;
            let peers = answer.addresses.iter().map(|ip| spec(SocketAddr::new(*ip, name.port).into()));
            (resolver.id(), peers.collect())
        }
    };
    Ok(upstreams.computed.group(&key, asked, peers))
}
