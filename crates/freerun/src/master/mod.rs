//! The master: reads and checks configurations, owns sockets and logs, keeps a worker alive, handles signals.

mod change_binary;
mod daemon;
pub mod inherited;
pub mod listeners;
mod notify;
mod oom_score;
mod quic_boxes;
mod quic_secret;
pub mod reload;
pub mod reload_waiters;
mod state;
mod supervise;
mod upgrade;
mod watch;
mod workers;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use freerun_runtime::log::{ErrorLog, Level, Writer};
use freerun_sys::addresses::LowLimit;
use freerun_sys::title;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};

use freerun_serve::tls::files::ReadFile;

use crate::bundle::ToWorker;
use crate::error::Error;
use crate::signals::{self, Signals};
use crate::source::Input;
use crate::source::loader::RecordedTexts;
use crate::worker::{LOG_PATIENCE, Worker};
use crate::{console, pidfile};
use daemon::Ready;
use inherited::InheritedSockets;
use listeners::Listeners;
use notify::ServiceManager;
use quic_boxes::QuicBoxes;
use reload_waiters::ReloadWaiters;
use state::{Opening, State};
use supervise::{Backoff, Process};
use upgrade::Upgrade;
use watch::{LookResult, Watch};

/// The longest time that a worker takes to stop before it is killed: longer than it waits for its logs.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

const _: () = assert!(STOP_PATIENCE.as_millis() > LOG_PATIENCE.as_millis());

/// The parameters that a master starts with.
pub struct Start {
    /// Source of the configuration.
    pub input: Input,
    /// The texts themselves, if they are not on the disk.
    pub embedded: Option<RecordedTexts>,
    /// The reader of certificates and keys, if they are not on the disk either.
    pub secrets: Option<ReadFile>,
    /// Sockets that are already bound, and whose they are.
    pub inherited: InheritedSockets,
    /// The log until the configuration has one.
    pub log: ErrorLog,
    /// Called when the server answers requests.
    pub on_ready: Option<Box<dyn FnOnce()>>,
}

/// The worker that serves.
enum ServingWorker {
    /// A worker in this process: `master_process off`.
    Here(Box<Worker>),
    /// A worker process.
    Process(Box<Process>),
    /// There is none at the moment; the next one starts at this time, unless `WINCH` has come.
    Nobody(Instant),
}

/// The kind of end that was ordered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndOrder {
    /// TERM, INT: the worker is killed at this time.
    Stop(Instant),
    /// QUIT: requests are finished, however long they take.
    Quit,
}

struct Master {
    input: Input,
    embedded: Option<RecordedTexts>,
    secrets: Option<ReadFile>,
    writer: Writer,
    current: State,
    /// The files of certificates that are looked at for a change.
    watch: Watch,
    /// A configuration that the worker is building, and the time at which the master stops waiting for it.
    pending: Option<(State, Instant)>,
    /// The time at which the master stops waiting for a worker that the last reload has started.
    takeover: Option<Instant>,
    /// Another HUP has come meanwhile.
    reload_again: bool,
    serving: ServingWorker,
    /// Workers that finish their requests after `WINCH`.
    leaving: Vec<Process>,
    backoff: Backoff,
    number: u64,
    ending: Option<EndOrder>,
    /// The first worker has not reported yet that it serves.
    starting: bool,
    written_pid: Option<String>,
    on_ready: Option<Box<dyn FnOnce()>>,
    daemon: Option<Ready>,
    /// Whether no terminal can have sent a signal (`daemon on`).
    is_daemon: bool,
    upgrade: Upgrade,
    /// The message boxes of the workers, from the first time on that a configuration listens for QUIC.
    quic_boxes: Option<QuicBoxes>,
    manager: ServiceManager,
    /// Processes that wait for the result of a reload.
    reload_waiters: ReloadWaiters,
    /// The worker was asked whether its loops live, and has not answered yet.
    asked: bool,
    /// A worker that was started again builds its configuration, and has until this time for it.
    building: Option<Instant>,
}

/// Runs until the end was ordered. `Err`: the master could not start, or not continue; the errors have been reported.
pub fn run(start: Start) -> Result<(), ()> {
    let Start { input, embedded, secrets, mut inherited, log, on_ready } = start;
    let told = |error: Error| {
        log.write(Level::Alert, None, format_args!("{error}"));
    };
    if let Some(limit) = LowLimit::untold() {
        log.write(Level::Warn, None, format_args!("{limit}"));
    }
    signals::survive_stray().map_err(Error::call("sigaction()")).map_err(told)?;
    let draft = state::read(&input, embedded.as_ref(), <_>::default(), secrets.clone(), |failure| {
        console::tell_failure(&log, failure);
    });
    let draft = draft.map_err(drop)?;
    let main = draft.configuration.main();
    let (own_process, detach) = (main.master_process, main.daemon);
    // A new binary is a child of the old one, and stays that.
    let detaches = detach && inherited.old_binary.is_none();
    let daemon = match detaches.then(daemon::detach).transpose().map_err(told)? {
        Some(daemon::DaemonSide::Caller(wait)) => return if wait.wait() { Ok(()) } else { Err(()) },
        Some(daemon::DaemonSide::Daemon(ready)) => Some(ready),
        None => None,
    };
    if own_process {
        show_title();
        oom_score::protect();
    }
    let signals = [SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGCHLD, SIGTERM, SIGINT, SIGQUIT];
    let signals = Signals::new(&signals).map_err(Error::call("sigaction()")).map_err(told)?;
    let writer = Writer::direct();
    let adopted = Some(std::mem::take(&mut inherited.listeners));
    let quic_secret = inherited.quic_secret.take().map_or_else(quic_secret::make, Ok);
    let quic_secret = quic_secret.map_err(Error::call("getrandom()")).map_err(told)?;
    let opening = Opening { number: 1, input: &input, before: None, adopted, quic_secret, writer: &writer, log: &log };
    let opened = draft.open(opening);
    let own_log = opened.as_ref().map_or(&log, |opened| &opened.log);
    inherited.told.iter().for_each(|(level, line)| own_log.write(*level, None, format_args!("{line}")));
    let current = opened.map_err(drop)?;
    for line in inherited.unused(&current.listeners) {
        current.log.write(Level::Warn, None, format_args!("{line}"));
    }
    let serving = if own_process {
        // The caller's stderr is used until the server serves; the worker lives longer than that.
        let stderr = daemon.as_ref().and_then(|_| daemon::stderr(current.log_name.as_deref()));
        Process::spawn(&current, stderr).map(|process| ServingWorker::Process(Box::new(process)))
    } else {
        Ok(ServingWorker::Here(Box::new(Worker::new(false))))
    };
    let serving = serving.map_err(told)?;
    // `freerun serve` reads nothing again.
    let reload_waiters = if embedded.is_none() { ReloadWaiters::listen() } else { ReloadWaiters::default() };
    let mut master = Master {
        input,
        embedded,
        writer,
        watch: Watch::of(&current, secrets.clone()),
        secrets,
        current,
        pending: None,
        takeover: None,
        reload_again: false,
        serving,
        leaving: Vec::new(),
        backoff: Backoff::default(),
        number: 1,
        ending: None,
        starting: true,
        written_pid: None,
        on_ready,
        daemon,
        is_daemon: detach && own_process,
        upgrade: Upgrade::of(inherited.old_binary),
        quic_boxes: inherited.quic_boxes,
        manager: ServiceManager::of_environment(),
        reload_waiters,
        asked: false,
        building: None,
    };
    let result = master.begin(inherited.hand_over).and_then(|()| master.follow(signals));
    master.finish();
    result.map_err(|error| log.write(Level::Emerg, None, format_args!("{error}")))
}

/// Has ps(1) show that this is a master, with its command line, as nginx does.
fn show_title() {
    // Without `/proc` it is not known where the kernel looks.
    if title::prepare().is_ok() {
        let line: Vec<_> = title::arguments().iter().map(|argument| argument.as_bytes()).collect();
        title::set(&[&b"freerun: master process "[..], &line.join(&b' ')].concat());
    }
}

impl Master {
    fn log(&self, level: Level, message: std::fmt::Arguments<'_>) {
        self.current.log.write(level, None, message);
    }

    /// Gives the first configuration to the worker, with the way to the old binary's worker if there is one.
    fn begin(&mut self, hand_over: Option<OwnedFd>) -> Result<(), Error> {
        let version = (crate::version::VERSION, crate::version::NGINX_VERSION);
        self.log(Level::Notice, format_args!("freerun/{} (nginx/{})", version.0, version.1));
        self.give_boxes(self.current.listens_for_quic());
        match &mut self.serving {
            ServingWorker::Here(worker) => {
                worker.take_over(hand_over);
                worker.apply(&self.current.bundle, self.current.duplicates()?)?;
                self.begun()
            }
            ServingWorker::Process(process) => {
                if let Some(predecessor) = hand_over {
                    process.channel.send(&ToWorker::Predecessor, &[predecessor.as_fd()])?;
                }
                process.send_bundle(&self.current.bundle, &self.current.descriptors())?;
                self.log(Level::Notice, format_args!("start worker processes"));
                self.log_started();
                self.give_memory_back();
                Ok(())
            }
            ServingWorker::Nobody(_) => Ok(()),
        }
    }

    /// Does the work that follows when requests are answered: the pid file, and the report to the caller.
    fn begun(&mut self) -> Result<(), Error> {
        self.starting = false;
        self.update_pid_file()?;
        if let Some(on_ready) = self.on_ready.take() {
            on_ready();
        }
        if let Some(daemon) = self.daemon.take() {
            daemon.tell(self.current.log_name.as_deref());
        }
        self.manager.ready(self.current.bundle.number);
        Ok(())
    }

    /// Puts the pid file where the current configuration wants it.
    fn update_pid_file(&mut self) -> Result<(), Error> {
        // While there is a new binary, the file has another name.
        if self.upgrade.new_binary().is_some() || self.written_pid == self.current.pid_path {
            return Ok(());
        }
        if let Some(path) = &self.current.pid_path {
            pidfile::write(path)?;
        }
        let old = std::mem::replace(&mut self.written_pid, self.current.pid_path.clone());
        self.remove_pid_file(old);
        Ok(())
    }

    fn remove_pid_file(&self, path: Option<String>) {
        if let Some(Err(error)) = path.map(|path| pidfile::remove(&path)) {
            self.log(Level::Alert, format_args!("{error}"));
        }
    }

    /// Handles signals and the worker until the end.
    fn follow(&mut self, mut signals: Signals) -> Result<(), Error> {
        loop {
            let heard = {
                let mut fds = vec![PollFd::new(&signals, PollFlags::IN)];
                if let ServingWorker::Process(process) = &self.serving {
                    fds.push(PollFd::from_borrowed_fd(process.channel.as_fd(), PollFlags::IN));
                }
                let timeout = self.timeout().and_then(|timeout| Timespec::try_from(timeout).ok());
                match poll(&mut fds, timeout.as_ref()) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(Error::call("poll()")(error)),
                }
                fds.get(1).is_some_and(|fd| !fd.revents().is_empty())
            };
            for signal in signals.take() {
                self.signal(signal)?;
            }
            if heard {
                self.hear()?;
            }
            if let ServingWorker::Here(worker) = &mut self.serving {
                let closed = worker.take_closed();
                self.close_removed(&closed);
            }
            self.look_after_new_binary()?;
            self.look_after_worker()?;
            self.look_at_certificates();
            self.look_whether_it_lives();
            if self.ended() {
                return Ok(());
            }
            if self.reload_again && self.is_settled() {
                self.reload_again = false;
                self.reload()?;
            }
            if self.upgrade.wanted && self.is_settled() {
                self.change_binary();
            }
        }
    }

    /// The time until the next deadline.
    fn timeout(&self) -> Option<Duration> {
        let now = Instant::now();
        let mut times: Vec<Instant> = Vec::new();
        match (&self.serving, self.ending) {
            (_, Some(EndOrder::Stop(kill))) => times.push(kill),
            (ServingWorker::Nobody(start), None) if !self.upgrade.paused => times.push(*start),
            (ServingWorker::Here(worker), _) => times.extend(worker.step().map(|step| now + step)),
            _ => {}
        }
        times.extend(self.pending.as_ref().map(|(_, limit)| *limit));
        times.extend(self.takeover);
        times.extend(if self.is_settled() { self.watch.next() } else { None });
        times.extend(self.manager.next_look());
        times.iter().min().map(|time| time.saturating_duration_since(now))
    }

    fn signal(&mut self, signal: i32) -> Result<(), Error> {
        let name = signal_hook::low_level::signal_name(signal).unwrap_or("unknown");
        let changes = self.may_change_binary();
        let note = match signal {
            SIGHUP if self.embedded.is_none() => ", reconfiguring",
            SIGHUP => ", exiting",
            SIGUSR1 => ", reopening logs",
            SIGTERM | SIGINT => ", exiting",
            SIGQUIT => ", shutting down",
            SIGUSR2 if changes => ", changing binary",
            SIGUSR2 => ", ignoring",
            // A terminal sends it when its size changes: only a daemon can be sure that it is meant, as in nginx.
            SIGWINCH if self.is_daemon => ", stop accepting connections",
            _ => "",
        };
        self.log(Level::Notice, format_args!("signal {signal} ({name}) received{note}"));
        match signal {
            // `freerun serve` has no files to read again; its terminal is gone.
            SIGHUP if self.embedded.is_some() => self.stop(),
            SIGHUP if self.ending.is_some() => {
                self.reload_waiters.begin();
                self.reload_waiters.end(Err("the server is shutting down"));
            }
            SIGHUP if self.upgrade.new_binary().is_some() => {
                self.reload_waiters.begin();
                self.roll_back()?;
                self.reload_waiters.note("the configuration is not read while there is a new binary".to_owned());
                self.reload_waiters.end(Ok(()));
            }
            SIGHUP => self.reload_again = true,
            SIGUSR1 => self.reopen(),
            SIGUSR2 if changes => self.upgrade.wanted = true,
            SIGUSR2 => self.refuse_to_change_binary(),
            SIGWINCH if self.is_daemon => {
                self.change_binary_first();
                self.pause();
            }
            SIGTERM | SIGINT => self.stop(),
            SIGQUIT => {
                self.change_binary_first();
                self.quit();
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether the server serves by the configuration that the master has, and nothing else is on its way.
    fn is_settled(&self) -> bool {
        !self.starting && self.pending.is_none() && self.takeover.is_none() && self.ending.is_none()
    }

    /// Looks for certificates that were renewed, and has them used.
    fn look_at_certificates(&mut self) {
        // A configuration that is on its way has its own files.
        if !self.is_settled() {
            return;
        }
        let secrets = &mut self.current.bundle.recorded.secrets;
        let LookResult { renewed, refused } = self.watch.look(Instant::now(), secrets);
        // A worker that is started from now on begins with the new ones.
        secrets.extend(renewed.clone());
        for why in refused {
            self.log(Level::Error, format_args!("{why}; the certificate in use stays"));
        }
        if renewed.is_empty() {
            return;
        }
        let sent = match &mut self.serving {
            ServingWorker::Here(worker) => {
                worker.renew(&renewed);
                Ok(())
            }
            ServingWorker::Process(process) => process.channel.send(&ToWorker::Renew(renewed), &[]),
            ServingWorker::Nobody(_) => Ok(()),
        };
        if let Err(error) = sent {
            self.log(Level::Alert, format_args!("{error}"));
        }
    }

    fn reopen(&mut self) {
        self.log(Level::Notice, format_args!("reopening logs"));
        self.current.reopen(&self.writer);
        if let Some((pending, _)) = &mut self.pending {
            // The two configurations share the logs that both have.
            pending.reopen(&self.writer);
        }
        let names = self.current.bundle.logs.clone();
        let sent = match &mut self.serving {
            ServingWorker::Here(worker) => {
                let copies = self.current.log_descriptors().map(|fd| fd.try_clone_to_owned()).collect();
                let copies: io::Result<Vec<_>> = copies;
                copies.map(|fds| worker.reopen(&names, fds)).map_err(Error::call("dup()"))
            }
            ServingWorker::Process(process) => {
                let fds: Vec<_> = self.current.log_descriptors().collect();
                process.channel.send(&ToWorker::Reopen(names.clone()), &fds)
            }
            ServingWorker::Nobody(_) => Ok(()),
        };
        if let Err(error) = sent {
            self.log(Level::Alert, format_args!("{error}"));
        }
        self.reopen_for_leaving(&names);
    }

    fn stop(&mut self) {
        if matches!(self.ending, Some(EndOrder::Stop(_))) {
            return;
        }
        self.tell_of_end();
        self.ending = Some(EndOrder::Stop(Instant::now() + STOP_PATIENCE));
        // The worker may take long to end, as the kernel does not let go of a thread that waits for a disk.
        self.close_listeners();
        let serving = if let ServingWorker::Process(process) = &self.serving { Some(&**process) } else { None };
        for process in serving.into_iter().chain(&self.leaving) {
            // A worker that does not get the message is killed when its time is over.
            let _ = process.channel.send(&ToWorker::Stop, &[]);
        }
    }

    fn quit(&mut self) {
        if self.ending.is_some() {
            return;
        }
        self.tell_of_end();
        self.ending = Some(EndOrder::Quit);
        self.close_listeners();
        let others = self.upgrade.others();
        match &mut self.serving {
            ServingWorker::Here(worker) => worker.drain(others.old_binary || others.new_binary),
            ServingWorker::Process(process) => {
                let is_replaced = others.old_binary || others.new_binary;
                let _ = process.channel.send(&ToWorker::Quit { is_replaced }, &[]);
            }
            ServingWorker::Nobody(_) => {}
        }
    }

    /// Closes the listening sockets. When the worker stops accepting, new connections are refused and do not wait; this includes
    /// the sockets that the worker is about to use. It stops when these here are closed: what waits in a socket that nobody
    /// accepts from is reset.
    fn close_listeners(&mut self) {
        let others = self.upgrade.others();
        if let Some((pending, _)) = &mut self.pending {
            pending.listeners.unlink(Some(&self.current.listeners), others, &self.current.log);
            pending.listeners = Listeners::default();
        }
        self.current.listeners.unlink(None, others, &self.current.log);
        self.current.listeners = Listeners::default();
        self.current.removed = Listeners::default();
    }

    /// Tells the service manager that this process ends: with a new binary, that one is the server from now on.
    fn tell_of_end(&self) {
        match self.upgrade.new_binary() {
            Some(new) => self.manager.main_process(new),
            None => self.manager.stopping(),
        }
    }

    /// Whether the ordered end is complete.
    fn ended(&mut self) -> bool {
        if !self.leaving.is_empty() {
            return false;
        }
        match (&self.serving, self.ending) {
            (_, None) => false,
            (ServingWorker::Nobody(_), Some(_)) | (ServingWorker::Here(_), Some(EndOrder::Stop(_))) => true,
            (ServingWorker::Here(worker), Some(EndOrder::Quit)) => worker.drained(),
            (ServingWorker::Process(_), Some(_)) => false,
        }
    }

    /// Removes the pid file and the files of sockets.
    fn finish(&mut self) {
        match std::mem::replace(&mut self.serving, ServingWorker::Nobody(Instant::now())) {
            ServingWorker::Here(worker) => worker.stop(),
            ServingWorker::Process(mut process) => {
                process.kill();
                self.tell_gone(process.number);
            }
            ServingWorker::Nobody(_) => {}
        }
        for mut process in std::mem::take(&mut self.leaving) {
            process.kill();
            self.tell_gone(process.number);
        }
        let written = self.written_pid.take();
        self.remove_pid_file(written);
        self.current.listeners.unlink(None, self.upgrade.others(), &self.current.log);
        self.log(Level::Notice, format_args!("exit"));
    }
}
