//! From the tree of a configuration to the part of a blueprint that is stream's: levels are merged, addresses gathered.

use std::sync::Arc;

use freerun_conf::{Contexts, Cx, Directive, Group, Node, Problem, Registry, SettingsSet, Shape, apply_block, group};
use freerun_serve::build::names::virtual_servers::{self, ServerPlan};
use freerun_serve::build::{self, ServiceBlock};
use freerun_serve::configuration::parts::Parts;
use freerun_serve::listen::ListenSpec;
use freerun_serve::listen::generation_sockets::Listens;
use freerun_serve::listen::setting::ListenPlace;
use freerun_serve::loops::figures::zones::{ServerKind, StatusZoneSettings};
use freerun_serve::tls::client_facts::HELLO_VARIABLES;
use freerun_serve::tls::sessions::ServedTls;
use freerun_serve::values::{Variable, VariableTable};

use crate::module::{Module, SessionPath};
use crate::session::Session;
use crate::session::generation::{SessionServers, StreamConfiguration};
use crate::session::handler::ContentHandler;
use crate::session::server::SessionServer;
use crate::settings::core::CoreSettings;
use crate::settings::ssl::{self, SslSettings};
use crate::variables::CORE_VARIABLES;

/// The block directives that this file walks.
pub static STRUCTURE: &[Directive] = &[
    Directive::structural(
        "stream",
        Contexts::MAIN,
        Shape::exactly(0, "").with_block(Contexts::STREAM),
        "Everything about sessions of TCP and UDP.",
    ),
    Directive::structural(
        "server",
        Contexts::STREAM,
        Shape::exactly(0, "").with_block(Contexts::STREAM_SERVER),
        "A virtual server for sessions, chosen by address and, if the client says it in TLS, by name. It needs `listen`, and a \
         directive for what is done with its sessions, such as `proxy_pass`: without one they end with status 500.",
    ),
];

/// The groups of settings of the path itself; the groups of modules come with the modules. Those that http has too, of
/// `error_log` and `resolver`, come with http.
pub fn core_groups() -> Vec<&'static dyn Group> {
    vec![group::<CoreSettings>(), group::<SslSettings>()]
}

/// All structural directives: those that this file walks and the modules' blocks.
pub fn structure(modules: &[&Module]) -> Vec<Directive> {
    build::structure(STRUCTURE, modules)
}

/// Reads a `stream` block.
pub struct Builder<'a> {
    /// All directives of the program.
    pub registry: &'a Registry,
    /// The modules, in order.
    pub modules: &'a [&'static Module],
}

/// A server, and the place of its block.
type ServerInBlock = (Arc<SessionServer>, ListenPlace);

/// All variables of the core and of the modules that a configuration may name, each table with the name of its module.
/// Of variables with the same name the last one counts.
pub fn variables<'m>(
    modules: &'m [&Module],
) -> impl Iterator<Item = (&'static str, &'static [Variable<Session>])> + 'm {
    build::variables(CORE_VARIABLES, modules)
}

impl Builder<'_> {
    fn block(&self) -> ServiceBlock<'_, SessionPath> {
        ServiceBlock { registry: self.registry, modules: self.modules }
    }

    /// Makes the variables of the core and of the modules known. It has to be called before any directive is read.
    pub fn prepare(&self, cx: &mut Cx) {
        build::add_variables(CORE_VARIABLES, self.modules, cx);
    }

    /// Reads what a configuration says of stream, which becomes one of its [`Parts`], and gives its listening sockets.
    /// `nodes` are the `stream` blocks of the main level (at most one is allowed), `main` the settings of that level.
    ///
    /// # Errors
    /// The first problem that makes further reading useless; other problems are reported to `cx`.
    pub fn read(&self, nodes: &[&Node], main: &SettingsSet, cx: &mut Cx) -> Result<Vec<Arc<ListenSpec>>, Problem> {
        let block = self.block();
        let mut planned = Vec::new();
        if let Some(stream) = block.begin(nodes, cx)? {
            let (settings, blocks) = apply_block(self.registry, Contexts::STREAM, stream.children(), main, cx)?;
            for node in blocks {
                match node.name.text.as_str() {
                    "server" => planned.extend(self.server(node, &settings, cx)?),
                    _ => block.module_block(node, &settings, cx)?,
                }
            }
            block.finish(&settings, cx)?;
        }
        let listens = listens(&planned, cx)?;
        let undefined = cx.extensions.get_or_default::<VariableTable<Session>>().check();
        undefined.into_iter().try_for_each(|problem| cx.report(problem))?;
        let variables = cx.extensions.remove::<VariableTable<Session>>().unwrap_or_default();
        let keeps_hello = HELLO_VARIABLES.iter().any(|name| variables.uses_family(name));
        let listeners = listens.iter().map(|listen| listen.spec.clone()).collect();
        let parts = cx.extensions.get_or_default::<Parts>();
        ServedTls::add(parts, listens.iter().flat_map(|listen| listen.all()).flat_map(|servers| &servers.all));
        parts.insert(Arc::new(StreamConfiguration { listens, keeps_hello }));
        Ok(listeners)
    }

    /// Reads a server; `None` if it cannot be one, which is reported.
    fn server(&self, node: &Node, parent: &SettingsSet, cx: &mut Cx) -> Result<Option<ServerInBlock>, Problem> {
        let (settings, _) = apply_block(self.registry, Contexts::STREAM_SERVER, node.children(), parent, cx)?;
        self.block().settle(&settings, cx)?;
        if settings.get::<CoreSettings>().listen.is_empty() && !node.children().iter().any(is_listen) {
            // nginx finds it out at the end of the block, and names the line where that begins.
            let problem = Problem::new("no \"listen\" is defined for server");
            let mut problem = problem.reported_at(node.name.place).at(node.name.place);
            problem.order = Some(last_order(node));
            cx.report(problem)?;
            return Ok(None);
        }
        let tls = self.block().tls(ssl::server_tls(&settings, cx), cx)?;
        let name = settings.get::<CoreSettings>().server_name.first.clone();
        let handlers = self.modules.iter().flat_map(|module| module.handlers).copied();
        let address = settings.get::<CoreSettings>().listen.first().and_then(|listen| listen.specs.first()).cloned();
        // A server without an address is reported, and never serves.
        let zone = address.and_then(|address| {
            settings.get::<StatusZoneSettings>().of_server(ServerKind::Stream, &name, &address, node.name.place, cx)
        });
        let named = (name, node.order);
        let server = Arc::new(SessionServer::new(named, settings, tls, self.content(node), handlers, zone));
        Ok(Some((server, ListenPlace::of(node))))
    }

    /// The content handler of a server: its last directive that chooses one decides.
    fn content(&self, server: &Node) -> Option<ContentHandler> {
        let all = || self.modules.iter().flat_map(|module| module.content);
        let of = |node: &Node| all().find(|content| content.directive == node.name.text).copied();
        server.children().iter().rev().find_map(of)
    }
}

/// The sockets that the servers listen on, each with the servers of its addresses.
fn listens(servers: &[ServerInBlock], cx: &mut Cx) -> Result<Listens<SessionServers>, Problem> {
    let planned = servers.iter().map(|(server, written)| {
        let CoreSettings { listen, server_name, .. } = server.settings.get();
        ServerPlan { server, listens: listen, names: &server_name.names, written: *written }
    });
    let planned: Vec<_> = planned.collect();
    virtual_servers::listens(
        &planned,
        |server, _| server.settings.get::<SslSettings>().alpn(),
        |servers, _| servers,
        cx,
    )
}

/// The position of the last directive in a block.
fn last_order(node: &Node) -> u32 {
    node.children().last().map_or(node.order, last_order)
}

/// Whether the directive is a `listen`, even if it cannot be understood.
fn is_listen(node: &Node) -> bool {
    node.name.text == "listen"
}
