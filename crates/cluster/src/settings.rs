//! Everything that the thread has to know of a configuration.

use std::fmt;
use std::sync::Arc;

use freerun_cache::purge::Purge;
use freerun_runtime::log::ErrorLog;
use freerun_serve::limits::bucket::Bucket;
use freerun_serve::limits::leases::Leases;
use freerun_serve::tls::files::Secret;
use freerun_serve::values::keyvals::KeyvalZone;
use freerun_tls::session::TicketKeys;

use crate::address::EngineAddress;

/// The engine and the way to talk to it. Two configurations with the same settings share their connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineSettings {
    /// Its address.
    pub address: EngineAddress,
    /// The beginning of all names in the engine, so that several clusters can share one.
    pub prefix: String,
    /// The user; without one it is the engine's default user.
    pub user: Option<String>,
    /// The password.
    pub password: Option<Secret>,
    /// The secret that what is in the engine is encrypted with.
    pub secret: Option<Secret>,
    /// The certificates of TLS.
    pub tls: EngineTls,
}

/// The certificates with which an engine is reached by TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineTls {
    /// The authorities that verify the engine, as PEM; without them it is verified by the system's.
    pub trusted: Option<Secret>,
    /// The certificate and the key that this node shows, as PEM.
    pub own: Option<(Secret, Secret)>,
    /// Whether the engine's certificate is not verified.
    pub accepts_any: bool,
}

/// A cache whose purges are shared. It is implemented by whatever knows how keys are purged.
pub trait PurgeTarget: Send + Sync + 'static {
    /// Purges what another node has purged. It is called on the thread of the cluster, and may wait for a lock.
    fn purge(&self, what: &Purge);

    /// Asks for a number for [`is_written`](PurgeTarget::is_written), which stands for all purges so far.
    fn ask_written(&self) -> u64;

    /// Whether all purges before the number was given are on the disk.
    fn is_written(&self, number: u64) -> bool;

    /// Whether nothing is stored.
    fn is_empty(&self) -> bool;

    /// The folder of the cache, where the record of purges is kept.
    fn folder(&self) -> std::path::PathBuf;
}

/// A zone of `limit_req` that nodes share.
#[derive(Debug, Clone)]
pub struct PlannedLimit {
    /// The leases of this node.
    pub leases: Arc<Leases>,
    /// The rate and the burst that the engine counts with.
    pub bucket: Bucket,
}

/// The zones and caches that a configuration shares with other nodes, and the engine for that.
pub struct ClusterPlan {
    /// The engine.
    pub engine: EngineSettings,
    /// The zones of pairs, by name.
    pub pairs: Vec<(Arc<str>, KeyvalZone)>,
    /// The zones of `limit_req`, by name.
    pub limits: Vec<(Arc<str>, PlannedLimit)>,
    /// The keys of session tickets, by their period in seconds.
    pub tickets: Vec<(u64, TicketKeys)>,
    /// The caches, by the names of their zones.
    pub caches: Vec<(Arc<str>, Arc<dyn PurgeTarget>)>,
    /// The number of the configuration.
    pub generation: u64,
    /// The log.
    pub log: ErrorLog,
}

impl fmt::Debug for ClusterPlan {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "ClusterPlan({}, {} zones, {} caches)", self.engine.address, self.pairs.len(), self.caches.len())
    }
}
