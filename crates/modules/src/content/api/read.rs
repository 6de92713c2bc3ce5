//! Reading by the API: the object at a path.

use std::sync::Arc;

use freerun_cache::cache::Cache;
use freerun_cache::usage::CacheStatus;
use freerun_proxy::cached::clock::unix_now;
use freerun_proxy::caches::zones::Caches;
use freerun_runtime::log::clock;
use freerun_serve::configuration::generation::Generation;
use freerun_serve::loops::figures::limits::{ByName as Limits, LimitFigures, LimitZones};
use freerun_serve::loops::figures::zones::{StatusZones, ZoneFigures, ZonesByName as Zones};
use freerun_serve::loops::shared::SharedState;
use freerun_serve::upstream::resolver::ZonedResolvers;
use freerun_serve::upstream::{AnyGroup, GroupsByProtocol};
use freerun_serve::values::keyvals::{AllKeyvals, KeyvalsByName, PairRefusal};
use freerun_upstream::now;
use serde_json::{Value, json};

use super::counters::{self, Sums};
use super::error::ApiError;
use super::object::{FieldsOf, Object, timestamp};
use super::upstreams::{self, Protocol};
use crate::content::answer_size::zones_and_servers;
use crate::content::described::HasApiMembers;
use crate::content::status::caches::CacheFigures;
use crate::content::status::cluster;

/// The versions of the API. All are answered in the shape of the last version.
pub const VERSIONS: std::ops::RangeInclusive<u8> = 1..=9;

/// The children of the root.
const ROOT: [&str; 8] = ["nginx", "processes", "connections", "slabs", "http", "resolvers", "ssl", "workers"];

/// The children of `http`.
const HTTP: [&str; 8] =
    ["requests", "server_zones", "location_zones", "caches", "limit_conns", "limit_reqs", "upstreams", "keyvals"];

/// The children of `stream`.
const STREAM: [&str; 4] = ["server_zones", "limit_conns", "upstreams", "keyvals"];

/// The state that answers are made of.
#[derive(Clone)]
pub struct ApiState {
    /// The state of the worker.
    pub shared: Arc<SharedState>,
    /// The configuration that serves.
    pub generation: Arc<Generation>,
    /// The address that the request has come to.
    pub address: String,
}

impl ApiState {
    fn part<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.generation.parts.get::<T>().unwrap_or_default()
    }

    /// The number of objects that a long answer may have.
    pub fn size(&self) -> usize {
        let pairs = self.part::<AllKeyvals>();
        let pairs: usize = pairs.http.values().chain(&mut pairs.stream.values()).map(|zone| zone.pairs.len()).sum();
        pairs + zones_and_servers(&self.generation)
    }

    /// Whether the configuration has a block `stream`, or a cluster, which is below it in NGINX Plus.
    fn has_stream(&self) -> bool {
        cluster::report(&self.generation).is_some()
            || self.part::<GroupsByProtocol>().of(Protocol::Stream.name()).is_some()
    }

    /// The object at this path behind the version, with all of its fields; of pairs only the one with `key`.
    ///
    /// # Errors
    /// There is nothing, or nothing of this name.
    pub fn object(&self, path: &[&str], key: Option<&str>) -> Result<Object, ApiError> {
        match path {
            [] => {
                let children = ROOT.into_iter().chain(self.has_stream().then_some("stream"));
                Ok(Object::whole(children.collect()))
            }
            ["nginx"] => Ok(Object::one(self.nginx())),
            ["processes"] => Ok(Object::one(json!({ "respawned": self.shared.respawned }))),
            ["connections"] => Ok(Object::one(Sums::of(&self.shared.loops.load().stats).connections())),
            ["ssl"] => Ok(Object::one(counters::all_tls(&self.shared))),
            // There is no memory that is given out in slabs.
            ["slabs"] => Ok(Object::named([])),
            ["slabs", _] => Err(ApiError::SlabNotFound),
            ["workers"] => {
                let loops = self.shared.loops.load();
                let value = loops.running().map(|(index, stats)| counters::worker(index, stats)).collect();
                Ok(Object { value, fields: FieldsOf::Inside })
            }
            ["workers", id] => {
                let index: usize = id.parse().map_err(|_| ApiError::WorkerNotFound)?;
                let loops = self.shared.loops.load();
                let (_, stats) = loops.running().find(|(known, _)| *known == index).ok_or(ApiError::WorkerNotFound)?;
                Ok(Object::one(counters::worker(index, stats)))
            }
            ["resolvers"] => Ok(Object::named(counters::resolvers(&self.part::<ZonedResolvers>()))),
            ["resolvers", name] => {
                let all = counters::resolvers(&self.part::<ZonedResolvers>());
                let found = all.into_iter().find(|(known, _)| known == name);
                found.map(|(_, zone)| Object::one(zone)).ok_or(ApiError::ResolverZoneNotFound)
            }
            ["http", "keyvals", inside @ ..] => self.pairs(Protocol::Http, inside, key),
            ["stream", "keyvals", inside @ ..] if self.has_stream() => self.pairs(Protocol::Stream, inside, key),
            ["stream", "zone_sync"] => {
                let report = cluster::report(&self.generation).ok_or(ApiError::PathNotFound)?;
                Ok(Object::one(counters::zone_sync(&report)))
            }
            ["http", inside @ ..] => self.http(inside),
            ["stream", inside @ ..] if self.has_stream() => self.stream(inside),
            _ => Err(ApiError::PathNotFound),
        }
    }

    fn nginx(&self) -> Value {
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "build": "freerun",
            "address": self.address,
            // The first configuration is no reload.
            "generation": self.shared.reloads.get().max(1),
            "load_timestamp": timestamp(self.generation.loaded),
            "timestamp": timestamp(clock::since_1970()),
            "pid": std::process::id(),
            "ppid": rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get()),
        })
    }

    fn http(&self, path: &[&str]) -> Result<Object, ApiError> {
        let zones = self.part::<StatusZones>();
        let limits = self.part::<LimitZones>();
        match path {
            [] => Ok(Object::whole(HTTP.into_iter().collect())),
            ["requests"] => Ok(Object::one(Sums::of(&self.shared.loops.load().stats).requests())),
            ["server_zones", name @ ..] => {
                zones_at(&zones.servers, name, counters::server_zone, ApiError::ServerZoneNotFound)
            }
            ["location_zones", name @ ..] => {
                zones_at(&zones.locations, name, counters::location_zone, ApiError::LocationZoneNotFound)
            }
            ["limit_conns", name @ ..] => {
                limits_at(&limits.connections, name, counters::limit_conn, ApiError::LimitConnNotFound)
            }
            ["limit_reqs", name @ ..] => {
                limits_at(&limits.requests, name, counters::limit_req, ApiError::LimitReqNotFound)
            }
            ["caches"] => {
                let all = self.generation.parts.get::<Caches>();
                let all = all.iter().flat_map(|caches| caches.iter()).map(|defined| &defined.folder.cache);
                Ok(Object::named(all.map(|cache| (cache.config().name.to_string(), self::cache(cache)))))
            }
            ["caches", name] => {
                let all = self.generation.parts.get::<Caches>();
                let mut all = all.iter().flat_map(|caches| caches.iter()).map(|defined| &defined.folder.cache);
                let found = all.find(|cache| &*cache.config().name == *name);
                found.map(|cache| Object::one(self::cache(cache))).ok_or(ApiError::CacheNotFound)
            }
            ["upstreams", inside @ ..] => self.upstreams(Protocol::Http, inside),
            _ => Err(ApiError::PathNotFound),
        }
    }

    fn stream(&self, path: &[&str]) -> Result<Object, ApiError> {
        let zones = self.part::<StatusZones>();
        let limits = self.part::<LimitZones>();
        match path {
            [] => {
                let shared = cluster::report(&self.generation).map(|_| "zone_sync");
                Ok(Object::whole(STREAM.into_iter().chain(shared).collect()))
            }
            ["server_zones", name @ ..] => {
                zones_at(&zones.stream_servers, name, counters::stream_zone, ApiError::ServerZoneNotFound)
            }
            ["limit_conns", name @ ..] => {
                limits_at(&limits.sessions, name, counters::limit_conn, ApiError::LimitConnNotFound)
            }
            ["upstreams", inside @ ..] => self.upstreams(Protocol::Stream, inside),
            _ => Err(ApiError::PathNotFound),
        }
    }

    /// The zones of pairs.
    pub fn keyvals(&self, protocol: Protocol) -> KeyvalsByName {
        let all = self.part::<AllKeyvals>();
        match protocol {
            Protocol::Http => all.http.clone(),
            Protocol::Stream => all.stream.clone(),
        }
    }

    fn pairs(&self, protocol: Protocol, path: &[&str], key: Option<&str>) -> Result<Object, ApiError> {
        let zones = self.keyvals(protocol);
        match path {
            [] => Ok(Object::named(zones.iter().map(|(name, zone)| (name.to_string(), json!(zone.pairs.all()))))),
            [name] => {
                let zone = zones.get(*name).ok_or(ApiError::KeyvalNotFound)?;
                let Some(key) = key else { return Ok(Object::whole(json!(zone.pairs.all()))) };
                let value = zone.pairs.get(key).ok_or(ApiError::Keyval(PairRefusal::NotFound))?;
                Ok(Object::whole(json!({ key: value })))
            }
            _ => Err(ApiError::PathNotFound),
        }
    }

    /// The group of this name that a block declares and that has a zone.
    ///
    /// # Errors
    /// There is none, or it has no zone.
    pub fn group(&self, protocol: Protocol, name: &str) -> Result<Arc<dyn AnyGroup>, ApiError> {
        let all = self.part::<GroupsByProtocol>();
        let group =
            all.of(protocol.name()).and_then(|groups| groups.declared(name)).ok_or(ApiError::UpstreamNotFound)?;
        if group.zone().is_none() {
            return Err(ApiError::UpstreamStatic);
        }
        Ok(group)
    }

    fn upstreams(&self, protocol: Protocol, path: &[&str]) -> Result<Object, ApiError> {
        let now = now();
        match path {
            [] => {
                let all = self.part::<GroupsByProtocol>();
                let all = all.of(protocol.name()).map(|groups| groups.all()).unwrap_or_default();
                let shown = all.into_iter().filter(|group| group.is_declared() && group.zone().is_some());
                Ok(Object::named(
                    shown.map(|group| (group.group().name.to_string(), upstreams::group(&*group, protocol, now))),
                ))
            }
            [name] => Ok(Object::one(upstreams::group(&*self.group(protocol, name)?, protocol, now))),
            [name, "servers"] => {
                let group = self.group(protocol, name)?;
                Ok(Object::whole(upstreams::configured(&*group, protocol).into()))
            }
            [name, "servers", id] => {
                let group = self.group(protocol, name)?;
                upstreams::configured_one(&*group, protocol, id).map(Object::whole)
            }
            _ => Err(ApiError::PathNotFound),
        }
    }
}

fn zones_at(
    zones: &Zones,
    name: &[&str],
    show: fn(&ZoneFigures) -> Value,
    missing: ApiError,
) -> Result<Object, ApiError> {
    match name {
        [] => Ok(Object::named(zones.iter().map(|(name, figures)| (name.to_string(), show(figures))))),
        [name] => zones.get(*name).map(|figures| Object::one(show(figures))).ok_or(missing),
        _ => Err(ApiError::PathNotFound),
    }
}

fn limits_at(
    limits: &Limits,
    name: &[&str],
    show: fn(&LimitFigures) -> Value,
    missing: ApiError,
) -> Result<Object, ApiError> {
    match name {
        [] => Ok(Object::named(limits.iter().map(|(name, figures)| (name.to_string(), show(figures))))),
        [name] => limits.get(*name).map(|figures| Object::one(show(figures))).ok_or(missing),
        _ => Err(ApiError::PathNotFound),
    }
}

/// A cache.
fn cache(cache: &Cache) -> Value {
    let (shown, usage) = (CacheFigures::of(cache, unix_now()), cache.usage());
    let mut map = shown.api_members();
    let is_cold = matches!(shown.state, "starting" | "loading" | "walking");
    map.insert("cold".to_owned(), is_cold.into());
    for how in CacheStatus::ALL {
        let mut answers = json!({ "responses": usage.answered(how), "bytes": usage.bytes(how) });
        // The others are taken from the cache.
        if matches!(how, CacheStatus::Miss | CacheStatus::Expired | CacheStatus::Bypass) {
            let (responses, bytes) = usage.stored(how);
            answers["responses_written"] = responses.into();
            answers["bytes_written"] = bytes.into();
        }
        map.insert(how.word().to_ascii_lowercase(), answers);
    }
    map.into()
}
