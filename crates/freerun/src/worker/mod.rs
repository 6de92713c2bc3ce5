//! The worker: takes bundles, serves, ends when told to, or when the master is gone.
//!
//! Its threads, by their names:
//!
//! | thread | where | task |
//! |---|---|---|
//! | control (the first one) | here | hears the master and signals, builds generations, starts and ends everything else |
//! | `loop-N` | `freerun_runtime::loops` | accepts, reads, answers |
//! | of the pools | `freerun_runtime::pool` | operations on files that would wait. Two pools are built in, with a thread for each processor: `(cpu)` for bounded pieces of work that need one, `(tls)` for handshakes |
//! | `log` (two) | `freerun_runtime::log` | writes, compresses and sends logs. One writes, the other stands by, and goes on with the other logs while a write takes long |
//! | `mounts` | `freerun_runtime::mounts` | reads the mount table again when the kernel says that it has changed |
//! | `acme` | `freerun_acme` | talks with the CA, if there are certificates by ACME |
//! | `cluster` | `freerun_cluster` | talks with the engine of `zone_sync_engine`, if there is one |
//! | `otel` | `freerun_telemetry` | exports spans and metrics, if there is an `otel_exporter` |
//! | `names` | `freerun_upstream::resolve` | asks name servers, and has the system's lookups made by threads of its own |
//! | `status` | `freerun_modules::content::status::history` | takes a sample of the figures each five seconds, if a location shows them |
//! | `cache NAME` | `freerun_cache::manager` | one for each `keys_zone`: evicts, removes files, keeps the journal; it alone waits for that disk |
//! | `rescue` | `freerun_serve::accept` | with several loops only: gives what waits for a late loop to others, and balances connections |
//!
//! With `master_process off`, and under `freerun serve`, master and control are the same thread of one process.

pub mod engine;
mod hand_over;
pub mod panics;
pub mod privileges;
mod retired_values;
mod sandbox;

use std::cell::OnceCell;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

use freerun_runtime::log::{Errno, ErrorLog, Level, LogFile, Writer};
use freerun_serve::configuration::unsaved_states;
use freerun_serve::configuration::zones::Zones;
use freerun_serve::listen::ListenKey;
use freerun_serve::loops::message_boxes::MessageBoxes;
use freerun_serve::tls::files::{Secret, SecretFiles};
use freerun_serve::tls::inherited_pairs::InheritedPairs;
use freerun_sys::sandbox::Denials;
use freerun_sys::{memory, title};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};

use crate::bundle::{Bundle, FromWorker, ToWorker};
use crate::channel::{Channel, Limits};
use crate::configuration::{self, Configuration, KnownFacts, Side};
use crate::error::Error;
use crate::signals::{Signals, survive_stray};
use crate::source::loader::{RecordedTexts, Replay};
use engine::{Engine, WorkerLogs};
use hand_over::Successor;
use sandbox::Refusals;

/// The environment variable that tells a new process that it is a worker and that its stdin is the socket to the
/// master.
pub const MARKER: &str = "FREERUN_WORKER_OF_MASTER";

/// The time for which the end of the process waits for logs to be written.
pub const LOG_PATIENCE: Duration = Duration::from_secs(2);

/// The time for which a worker that is done waits for the worker of a new binary to ask for its states. The new worker
/// may still be reading its configuration, and a binary of nginx never asks.
const SUCCESSOR_PATIENCE: Duration = Duration::from_secs(5);

/// The time to wait for loops that cut requests off, so that the lines of these requests are logged.
const CUT_PATIENCE: Duration = Duration::from_secs(1);

/// The interval at which a draining worker checks whether it is done.
const DRAIN_STEP: Duration = Duration::from_millis(20);

/// The worker, which serves: in a process of its own, or (`master_process off`) in the master's.
pub struct Worker {
    /// Whether it may change its process: user, limits, priority.
    own_process: bool,
    running: Option<RunningWorker>,
    draining: Option<DrainState>,
    /// The states of the worker before, or the way to it, until the first configuration is there.
    predecessor: Option<OwnedFd>,
    /// The way to the worker of a new binary, until that has asked for the states.
    successor: Option<Successor>,
    /// The message boxes, until the loops have them.
    boxes: Option<MessageBoxes>,
    refusals: Refusals,
}

struct RunningWorker {
    writer: Writer,
    engine: Engine,
    log: ErrorLog,
    shutdown_timeout: Option<Duration>,
    /// The certificates in use with their keys, for the next configuration.
    inherited: InheritedPairs,
}

struct DrainState {
    deadline: Option<Instant>,
    /// Until when the worker of a new binary may still ask for the states.
    asked_until: Instant,
    /// The requests that go on are being cut off.
    cut: OnceCell<Cut>,
}

/// Cutting off requests whose time is up.
struct Cut {
    /// All loops have done so.
    is_done: Arc<AtomicBool>,
    /// Until when the loops are waited for.
    until: Instant,
}

impl Cut {
    fn begin(engine: &Engine) -> Cut {
        let is_done = Arc::new(AtomicBool::new(false));
        let done = is_done.clone();
        engine.cut(move || done.store(true, Release));
        Cut { is_done, until: Instant::now() + CUT_PATIENCE }
    }

    fn is_over(&self) -> bool {
        self.is_done.load(Acquire) || Instant::now() >= self.until
    }
}

impl Worker {
    /// A worker that has no configuration yet.
    pub fn new(own_process: bool) -> Worker {
        Worker {
            own_process,
            running: None,
            draining: None,
            predecessor: None,
            successor: None,
            boxes: None,
            refusals: Refusals::default(),
        }
    }

    /// Begins with the states of the worker before: a socket leads to that, or this is the file that it has written.
    pub fn take_over(&mut self, predecessor: Option<OwnedFd>) {
        self.predecessor = predecessor;
    }

    /// Gives the states to the worker of a new binary when it asks for them, at the other end of this socket.
    fn hand_over(&mut self, successor: OwnedFd) {
        match Successor::new(UnixStream::from(successor)) {
            Ok(successor) => self.successor = Some(successor),
            Err(error) => self.log(Level::Alert, format_args!("setsockopt() failed ({})", Errno(&error))),
        }
    }

    /// Takes the message boxes: the descriptor of its own one, and the descriptors for writing to all.
    fn take_boxes(&mut self, process: u8, living: u8, mut fds: Vec<OwnedFd>) {
        if fds.is_empty() {
            return;
        }
        let own = fds.remove(0);
        self.boxes = MessageBoxes::new(process, living, own, fds);
        if let Some(running) = &mut self.running
            && let Some(boxes) = self.boxes.take()
        {
            running.engine.set_boxes(boxes);
        }
    }

    /// Notes that these processes may live, each with a bit.
    fn note_living(&self, processes: u8) {
        self.running.iter().for_each(|running| running.engine.note_living(processes));
    }

    /// Reads the sockets of QUIC that a process has read which is gone.
    fn claim_sockets(&self) {
        self.running.iter().for_each(|running| running.engine.claim_sockets());
    }

    /// Answers the worker of a new binary.
    fn answer(&mut self) {
        let Some(successor) = self.successor.take() else { return };
        let zones = self.running.as_ref().map(|running| running.engine.zones()).unwrap_or_default();
        let answered = successor.answer(&zones);
        if answered.is_ok() {
            // From here on the files are the successor's.
            unsaved_states::write_all();
            unsaved_states::forget();
        }
        match answered {
            Ok(0) => {}
            Ok(count) => self.log(Level::Notice, format_args!("{count} states were handed to the new binary")),
            Err(error) => {
                self.log(Level::Warn, format_args!("the new binary has not taken all states ({})", Errno(&error)));
            }
        }
    }

    /// Writes the states to a file, for a worker that may follow this one.
    fn save(&self, file: OwnedFd) {
        let zones = self.running.as_ref().map(|running| running.engine.zones()).unwrap_or_default();
        if let Err(error) = hand_over::save(&zones, file) {
            self.log(Level::Warn, format_args!("the states cannot be kept for the next worker ({})", Errno(&error)));
        }
    }

    /// The states of the worker before, and what is to be said of them.
    fn arrived(&mut self) -> (Zones, Option<(Level, String)>) {
        let Some(predecessor) = self.predecessor.take() else { return (Zones::default(), None) };
        let (arrived, result) = hand_over::take(predecessor);
        let count = arrived.len();
        let told = match result {
            Ok(()) => (Level::Notice, format!("{count} states of the worker before go on")),
            Err(error) => (Level::Warn, format!("only {count} states of the worker before go on ({})", Errno(&error))),
        };
        (Zones::arrived(arrived), Some(told))
    }

    /// Serves by this bundle from now on. On an error nothing has changed (a first bundle that fails leaves a worker
    /// that is of no use).
    pub fn apply(&mut self, bundle: &Bundle, fds: Vec<OwnedFd>) -> Result<(), Error> {
        if bundle.descriptors() != Some(fds.len()) {
            return Err(Error::Message(format!("a bundle with {} descriptors", fds.len())));
        }
        let (zones, told) = match &self.running {
            Some(running) => (running.engine.zones(), None),
            None => self.arrived(),
        };
        let inherited = self.running.as_ref().map(|running| running.inherited.clone()).unwrap_or_default();
        let RecordedTexts { hosts, secrets, .. } = &bundle.recorded;
        let (hosts, secrets) = (hosts.clone(), secrets.clone());
        let known = KnownFacts { hosts, secrets, inherited, ..KnownFacts::default() };
        let read = configuration::read_after(&bundle.input, &mut Replay(&bundle.recorded), Side::Worker, known, zones);
        let configuration = read.map_err(|failure| {
            let first = failure.problems.first().map(|problem| problem.first_line(&failure.sources));
            Error::Configuration(first.unwrap_or_default())
        })?;
        let mut fds = fds.into_iter();
        let mut sockets = Vec::with_capacity(bundle.listeners.len());
        for listener in &bundle.listeners {
            sockets.push((listener.key.clone(), fds.by_ref().take(listener.sockets as usize).collect()));
        }
        let mut denied = Vec::new();
        let is_first = self.running.is_none();
        let anywhere = configuration.blueprint.written.anywhere.clone();
        if is_first {
            // Reading has freed much more than it has kept. There are no loops yet that would wait for this.
            memory::give_back();
            if self.own_process {
                denied = privileges::settle(&configuration, bundle.loops, bundle.identity.as_ref())?;
            } else {
                privileges::change_folder(&configuration)?;
            }
            let started = RunningWorker::start(bundle.respawned, bundle.quic_secret.clone(), self.boxes.take())?;
            self.running = Some(started);
        }
        let Some(running) = &mut self.running else { return Err(Error::Gone) };
        running.install(bundle, configuration, sockets, fds)?;
        for what in denied {
            running.log.write(Level::Alert, None, format_args!("{what}"));
        }
        if is_first {
            sandbox::log_protections(&running.log, anywhere.as_deref());
        }
        if let Some((level, what)) = told {
            running.log.write(level, None, format_args!("{what}"));
        }
        Ok(())
    }

    /// Takes over new descriptors for logs.
    pub fn reopen(&mut self, names: &[String], fds: Vec<OwnedFd>) {
        if let Some(running) = &self.running {
            let known = names.iter().zip(fds).filter_map(|(name, fd)| Some((running.writer.get(name)?, fd)));
            running.engine.hand_over(running.reopening(known.collect()));
        }
    }

    /// Has the certificates used that are made of these files.
    pub fn renew(&self, files: &SecretFiles) {
        if let Some(running) = &self.running {
            running.engine.renew(files, &running.log);
        }
    }

    /// Whether every loop has run since this was asked before.
    pub fn loops_live(&self) -> bool {
        self.running.as_ref().is_none_or(|running| running.engine.loops_live())
    }

    /// Stops accepting; [`Worker::drained`] reports the end. `is_replaced`: another process serves by the same configuration,
    /// or soon will.
    pub fn drain(&mut self, is_replaced: bool) {
        if self.draining.is_some() {
            return;
        }
        if self.own_process {
            title::set(b"freerun: worker process is shutting down");
        }
        let mut deadline = None;
        if let Some(running) = &mut self.running {
            running.engine.drain(is_replaced);
            running.log.write(Level::Notice, None, format_args!("gracefully shutting down"));
            deadline = running.shutdown_timeout.map(|timeout| Instant::now() + timeout);
        }
        self.draining =
            Some(DrainState { deadline, asked_until: Instant::now() + SUCCESSOR_PATIENCE, cut: OnceCell::new() });
    }

    /// The removed addresses of QUIC whose last connections have ended since this was asked before.
    pub fn take_closed(&mut self) -> Vec<ListenKey> {
        self.running.as_mut().map(|running| running.engine.take_closed()).unwrap_or_default()
    }

    /// Takes down old configurations that are not used any more. Returns how long to wait before asking this, and
    /// [`Worker::drained`], again; `None` while that is not necessary.
    pub fn step(&self) -> Option<Duration> {
        let sweep = self.running.as_ref().and_then(|running| running.engine.sweep(&running.log));
        self.draining.as_ref().map(|_| DRAIN_STEP).or(sweep)
    }

    /// Whether the last connection is closed, no work for an earlier one goes on, and no new binary is about to ask for the states,
    /// or the time is up.
    pub fn drained(&self) -> bool {
        let Some(draining) = &self.draining else { return false };
        let late = draining.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let may_be_asked = self.successor.is_some() && Instant::now() < draining.asked_until;
        let is_idle = self.running.as_ref().is_none_or(|running| !running.engine.is_busy());
        match &self.running {
            _ if is_idle && !may_be_asked => true,
            Some(running) if late => draining.cut.get_or_init(|| Cut::begin(&running.engine)).is_over(),
            _ => late,
        }
    }

    /// Ends the loops and writes the lines that are still in the logs.
    pub fn stop(self) {
        if let Some(running) = self.running {
            running.log.write(Level::Notice, None, format_args!("exiting"));
            running.engine.stop();
            unsaved_states::write_all();
            running.log.write(Level::Notice, None, format_args!("exit"));
            running.writer.shutdown(LOG_PATIENCE);
        }
    }

    /// Logs the system calls that the sandbox has refused.
    fn log_denials(&mut self, denials: Denials) {
        if let Some(running) = &self.running {
            self.refusals.log(denials, &running.log);
        }
    }

    fn log(&self, level: Level, message: std::fmt::Arguments<'_>) {
        if let Some(running) = &self.running {
            running.log.write(level, None, message);
        }
    }
}

impl RunningWorker {
    fn start(respawned: u32, quic_secret: Secret, boxes: Option<MessageBoxes>) -> Result<RunningWorker, Error> {
        panics::install();
        let writer = Writer::start().map_err(Error::call("clone()"))?;
        let engine = Engine::new(respawned, quic_secret, boxes);
        Ok(RunningWorker {
            writer,
            engine,
            log: ErrorLog::none(),
            shutdown_timeout: None,
            inherited: InheritedPairs::default(),
        })
    }

    /// Has logs written to these descriptors, when it is called: after the loops have handed over the lines that they have
    /// gathered, which belong into the old files.
    fn reopening(&self, files: Vec<(LogFile, OwnedFd)>) -> impl FnOnce() + Send + Sync + 'static {
        let writer = self.writer.clone();
        move || {
            for (file, fd) in files {
                file.reopen(fd);
            }
            writer.close_named_later();
        }
    }

    fn install(
        &mut self,
        bundle: &Bundle,
        configuration: Configuration,
        sockets: Vec<(ListenKey, Vec<OwnedFd>)>,
        log_fds: impl Iterator<Item = OwnedFd>,
    ) -> Result<(), Error> {
        // A log that is in use already keeps its file object, and gets the new descriptor when no loop holds lines for the
        // old one any more.
        let mut reopened = Vec::new();
        let mut named: Vec<LogFile> = Vec::with_capacity(bundle.logs.len());
        for (name, fd) in bundle.logs.iter().zip(log_fds) {
            let (file, fd) = self.writer.file_or_known(name, fd);
            reopened.extend(fd.map(|fd| (file.clone(), fd)));
            named.push(file);
        }
        let files: Vec<LogFile> = configuration
            .logs
            .iter()
            .map(|name| named.iter().find(|file| file.name() == name).cloned())
            .collect::<Option<_>>()
            .ok_or_else(|| Error::Message("a log is missing from the bundle".into()))?;
        let log = configuration.error_log(&files);
        let shutdown_timeout = configuration.main().worker_shutdown_timeout;
        let inherited = configuration.inherited.clone();
        for why in &configuration.unusable_states {
            log.write(Level::Alert, None, format_args!("the state file is not used as it is: {why}"));
        }
        let number = (bundle.number, self.shutdown_timeout);
        let logs = WorkerLogs { files, error: log.clone(), reopen: self.reopening(reopened) };
        self.engine.install(bundle.loops as usize, number, configuration, sockets, logs)?;
        self.writer.report_to(log.clone());
        panics::report_to(log.clone());
        self.log = log;
        self.shutdown_timeout = shutdown_timeout;
        self.inherited = inherited;
        Ok(())
    }
}

/// The main function of a worker process.
pub fn main() -> ExitCode {
    // Without `/proc` the process keeps a worker's title.
    let _ = title::prepare();
    panics::install();
    // The kernel named the process after "/proc/self/exe".
    let _ = rustix::thread::set_name(c"freerun");
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nginx: [alert] worker: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), Error> {
    let channel = inherited_channel()?;
    // A terminal sends its signals to the whole group; the master decides what they mean for the worker. Signals to the
    // worker itself end it, as in nginx.
    survive_stray().map_err(Error::call("sigaction()"))?;
    let mut signals = Signals::new(&[SIGTERM, SIGQUIT, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH])
        .map_err(Error::call("sigaction()"))?;
    let mut worker = Worker::new(true);
    let mut master_lives = true;
    while !worker.drained() {
        let denials = Denials::of_process();
        let closed = worker.take_closed();
        if master_lives && !closed.is_empty() {
            // A master that ends at this moment closes its sockets, too.
            let _ = channel.send(&FromWorker::Closed(closed), &[]);
        }
        let mut fds = vec![PollFd::new(&signals, PollFlags::IN)];
        if master_lives {
            fds.push(PollFd::new(&channel, PollFlags::IN));
        }
        fds.extend(worker.successor.as_ref().map(|successor| PollFd::new(successor, PollFlags::IN)));
        fds.extend(denials.as_ref().map(|denials| PollFd::new(denials, PollFlags::IN)));
        let timeout = worker.step().and_then(|step| Timespec::try_from(step).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::call("poll()")(error)),
        }
        let happened = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
        let asked = worker.successor.is_some() && happened(1 + usize::from(master_lives));
        let told = master_lives && happened(1);
        drop(fds);
        if asked {
            worker.answer();
        }
        if let Some(denials) = denials {
            worker.log_denials(denials);
        }
        for signal in signals.take() {
            match signal {
                SIGTERM => {
                    worker.stop();
                    return Ok(());
                }
                SIGQUIT => worker.drain(false),
                _ => {}
            }
        }
        if told {
            match hear(&mut worker, &channel) {
                Ok(true) => {}
                Ok(false) => {
                    worker.stop();
                    return Ok(());
                }
                Err(error) => {
                    // There is no process left that could restart this worker or reload its configuration: it finishes
                    // its requests and ends.
                    worker.log(Level::Alert, format_args!("no master process any more ({error}), shutting down"));
                    master_lives = false;
                    worker.drain(false);
                }
            }
        }
    }
    worker.stop();
    Ok(())
}

/// Handles one message; `false`: end now.
fn hear(worker: &mut Worker, channel: &Channel) -> Result<bool, Error> {
    let (message, mut fds) = channel.receive::<ToWorker>()?;
    match message {
        ToWorker::Bundle(bundle) => {
            let result = worker.apply(&bundle, fds).map_err(|error| error.to_string());
            channel.send(&FromWorker::applied(bundle.number, result), &[])?;
        }
        ToWorker::Reopen(names) => worker.reopen(&names, fds),
        ToWorker::Renew(files) => worker.renew(&files),
        ToWorker::Predecessor => worker.take_over(fds.pop()),
        ToWorker::Successor => fds.pop().into_iter().for_each(|fd| worker.hand_over(fd)),
        ToWorker::Boxes { process, living } => worker.take_boxes(process, living, fds),
        ToWorker::MayLive(processes) => worker.note_living(processes),
        ToWorker::ReadQuic => worker.claim_sockets(),
        ToWorker::Save => fds.pop().into_iter().for_each(|fd| worker.save(fd)),
        ToWorker::Ask => channel.send(&FromWorker::Alive { loops_live: worker.loops_live() }, &[])?,
        ToWorker::Quit { is_replaced } => worker.drain(is_replaced),
        ToWorker::Stop => return Ok(false),
    }
    Ok(true)
}

/// The channel to the master, which is stdin, so that no descriptor number has to be trusted; a new stdin takes its
/// place.
fn inherited_channel() -> Result<Channel, Error> {
    let fd = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map_err(Error::call("dup()"))?;
    let null = std::fs::File::open("/dev/null").map_err(Error::named("open", "/dev/null"))?;
    rustix::stdio::dup2_stdin(null.as_fd()).map_err(Error::call("dup2()"))?;
    Channel::new(UnixStream::from(fd), Limits::FROM_MASTER).map_err(Error::call("setsockopt()"))
}
