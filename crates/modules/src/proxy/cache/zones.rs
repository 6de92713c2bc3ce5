//! The caches of a configuration: what their zones declare, and what goes on from one configuration to the next.

use std::sync::Arc;

use freerun_conf::{Place, Problem};
use freerun_http::zones::ZoneTable;

use super::path::CachePath;

/// A cache, as one configuration defines it.
#[derive(Debug, Clone)]
pub struct Defined {
    /// What the directive says.
    pub path: CachePath,
    /// What goes on.
    pub home: Arc<Home>,
    /// Where the directive stands.
    pub place: Place,
}

/// A folder with its cache. It goes on from one configuration to the next as long as one of them names the folder.
#[derive(Debug)]
pub struct Home {
    levels: String,
}

/// All caches of the configuration that is being read; then of the generation.
#[derive(Debug, Clone, Default)]
pub struct Caches(Vec<Defined>);

impl Caches {
    /// Where the cache of this folder stands, if there is one.
    pub fn place_of(&self, path: &str) -> Option<Place> {
        self.0.iter().find(|cache| cache.path.path == path).map(|cache| cache.place)
    }

    /// Adds one.
    pub fn add(&mut self, cache: Defined) {
        self.0.push(cache);
    }

    /// The cache of this name.
    pub fn find(&self, name: &[u8]) -> Option<&Defined> {
        self.0.iter().find(|cache| cache.path.name.as_bytes() == name)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Defined> {
        self.0.iter()
    }

    /// A name that looks like this one.
    pub fn near(&self, name: &str) -> Option<String> {
        freerun_conf::near(name, self.0.iter().map(|cache| cache.path.name.as_str())).map(str::to_owned)
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
    let home = table.keep(&read.path, || Home { levels: read.levels.clone() });
    if home.levels != read.levels {
        return Err(Problem::new(format!("cache \"{}\" had previously different levels", read.name)));
    }
    Ok(home)
}
