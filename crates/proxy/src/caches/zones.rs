//! The caches of a configuration: their declared zones, and the state that is kept from one configuration to the next.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use freerun_cache::cache::{Cache, CacheConfig, Pace};
use freerun_cache::key::Levels;
use freerun_conf::{Cx, Place, Problem, SettingsSet, bytes_of, path_of};
use freerun_http::module::Module;
use freerun_runtime::log::Level;
use freerun_serve::configuration::generation::Generation;
use freerun_serve::configuration::parts::Parts;
use freerun_serve::configuration::zones::ZoneTable;
use freerun_serve::loops::shared::SharedState;

use crate::caches::path;
use crate::caches::path::CachePath;

/// The size of the tier in memory without `memory=`, in bytes.
const USUAL_MEMORY: u64 = 32 << 20;

/// The module that opens the caches of a configuration. The members (`proxy_…`, `fastcgi_…`) have the directives.
pub static MODULE: Module = Module {
    name: "cache",
    finish: Some(finish),
    prepare: Some(prepare),
    leave: Some(leave),
    end: Some(end),
    ..Module::EMPTY
};

/// A cache as one configuration defines it.
#[derive(Debug, Clone)]
pub struct CacheDefinition {
    /// The settings of the directive.
    pub path: CachePath,
    /// The kind of the zone: `proxy_cache`.
    pub kind: &'static str,
    /// The part that is kept over reloads.
    pub folder: Arc<CacheFolder>,
    /// Place of the directive.
    pub place: Place,
}

/// A folder with its cache. It is kept from one configuration to the next as long as one of them names the folder.
#[derive(Debug)]
pub struct CacheFolder {
    levels: String,
    /// The cache.
    pub cache: Arc<Cache>,
}

/// All caches of the configuration that is being read; later a part of the generation.
#[derive(Debug, Clone, Default)]
pub struct Caches {
    list: Vec<CacheDefinition>,
    registry: Registry,
}

/// The caches by name, for names that variables give. It is filled when the whole configuration was read.
#[derive(Debug, Clone, Default)]
pub struct Registry(Arc<OnceLock<Vec<CacheDefinition>>>);

impl Registry {
    /// The cache with this name.
    pub fn find(&self, name: &[u8]) -> Option<&CacheDefinition> {
        self.0.get()?.iter().find(|cache| *bytes_of(&cache.path.name) == *name)
    }
}

impl Caches {
    /// The place in the configuration of the cache in this folder, if there is one.
    pub fn place_of(&self, path: &str) -> Option<Place> {
        self.list.iter().find(|cache| cache.path.path == path).map(|cache| cache.place)
    }

    /// Adds a cache.
    pub fn add(&mut self, cache: CacheDefinition) {
        self.list.push(cache);
    }

    /// The registry of names, which is filled later.
    pub fn registry(&self) -> Registry {
        self.registry.clone()
    }

    /// All caches, in order.
    pub fn iter(&self) -> impl Iterator<Item = &CacheDefinition> {
        self.list.iter()
    }

    /// A name that is similar to this one.
    pub fn near(&self, name: &str) -> Option<String> {
        freerun_conf::near(name, self.list.iter().map(|cache| cache.path.name.as_str())).map(str::to_owned)
    }
}

/// The kind of zone of a member's caches: `proxy_cache` for all directives of that member.
pub fn kind(directive: &str) -> &'static str {
    match directive.split('_').next() {
        Some("fastcgi") => "fastcgi_cache",
        Some("uwsgi") => "uwsgi_cache",
        Some("scgi") => "scgi_cache",
        _ => "proxy_cache",
    }
}

/// The cache of the folder in the running configuration, or a new one.
///
/// # Errors
/// The names of its files would change.
pub fn cache_folder(table: &mut ZoneTable, read: &CachePath) -> Result<Arc<CacheFolder>, Problem> {
    let folder = table
        .keep(&read.path, || CacheFolder { levels: read.levels.clone(), cache: Arc::new(Cache::new(config(read))) });
    if folder.levels != read.levels {
        return Err(Problem::new(format!("cache \"{}\" had previously different levels", read.name)));
    }
    Ok(folder)
}

fn pace(pace: &path::CachePace) -> Pace {
    let path::CachePace { files, sleep, threshold } = *pace;
    Pace { files: u32::try_from(files).unwrap_or(u32::MAX), sleep, threshold }
}

/// The settings in the form that the cache takes.
fn config(read: &CachePath) -> CacheConfig {
    CacheConfig {
        name: read.name.as_str().into(),
        path: path_of(&read.path).into_owned(),
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
    // Only this call fills it.
    let _ = caches.registry.0.set(caches.list.clone());
    cx.extensions.get_or_default::<Parts>().insert(Arc::new(caches));
    Ok(())
}

/// The longest wait of the end of the process for the caches. Entries that are not written then are found by looking
/// through their folders.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// Leaves the caches to another process: what comes from here on is passed on without being stored, and what is stored goes on
/// being sent.
fn leave(generation: &Generation) {
    for defined in generation.parts.get::<Caches>().iter().flat_map(|caches| caches.iter()) {
        defined.folder.cache.stop(Duration::ZERO);
    }
}

/// Makes all caches write their index, all at the same time.
fn end(generation: &Generation) {
    let Some(caches) = generation.parts.get::<Caches>() else { return };
    for defined in caches.iter() {
        defined.folder.cache.stop(Duration::ZERO);
    }
    let deadline = Instant::now() + END_PATIENCE;
    for defined in caches.iter() {
        defined.folder.cache.stop(deadline.saturating_duration_since(Instant::now()));
    }
}

/// The longest wait of a start for the caches, all together. Small ones are loaded in that time.
const START_PATIENCE: Duration = Duration::from_secs(1);

/// Starts new caches, and passes the new settings to the others.
fn prepare(generation: &Arc<Generation>, _: &Arc<SharedState>) {
    let Some(caches) = generation.parts.get::<Caches>() else { return };
    let mut new = Vec::new();
    for defined in caches.iter() {
        let log = generation.error_log.clone();
        let name = defined.path.name.clone();
        let tell: freerun_cache::cache::Tell = Arc::new(move |level: Level, text: &str| {
            log.write(level, None, format_args!("cache \"{name}\": {text}"));
        });
        let cache = &defined.folder.cache;
        cache.attach(generation.files.clone(), generation.pools.default().clone());
        match cache.begin(config(&defined.path), tell) {
            Ok(true) => new.push(cache),
            Ok(false) => {}
            Err(error) => {
                let told = format_args!("cache \"{}\" cannot be started: {error}", defined.path.name);
                generation.error_log.write(Level::Alert, None, told);
            }
        }
    }
    let deadline = Instant::now() + START_PATIENCE;
    for cache in new {
        cache.wait_loaded(deadline.saturating_duration_since(Instant::now()));
    }
}
