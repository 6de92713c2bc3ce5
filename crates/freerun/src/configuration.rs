//! From texts to a configuration: the steps that master and worker both do with the same bytes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use freerun_conf::{
    Contexts, Cx, Diagnostics, Directive, Loader, Node, Problem, Registry, SettingsSet, Sources, Tree, apply_block,
    group,
};
use freerun_http::build::Builder;
use freerun_http::module::Module;
use freerun_http::values::aio::ThreadPools;
use freerun_modules::log::access::DefaultAccessLog;
use freerun_runtime::log::{ErrorLog, Level, LogFile};
use freerun_runtime::pool::PoolSpec;
use freerun_serve::build::blueprint::Blueprint;
use freerun_serve::build::module::Hooks;
use freerun_serve::configuration::object_places::{ObjectPlaces, WantsObjectPlaces};
use freerun_serve::configuration::parts::{Parts, Paths};
use freerun_serve::configuration::zones::{ZoneTable, Zones};
use freerun_serve::listen::hosts::Hosts;
use freerun_serve::logs::ErrorLogSettings;
use freerun_serve::logs::syslog::HostCheck;
use freerun_serve::tls::files::{ConfigurationFiles, ReadFile, SecretFiles};
use freerun_serve::tls::inherited_pairs::{Inheritance, InheritedPairs};
use freerun_serve::tls::live::{FilePair, file_pairs};

use crate::settings::events::EventSettings;
use crate::settings::main::MainSettings;
use crate::settings::user::{Identity, NoLookup, default_identity};
use crate::source::Input;
use crate::source::state_files::{self, Unusable};

/// The process that reads the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The master, which may look up users and report warnings.
    Master,
    /// The worker, which reads the texts that the master has read.
    Worker,
}

/// A valid configuration.
pub struct Configuration {
    /// The texts.
    pub sources: Sources,
    /// The settings of the main level and of `events`.
    pub settings: SettingsSet,
    /// Every log file, in the order in which settings refer to them by index; the default error log, if it is used,
    /// comes last, unless it is listed anyway.
    pub logs: Vec<String>,
    /// The name of the error log that is used if none is configured.
    default_log: String,
    /// The blueprint that the blocks `http` and `stream` make.
    pub blueprint: Blueprint,
    /// The pools that `thread_pool` defines.
    pub pools: Vec<PoolSpec>,
    /// The folder that relative paths start from.
    pub prefix: String,
    /// The addresses of the hosts in the configuration that are needed at once.
    pub hosts: BTreeMap<String, Vec<IpAddr>>,
    /// The files of TLS that the configuration names.
    pub secrets: SecretFiles,
    /// The certificates with their keys that are made of these files.
    pub pairs: Vec<FilePair>,
    /// The same as objects, for the next configuration.
    pub inherited: InheritedPairs,
    /// The reasons why the present texts of state files are not used: the worker uses the texts that the master read.
    pub unusable_states: Vec<String>,
    /// The warnings.
    pub warnings: Vec<Problem>,
}

/// The result of reading an invalid configuration.
pub struct Failure {
    /// The texts, as far as they were read.
    pub sources: Sources,
    /// The warnings before the problems.
    pub warnings: Vec<Problem>,
    /// The problems; the first is the problem that nginx would report first.
    pub problems: Diagnostics,
    /// Whether the syntax is valid, so that `-t` reports that before the problem.
    pub syntax_ok: bool,
}

/// Every directive of the program.
pub fn registry() -> &'static Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
        let mut groups = vec![group::<MainSettings>(), group::<EventSettings>()];
        groups.extend(freerun_http::build::core_groups());
        groups.extend(modules().iter().flat_map(|module| module.groups));
        groups.extend(freerun_stream::build::core_groups());
        groups.extend(stream_modules().iter().flat_map(|module| module.groups));
        let mut structure: Vec<Directive> = crate::settings::STRUCTURE.to_vec();
        structure.extend(freerun_http::build::structure(modules()));
        structure.extend(freerun_stream::build::structure(stream_modules()));
        // The tables are constants; a test builds the registry, so a clash cannot reach a release.
        Registry::new(&groups, &structure).unwrap_or_else(|problem| panic!("directive tables: {problem}"))
    });
    &REGISTRY
}

/// The http modules, in order.
pub fn modules() -> &'static [&'static Module] {
    freerun_modules::MODULES
}

/// The modules of stream, in order.
pub fn stream_modules() -> &'static [&'static freerun_stream::module::Module] {
    freerun_stream::modules::MODULES
}

/// Functions that the modules of all services have called while the worker lives, in the order of the services and of
/// their modules.
pub fn hooks() -> impl Iterator<Item = Hooks> {
    let http = modules().iter().map(|module| module.hooks());
    http.chain(stream_modules().iter().map(|module| module.hooks()))
}

/// Reads a configuration and builds all parts of it that need no sockets, files or threads.
pub fn read(input: &Input, loader: &mut dyn Loader, side: Side) -> Result<Configuration, Box<Failure>> {
    read_after(input, loader, side, KnownFacts::default(), Zones::default())
}

/// The path of the pid file that a configuration names which cannot be used otherwise. `None`: there is none, or it may stand
/// behind an error of the syntax.
pub fn pid_path(input: &Input, loader: &mut dyn Loader) -> Option<String> {
    let tree = freerun_conf::parse(&input.conf, input.globals.as_deref(), &input.conf_prefix, loader);
    let mut named = tree.nodes.into_iter().filter(|node| node.name.text == "pid").peekable();
    if named.peek().is_none() && tree.error.is_some() {
        return None;
    }
    let nodes: Vec<Node> = named.take(1).collect();
    let mut cx = Cx::new(tree.sources);
    let defaults = registry().defaults(&mut cx).ok()?;
    let (settings, _) = apply_block(registry(), Contexts::MAIN, &nodes, &defaults, &mut cx).ok()?;
    settings.get::<MainSettings>().pid_path(&input.prefix).filter(|_| !cx.has_problems())
}

/// Facts from outside of the configuration's texts that are known beforehand.
#[derive(Debug, Default)]
pub struct KnownFacts {
    /// The addresses of hosts.
    pub hosts: BTreeMap<String, Vec<IpAddr>>,
    /// The files of TLS. The worker has the files that the master read; the master has the files of the configuration
    /// before, and reads again what has been modified.
    pub secrets: SecretFiles,
    /// The reader of the files of TLS in the master, if they are not on the disk.
    pub read: Option<ReadFile>,
    /// The certificates with their keys that the configuration before has used.
    pub inherited: InheritedPairs,
    /// The function that the master looks names up with, if it is not the system's.
    pub lookup: Option<fn(&str) -> Vec<IpAddr>>,
}

/// Reads a configuration like [`read`], with what is `known` beforehand, after a configuration that has these
/// zones: zones in both keep their state.
pub fn read_after(
    input: &Input,
    loader: &mut dyn Loader,
    side: Side,
    known: KnownFacts,
    zones: Zones,
) -> Result<Configuration, Box<Failure>> {
    let tree = freerun_conf::parse(&input.conf, input.globals.as_deref(), &input.conf_prefix, loader);
    build_tree(input, tree, loader, side, known, zones)
}

/// The second half of [`read_after`]: builds the parts of a configuration whose texts have been read.
pub fn build_tree(
    input: &Input,
    mut tree: Tree,
    loader: &mut dyn Loader,
    side: Side,
    known: KnownFacts,
    zones: Zones,
) -> Result<Configuration, Box<Failure>> {
    let mut cx = Cx::new(tree.sources.clone());
    cx.extensions.insert(Paths {
        prefix: input.prefix.clone(),
        conf_prefix: input.conf_prefix.clone(),
        serves: side == Side::Worker,
        privileged: input.privileged,
    });
    cx.extensions.insert(DefaultAccessLog(crate::paths::HTTP_LOG_PATH.to_owned()));
    cx.extensions.insert(ZoneTable::seeded(zones));
    let KnownFacts { hosts, secrets, read, inherited, lookup } = known;
    cx.extensions.insert(Inheritance::after(inherited));
    let read = read.unwrap_or_else(|| ReadFile(Arc::new(crate::source::loader::read_secret)));
    let is_master = side == Side::Master;
    let asks_system = lookup.is_none();
    let lookup = lookup.unwrap_or(crate::source::hosts::lookup);
    cx.extensions.insert(Hosts { lookup: is_master.then_some(lookup), known: hosts });
    cx.extensions.insert(match side {
        Side::Master => ConfigurationFiles::reading(read, secrets),
        Side::Worker => ConfigurationFiles::known(secrets),
    });
    match side {
        Side::Worker => drop(cx.extensions.insert(NoLookup)),
        Side::Master if asks_system => drop(cx.extensions.insert(HostCheck(crate::source::hosts::has_address))),
        Side::Master => {}
    }
    let now: Option<state_files::ReadText> = (!is_master).then_some(crate::source::loader::read_text);
    let inserted = state_files::insert(&mut tree.nodes, (loader, now), &mut cx);
    let built = inserted.and_then(|()| build(&tree.nodes, &mut cx));
    let syntax_ok = tree.error.is_none() && !cx.has_problems();
    let concluded = cx.conclude(built, tree.error);
    match concluded {
        Ok(ConfigurationParts { settings, blueprint, pools }) => {
            let mut logs = blueprint.log_paths.clone();
            // The default log is not opened if it is not used: a daemon must release its caller's stderr.
            let default_used = settings.get::<ErrorLogSettings>().error_log.is_empty();
            if default_used && !logs.contains(&input.error_log) {
                logs.push(input.error_log.clone());
            }
            let default_log = input.error_log.clone();
            let prefix = input.prefix.clone();
            let hosts = cx.extensions.remove::<Hosts>().unwrap_or_default().known;
            let secrets = cx.extensions.remove::<ConfigurationFiles>().unwrap_or_default().known;
            let pairs = file_pairs(&mut cx);
            let inherited = cx.extensions.remove::<Inheritance>().unwrap_or_default().finish();
            let unusable_states = cx.extensions.remove::<Unusable>().unwrap_or_default().0;
            let (sources, warnings) = (cx.sources, cx.warnings);
            Ok(Configuration {
                sources,
                settings,
                logs,
                default_log,
                blueprint,
                pools,
                prefix,
                hosts,
                secrets,
                pairs,
                inherited,
                unusable_states,
                warnings,
            })
        }
        Err(problems) => Err(Box::new(Failure { sources: cx.sources, warnings: cx.warnings, problems, syntax_ok })),
    }
}

struct ConfigurationParts {
    settings: SettingsSet,
    blueprint: Blueprint,
    pools: Vec<PoolSpec>,
}

fn build(nodes: &[Node], cx: &mut Cx) -> Result<ConfigurationParts, Problem> {
    let registry = registry();
    let http = Builder { registry, modules: modules() };
    http.prepare(cx);
    let stream = freerun_stream::build::Builder { registry, modules: stream_modules() };
    stream.prepare(cx);
    let defaults = registry.defaults(cx)?;
    let (mut settings, blocks) = apply_block(registry, Contexts::MAIN, nodes, &defaults, cx)?;
    let pools: Vec<PoolSpec> = settings.get::<MainSettings>().thread_pool.iter().map(pool_spec).collect();
    cx.extensions.get_or_default::<ThreadPools>().defined = pools.clone();
    if !settings.get::<MainSettings>().ssl_object_cache_inheritable {
        cx.extensions.get_or_default::<ConfigurationFiles>().earlier.clear();
    }
    let first_block = blocks.iter().map(|block| block.order).min().unwrap_or(u32::MAX);
    for late in settings.get::<MainSettings>().load_module.iter().filter(|load| load.order > first_block) {
        cx.report(late.too_late())?;
    }
    let named = |name: &str| blocks.iter().copied().filter(|node| node.name.text == name).collect::<Vec<&Node>>();
    let events = named("events");
    if let Some(second) = events.get(1) {
        cx.report(Problem::duplicate(second).first_at(events[0].name.place))?;
    }
    if let Some(block) = events.first() {
        settings = apply_block(registry, Contexts::EVENTS, block.children(), &settings, cx)?.0;
    }
    let mut listeners = http.read(&named("http"), &settings, cx)?;
    listeners.extend(stream.read(&named("stream"), &settings, cx)?);
    let mut places = cx.extensions.remove::<ObjectPlaces>().unwrap_or_default();
    if cx.extensions.remove::<WantsObjectPlaces>().is_some_and(|wants| wants.0) {
        places.note_all(nodes, cx.extensions.get_or_default::<Paths>(), &cx.sources);
        cx.extensions.get_or_default::<Parts>().insert(Arc::new(places));
    }
    let blueprint = Blueprint::gather(listeners, cx)?;
    if events.is_empty() {
        return Err(Problem::new("no \"events\" section in configuration").hint("add the line: events {}"));
    }
    Ok(ConfigurationParts { settings, blueprint, pools })
}

fn pool_spec(pool: &crate::settings::main::Pool) -> PoolSpec {
    PoolSpec { name: pool.name.clone(), threads: pool.threads, max_queue: pool.max_queue }
}

impl Configuration {
    /// The settings of the main level.
    pub fn main(&self) -> &MainSettings {
        self.settings.get()
    }

    /// The settings of `events`.
    pub fn events(&self) -> &EventSettings {
        self.settings.get()
    }

    /// The user and groups of the worker; `None`: the same as the master's.
    pub fn identity(&self) -> Result<Option<Identity>, String> {
        match &self.main().user {
            Some(user) => Ok(user.identity.clone()),
            None => default_identity(),
        }
    }

    /// The error log of the main level. `files` are the open [`Configuration::logs`].
    pub fn error_log(&self, files: &[LogFile]) -> ErrorLog {
        let written = &self.settings.get::<ErrorLogSettings>().error_log;
        if written.is_empty() {
            let default = self.logs.iter().zip(files).find(|(name, _)| **name == self.default_log);
            return ErrorLog::new(
                default.map(|(_, file)| (file.clone(), Level::Error)).into_iter().collect::<Vec<_>>(),
            );
        }
        ErrorLog::new(written.iter().filter_map(|target| target.open(files)).collect())
    }

    /// The names of the files of the main level's error log.
    pub fn error_log_names(&self) -> Vec<String> {
        let written = &self.settings.get::<ErrorLogSettings>().error_log;
        if written.is_empty() {
            vec![self.default_log.clone()]
        } else {
            written.iter().filter_map(|target| self.logs.get(target.log).cloned()).collect()
        }
    }
}
