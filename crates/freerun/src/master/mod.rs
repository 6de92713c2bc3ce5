//! The master: reads and checks configurations, owns sockets and logs, keeps a worker alive, handles signals.

mod daemon;
pub mod listeners;
pub mod signals;
mod state;
mod supervise;
mod watch;

use std::io;
use std::time::{Duration, Instant};

use freerun_runtime::log::{ErrorLog, Level, Writer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};

use freerun_serve::tls::files::ReadFile;
use freerun_sys::memory;

use crate::bundle::{FromWorker, Input, ToWorker};
use crate::error::Error;
use crate::loader::Recorded;
use crate::worker::{LOG_PATIENCE, Worker};
use crate::{console, pidfile};
use daemon::Ready;
use listeners::Listeners;
use signals::Signals;
use state::{Opening, State};
use supervise::{Backoff, Process, describe};
use watch::{Looked, Watch};

/// How long a worker that was told to stop may take before it is killed: longer than it waits for its logs.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

const _: () = assert!(STOP_PATIENCE.as_millis() > LOG_PATIENCE.as_millis());

/// How long a worker may take to build a configuration.
const BUILD_PATIENCE: Duration = Duration::from_secs(120);

/// The parameters that a master starts with.
pub struct Start {
    /// How to read the configuration.
    pub input: Input,
    /// The texts themselves, if they are not on the disk.
    pub embedded: Option<Recorded>,
    /// What reads certificates and keys, if they are not on the disk either.
    pub secrets: Option<ReadFile>,
    /// Sockets that are already bound.
    pub adopted: Option<Listeners>,
    /// The log until the configuration has one.
    pub log: ErrorLog,
    /// Called when the server answers requests.
    pub on_ready: Option<Box<dyn FnOnce()>>,
}

/// The worker that serves.
enum Serving {
    /// A worker in this process: `master_process off`.
    Here(Box<Worker>),
    /// A worker process.
    Process(Box<Process>),
    /// There is none at the moment; the next one starts at this time.
    Nobody(Instant),
}

/// The kind of end that was ordered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// TERM, INT: the worker is killed at this time.
    Stop(Instant),
    /// QUIT: requests are finished, however long they take.
    Quit,
}

struct Master {
    input: Input,
    embedded: Option<Recorded>,
    secrets: Option<ReadFile>,
    writer: Writer,
    current: State,
    /// The files of certificates that are looked at for a change.
    watch: Watch,
    /// A configuration that the worker is building, and the time at which the master stops waiting for it.
    pending: Option<(State, Instant)>,
    /// Another HUP has come meanwhile.
    reload_again: bool,
    serving: Serving,
    backoff: Backoff,
    number: u64,
    ending: Option<Ending>,
    /// The first worker has not reported yet that it serves.
    starting: bool,
    written_pid: Option<String>,
    on_ready: Option<Box<dyn FnOnce()>>,
    daemon: Option<Ready>,
}

/// Runs until the end was ordered. `Err`: the master could not start, or not continue; the errors have been reported.
pub fn run(start: Start) -> Result<(), ()> {
    let Start { input, embedded, secrets, adopted, log, on_ready } = start;
    let draft = state::read(&input, embedded.as_ref(), <_>::default(), secrets.clone(), |failure| {
        console::tell_failure(&log, failure);
    })?;
    let main = draft.configuration.main();
    let (own_process, detach) = (main.master_process, main.daemon);
    let told = |error: Error| {
        log.write(Level::Alert, None, format_args!("{error}"));
    };
    let daemon = match detach.then(daemon::detach).transpose().map_err(told)? {
        Some(daemon::Side::Caller(wait)) => return if wait.wait() { Ok(()) } else { Err(()) },
        Some(daemon::Side::Daemon(ready)) => Some(ready),
        None => None,
    };
    let signals = [SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGCHLD, SIGTERM, SIGINT, SIGQUIT];
    let signals = Signals::new(&signals).map_err(Error::call("sigaction()")).map_err(told)?;
    let writer = Writer::direct();
    let opening = Opening { number: 1, input: &input, before: None, adopted, loops: None, writer: &writer, log: &log };
    let current = draft.open(opening)?;
    let serving = match own_process {
        true => {
            // The caller's stderr is used until the server serves; the worker lives longer than that.
            let stderr = daemon.as_ref().and_then(|_| daemon::stderr(current.log_name.as_deref()));
            Process::spawn(&current.environment, stderr).map(|process| Serving::Process(Box::new(process)))
        }
        false => Ok(Serving::Here(Box::new(Worker::new(false)))),
    };
    let serving = serving.map_err(told)?;
    let mut master = Master {
        input,
        embedded,
        writer,
        watch: Watch::of(&current, secrets.clone()),
        secrets,
        current,
        pending: None,
        reload_again: false,
        serving,
        backoff: Backoff::default(),
        number: 1,
        ending: None,
        starting: true,
        written_pid: None,
        on_ready,
        daemon,
    };
    let result = master.begin().and_then(|()| master.follow(signals));
    master.finish();
    result.map_err(|error| log.write(Level::Emerg, None, format_args!("{error}")))
}

impl Master {
    fn log(&self, level: Level, message: std::fmt::Arguments<'_>) {
        self.current.log.write(level, None, message);
    }

    /// Gives the first configuration to the worker.
    fn begin(&mut self) -> Result<(), Error> {
        let version = (crate::version::VERSION, crate::version::NGINX_VERSION);
        self.log(Level::Notice, format_args!("freerun/{} (nginx/{})", version.0, version.1));
        match &mut self.serving {
            Serving::Here(worker) => {
                worker.apply(&self.current.bundle, self.current.duplicates()?)?;
                self.begun()
            }
            Serving::Process(process) => {
                process.send_bundle(&self.current.bundle, &self.current.descriptors())?;
                self.log(Level::Notice, format_args!("start worker processes"));
                self.log_started();
                self.give_memory_back();
                Ok(())
            }
            Serving::Nobody(_) => Ok(()),
        }
    }

    /// To read a configuration and to send it takes much memory, of which the master keeps little.
    fn give_memory_back(&self) {
        // A worker in this process has loops, which would wait for this.
        if !matches!(self.serving, Serving::Here(_)) {
            memory::give_back();
        }
    }

    fn log_started(&self) {
        if let Serving::Process(process) = &self.serving {
            self.log(Level::Notice, format_args!("start worker process {}", process.id()));
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
        Ok(())
    }

    /// Puts the pid file where the current configuration wants it.
    fn update_pid_file(&mut self) -> Result<(), Error> {
        if self.written_pid == self.current.pid_path {
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
                if let Serving::Process(process) = &self.serving {
                    fds.push(PollFd::from_borrowed_fd(std::os::fd::AsFd::as_fd(&process.channel), PollFlags::IN));
                }
                let timeout = self.timeout().and_then(|timeout| Timespec::try_from(timeout).ok());
                match poll(&mut fds, timeout.as_ref()) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(Error::call("poll()")(error)),
                }
                fds.get(1).is_some_and(|fd| !fd.revents().is_empty())
            };
            for signal in signals.take() {
                self.signal(signal);
            }
            if heard {
                self.hear()?;
            }
            self.look_after_worker()?;
            self.look_at_certificates();
            if self.ended() {
                return Ok(());
            }
            if self.reload_again && self.pending.is_none() && !self.starting && self.ending.is_none() {
                self.reload_again = false;
                self.reload();
            }
        }
    }

    /// The time until the next deadline.
    fn timeout(&self) -> Option<Duration> {
        let now = Instant::now();
        let mut times: Vec<Instant> = Vec::new();
        match (&self.serving, self.ending) {
            (_, Some(Ending::Stop(kill))) => times.push(kill),
            (Serving::Nobody(start), None) => times.push(*start),
            (Serving::Here(worker), _) => times.extend(worker.step().map(|step| now + step)),
            _ => {}
        }
        times.extend(self.pending.as_ref().map(|(_, limit)| *limit));
        times.extend(if self.may_look() { self.watch.next() } else { None });
        times.iter().min().map(|time| time.saturating_duration_since(now))
    }

    fn signal(&mut self, signal: i32) {
        let name = signal_hook::low_level::signal_name(signal).unwrap_or("unknown");
        let note = match signal {
            SIGHUP if self.embedded.is_none() => ", reconfiguring",
            SIGHUP => ", exiting",
            SIGUSR1 => ", reopening logs",
            SIGTERM | SIGINT => ", exiting",
            SIGQUIT => ", shutting down",
            SIGUSR2 | SIGWINCH => ", which is not supported yet",
            _ => "",
        };
        let level = if matches!(signal, SIGUSR2 | SIGWINCH) { Level::Warn } else { Level::Notice };
        self.log(level, format_args!("signal {signal} ({name}) received{note}"));
        match signal {
            // `freerun serve` has no files to read again; its terminal is gone.
            SIGHUP if self.embedded.is_some() => self.stop(),
            SIGHUP if self.ending.is_none() => self.reload_again = true,
            SIGUSR1 => self.reopen(),
            SIGTERM | SIGINT => self.stop(),
            SIGQUIT => self.quit(),
            _ => {}
        }
    }

    /// Whether changes of certificates are of interest: a configuration that is on its way has its own files.
    fn may_look(&self) -> bool {
        !self.starting && self.pending.is_none() && self.ending.is_none()
    }

    /// Looks for certificates that were renewed, and has them used.
    fn look_at_certificates(&mut self) {
        if !self.may_look() {
            return;
        }
        let secrets = &mut self.current.bundle.recorded.secrets;
        let Looked { renewed, refused } = self.watch.look(Instant::now(), secrets);
        // A worker that is started from now on begins with the new ones.
        secrets.extend(renewed.clone());
        for why in refused {
            self.log(Level::Error, format_args!("{why}; the certificate in use stays"));
        }
        if renewed.is_empty() {
            return;
        }
        let sent = match &mut self.serving {
            Serving::Here(worker) => {
                worker.renew(&renewed);
                Ok(())
            }
            Serving::Process(process) => process.channel.send(&ToWorker::Renew(renewed), &[]),
            Serving::Nobody(_) => Ok(()),
        };
        if let Err(error) = sent {
            self.log(Level::Alert, format_args!("{error}"));
        }
    }

    fn reload(&mut self) {
        self.log(Level::Notice, format_args!("reconfiguring"));
        let log = self.current.log.clone();
        let tell = |failure: &_| console::log_failure(&log, failure);
        let earlier = (self.current.bundle.recorded.secrets.clone(), self.current.inherited.clone());
        let Ok(draft) = state::read(&self.input, self.embedded.as_ref(), earlier, self.secrets.clone(), tell) else {
            return;
        };
        let wanted = draft.configuration.main().worker_processes.count() as u32;
        let loops = self.current.bundle.loops;
        if wanted != loops {
            let what = format_args!("worker_processes {wanted} takes effect at the next start; {loops} until then");
            log.write(Level::Warn, None, what);
        }
        let number = self.number + 1;
        let opening = Opening {
            number,
            input: &self.input,
            before: Some(&self.current),
            adopted: None,
            loops: Some(loops),
            writer: &self.writer,
            log: &log,
        };
        let Ok(state) = draft.open(opening) else { return };
        self.number = number;
        if state.bundle.identity != self.current.bundle.identity {
            log.write(Level::Warn, None, format_args!("another \"user\" takes effect when a worker is started"));
        }
        let told = match &mut self.serving {
            Serving::Here(worker) => {
                let applied = state.duplicates().and_then(|fds| worker.apply(&state.bundle, fds));
                self.settle(state, applied.map_err(|error| error.to_string()));
                return;
            }
            Serving::Process(process) => process.send_bundle(&state.bundle, &state.descriptors()),
            // The master has checked the configuration; the next worker starts with it.
            Serving::Nobody(_) => {
                self.settle(state, Ok(()));
                return;
            }
        };
        match told {
            Ok(()) => self.pending = Some((state, Instant::now() + BUILD_PATIENCE)),
            Err(error) => self.settle(state, Err(error.to_string())),
        }
    }

    /// Notes that a configuration is in use from now on, or that it failed.
    fn settle(&mut self, state: State, result: Result<(), String>) {
        if let Err(error) = result {
            self.log(Level::Emerg, format_args!("the new configuration is not used: {error}"));
            state.listeners.unlink(Some(&self.current.listeners), &self.current.log);
            drop(state);
            self.give_memory_back();
            return;
        }
        self.watch = Watch::of(&state, self.secrets.clone());
        let old = std::mem::replace(&mut self.current, state);
        // Dropping the old configuration closes the sockets that are not needed any more: the worker has closed them
        // already.
        old.listeners.unlink(Some(&self.current.listeners), &self.current.log);
        drop(old);
        self.give_memory_back();
        if let Err(error) = self.update_pid_file() {
            self.log(Level::Emerg, format_args!("{error}"));
        }
        self.log(Level::Notice, format_args!("configuration {} is in use", self.current.bundle.number));
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
            Serving::Here(worker) => {
                let copies = self.current.log_descriptors().map(|fd| fd.try_clone_to_owned()).collect();
                let copies: io::Result<Vec<_>> = copies;
                copies.map(|fds| worker.reopen(&names, fds)).map_err(Error::call("dup()"))
            }
            Serving::Process(process) => {
                let fds: Vec<_> = self.current.log_descriptors().collect();
                process.channel.send(&ToWorker::Reopen(names), &fds)
            }
            Serving::Nobody(_) => Ok(()),
        };
        if let Err(error) = sent {
            self.log(Level::Alert, format_args!("{error}"));
        }
    }

    fn stop(&mut self) {
        if matches!(self.ending, Some(Ending::Stop(_))) {
            return;
        }
        self.ending = Some(Ending::Stop(Instant::now() + STOP_PATIENCE));
        if let Serving::Process(process) = &self.serving {
            // A worker that does not get the message is killed when its time is over.
            let _ = process.channel.send(&ToWorker::Stop, &[]);
        }
    }

    fn quit(&mut self) {
        if self.ending.is_some() {
            return;
        }
        self.ending = Some(Ending::Quit);
        // When the worker stops accepting, new connections are refused and do not wait; this includes the sockets that the
        // worker is about to use. It stops when these here are closed: what waits in a socket that nobody accepts from is reset.
        if let Some((pending, _)) = &mut self.pending {
            pending.listeners.unlink(Some(&self.current.listeners), &self.current.log);
            pending.listeners = Listeners::default();
        }
        self.current.listeners.unlink(None, &self.current.log);
        self.current.listeners = Listeners::default();
        match &mut self.serving {
            Serving::Here(worker) => worker.drain(),
            Serving::Process(process) => {
                let _ = process.channel.send(&ToWorker::Quit, &[]);
            }
            Serving::Nobody(_) => {}
        }
    }

    /// Handles a message from the worker.
    fn hear(&mut self) -> Result<(), Error> {
        let Serving::Process(process) = &self.serving else { return Ok(()) };
        let worker = process.id();
        match process.channel.receive::<FromWorker>() {
            Ok((FromWorker::Applied { number, result }, _)) => {
                if let Some((state, _)) = self.pending.take_if(|(state, _)| state.bundle.number == number) {
                    self.settle(state, result);
                } else if self.starting {
                    result.map_err(Error::Configuration)?;
                    self.begun()?;
                } else if let Err(error) = result {
                    self.log(Level::Alert, format_args!("worker process {worker}: {error}"));
                    self.worker_ended()?;
                }
                Ok(())
            }
            // The worker's end of the socket closes when it dies; SIGCHLD may come a moment later.
            Err(Error::Gone) => self.worker_ended(),
            Err(error) => {
                self.log(Level::Alert, format_args!("worker process {worker}: {error}"));
                self.worker_ended()
            }
        }
    }

    /// Handles deadlines and the end of the worker.
    fn look_after_worker(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        if let Serving::Process(process) = &mut self.serving
            && let Some(status) = process.exited()
        {
            self.note_exit(status.into())?;
        }
        if self.pending.as_ref().is_some_and(|(_, limit)| now >= *limit) {
            self.log(Level::Alert, format_args!("the worker does not answer"));
            self.worker_ended()?;
        }
        match (&self.serving, self.ending) {
            (Serving::Process(_), Some(Ending::Stop(kill))) if now >= kill => self.worker_ended(),
            (Serving::Nobody(start), None) if now >= *start => self.restart(),
            _ => Ok(()),
        }
    }

    /// Makes sure that the worker has ended, and logs it.
    fn worker_ended(&mut self) -> Result<(), Error> {
        let Serving::Process(process) = &mut self.serving else { return Ok(()) };
        // A worker that ends in order closes its socket before; it gets the time to exit with its code.
        let deadline = Instant::now() + Duration::from_millis(200);
        let mut status = process.exited();
        while status.is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
            status = process.exited();
        }
        let status = status.or_else(|| process.kill());
        self.note_exit(status)
    }

    fn note_exit(&mut self, status: Option<std::process::ExitStatus>) -> Result<(), Error> {
        let Serving::Process(process) = &self.serving else { return Ok(()) };
        let what = status.map_or_else(|| "is gone".to_owned(), describe);
        let level = if status.is_some_and(|status| status.code().is_some()) { Level::Notice } else { Level::Alert };
        self.log(level, format_args!("worker process {} {what}", process.id()));
        let pause = self.backoff.after_process(process);
        self.serving = Serving::Nobody(Instant::now() + pause);
        if self.starting && self.ending.is_none() {
            return Err(Error::Configuration("the worker ended before it served".into()));
        }
        if let Some((state, _)) = self.pending.take() {
            self.settle(state, Err("the worker ended while it read it".into()));
        }
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Error> {
        let started = Process::spawn(&self.current.environment, None).and_then(|process| {
            process.send_bundle(&self.current.bundle, &self.current.descriptors())?;
            Ok(process)
        });
        match started {
            Ok(process) => {
                self.serving = Serving::Process(Box::new(process));
                self.log_started();
                self.give_memory_back();
            }
            Err(error) => {
                self.log(Level::Alert, format_args!("{error}"));
                self.serving = Serving::Nobody(Instant::now() + self.backoff.after(Duration::ZERO));
            }
        }
        Ok(())
    }

    /// Whether the ordered end is complete.
    fn ended(&mut self) -> bool {
        match (&self.serving, self.ending) {
            (_, None) => false,
            (Serving::Nobody(_), Some(_)) | (Serving::Here(_), Some(Ending::Stop(_))) => true,
            (Serving::Here(worker), Some(Ending::Quit)) => worker.drained(),
            (Serving::Process(_), Some(_)) => false,
        }
    }

    /// Removes the pid file and the files of sockets.
    fn finish(&mut self) {
        match std::mem::replace(&mut self.serving, Serving::Nobody(Instant::now())) {
            Serving::Here(worker) => worker.stop(),
            Serving::Process(mut process) => {
                process.kill();
            }
            Serving::Nobody(_) => {}
        }
        let written = self.written_pid.take();
        self.remove_pid_file(written);
        self.current.listeners.unlink(None, &self.current.log);
        self.log(Level::Notice, format_args!("exit"));
    }
}
