//! The text of a configuration, read with all directives of `http`.

use std::sync::LazyLock;

use freerun_conf::{Contexts, Cx, Loader, Node, Problem, Registry, SettingsSet, apply_block, parse};
use freerun_http::build::{Builder, core_groups, structure};
use freerun_serve::build::blueprint::Blueprint;
use freerun_serve::configuration::parts::Paths;
use freerun_serve::listen::hosts::Hosts;
use freerun_serve::tls::files::{ConfigurationFiles, ReadFile, SecretFiles};

use crate::MODULES;
use crate::log::access::DefaultAccessLog;

/// The surroundings of a configuration, which a process has from its command line and from the system.
pub struct Surroundings<'a> {
    /// The name of the configuration's text, as `loader` and the messages know it.
    pub name: &'a str,
    /// The texts of the configuration.
    pub loader: &'a mut dyn Loader,
    /// The folders that relative paths begin at.
    pub paths: Paths,
    /// The path of the access log where the configuration has none.
    pub access_log: String,
    /// The addresses of hosts.
    pub hosts: Hosts,
    /// The function that reads certificates and keys.
    pub secrets: ReadFile,
}

/// A configuration that has been read.
pub struct ReadConfiguration {
    /// The settings of the main level.
    pub main: SettingsSet,
    /// The servers of `http`.
    pub blueprint: Blueprint,
}

/// The reason why a configuration is refused.
#[derive(Debug)]
pub struct ConfigurationRefusal {
    /// The error line in nginx's form.
    pub line: String,
    /// A hint for the user.
    pub hint: Option<String>,
}

/// Reads a configuration.
///
/// # Errors
/// The first problem of the configuration.
pub fn read(surroundings: Surroundings<'_>) -> Result<ReadConfiguration, ConfigurationRefusal> {
    let Surroundings { name, loader, paths, access_log, hosts, secrets } = surroundings;
    let tree = parse(name, None, &paths.conf_prefix, loader);
    let mut cx = Cx::new(tree.sources.clone());
    cx.extensions.insert(paths);
    cx.extensions.insert(DefaultAccessLog(access_log));
    cx.extensions.insert(hosts);
    cx.extensions.insert(ConfigurationFiles::reading(secrets, SecretFiles::default()));
    let built = build(&tree.nodes, &mut cx);
    cx.conclude(built, tree.error).map_err(|problems| ConfigurationRefusal {
        line: problems[0].first_line(&tree.sources),
        hint: problems[0].hint.clone(),
    })
}

/// Every directive of `http`, and those that stand beside that block.
fn registry() -> &'static Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
        let mut groups = core_groups();
        groups.extend(MODULES.iter().flat_map(|module| module.groups));
        Registry::new(&groups, &structure(MODULES)).expect("tables without a clash")
    });
    &REGISTRY
}

fn build(nodes: &[Node], cx: &mut Cx) -> Result<ReadConfiguration, Problem> {
    let builder = Builder { registry: registry(), modules: MODULES };
    builder.prepare(cx);
    let defaults = registry().defaults(cx)?;
    let (main, blocks) = apply_block(registry(), Contexts::MAIN, nodes, &defaults, cx)?;
    let blueprint = builder.build(&blocks, &main, cx)?;
    Ok(ReadConfiguration { main, blueprint })
}
