//! From the tree of a configuration to the part of a blueprint that is http's: levels are merged, locations nested, addresses grouped.

mod identity;
mod location;
pub mod route_list;

use std::sync::Arc;

use freerun_conf::{
    Contexts, Cx, Directive, Node, Place, Problem, Registry, SettingsSet, Shape, apply_block, bytes_of, group,
};
use freerun_proto::Method;
use freerun_serve::build::blueprint::Blueprint;
use freerun_serve::build::names::virtual_servers::{self, ServerPlan};
use freerun_serve::build::{self, ServiceBlock};
use freerun_serve::configuration::parts::{Parts, Paths};
use freerun_serve::listen::ListenSpec;
use freerun_serve::listen::generation_sockets::Listens;
use freerun_serve::logs::ErrorLogSettings;
use freerun_serve::loops::figures::zones::{ServerKind, StatusZoneSettings};
use freerun_serve::tls::challenges::Challenges;
use freerun_serve::tls::client_facts::HELLO_VARIABLES;
use freerun_serve::tls::sessions::ServedTls;
use freerun_serve::upstream::resolver_settings::ResolverSettings;

use crate::core_variables::CORE_VARIABLES;
use crate::filters::alt_svc::{self, TellsOfHttp3};
use crate::module::{Module, RequestPath};
use crate::request::Request;
use crate::request::core_settings::CoreSettings;
use crate::request::generation::{HttpConfiguration, Servers};
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
use crate::settings::http3::Http3Settings;
use crate::settings::listen::{ListenPlace, ListenSetting, default_listen};
use crate::settings::rate::RateSettings;
use crate::settings::server::ServerSettings;
use crate::settings::ssl::{self, SslSettings};
use crate::settings::transfer::TransferSettings;
use crate::values::aio::ThreadPools;
use crate::values::protocols::Protocols;
use crate::variables::{Variable, VariableTable};
use identity::Identities;
use location::Kind;
use route_list::{RouteList, WantsRouteList};

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
        group::<Http3Settings>(),
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
    build::structure(STRUCTURE, modules)
}

/// Reads an `http` block.
pub struct Builder<'a> {
    /// All directives of the program.
    pub registry: &'a Registry,
    /// The modules, in order.
    pub modules: &'a [&'static Module],
}

/// A server with the settings of its own level, and the place of its block.
type ServerInBlock = (Arc<Server>, SettingsSet, ListenPlace);

/// The properties of the surrounding location that an inner location has to know.
#[derive(Clone, Copy)]
struct Outer<'a> {
    name: &'a str,
    /// The beginning of the names of the locations inside.
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

/// All variables that a configuration may name, from the core and from the modules, each table with the name of its
/// module. Of variables with the same name the last one counts.
pub fn variables<'m>(modules: &'m [&Module]) -> impl Iterator<Item = (&'static str, &'static [Variable])> + 'm {
    build::variables(CORE_VARIABLES, modules)
}

impl Builder<'_> {
    fn block(&self) -> ServiceBlock<'_, RequestPath> {
        ServiceBlock { registry: self.registry, modules: self.modules }
    }

    /// Makes the variables of the core and of the modules known. It has to be called before any directive is read.
    pub fn prepare(&self, cx: &mut Cx) {
        build::add_variables(CORE_VARIABLES, self.modules, cx);
    }

    /// Builds the blueprint of a configuration that has no other service.
    ///
    /// # Errors
    /// The errors of [`Builder::read`] and [`Blueprint::gather`].
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
        let block = self.block();
        let mut planned = Vec::new();
        if let Some(http) = block.begin(nodes, cx)? {
            let (settings, blocks) = apply_block(self.registry, Contexts::HTTP, http.children(), main, cx)?;
            // Servers may name issuers that stand below them.
            let (issuers, blocks): (Vec<&Node>, Vec<&Node>) =
                blocks.into_iter().partition(|node| node.name.text == issuer::BLOCK);
            for node in issuers {
                let (inside, _) = apply_block(self.registry, Contexts::ACME_ISSUER, node.children(), &settings, cx)?;
                issuer::declare(node, &inside, cx).or_else(|problem| cx.report(problem))?;
            }
            for node in blocks {
                match node.name.text.as_str() {
                    "server" => planned.push(self.server(node, &settings, cx)?),
                    _ => block.module_block(node, &settings, cx)?,
                }
            }
            block.finish(&settings, cx)?;
            if cx.extensions.remove::<WantsRouteList>().is_some_and(|wants| wants.0) {
                let content: Vec<&str> = route_list::content_directives(self.modules).collect();
                let list = RouteList::of(http.children(), &cx.sources, &content);
                cx.extensions.get_or_default::<Parts>().insert(Arc::new(list));
            }
        }
        let listens = listens(&planned, cx)?;
        let undefined = cx.extensions.get_or_default::<VariableTable>().check();
        undefined.into_iter().try_for_each(|problem| cx.report(problem))?;
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

    fn server(&self, node: &Node, parent: &SettingsSet, cx: &mut Cx) -> Result<ServerInBlock, Problem> {
        cx.extensions.insert(Within::default());
        cx.extensions.insert(TakesConnect::default());
        cx.extensions.get_or_default::<Identities>().enter(node);
        let (settings, blocks) = apply_block(self.registry, Contexts::SERVER, node.children(), parent, cx)?;
        cx.extensions.insert(Reachable(settings.get::<ServerSettings>().is_reachable()));
        let http3 = settings.get::<Http3Settings>().http3;
        let alt_svc = if http3 { settings.get::<ServerSettings>().alt_svc() } else { None };
        cx.extensions.insert(TellsOfHttp3(alt_svc.is_some()));
        let mut locations = Locations::default();
        let mut conditions = Vec::new();
        for block in blocks {
            match block.name.text.as_str() {
                "if" => conditions.extend(self.condition(block, Contexts::SERVER_IF, Outer::SERVER, &settings, cx)?),
                "location" => self.location(block, node.children(), None, &settings, &mut locations, cx)?,
                _ => {}
            }
        }
        let inside = Inside { content: self.content(node), conditions, ..Inside::default() };
        let entry = Arc::new(self.compile(String::new(), node.order, settings.clone(), inside, cx)?);
        let name = settings.get::<ServerSettings>().server_name.first.clone();
        let tls = self.block().tls(ssl::server_tls(&settings, cx), cx)?;
        let protocols = Protocols::HTTP1.with_http2(settings.get::<Http2Settings>().http2).with_http3(http3);
        let TakesConnect(takes_connect) = *cx.extensions.get_or_default();
        let address = first_address(settings.get(), cx);
        let zone =
            settings.get::<StatusZoneSettings>().of_server(ServerKind::Http, &name, &address, node.name.place, cx);
        let server = Arc::new(Server { name, locations, entry, takes_connect, tls, protocols, alt_svc, zone });
        Ok((server, settings, ListenPlace::of(node)))
    }

    fn location(
        &self,
        node: &Node,
        siblings: &[Node],
        outer: Option<Outer<'_>>,
        parent: &SettingsSet,
        into: &mut Locations<Location>,
        cx: &mut Cx,
    ) -> Result<(), Problem> {
        let (kind, name) = match location::kind(node, cx) {
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
        location::root_and_alias(node, matches!(kind, Kind::Named), cx)?;
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
            Some(path) => {
                Some(Arc::new(Alias { path: path.0.clone(), prefix: (!is_regex).then(|| bytes_of(&name).into()) }))
            }
            None if node.children().iter().any(|child| child.name.text == "root") => None,
            None => outer.and_then(|outer| outer.alias.cloned()),
        };
        if matches!(kind, Kind::Prefix { .. }) {
            location::warn_of_way_out(node, &name, cx);
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
                "location" => {
                    self.location(block, node.children(), Some(inside), &settings, &mut within.nested, cx)?;
                }
                "if" => {
                    within.conditions.extend(self.condition(block, Contexts::LOCATION_IF, inside, &settings, cx)?);
                }
                "limit_except" if within.limit_except.is_some() => {
                    let first = node.children().iter().find(|other| other.name.text == "limit_except");
                    let first = first.map_or(Place::NONE, |first| first.name.place);
                    cx.report(Problem::duplicate(block).first_at(first))?;
                }
                "limit_except" => {
                    within.limit_except = self.limit_except(block, inside, &settings, cx)?;
                }
                _ => {}
            }
        }
        let mut location = self.compile(name.clone(), node.order, settings, within, cx)?;
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
            let problem = Problem::new(format!("duplicate location \"{name}\"")).at_node(node);
            let first = siblings.iter().find(|other| location::is_same(other, node));
            cx.report(problem.first_at(first.map_or(Place::NONE, |first| first.name.place)))?;
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
        let mut location = self.compile(outer.name.to_owned(), node.order, settings, inside, cx)?;
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
        let mut location = self.compile(outer.name.to_owned(), node.order, settings, inside, cx)?;
        location.alias = outer.alias.cloned();
        Ok(Some((methods.into(), Arc::new(location))))
    }

    /// The module that makes a level's content: the last of its own directives with such a module decides.
    fn content(&self, level: &Node) -> Option<&'static str> {
        let named = |name: &str| self.modules.iter().find(|module| module.content.contains(&name));
        level.children().iter().rev().find_map(|node| named(&node.name.text)).map(|module| module.name)
    }

    /// Makes a level of its parts. `order` is the position of its block in the configuration.
    fn compile(
        &self,
        name: String,
        order: u32,
        settings: SettingsSet,
        inside: Inside,
        cx: &mut Cx,
    ) -> Result<Location, Problem> {
        let mut handlers: Vec<(Handler, &'static str)> = Vec::new();
        let mut filters: Vec<Filter> = Vec::new();
        // The order of the directives that a `limit_except` inherits is lost: the first module of the list is taken
        // then, as in nginx.
        let mut content = inside.content;
        let mut has_content = false;
        for module in self.modules {
            let wanted = module.handlers.iter().filter(|handler| (handler.wanted)(&settings));
            let mut own = wanted.map(|handler| (*handler, module.name)).peekable();
            if module.content.is_empty() || own.peek().is_none() {
                handlers.extend(own);
            } else if *content.get_or_insert(module.name) == module.name {
                handlers.splice(..0, own);
                has_content = true;
            }
            filters.extend(module.filters.iter().filter(|filter| (filter.wanted)(&settings)));
        }
        if cx.extensions.get_or_default::<TellsOfHttp3>().0 {
            filters.push(alt_svc::FILTER);
        }
        settings.get::<CoreSettings>().client_body_temp_path.note(false, cx);
        self.block().settle(&settings, cx)?;
        // The sort is stable: the handler that makes the content stays before the others of its phase.
        handlers.sort_by_key(|(handler, _)| handler.phase);
        let (handlers, handler_modules): (Vec<Handler>, Vec<&'static str>) = handlers.into_iter().unzip();
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
            order,
            handlers: handlers.into(),
            handler_modules: handler_modules.into(),
            filters: filters.into(),
            script,
            limit_except: inside.limit_except,
            nested: inside.nested,
            alias: None,
            predicate: None,
            no_regex: false,
            internal,
            passes_on: false,
            has_content,
            zone,
            error_log: Default::default(),
        })
    }
}

/// The first address of a server.
fn first_address(settings: &ServerSettings, cx: &mut Cx) -> ListenSpec {
    let written = settings.listen.first().and_then(|listen| listen.specs.first());
    written.cloned().unwrap_or_else(|| default_listen(cx.extensions.get_or_default::<Paths>().privileged))
}

/// The sockets that the servers listen on, each with the servers of its addresses.
fn listens(servers: &[ServerInBlock], cx: &mut Cx) -> Result<Listens<Servers>, Problem> {
    let privileged = cx.extensions.get_or_default::<Paths>().privileged;
    let implied = |(.., written): &ServerInBlock| ListenSetting::implied(default_listen(privileged), *written);
    let implied: Vec<ListenSetting> = servers.iter().map(implied).collect();
    let planned = servers.iter().zip(&implied).map(|((server, settings, written), implied)| {
        let ServerSettings { listen, server_name, .. } = settings.get();
        let listens = if listen.is_empty() { std::slice::from_ref(implied) } else { &listen[..] };
        ServerPlan { server, listens, names: &server_name.names, written: *written }
    });
    let planned: Vec<_> = planned.collect();
    virtual_servers::listens(
        &planned,
        |server, listen| {
            if listen.quic {
                server.entry.settings.get::<Http3Settings>().alpn()
            } else {
                listen.versions.union(server.protocols).alpn().to_vec()
            }
        },
        |servers, listen| Servers { servers, protocols: listen.versions },
        cx,
    )
}
