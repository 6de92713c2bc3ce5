//! From the tree of a configuration to the part of a blueprint that is http's: levels are merged, locations nested, addresses grouped.

mod addresses;
mod identity;

use std::sync::Arc;

use freerun_conf::{Contexts, Cx, Directive, Node, Place, Problem, Registry, SettingsSet, Shape, apply_block, group};
use freerun_proto::Method;
use freerun_serve::blueprint::Blueprint;
use freerun_serve::listen::ListenSpec;
use freerun_serve::logs::ErrorLogSettings;
use freerun_serve::parts::Parts;
use freerun_serve::proxy_header::ProxyVariables;
use freerun_serve::resolver_settings::ResolverSettings;
use freerun_serve::ssl_variables::SslVariables;
use freerun_serve::status_zones::StatusZoneSettings;
use freerun_serve::tls::challenges::Challenges;
use freerun_serve::tls::client_facts::HELLO_VARIABLES;
use freerun_serve::tls::ech;
use freerun_serve::tls::sessions::ServedTls;
use freerun_serve::values::{Common, Reference};

use crate::core_variables::CORE_VARIABLES;
use crate::module::Module;
use crate::regex::Pattern;
use crate::request::Request;
use crate::request::core_settings::CoreSettings;
use crate::request::generation::HttpConfiguration;
use crate::request::handler::{Filter, Handler};
use crate::request::location::{Alias, Location, Reachable, Server, TakesConnect, Within};
use crate::rewrite::RewriteSettings;
use crate::route::Locations;
use crate::script::condition::Condition;
use crate::settings::acme::AcmeSettings;
use crate::settings::acme::issuer::{self, IssuerDirectives};
use crate::settings::files::FileSettings;
use crate::settings::grpc_errors::GrpcErrorSettings;
use crate::settings::http2::Http2Settings;
use crate::settings::listen::Written;
use crate::settings::rate::RateSettings;
use crate::settings::server::ServerSettings;
use crate::settings::ssl::{self, SslSettings};
use crate::settings::transfer::TransferSettings;
use crate::values::aio::ThreadPools;
use crate::variables::VariableTable;
use identity::Identities;

/// The block directives that this file walks.
pub static STRUCTURE: &[Directive] = &[
    Directive::structural(
        "http",
        Contexts::MAIN,
        Shape::exactly(0, "").with_block(Contexts::HTTP),
        "Everything about HTTP.",
    ),
    Directive::structural(
        "server",
        Contexts::HTTP,
        Shape::exactly(0, "").with_block(Contexts::SERVER),
        "A virtual server, chosen by address and name.",
    ),
    Directive::structural(
        "location",
        Contexts::SERVER.union(Contexts::LOCATION),
        Shape::between(1, 2, "[= | ~ | ~* | ^~] uri | $variable | @name").with_block(Contexts::LOCATION),
        "What holds for a part of the paths: one path (`=`), a prefix (final with `^~`), a regular expression (`~`, \
         without regard to case `~*`); for the requests for which a variable has a value other than `0` (as in nginx since \
         1.31.5); or under a name for internal use (`@name`).\n\
         \n\
         A request goes to the exact path, or else to the first regular expression that matches, unless the longest prefix \
         has `^~`; or else to the first variable that holds, unless the longest prefix has `^~`; or else to the longest \
         prefix. Then the locations inside are tried in the same way.",
    ),
    Directive::structural(
        "if",
        Contexts::SERVER,
        Shape::at_least(1, "(condition)").with_block(Contexts::SERVER_IF),
        "Directives of the rewrite module that run only where a condition holds.",
    ),
    Directive::structural(
        "if",
        Contexts::LOCATION,
        Shape::at_least(1, "(condition)").with_block(Contexts::LOCATION_IF),
        "What holds for requests that meet a condition: a variable that is not empty and not `0`, one compared by `=`, \
         `!=`, `~`, `~*`, `!~` or `!~*`, or a file tested by `-f`, `-d`, `-e` or `-x`, each with or without a `!`.\n\
         \n\
         It is a location inside the location: its settings replace those around it for the answer, and of several that \
         hold, those of the last one are used. Directives of the rewrite module run in the order written.",
    ),
    Directive::structural(
        "limit_except",
        Contexts::LOCATION,
        Shape::at_least(1, "method …").with_block(Contexts::LIMIT_EXCEPT),
        "What holds for all methods but these; `GET` is `HEAD` too.",
    ),
    issuer::DIRECTIVE,
];

/// The groups of settings of the request path itself; the groups of modules come with the modules.
pub fn core_groups() -> Vec<&'static dyn freerun_conf::Group> {
    vec![
        group::<CoreSettings>(),
        group::<ServerSettings>(),
        group::<Http2Settings>(),
        group::<GrpcErrorSettings>(),
        group::<ErrorLogSettings>(),
        group::<TransferSettings>(),
        group::<RewriteSettings>(),
        group::<FileSettings>(),
        group::<RateSettings>(),
        group::<ResolverSettings>(),
        group::<StatusZoneSettings>(),
        group::<SslSettings>(),
        group::<AcmeSettings>(),
        group::<IssuerDirectives>(),
    ]
}

/// All structural directives: those that this file walks and the modules' blocks.
pub fn structure(modules: &[&Module]) -> Vec<Directive> {
    STRUCTURE
        .iter()
        .chain(modules.iter().flat_map(|module| module.blocks).map(|block| &block.directive))
        .copied()
        .collect()
}

/// Reads an `http` block.
pub struct Builder<'a> {
    /// All directives of the program.
    pub registry: &'a Registry,
    /// The modules, in order.
    pub modules: &'a [&'static Module],
}

/// A server with its addresses, before these are grouped.
struct Planned {
    server: Arc<Server>,
    settings: SettingsSet,
    written: Written,
}

/// The properties of the surrounding location that an inner location has to know.
#[derive(Clone, Copy)]
struct Outer<'a> {
    name: &'a str,
    /// What the names of the locations inside begin with.
    prefix: &'a str,
    exact: bool,
    named: bool,
    alias: Option<&'a Arc<Alias>>,
    content: Option<&'static str>,
}

impl Outer<'_> {
    /// The surroundings of an `if` at the server's own level.
    const SERVER: Outer<'static> =
        Outer { name: "", prefix: "", exact: false, named: false, alias: None, content: None };
}

/// The contents of a level besides its settings.
#[derive(Default)]
struct Inside {
    /// The directive that makes the content.
    content: Option<&'static str>,
    nested: Locations<Location>,
    conditions: Vec<ConditionBlock>,
    limit_except: Option<LimitExcept>,
}

/// An `if`: its position in the configuration, its condition, and the location that answers where the condition holds.
type ConditionBlock = (u32, Condition<Request>, Arc<Location>);

/// The methods of a `limit_except`, and the location that answers all other methods.
type LimitExcept = (Box<[Method]>, Arc<Location>);

/// How a location is chosen.
enum Kind {
    Exact,
    Prefix { no_regex: bool },
    Regex(Pattern),
    Predicate(Reference<Request>),
    Named,
}

impl Builder<'_> {
    /// Makes the variables of the core and of the modules known. It has to be called before any directive is read.
    pub fn prepare(&self, cx: &mut Cx) {
        let table = cx.extensions.get_or_default::<VariableTable>();
        table.add(Common::<Request>::VARIABLES);
        table.add(ProxyVariables::<Request>::VARIABLES);
        table.add(SslVariables::<Request>::VARIABLES);
        table.add(CORE_VARIABLES);
        for module in self.modules {
            table.add(module.variables);
        }
    }

    /// Builds the blueprint of a configuration that has no other service.
    ///
    /// # Errors
    /// Those of [`Builder::read`] and [`Blueprint::gather`].
    pub fn build(&self, nodes: &[&Node], main: &SettingsSet, cx: &mut Cx) -> Result<Blueprint, Problem> {
        let listeners = self.read(nodes, main, cx)?;
        Blueprint::gather(listeners, cx)
    }

    /// Reads what a configuration says of http, which becomes one of its [`Parts`], and gives its listening sockets.
    /// `nodes` are the `http` blocks of the main level (at most one is allowed), `main` the settings of that level.
    ///
    /// # Errors
    /// The first problem that makes further reading useless; other problems are reported to `cx`.
    pub fn read(&self, nodes: &[&Node], main: &SettingsSet, cx: &mut Cx) -> Result<Vec<Arc<ListenSpec>>, Problem> {
        let mut planned = Vec::new();
        if let Some(second) = nodes.get(1) {
            cx.report(Problem::duplicate(second))?;
        }
        if let Some(http) = nodes.first() {
            cx.extensions.insert(HttpEnd(Some(http.close)));
            let (settings, blocks) = apply_block(self.registry, Contexts::HTTP, http.children(), main, cx)?;
            // Servers may name issuers that stand below them.
            let (issuers, blocks): (Vec<&Node>, Vec<&Node>) =
                blocks.into_iter().partition(|node| node.name.text == issuer::BLOCK);
            for node in issuers {
                let (inside, _) = apply_block(self.registry, Contexts::ACME_ISSUER, node.children(), &settings, cx)?;
                issuer::declare(node, &inside, cx).or_else(|problem| cx.report(problem))?;
            }
            for node in blocks {
                if node.name.text == "server" {
                    planned.push(self.server(node, &settings, cx)?);
                    continue;
                }
                let mut blocks = self.modules.iter().flat_map(|module| module.blocks);
                if let Some(block) = blocks.find(|block| block.directive.name == node.name.text)
                    && let freerun_conf::Block::Inside(context) = block.directive.shape.block
                {
                    let (inside, _) = apply_block(self.registry, context, node.children(), &settings, cx)?;
                    (block.read)(node, &inside, cx).or_else(|problem| cx.report(problem))?;
                }
            }
            for finish in self.modules.iter().filter_map(|module| module.finish) {
                finish(&settings, cx).or_else(|problem| cx.report(problem))?;
            }
            ech::warn(cx);
        }
        let listens = addresses::group_addresses(&planned, cx)?;
        cx.extensions.get_or_default::<VariableTable>().check()?;
        cx.extensions.get_or_default::<ThreadPools>().check()?;
        let variables = cx.extensions.remove::<VariableTable>().unwrap_or_default();
        let listeners = listens.iter().map(|listen| listen.spec.clone()).collect();
        let parts = cx.extensions.get_or_default::<Parts>();
        ServedTls::add(parts, listens.iter().flat_map(|listen| listen.all()).flat_map(|servers| &servers.all));
        let http = HttpConfiguration {
            listens,
            keeps_sent_head: variables.uses_family("sent_http_"),
            keeps_upstream_head: ["upstream_http_", "upstream_cookie_"].iter().any(|name| variables.uses_family(name)),
            keeps_hello: HELLO_VARIABLES.iter().any(|name| variables.uses_family(name)),
            challenges: parts.get::<Challenges>(),
            variables: Arc::new(variables),
        };
        parts.insert(Arc::new(http));
        Ok(listeners)
    }

    fn server(&self, node: &Node, parent: &SettingsSet, cx: &mut Cx) -> Result<Planned, Problem> {
        cx.extensions.insert(Within::default());
        cx.extensions.insert(TakesConnect::default());
        cx.extensions.get_or_default::<Identities>().enter(node);
        let (settings, blocks) = apply_block(self.registry, Contexts::SERVER, node.children(), parent, cx)?;
        cx.extensions.insert(Reachable(settings.get::<ServerSettings>().is_reachable()));
        let mut locations = Locations::default();
        let mut conditions = Vec::new();
        for block in blocks {
            match block.name.text.as_str() {
                "if" => conditions.extend(self.condition(block, Contexts::SERVER_IF, Outer::SERVER, &settings, cx)?),
                "location" => self.location(block, None, &settings, &mut locations, cx)?,
                _ => {}
            }
        }
        let inside = Inside { content: self.content(node), conditions, ..Inside::default() };
        let entry = Arc::new(self.compile(String::new(), settings.clone(), inside, cx)?);
        let name = settings.get::<ServerSettings>().server_name.first.clone();
        let tls = match ssl::server_tls(&settings, cx) {
            Ok(tls) => tls,
            Err(mut problem) => {
                // As with nginx, it is told of after all problems of single directives.
                if problem.place.is_some() && problem.reported.is_none() {
                    problem.reported = cx.extensions.get_or_default::<HttpEnd>().0;
                }
                cx.report(problem)?;
                None
            }
        };
        let http2 = settings.get::<Http2Settings>().http2;
        let TakesConnect(takes_connect) = *cx.extensions.get_or_default();
        let zone = settings.get::<StatusZoneSettings>().status_zone.of_server();
        let server = Arc::new(Server { name, locations, entry, takes_connect, tls, http2, zone });
        let written = Written::of_block(node);
        Ok(Planned { server, settings, written })
    }

    fn location(
        &self,
        node: &Node,
        outer: Option<Outer<'_>>,
        parent: &SettingsSet,
        into: &mut Locations<Location>,
        cx: &mut Cx,
    ) -> Result<(), Problem> {
        let (kind, name) = match location_kind(node, cx) {
            Ok(parsed) => parsed,
            Err(problem) => return cx.report(problem.at_node(node)),
        };
        if let Some(Outer { name: outer, prefix, exact, named, .. }) = outer {
            let refused = if exact {
                Some(format!("location \"{name}\" cannot be inside the exact location \"{outer}\""))
            } else if named {
                Some(format!("location \"{name}\" cannot be inside the named location \"{outer}\""))
            } else if matches!(kind, Kind::Named) {
                Some(format!("named location \"{name}\" can be on the server level only"))
            } else if !matches!(kind, Kind::Regex(_) | Kind::Predicate(_)) && !name.starts_with(prefix) {
                Some(format!("location \"{name}\" is outside location \"{outer}\""))
            } else {
                None
            };
            if let Some(message) = refused {
                return cx.report(Problem::new(message).at_node(node));
            }
        }
        root_and_alias(node, matches!(kind, Kind::Named), cx)?;
        let is_regex = matches!(kind, Kind::Regex(_) | Kind::Predicate(_));
        let here = Within {
            location: Some(name.clone()),
            regex: is_regex,
            named: matches!(kind, Kind::Named),
            ..Within::default()
        };
        cx.extensions.insert(here);
        let (settings, blocks) = apply_block(self.registry, Contexts::LOCATION, node.children(), parent, cx)?;
        let passes_on = cx.extensions.get_or_default::<Within>().passes_on;
        let alias = match &settings.get::<CoreSettings>().alias {
            Some(path) => Some(Arc::new(Alias { path: path.0.clone(), prefix: (!is_regex).then(|| name.clone()) })),
            None if node.children().iter().any(|child| child.name.text == "root") => None,
            None => outer.and_then(|outer| outer.alias.cloned()),
        };
        if matches!(kind, Kind::Prefix { .. }) {
            warn_of_way_out(node, &name, cx);
        }
        let exact = matches!(kind, Kind::Exact);
        let content = self.content(node);
        let prefix = match kind {
            Kind::Predicate(_) => outer.map_or("", |outer| outer.prefix),
            _ => &name,
        };
        let named = matches!(kind, Kind::Named);
        let inside = Outer { name: &name, prefix, exact, named, alias: alias.as_ref(), content };
        let mut within = Inside { content, ..Inside::default() };
        for block in blocks {
            match block.name.text.as_str() {
                "location" => self.location(block, Some(inside), &settings, &mut within.nested, cx)?,
                "if" => {
                    within.conditions.extend(self.condition(block, Contexts::LOCATION_IF, inside, &settings, cx)?);
                }
                "limit_except" if within.limit_except.is_some() => cx.report(Problem::duplicate(block))?,
                "limit_except" => {
                    within.limit_except = self.limit_except(block, inside, &settings, cx)?;
                }
                _ => {}
            }
        }
        let mut location = self.compile(name.clone(), settings, within, cx)?;
        location.passes_on = passes_on;
        location.no_regex = matches!(kind, Kind::Exact | Kind::Prefix { no_regex: true });
        location.alias = alias;
        if let Kind::Predicate(variable) = &kind {
            location.predicate = Some(variable.clone());
        }
        let location = Arc::new(location);
        let new = match kind {
            Kind::Exact => into.add_exact(&name, location),
            Kind::Prefix { .. } => into.add_prefix(&name, location),
            Kind::Named => {
                if !into.add_named(&name, location) {
                    // As in nginx the first location is used; nginx does not warn.
                    let message = format!("location \"{name}\" is there already and this one is never used");
                    cx.warn(Problem::warning(message).at_node(node));
                }
                true
            }
            Kind::Regex(pattern) => {
                into.add_regex(pattern, location);
                true
            }
            Kind::Predicate(_) => {
                into.add_predicate(location);
                true
            }
        };
        if !new {
            cx.report(Problem::new(format!("duplicate location \"{name}\"")).at_node(node))?;
        }
        Ok(())
    }

    /// Reads an `if`: its position, its condition, and its location.
    fn condition(
        &self,
        node: &Node,
        context: Contexts,
        outer: Outer<'_>,
        parent: &SettingsSet,
        cx: &mut Cx,
    ) -> Result<Option<ConditionBlock>, Problem> {
        let condition = match Condition::parse(node, cx) {
            Ok(condition) => condition,
            Err(problem) => return cx.report(problem).map(|()| None),
        };
        let (settings, _) = apply_block(self.registry, context, node.children(), parent, cx)?;
        let inside = Inside { content: self.content(node).or(outer.content), ..Inside::default() };
        let mut location = self.compile(outer.name.to_owned(), settings, inside, cx)?;
        let has_root = node.children().iter().any(|child| child.name.text == "root");
        location.alias = outer.alias.filter(|_| !has_root).cloned();
        Ok(Some((node.order, condition, Arc::new(location))))
    }

    fn limit_except(
        &self,
        node: &Node,
        outer: Outer<'_>,
        parent: &SettingsSet,
        cx: &mut Cx,
    ) -> Result<Option<LimitExcept>, Problem> {
        let mut methods = Vec::new();
        for word in &node.args {
            match Method::of(word.text.to_ascii_uppercase().as_bytes()) {
                Method::Other | Method::Trace | Method::Connect => {
                    let problem = Problem::new(format!("invalid method \"{}\"", word.text)).at_node(node);
                    return cx.report(problem.at(word.place)).map(|()| None);
                }
                Method::Get => methods.extend([Method::Get, Method::Head]),
                method => methods.push(method),
            }
        }
        let (settings, _) = apply_block(self.registry, Contexts::LIMIT_EXCEPT, node.children(), parent, cx)?;
        let inside = Inside { content: self.content(node), ..Inside::default() };
        let mut location = self.compile(outer.name.to_owned(), settings, inside, cx)?;
        location.alias = outer.alias.cloned();
        Ok(Some((methods.into(), Arc::new(location))))
    }

    /// The module that makes a level's content: that of the last of its own directives that can.
    fn content(&self, level: &Node) -> Option<&'static str> {
        let named = |name: &str| self.modules.iter().find(|module| module.content.contains(&name));
        level.children().iter().rev().find_map(|node| named(&node.name.text)).map(|module| module.name)
    }

    fn compile(&self, name: String, settings: SettingsSet, inside: Inside, cx: &mut Cx) -> Result<Location, Problem> {
        let mut handlers: Vec<Handler> = Vec::new();
        let mut filters: Vec<Filter> = Vec::new();
        // The order of the directives that a `limit_except` inherits is lost: the first module of the list is taken
        // then, as in nginx.
        let mut content = inside.content;
        for module in self.modules {
            let mut own = module.handlers.iter().copied().filter(|handler| (handler.wanted)(&settings)).peekable();
            if module.content.is_empty() || own.peek().is_none() {
                handlers.extend(own);
            } else if *content.get_or_insert(module.name) == module.name {
                handlers.splice(..0, own);
            }
            filters.extend(module.filters.iter().filter(|filter| (filter.wanted)(&settings)));
            if let Some(settle) = module.settle
                && let Err(problem) = settle(&settings, cx)
            {
                let problem = found_at_the_end(problem, cx);
                cx.report(problem)?;
            }
        }
        // The sort is stable: the handler that makes the content stays before the others of its phase.
        handlers.sort_by_key(|handler| handler.phase);
        filters.sort_by_key(|filter| filter.slot);
        let core = settings.share::<CoreSettings>();
        let internal = core.internal.0;
        let mut script = settings.get::<RewriteSettings>().script.clone();
        for add in self.modules.iter().filter_map(|module| module.script) {
            script.add(&add(&settings));
        }
        let script = script.steps(inside.conditions);
        let identity = cx.extensions.get_or_default::<Identities>().next(&name);
        let zone = settings.get::<StatusZoneSettings>().status_zone.of_location();
        Ok(Location {
            name,
            identity,
            settings,
            core,
            handlers: handlers.into(),
            filters: filters.into(),
            script,
            limit_except: inside.limit_except,
            nested: inside.nested,
            alias: None,
            predicate: None,
            no_regex: false,
            internal,
            passes_on: false,
            zone,
            error_log: Default::default(),
        })
    }
}

/// Where `http {}` ends: the place that problems found only in merged settings are reported at. Lives in the
/// configuration's context.
#[derive(Default)]
pub struct HttpEnd(pub Option<Place>);

/// Gives a problem that was found only in merged settings the line where `http {}` ends, unless the problem has a
/// better place, as in nginx.
fn found_at_the_end(problem: Problem, cx: &mut Cx) -> Problem {
    let known = problem.place.is_some() || problem.reported.is_some();
    match cx.extensions.get_or_default::<HttpEnd>().0 {
        Some(end) if !known => problem.at(end).reported_at(end),
        _ => problem,
    }
}

/// Warns of an alias that leads out of its folder: `location /img { alias /x/; }` serves `/img../secret` from
/// `/x/../secret`.
fn warn_of_way_out(location: &Node, name: &str, cx: &mut Cx) {
    let alias = location.children().iter().find(|node| node.name.text == "alias");
    let Some((alias, path)) = alias.and_then(|alias| Some((alias, alias.args.first()?))) else { return };
    if !name.ends_with('/') && path.text.ends_with('/') {
        let message = format!(
            "location \"{name}\" does not end with a slash and its alias \"{}\" does: \"{name}..\" leads out of the folder",
            path.text
        );
        cx.warn(Problem::warning(message).at_node(alias).hint(format!("write: location {name}/")));
    }
}

/// Refuses `root` together with `alias` in one location, and `alias` in a named location, where no part of the path was
/// matched that it could replace.
fn root_and_alias(location: &Node, named: bool, cx: &mut Cx) -> Result<(), Problem> {
    if let Some(alias) = location.children().iter().find(|node| named && node.name.text == "alias") {
        let message = "the \"alias\" directive cannot be used inside the named location";
        cx.report(Problem::new(message).at_node(alias))?;
    }
    let mut both = location.children().iter().filter(|node| matches!(node.name.text.as_str(), "root" | "alias"));
    let (Some(first), Some(second)) = (both.next(), both.next()) else { return Ok(()) };
    if first.name.text == second.name.text {
        return Ok(());
    }
    let (first, name) = (&first.name.text, &second.name.text);
    let message = format!("\"{name}\" directive is duplicate, \"{first}\" directive was specified earlier");
    cx.report(Problem::new(message).at_node(second))
}

/// Reads modifier and name; the modifier may be glued to the name (`=/x`).
fn location_kind(node: &Node, cx: &mut Cx) -> Result<(Kind, String), Problem> {
    let first = node.args[0].text.as_str();
    let (modifier, name) = match node.args.get(1) {
        Some(_) if first.is_empty() => {
            return Err(Problem::new("invalid location modifier \"\"").at_node(node));
        }
        Some(second) => (first, second.text.as_str()),
        None => {
            let modifier = ["^~", "~*", "~", "="].into_iter().find(|modifier| first.starts_with(modifier));
            (modifier.unwrap_or(""), first.strip_prefix(modifier.unwrap_or("")).unwrap_or(first))
        }
    };
    let place = node.args.last().map_or(node.name.place, |word| word.place);
    let kind = match modifier {
        "=" => Kind::Exact,
        "^~" => Kind::Prefix { no_regex: true },
        "~" | "~*" => {
            let variables = cx.extensions.get_or_default::<VariableTable>();
            let pattern = Pattern::new(name, modifier == "~*", variables);
            Kind::Regex(pattern.map_err(|why| Problem::new(why).at(place))?)
        }
        "" if name.starts_with('@') => Kind::Named,
        "" if name.starts_with('$') => {
            let variable = &name[1..];
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            if variable.is_empty() || !variable.bytes().all(is_name) {
                return Err(Problem::new(format!("invalid variable name \"{name}\"")).at(place));
            }
            Kind::Predicate(cx.extensions.get_or_default::<VariableTable>().resolve(variable, place))
        }
        "" => Kind::Prefix { no_regex: false },
        other => {
            return Err(Problem::new(format!("invalid location modifier \"{other}\""))
                .at(node.args[0].place)
                .hint("modifiers are =, ~, ~* and ^~"));
        }
    };
    Ok((kind, name.to_owned()))
}
