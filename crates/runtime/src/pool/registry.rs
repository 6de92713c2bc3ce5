//! The pools of the worker by name: a pool that the next configuration also has goes on with its threads and its queue.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{CpuPool, DEFAULT_NAME, PoolSpec, ThreadPool};

/// All pools of the worker. Only making a generation takes its lock.
#[derive(Debug, Default)]
pub struct Pools {
    known: Mutex<HashMap<String, Weak<ThreadPool>>>,
    /// The built-in pools: for pieces of work, and for handshakes.
    built_in: Mutex<Option<(CpuPool, CpuPool)>>,
}

impl Pools {
    /// A registry without pools.
    pub fn new() -> Pools {
        Pools::default()
    }

    /// The pools of one generation. Those that exist already are kept and take over the new sizes; those that no
    /// generation uses any more finish their tasks and end. The pool `default` always exists.
    ///
    /// # Errors
    /// See [`ThreadPool::start`].
    pub fn generation(&self, specs: &[PoolSpec]) -> io::Result<PoolSet> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, pool| pool.strong_count() > 0);
        let mut start = |spec: &PoolSpec| -> io::Result<Arc<ThreadPool>> {
            let pool = match known.get(&spec.name).and_then(Weak::upgrade) {
                Some(pool) => {
                    pool.resize(spec.threads, spec.max_queue);
                    pool
                }
                None => ThreadPool::start(spec)?,
            };
            known.insert(spec.name.clone(), Arc::downgrade(&pool));
            Ok(pool)
        };
        let default = match specs.iter().find(|spec| spec.name == DEFAULT_NAME) {
            Some(spec) => start(spec)?,
            None => start(&PoolSpec::named(DEFAULT_NAME))?,
        };
        let mut pools = HashMap::new();
        for spec in specs.iter().filter(|spec| spec.name != DEFAULT_NAME) {
            pools.insert(spec.name.as_str().into(), start(spec)?);
        }
        pools.insert(DEFAULT_NAME.into(), default.clone());
        let mut built_in = self.built_in.lock().unwrap_or_else(PoisonError::into_inner);
        let (cpu, handshakes) = match &*built_in {
            Some(both) => both.clone(),
            None => built_in.insert((CpuPool::start()?, CpuPool::for_handshakes()?)).clone(),
        };
        Ok(PoolSet(Arc::new(Set { pools, default, cpu, handshakes })))
    }
}

#[derive(Debug)]
struct Set {
    pools: HashMap<Box<str>, Arc<ThreadPool>>,
    default: Arc<ThreadPool>,
    cpu: CpuPool,
    handshakes: CpuPool,
}

/// The pools of one generation, immutable and cheap to clone.
#[derive(Debug, Clone)]
pub struct PoolSet(Arc<Set>);

impl PoolSet {
    /// The pool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<ThreadPool>> {
        self.0.pools.get(name)
    }

    /// The pool `default`.
    pub fn default(&self) -> &Arc<ThreadPool> {
        &self.0.default
    }

    /// The built-in pool for steps that need a processor.
    pub fn cpu(&self) -> &CpuPool {
        &self.0.cpu
    }

    /// The built-in pool for handshakes of TLS.
    pub fn handshakes(&self) -> &CpuPool {
        &self.0.handshakes
    }

    /// All pools, in no particular order, including those that are built in.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ThreadPool>> {
        self.0.pools.values().chain([self.0.cpu.threads(), self.0.handshakes.threads()])
    }
}
