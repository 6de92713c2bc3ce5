//! The caches of a configuration: what their zones declare, and what goes on from one configuration to the next.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use freerun_cache::cache::{Cache, CacheConfig, Pace};
use freerun_cache::key::Levels;
use freerun_conf::{Cx, Place, Problem, SettingsSet};
use freerun_http::module::Module;
use freerun_http::zones::ZoneTable;
use freerun_runtime::log::Level;
use freerun_serve::generation::Generation;
use freerun_serve::parts::Parts;
use freerun_serve::shared::Shared;

use crate::caches::path;
use crate::caches::path::CachePath;

/// What is kept in memory where `memory=` does not say it, in bytes.
const USUAL_MEMORY: u64 = 32 << 20;

/// Opens the caches of a configuration. The directives are those of the members.
pub static MODULE: Module =
    Module { name: "cache", finish: Some(finish), prepare: Some(prepare), end: Some(end), ..Module::EMPTY };

/// A cache, as one configuration defines it.
#[derive(Debug, Clone)]
pub struct Defined {
    /// What the directive says.
    pub path: CachePath,
    /// What sort of zone it is: `proxy_cache`.
    pub kind: &'static str,
    /// What goes on.
    pub home: Arc<Home>,
    /// Where the directive stands.
    pub place: Place,
}

/// A folder with its cache. It goes on from one configuration to the next as long as one of them names the folder.
#[derive(Debug)]
pub struct Home {
    levels: String,
    /// The cache.
    pub cache: Arc<Cache>,
}

/// All caches of the configuration that is being read; then, as a part of the generation, of that.
#[derive(Debug, Clone, Default)]
pub struct Caches {
    list: Vec<Defined>,
    registry: Registry,
}

/// The caches by their names, for names that variables give: filled when all of the configuration was read.
#[derive(Debug, Clone, Default)]
pub struct Registry(Arc<OnceLock<Vec<Defined>>>);

impl Registry {
    /// The cache of this name.
    pub fn find(&self, name: &[u8]) -> Option<&Defined> {
        self.0.get()?.iter().find(|cache| cache.path.name.as_bytes() == name)
    }
}

impl Caches {
    /// Where the cache of this folder stands, if there is one.
    pub fn place_of(&self, path: &str) -> Option<Place> {
        self.list.iter().find(|cache| cache.path.path == path).map(|cache| cache.place)
    }

    /// Adds one.
    pub fn add(&mut self, cache: Defined) {
        self.list.push(cache);
    }

    /// The names, as they are known later.
    pub fn registry(&self) -> Registry {
        self.registry.clone()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Defined> {
        self.list.iter()
    }

    /// A name that looks like this one.
    pub fn near(&self, name: &str) -> Option<String> {
        freerun_conf::near(name, self.list.iter().map(|cache| cache.path.name.as_str())).map(str::to_owned)
    }
}

/// What sort of zone the caches of a member are: `proxy_cache` for all directives that speak of it.
pub fn kind(directive: &str) -> &'static str {
    match directive.split('_').next() {
        Some("fastcgi") => "fastcgi_cache",
        Some("uwsgi") => "uwsgi_cache",
        Some("scgi") => "scgi_cache",
        _ => "proxy_cache",
    }
}

/// What goes on of the folder, or a beginning.
///
/// # Errors
/// The names of its files would change.
pub fn home(table: &mut ZoneTable, read: &CachePath) -> Result<Arc<Home>, Problem> {
    let home =
        table.keep(&read.path, || Home { levels: read.levels.clone(), cache: Arc::new(Cache::new(config(read))) });
    if home.levels != read.levels {
        return Err(Problem::new(format!("cache \"{}\" had previously different levels", read.name)));
    }
    Ok(home)
}

fn pace(pace: &path::Pace) -> Pace {
    let path::Pace { files, sleep, threshold } = *pace;
    Pace { files: u32::try_from(files).unwrap_or(u32::MAX), sleep, threshold }
}

/// As the cache knows it.
fn config(read: &CachePath) -> CacheConfig {
    CacheConfig {
        name: read.name.as_str().into(),
        path: PathBuf::from(&read.path),
        levels: Levels::parse(&read.levels).unwrap_or_default(),
        zone_size: read.zone_size,
        max_size: read.max_size.unwrap_or(u64::MAX),
        min_free: read.min_free,
        inactive: u32::try_from(read.inactive).unwrap_or(u32::MAX),
        memory: read.memory.unwrap_or(USUAL_MEMORY),
        manager: pace(&read.manager),
        loader: pace(&read.loader),
        purger: read.purger.as_ref().map(pace).unwrap_or_default(),
    }
}

fn finish(_: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let caches = cx.extensions.get_or_default::<Caches>().clone();
    // Nobody else fills it.
    let _ = caches.registry.0.set(caches.list.clone());
    cx.extensions.get_or_default::<Parts>().insert(Arc::new(caches));
    Ok(())
}

/// How long the end waits for the caches: what is not written down by then is found by looking through their folders.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// Has the caches write down what they have, all at the same time.
fn end(generation: &Generation) {
    let Some(caches) = generation.parts.get::<Caches>() else { return };
    for defined in caches.iter() {
        defined.home.cache.stop(Duration::ZERO);
    }
    let deadline = Instant::now() + END_PATIENCE;
    for defined in caches.iter() {
        defined.home.cache.stop(deadline.saturating_duration_since(Instant::now()));
    }
}

/// Starts what is new, and tells the others what the configuration says now.
fn prepare(generation: &Arc<Generation>, _: &Arc<Shared>) {
    let Some(caches) = generation.parts.get::<Caches>() else { return };
    for defined in caches.iter() {
        let log = generation.error_log.clone();
        let name = defined.path.name.clone();
        let tell: freerun_cache::cache::Tell = Arc::new(move |level: Level, text: &str| {
            log.write(level, None, format_args!("cache \"{name}\": {text}"));
        });
        let cache = &defined.home.cache;
        cache.attach(generation.files.clone(), generation.pools.default().clone(), tell.clone());
        if let Err(error) = cache.start(config(&defined.path), tell) {
            let name = &defined.path.name;
            generation.error_log.write(Level::Alert, None, format_args!("cache \"{name}\" cannot be started: {error}"));
        }
    }
}
