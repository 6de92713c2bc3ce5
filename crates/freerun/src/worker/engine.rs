//! The connection between the processes and the crates that serve HTTP and stream.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use freerun_http::service::HttpService;
use freerun_runtime::files::FileSystem;
use freerun_runtime::log::{ErrorLog, Level, LogFile};
use freerun_runtime::pool::Pools;
use freerun_serve::accept::service::MakeService;
use freerun_serve::accept::worker::{Worker, WorkerOptions};
use freerun_serve::configuration::generation::Generation;
use freerun_serve::configuration::zones::Zones;
use freerun_serve::listen::{ListenKey, ListenSpec};
use freerun_serve::loops::message_boxes::MessageBoxes;
use freerun_serve::tls::files::{Secret, SecretFiles};
use freerun_serve::tls::live::LivePairs;
use freerun_serve::tls::server::CertificateFacts;
use freerun_stream::service::StreamService;
use rustix::io::Errno;

use crate::configuration::{Configuration, hooks};
use crate::error::Error;
use crate::settings::affinity;
use crate::worker::retired_values::RetiredValues;

/// The services that handle connections on each loop.
const SERVICES: &[MakeService] = &[HttpService::make, StreamService::make];

/// Interval at which a loop that is not needed any more is checked for open connections.
const LOOPS_STEP: Duration = Duration::from_secs(1);

/// A configuration with the words that scripts look for, which know a process of nginx for each: its number is shown.
struct ProcessName(u64);

impl fmt::Display for ProcessName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "configuration {} of worker process {}", self.0, std::process::id())
    }
}

/// The logs of a configuration.
pub struct WorkerLogs<F> {
    /// The open [`Configuration::logs`].
    pub files: Vec<LogFile>,
    /// The error log of the main level.
    pub error: ErrorLog,
    /// Called when no loop holds lines of an earlier configuration any more, as by [`Engine::hand_over`].
    pub reopen: F,
}

/// The loops, and the state that outlives a generation.
pub struct Engine {
    respawned: u32,
    quic_secret: Secret,
    /// The message boxes of the processes that serve the same sockets, until there are loops.
    boxes: Option<MessageBoxes>,
    /// Whether removed addresses of QUIC still have connections.
    has_retiring: bool,
    pools: Pools,
    zones: Zones,
    started: Option<(Worker, Arc<FileSystem>)>,
    newest: Option<Arc<Generation>>,
    retired: RetiredValues<Generation>,
}

impl Engine {
    /// An engine without loops; `respawned` workers have died before. The loops start with the first configuration, and all of
    /// them have this secret for tokens of QUIC, and these message boxes.
    pub fn new(respawned: u32, quic_secret: Secret, boxes: Option<MessageBoxes>) -> Engine {
        Engine {
            respawned,
            quic_secret,
            boxes,
            has_retiring: false,
            pools: Pools::new(),
            zones: Zones::default(),
            started: None,
            newest: None,
            retired: RetiredValues::new(),
        }
    }

    /// Serves by this configuration from now on. `sockets` has the sockets of each address by its key. Tunnels of the
    /// configuration before may go on for `patience`.
    pub fn install(
        &mut self,
        loops: usize,
        (number, patience): (u64, Option<Duration>),
        configuration: Configuration,
        mut sockets: Vec<(ListenKey, Vec<OwnedFd>)>,
        logs: WorkerLogs<impl FnOnce() + Send + Sync + 'static>,
    ) -> Result<(), Error> {
        let WorkerLogs { files: log_files, error: log, reopen } = logs;
        let options = self.options(loops, &configuration);
        let pools = self.pools.generation(&configuration.pools).map_err(cannot_start)?;
        let mut listeners: Vec<(ListenSpec, Vec<OwnedFd>)> = Vec::new();
        for spec in &configuration.blueprint.listeners {
            let place = sockets.iter().position(|(key, _)| *key == spec.key());
            let place = place.ok_or_else(|| Error::Message(format!("no socket for {}", spec.key())))?;
            listeners.push((ListenSpec::clone(spec), sockets.swap_remove(place).1));
        }
        let files = match &self.started {
            Some((_, files)) => files.clone(),
            None => {
                let files = FileSystem::new(pools.default().clone()).map_err(Error::call("open()"))?;
                for missing in files.missing_features() {
                    log.write(
                        Level::Notice,
                        None,
                        format_args!("{missing} ({})", freerun_runtime::log::Errno(&missing.error.into())),
                    );
                }
                files
            }
        };
        // The last step that may fail.
        if let Some((worker, _)) = &mut self.started {
            worker.set_loops(&options).map_err(cannot_start)?;
        }
        if let Some(old) = &self.newest {
            log.write(Level::Notice, None, format_args!("{} is gracefully shutting down", ProcessName(old.number)));
        }
        let generation = configuration.blueprint.serve(number, log_files, log, pools, files.clone());
        let generation = Arc::new(generation);
        self.zones = generation.zones.clone();
        if let Some(old) = self.newest.replace(generation.clone()) {
            self.retired.keep(old, patience.map(|patience| Instant::now() + patience));
        }
        let worker = match &mut self.started {
            Some((worker, _)) => worker,
            None => {
                let started = Worker::start(&options, generation.clone(), SERVICES).map_err(cannot_start)?;
                &mut self.started.insert((started, files)).0
            }
        };
        self.boxes.take().into_iter().for_each(|boxes| worker.set_boxes(boxes));
        for prepare in hooks().filter_map(|hooks| hooks.prepare) {
            prepare(&generation, worker.shared());
        }
        worker.install(generation.clone(), listeners, reopen);
        for begin in hooks().filter_map(|hooks| hooks.begin) {
            begin(&generation, worker.shared());
        }
        Ok(())
    }

    /// Uses these message boxes.
    pub fn set_boxes(&mut self, boxes: MessageBoxes) {
        match &self.started {
            Some((worker, _)) => worker.set_boxes(boxes),
            None => self.boxes = Some(boxes),
        }
    }

    /// Notes that these processes may live, each with a bit.
    pub fn note_living(&self, processes: u8) {
        let boxes = self.started.as_ref().and_then(|(worker, _)| worker.shared().boxes.get());
        boxes.iter().for_each(|boxes| boxes.note_living(processes));
        self.boxes.iter().for_each(|boxes| boxes.note_living(processes));
    }

    /// Reads the sockets of QUIC that another process has read.
    pub fn claim_sockets(&self) {
        self.started.iter().for_each(|(worker, _)| worker.claim_sockets());
    }

    /// Replaces certificates in use by new ones made of these files, and logs that. A new certificate that cannot be
    /// used leaves the old one in use.
    pub fn renew(&self, files: &SecretFiles, log: &ErrorLog) {
        let pairs = self.newest.as_ref().and_then(|newest| LivePairs::of(newest));
        for renewed in pairs.map(|pairs| pairs.renew(files)).unwrap_or_default() {
            match renewed.map(|pair| pair.facts()) {
                Ok(Some(facts)) => {
                    let CertificateFacts { file, subject, names, expires_text, .. } = facts;
                    let names = if names.is_empty() { subject } else { names.join(", ") };
                    let told = format_args!("certificate \"{file}\" was replaced: for {names}, until {expires_text}");
                    log.write(Level::Notice, None, told);
                }
                Ok(None) => log.write(Level::Notice, None, format_args!("a certificate was replaced")),
                Err(why) => log.write(Level::Error, None, format_args!("{why}; the certificate in use stays")),
            }
        }
    }

    /// The removed addresses of QUIC whose last connections have ended since this was asked before.
    pub fn take_closed(&mut self) -> Vec<ListenKey> {
        let Some((worker, _)) = &mut self.started else { return Vec::new() };
        let (closed, are_others) = worker.take_closed();
        self.has_retiring = are_others;
        closed
    }

    /// Takes down configurations that are not used any more, and ends tunnels of others whose time is up. `Some`: there are
    /// others; call again after this time.
    pub fn sweep(&self, log: &ErrorLog) -> Option<Duration> {
        if let Some((worker, _)) = &self.started {
            for old in self.retired.overdue(Instant::now()) {
                worker.end_tunnels(old.number);
            }
        }
        // Scripts that wait for the end of old connections look for the words that nginx has for the end of an old worker.
        let tell = |old: &Generation| {
            let told = format_args!("{} exited with code 0: nothing uses it any more", ProcessName(old.number));
            log.write(Level::Notice, None, told);
        };
        let next = self.retired.sweep(tell);
        // Loops that are too many end when their connections have ended.
        let are_ending = self.started.as_ref().is_some_and(|(worker, _)| worker.sweep());
        next.or((are_ending || self.has_retiring).then_some(LOOPS_STEP))
    }

    /// Whether every loop has run since this was asked before.
    pub fn loops_live(&self) -> bool {
        self.started.as_ref().is_none_or(|(worker, _)| worker.loops_live())
    }

    /// The zones of the configuration that serves.
    pub fn zones(&self) -> Zones {
        self.zones.clone()
    }

    /// Has the loops queue the log lines that they have gathered. `then` is called when all of them have done so, perhaps by a
    /// loop after this has returned; it must not wait.
    pub fn hand_over(&self, then: impl FnOnce() + Send + Sync + 'static) {
        match &self.started {
            Some((worker, _)) => worker.hand_over(then),
            None => then(),
        }
    }

    /// Stops accepting connections; those without a request are closed. Modules end what another process does from now on,
    /// and if one serves by the same configuration (`is_replaced`), they leave to it what only one process can have.
    pub fn drain(&mut self, is_replaced: bool) {
        if let Some((worker, _)) = &mut self.started {
            worker.drain();
        }
        if let Some(generation) = &self.newest {
            hooks().filter_map(|hooks| hooks.drain).for_each(|drain| drain(generation));
            if is_replaced {
                hooks().filter_map(|hooks| hooks.leave).for_each(|leave| leave(generation));
            }
        }
    }

    /// Cuts off the requests that go on, with their lines in the log. `then` is called as by [`Engine::hand_over`].
    pub fn cut(&self, then: impl FnOnce() + Send + Sync + 'static) {
        match &self.started {
            Some((worker, _)) => worker.cut(then),
            None => then(),
        }
    }

    /// Whether there is work that a graceful end waits for.
    pub fn is_busy(&self) -> bool {
        self.started.as_ref().is_some_and(|(worker, _)| worker.background() > 0 || worker.active() > 0)
    }

    /// Ends the loops immediately, and the other threads of the modules.
    pub fn stop(self) {
        if let Some((worker, _)) = self.started {
            worker.stop();
        }
        if let Some(generation) = &self.newest {
            hooks().filter_map(|hooks| hooks.end).for_each(|end| end(generation));
        }
    }

    /// Options of a worker with this number of loops.
    fn options(&self, loops: usize, configuration: &Configuration) -> WorkerOptions {
        let events = configuration.events();
        let cpus = configuration.main().worker_cpu_affinity.as_ref().map(|affinity| {
            let available = affinity::available();
            (0..loops).map(|index| affinity.cpus(index, &available)).collect()
        });
        WorkerOptions {
            loops,
            respawned: self.respawned,
            connections: events.worker_connections.0 as usize,
            accept_mutex: events.accept_mutex,
            multi_accept: events.multi_accept,
            cpus: cpus.unwrap_or_default(),
            quic_secret: self.quic_secret.clone(),
        }
    }
}

/// The error for a loop or a thread that could not be started, with advice.
fn cannot_start(error: io::Error) -> Error {
    let advice = match Errno::from_io_error(&error) {
        Some(Errno::MFILE | Errno::NFILE) => {
            let error = Error::call("epoll_create()")(error);
            return Error::Configuration(format!(
                "{error}: an event loop needs more descriptors than \"worker_rlimit_nofile\" or \"ulimit -n\" allows"
            ));
        }
        Some(Errno::AGAIN | Errno::NOMEM) => {
            ": there is too little memory for another thread, or there are too many threads (\"ulimit -v\", \"ulimit -u\")"
        }
        _ => "",
    };
    Error::Configuration(format!("{}{advice}", Error::call("pthread_create()")(error)))
}
